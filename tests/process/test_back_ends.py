"""The ladder of back ends: which one is used, what is said when none is, and that Landlock keeps a whole command."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from process.fences import READ_ONLY, WORKSPACE_WRITE
from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import Boundary, Fence
from spindle.process import sandbox
from spindle.process.sandbox import landlock, outside, survey
from spindle.process.sandbox.launch import Backend, Wanted
from spindle.process.table import Command, ProcessTable
from spindle.protocol.settings import SandboxPolicy

PYTHON = shlex.quote(sys.executable)
LANDLOCK = Fence(backend="landlock")
needs_landlock = pytest.mark.skipif(
    landlock.unusable(landlock.abi()) is not None, reason="this kernel has no Landlock of use"
)
Reach = Callable[..., Boundary]
Say = Callable[..., Awaitable[tuple[int, str]]]


@pytest.mark.parametrize(
    ("backend", "system", "used"),
    [
        ("auto", "linux", "bubblewrap"),
        ("bwrap", "linux", "bubblewrap"),
        ("landlock", "linux", "landlock"),
        ("none", "linux", "none"),
        ("auto", "darwin", "seatbelt"),
        ("bwrap", "darwin", "none"),
        ("landlock", "darwin", "none"),
        ("none", "darwin", "none"),
        ("auto", "win32", "none"),
        ("auto", "freebsd14", "none"),
    ],
)
def test_one_back_end_is_used_and_never_another(backend: str, system: str, used: str) -> None:
    assert sandbox.backend_of(Fence(backend=backend), system) == used  # pyright: ignore[reportArgumentType]


async def test_without_a_back_end_nothing_is_run(reach: Reach) -> None:
    fence = Fence(backend="none")
    said = await sandbox.problem(fence)
    assert said is not None and said.startswith('there is no sandbox because of `backend = "none"`')
    with pytest.raises(SandboxUnavailable, match="nothing was run"):
        await sandbox.back_end(reach(READ_ONLY, fence))


async def test_full_access_needs_no_back_end(folder: Path, reach: Reach, child_env: dict[str, str]) -> None:
    boundary = reach(SandboxPolicy(mode="danger-full-access"), Fence(backend="none"))
    wanted = Wanted(argv=["true"], boundary=boundary, cwd=str(folder), env=child_env, home="", tty=False)
    launch = (await sandbox.back_end(boundary)).launch(wanted)
    assert (list(launch.argv), launch.is_confined) == (["true"], False)


def test_what_has_a_boundary_is_never_started_outside(folder: Path, reach: Reach, child_env: dict[str, str]) -> None:
    with pytest.raises(ModuleNotFoundError):
        sandbox._load(sandbox.backend_of(Fence(backend="none")))
    wanted = Wanted(argv=["true"], boundary=reach(READ_ONLY), cwd=str(folder), env=child_env, home="", tty=False)
    with pytest.raises(AssertionError, match="stays inside"):
        outside.launch(wanted)


async def test_a_command_that_gets_out_is_noticed(child_env: dict[str, str]) -> None:
    trial = await survey.try_mode("danger-full-access", Fence(), child_env)
    assert trial.could == tuple(survey.WORDS)
    assert trial.failure is not None
    for word in ("inside", "protected", "outside", "network", "sockets", "signals"):
        assert f"a command could {survey.WORDS[word]}" in trial.failure


# ---- Landlock --------------------------------------------------------------------------------------


@pytest.fixture
def say(table: ProcessTable, folder: Path, reach: Reach) -> Say:
    """Run a script behind Landlock: its exit code, and what it printed."""

    async def run(script: str, policy: SandboxPolicy = WORKSPACE_WRITE, fence: Fence = LANDLOCK) -> tuple[int, str]:
        command = Command(argv=["/bin/bash", "-c", script], cwd=str(folder), boundary=reach(policy, fence))
        done = await table.run(command, timeout_s=20)
        return done.exit_code, done.output.peek().text()

    return run


@needs_landlock
async def test_the_agents_commands_run_behind_landlock_when_the_user_accepted_it(say: Say, folder: Path) -> None:
    assert await sandbox.problem(LANDLOCK) is None
    assert await say("touch inside && echo done; exit 3") == (3, "done\n")
    code, said = await say("touch ../outside")
    assert code != 0 and "Permission denied" in said
    code, said = await say("echo more > inside", READ_ONLY)
    assert code != 0 and "Permission denied" in said
    assert not (folder.parent / "outside").exists()


@needs_landlock
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("socket.socket(socket.AF_INET)", "not supported"),
        ("socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)", "not supported"),
        ("socket.socket(socket.AF_VSOCK)", "not supported"),
        ("resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE)", "not permitted"),
        ("os.setpriority(os.PRIO_PROCESS, OUTER, 19)", "not permitted"),
        ("os.setpriority(os.PRIO_PGRP, os.getpgrp(), 19)", "not permitted"),
        ("os.sched_setaffinity(OUTER, {0})", "not permitted"),
        ("os.sched_setscheduler(OUTER, os.SCHED_BATCH, os.sched_param(0))", "not permitted"),
        ("os.setxattr('/etc/hostname', 'user.a', b'b')", "not supported"),
        ("os.open(f'/proc/{OUTER}/environ', 0)", "denied"),
        ("os.kill(OUTER, 0)", "not permitted"),
        ("ctypes.CDLL(None, use_errno=True).shmget(1, 4096, 0o1600) < 0 and exit('refused')", "refused"),
        ("ctypes.CDLL(None, use_errno=True).ptrace(16, OUTER, 0, 0) < 0 and exit('refused')", "refused"),
        ("ctypes.CDLL(None, use_errno=True).unshare(0x10000000) < 0 and exit('refused')", "refused"),
    ],
)
async def test_calls_that_lead_outside_are_refused(say: Say, code: str, words: str) -> None:
    whole = f"import ctypes, os, resource, socket; OUTER = {os.getpid()}; {code}"
    status, said = await say(f"{PYTHON} -c {shlex.quote(whole)}")
    assert status != 0 and words in said


@needs_landlock
async def test_modes_and_times_are_changed_only_where_something_can_be_written(say: Say, folder: Path) -> None:
    (folder / "file").write_text("x")
    before = (folder / "file").stat()
    for script in ("chmod 600 file", "touch -d 2001-01-01 file", "chown 0:0 file"):
        assert (await say(script, READ_ONLY))[0] != 0
    assert (folder / "file").stat() == before
    assert await say("chmod 600 file && touch -d 2001-01-01 file && stat -c %a file") == (0, "600\n")
    code, said = await say("chmod u+s file")
    assert code != 0 and "not permitted" in said


@needs_landlock
async def test_a_program_sets_its_own_limits_and_has_pairs_of_sockets(say: Say) -> None:
    code = (
        "import os, resource, socket; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "
        "before = os.nice(0); os.nice(1); "
        "os.sched_setaffinity(0, os.sched_getaffinity(0)); socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); "
        "socket.socketpair(); print(os.nice(0) - before)"
    )
    assert await say(f"{PYTHON} -c {shlex.quote(code)}") == (0, "1\n")


@needs_landlock
async def test_sockets_of_its_own_work_and_those_of_others_do_not(say: Say, folder: Path, tmp_path: Path) -> None:
    (folder / "own.py").write_text(
        """
