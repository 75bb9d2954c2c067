"""Answers as the model wrote them, for `/raw`: line by line, nothing added, nothing taken away."""

from __future__ import annotations

from spindle.frontends.tui.cells.cell import Look
from spindle.frontends.tui.cells.messages import Answer
from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text.clean import safe
from spindle.frontends.tui.text.markdown import Correction


class Source:
    """Takes pieces and gives lines as `Markdown` does, but leaves every sign where it is."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._begun = ""
        """The line that has no end yet."""
        self._done: list[str] = []
        self._taken = 0
        """Characters whose lines were taken."""

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def feed(self, delta: str) -> None:
        self._pieces.append(delta)
        *whole, self._begun = (self._begun + delta).split("\n")
        self._done += whole

    def take_finished(self, width: int) -> list[Line]:
        done, self._done = self._done, []
        self._taken += sum(len(row) + 1 for row in done)
        return [_line(row) for row in done]

    def tail(self, width: int) -> list[Line]:
        return [_line(self._begun)] if self._begun else []

    def finish(self, final_text: str, width: int) -> list[Line] | Correction:
        if not final_text.startswith(self.text[: self._taken]):
            return Correction(source_lines(final_text))
        return source_lines(final_text[self._taken :]) if len(final_text) > self._taken else []


def source_lines(text: str) -> list[Line]:
    return [_line(row) for row in text.removesuffix("\n").split("\n")]


def _line(row: str) -> Line:
    shown = safe(row)
    return Line((Span(shown),) if shown else (), (), True)


class AnswerAsWritten(Answer):
    """An answer whose lines can be copied as they are: no sign before it, no indent."""

    __slots__ = ()

    def _stream(self) -> Source:
        return Source()

    def _render(self, text: str, width: int) -> list[Line]:
        return source_lines(text)

    def _whole(self, lines: list[Line], look: Look) -> list[Line]:
        return look.block(self.sign, self.word, lines) if look.words else lines

    def _further(self, lines: list[Line]) -> list[Line]:
        return lines
