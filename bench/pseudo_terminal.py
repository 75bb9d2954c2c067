"""A program in a pseudo-terminal, for the benchmark of the interface: keys in, bytes and their times out.

It answers the queries that a terminal answers, and emulates nothing: what is on the screen is not known, only what was
written. Every time is CLOCK_MONOTONIC seconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path

from harness import Bench, BenchError, Program, environment

COLUMNS, ROWS = 100, 30
REPLIES = {
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?62;22c",
    b"\x1b]10;?": b"\x1b]10;rgb:eeee/eeee/eeee\x1b\\",
    b"\x1b]11;?": b"\x1b]11;rgb:1111/1111/1111\x1b\\",
}
QUERY = re.compile(b"|".join(map(re.escape, REPLIES)))
INTERFACE = """
check_for_update_on_startup = false
{config}
[projects."{folder}"]
trust_level = "trusted"
[tui]
show_tooltips = false
[features]
daemon_auto_start = false
[notice.model_migrations]
"gpt-5.5" = "gpt-6-sol"
"""


def open_home(bench: Bench, program: Program, name: str = "screen") -> Path:
    """A home in which the interface asks nothing at start."""
    home = bench.home(program, name)
    config = home / "config.toml"
    if "[projects." not in config.read_text():
        config.write_text(INTERFACE.format(config=config.read_text(), folder=os.path.realpath(bench.workspace)))
    return home


class Session:
    """One run of the interface. Leaving the block kills it."""

    def __init__(self, bench: Bench, program: Program, *words: str, home: Path | None = None) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._home = home or open_home(bench, program)
        env = {**environment(self._home, bench.scratch), "TERM": "xterm-256color", "SHELL": "/bin/bash"}
        options = ("--no-alt-screen", "--dangerously-bypass-approvals-and-sandbox")
        self._name = program.name
        self._data = bytearray()
        self._ends: list[tuple[int, float]] = []
        """How much had been written at which time."""
        self._news = threading.Condition()
        self.started_s = time.monotonic()
        self._child = subprocess.Popen(
            [*program.command, *options, *words],
            cwd=bench.workspace,
            env=env,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._child.wait()
        self._reader.join()
        os.close(self._master)

    def _read(self) -> None:
        while True:
            if not select.select([self._master], [], [], 0.2)[0]:
                if self._child.poll() is not None:
                    return
                continue
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            now_s = time.monotonic()
            with self._news:
                # A query may be split between two reads.
                place = max(0, len(self._data) - 8)
                known = len(self._data)
                self._data += data
                self._ends.append((len(self._data), now_s))
                queries = [found[0] for found in QUERY.finditer(self._data, place) if found.end() > known]
                self._news.notify_all()
            for query in queries:
                os.write(self._master, REPLIES[query])

    # ---- what it wrote -------------------------------------------------------------------------

    @property
    def written(self) -> int:
        return len(self._data)

    def has(self, words: bytes) -> bool:
        return words in self._data

    def wait_for(self, words: bytes | re.Pattern[bytes], *, since: int = 0, timeout_s: float = 10.0) -> float:
        """When the words were written."""
        pattern = re.compile(re.escape(words)) if isinstance(words, bytes) else words
        limit_s = time.monotonic() + timeout_s
        with self._news:
            while True:
                if (found := pattern.search(self._data, since)) is not None:
                    return next(at_s for end, at_s in self._ends if end >= found.end())
                left_s = limit_s - time.monotonic()
                if left_s <= 0 or self._child.poll() is not None:
                    tail = bytes(self._data[-400:])
                    raise BenchError(f"{self._name}: {pattern.pattern!r} was not shown; the last bytes: {tail!r}")
                self._news.wait(min(left_s, 0.1))

    def settle(self, quiet_s: float = 1.0) -> None:
        """Wait until it writes nothing for a while."""
        self.wait_for(re.compile(b"."))
        while time.monotonic() - self._ends[-1][1] < quiet_s:
            time.sleep(0.02)

    # ---- keys ----------------------------------------------------------------------------------

    def send(self, data: bytes) -> float:
        sent_s = time.monotonic()
        os.write(self._master, data)
        return sent_s

    def enter(self, text: str) -> None:
        for letter in text:
            self.send(letter.encode())
            time.sleep(0.02)
        time.sleep(0.2)
        self.send(b"\r")

    def echoes(self, letters: list[str], gap_s: float = 0.05) -> list[float]:
        """Milliseconds from each key to its first byte coming back."""
        found: list[float] = []
        for letter in letters:
            since = self.written
            sent_s = self.send(letter.encode())
            found.append((self.wait_for(letter.encode(), since=since, timeout_s=3) - sent_s) * 1000)
            time.sleep(gap_s)
        return found

    # ---- what it takes -------------------------------------------------------------------------

    def _processes(self) -> list[int]:
        """Its processes, also those that left its session: they have its home in their environment."""
        mark = f"CODEX_HOME={self._home}".encode()
        found: list[int] = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        found.append(int(entry))
        return found

    def memory_mb(self) -> float:
        """What its processes take, shared pages counted once."""
        total_kb = 0
        for process in self._processes():
            with contextlib.suppress(OSError), open(f"/proc/{process}/smaps_rollup", "rb") as file:
                total_kb += sum(int(line.split()[1]) for line in file if line.startswith(b"Pss:"))
        return total_kb / 1024

    def cpu_s(self) -> float:
        total = 0
        for process in self._processes():
            with contextlib.suppress(OSError):
                for task in os.listdir(f"/proc/{process}/task"):
                    with contextlib.suppress(OSError), open(f"/proc/{process}/task/{task}/schedstat", "rb") as file:
                        total += int(file.read().split()[0])
        return total / 1e9
