"""What a confined command can and cannot reach, tried from inside."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from process.fences import READ_ONLY, WORKSPACE_WRITE
from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import MORE_PROTECTED, PROTECTED_NAMES, Boundary
from spindle.process.sandbox import bubblewrap, bubblewrap_here
from spindle.process.sandbox.launch import Wanted
from spindle.process.sandbox.spawner import Spawner, SpawnerClosed
from spindle.process.table import Command, ProcessTable
from spindle.protocol.clock import SystemClock
from spindle.protocol.settings import SandboxPolicy

Build = Callable[..., Command]


async def said(table: ProcessTable, command: Command) -> str:
    finished = await table.run(command, timeout_s=20)
    table.let_go()
    return finished.output.peek().text()


async def test_read_only_reads_everything_and_writes_nothing(
    table: ProcessTable, command: Build, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("readable\n")
    script = f"cat {tmp_path}/secret; echo x > here; echo x > /tmp/x-{os.getpid()}; echo x > /dev/null && echo null"
    output = await said(table, command(script, READ_ONLY))
    assert output.startswith("readable\n") and output.endswith("null\n")
    assert output.count("Read-only file system") == 2
    assert list(folder.iterdir()) == []


async def test_workspace_write_stays_in_its_roots(
    table: ProcessTable, command: Build, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "extra").mkdir()
    policy = SandboxPolicy(
        mode="workspace-write",
        writable_roots=(str(tmp_path / "extra"),),
        exclude_slash_tmp=True,
        exclude_tmpdir_env_var=True,
    )
    script = "echo 1 > in; echo 2 > ../extra/in; echo 3 > ../out; ln -s ../out link; echo 4 > link; echo 5 > ../work-x"
    await said(table, command(script, policy))
    assert (folder / "in").read_text() == "1\n"
    assert (tmp_path / "extra" / "in").read_text() == "2\n"
    assert not (tmp_path / "out").exists() and not (tmp_path / "work-x").exists()


async def test_the_working_directory_of_a_call_adds_no_root(
    table: ProcessTable, command: Build, tmp_path: Path
) -> None:
    output = await said(table, command("echo x > y", WORKSPACE_WRITE, cwd=tmp_path))
    assert "Read-only file system" in output
    assert not (tmp_path / "y").exists()


@pytest.mark.parametrize("name", [".git", ".codex", ".agents"])
@pytest.mark.parametrize("exists", [True, False], ids=["existing", "absent"])
async def test_protected_folders_cannot_be_written_created_or_moved(
    name: str, exists: bool, table: ProcessTable, command: Build, folder: Path
) -> None:
    if exists:
        (folder / name).mkdir()
        (folder / name / "config").write_text("old")
    script = f"echo new > {name}/config; mkdir -p {name}/x; mv {name} away; rm -rf {name}; "
    script += f"chmod 777 {name}; echo new > {name}/config; echo end"
    output = await said(table, command(script, WORKSPACE_WRITE))
    assert output.endswith("end\n")
    assert sorted(folder.iterdir()) == ([folder / name] if exists else [])
    if exists:
        assert [path.name for path in (folder / name).iterdir()] == ["config"]
        assert (folder / name / "config").read_text() == "old"


async def test_a_git_pointer_and_what_it_points_at_are_protected(
    table: ProcessTable, command: Build, folder: Path
) -> None:
    (folder / "store").mkdir()
    (folder / ".git").write_text("gitdir: store\n")
    await said(table, command("echo x > .git; rm -f .git; echo x > store/hook; mv store away", WORKSPACE_WRITE))
    assert (folder / ".git").read_text() == "gitdir: store\n"
    assert list((folder / "store").iterdir()) == []


async def test_the_agents_home_is_protected_below_a_root(table: ProcessTable, command: Build, tmp_path: Path) -> None:
    policy = SandboxPolicy(mode="workspace-write", writable_roots=(str(tmp_path),), exclude_slash_tmp=True)
    await said(table, command("echo x > ../home/config.toml; echo x > ../beside", policy))
    assert not (tmp_path / "home" / "config.toml").exists()
    assert (tmp_path / "beside").exists()


async def test_what_is_protected_cannot_be_moved_away_with_its_parent(
    table: ProcessTable, command: Build, folder: Path, tmp_path: Path
) -> None:
    (folder / "a" / "store").mkdir(parents=True)
    (folder / ".git").write_text("gitdir: a/store\n")
    (folder / "b" / "root").mkdir(parents=True)
    policy = SandboxPolicy(mode="workspace-write", writable_roots=(str(folder / "b" / "root"),), exclude_slash_tmp=True)
    await said(
        table, command("mv a a2; mv b b2; mkdir -p a/store/hooks b/root/.git; echo x > a/f; echo x > b/f", policy)
    )
    assert sorted(path.name for path in folder.iterdir()) == [".git", "a", "b"]
    assert sorted(path.name for path in (folder / "a").iterdir()) == ["f", "store"]
    assert [*(folder / "a" / "store").iterdir(), *(folder / "b" / "root").iterdir()] == []


async def test_a_git_pointer_to_nowhere_does_no_harm(table: ProcessTable, command: Build, folder: Path) -> None:
    (folder / ".git").write_text("gitdir: no/where\n")
    assert await said(table, command("echo on", WORKSPACE_WRITE)) == "on\n"
    table.let_go()
    assert [path.name for path in folder.iterdir()] == [".git"]


async def test_placeholders_stay_while_another_command_needs_them(
    table: ProcessTable, command: Build, folder: Path
) -> None:
    live = await table.start(
        command("sleep 30", WORKSPACE_WRITE),
        session_id=1,
        call_id="c",
        on_output=lambda _: None,
        on_exit=lambda _: None,
    )
    await said(table, command("true", WORKSPACE_WRITE))
    assert {path.name for path in folder.iterdir()} == {*PROTECTED_NAMES, *MORE_PROTECTED}
    await table.stop(live)
    table.let_go()
    assert list(folder.iterdir()) == []


async def test_git_reports_no_placeholder_neither_to_the_command_nor_to_anybody_else(
    table: ProcessTable, command: Build, folder: Path
) -> None:
    status = "git status --porcelain --untracked-files=all --ignored"
    assert await said(table, Command(argv=["git", "init", "-q"], cwd=str(folder), boundary=None)) == ""
    script = f"{status}; ls -a; touch ready; until test -e go; do sleep 0.01; done"
    running = asyncio.ensure_future(said(table, command(script, WORKSPACE_WRITE)))
    while not (folder / "ready").exists():
        await asyncio.sleep(0.01)
    assert await said(table, Command(argv=["bash", "-c", status], cwd=str(folder), boundary=None)) == "?? ready\n"
    (folder / "go").touch()
    seen = await running
    assert seen.startswith(".\n..\n") and ".vscode" in seen, "it sees the folder, and no change of the repository"


@pytest.mark.parametrize("starts_command", [True, False])
async def test_what_a_crash_left_is_removed_and_what_people_made_is_not(
    starts_command: bool, table: ProcessTable, command: Build, folder: Path, tmp_path: Path
) -> None:
    left, filled, own = folder / ".git", folder / ".codex", folder / ".agents"
    for path in (left, filled):
        path.mkdir()
    (filled / "mine").write_text("x")
    for path in (left, filled):
        path.chmod(0o555)
    own.mkdir()
    register = tmp_path / "home" / "spindle"
    register.mkdir()
    (register / "guards-999999999").write_text(f"{left}\n{filled}\n{own}\n")
    if starts_command:
        await said(table, command("true", WORKSPACE_WRITE))
    else:
        ProcessTable(clock=SystemClock(), shell=table.shell, environment={}, home=str(tmp_path / "home"))
    assert sorted(path.name for path in folder.iterdir()) == [".agents", ".codex"]
    await table.aclose()
    assert list(register.iterdir()) == []


async def test_a_protected_link_is_refused_because_it_could_be_replaced(
    table: ProcessTable, command: Build, folder: Path
) -> None:
    (folder / ".codex").symlink_to("elsewhere")
    with pytest.raises(SandboxUnavailable, match=r"\.codex is a symbolic link.*read-only mode"):
        await said(table, command("true", WORKSPACE_WRITE))
    assert await said(table, command("echo ok", READ_ONLY)) == "ok\n"


@pytest.mark.parametrize("name", [".vscode", ".envrc", ".husky"])
@pytest.mark.parametrize("target", ["elsewhere", "../outside"])
async def test_so_is_a_link_that_only_the_settings_protect(
    table: ProcessTable, command: Build, folder: Path, name: str, target: str
) -> None:
    (folder / target).mkdir()
    (folder / name).symlink_to(target)
    with pytest.raises(SandboxUnavailable, match=rf"\{name} is a symbolic link.*`protected`"):
        await said(table, command(f"rm {name}; echo evil >{name}", WORKSPACE_WRITE))
    assert (folder / name).is_symlink()


@pytest.mark.skipif(os.getuid() != 0, reason="needs files of somebody else")
async def test_a_link_of_somebody_else_in_a_folder_like_slash_tmp_keeps_nothing_from_running(
    table: ProcessTable, command: Build, folder: Path
) -> None:
    (folder / ".envrc").symlink_to("elsewhere")
    os.chown(folder / ".envrc", 54321, 54321, follow_symlinks=False)
    os.chown(folder, 54322, 54322)
    folder.chmod(0o1777)
    assert await said(table, command("rm -f .envrc 2>/dev/null; echo ok", WORKSPACE_WRITE)) == "ok\n"
    assert (folder / ".envrc").is_symlink()


async def test_no_network_unless_the_policy_allows_it(table: ProcessTable, command: Build) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo open; echo $CODEX_SANDBOX_NETWORK_DISABLED"
        assert await said(table, command(script, WORKSPACE_WRITE)) == "1\n"
        assert await said(table, command(script, READ_ONLY)) == "1\n"
        open_policy = SandboxPolicy(mode="workspace-write", network_access=True)
        assert await said(table, command(script, open_policy)) == "open\n\n"
        assert await said(table, command(script, None)) == "open\n\n"


async def test_other_processes_and_their_secrets_are_out_of_sight(table: ProcessTable, command: Build) -> None:
    output = await said(
        table, command(f"ls /proc/{os.getpid()} 2>&1 | head -1; kill -9 {os.getpid()}; id -u", READ_ONLY)
    )
    assert "No such file or directory" in output
    assert output.endswith(f"{os.getuid()}\n")


async def test_settings_of_the_kernel_cannot_be_written(table: ProcessTable, command: Build) -> None:
    # Harmless if it worked: the file gets what it had.
    script = "now=$(cat /proc/sys/vm/swappiness); (echo $now > /proc/sys/vm/swappiness) && echo written"
    for policy in (READ_ONLY, WORKSPACE_WRITE, SandboxPolicy(mode="workspace-write", writable_roots=("/",))):
        assert "written" not in await said(table, command(script, policy))


async def test_a_confined_command_has_no_rights_to_gain(table: ProcessTable, command: Build) -> None:
    output = await said(
        table, command("grep -E 'CapEff|NoNewPrivs' /proc/self/status; unshare -Ur true || echo no", READ_ONLY)
    )
    assert output.split()[:4] == ["CapEff:", "0000000000000000", "NoNewPrivs:", "1"]
    assert output.endswith("no\n")


async def test_background_children_end_with_a_confined_command(
    table: ProcessTable, command: Build, survivors: Callable[[str], list[int]]
) -> None:
    await said(table, command("(env -i setsid sleep 86399.75 &); echo on", READ_ONLY))
    assert survivors("86399.75") == []


async def test_loader_variables_reach_the_command_and_not_its_launcher(
    table: ProcessTable, child_env: dict[str, str], command: Build, folder: Path, reach: Callable[..., Boundary]
) -> None:
    child_env["LD_LIBRARY_PATH"] = str(folder / "libs")
    assert await said(table, command('echo "$LD_LIBRARY_PATH"', READ_ONLY)) == f"{folder}/libs\n"
    wanted = Wanted(
        argv=["true"], boundary=reach(READ_ONLY), cwd=str(folder), env=child_env, home=str(folder), tty=False
    )
    launch = bubblewrap.launch(wanted)
    assert "LD_LIBRARY_PATH" not in launch.env


async def test_a_launcher_inside_a_root_cannot_be_replaced(table: ProcessTable, command: Build, folder: Path) -> None:
    assert await table.sandbox_problem() is None
    launcher = os.path.realpath(bubblewrap_here.Here.program)
    if launcher in bubblewrap_here.SYSTEM_PATHS:
        pytest.skip("the system's launcher is in use")
    top = "/" + launcher.split("/")[1]
    policy = SandboxPolicy(mode="workspace-write", writable_roots=(top,), exclude_slash_tmp=True)
    # Only asked, not tried: if this fails, the launcher must survive it.
    folders = [launcher.rsplit("/", depth)[0] for depth in range(launcher.count("/") - 1)]
    # A folder that is a mount can be written in, but not be moved away.
    test = '[ -w "$path" ] && ! mountpoint -q "$path" && echo "$path"'
    script = f"[ -w {shlex.quote(launcher)} ] && echo it; for path in {shlex.join(folders)}; do {test}; done; echo end"
    assert await said(table, command(script, policy)) == "end\n"


@pytest.mark.skipif(os.getuid() != 0, reason="needs to become another user")
def test_an_ordinary_user_is_confined_too(tmp_path: Path) -> None:
    """The same launcher arguments, as nobody: the rest of the suite runs as root where this test runs."""
    work = tmp_path / "nobody"
    work.mkdir()
    os.chown(work, 65534, 65534)
    for parent in (work, *work.parents):
        if parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    (work / "home").mkdir()
    os.chown(work / "home", 65534, 65534)
    script = f"""
