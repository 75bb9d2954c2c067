"""Patches: which files were changed, by how much, and the lines themselves."""

from __future__ import annotations

from typing import Any

from spindle.frontends.fit import counted
from spindle.frontends.tui.cells.cell import Cell, Look, below, one_line
from spindle.frontends.tui.shown import Line, Span, line
from spindle.frontends.tui.text.clean import safe
from spindle.protocol.events import PatchApplyEnd

SHOWN_LINES = 200
"""How many lines of one patch stand in the scrollback; the transcript has all of them."""
_VERBS = {"add": "Added", "delete": "Deleted", "update": "Edited"}


class Patch(Cell):
    """A patch that was written, or failed."""

    __slots__ = ("changes", "error", "is_ok")

    def __init__(self, msg: PatchApplyEnd) -> None:
        self.changes = {str(path): change for path, change in msg.changes.items() if isinstance(change, dict)}
        self.is_ok = msg.success
        self.error = "" if msg.success else msg.stderr or msg.stdout

    def lines(self, look: Look) -> list[Line]:
        if not self.is_ok:
            return self._failed(look)
        titles = [self._title(path, change, look) for path, change in self.changes.items()]
        if len(titles) == 1:
            (path, change), head = next(iter(self.changes.items())), titles[0]
            return [look.head(Span("•", "ok"), "Patch", *head), *self._diff(path, change, look, SHOWN_LINES)]
        added, removed = map(sum, zip(*(self._counts(change) for change in self.changes.values()), strict=True))
        number = counted(len(titles), "file")
        total = look.head(Span("•", "ok"), "Patch", Span("Changed ", "bold"), f"{number} ", *_figures(added, removed))
        shown, left = [total], SHOWN_LINES
        for (path, change), head in zip(self.changes.items(), titles, strict=True):
            diff = self._diff(path, change, look, max(3, left))
            left -= len(diff)
            shown += [*below([Line(head)], look), *diff]
        return shown

    def _failed(self, look: Look) -> list[Line]:
        paths = ", ".join(map(look.place, self.changes))
        head = look.head(Span("✗", "error"), "Patch", Span("Patch failed", "bold error"), f": {paths}" if paths else "")
        return [head, *below([line(row) for row in safe(self.error.strip()).split("\n") if row], look)]

    def _title(self, path: str, change: dict[str, Any], look: Look) -> tuple[Span, ...]:
        verb, target = _VERBS.get(str(change.get("type")), "Changed"), change.get("move_path")
        name = look.place(path)
        if isinstance(target, str) and target and target != path:
            verb, name = "Renamed", f"{name} → {look.place(target)}"
        return (Span(f"{verb} ", "bold"), Span(f"{name} "), *_figures(*self._counts(change)))

    def _counts(self, change: dict[str, Any]) -> tuple[int, int]:
        from spindle.frontends.tui.text.diffs import counts  # with the first patch

        return counts(change)

    def _diff(self, path: str, change: dict[str, Any], look: Look, most: int) -> list[Line]:
        from spindle.frontends.tui.text.diffs import file_change  # with the first patch

        lines = file_change(path, change)
        missing = len(lines) - most
        if missing > 1 and not look.is_whole:
            lines = [*lines[:most], line(Span(f"… +{counted(missing, 'line')} (Ctrl-T shows them)", "dim"))]
        indent = Span("    ")
        return [Line((indent, *each.spans), (indent, *each.hang), each.is_verbatim) for each in lines]


def _figures(added: int, removed: int) -> tuple[Span, ...]:
    return (Span("("), Span(f"+{added}", "added"), Span(" "), Span(f"-{removed}", "removed"), Span(")"))


def patch_title(changes: dict[str, Any], look: Look) -> str:
    """A patch in a few words, for one line: `Edited a.py, Added b.py`."""
    names = [f"{_VERBS.get(str(change.get('type')), 'Changed')} {look.place(path)}" for path, change in changes.items()]
    return one_line(", ".join(names))
