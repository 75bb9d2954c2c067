"""Nasty commands. Each one ends within its bound, with the right exit code, and leaves no process behind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest

from process.fences import WORKSPACE_WRITE
from spindle.process.table import Command, ProcessTable

TIMED_OUT = 124
FOREVER = f"8639{os.getpid()}.125"
"""How long the sleepers sleep: a word that tells them from everybody else's."""


class Animal(NamedTuple):
    script: str
    exit_code: int
    says: str | None = None
    tty: bool = False
    timeout_s: float = 10.0
    total: int | None = None


ZOO = {
    "reads an input that is closed": Animal("cat", 0, ""),
    "asks a question nobody can answer": Animal("read x; echo got $?", 0, "got 1\n"),
    "counts an empty input": Animal("wc -c", 0, "0\n"),
    "leaves a child in the background": Animal(f"sleep {FOREVER} & echo on", 0, "on\n"),
    "leaves a child that holds another descriptor": Animal(f"exec 3>&1; sleep {FOREVER} >&3 & echo on", 0, "on\n"),
    "forks twice into a new session": Animal(f"(setsid sleep {FOREVER} &) ; sleep 0.1; echo on", 0, "on\n"),
    "forks a daemon without environment": Animal(
        f"(env -i setsid sleep {FOREVER} >/dev/null 2>&1 &) ; sleep 0.1; echo on", 0, "on\n"
    ),
    "detaches with nohup and disown": Animal(f"nohup sleep {FOREVER} >/dev/null 2>&1 & disown; echo on", 0, "on\n"),
    "starts a coprocess": Animal(f"coproc sleep {FOREVER}; echo on", 0, "on\n"),
    "writes on in the background": Animal("(while :; do echo x; sleep 0.01; done) & echo lead", 0),
    "floods on in the background": Animal("yes & echo lead", 0),
    "ignores the request to end": Animal("trap '' TERM; while :; do sleep 0.05; done", TIMED_OUT, "", timeout_s=0.3),
    "tidies up when asked to end": Animal(
        f"trap 'echo tidy; exit 9' TERM; sleep {FOREVER} & wait", TIMED_OUT, "tidy\n", timeout_s=1.5
    ),
    "hides its children from the request to end": Animal(
        f"trap '' TERM HUP INT; setsid sleep {FOREVER} & sleep {FOREVER}", TIMED_OUT, timeout_s=0.3
    ),
    "becomes another program": Animal(f"exec sleep {FOREVER}", TIMED_OUT, "", timeout_s=0.3),
    "leaves a zombie to its successor": Animal(f"sleep 0 & exec sleep {FOREVER}", TIMED_OUT, "", timeout_s=0.3),
    "stops itself": Animal("kill -STOP $$", TIMED_OUT, "", timeout_s=0.3),
    "stops its child": Animal(f"sleep {FOREVER} & kill -STOP $!; echo on", 0, "on\n"),
    "multiplies": Animal(
        f"f() {{ [ $1 -gt 0 ] && {{ f $(($1-1)) & f $(($1-1)) & }}; sleep {FOREVER}; }}; f 4", TIMED_OUT, timeout_s=0.4
    ),
    "prints a hundred megabytes": Animal("head -c 100000000 /dev/zero", 0, total=100_000_000),
    "prints for ever": Animal("yes", TIMED_OUT, timeout_s=0.3),
    "prints one line of five megabytes": Animal("head -c 5000000 /dev/zero | tr '\\0' x", 0, total=5_000_000),
    "prints three hundred thousand lines": Animal("seq 300000", 0, total=1_988_895),
    "prints bytes that are no text": Animal("printf 'a\\000b\\377\\376c'", 0, "a\0b\ufffd\ufffdc"),
    "breaks the pipe of its own flood": Animal("yes | head -n 1", 0, "y\n"),
    "closes its output and works on": Animal("exec >&- 2>&-; sleep 0.2; exit 5", 5, ""),
    "ends through its trap": Animal("trap 'echo bye' EXIT; exit 3", 3, "bye\n"),
    "kills itself": Animal("kill -KILL $$", 137, ""),
    "crashes": Animal("kill -SEGV $$", 139),
    "ends with the highest code": Animal("exit 255", 255, ""),
    "has newlines in its environment": Animal("export X=$'a\\nb'; printenv X", 0, "a\nb\n"),
    "removes the folder it stands in": Animal("mkdir d; cd d; rmdir ../d; ls; echo on", 0, "on\n"),
    "asks for a password without a terminal": Animal("read -s x </dev/tty || echo none", 0),
    "asks for a password on a terminal": Animal(
        "printf 'Password: ' >/dev/tty; read -s x </dev/tty", TIMED_OUT, "Password: ", tty=True, timeout_s=1.5
    ),
    "pages on a terminal": Animal("less /etc/passwd", TIMED_OUT, tty=True, timeout_s=0.4),
    "edits on a terminal": Animal("vi -u NONE /dev/null", TIMED_OUT, tty=True, timeout_s=0.4),
    "ignores the end of its terminal": Animal(f"trap '' HUP; sleep {FOREVER} & echo on", 0, "on\r\n", tty=True),
    "asks for the size of its terminal": Animal("stty size", 0, "24 80\r\n", tty=True),
    "opens a terminal inside the terminal": Animal(
        f"script -qec 'sleep {FOREVER}' /dev/null", TIMED_OUT, tty=True, timeout_s=0.4
    ),
}


@pytest.mark.parametrize("confined", [False, True], ids=["bare", "confined"])
@pytest.mark.parametrize("animal", ZOO.values(), ids=ZOO.keys())
async def test_a_nasty_command_ends_in_time_and_leaves_nothing(
    animal: Animal,
    confined: bool,
    table: ProcessTable,
    command: Callable[..., Command],
    survivors: Callable[[str], list[int]],
) -> None:
    sandbox = WORKSPACE_WRITE if confined else None
    await table.run(command("true"), timeout_s=10)
    started = time.monotonic()
    finished = await table.run(command(animal.script, sandbox, tty=animal.tty), timeout_s=animal.timeout_s)
    elapsed = time.monotonic() - started
    await table.aclose()

    assert survivors(FOREVER) == []
    assert finished.exit_code == animal.exit_code, finished.output.value()[:300]
    assert elapsed < (animal.timeout_s if animal.exit_code == TIMED_OUT else 0) + 4
    if animal.says is not None:
        assert finished.output.peek().text() == animal.says
    if animal.total is not None:
        assert finished.output.total == animal.total
    assert len(finished.output.value()) <= 1024 * 1024
