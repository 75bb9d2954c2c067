"""The terminal of the tests itself: it must be right before it can judge anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tui.emulator import Emulator
from tui.terminals import Tui

ECHO = r"""
import sys, termios, tty, os, signal
before = termios.tcgetattr(0)
tty.setraw(0)
os.write(1, b"\x1b[?2004hhello\r\n\x1b[6n")
got = b""
while not got.endswith(b"q"):
    got += os.read(0, 100)
os.write(1, b"\x1b[?2004l" + repr(got).encode() + b"\r\n")
if len(sys.argv) < 2:
    termios.tcsetattr(0, termios.TCSANOW, before)
"""


def run(tmp_path: Path, *args: str) -> Tui:
    return Tui([sys.executable, "-c", ECHO, *args], cwd=tmp_path, env={})


def test_a_program_gets_keys_and_answers_and_what_it_leaves_behind_is_judged(tmp_path: Path) -> None:
    with run(tmp_path) as t:
        t.wait_for("hello").paste("a\nb").key("shift-tab", "q")
        assert t.wait_exit() == 0
        assert r"b'\x1b[2;1R\x1b[200~a\rb\x1b[201~\x1b[Zq'" in t.screen
        t.assert_sane()
    with run(tmp_path, "and leave it raw") as t:
        t.wait_for("hello").key("q")
        assert t.wait_exit() == 0
        with pytest.raises(AssertionError, match="terminal attributes"):
            t.assert_sane()


def test_rows_leave_the_window_at_its_top() -> None:
    e = Emulator(10, 3)
    e.feed(b"one\r\ntwo\r\nthree\r\nfour")
    assert (e.above, e.screen, e.cursor) == (["one"], ["two", "three", "four"], (2, 4))
    e.resize(4, 2)
    assert (e.above, e.screen) == (["one", "two"], ["thre", "four"])


def test_some_terminals_break_lines_anew() -> None:
    e = Emulator(10, 3, reflows=True)
    e.feed(b"abcdefghijklmno\r\nxyz")
    assert (e.screen, e.unbroken) == (["abcdefghij", "klmno", "xyz"], ["abcdefghijklmno", "xyz"])
    e.resize(4, 4)
    assert (e.above, e.screen, e.cursor) == (["abcd"], ["efgh", "ijkl", "mno", "xyz"], (3, 3))
    e.resize(20, 4)
    assert (e.above, e.screen, e.cursor) == ([], ["abcdefghijklmno", "xyz"], (1, 3))


def test_wide_characters_are_not_split() -> None:
    e = Emulator(5, 3)
    e.feed("漢字漢e\u0301".encode())
    assert e.screen == ["漢字", "漢é"]


def test_the_alternate_screen_hides_the_main_one() -> None:
    e = Emulator(10, 3)
    e.feed(b"main\x1b[?1049hother")
    assert (e.screen, e.everything) == (["other"], ["main"])
    e.feed(b"\x1b[?1049l")
    assert e.screen == ["main"]
