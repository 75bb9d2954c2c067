"""Going back to an earlier message: which one, newest first, with what it said."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from spindle.frontends.fit import counted, cut
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.text.clean import safe
from spindle.frontends.tui.views.list import ListView, Row
from spindle.frontends.tui.views.rows import words

_NAME_CHARS = 200
_PREVIEW_ROWS = 8


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the person, and how many turns end up forgotten when the thread goes on from before it."""

    text: str
    turns_back: int


class RewindView(ListView[Earlier]):
    """The answer is the message to edit; None when the person stays where they are."""

    def __init__(self, messages: Sequence[str]) -> None:
        """`messages` are those of the person that began a turn, oldest first."""
        super().__init__(
            "Go back to which message?",
            [
                Row(value=Earlier(text=text, turns_back=back), name=_first_words(text), about=_when(back))
                for back, text in enumerate(reversed(messages), 1)
            ],
            note="It comes back into the composer; what came after it is left out of the thread.",
            hint="Enter edits it and goes on from there · Esc stays here",
        )
        self.empty = "nothing was said yet"

    def lines(self, width: int, height: int) -> list[Line]:
        preview = self._preview(width, height)
        return [*super().lines(width, height - len(preview)), *preview]

    def _preview(self, width: int, height: int) -> list[Line]:
        """The highlighted message, where there is more of it than its row shows and room to show it."""
        row = self.highlighted
        most = min(_PREVIEW_ROWS, height // 3)
        if row is None or most < 3 or "\n" not in row.value.text.strip():
            return []
        text = row.value.text.strip()[: 4 * width * most]
        made = words(safe(text), width, "dim", indent=2)
        if len(made) > most - 1:
            more = counted(row.value.text.strip().count("\n") + 1, "line")
            made = [*made[: most - 2], line(Span(cut(f"  … {more} in all", width), "dim"))]
        return [BLANK, *made]


def _first_words(text: str) -> str:
    return cut(" ".join(text[: 4 * _NAME_CHARS].split()), _NAME_CHARS) or "(no words)"


def _when(turns_back: int) -> str:
    return "the last one" if turns_back == 1 else f"{turns_back - 1} before the last"
