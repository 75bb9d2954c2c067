"""Asking for permission: a command, a patch or a tool is shown in full, and the choices stay below it.

verdict = await desk.ask(ApprovalView(about(msg, cwd=folder, agent=name)))
desk.submit(verdict.op)
desk.say(verdict.record)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from spindle.frontends.fit import cells, cut
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import BLANK, Line, Span, line
from spindle.frontends.tui.text.clean import has_hidden
from spindle.frontends.tui.view import View
from spindle.frontends.tui.views.approval_text import INDENT, Matter, Offer, about
from spindle.frontends.tui.views.field import Field
from spindle.frontends.tui.views.reveal import revealed
from spindle.frontends.tui.views.rows import prose

__all__ = ["ApprovalView", "Verdict", "about"]

WHY_KEY, EDIT_KEY, ALL_KEY = "t", "e", "ctrl-a"
_RECORD_CELLS = 300
_FEWEST_ROWS = 3
_RECORDED = {
    "approved": "approved once",
    "approved_for_session": "approved for this session",
    "approved_execpolicy_amendment": "approved for good",
    "denied": "refused",
    "abort": "refused, turn stopped",
}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a person decided."""

    op: Any
    """The op that tells the session."""
    is_yes: bool
    stops_turn: bool = False
    """The session ends the turn by itself; the composer gets the keys, to say what to do instead."""
    draft: str | None = None
    """The command for the composer, to be edited and run as the person's own."""
    record: Line
    """`✔ approved once: …` or `✗ refused: …`."""


