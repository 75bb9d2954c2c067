"""What `[spindle.sandbox]` adds: files that cannot be read, limits; and a sandbox that cannot be set up."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import MORE_PROTECTED, PROTECTED_NAMES, Boundary, Fence
from spindle.process.sandbox import bubblewrap_here, limits, mounts
from spindle.process.sandbox.placeholders import Placeholders
from spindle.process.table import Command, ProcessTable
from spindle.protocol.settings import SandboxPolicy

PYTHON = shlex.quote(sys.executable)
WRITE = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
READ = SandboxPolicy(mode="read-only")
Reach = Callable[..., Boundary]


async def said(table: ProcessTable, script: str, boundary: Boundary | None, cwd: Path) -> str:
    command = Command(argv=["bash", "-c", script], cwd=str(cwd), boundary=boundary)
    finished = await table.run(command, timeout_s=30)
    table.let_go()
    return finished.output.peek().text()


# ---- what may not be read ------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [READ, WRITE], ids=["read-only", "workspace-write"])
async def test_a_denied_file_is_denied_by_every_name(
    policy: SandboxPolicy, table: ProcessTable, reach: Reach, folder: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "keys" / "id"
    secret.parent.mkdir()
    secret.write_text("CANARY")
    (folder / "link").symlink_to(secret)
    os.link(secret, folder / "twin")
    (folder / ".env").write_text("CANARY")
    fence = Fence(deny_read=(str(secret.parent), str(secret), "**/.env"))
    names = f"{secret} {folder}/../keys/id /proc/self/root{secret} link twin .env ./x/../.env"
    attempt = f"cat {names}; ls {secret.parent}; ln {secret} more; cp {secret} more; mv .env other; cat more other"
    assert "CANARY" in await said(table, f"cat {names}", reach(policy), folder)
    shown = await said(table, attempt, reach(policy, fence), folder)
    assert "CANARY" not in shown
    assert "Permission denied" in shown
    assert "CANARY" in await said(table, f"cat {names}", None, folder)


async def test_a_denied_file_cannot_be_made_first(
    table: ProcessTable, reach: Reach, folder: Path, tmp_path: Path
) -> None:
    boundary = reach(WRITE, Fence(deny_read=("secret.txt", "deep/er/secret.txt")))
    shown = await said(table, "echo x > secret.txt; mkdir deep; cat secret.txt; ls -a", boundary, folder)
    assert "secret.txt: Is a directory" in shown
    assert "cannot create directory" in shown
    assert list(folder.iterdir()) == []


async def test_a_pattern_that_would_take_forever_runs_nothing(
    table: ProcessTable, reach: Reach, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spindle.policy import deny

    monkeypatch.setattr(deny, "MAX_FOLDERS", 3)
    for number in range(5):
        (folder / f"d{number}").mkdir()
    with pytest.raises(SandboxUnavailable, match=r"more than 3 folders, so nothing was run; name the folder"):
        await said(table, "touch ran", reach(WRITE, Fence(deny_read=("**/.env",))), folder)
    assert not (folder / "ran").exists()


async def test_other_names_that_would_take_forever_to_find_run_nothing(
    table: ProcessTable, reach: Reach, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spindle.policy import deny

    monkeypatch.setattr(deny, "MAX_FOLDERS", 3)
    secret = tmp_path / "secret"
    secret.write_text("CANARY")
    for number in range(5):
        (folder / f"d{number}").mkdir()
    boundary = reach(WRITE, Fence(deny_read=(str(secret),)))
    await said(table, "touch ran", boundary, folder)
    (folder / "ran").unlink()
    os.link(secret, folder / "d4" / "twin")
    with pytest.raises(SandboxUnavailable, match=r"more than 3 folders, so nothing was run; remove some of those, or"):
        await said(table, "touch ran", boundary, folder)
    assert not (folder / "ran").exists()


# ---- what is protected ---------------------------------------------------------------------------------


async def test_the_users_own_list_is_protected_also_where_its_folder_is_missing(
    table: ProcessTable, reach: Reach, folder: Path
) -> None:
    boundary = reach(WRITE, Fence(protected=("ci/deploy.sh", "absent/too")))
    (folder / "ci").mkdir()
    (folder / "ci" / "deploy.sh").write_text("good")
    script = (
        "echo bad > ci/deploy.sh; mv ci ic; rm -rf ci; mkdir absent absent/too; echo fine > ci/other; echo x > .envrc"
    )
    await said(table, script, boundary, folder)
    assert (folder / "ci" / "deploy.sh").read_text() == "good"
    assert (folder / "ci" / "other").read_text() == "fine\n"
    assert sorted(path.name for path in folder.iterdir()) == [".envrc", "ci"]


async def test_what_an_editor_or_a_shell_would_run_later_is_protected(
    table: ProcessTable, reach: Reach, folder: Path
) -> None:
    (folder / ".vscode").mkdir()
    (folder / ".vscode" / "settings.json").write_text("{}")
    (folder / ".envrc").write_text("good")
    names = ".vscode/tasks.json .vscode/settings.json .envrc .husky/pre-commit"
    script = f"for f in {names}; do echo bad > $f; done; rm -rf .vscode .envrc; mkdir .husky"
    await said(table, script, reach(WRITE), folder)
    assert (folder / ".vscode" / "settings.json").read_text() == "{}"
    assert (folder / ".envrc").read_text() == "good"
    assert sorted(os.listdir(folder)) == [".envrc", ".vscode"]
    assert os.listdir(folder / ".vscode") == ["settings.json"]


async def test_a_worktree_pointer_to_nowhere_leads_nowhere(table: ProcessTable, reach: Reach, folder: Path) -> None:
    (folder / ".git").write_text("gitdir: store/worktrees/w\n")
    await said(table, "mkdir -p store/worktrees/w/hooks", reach(WRITE), folder)
    assert os.listdir(folder) == [".git"]


def test_placeholders_vanish_with_a_killed_agent(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    script = f"""
import asyncio
import errno
from spindle.policy.sandbox import boundary_of
from spindle.process.table import Command, ProcessTable
from spindle.protocol.clock import SystemClock
from spindle.protocol.settings import SandboxPolicy
from spindle.workspace.shell import Shell

