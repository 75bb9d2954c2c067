"""Searching the history while the words are being typed (Ctrl-R, Ctrl-S): what is found is shown in the draft's place.

Enter puts it into the composer; Esc brings the draft back, which was never touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from spindle.frontends.fit import cells, cut
from spindle.frontends.tui.composer.past_messages import Recall
from spindle.frontends.tui.composer.rows import shown_text
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import Line, Span

_LABEL = "  search: "
Outcome = Literal["goes on", "given up", "taken", "taken, and the key is still to be done"]


class Search:
    """A search that is going on: what is looked for, what was found, and the draft it began with."""

    SLICE = 400
    """Entries that are looked at in one go."""

    def __init__(self, recall: Recall, exact: Callable[[str], str]) -> None:
        self._recall = recall
        self._exact = exact
        self.query = ""
        self.found: str | None = None
        self.is_looking = False
        """There is more to look through than one slice."""
        self._number = -1
        self._next = 0
        self._step = 1

    def type(self, query: str) -> None:
        """Other words: look again from the newest entry on."""
        self.query, self.found, self._number = query, None, -1
        self._start(0, 1)

    def go(self, step: int) -> None:
        """The next match in a direction (1 = older). The one that is shown stays when there is no other."""
        self._start(self._number + step, step)

    def _start(self, number: int, step: int) -> None:
        self._next, self._step = number, step
        self.is_looking = bool(self.query)
        self.look()

    def look(self) -> None:
        """Look through the next slice."""
        wanted = self.query.lower()
        for _ in range(self.SLICE):
            if not self.is_looking:
                return
            entry = self._recall.entry(self._next) if self._next >= 0 else None
            if entry is None:
                self.is_looking = False
            elif entry != self.found and wanted in self._exact(entry).lower():
                self.found, self._number, self.is_looking = entry, self._next, False
            self._next += self._step

    # ---- what a person does, and sees ----------------------------------------------------------

    def key(self, key: Key, action: str) -> Outcome:
        """Take a key of the composer's keymap."""
        match action:
            case "history_search_previous" | "move_up":
                self.go(1)
            case "history_search_next" | "move_down":
                self.go(-1)
            case "interrupt_turn" | "cancel" | "open_external_editor":  # Esc, Ctrl-C, and Ctrl-G as in every shell
                return "given up"
            case "delete_backward":
                self.type(self.query[:-1])
            case "kill_line_start":
                self.type("")
            case "submit" | "queue" | "move_right" | "move_line_end":
                return "taken"
            case _ if key.text and key.text.isprintable():
                self.type(self.query + key.text)
            case _:
                return "taken, and the key is still to be done"
        return "goes on"

    def selected(self) -> tuple[int, int] | None:
        """Where the words are in what was found."""
        place = self.found.lower().find(self.query.lower()) if self.found and self.query else -1
        return None if place < 0 else (place, place + len(self.query))

    def line(self, width: int) -> tuple[Line, int]:
        """The row below the draft, and the column of the cursor in it."""
        state = "" if self.found or not self.query else " (looking …)" if self.is_looking else " (nothing found)"
        query = shown_text(self.query)[-max(1, width - len(_LABEL) - len(state) - 1) :]
        spans = (Span(_LABEL, "dim"), Span(query), Span(cut(state, max(1, width - len(_LABEL))), "dim"))
        return Line(spans, is_verbatim=True), min(max(0, width - 1), len(_LABEL) + cells(query))
