"""The session's book of grants: an effect, for a scope, inside one boundary."""

from __future__ import annotations

import pytest

from spindle.policy.grants import Grants, command_grant, describe, file_grant, prefix_grant
from spindle.policy.sandbox import Boundary, Fence
from spindle.protocol.settings import SandboxPolicy

FILE = file_grant("/w/a", expires="session")
HERE = Boundary(policy=SandboxPolicy(mode="workspace-write"), cwd="/w", roots=("/w",))
ARGV = ["bash", "-c", "make"]
COMMAND = command_grant(ARGV, "/w", sandboxed=True, expires="session")


@pytest.mark.parametrize(
    "elsewhere",
    [
        Boundary(policy=SandboxPolicy(mode="danger-full-access"), cwd="/w"),
        Boundary(policy=SandboxPolicy(mode="workspace-write", network_access=True), cwd="/w", roots=("/w",)),
        Boundary(policy=SandboxPolicy(mode="workspace-write"), cwd="/w", roots=("/w", "/x")),
        Boundary(policy=SandboxPolicy(mode="workspace-write"), cwd="/x", roots=("/w",)),
        Boundary(policy=SandboxPolicy(mode="workspace-write"), cwd="/w", roots=("/w",), fence=Fence(protected=())),
    ],
)
def test_a_grant_holds_in_no_boundary_but_its_own(elsewhere: Boundary) -> None:
    grants = Grants()
    grants.add(COMMAND, HERE)
    grants.add(FILE, HERE)
    assert grants.cover([COMMAND, FILE], HERE)
    assert not grants.cover([COMMAND], elsewhere) and not grants.cover([FILE], elsewhere)
    assert len(grants.end_outside(elsewhere)) == 2 and list(grants) == []


def test_a_grant_covers_exactly_its_command_its_folder_and_its_effect() -> None:
    grants = Grants()
    grants.add(COMMAND, HERE)
    others = [
        command_grant(ARGV, "/w", sandboxed=False, expires="session"),
        command_grant(ARGV, "/w/sub", sandboxed=True, expires="session"),
        command_grant([*ARGV, "x"], "/w", sandboxed=True, expires="session"),
        command_grant(["bash", "-c", "make "], "/w", sandboxed=True, expires="session"),
        FILE,
    ]
    assert [grants.cover([COMMAND, other], HERE) for other in others] == [False] * len(others)
    assert grants.cover([COMMAND], HERE) and grants.cover([], HERE)


def test_the_same_grant_is_kept_once_and_revoked_by_its_id() -> None:
    grants = Grants()
    offered = command_grant(ARGV, "/w", sandboxed=True, expires="session")
    kept = grants.add(offered, HERE)
    assert kept is not None and grants.add(offered, HERE) is None
    assert grants.revoke(kept.id) == kept and grants.revoke(kept.id) is None
    again = grants.add(offered, HERE)
    assert again is not None and again.id != kept.id  # an id is never given twice


def test_a_grant_is_a_sentence_in_which_nothing_hides() -> None:
    argv = ["touch", "a\u202eb"]
    once = command_grant(argv, "/w", sandboxed=False, expires="once")
    assert describe(once) == "run `touch 'a\\u{202E}b'` in /w without the sandbox, once"
    assert describe(file_grant("/w/\x1b", expires="session")) == "write /w/\\u{1B}, until the session ends"
    rule = prefix_grant(["npm", "test"])
    assert describe(rule) == "run every command that begins with `npm test` without the sandbox, until you revoke it"
    assert rule.id == prefix_grant(["npm", "test"]).id != prefix_grant(["npm test"]).id