class ApprovalView(View[Verdict]):
    """One question about permission. `waiting` more stand behind it; whoever shows it keeps that number true."""

    guards_typing = True
    is_shown_whole = True
    key_contexts = ("approval", "list")

    def __init__(self, matter: Matter, *, show_all: Callable[[str, list[Line]], None] | None = None) -> None:
        super().__init__()
        self.matter = matter
        self.waiting = 0
        self._show_all = show_all
        """Shows the whole text on a screen of its own."""
        self._choices = _choices(matter)
        self._safest = next(
            (at for at, choice in enumerate(self._choices) if choice.word == "denied"), len(self._choices) - 1
        )
        self._at = self._safest if matter.warnings else 0
        self._was_moved = False
        self._offset = 0
        self._page = 1
        self._why: Field | None = None
        """What the model is told with a no, while it is being written."""
        self._laid_out: tuple[int, list[Line]] = (0, [])
        self._cursor: tuple[int, int] | None = None

    # ---- keys ----------------------------------------------------------------------------------

    def key(self, key: Key) -> None:
        if self._why is not None:
            self._write_why(key)
            return
        match key.name:
            case "esc" | "ctrl-c":
                self._refuse_and_stop()
            case "enter":
                self._take(self._choices[self._at])
            case "up" | "k" | "ctrl-p" | "shift-tab":
                self._go(-1)
            case "down" | "j" | "ctrl-n" | "tab":
                self._go(1)
            case "pgdn" | "ctrl-d" | "space":
                self._offset += self._page
            case "pgup" | "ctrl-u":
                self._offset = max(0, self._offset - self._page)
            case "home":
                self._offset = 0
            case "end":
                self._offset = 1 << 30
            case "ctrl-a":
                if self._show_all is not None:
                    self._show_all(self.matter.question, self._text(self._laid_out[0] or 100))
            case name:
                self._letter(name)

    def _letter(self, name: str) -> None:
        if name.isascii() and name.isdigit():
            if 1 <= int(name) <= len(self._choices):
                self._take(self._choices[int(name) - 1])
            return
        chosen = next((choice for choice in self._choices if choice.key == name.lower()), None)
        if chosen is not None:
            self._take(chosen)

    def _go(self, step: int) -> None:
        self._at = (self._at + step) % len(self._choices)
        self._was_moved = True

    def _take(self, choice: Offer) -> None:
        match choice.word:
            case "why":
                self._why = Field()
            case "edit":
                self._settle(self._stopping(), draft="!" + self.matter.command)
            case _:
                self._settle(choice.decision)

    def _refuse_and_stop(self) -> None:
        self._settle(self._stopping())

    def _stopping(self) -> Any:
        """The strongest no that the session takes."""
        words = [choice.word for choice in self._choices]
        return "abort" if "abort" in words or "denied" not in words else "denied"

    def _write_why(self, key: Key) -> None:
        assert self._why is not None
        if key.name in ("esc", "ctrl-c"):
            self._why = None
        elif key.name == "enter":
            said = self._why.text.strip()
            self._settle({"denied": {"reason": said}} if said else "denied", said=said)
        else:
            self._why.key(key)

    def paste(self, text: str) -> None:
        if self._why is not None:
            self._why.paste(text)

    def _settle(self, decision: Any, *, said: str = "", draft: str | None = None) -> None:
        word = next(iter(decision)) if isinstance(decision, dict) else decision
        is_yes = word.startswith("approved")
        title = cut(" ⏎ ".join(self.matter.title.strip("\n").split("\n")), _RECORD_CELLS)
        what = [span for spans in revealed(title) for span in spans]
        mark = Span("✔ ", "ok") if is_yes else Span("✗ ", "error")
        why = [Span(" (you said: "), *(span for spans in revealed(said) for span in spans), Span(")")] if said else []
        record = line(mark, Span(f"{_RECORDED.get(word, word)}: "), *what, *why, hang=INDENT)
        self.settle(
            Verdict(
                op=self.matter.answer(decision),
                is_yes=is_yes,
                stops_turn=word == "abort",
                draft=draft,
                record=record,
            )
        )

    # ---- what is seen --------------------------------------------------------------------------

    def lines(self, width: int, height: int) -> list[Line]:
        width, height = max(8, width), max(2, height)
        head = self._head(width)
        text = self._text(width)
        tail = self._tail(width)
        hint = self._hint(width)
        if len(head) + len(text) + 2 + len(tail) + len(hint) > height:
            hint = []
        room = height - len(head) - len(tail) - len(hint)
        if len(text) + 2 <= room:
            self._offset = 0
            return self._placed([*head, BLANK, *text, BLANK], tail, hint)
        if not self._was_moved and not self._offset:
            self._at = self._safest  # not all of it is seen: a blind Enter must not run it
        head = head if height > 8 else head[:1] if height > 3 else []
        text = [*text, *self._coverage(width)]
        fewest = _FEWEST_ROWS  # of the text; where not even they leave room for all choices, half of the room
        if len(head) + fewest + len(self._most_wanted()) > height:
            fewest = max(1, height // 2 - len(head))
        tail = self._short_tail(width, max(1, height - len(head) - fewest))
        return self._placed([*head, *self._window(text, height - len(head) - len(tail), width)], tail, [])

    def cursor(self) -> tuple[int, int] | None:
        return self._cursor

    def _placed(self, above: list[Line], tail: list[Line], hint: list[Line]) -> list[Line]:
        self._cursor = None
        if self._why is not None:
            row, column = self._why.cursor()
            self._cursor = len(above) + len(tail) - self._why.rows + row, column
        return [*above, *tail, *hint]

    def _head(self, width: int) -> list[Line]:
        more = f"{self.waiting} more waiting" if self.waiting else ""
        spans = [Span(self.matter.question, "bold"), Span(f"  {more}" if more else "", "warning")]
        spans = [
            span
            for shown in spans
            for row in revealed(shown.text)
            for span in [Span(each.text, each.style or shown.style) for each in row]
        ]
        return prose(spans, width)

    def _text(self, width: int) -> list[Line]:
        """All that must be read, in rows; made once for a width."""
        if self._laid_out[0] != width:
            made = list(self.matter.subject(width))
            if self.matter.facts or self.matter.warnings:
                made.append(BLANK)
            for name, fact in self.matter.facts:
                spans = [Span(f"{INDENT}{name}: ", "dim")]
                for number, shown in enumerate(revealed(fact)):
                    spans += [Span(" ⏎ ", "dim"), *shown] if number else shown
                made += prose(spans, width, 4)
            for warning in self.matter.warnings:
                spans = [
                    Span(f"{INDENT}⚠ ", "warning"),
                    *(Span(s.text, s.style or "warning") for s in revealed(warning)[0]),
                ]
                made += prose(spans, width, 4)
            self._laid_out = width, made
        return self._laid_out[1]

    def _tail(self, width: int) -> list[Line]:
        if self._why is not None:
            return [
                line(Span(cut("Tell the model why (Enter sends it, Esc goes back):", width), "bold")),
                *self._why.lines(width),
            ]
        return [row for at in range(len(self._choices)) for row in self._choice(at, width)]

    def _choice(self, at: int, width: int, *, is_short: bool = False) -> list[Line]:
        choice, style = self._choices[at], "accent bold" if at == self._at else ""
        start = f"{'› ' if at == self._at else '  '}{at + 1}. {choice.name}"
        if is_short:
            return [line(Span(cut(start, width - 4), style), Span(f" ({choice.key})", style))]
        covers = [Span(span.text, span.style or style) for span in choice.covers]
        spans = [Span(start, style), Span(": ", style), *covers] if covers else [Span(start, style)]
        return prose([*spans, Span(f" ({choice.key})", style)], width, 5)

    def _short_tail(self, width: int, room: int) -> list[Line]:
        """The choices in a row each, where there is little room; else the highlighted one and the keys of all."""
        if self._why is not None:
            return self._tail(width)[-room:]
        for places in (range(len(self._choices)), self._most_wanted()):
            if len(places) <= room:
                return [row for at in places for row in self._choice(at, width, is_short=True)]
        keys = line(Span(cut("  keys: " + " ".join(choice.key for choice in self._choices), width), "dim"))
        return [*self._choice(self._at, width, is_short=True), *([keys] if room > 1 else [])]

    def _most_wanted(self) -> list[int]:
        """The choices that must be seen: editing the command can do without a row."""
        return [at for at, choice in enumerate(self._choices) if choice.word != "edit" or at == self._at]

    def _coverage(self, width: int) -> list[Line]:
        """What the choices cover, where their rows are too short to say it."""
        made: list[Line] = []
        for choice in self._choices:
            if choice.covers:
                made += prose([Span(f"{INDENT}({choice.key}) {choice.name}: ", "dim"), *choice.covers], width, 4)
        return made

    def _hint(self, width: int) -> list[Line]:
        if self._why is not None:
            return []
        said = "Esc: no, and stop" + (" · Ctrl-A: full screen" if self._show_all is not None else "")
        return [BLANK, line(Span(cut(said, width), "dim"))] if cells(said) <= width else []

    def _window(self, text: list[Line], room: int, width: int) -> list[Line]:
        """The part of the text that is scrolled to, and a row that says there is more."""
        seen = max(1, room - 1)
        self._page = max(1, seen - 1)
        self._offset = max(0, min(self._offset, len(text) - seen))
        last = min(len(text), self._offset + seen)
        said = f"── rows {self._offset + 1}–{last} of {len(text)} · PgUp/PgDn · Ctrl-A: all ──"
        return [*text[self._offset : last], *([line(Span(cut(said, width), "warning"))] if room > 1 else [])]


def _choices(matter: Matter) -> list[Offer]:
    """The answers that the session takes, and ours that lead to one of them."""
    made: list[Offer] = []
    for offer in matter.offers:
        made.append(offer)
        if offer.word == "denied":
            made.append(Offer(decision="why", key=WHY_KEY, name="No, and tell the model why"))
    if matter.command and not has_hidden(matter.command):
        made.append(Offer(decision="edit", key=EDIT_KEY, name="No, I edit it and run it myself"))
    return made
