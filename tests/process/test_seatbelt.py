"""The profile for macOS, as text: it can be read here, but not run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import Boundary, Fence, boundary_of
from spindle.process.sandbox import seatbelt
from spindle.process.sandbox.launch import Wanted
from spindle.protocol.settings import SandboxPolicy


def boundary(*roots: str, fence: Fence | None = None, network: bool = False) -> Boundary:
    """As `boundary_of` makes it on a Mac, without asking this machine's files."""
    policy = SandboxPolicy(mode="workspace-write" if roots else "read-only", network_access=network)
    fence = fence or Fence(protected=())
    return Boundary(policy=policy, cwd="/Users/me", roots=roots, denied=fence.deny_read, fence=fence)


def rules(made: seatbelt.Profile) -> str:
    """What comes after the part that is always the same, without comments."""
    text = made.text.removeprefix(seatbelt._BASE)  # pyright: ignore[reportPrivateUsage]
    return "\n".join(line for line in text.splitlines() if line and not line.startswith(";"))


def test_read_only_without_network_allows_no_writing_and_no_sockets_but_its_own() -> None:
    made = seatbelt.profile(boundary())
    assert made.parameters == {}
    assert rules(made) == "(allow system-socket (socket-domain AF_UNIX))"


def test_a_root_is_writable_except_what_is_protected_there() -> None:
    made = seatbelt.profile(boundary("/Users/me/project"))
    assert (
        rules(made)
        == """\
(allow file-write*
  (require-all
    (subpath (param "ROOT_0"))
    (require-not (subpath (param "KEEP_0")))
    (require-not (regex (param "FOLD_0")))
    (require-not (subpath (param "KEEP_1")))
    (require-not (regex (param "FOLD_1")))
    (require-not (subpath (param "KEEP_2")))
    (require-not (regex (param "FOLD_2")))))
(deny file-write-unlink (literal (param "STAY_0")))
(allow system-socket (socket-domain AF_UNIX))
(allow network-bind network-inbound (local unix-socket (subpath (param "MEET_0"))))
(allow network-outbound (remote unix-socket (subpath (param "MEET_0"))))"""
    )
    assert made.parameters == {
        "ROOT_0": "/Users/me/project",
        "KEEP_0": "/Users/me/project/.git",
        "FOLD_0": r"^/[Uu][Ss][Ee][Rr][Ss]/[Mm][Ee]/[Pp][Rr][Oo][Jj][Ee][Cc][Tt]/\.[Gg][Ii][Tt](/|$)",
        "KEEP_1": "/Users/me/project/.codex",
        "FOLD_1": r"^/[Uu][Ss][Ee][Rr][Ss]/[Mm][Ee]/[Pp][Rr][Oo][Jj][Ee][Cc][Tt]/\.[Cc][Oo][Dd][Ee][Xx](/|$)",
        "KEEP_2": "/Users/me/project/.agents",
        "FOLD_2": r"^/[Uu][Ss][Ee][Rr][Ss]/[Mm][Ee]/[Pp][Rr][Oo][Jj][Ee][Cc][Tt]/\.[Aa][Gg][Ee][Nn][Tt][Ss](/|$)",
        "STAY_0": "/Users/me/project",
        "MEET_0": "/Users/me/project",
    }


def test_what_is_always_there_denies_by_default_and_writes_only_devices() -> None:
    base = seatbelt.profile(boundary()).text
    assert base.startswith("(version 1)\n(deny default)\n")
    allowed = re.findall(r"\(allow ([^()]*?)\s*[()]", base)
    assert [words for words in allowed if "write" in words] == [
        "file-write-data file-ioctl",
        "file-read* file-write* file-ioctl",
        "file-read* file-write*",
    ]
    assert "(allow signal (target same-sandbox))" in base and "(allow default)" not in base


def test_a_root_inside_another_and_its_parents_cannot_be_moved_away() -> None:
    made = seatbelt.profile(boundary("/Users/me", "/Users/me/a/b"))
    stays = [value for name, value in made.parameters.items() if name.startswith("STAY_")]
    assert stays == ["/Users/me", "/Users/me/a", "/Users/me/a/b"]
    # The outer root must not open what the inner one protects.
    outer = made.text[: made.text.index('(subpath (param "ROOT_1"))')]
    kept = {made.parameters[name] for name in re.findall(r'subpath \(param "(KEEP_\d+)"\)', outer)}
    assert {"/Users/me/.git", "/Users/me/a/b/.git"} <= kept


def test_folders_behind_links_are_named_as_the_kernel_does() -> None:
    made = seatbelt.profile(boundary("/tmp", "/var/folders/x/T", "/private/tmp/y", "/tmpfoo"))
    roots = [value for name, value in made.parameters.items() if name.startswith("ROOT_")]
    assert roots == ["/private/tmp", "/private/var/folders/x/T", "/private/tmp/y", "/tmpfoo"]


def test_the_network_is_addresses_and_not_every_socket_of_the_machine() -> None:
    text = seatbelt.profile(boundary(network=True)).text
    assert "(allow network-outbound (remote ip))" in text
    assert "(allow network*" not in text and "(allow network-outbound)" not in text
    assert "(remote ip)" not in seatbelt.profile(boundary()).text


