"""The painter in a real terminal that breaks rows anew when its window changes, and answers for itself: tmux."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from installed import wait_for

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
SITTING = [sys.executable, str(Path(__file__).with_name("sitting.py"))]


class Tmux:
    """A server of its own with one window."""

    def __init__(self, folder: Path, command: list[str], columns: int, rows: int) -> None:
        self._socket = str(folder / "tmux")
        self._env = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}
        self._env |= {"LANG": "C.UTF-8", "TERM": "xterm-256color"}
        self("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "sh")
        self("set", "-g", "remain-on-exit", "on")
        self("set", "-g", "status", "off")
        self("set", "-g", "history-limit", "5000")
        self("respawn-window", "-k", *command)
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
        return self("capture-pane", "-p", "-S", "-", "-J").rstrip("\n")


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    made = Tmux(tmp_path, SITTING, 100, 24)
    yield made
    made("kill-server")


def test_a_storm_of_sizes_in_tmux(tmux: Tmux) -> None:
    wait_for(lambda: "below the composer" in tmux.screen, "the first frame")
    for number in range(40):
        tmux.type(f"n{number}-and-a-line-that-is-too-long-for-a-narrow-window", "Enter")
    wait_for(lambda: "said n39-" in tmux.screen, "all lines")
    tmux.type("the-draft")
    wait_for(lambda: "> the-draft" in tmux.screen, "the draft")
    for size in ((20, 5), (200, 60), (37, 9), (36, 9), (35, 8), (100, 24), (20, 5), (19, 5), (80, 24)):
        tmux.resize(*size)
        if size[1] in (60, 8):
            wait_for(lambda: "the-draft" in tmux.screen, "the draft")
    tmux.type("X")
    wait_for(lambda: "> the-draftX" in tmux.screen and tmux.screen.endswith("below the composer"), "the last frame")
    everything = tmux.scrollback
    assert [everything.count(f"said n{number}-") for number in range(40)] == [1] * 40
    assert everything.count("the-draft") == 1 and everything.count("below the composer") == 1
    tmux.type("q")
    wait_for(lambda: "below the composer" not in tmux.screen, "the end")
    assert tmux("display-message", "-p", "#{cursor_flag} #{cursor_x} #{alternate_on} #{wrap_flag}").split() == [*"1001"]