import asyncio, os
from spindle.policy.sandbox import boundary_of
from spindle.process.table import Command, ProcessTable
from spindle.protocol.clock import SystemClock
from spindle.protocol.settings import SandboxPolicy
from spindle.workspace.shell import Shell

async def main():
    table = ProcessTable(clock=SystemClock(), shell=Shell("bash", "/bin/bash"),
                         environment={{"PATH": "/usr/bin:/bin", "HOME": "{work}"}}, home="{work}/home")
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
    command = Command(argv=table.shell_argv("id -u; echo x > in; echo x > ../out; mkdir .git"),
                      cwd="{work}", boundary=boundary_of(policy, cwd="{work}", env={{}}, home="{work}/home"))
    finished = await table.run(command, timeout_s=20)
    print(finished.output.peek().text())
    await table.aclose()

asyncio.run(main())
"""
    source = Path(bubblewrap.__file__).parents[3]
    done = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", script],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
        cwd=work,
    )
    unreadable = ("Permission denied", "shared libraries", "No module named 'spindle'")
    if not done.stdout and any(sign in done.stderr for sign in unreadable):
        pytest.skip("this interpreter cannot be read by other users")
    assert done.stdout.startswith("65534\n"), done.stderr
    assert "Read-only file system" in done.stdout and "File exists" in done.stdout
    assert sorted(path.name for path in work.iterdir()) == ["home", "in"]


def test_nobody_waits_for_a_thread_that_starts_nothing_any_more() -> None:
    spawner = Spawner(lambda: None)
    assert spawner.call(lambda: 1) == 1
    assert spawner.close(lambda: "last") == "last"
    with pytest.raises(SpawnerClosed):
        spawner.call(lambda: 2)