def test_sockets_the_user_named_can_be_reached() -> None:
    made = seatbelt.profile(boundary(fence=Fence(protected=(), unix_sockets=("/var/run/docker.sock",))))
    assert '(allow network-outbound (remote unix-socket (literal (param "SOCKET_0"))))' in made.text
    assert made.parameters["SOCKET_0"] == "/private/var/run/docker.sock"


def test_what_may_not_be_read_is_denied_last_so_that_it_counts() -> None:
    fence = Fence(protected=(), deny_read=("/Users/me/.ssh", "/Users/me/**/*.pem", "/etc/shadow"))
    made = seatbelt.profile(boundary("/Users/me", fence=fence))
    hidden = 'file-write* (regex (param "HIDE_0")) (regex (param "HIDE_1")) (regex (param "HIDE_2")))\n'
    assert made.text.endswith(f"(deny file-read* {hidden}")
    assert made.parameters["HIDE_2"].startswith("^/[Pp][Rr][Ii][Vv][Aa][Tt][Ee]/")


@pytest.mark.parametrize(
    ("pattern", "path", "is_denied"),
    [
        ("/u/.ssh", "/u/.ssh", True),
        ("/u/.ssh", "/u/.SSH/id", True),
        ("/u/.ssh", "/u/.ssh/a\nb", True),
        ("/u/.ssh", "/u/.sshd", False),
        ("/u/.ssh", "/u/xssh", False),
        ("/u/*.pem", "/u/a.pem", True),
        ("/u/*.pem", "/u/a/b.pem", False),
        ("/u/**/*.pem", "/u/a.pem", True),
        ("/u/**/*.pem", "/u/a/b/c.pem", True),
        ("/u/**/*.pem", "/u/a/b/c.pem.txt", False),
        ("/u/**", "/u/a/b\n", True),
        ("/u/id_[!a]?a", "/u/id_rsa", True),
        ("/u/id_[rd]sa", "/u/id_rsa", True),
        ("/u/id_[rd]sa", "/u/id_xsa", False),
        ("/u/a+b(c)$", "/u/a+b(c)$", True),
    ],
)
def test_a_pattern_of_what_may_not_be_read(pattern: str, path: str, is_denied: bool) -> None:
    assert bool(re.search(seatbelt.glob_regex(pattern), path)) == is_denied


HOSTILE = ['"', "')(allow default)(", '")) (allow default) ((("', "\\", "\n(allow default)", ";", "#", "a=b", "(param)"]


@pytest.mark.parametrize("name", [*HOSTILE, "-Dx=y", "$(id)", "ünï", "[a]*?"])
def test_no_folder_name_can_break_out_of_the_profile(name: str) -> None:
    plain, hostile = (
        seatbelt.profile(
            boundary(root, fence=Fence(deny_read=(f"{root}/x",), unix_sockets=(f"{root}/s",), protected=(f"{last}.d",)))
        )
        for last in ("p", name)
        for root in (f"/Users/me/{last}",)
    )
    assert hostile.text == plain.text
    assert hostile.parameters["ROOT_0"] == f"/Users/me/{name}"
    argv = seatbelt.confined(["prog", "-p", "x"], hostile)
    assert argv[:3] == ["/usr/bin/sandbox-exec", "-p", plain.text]
    assert argv[-4:] == ["--", "prog", "-p", "x"]
    assert all(word.startswith("-D") for word in argv[3:-4])
    fold = next(value for value in hostile.parameters.values() if value.endswith(r"\.[Gg][Ii][Tt](/|$)"))
    for spelling in (".git", ".GIT/hooks", ".Git"):
        assert re.search(fold, f"/Users/me/{name}/{spelling}")
    assert not re.search(fold, f"/Users/me/{name}/.gitignore")


def test_parentheses_are_balanced_in_every_shape() -> None:
    for shape in (
        boundary(),
        boundary(network=True),
        boundary("/a", "/b", fence=Fence(deny_read=("/c",), unix_sockets=("/d",)), network=True),
    ):
        depth = 0
        for character in re.sub(r'#?"[^"]*"|;.*', "", seatbelt.profile(shape).text):
            depth += {"(": 1, ")": -1}.get(character, 0)
            assert depth >= 0
        assert depth == 0


def test_a_real_boundary_protects_the_agents_own_folder(tmp_path: Path) -> None:
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
    made = boundary_of(policy, cwd=str(tmp_path), env={}, home=str(tmp_path / "home"))
    assert seatbelt.canonical(f"{tmp_path}/home") in seatbelt.profile(made).parameters.values()


def wanted(boundary: Boundary, **env: str) -> Wanted:
    return Wanted(argv=["ls"], boundary=boundary, cwd="/", env=env, home="/", tty=False)


def test_the_command_knows_where_it_runs() -> None:
    launch = seatbelt.launch(wanted(boundary(), A="1"))
    assert (launch.env, launch.is_confined) == ({"A": "1", "CODEX_SANDBOX": "seatbelt"}, True)


@pytest.mark.parametrize("limit", [{"pids_max": 9}, {"memory_max": 1 << 30}])
def test_limits_that_cannot_be_kept_are_a_reason_to_refuse(limit: dict[str, Any]) -> None:
    with pytest.raises(SandboxUnavailable, match="_max is set, which the sandbox of macOS cannot enforce"):
        seatbelt.launch(wanted(boundary(fence=Fence(**limit))))
