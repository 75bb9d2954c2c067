"""A program in GNU screen, which breaks rows anew like tmux but tells nobody how large its window is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping
from pathlib import Path

from installed import wait_for

NOT_INHERITED = ("STY", "WINDOW", "TMUX", "TMUX_PANE", "LC_ALL", "NO_COLOR", "COLORTERM")
PATIENCE_S = 20.0


class GnuScreen:
    """The same hands and eyes as `tmux.Tmux`. The terminal that screen itself runs in takes everything."""

    def __init__(
        self,
        folder: Path,
        command: list[str],
        columns: int,
        rows: int,
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder / "screen"
        self._folder.mkdir(mode=0o700)
        self._outer, inner = os.openpty()
        self.resize(columns, rows)
        given = {**os.environ, **(env or {})}
        self._env = {name: value for name, value in given.items() if name not in NOT_INHERITED}
        self._env |= {"TERM": "xterm-256color", "LANG": "C.UTF-8", "SCREENDIR": str(self._folder)}
        settings = self._folder / "screenrc"
        settings.write_text("defscrollback 5000\nstartup_message off\nzombie qr\n")
        self._process = subprocess.Popen(
            ["screen", "-U", "-c", str(settings), "-S", "tested", *command],
            cwd=cwd,
            env=self._env,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(inner)
        self._is_over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        wait_for(lambda: self._ask("version").returncode == 0, "screen")

    def _read(self) -> None:
        while not self._is_over:
            ready, _, _ = select.select([self._outer], [], [], 0.1)
            with contextlib.suppress(OSError):
                if ready and not os.read(self._outer, 1 << 16):
                    return

    def __call__(self, *args: str) -> None:
        done = self._ask(*args)
        assert done.returncode == 0, done.stdout.decode()

    def _ask(self, *args: str) -> subprocess.CompletedProcess[bytes]:
        command = ["screen", "-S", "tested", "-X", *args]
        return subprocess.run(command, env=self._env, capture_output=True, timeout=PATIENCE_S)

    def resize(self, columns: int, rows: int) -> None:
        self._columns = columns
        fcntl.ioctl(self._outer, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, *keys: str) -> None:
        for key in keys:
            os.write(self._outer, {"Enter": "\r", "Escape": "\x1b"}.get(key, key).encode())

    @property
    def screen(self) -> str:
        return self._copy()

    @property
    def scrollback(self) -> str:
        """The scrollback and the window; lines that fill the window are taken to go on in the next one."""
        joined = "".join(row if len(row) == self._columns else f"{row}\n" for row in self._copy("-h").split("\n"))
        return joined.rstrip("\n")

    def _copy(self, *options: str) -> str:
        """What screen writes to a file, when it is there as a whole; only ASCII comes out as it is."""
        file, done = self._folder / "copy", self._folder / "done"
        file.unlink(missing_ok=True)
        done.unlink(missing_ok=True)
        self("eval", f"hardcopy {' '.join(options)} {file}", f"hardcopy {done}")
        wait_for(done.exists, "what screen writes")
        return file.read_text("utf-8", "replace").rstrip("\n")

    def close(self) -> None:
        with contextlib.suppress(AssertionError):
            self("quit")
        self._process.wait(PATIENCE_S)
        self._is_over = True
        self._reader.join()
        os.close(self._outer)


def _take_terminal() -> None:
    """In the child: the terminal is its own, so that it hears of changes of the size."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
