"""Starting commands, coming back to them, and ending them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import spindle
from process.fences import READ_ONLY, WORKSPACE_WRITE
from spindle.policy.sandbox import Boundary, Fence
from spindle.process import kill
from spindle.process.table import MAX_LIVE, Command, LiveProcess, ProcessTable


async def said(table: ProcessTable, command: Command) -> str:
    finished = await table.run(command, timeout_s=20)
    assert finished.exit_code == 0, finished.output.value()
    return finished.output.peek().text()


class Ends:
    """Collects how sessions ended."""

    def __init__(self) -> None:
        self.codes: list[int | None] = []

    def __call__(self, live: LiveProcess) -> None:
        self.codes.append(live.exit_code)


async def start(table: ProcessTable, command: Command, ends: Ends | None = None) -> LiveProcess:
    return await table.start(
        command, session_id=table.reserve_id(), call_id="c1", on_output=lambda _: None, on_exit=ends or Ends()
    )


async def test_both_streams_come_merged_in_order(table: ProcessTable, command: Callable[..., Command]) -> None:
    assert await said(table, command("echo a; echo b >&2; echo c")) == "a\nb\nc\n"


async def test_a_cancelled_command_is_gone_at_once_with_its_daemons(
    table: ProcessTable, command: Callable[..., Command], survivors: Callable[[str], list[int]]
) -> None:
    await table.run(command("true"), timeout_s=10)
    ended: list[int] = []
    task = asyncio.create_task(
        table.run(
            command("(env -i setsid sleep 86399.25 &); trap '' TERM; sleep 86399.25"),
            timeout_s=60,
            on_end=lambda finished: ended.append(finished.exit_code),
        )
    )
    await asyncio.sleep(0.3)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - started < 15
    assert ended == [128 + signal.SIGKILL]
    assert survivors("86399.25") == []


async def test_a_session_goes_on_takes_input_and_ends(table: ProcessTable, command: Callable[..., Command]) -> None:
    ends = Ends()
    live = await start(table, command("echo ready; read x; echo got-$x; exit 4", tty=True), ends)
    assert await live.wait(0.3) is None
    assert live.unread.take().text() == "ready\r\n"
    assert table.find(live.id) is live
    assert await live.running.write(b"hey\n", 1.0)
    assert await live.wait(10) == 4
    assert live.unread.take().text() == "hey\r\ngot-hey\r\n"
    assert live.transcript.peek().text() == "ready\r\nhey\r\ngot-hey\r\n"
    assert ends.codes == [4]


@pytest.mark.parametrize("sandbox", [None, WORKSPACE_WRITE], ids=["bare", "confined"])
async def test_ctrl_c_reaches_the_program_and_not_its_launcher(
    sandbox: object, table: ProcessTable, command: Callable[..., Command]
) -> None:
    script = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done"
    live = await start(table, command(script, sandbox, tty=True))
    while b"ready" not in live.transcript.value():
        await asyncio.sleep(0.02)
    await live.running.write(b"\x03", 1.0)
    assert await live.wait(10) == 7
    assert "caught" in live.transcript.peek().text()


async def test_session_ids_are_in_range_and_differ(table: ProcessTable) -> None:
    ids = {table.reserve_id() for _ in range(50)}
    assert len(ids) > 40
    assert all(1000 <= number <= 99_999 for number in ids)


async def test_the_least_recently_used_session_makes_room(table: ProcessTable, command: Callable[..., Command]) -> None:
    sessions = [await start(table, command("sleep 60")) for _ in range(MAX_LIVE - 1)]
    over = await start(table, command("true"))
    await over.wait(10)
    table.find(sessions[0].id)
    await start(table, command("sleep 60"))
    assert table.find(over.id) is over, "among the eight newest, even an ended one stays"
    assert table.find(sessions[0].id) is sessions[0], "just used"
    assert table.find(sessions[1].id) is None
    assert sessions[1].exit_code is not None
    assert table.live_count == MAX_LIVE


async def test_an_ended_session_makes_room_before_a_running_one(
    table: ProcessTable, command: Callable[..., Command]
) -> None:
    first = await start(table, command("sleep 60"))
    over = await start(table, command("true"))
    await over.wait(10)
    for _ in range(MAX_LIVE - 2):
        await start(table, command("sleep 60"))
    await start(table, command("sleep 60"))
    assert (table.find(over.id), table.find(first.id)) == (None, first)


async def test_closing_the_table_ends_every_session(
    table: ProcessTable, command: Callable[..., Command], survivors: Callable[[str], list[int]]
) -> None:
    ends = Ends()
    for sandbox in (None, READ_ONLY):
        await start(table, command("sleep 86399.5", sandbox), ends)
    await table.aclose()
    assert survivors("86399.5") == []
    assert len(ends.codes) == 2


async def test_everything_can_be_killed_without_waiting(
    table: ProcessTable, command: Callable[..., Command], folder: Path, survivors: Callable[[str], list[int]]
) -> None:
    for sandbox in (None, WORKSPACE_WRITE):
        await start(table, command("trap '' TERM; (env -i setsid sleep 86399.375 &); sleep 86399.375", sandbox))
    table.kill_all()
    assert survivors("86399.375") == []
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("mode", ["danger-full-access", "read-only"])
def test_commands_die_with_an_agent_that_is_killed(
    mode: str, tmp_path: Path, child_env: dict[str, str], survivors: Callable[[str], list[int]]
) -> None:
    script = f"""
