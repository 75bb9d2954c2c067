"""/permissions: presets, what is in force, what an administrator fixed, and taking grants back."""

from __future__ import annotations

import msgspec

from spindle.frontends.tui.commands import running
from spindle.policy.rulebook import RuleBook
from tui.commands.conftest import OpenDesk
from tui.fake_desk import FakeDesk


def settings(desk: FakeDesk) -> tuple[str, str]:
    assert desk.thread is not None
    return desk.thread.settings.sandbox.mode, desk.thread.settings.approval_policy


async def test_the_list_says_what_is_in_force_and_marks_it(open_desk: OpenDesk) -> None:
    desk = await open_desk('sandbox_mode = "workspace-write"\n')
    desk.hands = [("1",), ("esc",)]
    await running.run(desk, "/permissions")
    (rows,) = desk.views
    assert rows[0] == "Permissions" and "In force: workspace-write" in rows[1]
    assert any("2. auto (current)" in row for row in rows)
    assert settings(desk) == ("read-only", "on-request")
    assert desk.said[-1].startswith("Permissions read-only from now on, for this session: read-only; on-request")
    await running.run(desk, "/approvals")
    assert any("1. read-only (current)" in row for row in desk.views[1])


async def test_full_access_warns_and_no_is_highlighted(desk: FakeDesk) -> None:
    desk.hands = [("3",), ("enter",), ("3",), ("2",)]
    await running.run(desk, "/permissions")
    assert settings(desk)[0] == "read-only" and desk.submitted[-1].__class__.__name__ == "ListGrants"
    assert "› 1. No, leave it as it is" in desk.views[1]
    await running.run(desk, "/permissions")
    assert settings(desk) == ("danger-full-access", "never")


async def test_extra_folders_and_network_of_the_person_come_with_auto(open_desk: OpenDesk) -> None:
    desk = await open_desk(
        'sandbox_mode = "read-only"\n[sandbox_workspace_write]\nwritable_roots = ["/opt/x"]\nnetwork_access = true\n'
    )
    await running.run(desk, "/permissions auto")
    assert desk.thread is not None
    assert desk.thread.settings.sandbox.writable_roots == ("/opt/x",) and desk.thread.settings.sandbox.network_access


async def test_what_an_administrator_fixed_cannot_be_chosen(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    limited = msgspec.structs.replace(desk.config, allowed_sandbox_modes=("read-only", "workspace-write"))
    desk.request = msgspec.structs.replace(desk.request, config=limited)
    desk.hands = [("3", "esc")]
    await running.run(desk, "/permissions")
    assert "the administrator allows only read-only, workspace-write" in " ".join(" ".join(desk.views[0]).split())
    await running.run(desk, "/permissions full-access")
    assert desk.failed == ["full-access cannot be chosen: the administrator allows only read-only, workspace-write"]
    limited = msgspec.structs.replace(limited, allowed_approval_policies=("untrusted",))
    desk.request = msgspec.structs.replace(desk.request, config=limited)
    await running.run(desk, "/permissions auto")
    assert desk.failed[-1] == "auto cannot be chosen: the administrator allows only the approval policies untrusted"
    assert settings(desk)[0] == "read-only"


async def test_an_unknown_preset_is_named(desk: FakeDesk) -> None:
    await running.run(desk, "/permissions atuo")
    assert desk.failed == ["unknown preset 'atuo'; did you mean auto?"]


async def test_what_was_granted_is_listed_and_taken_back(desk: FakeDesk) -> None:
    RuleBook(desk.config.home).allow(["git", "push"])
    await desk.reopen()
    desk.hands = [("4",), ("1",), ("esc",)]
    await running.run(desk, "/permissions")
    assert any("4. what you granted (1)" in row for row in desk.views[0])
    assert any("git push" in row for row in desk.views[1])
    assert desk.said[-1].startswith("Taken back, so it is asked about again: ")
    await running.run(desk, "/permissions")
    assert not any("what you granted" in row for row in desk.views[2])
