"""A real terminal that breaks rows anew when its window changes, and tells the program of it late: tmux."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tui.terminals import NOT_INHERITED


class Tmux:
    """A server of its own with one window."""

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
        self._socket = str(folder / "tmux")
        self._env = {name: value for name, value in (env or os.environ).items() if name not in NOT_INHERITED}
        self._env |= {"LANG": "C.UTF-8", "TERM": "xterm-256color"}
        self._env.pop("TMUX_PANE", None)
        self("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "sh")
        self("set", "-g", "remain-on-exit", "on")
        self("set", "-g", "status", "off")
        self("set", "-g", "history-limit", "5000")
        self("respawn-window", "-k", *(() if cwd is None else ("-c", str(cwd))), shlex.join(command))
        self.resize(columns, rows)

    def __call__(self, *args: str) -> str:
        done = subprocess.run(["tmux", "-S", self._socket, *args], env=self._env, capture_output=True, timeout=20)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def resize(self, columns: int, rows: int) -> None:
        self("resize-window", "-x", str(columns), "-y", str(rows))

    def type(self, *keys: str) -> None:
        self("send-keys", *keys)

    @property
    def screen(self) -> str:
        return self("capture-pane", "-p").rstrip("\n")

    @property
    def scrollback(self) -> str:
        """The scrollback and the window; lines that tmux has broken are whole."""
        return self("capture-pane", "-p", "-S", "-", "-J").rstrip("\n")

    def close(self) -> None:
        self("kill-server")
