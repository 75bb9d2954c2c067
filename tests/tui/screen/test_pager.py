"""The pager: a window over a text of any length, and what keys do with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.screen.pager import Pager
from spindle.frontends.tui.screen.painter import Painter
from spindle.frontends.tui.shown import Line, Span, line
from spindle.frontends.tui.text.theme import theme
from tui.emulator import Emulator


class Screen:
    """A terminal for a pager: writes go to an emulator."""

    def __init__(self, columns: int = 40, rows: int = 10) -> None:
        self.size = (columns, rows)
        self.emulator = Emulator(columns, rows)
        self.written = 0

    def write(self, data: bytes) -> None:
        self.written += len(data)
        self.emulator.feed(data)

    def alternate_screen(self, on: bool) -> None:
        self.emulator.feed(b"\x1b[?1049h" if on else b"\x1b[?1049l")

    def resize(self, columns: int, rows: int) -> None:
        self.size = (columns, rows)
        self.emulator.resize(columns, rows)


class Reader:
    """A person before a pager."""

    def __init__(self, lines: Iterable[Line], *, inline: bool = False, columns: int = 40, rows: int = 10) -> None:
        self.screen = Screen(columns, rows)
        painter = Painter(self.screen.write, theme("default"))
        painter.frame([line("said before")], [line("> draft")], (0, 7), self.screen.size)
        self.pager = Pager(self.screen, painter, "Transcript", lines, inline=inline)
        self.pager.paint()

    def press(self, *names: str) -> list[str]:
        """The rows of text after these keys."""
        for name in names:
            self.pager.key(Key(name, name if len(name) == 1 else ""))
            self.pager.paint()
        return self.text

    def type(self, text: str) -> list[str]:
        return self.press(*text)

    @property
    def text(self) -> list[str]:
        return self.screen.emulator.screen[1:-1]

    @property
    def foot(self) -> str:
        return self.screen.emulator.screen[-1]


def numbered(count: int) -> list[Line]:
    return [line(f"line {n}") for n in range(count)]


def texts(start: int, end: int) -> list[str]:
    return [f"line {n}" for n in range(start, end)]


async def test_keys_move_over_the_text() -> None:
    reader = Reader(numbered(100))
    assert reader.screen.emulator.is_alternate
    assert "Transcript" in reader.screen.emulator.screen[0] and "/ finds" in reader.foot
    assert reader.text == texts(0, 8)
    assert reader.press("down", "j") == texts(2, 10)
    assert reader.press("up", "k", "up") == texts(0, 8)
    assert reader.press("pgdn") == texts(7, 15)
    assert reader.press("space") == texts(14, 22)
    assert reader.press("pgup", "pgup", "pgup") == texts(0, 8)
    assert reader.press("ctrl-d") == texts(3, 11)
    assert reader.press("ctrl-u", "ctrl-u") == texts(0, 8)
    assert reader.press("end") == texts(92, 100) and reader.foot.endswith("100 %")
    assert reader.press("down", "pgdn") == texts(92, 100)
    assert reader.press("home") == texts(0, 8) and reader.foot.endswith("0 %")
    assert not reader.screen.emulator.is_cursor_shown


async def test_q_closes_it_and_the_main_screen_is_as_before() -> None:
    for key in ("q", "esc", "ctrl-c", "ctrl-t"):
        reader = Reader(numbered(100))
        reader.press("end", key)
        assert reader.pager.closed.done()
        reader.pager.close()
        reader.pager.close()
        assert not reader.screen.emulator.is_alternate
        assert reader.screen.emulator.screen == ["said before", "> draft"]


async def test_words_are_found_and_marked() -> None:
    lines = [
        line("nothing here"),
        *numbered(50),
        line("a Needle in it"),
        *numbered(50),
        Line((Span("nee"), Span("dles", "bold"))),
    ]
    reader = Reader(lines)
    reader.type("/needle")
    assert reader.foot == "/needle"
    assert reader.screen.emulator.cursor == (9, 7) and reader.screen.emulator.is_cursor_shown
    assert reader.press("enter")[0] == "a Needle in it"
    cells = reader.screen.emulator.grid.buffer[1]
    assert [cells[x].reverse for x in range(9)] == [False, False, *[True] * 6, False]
    assert reader.press("n")[-1] == "needles"
    assert reader.press("n")[-1] == "needles" and reader.foot.startswith("not found: needle")
    assert reader.press("N")[0] == "a Needle in it"
    reader.press("home")
    reader.type("/Needles")
    reader.press("enter")
    assert reader.foot.startswith("not found: Needles"), "large letters find only large ones"
    reader.type("/x")
    reader.press("backspace", "backspace")
    assert reader.text == ["nothing here", *texts(0, 7)]
    reader.type("/q")
    assert not reader.pager.closed.done() and reader.foot == "/q"
    reader.press("esc")
    assert not reader.pager.closed.done() and "closes" in reader.foot


async def test_a_search_through_very_much_text_gives_way_to_keys() -> None:
    reader = Reader([*numbered(9000), line("needle")])
    reader.type("/needle")
    reader.press("enter")
    assert reader.foot.startswith("looking for needle")
    while reader.pager.scroll.is_searching:
        await asyncio.sleep(0)
    assert reader.text[-1] == "needle"


async def test_lines_are_made_and_laid_out_only_when_they_are_seen() -> None:
    made = 0

    def endless() -> Iterator[Line]:
        nonlocal made
        while made < 200_000:
            made += 1
            yield line(f"line {made - 1}")

    reader = Reader(endless())
    assert reader.press("pgdn") == texts(7, 15) and made < 1000
    before = reader.screen.written
    reader.press("down")
    assert reader.screen.written - before < 1000
    assert reader.press("end") == texts(199_992, 200_000)


async def test_a_new_size_keeps_the_place_and_breaks_lines_anew() -> None:
    reader = Reader([*numbered(20), line("word " * 40), line("x" * 200, verbatim=True)], columns=60)
    reader.press(*["down"] * 15)
    reader.screen.resize(20, 7)
    reader.pager.paint()
    assert reader.text == texts(15, 20)
    reader.press("end")
    assert reader.text == ["x" * 20] * 5
    reader.screen.resize(60, 2)
    reader.pager.paint()
    assert reader.screen.emulator.screen[0].startswith("x"), "the text goes last"
    reader.screen.resize(100, 30)
    reader.pager.paint()
    assert reader.text[:20] == texts(0, 20)


async def test_a_line_of_a_million_characters_is_no_trouble() -> None:
    reader = Reader([line("y" * 1_000_000, verbatim=True), line("end")])
    assert reader.press("end")[-1] == "end"
    assert reader.press("pgup")[0] == "y" * 40


async def test_without_the_alternate_screen_it_takes_the_live_area() -> None:
    reader = Reader(numbered(100), inline=True)
    assert not reader.screen.emulator.is_alternate
    assert reader.text == texts(0, 8) and reader.screen.emulator.above == ["said before"]
    assert reader.press("pgdn") == texts(7, 15)
    assert reader.press("q") and reader.pager.closed.done()


async def test_an_empty_text_can_be_closed() -> None:
    reader = Reader([])
    reader.press("down", "up", "end", "home", "pgdn", "n", "q")
    assert reader.pager.closed.done()
