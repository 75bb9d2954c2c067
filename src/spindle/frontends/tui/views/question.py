"""Questions that the model puts to the person (`request_user_input`), one after another.

reply = await desk.ask(QuestionView(msg))
desk.submit(reply.op)          # the answers, or an interrupt
desk.say(*reply.record)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from spindle.frontends.fit import cut
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.text.clean import safe
from spindle.frontends.tui.view import View
from spindle.frontends.tui.views.field import Field
from spindle.frontends.tui.views.list import ListView, Row
from spindle.frontends.tui.views.rows import words
from spindle.protocol.ops import Interrupt, Op, UserInputAnswer
from spindle.protocol.questions import RequestUserInput

NONE_OF_THEM = "None of the above"
NOTE = "user_note: "
_HIDDEN = "••••"


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the questions."""

    op: Op
    record: list[Line]
    """The questions with their answers, for the scrollback."""


class Options(ListView[int]):
    """The answers that are offered; `then` is told which one was chosen."""

    def __init__(self, title: str, rows: list[Row[int]], note: str, then: Callable[[int], None]) -> None:
        super().__init__(title, rows, note=note, hint=" ")
        self._then = then

    def choose(self, value: int) -> None:
        self._then(value)


class Page:
    """One question: the answers to choose from, if any, and room for words of one's own."""

    def __init__(self, asked: dict[str, Any], place: str, then: Callable[[], None]) -> None:
        self.id = str(asked.get("id") or "")
        self.question = str(asked.get("question") or asked.get("header") or "")
        self.is_secret = asked.get("isSecret") is True
        self.labels = [str(each.get("label") or "") for each in asked.get("options") or [] if isinstance(each, dict)]
        self.notes = Field(is_secret=self.is_secret)
        self.is_writing = not self.labels
        self.chosen: int | None = None
        self.is_answered = False
        self._then = then
        abouts = [str(each.get("description") or "") for each in asked.get("options") or [] if isinstance(each, dict)]
        rows = [Row(value=at, name=label, about=abouts[at]) for at, label in enumerate(self.labels)]
        if self.labels and asked.get("isOther", True):
            self.labels.append(NONE_OF_THEM)
            rows.append(Row(value=len(rows), name=NONE_OF_THEM, about="say what instead"))
        header = str(asked.get("header") or "")
        self.options = Options(self.question, rows, " · ".join(filter(None, (place, header))), self._choose)

    def _choose(self, number: int) -> None:
        self.chosen = number
        if self.labels[number] == NONE_OF_THEM and not self.notes.text:
            self.is_writing = True
            return
        self._done()

    def _done(self) -> None:
        self.is_answered = True
        self.is_writing = not self.labels
        self._then()

    def key(self, key: Key) -> None:
        if not self.is_writing:
            if key.name == "tab":
                self.is_writing = True
            else:
                self.options.key(key)
        elif key.name == "enter":
            if self.labels and self.chosen is None:
                row = self.options.highlighted
                self.chosen = row.value if row is not None else None
            if self.labels or self.notes.text.strip():
                self._done()
        elif key.name in ("tab", "shift-tab", "up", "down") and self.labels:
            self.is_writing, self.chosen = False, None
        else:
            self.notes.key(key)

    def paste(self, text: str) -> None:
        """Words of one's own are a note where one is being written, else an answer beside those that are offered."""
        if not self.is_writing:
            self.is_writing = True
            self.chosen = self.labels.index(NONE_OF_THEM) if NONE_OF_THEM in self.labels else None
        self.notes.paste(text)

    def leaves_field(self) -> bool:
        """Esc in the field goes back to the answers. False when there is nothing to go back to."""
        if not (self.is_writing and self.labels):
            return False
        self.is_writing, self.chosen = False, None
        return True

    def answers(self) -> list[str]:
        said = [self.labels[self.chosen]] if self.chosen is not None else []
        note = self.notes.text.strip()
        return [*said, NOTE + note] if note else said

    def record(self) -> str:
        """The answer as it may stand on the screen."""
        said = [self.labels[self.chosen]] if self.chosen is not None else []
        if note := self.notes.text.strip():
            said.append(_HIDDEN if self.is_secret else note)
        return safe(": ".join(said)) or "no answer"