import asyncio, socket

async def main():
    async def serve(reader, writer):
        writer.write(await reader.readline())
        writer.close()
    async with await asyncio.start_unix_server(serve, "own.sock"):
        reader, writer = await asyncio.open_unix_connection("own.sock")
        writer.write(b"own socket\\n")
        print((await reader.readline()).decode(), end="")
        writer.close()

asyncio.run(main())
outside = socket.socket(socket.AF_UNIX)
try:
    outside.connect("theirs.sock")
except OSError as error:
    print(error.strerror)
box, sender = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
box.bind("own.box")
sender.sendmsg([b"own letter"], [], 0, "own.box")
print(box.recv(99).decode())
for one in (sender, socket.socketpair(type=socket.SOCK_DGRAM)[0]):
    try:
        one.sendmsg([b"x"], [], 0, "theirs.box")
    except OSError as error:
        print(error.strerror)
"""
    )
    server = await asyncio.start_unix_server(lambda *_: None, folder / "theirs.sock")
    box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    box.bind(str(folder / "theirs.box"))
    box.setblocking(False)
    refused = "Operation not permitted\n"
    try:
        said = await say(f"{PYTHON} own.py")
        assert said == (0, f"own socket\n{refused}own letter\n{refused}{refused}")
        with pytest.raises(BlockingIOError):
            box.recv(9)
    finally:
        box.close()
        server.close()
        await server.wait_closed()


@needs_landlock
async def test_a_terminal_works_behind_landlock(table: ProcessTable, folder: Path, reach: Reach) -> None:
    script = "tty -s </dev/tty && stty size && echo ready; read answer; echo got=$answer"
    command = Command(argv=["/bin/bash", "-c", script], cwd=str(folder), boundary=reach(READ_ONLY, LANDLOCK), tty=True)
    live = await table.start(
        command,
        session_id=table.reserve_id(),
        call_id="c",
        on_output=lambda _: None,
        on_exit=lambda _: None,
    )
    while b"ready" not in live.transcript.value():
        await asyncio.sleep(0.02)
    assert await live.running.write(b"yes\n", 5)
    assert await live.wait(10) == 0
    assert live.transcript.peek().text() == "24 80\r\nready\r\nyes\r\ngot=yes\r\n"


@needs_landlock
async def test_what_a_command_leaves_behind_ends_with_the_thread(
    table: ProcessTable, say: Say, survivors: Callable[[str], list[int]]
) -> None:
    assert (await say("(env -i setsid sleep 86397.25 &); echo on"))[0] == 0
    await table.aclose()
    assert survivors("86397.25") == []


@needs_landlock
async def test_a_command_that_takes_too_long_is_ended(table: ProcessTable, folder: Path, reach: Reach) -> None:
    command = Command(argv=["sleep", "60"], cwd=str(folder), boundary=reach(READ_ONLY, LANDLOCK))
    assert (await table.run(command, timeout_s=0.2)).timed_out


@needs_landlock
@pytest.mark.parametrize("limit", [{"pids_max": 9}, {"memory_max": 1 << 30}])
async def test_limits_that_cannot_be_kept_are_a_reason_to_refuse(say: Say, limit: dict[str, Any]) -> None:
    with pytest.raises(SandboxUnavailable, match="_max is set, which the Landlock back end cannot enforce"):
        await say("true", fence=Fence(backend="landlock", **limit))


@pytest.mark.parametrize("name", sorted(set(sandbox._LADDER.values())))
def test_every_back_end_has_what_a_back_end_is_asked_for(name: str) -> None:
    module = importlib.import_module(f"spindle.process.sandbox.{name}")
    for method in ("problem", "launch"):
        asked = inspect.signature(getattr(Backend, method))
        given = inspect.signature(getattr(module, method))
        assert list(given.parameters) == [key for key in asked.parameters if key != "self"], method
