"""A program on a terminal of its own, seen as a person sees it: the rows of a screen, and keys to press.

with Screen([*spindle_cmd, "exec", "hi"], cwd=…, env=…) as screen:
    screen.until("working")
    screen.press("\x03")
    assert screen.wait() == 1
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import IO, Any, Self

import pyte

PATIENCE_S = 40.0


class Screen:
    def __init__(
        self,
        command: list[str],
        *,
        cwd: Path,
        env: dict[str, str],
        columns: int = 100,
        rows: int = 40,
        stdout: IO[Any] | int | None = None,
        stderr: IO[Any] | int | None = None,
    ) -> None:
        """`stdout` and `stderr` are the terminal unless they are given."""
        self.raw = b""
        """Every byte that came."""
        self._screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=1)
        self._stream = pyte.ByteStream(self._screen)
        self._fd, inner = pty.openpty()
        self._set_size(columns, rows)
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={"TERM": "xterm-256color", "LANG": "C.UTF-8", **env},
            stdin=inner,
            stdout=inner if stdout is None else stdout,
            stderr=inner if stderr is None else stderr,
            preexec_fn=_own_terminal,
        )
        os.close(inner)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._fd)

    @property
    def lines(self) -> list[str]:
        """What stands on the screen and above it, without the empty rows below."""
        width = self._screen.columns
        above = ["".join(row[at].data for at in range(width)) for row in self._screen.history.top]
        return "\n".join(line.rstrip() for line in (*above, *self._screen.display)).rstrip("\n").split("\n")

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        self._set_size(columns, rows)
        self._screen.resize(rows, columns)

    def until(self, *words: str) -> str:
        """The screen when all these words stand on it."""
        deadline = time.monotonic() + PATIENCE_S
        while not all(word in self.text for word in words):
            assert self._read(deadline), f"{words} did not all come:\n{self.text}"
        return self.text

    def until_gone(self, word: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while word in self.text:
            assert self._read(deadline), f"{word!r} did not go:\n{self.text}"
        return self.text

    def wait(self) -> int:
        """The exit code, once the program has ended and everything it wrote is on the screen."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE_S)

    def _read(self, deadline: float) -> bool:
        """Take in what comes next; False when nothing comes any more."""
        ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # how Linux says that nobody has the other end open
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _own_terminal() -> None:
    """In the child: a session whose terminal is stdin, so that Ctrl-C and changes of the size arrive."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