class QuestionView(View[Reply]):
    guards_typing = True

    def __init__(self, msg: RequestUserInput) -> None:
        super().__init__()
        self._call_id = msg.call_id
        count = len(msg.questions)
        self._pages = [
            Page(asked, f"Question {number} of {count}", self._go_on) for number, asked in enumerate(msg.questions, 1)
        ]
        self._at = 0
        self._cursor: tuple[int, int] | None = None
        if not self._pages:
            self._finish()

    @property
    def _page(self) -> Page:
        return self._pages[self._at]

    @property
    def is_secret(self) -> bool:
        return self._page.is_secret

    # ---- keys ----------------------------------------------------------------------------------

    def key(self, key: Key) -> None:
        page = self._page
        if key.name in ("esc", "ctrl-c"):
            if key.name == "ctrl-c" or not page.leaves_field():
                record = line(Span("✗ ", "error"), "no answer; the turn is interrupted")
                self.settle(Reply(op=Interrupt(), record=[record]))
        elif key.name in ("left", "ctrl-left", "right", "ctrl-right") and (
            not page.is_writing or key.name.startswith("ctrl-")
        ):
            step = -1 if key.name.endswith("left") else 1
            self._at = max(0, min(len(self._pages) - 1, self._at + step))
        else:
            page.key(key)

    @property
    def takes_words(self) -> bool:
        return True

    def paste(self, text: str) -> None:
        self._page.paste(text)

    def _go_on(self) -> None:
        """The next question without an answer, looking on from this one; after the last, all is sent."""
        count = len(self._pages)
        order = [(self._at + step) % count for step in range(1, count + 1)]
        following = [place for place in order if not self._pages[place].is_answered]
        if following:
            self._at = following[0]
        else:
            self._finish()

    def _finish(self) -> None:
        response = {"answers": {page.id: {"answers": page.answers()} for page in self._pages}}
        record: list[Line] = []
        for page in self._pages:
            record.append(line(Span("? ", "accent"), safe(page.question).replace("\n", " "), hang="  "))
            record.append(line(Span("  ✔ ", "ok"), page.record().replace("\n", " "), hang="    "))
        self.settle(Reply(op=UserInputAnswer(id=self._call_id, response=response), record=record))

    # ---- what is seen --------------------------------------------------------------------------

    def lines(self, width: int, height: int) -> list[Line]:
        width, height = max(8, width), max(2, height)
        page = self._page
        field = self._field(page, width)
        dropped = max(0, len(field) - max(1, height // 2))
        field = field[dropped:]
        hint = self._hint(page, width)
        room = height - len(field)
        if page.labels:
            made = page.options.lines(width, room)
            made = made[:-2] if made[-2:-1] == [BLANK] else made  # its own hint has no words
        else:
            head = words(safe(page.question), width, "bold")
            note = words(page.options.note, width, "dim")
            made = [*head, *note][-max(1, room) :]
        if len(made) + len(field) + len(hint) <= height:
            field += hint
        self._cursor = None
        if page.is_writing:
            row, column = page.notes.cursor()
            self._cursor = max(0, len(made) + 1 + row - dropped), column
        return [*made, *field]

    def cursor(self) -> tuple[int, int] | None:
        return self._cursor

    def _field(self, page: Page, width: int) -> list[Line]:
        """One row above the field, and its text."""
        if not page.is_writing and not page.notes.text:
            return []
        return [line(Span("Notes:", "dim")) if page.labels else BLANK, *page.notes.lines(width)]

    def _hint(self, page: Page, width: int) -> list[Line]:
        others = " · ←→ other questions" if len(self._pages) > 1 and not page.is_writing else ""
        if page.is_writing:
            said = "Enter answers · Esc back to the answers" if page.labels else "Enter answers · Esc stops the turn"
        else:
            said = f"Enter or a number answers · Tab adds a note{others} · Esc stops the turn"
        return [BLANK, line(Span(cut(said, width), "dim"))]
