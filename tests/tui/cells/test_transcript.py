"""The whole thread for the pager."""

from __future__ import annotations

from spindle.frontends.tui.cells.cell import Cell, Look
from spindle.frontends.tui.cells.transcript import Transcript
from spindle.frontends.tui.screen.scroll import Scroll
from spindle.frontends.tui.shown import Line, line, texts
from spindle.frontends.tui.text.layout import Row
from tui.cells.told import Told, begin, delta, end, item, said


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
    assert sum(cell.count for cell in cells) == 1
    scroll = Scroll(transcript)
    assert texts_of(scroll.rows(80, 6)) == ["1998.1", "1998.2", "", "1999.0", "1999.1", "1999.2"]
    assert sum(cell.count for cell in cells) == 3


def test_all_of_it_can_be_read_from_the_beginning() -> None:
    transcript = Transcript([Counted("a"), Counted("b")], Look(80))
    assert texts(transcript) == ["a.0", "a.1", "a.2", "", "b.0", "b.1", "b.2"]


def test_the_transcript_grows_while_it_is_open_and_the_reader_stays_where_they_are() -> None:
    told = Told()
    told.begin_turn()
    told.take(said("One."))
    scroll = Scroll(told.conversation.transcript(80))
    assert texts_of(scroll.rows(80, 3)) == ["• One."]
    told.take(delta("Two.\n\nThree", "m2"))
    assert texts_of(scroll.rows(80, 3)) == ["• Two.", "", "  Three"]
    told.take(delta(" four", "m2"))
    assert texts_of(scroll.rows(80, 3)) == ["• Two.", "", "  Three four"]
    scroll.to_start()
    told.take(said("Two.\n\nThree four.", "m2"), said("Five.", "m3"))
    assert texts_of(scroll.rows(80, 3)) == ["• One.", "", "• Two."]
    scroll.to_end()
    assert texts_of(scroll.rows(80, 3)) == ["  Three four.", "", "• Five."]
    scroll.search("one")
    assert texts_of(scroll.rows(80, 3))[0] == "• One.", "what is above is found, too"


def texts_of(rows: list[Row]) -> list[str]:
    return ["".join(span.text for span in row).rstrip() for row in rows]