async def main():
    env = {{"PATH": "/usr/bin:/bin", "HOME": "{home}"}}
    table = ProcessTable(clock=SystemClock(), shell=Shell("bash", "/bin/bash"), environment=env, home="{home}")
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
    boundary = boundary_of(policy, cwd="{folder}", env=env, home="{home}")
    await table.run(Command(argv=["sh", "-c", "touch ran; sleep 60"], cwd="{folder}", boundary=boundary), timeout_s=60)

asyncio.run(main())
"""
    agent = subprocess.Popen([sys.executable, "-c", script])
    with agent:
        while not (folder / "ran").exists():
            time.sleep(0.02)
        assert {path.name for path in folder.iterdir()} == {*PROTECTED_NAMES, *MORE_PROTECTED, "ran"}
        agent.send_signal(signal.SIGKILL)
    end = time.monotonic() + 20
    while (os.listdir(folder) != ["ran"] or os.listdir(home / "spindle")) and time.monotonic() < end:
        time.sleep(0.02)
    assert os.listdir(folder) == ["ran"]
    assert os.listdir(home / "spindle") == []


async def test_placeholders_linger_for_a_moment_and_are_not_in_the_way_of_what_is_let_out(
    table: ProcessTable, reach: Reach, folder: Path
) -> None:
    confined = Command(argv=["sleep", "0"], cwd=str(folder), boundary=reach(WRITE))
    await table.run(confined, timeout_s=30)
    assert ".git" in os.listdir(folder)
    made = Command(argv=["mkdir", ".git"], cwd=str(folder), boundary=None)
    assert (await table.run(made, timeout_s=30)).exit_code == 0
    assert os.listdir(folder) == [".git"]
    (folder / ".git").rmdir()
    await table.run(confined, timeout_s=30)
    end = time.monotonic() + 10
    while os.listdir(folder) and time.monotonic() < end:
        await asyncio.sleep(0.05)
    assert os.listdir(folder) == []


async def test_on_a_full_disk_nothing_is_run_and_nothing_is_left(
    table: ProcessTable, reach: Reach, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def make(path: str, *mode: int) -> None:
        if path.endswith("/.husky"):  # there was room for the names before it
            raise OSError(errno.ENOSPC, "No space left on device", path)
        mkdir(path, *mode)

    monkeypatch.setattr(os, "mkdir", make)
    command = Command(argv=["touch", "ran"], cwd=str(folder), boundary=reach(WRITE))
    with pytest.raises(
        SandboxUnavailable, match=r"cannot protect .*/\.husky: No space left on device; nothing was run"
    ):
        await table.run(command, timeout_s=30)
    assert os.listdir(folder) == []


@pytest.mark.parametrize("argv", [["ls", "-a"], ["bash", "-lc", "ls -a"]])
async def test_a_command_that_only_looks_needs_no_placeholders(
    table: ProcessTable, reach: Reach, folder: Path, argv: list[str]
) -> None:
    # A script finds the profile of the login shell already read: reading it is no looking.
    await table.run(Command(argv=["bash", "-lc", "sleep 0"], cwd=str(folder), boundary=reach(WRITE)), timeout_s=30)
    table.let_go()
    done = await table.run(Command(argv=argv, cwd=str(folder), boundary=reach(WRITE)), timeout_s=30)
    assert (done.exit_code, done.output.peek().text().split()) == (0, [".", ".."])


# ---- limits --------------------------------------------------------------------------------------------

FORKS = """
import os, sys, time
born = 0
try:
    for _ in range(60):
        if os.fork() == 0:
            time.sleep(2)
            os._exit(0)
        born += 1
