"""Markdown as lines, while it arrives.

    answer = Markdown()
    answer.feed(delta)                     # as often as there is one
    print(answer.take_finished(width))     # what can no longer change, each line once
    show(answer.tail(width))               # the unfinished rest, as it looks now
    print(answer.finish(text, width))      # all that was left

`blocks.py` finds the blocks. The work is in proportion to the text, however many pieces it comes in.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text.blocks import Blocks
from spindle.frontends.tui.text.clean import safe
from spindle.frontends.tui.text.parts import TAIL

_ONLY_SIGNS = re.compile(r"[-+*_=~`#>|: \t]*$|\s*\d{1,9}[.)]?$")
"""The beginning of a line that does not tell yet what it will be."""


class Correction(NamedTuple):
    """The text turned out to be another than the one whose lines were taken: all of it, to be printed again."""

    lines: list[Line]


def render(text: str, width: int) -> list[Line]:
    """A text that is all there."""
    whole = Markdown()
    whole.feed(text)
    whole.end()
    return whole.take_finished(width)


class Markdown:
    """One text. The width may be another at every call: what was taken stays as it is."""

    def __init__(self) -> None:
        self._blocks = Blocks()
        self._fed: list[str] = []
        self._begun: list[str] = []
        """Pieces of the line that has no end yet."""
        self._begun_size = 0
        self._ends_with_return = False
        self._taken = 0
        self._digest = 0
        """Of the lines that were taken."""
        self._tail: tuple[int, list[Line]] | None = None

    @property
    def text(self) -> str:
        """All that was fed."""
        if len(self._fed) > 1:
            self._fed = ["".join(self._fed)]
        return self._fed[0] if self._fed else ""

    @property
    def is_taken_from(self) -> bool:
        """Whether some of it was taken, and so stands where it cannot be changed any more."""
        return self._taken > 0

    def feed(self, delta: str) -> None:
        if not delta:
            return
        self._fed.append(delta)
        self._tail = None
        if self._ends_with_return:
            delta = "\r" + delta
        # The line feed that belongs to it may still come.
        self._ends_with_return = delta.endswith("\r")
        if self._ends_with_return:
            delta = delta[:-1]
        if "\r" in delta:
            delta = delta.replace("\r\n", "\n").replace("\r", "\n")
        first, *others = delta.split("\n")
        self._begin(first)
        for other in others:
            self._blocks.line("".join(self._begun))
            self._begun, self._begun_size = [], 0
            self._begin(other)

    def take_finished(self, width: int) -> list[Line]:
        """The lines of blocks that later text cannot change, each once."""
        done, self._blocks.done = self._blocks.done, []
        lines = [line for block in done for line in block.shown(width)]
        for line in lines:
            self._digest = hash((self._digest, line))
        self._taken += len(lines)
        return lines

    def tail(self, width: int) -> list[Line]:
        """What is not finished, as it looks now; of something very long its end. Take what is finished before."""
        if self._tail is None or self._tail[0] != width:
            self._tail = (width, self._unfinished(width))
        return self._tail[1]

    def finish(self, final_text: str, width: int) -> list[Line] | Correction:
        """What was not taken yet, now that the text is known; a correction if it contradicts what was taken."""
        if final_text == self.text:
            self.end()
            return self.take_finished(width)
        lines = render(final_text, width)
        digest = 0
        for line in lines[: self._taken]:
            digest = hash((digest, line))
        if self._taken <= len(lines) and digest == self._digest:
            return lines[self._taken :]
        return Correction(lines)

    def end(self) -> None:
        """No more text will come."""
        self._tail = None
        if self._ends_with_return:
            self._ends_with_return = False
            self._blocks.line("".join(self._begun))
            self._begun, self._begun_size = [], 0
        if self._begun_size:
            self._blocks.line("".join(self._begun))
            self._begun, self._begun_size = [], 0
        self._blocks.finish()

    def _begin(self, piece: str) -> None:
        if piece:
            self._begun.append(piece)
            self._begun_size += len(piece)

    def _unfinished(self, width: int) -> list[Line]:
        copy = self._blocks.copy()
        lines: list[Line] = []
        if self._begun_size > TAIL:
            lines.append(Line((Span(safe(self._end_of_line())),)))
        else:
            self._begun = ["".join(self._begun)] if self._begun else []
            begun = "".join(self._begun)
            if not _ONLY_SIGNS.match(begun):
                copy.line(begun)
        copy.finish()
        return [line for block in copy.done for line in block.shown(width)] + lines

    def _end_of_line(self) -> str:
        """The end of a very long line, without a look at its beginning."""
        pieces: list[str] = []
        size = 0
        for piece in reversed(self._begun):
            pieces.append(piece)
            size += len(piece)
            if size >= TAIL:
                break
        return "".join(reversed(pieces))[-TAIL:]
