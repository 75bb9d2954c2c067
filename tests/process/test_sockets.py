"""What confined programs may connect to, judged by who was really called."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spindle.policy.sandbox import Boundary, Fence
from spindle.process.sandbox import bubblewrap_here
from spindle.process.sandbox.caller import Caller
from spindle.process.sandbox.sockets import SocketRules
from spindle.process.table import Command, ProcessTable
from spindle.protocol.settings import SandboxPolicy

WRITE = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True)
NETWORK = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, network_access=True)
READ = SandboxPolicy(mode="read-only")
MODES = pytest.mark.parametrize("policy", [READ, WRITE, NETWORK], ids=["read-only", "write", "network"])

CALL = """
import os, socket, sys
where = sys.argv[1].replace("@", "\\0", 1)
caller = socket.socket(socket.AF_UNIX, int(sys.argv[2]))
try:
    if sys.argv[3:] == ["sendto"]:
        caller.sendto(b"x", where)
    elif sys.argv[3:] == ["sendmsg"]:
        caller.sendmsg([b"x"], [], 0, where)
    else:
        caller.connect(where)
    print("reached")
except OSError as error:
    print(error.errno)
"""


@pytest.fixture
def called(folder: Path) -> Path:
    script = folder / "call.py"
    script.write_text(CALL)
    return script


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Callable[..., socket.socket]]:
    """A program outside that listens."""
    made: list[socket.socket] = []

    def listen(where: str | Path, kind: int = socket.SOCK_STREAM) -> socket.socket:
        one = socket.socket(socket.AF_UNIX, kind)
        one.bind(str(where).replace("@", "\0", 1))
        if kind == socket.SOCK_STREAM:
            one.listen()
        one.setblocking(False)
        made.append(one)
        return one

    yield listen
    for one in made:
        one.close()


def was_called(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(10)
        return True
    except BlockingIOError:
        return False


async def said(table: ProcessTable, command: Command) -> str:
    return (await table.run(command, timeout_s=30)).output.peek().text().strip()


@MODES
@pytest.mark.parametrize("place", ["elsewhere", "workspace", "abstract"])
async def test_a_socket_of_a_program_outside_is_not_reached(
    place: str,
    policy: SandboxPolicy,
    table: ProcessTable,
    command: Callable[..., Command],
    called: Path,
    outside: Callable[..., socket.socket],
    folder: Path,
    tmp_path: Path,
) -> None:
    where = {"elsewhere": f"{tmp_path}/s", "workspace": f"{folder}/s", "abstract": f"@spindle-test-{tmp_path}"}[place]
    listener = outside(where)
    assert await said(table, command(f"python3 call.py {where} 1")) == "reached"
    assert was_called(listener)
    assert await said(table, command(f"python3 call.py {where} 1", policy)) != "reached"
    assert not was_called(listener)


@MODES
@pytest.mark.parametrize("how", ["connect", "sendto", "sendmsg"])
async def test_no_letter_reaches_a_program_outside(
    how: str,
    policy: SandboxPolicy,
    table: ProcessTable,
    command: Callable[..., Command],
    called: Path,
    outside: Callable[..., socket.socket],
    folder: Path,
) -> None:
    listener = outside(folder / "s", socket.SOCK_DGRAM)
    assert await said(table, command(f"python3 call.py {folder}/s 2 sendto")) == "reached"
    assert was_called(listener)
    assert await said(table, command(f"python3 call.py {folder}/s 2 {how}", policy)) != "reached"
    assert not was_called(listener)


async def test_a_socket_that_appears_while_the_command_runs_is_not_reached_either(
    table: ProcessTable,
    command: Callable[..., Command],
    called: Path,
    outside: Callable[..., socket.socket],
    folder: Path,
) -> None:
    script = f"while [ ! -S {folder}/late ]; do sleep 0.02; done; python3 call.py {folder}/late 1"
    live = await table.start(
        command(script, WRITE), session_id=1, call_id="c", on_output=lambda _: None, on_exit=lambda _: None
    )
    await live.wait(0.3)
    listener = outside(folder / "late")
    await live.wait(20)
    assert live.transcript.peek().text().strip() == "1"  # EPERM
    assert not was_called(listener)


async def test_moving_or_linking_a_socket_does_not_make_it_ours(
    table: ProcessTable,
    command: Callable[..., Command],
    called: Path,
    outside: Callable[..., socket.socket],
    folder: Path,
) -> None:
    listener = outside(folder / "s")
    script = "mv s t; ln -s t u; ln t v; for n in t u v ./x/../t /proc/self/cwd/t; do python3 call.py $n 1; done"
    assert "reached" not in await said(table, command(script, WRITE))
    assert not was_called(listener)


@pytest.mark.parametrize("policy", [WRITE, NETWORK], ids=["write", "network"])
async def test_sockets_of_its_own_work(
    policy: SandboxPolicy, table: ProcessTable, command: Callable[..., Command], folder: Path
) -> None:
    (folder / "own.py").write_text(
        "import asyncio, os, socket, threading\n"
        "def stream(family, address):\n"
        "    server = socket.socket(family); server.bind(address); server.listen()\n"
        "    caller = socket.socket(family); caller.connect(server.getsockname())\n"
        "    peer, _ = server.accept(); caller.send(b'x'); return peer.recv(1)\n"
        "def letter(family, address):\n"
        "    box = socket.socket(family, socket.SOCK_DGRAM); box.bind(address)\n"
        "    socket.socket(family, socket.SOCK_DGRAM).sendto(b'y', box.getsockname()); return box.recv(1)\n"
        "assert stream(socket.AF_UNIX, os.getcwd() + '/a') == stream(socket.AF_UNIX, 'b') == b'x'\n"
        "assert stream(socket.AF_UNIX, '\\0spindle-own') == stream(socket.AF_INET, ('127.0.0.1', 0)) == b'x'\n"
        "assert letter(socket.AF_UNIX, 'c') == letter(socket.AF_INET, ('127.0.0.1', 0)) == b'y'\n"
        "for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):\n"
        "    one, two = socket.socketpair(type=kind); one.send(b'z'); assert two.recv(1) == b'z'\n"
        "worker = threading.Thread(target=stream, args=(socket.AF_UNIX, 'd')); worker.start(); worker.join()\n"
        "try:\n"
        "    socket.create_connection(('127.0.0.1', 1))\n"
        "except ConnectionRefusedError:\n"
        "    print('all works')\n"
    )
    assert await said(table, command("python3 own.py", policy)) == "all works"


async def test_two_commands_of_a_session_can_talk_through_the_workspace(
    table: ProcessTable, command: Callable[..., Command], called: Path, folder: Path
) -> None:
    serve = "import socket; s = socket.socket(1); s.bind('shared'); s.listen(); s.accept()"
    live = await table.start(
        command(f'python3 -c "{serve}"', WRITE),
        session_id=1,
        call_id="c",
        on_output=lambda _: None,
        on_exit=lambda _: None,
    )
    while not (folder / "shared").exists():
        await live.wait(0.02)
    assert await said(table, command("python3 call.py shared 1", WRITE)) == "reached"


async def test_the_user_may_open_a_socket(
    table: ProcessTable,
    reach: Callable[..., Boundary],
    called: Path,
    outside: Callable[..., socket.socket],
    folder: Path,
    tmp_path: Path,
) -> None:
    listener = outside(tmp_path / "agent")
    boundary = reach(WRITE, Fence(unix_sockets=(os.path.realpath(tmp_path / "agent"),)))
    argv = ["python3", "call.py", f"{tmp_path}/agent", "1"]
    assert await said(table, Command(argv=argv, cwd=str(folder), boundary=boundary)) == "reached"
    assert was_called(listener)


async def test_exchanging_the_address_while_it_is_judged_gains_nothing(
    table: ProcessTable,
    command: Callable[..., Command],
    outside: Callable[..., socket.socket],
    folder: Path,
    tmp_path: Path,
) -> None:
    listener = outside(tmp_path / "s")
    (folder / "race.py").write_text(
        "import ctypes, os, socket, sys, threading, time\n"
        "good, bad = b'own', sys.argv[1].encode()\n"
        "own = socket.socket(1); own.bind('own'); own.listen(500)\n"
        "size = 2 + len(bad) + 1\n"
        "address = ctypes.create_string_buffer(b'\\1\\0' + good.ljust(len(bad), b'\\0'), size)\n"
        "stop = False\n"
        "def flip():\n"
        "    while not stop:\n"
        "        ctypes.memmove(ctypes.byref(address, 2), bad, len(bad))\n"
        "        ctypes.memmove(ctypes.byref(address, 2), good.ljust(len(bad), b'\\0'), len(bad))\n"
        "threading.Thread(target=flip).start()\n"
        "libc = ctypes.CDLL(None)\n"
        "end = time.monotonic() + 1.5\n"
        "while time.monotonic() < end:\n"
        "    caller = socket.socket(1); caller.setblocking(False)\n"
        "    libc.connect(caller.fileno(), address, size)\n"
        "    caller.close()\n"
        "stop = True\n"
    )
    finished = await table.run(command(f"python3 race.py {tmp_path}/s", WRITE), timeout_s=30)
    assert finished.exit_code == 0
    assert not was_called(listener)


def test_a_process_nobody_knows_gets_nothing() -> None:
    starter = bubblewrap_here.starter_here()
    assert starter.watch is not None
    ours = Caller(-1, 0, os.getpid(), 0, 0, *[0] * 8)
    with pytest.raises(PermissionError):
        starter.watch._leader_of(ours)
    starter.watch.set_rules(os.getpid(), SocketRules())
    assert starter.watch._leader_of(ours) == os.getpid()
    starter.watch.forget(os.getpid())


async def test_while_one_command_is_in_the_midst_of_sending_all_are_asked(
    table: ProcessTable, command: Callable[..., Command], outside: Callable[..., socket.socket], folder: Path
) -> None:
    """What it passes on may be a datagram socket by the time it is looked up."""
    starter = bubblewrap_here.starter_here()
    assert starter.watch is not None
    before = starter.watch._asks_all
    starter.watch._asks_all = False
    stall = "import socket; a, b = socket.socketpair(); print('on', flush=True); a.sendmsg([b'x' * (1 << 22)])"
    live = await table.start(
        command(f'python3 -c "{stall}"', WRITE),
        session_id=1,
        call_id="c",
        on_output=lambda _: None,
        on_exit=lambda _: None,
    )
    while b"on" not in live.transcript.value():
        await asyncio.sleep(0.02)
    while not starter.watch._senders and not starter.watch._with_datagrams:
        await asyncio.sleep(0.02)
    assert not starter.watch._asks_all
    make = "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); print('made')"
    try:
        assert await said(table, command(f'python3 -c "{make}"', WRITE)) == "made"
        assert starter.watch._asks_all
    finally:
        starter.watch._asks_all = before