except OSError:
    pass
print(born)
"""
ALLOCATES = "x = bytearray(400 << 20); print('got', 'it')"


async def test_processes_and_memory_are_limited_when_wanted(table: ProcessTable, reach: Reach, folder: Path) -> None:
    if os.getuid() == 0 and not limits.can_group():
        pytest.skip("user 0 is limited by control groups alone, which cannot be made here")
    (folder / "forks.py").write_text(FORKS)
    (folder / "allocates.py").write_text(ALLOCATES)
    free, tight = reach(WRITE), reach(WRITE, Fence(pids_max=20, memory_max=200 << 20))
    assert await said(table, f"{PYTHON} forks.py", free, folder) == "60\n"
    assert await said(table, f"{PYTHON} allocates.py", free, folder) == "got it\n"
    assert 1 < int((await said(table, f"{PYTHON} forks.py", tight, folder)).strip() or 2) < 20
    assert "got it" not in await said(table, f"{PYTHON} allocates.py", tight, folder)


def test_a_limit_without_control_groups_is_the_shells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits._Found, "parents", {"pids": None, "memory": None})
    fence = Fence(pids_max=7, memory_max=1 << 20)
    assert limits.group(fence).enter(["x"]) == ("x",)
    words = limits.inside(fence, ["sh", "-c", "ulimit -d", "name"])
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "1024\n"
    assert "ulimit -u 7" in " ".join(words)
    assert limits.inside(Fence(), ["x"]) == ["x"]


# ---- when it cannot be set up --------------------------------------------------------------------------


async def test_a_sandbox_that_cannot_be_set_up_is_no_result_of_the_command(
    table: ProcessTable, reach: Reach, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await said(table, "true", reach(WRITE), folder)
    monkeypatch.setattr(mounts, "SYSTEM_MOUNTS", ("--bind", "/no/such/place", "/mnt"))
    with pytest.raises(SandboxUnavailable, match=r"could not be set up \(.*no/such/place.*\), so nothing was run"):
        await said(table, "touch ran", reach(WRITE), folder)
    table.let_go()
    assert os.listdir(folder) == []


@pytest.mark.parametrize("namespaces", [None, ("--unshare-user", *bubblewrap_here.NAMESPACES)])
async def test_the_first_process_and_what_is_protected_are_covered_by_older_launchers_too(
    table: ProcessTable,
    reach: Reach,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    namespaces: tuple[str, ...] | None,
) -> None:
    await said(table, "true", reach(WRITE), folder)
    if namespaces is not None:  # as found where the launcher does not know the newer options
        monkeypatch.setattr(bubblewrap_here.Here, "namespaces", namespaces)
    script = "ls -A /proc/1; (: > /proc/1/mem) 2>&1 || echo kept; (mkdir .git/hooks) 2>/dev/null || echo kept"
    assert (await said(table, script, reach(WRITE), folder)).endswith("kept\nkept\n")
    assert "mem" not in (await said(table, "ls -A /proc/1", reach(WRITE), folder))
    table.let_go()
    assert os.listdir(folder) == []


async def test_a_set_up_that_fails_once_is_tried_again(
    table: ProcessTable, reach: Reach, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await said(table, "true", reach(WRITE), folder)
    vanished = iter([{"/no/such/folder"}])
    monkeypatch.setattr(mounts, "_on_the_way", lambda *_: next(vanished, set()))
    assert await said(table, "echo ran", reach(WRITE), folder) == "ran\n"


async def test_a_command_may_end_like_a_launcher_that_failed(table: ProcessTable, reach: Reach, folder: Path) -> None:
    shown = await said(table, "echo bwrap: nothing works; exit 1", reach(WRITE), folder)
    assert shown == "bwrap: nothing works\n"


# ---- the agent itself ----------------------------------------------------------------------------------


async def test_the_agent_cannot_be_looked_into(table: ProcessTable, folder: Path) -> None:
    import ctypes
    import resource

    await said(table, "true", None, folder)
    assert ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 0, "dumpable"
    assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0


async def test_a_confined_command_inherits_nothing(table: ProcessTable, reach: Reach, folder: Path) -> None:
    shown = await said(
        table,
        "ls /proc/self/fd; cat /proc/keys 2>/dev/null; grep -E 'NoNewPrivs|CapBnd' /proc/self/status",
        reach(READ),
        folder,
    )
    assert shown.split() == ["0", "1", "2", "3", "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]


@pytest.mark.skipif(sys.platform != "linux", reason="keyrings are Linux's")
def test_commands_are_started_with_a_keyring_of_their_own() -> None:
    import ctypes

    from spindle.process.sandbox import kernel

    session, keyring_id = ctypes.c_long(-3), ctypes.c_long(0)

    def own_keyring() -> int:
        return kernel._call(kernel._KEYCTL, keyring_id, session, keyring_id)

    assert bubblewrap_here.starter_here().spawner.call(own_keyring) != own_keyring()


def test_a_placeholder_that_another_process_is_about_to_remove_is_waited_for(tmp_path: Path) -> None:
    """On a busy machine the other one may be stopped between its two steps."""
    place = tmp_path / ".git"
    other = Placeholders(str(tmp_path / "other"))
    assert other.hold([str(place)]) == [str(place)]
    with open_folder(place) as fd:
        other.release([str(place)])  # refused, because of our lock
        fcntl.flock(fd, fcntl.LOCK_EX)

        def remove() -> None:
            place.rmdir()
            fcntl.flock(fd, fcntl.LOCK_UN)

        later = threading.Timer(0.3, remove)
        later.start()
        ours = Placeholders(str(tmp_path / "ours"))
        assert ours.hold([str(place)]) == [str(place)]
        later.join()
    assert place.is_dir()
    ours.release([str(place)])
    assert not place.exists()
    for placeholders in (ours, other):
        placeholders.close()


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield fd
    finally:
        os.close(fd)
