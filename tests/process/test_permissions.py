"""Permission profiles in the real sandbox: what is named holds, by whatever name and trick it is reached."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import Boundary, Fence, boundary_of
from spindle.process.sandbox import landlock, seatbelt
from spindle.process.sandbox.launch import Wanted
from spindle.process.table import Command, ProcessTable
from spindle.protocol.settings import PathRule, PermissionProfile, SandboxPolicy

Reach = Callable[..., Boundary]


def profile(rules: dict[str, str], *roots: Path) -> SandboxPolicy:
    """A policy with these rules; `:root` may be read unless they say otherwise."""
    given = msgspec.convert(list({":root": "read", **rules}.items()), tuple[PathRule, ...])
    made = PermissionProfile(name="mine", rules=given, workspace_roots=tuple(map(str, roots)))
    return SandboxPolicy(mode="workspace-write" if made.can_write else "read-only", permissions=made)


async def said(table: ProcessTable, script: str, boundary: Boundary | None, cwd: Path) -> str:
    command = Command(argv=["bash", "-c", script], cwd=str(cwd), boundary=boundary)
    finished = await table.run(command, timeout_s=30)
    table.let_go()
    return finished.output.peek().text()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file in a folder of its own, outside of where commands work."""
    made = tmp_path / "keys" / "id"
    made.parent.mkdir()
    made.write_text("CANARY")
    return made


@pytest.mark.parametrize("access", ["read", "write"])
async def test_a_denied_path_is_denied_by_every_name(
    access: str, table: ProcessTable, reach: Reach, folder: Path, secret: Path
) -> None:
    (folder / "link").symlink_to(secret)
    (folder / "folder-link").symlink_to(secret.parent)
    os.link(secret, folder / "twin")
    names = f"{secret} {folder}/../keys/id /proc/self/root{secret} /proc/$$/root{secret} link folder-link/id twin"
    tricks = f"ln {secret} more; cp {secret} more; mv {secret.parent} gone; cat more gone/id; tar c {secret.parent}"
    open_to_all = profile({":workspace_roots": access})
    assert "CANARY" in await said(table, f"cat {names}", reach(open_to_all), folder)
    boundary = reach(profile({":workspace_roots": access, str(secret.parent): "deny"}))
    shown = await said(table, f"cat {names}; {tricks}; ls {secret.parent}", boundary, folder)
    assert "CANARY" not in shown and "Permission denied" in shown
    for name in ("link", "folder-link/id", "twin"):
        assert not boundary.may_read(str(folder / name))


async def test_write_below_deny_below_write(table: ProcessTable, reach: Reach, folder: Path) -> None:
    for name in ("a/secret", "a/b/open", "a/b/c/secret", "a/b/c/d/open"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"CANARY-{name.replace('/', '-')}\n")
    boundary = reach(
        profile(
            {
                ":workspace_roots": "write",
                ":workspace_roots/a": "deny",
                ":workspace_roots/a/b": "write",
                ":workspace_roots/a/b/c": "deny",
                ":workspace_roots/a/b/c/d": "read",
            }
        )
    )
    shown = await said(
        table,
        "cat a/secret a/b/open a/b/c/secret a/b/c/d/open; touch new a/new a/b/new a/b/c/new a/b/c/d/new; mv a z",
        boundary,
        folder,
    )
    assert [line for line in shown.splitlines() if "CANARY" in line] == ["CANARY-a-b-open", "CANARY-a-b-c-d-open"]
    made = {str(path.relative_to(folder)) for path in folder.rglob("new")}
    assert made == {"new", "a/b/new"}
    judged = {name: boundary.may_write(str(folder / name / "x")) for name in ("", "a", "a/b", "a/b/c", "a/b/c/d")}
    assert judged == {"": True, "a": False, "a/b": True, "a/b/c": False, "a/b/c/d": False}
    assert boundary.may_read(str(folder / "a/b/c/d/open")) and not boundary.may_read(str(folder / "a/b/c/secret"))


async def test_a_glob_denies_what_exists_and_what_comes_later(table: ProcessTable, reach: Reach, folder: Path) -> None:
    (folder / "sub dir" / "ünïcode").mkdir(parents=True)
    (folder / ".env").write_text("CANARY")
    (folder / "sub dir" / "ünïcode" / ".env").write_text("CANARY")
    boundary = reach(profile({":workspace_roots": "write", ":workspace_roots/**/.env": "deny"}))
    attempt = "cat .env 'sub dir/ünïcode/.env'; mv 'sub dir' x; cat x/*/.env; rm -f .env; echo new > .env; cat .env"
    shown = await said(table, attempt, boundary, folder)
    assert "CANARY" not in shown and (folder / ".env").read_text() == "CANARY"
    # Made by one command, it is closed for the next one.
    await said(table, "mkdir later; echo CANARY > later/.env", boundary, folder)
    assert "CANARY" not in await said(table, "cat later/.env", boundary, folder)
    assert not boundary.may_read(str(folder / "later/.env"))


