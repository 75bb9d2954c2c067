"""What the painter leaves in the terminal: finished lines once and in order, the live area below them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spindle.frontends.tui.keys import Reply
from spindle.frontends.tui.screen.decoder import Decoder
from spindle.frontends.tui.screen.painter import Painter
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.text.theme import theme
from tui.emulator import Emulator

ALLOWED = re.compile(r"\?(2026|25|7)[hl]|[0-9]*[ABGJKLM]|[0-9;]*m|[56]n|18t|c|H")
"""What may be written besides text."""


class Desk:
    """A painter before an emulated terminal."""

    def __init__(
        self,
        columns: int = 40,
        rows: int = 10,
        *,
        reflows: bool = False,
        answers: bool = True,
        before: str = "",
        is_gnu_screen: bool = False,
    ) -> None:
        self.asked: list[bytes] = []
        """Answers that the painter has not got yet."""
        self.decoder = Decoder()
        reply = self.asked.append if answers else lambda _: None
        self.emulator = Emulator(columns, rows, reflows=reflows, reply=reply, tells_size=reflows and not is_gnu_screen)
        self.emulator.main.saves_deleted = is_gnu_screen
        self.emulator.feed(before.replace("\n", "\r\n").encode())
        self.frames: list[bytes] = []
        self.painter = Painter(self._write, theme("default"))
        self.painter.take_reply(Reply("terminal", (83 if is_gnu_screen else 84 if reflows else 41, 0, 0)))
        self.size = (columns, rows)

    def _write(self, data: bytes) -> None:
        self.frames.append(data)
        self.emulator.feed(data)

    def show(
        self,
        finished: Sequence[str | Line],
        live: Sequence[str | Line],
        cursor: tuple[int, int] | None = (0, 0),
        pending: int = 0,
    ) -> bytes:
        """What was written for this."""
        self.answer()
        count = len(self.frames)
        lines = [_line(each) for each in live]
        given = [_line(each) for each in finished]
        tries = 0
        while not self.painter.frame(given, lines, cursor, self.size, pending=pending, may_wait=tries < 8):
            tries += 1
            assert tries < 20, "it waits for ever"
            self.answer()
            given, count = [], len(self.frames)
        assert len(self.frames) - count <= 1
        return b"".join(self.frames[count:])

    def answer(self) -> None:
        """Hand over what the terminal has answered, if it answers at all."""
        for data in self.asked:
            for reply in self.decoder.feed(data, 0.0):
                assert isinstance(reply, Reply)
                self.painter.take_reply(reply)
        self.asked.clear()

    def resize(self, columns: int, rows: int) -> None:
        self.size = (columns, rows)
        self.emulator.resize(columns, rows)

    @property
    def everything(self) -> list[str]:
        return self.emulator.everything

    def assert_decent(self) -> None:
        """Only known sequences; each frame whole, in one piece; nothing that erases above the live area."""
        for kind, body in self.emulator.events:
            assert kind == "csi" and ALLOWED.fullmatch(body) and body not in ("2J", "3J"), (kind, body)
        for frame in self.frames:
            if frame not in (b"\x1b[18t\x1b[6n", b"\x1b[5n\x1b[6n"):
                assert frame.startswith(b"\x1b[?2026h") and frame.endswith(b"\x1b[?2026l"), frame


def _line(given: str | Line) -> Line:
    return line(given) if isinstance(given, str) else given


# ---- finished and live ---------------------------------------------------------------------------


def test_finished_lines_stand_above_the_live_area_and_what_was_there_before_stays() -> None:
    desk = Desk(before="$ earlier command\n")
    desk.show(["one", "two"], ["> draft", "status"], (0, 3))
    assert desk.everything == ["$ earlier command", "one", "two", "> draft", "status"]
    assert desk.emulator.cursor == (3, 3) and desk.emulator.is_cursor_shown
    desk.show(["three"], ["> draft", "status"], (0, 3))
    assert desk.everything == ["$ earlier command", "one", "two", "three", "> draft", "status"]
    desk.assert_decent()


@pytest.mark.parametrize("told", [True, False], ids=["told where the cursor is", "not told"])
def test_it_begins_on_a_fresh_line(told: bool) -> None:
    desk = Desk(before="no line end")
    if told:
        desk.painter.begins_in_column(12)
    desk.show(["one"], ["> "])
    assert desk.everything == ["no line end", "one", ">"]
    desk = Desk(before="line end\n")
    if told:
        desk.painter.begins_in_column(1)
    desk.show(["one"], ["> "])
    assert desk.everything == ["line end", "one", ">"]


def test_five_hundred_lines_are_all_in_the_scrollback() -> None:
    desk = Desk()
    for start in range(0, 500, 7):
        desk.show([f"line {n}" for n in range(start, min(start + 7, 500))], ["> ", "status"])
    assert desk.everything == [*(f"line {n}" for n in range(500)), ">", "status"]
    desk.assert_decent()


def test_a_live_area_that_is_too_high_shows_its_tail() -> None:
    desk = Desk(40, 5)
    desk.show(["done"], [f"row {n}" for n in range(12)], (11, 0))
    assert desk.emulator.screen == [f"row {n}" for n in range(7, 12)] and desk.emulator.above == ["done"]
    desk.show([], ["> "], (0, 2))
    assert desk.everything == ["done", ">"]
    desk.show([], [f"row {n}" for n in range(12)], (1, 0))
    assert desk.emulator.screen[0] == "row 1", "the row with the cursor is always seen"


def test_a_long_word_is_broken_by_the_terminal_alone() -> None:
    url = "https://example.org/" + "x" * 100
    desk = Desk(30, 8)
    desk.show(["before", url, "behind"], ["> "])
    assert desk.emulator.unbroken == ["before", url, "behind", ">"]
    desk.show([line(url, verbatim=True)], [line("see ", url), "> "], (1, 2))
    assert desk.emulator.unbroken[:4] == ["before", url, "behind", url]
    assert desk.emulator.screen[-2:] == ["https://example.org/xxxxxxxxx…", ">"], "a live row is cut"


def test_a_row_that_fills_the_window_is_one_row() -> None:
    desk = Desk(10, 6)
    desk.show(["0123456789", "abcdefghij"], ["ABCDEFGHIJ", "klmnopqrst"], (1, 10))
    assert desk.everything == ["0123456789", "abcdefghij", "ABCDEFGHIJ", "klmnopqrst"]
    assert desk.emulator.cursor == (3, 9)
    desk.show([], ["ABCDEFGHIx", "klm"], (1, 3))
    assert desk.everything[2:] == ["ABCDEFGHIx", "klm"]


def test_styles_are_switched_off_again() -> None:
    desk = Desk()
    frame = desk.show([Line((Span("red", "error"), Span(" plain")))], ["> "])
    assert b"\x1b[31mred\x1b[0m plain" in frame


def test_a_new_theme_is_seen_at_once() -> None:
    desk = Desk()
    live: list[str | Line] = [Line((Span("> ", "accent"), Span("draft"))), "status"]
    desk.show(["one"], live, (1, 0))
    desk.painter.looks = theme("monochrome")
    assert b"\x1b[1m> \x1b[0mdraft" in desk.show([], live, (1, 0))
    assert desk.everything == ["one", "> draft", "status"] and desk.show([], live, (1, 0)) == b""


# ---- little is written ---------------------------------------------------------------------------


def test_nothing_is_written_when_nothing_has_changed() -> None:
    desk = Desk()
    desk.show(["one"], ["> draft", "status"], (0, 3))
    assert desk.show([], ["> draft", "status"], (0, 3)) == b""
    assert desk.show([], ["> draft", "status"], None) != b""
    assert desk.show([], ["> draft", "status"], None) == b""
    assert not desk.emulator.is_cursor_shown
    assert desk.show([], ["> draft", "status"], (0, 2)) != b"" and desk.emulator.cursor == (1, 2)


def test_a_word_that_is_appended_costs_few_bytes() -> None:
    desk = Desk(100, 30)
    words = [f"word{n}" for n in range(400)]
    text: list[str] = []
    desk.show([], ["", "* Working", "", "> ", "", "status"], (3, 2))
    start = desk.painter.bytes_written
    for number, word in enumerate(words):
        text.append(word)
        if number == 250:
            assert (desk.painter.bytes_written - start) / number <= 60
            assert b"L" not in b"".join(desk.frames), "the window is not full yet"
        desk.show([], [" ".join(text), "", "* Working", "", "> ", "", "status"], (4, 2), pending=1)
    assert (desk.painter.bytes_written - start) / len(words) <= 60
    assert desk.emulator.screen == [*_broken(" ".join(text), 100)[-24:], "", "* Working", "", ">", "", "status"]
    desk.show([" ".join(text)], ["", "* Working", "", "> ", "", "status"], (3, 2))
    assert desk.everything == [*_broken(" ".join(text), 100), "", "* Working", "", ">", "", "status"]


def _broken(text: str, width: int) -> list[str]:
    rows = [""]
    for word in text.split():
        if len(rows[-1]) + 1 + len(word) > width:
            rows.append(word)
        else:
            rows[-1] = f"{rows[-1]} {word}".strip()
    return rows


def test_a_streamed_row_that_is_finished_is_not_written_again() -> None:
    desk = Desk(60, 12)
    long = "these words came piece by piece and now they are finished"
    desk.show([], [long, "", "> "], (2, 2))
    frame = desk.show([long], ["", "> "], (1, 2))
    assert b"words" not in frame and desk.everything == [long, "", ">"]


def test_emoji_and_joining_marks_do_not_shift_what_follows() -> None:
    desk = Desk(40, 8)
    for text in ("a👩‍💻b cafe\u0301", "a👩‍💻b cafe\u0301 end", "a👩‍💻b", "x"):
        desk.show([], [f"> {text}", "status"], (1, 0))
        assert desk.everything[1] == "status"
    assert desk.everything == ["> x", "status"]


# ---- the window changes --------------------------------------------------------------------------


@pytest.mark.parametrize("reflows", [False, True], ids=["cuts", "reflows"])
@pytest.mark.parametrize("answers", [False, True], ids=["guesses", "is told"])
def test_a_storm_of_sizes_neither_loses_nor_doubles_a_word(reflows: bool, answers: bool) -> None:
    desk = Desk(200, 60, reflows=reflows, answers=answers)
    live = [
        "unfinished words of an answer",
        "",
        "* Working, and this row is quite long for a narrow window (esc)",
        "> draft",
    ]
    sizes = [(200, 60), (20, 5), (21, 6), (80, 24), (40, 10), (20, 5), (200, 60), (37, 9), (100, 30)]
    printed: list[str] = []
    for number, size in enumerate(sizes):
        if number:
            desk.resize(*size)
        printed.append(f"p{number}")
        desk.show([printed[-1]], live, (3, 7), pending=1)
    desk.show(["unfinished words of an answer"], live[1:], (2, 7))
    words = " ".join(desk.everything).split()
    assert [word for word in words if re.fullmatch(r"p\d", word)] == printed
    assert words.count("unfinished") == 1 or not answers, "without an answer, rather twice than never"
    assert words.count("unfinished") >= 1 and words.count("draft") == 1
    desk.assert_decent()


@pytest.mark.parametrize("reflows", [False, True], ids=["cuts", "reflows"])
def test_what_was_pushed_out_of_a_low_window_is_not_printed_again(reflows: bool) -> None:
    desk = Desk(60, 20, reflows=reflows)
    text = " ".join(f"w{n}" for n in range(60))
    desk.show(
        [f"line {n}" for n in range(20)],
        [Line((Span("• "), Span(text)), (Span("  "),)), BLANK, "status", "> "],
        (3, 2),
        pending=1,
    )
    desk.resize(60, 3)
    text += " more words"
    streamed = Line((Span("• "), Span(text)), (Span("  "),))
    desk.show([], [streamed, BLANK, "status", "> "], (3, 2), pending=1)
    assert desk.emulator.screen == ["", "status", ">"]
    desk.resize(60, 20)
    desk.show([streamed], [BLANK, "status", "> "], (2, 2))
    found = " ".join(desk.everything).split()
    assert [word for word in found if word.startswith("w") and word[1:].isdigit()] == text.split()[:-2]
    assert found.count("more") == 1
    desk.assert_decent()


def test_a_text_that_changed_since_is_printed_whole() -> None:
    desk = Desk(60, 12)
    desk.show(
        [f"line {n}" for n in range(12)], ["first try of a text", "second row", "status", "> "], (3, 2), pending=2
    )
    desk.resize(60, 3)
    desk.show(["another text altogether"], ["status", "> "], (1, 2))
    assert desk.everything[-3:] == ["another text altogether", "status", ">"]


def test_clearing_pushes_the_old_screen_up() -> None:
    desk = Desk(40, 6, before="old words\n")
    desk.show(["one", "two"], ["> x"], (0, 3))
    desk.painter.push_up(desk.size)
    desk.show([], ["> x"], (0, 3))
    assert desk.emulator.screen == ["> x"]
    assert [row for row in desk.everything if row] == ["old words", "one", "two", "> x"]
    desk.show(["three"], ["> x"], (0, 3))
    above = len(desk.emulator.above)
    desk.painter.push_up(desk.size)
    assert len(desk.emulator.above) == above + 1, "with the place known, no more than what is there goes up"


def test_the_live_area_can_be_taken_away_and_come_back() -> None:
    desk = Desk()
    desk.show(["one"], ["> draft", "status"], None)
    desk.painter.clear_live()
    assert desk.everything == ["one"] and desk.emulator.cursor == (1, 0) and desk.emulator.is_cursor_shown
    assert desk.emulator.modes[7]
    desk.emulator.feed(b"$ shell\r\n")
    desk.show(["two"], ["> draft", "status"], (0, 2))
    assert desk.everything == ["one", "$ shell", "two", "> draft", "status"]


# ---- anything at all -----------------------------------------------------------------------------

WORDS = st.text(st.sampled_from("abcdefghijklmnopq -漢é"), max_size=70)
FRAMES = st.tuples(st.lists(WORDS, max_size=6), st.lists(WORDS, max_size=8), st.integers(0, 9), st.integers(0, 90))
SIZES = st.tuples(st.integers(10, 60), st.integers(3, 20))
STEPS = st.lists(st.one_of(FRAMES, SIZES), min_size=1, max_size=12)


@pytest.mark.parametrize("reflows", [False, True], ids=["cuts", "reflows"])
@settings(max_examples=120, deadline=None)
@given(steps=STEPS)
@example(steps=[(["nil", "qbd bééncéofmkfqa-peo-pdbkl"], ["kom-hlmh", "qbd bééncéofmkfqa-peo-pdbkl"], 3, 60), (10, 3)])
def test_whatever_happens_every_finished_line_stands_there_once(reflows: bool, steps: list[tuple[Any, ...]]) -> None:
    desk = Desk(40, 10, reflows=reflows, before="before\n")
    printed: list[str] = []
    live: list[str] = []
    for step in steps:
        if len(step) == 2:
            desk.resize(*step)
            desk.show([], live, (0, 0))
            continue
        texts, live_texts, row, column = step
        finished = [f"{len(printed) + n}: {text}" for n, text in enumerate(texts)]
        printed += finished
        live = [f"live {text}" for text in live_texts] or ["> "]
        desk.show(finished, live, (min(row, len(live) - 1), column))
    sizes = [step for step in steps if len(step) == 2]
    seen = "\n".join(desk.everything)
    numbers = [int(found) for found in re.findall(r"^(\d+):", seen, re.MULTILINE)]
    assert numbers == list(range(len(printed)))
    if not sizes:
        flat = re.sub(
            r"\s", "", "".join(row for row in desk.everything if row not in desk.emulator.screen[-len(live) :])
        )
        assert flat.startswith("before")
        whole = re.sub(r"\s", "", "".join(desk.everything))
        assert whole.startswith(re.sub(r"\s", "", "before" + "".join(printed)))
    desk.assert_decent()


@pytest.mark.parametrize("reflows", [False, True], ids=["cuts", "reflows"])
@settings(max_examples=150, deadline=None)
@given(steps=st.lists(st.one_of(FRAMES, FRAMES, SIZES), min_size=2, max_size=12))
@example(steps=[([], ["", "", "aaaaaa"], 1, 0), (10, 3), (11, 3)])
@example(steps=[([], ["aaaaaa"], 0, 10), (10, 3), (10, 3)])
def test_a_frame_that_a_new_window_overtakes_costs_no_line(reflows: bool, steps: list[tuple[Any, ...]]) -> None:
    """The terminal has its new size already, and we paint for the old one."""
    desk = Desk(40, 10, reflows=reflows)
    desk.show(["begin"], ["> "])
    count = 0
    for step in steps:
        if len(step) == 2:
            desk.emulator.resize(*step)  # nobody tells the painter yet
            desk.show([f"{count}: late"], ["live", "> "], (1, 2))
            count += 1
            desk.size = step
            continue
        texts, live, row, column = step
        finished = [f"{count + n}: {text}" for n, text in enumerate(texts)]
        count += len(finished)
        live = [f"live {text}" for text in live] or ["> "]
        desk.show(finished, live, (min(row, len(live) - 1), column))
    # What is left of the live area may stand before one.
    assert [int(found) for found in re.findall(r"(\d+):", "\n".join(desk.emulator.unbroken))] == list(range(count))


STREAMED = st.lists(st.one_of(st.integers(1, 30), st.just("end"), SIZES, SIZES), min_size=2, max_size=14)


@pytest.mark.parametrize("reflows", [False, True], ids=["cuts", "reflows"])
@settings(max_examples=150, deadline=None)
@given(steps=STREAMED)
def test_streamed_words_stand_there_once_through_every_size(reflows: bool, steps: list[Any]) -> None:
    """A paragraph grows in the live area, the window changes, the paragraph is finished, and the next one begins."""
    desk = Desk(60, 20, reflows=reflows, before="before\n")
    count = 0
    words: list[str] = []
    was_too_high = False

    def live() -> list[str | Line]:
        return [Line((Span("• "), Span(" ".join(words))), (Span("  "),)), "status", "> "]

    for step in [*steps, "end"]:
        if step == "end":
            finished, words = live()[:1], []
            desk.show(finished, ["status", "> "], (1, 2))
        elif isinstance(step, tuple):
            desk.resize(*step)
        else:
            words = [*words, *(f"w{count + n:03d}" for n in range(step))]
            count += step
        if words:
            desk.show([], live(), (2, 2), pending=1)
            was_too_high |= 6 * len(words) > (desk.size[0] - 8) * (desk.size[1] - 3)
    desk.emulator.resize(200, 60)  # what a narrow window hides is there
    found = re.findall(r"w(\d{3})", "".join(desk.everything))
    assert sorted(set(found)) == [f"{n:03d}" for n in range(count)], "none is lost"
    if not was_too_high and not (desk.size[0] < 12):
        assert found == [f"{n:03d}" for n in range(count)], "none is there twice"


def test_a_text_that_nobody_cleaned_cannot_drive_the_terminal() -> None:
    desk = Desk()
    evil = "a\x1b[2J\x9b3Jb\x07\u202ec\rd\x00\ud800"
    desk.painter.frame([line(evil)], [line(Span(evil, "bold"))], (0, 0), desk.size)
    written = b"".join(desk.frames).decode()
    assert "\x1b[2J" not in written and not re.search("[\x00\x07\x80-\x9f\u202e]", written)
    assert any("a�[2J�3Jb��c�d��" in row for row in desk.emulator.screen)


# ---- frames that a new window overtakes while a text streams ----------------------------------------


@pytest.mark.parametrize("is_gnu_screen", [False, True], ids=["tmux", "GNU screen"])
@pytest.mark.parametrize(
    "overtaking",
    [
        [(53, 12), (46, 57)],
        [(27, 26), (21, 45)],
        [(27, 26), (21, 45), (118, 34)],
        [(30, 20), (25, 40), (90, 40)],
        [(60, 14), (24, 30), (24, 60)],
    ],
    ids=str,
)
def test_a_text_drawn_in_a_narrower_window_and_broken_again_is_found_and_taken_away(
    overtaking: list[tuple[int, int]], is_gnu_screen: bool
) -> None:
    """The frame writes over halves of rows that the terminal has broken, and the next window breaks these once more."""
    words = [f"w{number:03d}" for number in range(60)]
    desk = Desk(100, 30, reflows=True, before="before\n", is_gnu_screen=is_gnu_screen)

    def live(count: int) -> list[str | Line]:
        text = Line((Span("• "), Span(" ".join(words[:count]))), (Span("  "),))
        return [
            text,
            "",
            "* Working, which is told in a row of its own (esc to interrupt)",
            "",
            "> a draft",
            "",
            "s" * 90,
        ]

    desk.show(["a line that was finished"], live(6), (4, 4), pending=1)
    for count, size in enumerate(overtaking):
        desk.emulator.resize(*size)  # nobody tells the painter yet
        if not count:
            desk.show([], live(30), (4, 4), pending=1)
    desk.size = overtaking[-1]
    desk.show([], live(40), (4, 4), pending=1)
    desk.resize(100, 30)
    desk.show([Line((Span("• "), Span(" ".join(words))), (Span("  "),))], live(60)[1:], (3, 4))
    seen = "\n".join(desk.everything)
    found = re.findall(r"w\d{3}", seen)
    assert seen.count("before") == seen.count("a line that was finished") == seen.count("> a draft") == 1, seen
    if is_gnu_screen:  # it may keep what was broken together, so some of it may be left; but no more than that
        assert found[-len(words) :] == words and len(found) <= len(words) + 6, seen
    else:
        assert found == words, seen
        desk.assert_decent()


def test_what_gnu_screen_would_save_is_not_deleted() -> None:
    desk = Desk(40, 6, reflows=True, is_gnu_screen=True)
    text = [f"row {number}" for number in range(12)]
    for end in range(4, 12):
        desk.show([], [*text[end - 4 : end], "> "], (4, 2))  # it fills the window, and moves up
    desk.resize(40, 5)
    desk.show([], [*text[-4:], "> "], (4, 2))
    assert desk.everything == [*text[-4:], ">"]


@pytest.mark.parametrize("seed", [238, 587, 635, 1388, *range(30)])
def test_a_window_that_changes_between_frames_and_answers_costs_no_word(seed: int) -> None:
    """Frames are drawn, windows change and answers come in any order; what a low window pushed out may stand twice."""
    chance = random.Random(seed)
    desk = Desk(100, 30, reflows=True, before="before\n")
    words: list[str] = []
    start = 0

    def live() -> list[Line]:
        text = Line((Span("• "), Span(" ".join(words[start:]))), (Span("  "),))
        return [
            text,
            *map(line, ("", "* Working, told in a row of its own (esc to interrupt)", "", "> a draft", "", "s" * 90)),
        ]

    desk.show(["first-line"], live(), (4, 4), pending=1)
    desk.answer()
    window = (100, 30)
    for _ in range(chance.randint(3, 14)):
        match chance.choices(["resize", "hear", "seek", "stream", "finish"], [7, 3, 2, 5, 3])[0]:
            case "resize":
                window = (chance.choice([chance.randint(20, 60), chance.randint(20, 120)]), chance.randint(10, 50))
                desk.emulator.resize(*window)
            case "hear":
                desk.size = window
                desk.painter.window_changes()
            case "seek":
                desk.painter.seek(desk.size)
            case "stream":
                words += [f"w{len(words) + number:03d}" for number in range(chance.randint(1, 12))]
                if chance.random() < 0.7:
                    desk.answer()
                desk.painter.frame([], live(), (4, 4), desk.size, pending=1, is_wary=chance.random() < 0.5)
            case _:
                finished, start = live()[:1], len(words)
                desk.show(finished, live(), (4, 4), pending=1)
    desk.resize(*window)
    desk.show([], live(), (4, 4), pending=1)
    desk.resize(100, 30)
    desk.show(live()[:1], live()[1:], (3, 4))
    seen = "\n".join(desk.emulator.unbroken)
    assert sorted(set(re.findall(r"w\d{3}", seen))) == words, seen
    assert seen.count("before") == seen.count("first-line") == 1, seen