import asyncio, os, signal
from spindle.policy.sandbox import Boundary, Fence
from spindle.process.table import Command, ProcessTable
from spindle.protocol.clock import SystemClock
from spindle.policy.sandbox import boundary_of
from spindle.protocol.settings import SandboxPolicy
from spindle.workspace.shell import Shell

async def main():
    shell = Shell("bash", "/bin/bash")
    table = ProcessTable(clock=SystemClock(), shell=shell, environment=os.environ, home="{tmp_path}")
    command = Command(argv=["sh", "-c", "env -i setsid sleep 86399.625 & sleep 86399.625"], cwd="/",
                      boundary=boundary_of(SandboxPolicy(mode="{mode}"), cwd="/", env={{}}, home=""))
    await table.start(command, session_id=1, call_id="c", on_output=print, on_exit=print)
    await asyncio.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
    source = Path(spindle.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", script], env={**child_env, "PYTHONPATH": str(source)}, check=False)
    assert done.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 10
    while survivors("86399.625") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert survivors("86399.625") == []


async def test_eight_sleepers_sleep_together(table: ProcessTable, command: Callable[..., Command]) -> None:
    await table.run(command("true"), timeout_s=10)
    started = time.monotonic()
    await asyncio.gather(*(table.run(command("sleep 2"), timeout_s=30) for _ in range(8)))
    assert time.monotonic() - started < 12


async def test_a_missing_program_or_folder_is_an_error_of_starting(
    table: ProcessTable, folder: Path, command: Callable[..., Command], reach: Callable[..., Boundary | None]
) -> None:
    for sandbox in (None, READ_ONLY):
        missing = Command(argv=["no-such-program"], cwd=str(folder), boundary=reach(sandbox))
        with pytest.raises(FileNotFoundError, match="no-such-program"):
            await table.run(missing, timeout_s=10)
        with pytest.raises(FileNotFoundError, match="nowhere"):
            await table.run(command("true", sandbox, cwd=folder / "nowhere"), timeout_s=10)
    (folder / "data").write_text("x")
    plain = Command(argv=["./data"], cwd=str(folder), boundary=None)
    with pytest.raises(PermissionError):
        await table.run(plain, timeout_s=10)


async def test_no_descriptor_of_ours_reaches_a_command(table: ProcessTable, command: Callable[..., Command]) -> None:
    fd = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(fd, True)
    try:
        listed = await said(table, command("ls /proc/self/fd | wc -l"))
    finally:
        os.close(fd)
    assert int(listed) == 4  # three streams, and the folder being listed


async def test_nothing_is_leaked_by_many_commands(table: ProcessTable, command: Callable[..., Command]) -> None:
    for sandbox in (None, WORKSPACE_WRITE):  # the first of each leaves a helper behind, for all that follow
        await table.run(command("true", sandbox), timeout_s=10)
    table.let_go()
    before = len(os.listdir("/proc/self/fd"))
    for sandbox in (None, WORKSPACE_WRITE, None, WORKSPACE_WRITE):
        await table.run(command("true", sandbox), timeout_s=10)
    await table.run(command("sleep 5", tty=True), timeout_s=0.1)
    table.let_go()
    assert len(os.listdir("/proc/self/fd")) == before


def dead_children() -> set[str]:
    """Children of this process that nobody has waited for."""
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        children = file.read().split()
    return {pid for pid in children if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"}


async def test_dead_daemons_do_not_stay_as_zombies(
    table: ProcessTable, command: Callable[..., Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.process.is_ours", True)  # as in the command, which inherits orphans
    before = dead_children()
    # Longer than what we look after by ourselves once a command is over.
    await table.run(command("(setsid sleep 1 >/dev/null 2>&1 &)"), timeout_s=10)
    async with asyncio.timeout(10):
        while not dead_children() - before:
            await asyncio.sleep(0.01)
        await table.run(command("true"), timeout_s=10)
        while dead_children() - before:
            await asyncio.sleep(0.01)


async def test_nothing_hides_behind_a_parent_that_dies_while_the_tree_is_read(
    table: ProcessTable,
    command: Callable[..., Command],
    survivors: Callable[[str], list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its children become ours then, and ours were listed before. On a busy machine that is a matter of luck."""
    monkeypatch.setattr("spindle.process.is_ours", True)  # as in the command, which inherits orphans
    live = await start(table, command("setsid sleep 86397.5 & sleep 86397.5"))
    async with asyncio.timeout(20):
        while len(survivors("86397.5")) < 3:
            await asyncio.sleep(0.01)
    listed = kill._children

    def children(pid: int) -> list[int]:
        found = listed(pid)
        while pid == os.getpid() and not kill.is_over(live.running.pid):
            time.sleep(0.001)
        return found

    monkeypatch.setattr(kill, "_children", children)
    table.kill_all()
    left = survivors("86397.5")
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


GIVES_UP = """
import asyncio, os, sys, time
from spindle.process import kill
from spindle.process.table import Command, ProcessTable
from spindle.protocol.clock import SystemClock
from spindle.workspace.shell import Shell

async def main():
    shell = Shell("bash", "/bin/bash")
    table = ProcessTable(clock=SystemClock(), shell=shell, environment=dict(os.environ), home=sys.argv[1])
    stubborn = "trap '' TERM; echo begun; while :; do sleep 86397.75; done"
    argv = table.shell_argv(f'(setsid sh -c "{stubborn}" &); sleep 86397.75', login=False)
    begun = asyncio.Event()
    await table.start(
        Command(argv=argv, cwd=sys.argv[1], boundary=None),
        session_id=1, call_id="c1", on_output=lambda _: begun.set(), on_exit=lambda _: None,
    )
    await begun.wait()
    kill._MAX_PASSES = 0  # as if it forked faster than we can kill
    await table.aclose() if sys.argv[2] == "closed" else table.kill_all()
    os._exit(0)

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_what_could_not_be_killed_in_time_is_ended_after_us(
    tmp_path: Path, survivors: Callable[[str], list[int]], how: str
) -> None:
    environment = {**os.environ, "SPINDLE_TEST_MARK": str(tmp_path)}
    subprocess.run([sys.executable, "-c", GIVES_UP, str(tmp_path), how], env=environment, check=True, timeout=50)
    deadline = time.monotonic() + 20
    while (left := survivors("86397.75")) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def test_a_signal_reaches_parents_before_their_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a shell whose command has died goes on with its next line before it hears of the signal itself."""
    told: list[int] = []
    monkeypatch.setattr(kill, "_send", lambda pid, number: told.append(pid))
    started = [subprocess.Popen(["sleep", "60"]) for _ in range(12)]
    try:
        leaders = [process.pid for process in reversed(started)]
        # Not table 1, which is on trial runs of the sandbox: one of those may lie about as a zombie.
        kill.signal_tree(leaders, kill.Mark(table=0x5AD), signal.SIGTERM, spare=leaders[:1])
        assert told == leaders[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


async def test_of_two_who_ask_whether_there_is_a_sandbox_the_first_goes_on_first(
    table: ProcessTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a person gets the questions about two calls in another order than the model made them."""
    pauses = iter([0.3, 0.0])

    def look(fence: Fence) -> str | None:
        time.sleep(next(pauses))
        return None

    monkeypatch.setattr("spindle.process.sandbox._tried", {})
    monkeypatch.setattr("spindle.process.sandbox.problem_now", look)
    went_on: list[str] = []

    async def ask(name: str) -> None:
        assert await table.sandbox_problem() is None
        went_on.append(name)

    await asyncio.gather(ask("first"), ask("second"))
    assert went_on == ["first", "second"]