async def test_a_denied_path_that_does_not_exist_cannot_be_made(
    table: ProcessTable, reach: Reach, folder: Path
) -> None:
    boundary = reach(profile({":workspace_roots": "write", ":workspace_roots/no/such/file": "deny"}))
    attempt = "mkdir -p no/such; echo CANARY > no/such/file; cat no/such/file; ln -s /tmp no; touch fine; ls -a no"
    assert "CANARY" not in await said(table, attempt, boundary, folder)
    assert [path.name for path in folder.iterdir()] == ["fine"]


async def test_what_may_only_be_read_stays_as_it_is_in_a_writable_folder(
    table: ProcessTable, reach: Reach, folder: Path
) -> None:
    (folder / "docs").mkdir()
    (folder / "docs" / "page").write_text("text")
    boundary = reach(profile({":workspace_roots": "write", ":workspace_roots/docs": "read"}))
    await said(table, "echo x > docs/page; rm -rf docs; mv docs away; touch docs/new; touch beside", boundary, folder)
    assert (folder / "docs/page").read_text() == "text"
    assert sorted(path.name for path in folder.iterdir()) == ["beside", "docs"]
    assert not boundary.may_write(str(folder / "docs/page")) and boundary.may_write(str(folder / "beside"))


async def test_the_names_that_are_always_protected_can_be_opened_by_name_only(
    table: ProcessTable, reach: Reach, folder: Path
) -> None:
    (folder / ".git").mkdir()
    (folder / ".codex").mkdir()
    whole = reach(profile({":workspace_roots": "write"}))
    named = reach(profile({":workspace_roots": "write", ":workspace_roots/.git": "write"}))
    await said(table, "touch .git/a .codex/a", whole, folder)
    assert not list(folder.glob(".*/a"))
    await said(table, "touch .git/a .codex/a", named, folder)
    assert [str(path.relative_to(folder)) for path in folder.glob(".*/a")] == [".git/a"]
    assert named.may_write(f"{folder}/.git/b") and not named.may_write(f"{folder}/.codex/b")
    assert not whole.may_write(f"{folder}/.git/b")


async def test_only_what_is_named_is_there_to_be_seen(
    table: ProcessTable, reach: Reach, folder: Path, secret: Path
) -> None:
    (folder / "file").write_text("MINE")
    boundary = reach(profile({":root": "deny", ":minimal": "read", ":workspace_roots": "read"}))
    attempt = (
        f"cat file {secret} /proc/self/root{secret}; ls {secret.parent} {folder.parent} /; mkdir /x; mkdir /tmp/x; "
        "cat /etc/passwd | head -c 1 | wc -c; echo x > /dev/null && echo well"
    )
    shown = await said(table, attempt, boundary, folder)
    assert "MINE" in shown and "CANARY" not in shown and "keys" not in shown.replace(str(secret.parent), "")
    assert "well" in shown and "\n1\n" in shown
    assert "cannot create directory" in shown
    assert not boundary.may_read(str(secret)) and boundary.may_read("/usr/bin/env")


async def test_a_profile_that_hides_the_working_folder_runs_nothing(
    table: ProcessTable, reach: Reach, folder: Path
) -> None:
    with pytest.raises(SandboxUnavailable, match=r"does not let the working folder .* be read, so nothing was run"):
        await said(table, "true", reach(profile({":root": "deny", ":minimal": "read"})), folder)


async def test_other_workspaces_count_like_the_first(
    table: ProcessTable, reach: Reach, folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / ".env").write_text("CANARY")
    boundary = reach(profile({":workspace_roots": "write", ":workspace_roots/**/.env": "deny"}, other))
    shown = await said(table, f"touch here {other}/there; cat {other}/.env", boundary, folder)
    assert "CANARY" not in shown
    assert (folder / "here").exists() and (other / "there").exists()


