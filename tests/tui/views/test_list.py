"""Lists to choose from, as a person works with them: keys go in, rows of the screen come out."""

from __future__ import annotations

from typing import Any

import pytest

from spindle.frontends.tui.views.list import ListView, Row
from tui.hands import OPEN, answer, press, shown


def fruits(count: int = 3, **more: Any) -> ListView[int]:
    names = ["apple", "pear", "plum", *(f"fruit {number}" for number in range(4, count + 1))]
    return ListView("Which one?", [Row(value=n, name=name) for n, name in enumerate(names[:count], 1)], **more)


async def test_rows_are_numbered_and_say_what_they_are() -> None:
    rows = [
        Row(value=1, name="fast", about="answers at once", is_current=True),
        Row(value=2, name="deep", about="thinks first", key="d"),
        Row(value=3, name="huge", about="reads all", why_not="no key for it"),
    ]
    seen = shown(ListView("Model", rows, note="for the next turn"))
    assert seen[0] == "Model" and seen[1] == "for the next turn"
    assert seen[3:6] == [
        "› 1. fast (current)  answers at once",
        "  2. deep (d)        thinks first",
        "  3. huge            reads all",
    ]
    assert seen[6].strip() == "not now: no key for it"


async def test_names_stand_below_each_other_however_many_there_are() -> None:
    seen = shown(fruits(10), height=30)
    assert "›  1. apple" in seen and "  10. fruit 10" in seen


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (("enter",), 1),
        (("down", "enter"), 2),
        (("j", "j", "k", "enter"), 2),
        (("ctrl-n", "ctrl-n", "ctrl-p", "enter"), 2),
        (("end", "enter"), 12),
        (("end", "home", "enter"), 1),
        (("up", "enter"), 12),
        (("3",), 3),
        (("9",), 9),
        (("esc",), None),
        (("ctrl-c",), None),
        (("pgdn", "pgup", "enter"), 1),
        (("0",), OPEN),
        (("x",), OPEN),
    ],
)
async def test_keys_choose(keys: tuple[str, ...], chosen: object) -> None:
    view = fruits(12)
    shown(view, height=8)
    press(view, *keys)
    assert answer(view) == chosen


async def test_typing_filters_and_digits_are_then_text() -> None:
    view = fruits(12, has_search=True)
    press(view, "p", "l")
    assert [row for row in shown(view) if row.startswith(("›", "  1", "  2"))] == ["› 1. apple", "  2. plum"]
    assert "Search: pl  2 of 12" in shown(view)
    row, column = view.cursor() or (0, 0)
    assert shown(view)[row].startswith("Search: pl") and column == len("Search: pl")
    press(view, "backspace", "backspace", "f", "r", "1", "1")
    assert answer(view) == OPEN
    assert "  no match" in shown(view)
    press(view, "enter")
    assert answer(view) == OPEN
    press(view, "ctrl-u", "1", "1", "enter")
    assert answer(view) == 11


async def test_letters_that_move_elsewhere_are_text_where_there_is_a_search_line() -> None:
    view = fruits(3, has_search=True)
    press(view, "j", "k")
    assert "Search: jk  0 of 3" in shown(view)
    press(view, "ctrl-w")
    view.paste("pl\num")
    assert "Search: pl um  1 of 3" in shown(view)


async def test_a_search_finds_every_word_in_name_description_and_further_words() -> None:
    rows = [Row(value=1, name="One", about="red round"), Row(value=2, name="Two", about="red", also="SQUARE")]
    view = ListView("", rows, has_search=True)
    view.paste("square RED")
    press(view, "enter")
    assert answer(view) == 2


async def test_the_highlighted_row_is_seen_in_every_room() -> None:
    for height in range(1, 12):
        view = fruits(40)
        for _ in range(45):
            assert [text for text in shown(view, 20, height) if text.startswith("›")], height
            press(view, "down")
        for _ in range(45):
            press(view, "up")
            assert [text for text in shown(view, 20, height) if text.startswith("›")], height


async def test_no_room_is_left_empty_at_the_end_of_a_long_list() -> None:
    view = fruits(40)
    press(view, "end")
    seen = shown(view, height=12)
    assert len(seen) == 12 and sum(". fruit" in text for text in seen) == 8


async def test_a_page_moves_by_what_is_seen() -> None:
    view = fruits(40)
    shown(view, height=14)
    press(view, "pgdn")
    seen = shown(view, height=14)
    assert next(text for text in seen if text.startswith("›")) == "› 10. fruit 10"


async def test_narrow_windows_break_names_and_put_descriptions_below() -> None:
    rows = [Row(value=1, name="a name of many words", about="first line\nsecond line that is longer than the room")]
    seen = shown(ListView("A title that is long", rows), 16, 20)
    assert " ".join(" ".join(seen).split()).startswith(
        "A title that is long › 1. a name of many words first line second line that is longer than the room"
    )


async def test_rows_that_cannot_be_chosen_are_passed_over() -> None:
    rows = [Row(value=n, name=f"r{n}", why_not="later" if n in (1, 3, 5) else "") for n in range(1, 6)]
    view = ListView("", rows)
    assert "› 2. r2" in shown(view)
    press(view, "down")
    assert "› 4. r4" in shown(view)
    press(view, "down")
    assert "› 2. r2" in shown(view)
    press(view, "up")
    assert "› 4. r4" in shown(view)
    press(view, "3")
    assert answer(view) == OPEN
    press(view, "home")
    assert "› 2. r2" in shown(view)


async def test_rows_may_arrive_while_the_list_is_shown() -> None:
    view: ListView[int] = ListView("Threads", has_search=True)
    view.is_loading = True
    assert "  looking …" in shown(view)
    press(view, "p")
    view.add([Row(value=1, name="apple"), Row(value=2, name="fig")])
    view.add([Row(value=3, name="plum")])
    view.is_loading = False
    assert "Search: p  2 of 3" in shown(view)
    press(view, "down")
    view.replace([Row(value=9, name="grape"), Row(value=3, name="plum"), Row(value=1, name="apple")])
    press(view, "enter")
    assert answer(view) == 3


async def test_an_empty_list_can_only_be_left() -> None:
    view: ListView[int] = ListView("Threads")
    assert "  nothing to choose from" in shown(view)
    press(view, "enter", "down", "1", "pgdn", "end")
    assert answer(view) == OPEN
    press(view, "esc")
    assert answer(view) is None


async def test_names_of_others_drive_no_terminal() -> None:
    view = ListView("t\x1b[2J", [Row(value=1, name="a\x1b]0;x\x07b\nc", about="\u202eback\x9b1m")], note="n\x1b[1m")
    text = "\n".join(shown(view))
    assert not any(char in text for char in "\x1b\x07\x9b\u202e")


async def test_other_keys_do_what_the_owner_says() -> None:
    heard: list[object] = []
    view = fruits(3, has_search=True, other_keys={"ctrl-a": lambda row: heard.append(row and row.value)})
    press(view, "down", "ctrl-a")
    assert heard == [2] and answer(view) == OPEN
