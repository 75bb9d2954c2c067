"""The whole thread for the pager."""

from __future__ import annotations

from spindle.frontends.tui.cells.cell import Cell, Look
from spindle.frontends.tui.cells.transcript import Transcript
from spindle.frontends.tui.shown import Line, line, plain, texts
from tui.cells.told import Told, begin, end, item, said


def test_the_transcript_has_everything_unfolded() -> None:
    told = Told()
    script = "\n".join(f"step {number}" for number in range(1, 9))
    told.take(item("Reasoning", "r", summary_text=["**Why** so"], raw_content=[]))
    told.take(begin(script), end(script, "".join(f"out {number}\n" for number in range(50))), said("Done."))
    assert told.whole() == [
        "• Why so",
        "• Ran step 1",
        *(f"  │ step {number}" for number in range(2, 8)),
        "  │ step 8 (200ms)",
        "  └ out 0",
        *(f"    out {number}" for number in range(1, 50)),
        "• Done.",
    ]


def test_explored_commands_are_whole_in_the_transcript() -> None:
    told = Told()
    told.take(begin("cat a.py"), end("cat a.py", "x = 1\n"), said("ok"))
    assert told.whole() == ["• Ran cat a.py (200ms)", "  └ x = 1", "• ok"]


class Counted(Cell):
    """A cell that knows how often it was made into lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def lines(self, look: Look) -> list[Line]:
        self.count += 1
        return [line(f"{self.name}.{number}") for number in range(3)]


def test_only_what_is_looked_at_is_made_into_lines() -> None:
    cells = [Counted(str(number)) for number in range(2000)]
    transcript = Transcript(cells, Look(80))
    last = transcript.block(transcript.block_count - 1)
    assert texts(last) == ["", "1999.0", "1999.1", "1999.2"]
    assert plain(next(reversed(transcript))) == "1999.2"
    assert sum(cell.count for cell in cells) == 1


def test_it_is_a_sequence_of_lines() -> None:
    transcript = Transcript([Counted("a"), Counted("b")], Look(80))
    expected = ["a.0", "a.1", "a.2", "", "b.0", "b.1", "b.2"]
    assert texts(transcript) == expected
    assert len(transcript) == 7
    assert [plain(transcript[place]) for place in range(-7, 7)] == expected * 2
    assert texts(transcript[2:5]) == ["a.2", "", "b.0"]
    assert texts(reversed(transcript)) == expected[::-1]


def test_the_transcript_does_not_change_while_it_is_open() -> None:
    told = Told()
    told.take(said("One."))
    transcript = told.conversation.transcript(80)
    told.take(said("Two.", "m2"))
    assert texts(transcript) == ["• One."]
