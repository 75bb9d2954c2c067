"""The draft as rows: broken at blanks, scrolled within a third of the window, the cursor where it belongs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.frontends.fit import cells
from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.keys import Key
from tui.composer.writing import press, rows, write


def test_rows_are_broken_at_blanks_and_long_words_anywhere():
    composer = Composer()
    write(composer, "one two three aaaaaaaaaaaaaaaaaaaa")
    assert rows(composer, width=13) == ["› one two ", "  three ", "  aaaaaaaaaa", "  aaaaaaaaaa"]


def test_wide_characters_take_two_cells():
    composer = Composer()
    write(composer, "日本語日本語")
    assert rows(composer, width=9) == ["› 日本語", "  日本語"]
    assert composer.cursor() == (1, 8)


def test_the_composer_grows_to_a_third_of_the_window_and_scrolls():
    composer = Composer()
    write(composer, "0")
    for number in range(1, 20):
        press(composer, "ctrl-j")
        write(composer, str(number))
    assert rows(composer, height=24) == [f"  {number}" for number in range(12, 20)]
    assert composer.cursor() == (7, 4)
    assert rows(composer, height=5) == ["  19"]
    press(composer, *["up"] * 19)
    assert rows(composer, height=24)[0] == "› 0" and composer.cursor() == (0, 3)


def test_up_and_down_move_between_rows_and_keep_the_column():
    composer = Composer()
    composer.set_text("long first line\nab\nlong third line")
    press(composer, "up")
    assert rows(composer) and composer.cursor() == (1, 4)
    press(composer, "up")
    rows(composer)
    assert composer.cursor() == (0, 17)
    press(composer, "down", "down")
    rows(composer)
    assert composer.cursor() == (2, 17)


def test_keys_that_come_faster_than_the_pictures_move_in_the_text_as_it_is():
    composer = Composer()
    write(composer, "one")
    rows(composer)
    composer.key(Key("ctrl-j"))
    write(composer, "two")
    composer.key(Key("up"))
    write(composer, "X")
    assert composer.text == "oneX\ntwo"


def test_a_shell_command_stands_there_as_it_was_typed():
    composer = Composer()
    write(composer, "!ls")
    assert rows(composer) == ["› !ls"]


_composer = Composer()
"""One for all examples: to make one takes longer than to try it."""


@settings(max_examples=100, deadline=None)
@given(
    st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from(" \n\tab日é\u0301\u202e\x1b🇩"))),
    st.integers(1, 30),
    st.integers(1, 12),
)
def test_whatever_the_draft_the_rows_fit_and_the_text_is_whole(text: str, width: int, height: int):
    composer = _composer
    composer.discard()
    composer.set_text(text)
    shown = rows(composer, width, height)
    assert len(shown) <= max(1, height // 3)
    assert all(cells(row) <= max(width, 14) for row in shown)
    assert not any(
        ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or char in "\u202a\u202e\u2066" for row in shown for char in row
    )
    row, _ = composer.cursor() or (0, 0)
    assert 0 <= row < len(shown)
    assert composer.take().text == text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize("unit", ["lorem ipsum ", "日本語 ", "short\n"])
def test_a_draft_of_100_kb_lays_out_only_the_line_that_changed(unit: str):
    composer = Composer()
    composer.set_text(unit * (100_000 // len(unit)))
    rows(composer)
    layout = composer._picture.layout
    known = dict(layout._known)
    write(composer, "x")
    rows(composer)
    assert len(layout._known.keys() - known.keys()) <= 1
