"""The parts of a live view that need no terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spindle.frontends.exec.live import TAIL_BYTES, Region, Running, StreamedText
from spindle.frontends.terminal import wants_ascii, wants_color
from spindle.tools.execution import DELTA_COUNT


def test_a_region_is_drawn_with_wrapping_off_and_the_cursor_before_it() -> None:
    drawn = Region().draw([("a", "1"), ("b", ""), ("c", "")], (80, 24))
    assert drawn == "\x1b[?7l\x1b[1ma\x1b[0m\r\nb\r\nc\x1b[2A\r\x1b[?7h\x1b7"


def test_a_region_is_wiped_once_and_a_stored_place_is_used_only_on_a_terminal_of_the_same_size() -> None:
    region = Region()
    assert region.wipe((80, 24)) == ""
    region.draw([("a", "")], (80, 24))
    assert (region.wipe((80, 24)), region.wipe((80, 24))) == ("\x1b8\r\x1b[J", "")
    region.draw([("a", "")], (80, 24))
    assert region.wipe((60, 24)) == "\r\x1b[J"


@given(st.lists(st.text(st.sampled_from("ab\n"), max_size=5)))
def test_streamed_lines_and_the_rest_are_the_text(pieces: list[str]) -> None:
    streamed = StreamedText()
    given_away = "".join(map(streamed.add, pieces))
    text = "".join(pieces)
    assert given_away == text[: text.rfind("\n") + 1] and streamed.shown == text[text.rfind("\n") + 1 :]
    assert streamed.remainder_of(text + "more") == streamed.shown + "more"
    assert given_away == "" or streamed.remainder_of("another text") is None
    assert given_away + streamed.take_rest() == text


def test_the_end_of_an_output_is_shown_as_a_terminal_would() -> None:
    running = Running("x", 0.0)
    running.add(b"one\n10%\r20%\r\n\n\x1b[31mtwo\x1b[0m\ttab\n")
    assert running.last_lines(3) == ["one", "20%", "two     tab"]
    running.add(b"\x1b]0;" + b"x" * TAIL_BYTES + b"\nlast \xff\x00")
    assert running.last_lines(3) == ["last \ufffd\\u{0}"]


def test_a_flood_is_not_shown_as_if_it_were_the_end() -> None:
    for pieces, piece in ((16, b"y\n" * (1 << 15)), (DELTA_COUNT, b"y\n")):
        running = Running("x", 0.0)
        for _ in range(pieces - 1):
            running.add(piece)
        assert running.last_lines(3) == ["y", "y", "y"]
        running.add(piece)
        assert running.last_lines(3) == ["(more output than is followed live)"]


def test_the_environment_says_what_a_terminal_can_do() -> None:
    unicode = ({"LANG": "de_DE.UTF-8"}, {"LC_ALL": "C.utf8", "LANG": "C"}, {"LC_CTYPE": "C.UTF-8"})
    plain = ({}, {"LANG": "C", "LC_CTYPE": "C.UTF-8"}, {"LANG": "x.UTF-8", "TERM": "dumb"})
    assert [wants_ascii(env) for env in (*unicode, *plain)] == [False, False, False, True, True, True]
    assert wants_color("always", -1, {}) and not wants_color("never", -1, {}) and not wants_color("auto", -1, {})
