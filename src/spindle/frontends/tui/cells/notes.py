"""Cells of a line or two: errors, warnings, the end of a turn, answers of the person, and what else is worth a line."""

from __future__ import annotations

from typing import Any

from spindle.errors import ErrorInfo, kind_of, may_pass
from spindle.frontends.fit import counted
from spindle.frontends.tui.cells.cell import UNFOLDED_LINE, Cell, Look, kept, one_line, seconds_words, short
from spindle.frontends.tui.shown import Line, Span, line
from spindle.frontends.tui.text.clean import safe
from spindle.protocol.events import CacheMissed, ContextCompacted, ContextEdited, Msg
from spindle.protocol.request import TokenUsage

_LONGEST_NOTE = 4000
LARGE_MISS = 20_000
"""A cache miss is worth a line from this many tokens on that had to be paid again."""
_NEXT_STEPS = {
    "context_window_exceeded": "/compact makes the thread shorter, /new begins another.",
    "usage_limit_exceeded": "/model chooses another model, /login another account or key.",
    "unauthorized": "/login signs in, or takes another key.",
}
"""What can be done in this interface; the message itself says what can be done elsewhere."""
_TRY_AGAIN = "Up and Enter send the message again."
_CUT_SHORT = {
    "reason: max_output_tokens": "The answer has reached the longest that it may be: say “go on” for the rest.",
    "reason: content_filter": "The provider's filter has stopped the answer: ask in other words, or of another /model.",
}
"""Why a server ends an answer early, and what helps then."""


class Note(Cell):
    """Words of ours behind a sign."""

    __slots__ = ("is_shown", "kind", "sign", "style", "text", "word")

    def __init__(
        self, text: str, *, sign: str = "•", word: str = "Note", style: str = "", is_shown: bool = True
    ) -> None:
        self.text = text
        self.sign = sign
        self.word = word
        self.style = style
        self.kind = word  # pyright: ignore[reportIncompatibleVariableOverride]
        self.is_shown = is_shown  # pyright: ignore[reportIncompatibleVariableOverride]

    def lines(self, look: Look) -> list[Line]:
        text = kept(self.text, UNFOLDED_LINE if look.is_whole else _LONGEST_NOTE)
        rows = [line(Span(row, "" if self.style in ("ok", "error") else self.style)) for row in _rows(text)]
        return look.block(Span(self.sign, self.style or "dim"), self.word, rows)


class Printed(Cell):
    """Lines that a part of the interface made itself."""

    __slots__ = ("_lines",)

    def __init__(self, lines: list[Line]) -> None:
        self._lines = lines

    def lines(self, look: Look) -> list[Line]:
        return self._lines


def _rows(text: str) -> list[str]:
    return safe(text).strip("\n").split("\n")


def error(message: str, info: ErrorInfo | None = None) -> Note:
    """What failed and what to do about it."""
    cut_short = next((step for reason, step in _CUT_SHORT.items() if message.endswith(reason)), "")
    step = cut_short or _NEXT_STEPS.get(kind_of(info)) or (_TRY_AGAIN if may_pass(info) else "")
    is_said = not step or step.split()[0] in message
    return Note(message if is_said else f"{message.rstrip()}\n{step}", sign="■", word="Error", style="error")


def warning(message: str) -> Note:
    return Note(message, sign="⚠", word="Warning", style="warning")


def interrupted(reason: str) -> Note:
    said = "Turn interrupted. Say what to do instead." if reason == "interrupted" else f"Turn ended: {reason}."
    return Note(said, sign="■", word="Interrupted", style="warning")


class TurnEnd(Cell):
    """How long a turn took and what it cost."""

    __slots__ = ("cost", "duration_s", "usage")

    def __init__(self, duration_s: float | None, usage: TokenUsage | None, cost: float | None) -> None:
        self.duration_s = duration_s
        self.usage = usage
        self.cost = cost

    def lines(self, look: Look) -> list[Line]:
        parts = [] if self.duration_s is None else [f"Worked for {seconds_words(self.duration_s)}"]
        if self.usage is not None and self.usage.total_tokens:
            parts.append(tokens_words(self.usage))
        if self.cost is not None:
            parts.append(money(self.cost))
        while len(parts) > 1 and not look.words and 2 + len(" · ".join(parts)) > look.width:
            parts.pop()  # it is one row: in a small window the rows are for the answer
        text = " · ".join(parts)
        return [line(Span(f"Turn: {text}" if look.words else f"  {text}", "dim"), hang="  ")] if parts else []


