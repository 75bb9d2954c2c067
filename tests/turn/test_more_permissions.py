"""The model asks to reach more than its sandbox allows: what a person says holds for the turn, or for the session."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessions import Driver, Start, of, outputs, run
from spindle.assembly import open_session
from spindle.assembly.request import SessionRequest
from spindle.config.load import load_config
from spindle.core.permission.approvals import Answer, CallSite
from spindle.core.permission.more import MorePermissions
from spindle.model.scripted import ScriptedModel, calls, says
from spindle.policy.approval import Ask
from spindle.policy.sandbox import boundary_of
from spindle.policy.widening import Widening
from spindle.protocol.events import Error, GrantAdded, TaskComplete
from spindle.protocol.ops import ResolveElicitation, RevokeGrant
from spindle.protocol.tool_servers import ElicitationRequest

ON = {"features": {"request_permissions_tool": True}}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


def wants(folder: Path, call_id: str = "p1") -> Any:
    asked = {"permissions": {"file_system": {"write": [str(folder)]}}, "reason": "to build"}
    return calls("request_permissions", asked, call_id)


def answers(driver: Driver) -> dict[str, Any]:
    return outputs(driver.inputs[-1])


async def go(driver: Driver, *answers: ResolveElicitation) -> list[ElicitationRequest]:
    """Run a turn and give each question the next answer; gives the questions."""
    driver.begin("go")
    asked: list[ElicitationRequest] = []
    while isinstance(msg := await driver.until(ElicitationRequest, TaskComplete), ElicitationRequest):
        driver.submit(answers[len(asked)])
        asked.append(msg)
    return asked


def say(decision: Any, **content: Any) -> ResolveElicitation:
    return ResolveElicitation(server_name="", request_id="p1", decision=decision, content=content or None)


@pytest.mark.parametrize(("decision", "later"), [("approved", False), ("approved_for_session", True)])
async def test_what_is_given_holds_for_the_turn_or_for_the_session(
    start: Start, outside: Path, decision: str, later: bool
) -> None:
    driver = await start(
        wants(outside), run(f"touch {outside}/now", "c1"), says("ok"), run(f"touch {outside}/later", "c2"), says("ok"),
        sandbox="read-only", approval="on-request", config=ON,
    )  # fmt: skip
    (asked,) = await go(driver, say(decision))
    assert str(outside) in asked.message and "to build" in asked.message
    assert json.loads(answers(driver)["p1"]) == {
        "permissions": {"network": None, "file_system": {"write": [str(outside)]}},
        "scope": "session" if later else "turn",
    }
    await go(driver)
    assert [(outside / name).exists() for name in ("now", "later")] == [True, later]


async def test_what_was_given_for_the_session_is_not_asked_about_again_and_can_be_taken_back(
    start: Start, outside: Path
) -> None:
    driver = await start(
        wants(outside), wants(outside, "p2"), says("ok"), run(f"touch {outside}/x", "c1"), says("ok"),
        sandbox="read-only", approval="on-request", config=ON,
    )  # fmt: skip
    assert len(await go(driver, say("approved_for_session"))) == 1
    (grant,) = of([event.msg for event in driver.events], GrantAdded)
    driver.submit(RevokeGrant(id=grant.grant["id"]))
    await go(driver)
    assert not (outside / "x").exists()


@pytest.mark.parametrize(
    ("approval", "answer", "reason"),
    [
        ("on-request", say({"denied": {"reason": "not there"}}), "not there"),
        ("on-request", say("approved", permissions={"network": {"enabled": True}}), "less"),
        ("never", None, "never"),
    ],
)
async def test_a_no_is_an_answer_that_says_why(
    start: Start, outside: Path, approval: str, answer: ResolveElicitation | None, reason: str
) -> None:
    driver = await start(
        wants(outside), run(f"touch {outside}/x"), says("ok"), sandbox="read-only", approval=approval, config=ON
    )
    await go(driver, *([answer] if answer is not None else []))
    said = json.loads(answers(driver)["p1"])
    assert said["permissions"] == {"network": None, "file_system": None}
    assert reason in said["not_granted"][0]
    assert not (outside / "x").exists()


async def test_an_answer_cannot_name_a_part_that_nobody_can_give(start: Start, outside: Path) -> None:
    (outside / ".git").mkdir()
    driver = await start(
        wants(outside), run(f"touch {outside}/.git/x {outside}/x"), says("ok"),
        sandbox="read-only", approval="on-request", config=ON,
    )  # fmt: skip
    await go(driver, say("approved", permissions={"fileSystem": {"write": [f"{outside}/.git"]}}))
    assert json.loads(answers(driver)["p1"])["permissions"]["file_system"] is None
    assert list(outside.rglob("x")) == []


async def test_the_tool_is_there_only_when_it_is_switched_on(start: Start, outside: Path) -> None:
    driver = await start(wants(outside), says("ok"), sandbox="read-only", approval="on-request")
    await go(driver)
    assert answers(driver)["p1"] == "unsupported call: request_permissions"


async def test_what_a_command_writes_where_it_was_let_can_be_undone(start: Start, outside: Path) -> None:
    from spindle.protocol.ops import Undo
    from spindle.protocol.undo import UndoCompleted

    (outside / "x").write_text("before\n")
    driver = await start(
        wants(outside), run(f"echo after > {outside}/x"), says("ok"),
        sandbox="read-only", approval="on-request", config=ON,
    )  # fmt: skip
    await go(driver, say("approved"))
    assert (outside / "x").read_text() == "after\n"
    driver.submit(Undo())
    done = await driver.until(UndoCompleted)
    assert (done.success, (outside / "x").read_text()) == (True, "before\n")


@pytest.fixture
async def limited(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[..., Awaitable[Driver]]]:
    """Opens a session on a machine whose administrator allows nothing but reading."""
    monkeypatch.setenv("HOME", str(tmp_path))
    drivers: list[Driver] = []

    async def opened(*steps: Any) -> Driver:
        flags = {"model": "m", "approval_policy": "on-request", "sandbox_mode": "read-only"}
        env = {"CODEX_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
        config = msgspec.structs.replace(
            load_config(cwd=str(workspace), env=env, flags=flags, config=ON), allowed_sandbox_modes=("read-only",)
        )
        client = ScriptedModel(*steps)
        request = SessionRequest(config=config, originator="test", client=client, source="exec")
        drivers.append(Driver(await open_session(request), client))
        return drivers[-1]

    (tmp_path / "home").mkdir()
    yield opened
    for driver in drivers:
        await driver.close()


@pytest.mark.parametrize("network", [True, False])
async def test_18_no_answer_gives_more_than_the_administrator_allows(
    limited: Callable[..., Awaitable[Driver]], outside: Path, network: bool
) -> None:
    wish: dict[str, Any] = {"network": {"enabled": True}} if network else {"file_system": {"write": [str(outside)]}}
    asks = calls("request_permissions", {"permissions": wish, "reason": "to build"}, "p1")
    driver = await limited(asks, run(f"touch {outside}/now", "c1"), says("ok"))
    assert await go(driver, say("approved_for_session")) == []
    assert "the administrator of this machine allows no more" in answers(driver)["p1"]
    assert not (outside / "now").exists()


async def test_18_an_answer_that_names_a_part_is_held_to_the_limits_by_itself(
    limited: Callable[..., Awaitable[Driver]], outside: Path
) -> None:
    """Whatever was let through to the question: what is given is judged when it is given."""
    driver = await limited(says("ok"))
    await driver.turn("go")
    session = driver.session
    site = CallSite(
        sub_id="s",
        call_id="p1",
        turn_id="t",
        settings=session.settings,
        boundary=boundary_of(session.settings.sandbox, cwd=session.settings.cwd, env={}, home=""),
        emit=lambda _: None,
    )
    wish = Widening(network=True, write=(str(outside),))
    matter = MorePermissions(session.turns.approvals, site, wish, None)
    matter.settle(Ask(), Answer(word="approved", content={"permissions": wish.to_wire()}))
    assert matter.given.more == Widening()


async def test_18_a_turn_that_goes_back_in_the_thread_keeps_to_the_limits(
    limited: Callable[..., Awaitable[Driver]], outside: Path
) -> None:
    driver = await limited(says("one"), says("two"))
    await driver.turn("Q1")
    for change in ({"sandbox_policy": {"type": "danger-full-access"}}, {"sandbox_policy": {"type": "workspace-write"}}):
        sub_id = driver.begin("Q2", last_response_id="resp-1", **change)
        error = await driver.until(Error, sub_id=sub_id)
        assert "not allowed here by the administrator" in error.message
    assert len(driver.model.requests) == 1 and driver.session.settings.sandbox.mode == "read-only"
