"""What a person can give a thread beside its sandbox, and what nobody can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spindle.policy.sandbox import Boundary, Fence, boundary_of
from spindle.policy.widening import Widening, Wish, bounded, widened
from spindle.protocol.settings import Allowed, PathRule, PermissionProfile, SandboxPolicy

BARE = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
READ_ONLY = SandboxPolicy(mode="read-only")


class Place:
    """A workspace and a folder outside of it."""

    def __init__(self, tmp_path: Path) -> None:
        self.work, self.out, self.home = (tmp_path / name for name in ("work", "out", "home"))
        for folder in (self.work, self.out, self.home):
            folder.mkdir()

    def drawn(self, policy: SandboxPolicy, **fence: Any) -> Boundary:
        return boundary_of(policy, cwd=str(self.work), env={}, home=str(self.home), fence=Fence(**fence))

    def more(self, policy: SandboxPolicy, more: Widening, **fence: Any) -> Boundary:
        return widened(self.drawn(policy, **fence), more, lambda policy: self.drawn(policy, **fence))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path.resolve())


@pytest.mark.parametrize("policy", [BARE, READ_ONLY])
def test_a_folder_that_is_given_can_be_written_and_nothing_else(place: Place, policy: SandboxPolicy) -> None:
    (place.out / ".git").mkdir()
    found = place.more(policy, Widening(write=(str(place.out),)))
    assert found.may_write(f"{place.out}/x") and not found.has_network
    assert not found.may_write(f"{place.out}/.git/config")
    assert found.may_write("x") == place.drawn(policy).may_write("x")
    assert found.policy.mode == policy.mode


@pytest.mark.parametrize("policy", [BARE, READ_ONLY])
def test_what_is_protected_in_the_workspace_stays_so_when_a_folder_around_it_is_given(
    place: Place, policy: SandboxPolicy
) -> None:
    (place.work / ".git").mkdir()
    found = place.more(policy, Widening(write=(str(place.work.parent),)))
    assert found.may_write("x") and found.may_write(f"{place.out}/x")
    assert not found.may_write(".git/config") and f"{place.work}/.git" in found.protected()


@pytest.mark.parametrize("policy", [BARE, READ_ONLY])
def test_the_network_can_be_given_alone(place: Place, policy: SandboxPolicy) -> None:
    found = place.more(policy, Widening(network=True))
    assert (found.has_network, found.roots) == (True, place.drawn(policy).roots)


def test_a_profile_opens_for_what_is_given_and_denies_what_it_denied(place: Place) -> None:
    (place.out / "a*b").mkdir()
    rules = (PathRule(":workspace_roots", "write"), PathRule(f"{place.out}/secret", "deny"))
    policy = SandboxPolicy(mode="workspace-write", permissions=PermissionProfile(name="mine", rules=rules))
    assert not place.drawn(policy).may_read(f"{place.out}/x")
    found = place.more(policy, Widening(read=(str(place.out),), write=(f"{place.out}/a*b",)))
    assert found.may_read(f"{place.out}/x") and not found.may_write(f"{place.out}/x")
    assert found.may_write(f"{place.out}/a*b/x")
    assert not found.may_read(f"{place.out}/secret")
    (place.out / "secret").mkdir()
    (place.out / "secret/key").touch()
    refused = bounded(Wish(read=(f"{place.out}/secret/key",)), place.drawn(policy), Allowed())
    assert not refused.more and len(refused.refused) == 1


@pytest.mark.parametrize("policy", [BARE, READ_ONLY])
@pytest.mark.parametrize(
    "path",
    [
        "WORK/.git/hooks",
        "OUT/.git",
        "OUT/.GIT",
        "WORK/.vscode",
        "HOME/x",
        "/proc/1",
        "a\0b",
        "/",
        "OUT/file",
        "OUT/none",
    ],
)
def test_what_nobody_can_give_is_not_asked_about(place: Place, path: str, policy: SandboxPolicy) -> None:
    (place.out / ".git").mkdir()
    (place.out / "file").touch()
    for folder in (".git/hooks", ".vscode"):
        (place.work / folder).mkdir(parents=True)
    (place.home / "x").mkdir()
    path = path.replace("WORK", str(place.work)).replace("OUT", str(place.out)).replace("HOME", str(place.home))
    found = bounded(Wish(write=(path,)), place.drawn(policy), Allowed())
    assert not found.more and len(found.refused) == 1


def test_what_is_denied_or_hidden_stays_so(place: Place) -> None:
    (place.out / "key").touch()
    (place.home / "x").touch()
    boundary = place.drawn(BARE, deny_read=(f"{place.out}/key",), hidden=(str(place.home),))
    wish = Wish(read=(f"{place.out}/key", f"{place.home}/x", str(place.out)))
    assert bounded(wish, boundary, Allowed()).more == Widening(read=(str(place.out),))


@pytest.mark.parametrize(
    ("modes", "given"),
    [
        (("read-only",), Widening()),
        (("read-only", "workspace-write"), Widening(network=True, write=("OUT",))),
        (("read-only", "danger-full-access"), Widening(network=True, write=("OUT",))),
    ],
)
def test_nobody_can_give_more_than_the_administrator_allows(
    place: Place, modes: tuple[str, ...], given: Widening
) -> None:
    found = bounded(Wish(network=True, write=(str(place.out),)), place.drawn(READ_ONLY), Allowed(sandbox_modes=modes))
    wanted = tuple(path.replace("OUT", str(place.out)) for path in given.write)
    assert found.more == Widening(network=given.network, write=wanted)
    assert bool(found.refused) == (not given)


def test_a_question_names_the_place_that_a_link_leads_to(place: Place) -> None:
    (place.work / "link").symlink_to(place.out)
    asked = bounded(Wish(write=("link", "link/../out")), place.drawn(BARE), Allowed()).more
    assert asked == Widening(write=(str(place.out),))
    # The link that a command puts there later does not move what was given.
    place.out.rename(f"{place.out}2")
    place.out.symlink_to(place.home)
    assert not place.more(READ_ONLY, asked).may_write(f"{place.home}/x")


def entry(path: str, access: str) -> dict[str, Any]:
    return {"path": {"type": "path", "path": path}, "access": access}


@pytest.mark.parametrize(
    ("answer", "given"),
    [
        ({}, Widening()),
        (None, Widening()),
        ({"network": {"enabled": True}}, Widening(network=True)),
        ({"network": {"enabled": 1}, "fileSystem": {"write": ["/b", "/a/../b"]}}, Widening()),
        ({"fileSystem": {"write": ["/a/x", 3, "a"]}}, Widening(write=("/a/x",))),
        ({"fileSystem": {"read": ["/a"]}}, Widening(read=("/a",))),
        ({"fileSystem": {"entries": [entry("/a", "write"), {"access": "write"}, 1]}}, Widening(write=("/a",))),
        ({"fileSystem": {"write": ["/a"], "entries": [entry("/a", "deny")]}}, Widening()),
    ],
)
def test_an_answer_gives_a_part_of_what_was_asked_for_and_nothing_else(answer: Any, given: Widening) -> None:
    assert Widening(network=True, write=("/a",)).within(answer) == given