def tokens_words(usage: TokenUsage) -> str:
    """`1,234 fresh + 10,000 cached tokens in, 321 out`."""
    cached = min(usage.cached_input_tokens, usage.input_tokens)
    fresh = usage.input_tokens - cached
    return f"{fresh:,} fresh + {cached:,} cached tokens in, {usage.output_tokens:,} out"


def money(dollars: float) -> str:
    if 0 < dollars < 0.0001:
        return "under $0.0001"
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.4f}".rstrip("0").rstrip(".") if dollars else "$0"


def compacted(msg: ContextCompacted) -> Note:
    numbers = f": {msg.tokens_before:,} → {msg.tokens_after:,} tokens" if msg.tokens_before else ""
    return Note(f"Context compacted{numbers}", word="Context", style="")


def review(msg: Msg) -> Note:
    """A review begins or is over; its report follows as an answer."""
    from spindle.protocol.review import EnteredReviewMode, ExitedReviewMode  # loaded: one of them has just come

    match msg:
        case EnteredReviewMode(user_facing_hint=hint):
            return Note(f"Review begins: {one_line(hint)}", word="Review")
        case ExitedReviewMode(review_output=None):
            return Note("The review was cut short", word="Review", style="warning")
        case _:
            return Note("The review is done", word="Review")


def edited(msg: ContextEdited) -> Note:
    outputs = counted(msg.cleared_tool_uses, "old output")
    numbers = f"{msg.tokens_before:,} → {msg.tokens_after:,} tokens"
    return Note(f"Context edited: {outputs} cleared, {numbers}", word="Context", style="dim")


def cache_missed(msg: CacheMissed) -> Note:
    said = f"Cache miss: {msg.lost_tokens:,} tokens were paid again ({short(msg.cause)})"
    return Note(said, word="Cache", style="dim", is_shown=msg.lost_tokens >= LARGE_MISS)


def call_failed(msg: Any) -> Note:
    """A call of a tool came to nothing; the model was told why, and tries another way."""
    first, *others = kept(msg.message.strip(), _LONGEST_NOTE).split("\n")
    return Note("\n".join([f"{one_line(msg.tool)} failed: {first}", *others]), sign="✗", word="Failed", style="dim")


def hook(run: dict[str, Any]) -> Note:
    """That a hook ran and what it said to the person. One that had nothing to say is in the transcript only."""
    name = "".join(part.capitalize() for part in str(run.get("event_name") or "").split("_"))
    status = str(run.get("status") or "")
    entries = [each for each in run.get("entries") or () if isinstance(each, dict)]
    texts = [str(each.get("text") or "") for each in entries if each.get("kind") != "context"]
    said = short(" · ".join(texts), 400)
    style = {"completed": "dim", "failed": "warning"}.get(status, "error")
    text = f"Hook {name} {status}" + (f": {said}" if said else "")
    is_quiet = status == "completed" and not said
    return Note(text, sign="•" if status == "completed" else "⚠", word="Hook", style=style, is_shown=not is_quiet)


ANSWERS = {
    "approved": "approved once",
    "approved_for_session": "approved for this session",
    "approved_execpolicy_amendment": "approved for all commands that begin so",
    "denied": "refused",
    "abort": "refused, and the turn stopped",
    "accept": "approved once",
    "accept_for_session": "approved for this session",
    "decline": "refused",
    "cancel": "refused, and the turn stopped",
}


def answer(decision: str, what: str, undone: str = "not run") -> Note:
    """What the person said to a request of the model: one line."""
    words = ANSWERS.get(decision, decision.replace("_", " "))
    is_yes = words.startswith("approved")
    text = f"{words}: {one_line(what)}" + ("" if is_yes else f" ({undone})")
    return Note(text, sign="✔" if is_yes else "✗", word="Answer", style="ok" if is_yes else "error")


class Question(Cell):
    """A question of the model, and what the person answered; looks as the view of questions records it."""

    __slots__ = ("answers", "question")

    def __init__(self, question: str, answers: list[str]) -> None:
        self.question = question
        self.answers = answers

    def lines(self, look: Look) -> list[Line]:
        said = ": ".join(one_line(each.removeprefix("user_note: ")) for each in self.answers if each.strip())
        head = look.head(Span("?", "accent"), "Question", one_line(self.question))
        return [head, line("  ", Span("✔", "ok"), " ", said or "no answer", hang="    ")]
