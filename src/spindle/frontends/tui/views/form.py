"""Forms that MCP servers want filled in, field by field, and a last look before anything is sent.

op = await desk.ask(FormView(msg))
desk.submit(op)
"""

from __future__ import annotations

from typing import Any

from spindle.frontends.fit import cut
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.text.clean import name as one_line
from spindle.frontends.tui.text.clean import safe
from spindle.frontends.tui.view import View
from spindle.frontends.tui.views.field import Field
from spindle.frontends.tui.views.form_fields import Entry, entries
from spindle.frontends.tui.views.list import ListView, Row
from spindle.frontends.tui.views.rows import words
from spindle.protocol.ops import ResolveElicitation
from spindle.protocol.tool_servers import ElicitationRequest

_SEND, _CHANGE, _DECLINE = "accept", "change", "decline"
_LEAVE_EMPTY = object()


class _Choice(ListView[Any]):
    """A list inside the form: what was chosen goes to the form."""

    def __init__(self, title: str, rows: list[Row[Any]], note: str, form: FormView) -> None:
        super().__init__(title, rows, note=note, hint="Enter or a number · ← back · Esc cancels")
        self._form = form

    def choose(self, value: Any) -> None:
        self._form.chosen(value)


class FormView(View[ResolveElicitation]):
    """One form. Esc cancels it; the server is told so."""

    guards_typing = True

    def __init__(self, msg: ElicitationRequest) -> None:
        super().__init__()
        self._msg = msg
        self._entries = entries(msg.requested_schema or {})
        self._values: dict[str, Any] = {}
        self._at = 0
        """Which field is asked for; one more than there are = the last look."""
        self._field = Field()
        self._choice: _Choice | None = None
        self._marked: set[int] = set()
        """The options that are chosen, where several may be."""
        self._problem = ""
        self._cursor: tuple[int, int] | None = None
        self._open()

    @property
    def _entry(self) -> Entry | None:
        return self._entries[self._at] if self._at < len(self._entries) else None

    @property
    def is_secret(self) -> bool:
        return self._entry is not None and self._entry.is_secret

    # ---- one field after the other -------------------------------------------------------------

    def _open(self) -> None:
        """Show the field that is next, with what was entered before or what the server suggests."""
        self._problem = ""
        self._choice = None
        entry = self._entry
        if entry is None:
            self._choice = _Choice(
                "Send this?" if self._entries else self._asked(), self._last_rows(), self._summary(), self
            )
            return
        value = self._values.get(entry.name, entry.default)
        if entry.options:
            self._marked = set()
            if entry.takes_many and isinstance(value, list):
                self._marked = {number for number, each in enumerate(entry.options) if each.value in value}
            self._choice = _Choice(entry.title, self._option_rows(entry, value), self._place(entry), self)
        else:
            self._field = Field(entry.shown(value) if value is not None else "", is_secret=entry.is_secret)

    def _option_rows(self, entry: Entry, value: Any) -> list[Row[Any]]:
        rows: list[Row[Any]] = []
        for number, each in enumerate(entry.options):
            mark = ("[x] " if number in self._marked else "[ ] ") if entry.takes_many else ""
            rows.append(Row(value=number, name=mark + each.title, is_current=not mark and each.value == value))
        if not entry.is_required and not entry.takes_many:
            rows.append(Row(value=_LEAVE_EMPTY, name="(leave it empty)"))
        return rows

    def _last_rows(self) -> list[Row[Any]]:
        server = one_line(self._msg.server_name)
        rows: list[Row[Any]] = [Row(value=_SEND, name=f"Yes, send it to {server}" if self._entries else "Yes")]
        if self._entries:
            rows.append(Row(value=_CHANGE, name="Change something"))
        return [*rows, Row(value=_DECLINE, name="No, send nothing")]

    def chosen(self, value: Any) -> None:
        entry = self._entry
        if entry is None:
            if value == _CHANGE:
                self._at = 0
                self._open()
            else:
                self._answer(value)
        elif entry.takes_many:
            self._take_marked(entry)
        elif value is _LEAVE_EMPTY:
            self._values.pop(entry.name, None)
            self._next()
        else:
            self._values[entry.name] = entry.options[value].value
            self._next()

    def _take_marked(self, entry: Entry) -> None:
        made = [each.value for number, each in enumerate(entry.options) if number in self._marked]
        if (problem := entry.problem_with_count(len(made))) is not None:
            self._problem = problem
            return
        if made or entry.is_required:
            self._values[entry.name] = made
        else:
            self._values.pop(entry.name, None)
        self._next()

    def _take_text(self, entry: Entry) -> None:
        text = self._field.text if entry.kind == "string" else self._field.text.strip()
        if not text.strip():
            if entry.is_required:
                self._problem = "this is needed"
                return
            self._values.pop(entry.name, None)
            self._next()
            return
        value, problem = entry.read(text)
        if problem:
            self._problem = problem
            return
        self._values[entry.name] = value
        self._next()

    def _next(self) -> None:
        self._at += 1
        self._open()

    def _answer(self, decision: str) -> None:
        msg = self._msg
        content = dict(self._values) if decision == _SEND else None
        self.settle(
            ResolveElicitation(server_name=msg.server_name, request_id=msg.id, decision=decision, content=content)
        )

    # ---- keys ----------------------------------------------------------------------------------

    def key(self, key: Key) -> None:
        entry, choice = self._entry, self._choice
        self._problem = "" if key.name != "enter" else self._problem
        if key.name in ("esc", "ctrl-c"):
            self._answer("cancel")
        elif key.name in ("shift-tab", "ctrl-left") or (key.name == "left" and choice is not None):
            self._at = max(0, self._at - 1)
            self._open()
        elif choice is not None and entry is not None and entry.takes_many and self._marks(key.name, choice, entry):
            pass
        elif choice is not None:
            choice.key(key)
        elif entry is not None and key.name in ("enter", "tab"):
            self._take_text(entry)
        else:
            self._field.key(key)

    def _marks(self, name: str, choice: _Choice, entry: Entry) -> bool:
        """Space and digits mark an option, where several may be chosen."""
        row = choice.highlighted
        number = int(name) - 1 if name.isascii() and name.isdigit() else None
        if name == "space" and row is not None:
            number = row.value
        if number is None or not 0 <= number < len(entry.options):
            return False
        self._marked ^= {number}
        choice.replace(self._option_rows(entry, None))
        return True

    def choose_number(self, number: int) -> bool:
        return self._choice is not None and self._choice.choose_number(number)

    def paste(self, text: str) -> None:
        if self._choice is None:
            self._field.paste(text)

    # ---- what is seen --------------------------------------------------------------------------

    def _asked(self) -> str:
        return f"The MCP server {one_line(self._msg.server_name)} asks:"

    def _place(self, entry: Entry) -> str:
        needed = "needed" if entry.is_required else "may be left empty"
        several = " · Space marks, Enter goes on" if entry.takes_many else ""
        about = f"{entry.about}\n" if entry.about else ""
        return f"{about}{self._at + 1} of {len(self._entries)} · {needed}{several}"

    def _summary(self) -> str:
        if not self._entries:
            return self._msg.message
        return "\n".join(f"{entry.title}: {self._shown(entry)}" for entry in self._entries)

    def _shown(self, entry: Entry) -> str:
        if entry.name not in self._values:
            return "(empty)"
        return "••••" if entry.is_secret else entry.shown(self._values[entry.name])

    def lines(self, width: int, height: int) -> list[Line]:
        width, height = max(8, width), max(2, height)
        head = [*words(self._asked(), width, "bold"), *words(safe(self._msg.message), width)] if self._entries else []
        problem = words(f"■ {safe(self._problem)}", width, "error", hang=2) if self._problem else []
        head = [*head, BLANK] if head and len(head) < height // 3 else head[: height // 3]
        room = height - len(head) - len(problem)
        self._cursor = None
        if self._choice is not None:
            return [*head, *self._choice.lines(width, max(2, room)), *problem][:height]
        entry = self._entry
        assert entry is not None
        field = self._field.lines(width)
        title = [*words(safe(entry.title), width, "bold"), *words(safe(self._place(entry)), width, "dim")]
        title = title[: max(0, room - len(field))]
        made = [*head, *title, *field]
        row, column = self._field.cursor()
        self._cursor = len(head) + len(title) + row, column
        made += problem
        hint = [BLANK, line(Span(cut("Enter goes on · Shift-Tab back · Esc cancels", width), "dim"))]
        return [*made, *hint] if len(made) + 2 <= height else made[:height]

    def cursor(self) -> tuple[int, int] | None:
        return self._cursor
