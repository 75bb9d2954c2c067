"""The checklist that the model keeps of its work."""

from __future__ import annotations

from spindle.frontends.tui.cells.cell import Look, Running, one_line
from spindle.frontends.tui.shown import Line, Span, line
from spindle.frontends.tui.text.clean import safe

_SIGNS = {
    "completed": (Span("✔", "ok"), "done", "dim"),
    "in_progress": (Span("▶", "running"), "running", "bold"),
    "pending": (Span("□"), "open", ""),
}


class Checklist(Running):
    """A plan. It stands in the live area and is updated in place; the next words of the model, or the end of the turn,
    find it in the scrollback as it is then."""

    __slots__ = ("explanation", "steps")

    def __init__(self, plan: list[dict[str, str]], explanation: str | None) -> None:
        self.steps = [(str(step.get("status")), str(step.get("step", ""))) for step in plan]
        self.explanation = explanation or ""

    @property
    def progress(self) -> str:
        """`2/5`: how many steps are done."""
        return f"{sum(status == 'completed' for status, _ in self.steps)}/{len(self.steps)}"

    def live(self, look: Look, now_s: float) -> list[Line]:
        return self.lines(look)

    def lines(self, look: Look) -> list[Line]:
        shown = [look.title(Span("•", "accent"), "Plan", f"({self.progress} done)")]
        for row in safe(self.explanation).strip().split("\n") if self.explanation.strip() else ():
            shown.append(line("  ", Span(row, "italic"), hang="  "))
        for status, step in self.steps:
            sign, word, style = _SIGNS.get(status, _SIGNS["pending"])
            begin = Span(f"[{word}]") if look.words else sign
            shown.append(line("  ", begin, " ", Span(one_line(step), style), hang="    "))
        return shown
