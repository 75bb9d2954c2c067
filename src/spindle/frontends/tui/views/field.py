"""A small field to write in: a line of text, broken into rows where it is long; hidden for secrets."""

from __future__ import annotations

from spindle.frontends.fit import cells, rows_of
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import Line, Span, line
from spindle.frontends.tui.text.clean import safe

PROMPT = "> "


class Field:
    """Text and a cursor in it. Line ends become blanks unless it has `many_lines`."""

    def __init__(self, text: str = "", *, is_secret: bool = False, many_lines: bool = False) -> None:
        self.text = text
        self.at = len(text)
        self.is_secret = is_secret
        self.many_lines = many_lines
        self.rows = 1
        """How many rows `lines` gave last."""
        self._cursor = (0, len(PROMPT))

    def key(self, key: Key) -> bool:
        """True when it meant something here."""
        before, after = self.text[: self.at], self.text[self.at :]
        match key.name:
            case "left" | "ctrl-b":
                self.at = max(0, self.at - 1)
            case "right" | "ctrl-f":
                self.at = min(len(self.text), self.at + 1)
            case "home" | "ctrl-a":
                self.at = 0
            case "end" | "ctrl-e":
                self.at = len(self.text)
            case "backspace" | "ctrl-h":
                self._set(before[:-1], after)
            case "delete" | "ctrl-d":
                self._set(before, after[1:])
            case "ctrl-u":
                self._set("", after)
            case "ctrl-k":
                self._set(before, "")
            case "ctrl-w" | "alt-backspace":
                head, _, _ = before.rstrip().rpartition(" ")
                self._set(head + " " if head else "", after)
            case "ctrl-j" | "alt-enter" | "shift-enter" if self.many_lines:
                self._set(before + "\n", after)
            case _ if key.text and key.text.isprintable():
                self._set(before + key.text, after)
            case _:
                return False
        return True

    def paste(self, text: str) -> None:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if not self.many_lines:
            text = text.strip("\n").replace("\n", " ")
        kept = "".join(char for char in text if char.isprintable() or char in "\n\t")
        self._set(self.text[: self.at] + kept, self.text[self.at :])

    def _set(self, before: str, after: str) -> None:
        self.text, self.at = before + after, len(before)

    def lines(self, width: int) -> list[Line]:
        room = max(2, width - len(PROMPT) - 1)
        made: list[str] = []
        where = (0, 0)
        seen = 0
        for each in self._shown(self.text).split("\n"):
            for row in rows_of(each, room):
                if seen <= self.at <= seen + len(row):
                    where = len(made), cells(row[: self.at - seen])
                seen += len(row)
                made.append(row)
            seen += 1
        self.rows = len(made)
        self._cursor = where[0], where[1] + len(PROMPT)
        return [
            line(Span(PROMPT if number == 0 else " " * len(PROMPT), "accent"), safe(row))
            for number, row in enumerate(made)
        ]

    def _shown(self, text: str) -> str:
        return "•" * len(text) if self.is_secret else text

    def cursor(self) -> tuple[int, int]:
        return self._cursor
