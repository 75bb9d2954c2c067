"""The keys on one screen: what `?` shows in an empty composer. Any key closes it."""

from __future__ import annotations

from collections.abc import Callable

from spindle.frontends.fit import cells, cut
from spindle.frontends.tui import key_list
from spindle.frontends.tui.composer.keymap import Keymap
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.view import View


class ShortcutsView(View[None]):
    def __init__(self, keymap: Keymap, pass_on: Callable[[Key], None]) -> None:
        super().__init__()
        self._pass_on = pass_on
        """Gets a key that was pressed to write, not to close this."""
        self._rows = [*key_list.SIGNS, *key_list.rows(keymap)]

    def lines(self, width: int, height: int) -> list[Line]:
        wide = max(cells(keys) for keys, _ in self._rows)
        told = max(cells(text) for _, text in self._rows)
        two = width >= 2 * (wide + told + 4) and height > 2
        rows = self._rows
        per_column = -(-len(rows) // 2) if two else len(rows)
        columns = [rows[:per_column], rows[per_column:]] if two else [rows]
        room = width // len(columns)
        shown: list[Line] = []
        for number in range(per_column):
            spans: list[Span] = []
            for column in columns:
                if number < len(column):
                    spans += self._entry(*column[number], wide=wide, room=room)
            shown.append(line(*spans))
        head = [line(Span("Keys", "bold"), Span("  (any key closes this; /help lists the commands)", "dim")), BLANK]
        return [*head, *shown][:height] if height > len(head) + 3 else shown[:height]

    def _entry(self, keys: str, text: str, *, wide: int, room: int) -> list[Span]:
        left = f"  {keys}{' ' * (wide - cells(keys))}  "
        right = cut(text, max(1, room - cells(left) - 1))
        return [Span(left, "accent"), Span(right + " " * max(0, room - cells(left) - cells(right)))]

    def key(self, key: Key) -> None:
        self.settle(None)
        if key.text and key.name not in ("?", "q", "space", "enter"):
            self._pass_on(key)

    def paste(self, text: str) -> None:
        self.settle(None)