async def test_a_link_that_a_command_could_have_made_grants_nothing(
    table: ProcessTable, reach: Reach, folder: Path, secret: Path
) -> None:
    (folder / "planted").symlink_to(secret.parent)
    boundary = reach(
        profile({":root": "deny", ":minimal": "read", ":workspace_roots": "write", f"{folder}/planted": "write"})
    )
    shown = await said(table, "cat planted/id; echo x > planted/new; echo x > planted/id", boundary, folder)
    assert "CANARY" not in shown and [path.name for path in secret.parent.iterdir()] == ["id"]
    assert not boundary.may_read(str(secret)) and not boundary.may_write(str(secret))


@pytest.mark.parametrize("name", ["a b", "[a]*?", "ünï", "back\\slash", "new\nline"])
async def test_no_folder_name_is_taken_for_a_pattern(
    name: str, table: ProcessTable, reach: Reach, folder: Path
) -> None:
    work = folder / name
    work.mkdir()
    (work / ".env").write_text("CANARY")
    (work / "sub").mkdir()
    (work / "sub" / "key").write_text("CANARY")
    policy = profile({":workspace_roots": "write", ":workspace_roots/**/.env": "deny", ":workspace_roots/sub": "deny"})
    boundary = boundary_of(policy, cwd=str(work), env={}, home=reach(policy).homes[0])
    shown = await said(table, "cat .env sub/key; touch made", boundary, work)
    assert "CANARY" not in shown and (work / "made").exists()
    assert not boundary.may_read(f"{work}/.env") and boundary.may_write(f"{work}/made")


async def test_what_is_let_out_still_cannot_read_what_is_denied(
    table: ProcessTable, reach: Reach, folder: Path, tmp_path: Path, secret: Path
) -> None:
    drawn = reach(profile({":workspace_roots": "read", str(secret): "deny"}))
    let_out = drawn.let_out()
    assert let_out is not None and let_out.has_network
    shown = await said(table, f"cat {secret}; touch here {tmp_path}/there; ls /proc/net/dev", let_out, folder)
    assert "CANARY" not in shown
    assert (folder / "here").exists() and (tmp_path / "there").exists()
    assert reach(profile({":workspace_roots": "write"})).let_out() is None


async def test_what_the_user_denies_elsewhere_no_profile_opens(
    table: ProcessTable, reach: Reach, folder: Path, secret: Path
) -> None:
    boundary = reach(
        profile({str(secret): "read", ":workspace_roots": "write"}), Fence(deny_read=(str(secret.parent),))
    )
    assert "CANARY" not in await said(table, f"cat {secret}", boundary, folder)
    assert not boundary.may_read(str(secret))


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({":workspace_roots/x": "deny"}, "denies paths"),
        ({":root": "deny", ":minimal": "read", ":workspace_roots": "read"}, "lets only some paths be read"),
        ({":workspace_roots": "write", ":workspace_roots/docs": "read"}, "keeps paths read-only inside"),
    ],
)
def test_landlock_refuses_what_it_cannot_do(rules: dict[str, str], reason: str, reach: Reach) -> None:
    with pytest.raises(SandboxUnavailable, match=f"permission profile {reason}.*Landlock.*nothing was run"):
        landlock.ruleset(reach(profile(rules)), 6)


def test_landlock_takes_a_profile_that_only_names_what_may_be_written(reach: Reach, folder: Path) -> None:
    made = landlock.ruleset(reach(profile({":workspace_roots": "write"})), 6)
    assert str(folder) in [path for path, _ in made.grants]


@pytest.mark.parametrize(
    "rules",
    [{":root": "deny", ":minimal": "read"}, {":workspace_roots/a": "deny", ":workspace_roots/a/b": "read"}],
)
def test_seatbelt_refuses_what_it_cannot_do(rules: dict[str, str], reach: Reach) -> None:
    with pytest.raises(SandboxUnavailable, match=r"the permission profile .* macOS .* nothing was run"):
        seatbelt.launch(Wanted(argv=["true"], boundary=reach(profile(rules)), cwd="/", env={}, home="/", tty=False))


def test_seatbelt_denies_what_a_profile_denies(reach: Reach, folder: Path) -> None:
    made = seatbelt.profile(reach(profile({":workspace_roots": "write", ":workspace_roots/sub/**/.env": "deny"})))
    assert '(subpath (param "ROOT_0"))' in made.text
    assert made.parameters["ROOT_0"] == seatbelt.canonical(str(folder))
    hidden = [value for name, value in made.parameters.items() if name.startswith("HIDE")]
    assert hidden and all(value.endswith(r"/([^/]+/)*\.[Ee][Nn][Vv](/|$)") for value in hidden)
