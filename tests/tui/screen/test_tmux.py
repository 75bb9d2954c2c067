"""The painter in a real terminal that breaks rows anew when its window changes, and answers for itself: tmux."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from installed import wait_for
from tui.tmux import Tmux

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
# tmux hides the cursor of a window whose program has ended: it must not end before the test has looked.
SITTING = ["sh", "-c", '"$@"; exec sleep 60', "sh", sys.executable, str(Path(__file__).with_name("sitting.py"))]


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    made = Tmux(tmp_path, SITTING, 100, 24)
    yield made
    made.close()


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

    def state() -> list[str]:
        return tmux("display-message", "-p", "#{cursor_flag} #{cursor_x} #{alternate_on} #{wrap_flag}").split()

    # The last frame is taken away first, and the terminal given back after that.
    wait_for(lambda: state() == [*"1001"], "a terminal as it was before")
