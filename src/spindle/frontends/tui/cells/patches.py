"""Patches: which files were changed, by how much, and the lines themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spindle.frontends.fit import counted
from spindle.frontends.tui.cells.cell import Cell, Look, below, folded
from spindle.frontends.tui.shown import Line, Span, line, plain
from spindle.frontends.tui.text.clean import safe_lines
from spindle.frontends.tui.text.diffs import file_change, heading, totals
from spindle.protocol.events import PatchApplyEnd

SHOWN_LINES = 200
"""How many lines of one patch stand in the scrollback; the transcript has all of them."""
FEWEST_LINES = 10
"""How many of each file at least."""
UNNUMBERED = "spindle_unnumbered"
"""A key of changes that come from the patch itself: where in the file the lines stood is not known."""


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
        shown, left = [], SHOWN_LINES
        if len(self.changes) != 1:
            shown.append(look.head(Span("•", "ok"), "Patch", *totals(self.changes).spans))
        for path, change in self.changes.items():
            title = heading(path, change, look.place)
            alone = look.head(Span("•", "ok"), "Patch", *title.spans)
            diff = _diff(path, change, None if look.is_whole else max(FEWEST_LINES, left))
            left -= len(diff)
            shown += [alone] if len(self.changes) == 1 else below([title], look)
            shown += [Line((Span("    "), *each.spans), (Span("    "), *each.hang), each.is_verbatim) for each in diff]
        return shown

    def _failed(self, look: Look) -> list[Line]:
        paths = ", ".join(map(look.place, self.changes))
        head = look.head(Span("✗", "error"), "Patch", Span("Patch failed", "bold error"), f": {paths}" if paths else "")
        reason = [line(Span(row)) for row in safe_lines(self.error.strip()) if row]
        return [head, *below(reason if look.is_whole else folded(reason), look)]


def _diff(path: str, change: dict[str, Any], most: int | None) -> list[Line]:
    """The lines of a change, and how many there are beyond the first ones."""
    key = "unified_diff" if change.get("unified_diff") else "content"
    text = str(change.get(key) or "")
    missing = 0 if most is None else text.count("\n") - most
    if missing > 1:
        change = {**change, key: "".join(text.splitlines(keepends=True)[:most])}
    lines = file_change(path, change)
    if change.get(UNNUMBERED):
        lines = [Line(each.spans[1:], each.hang, each.is_verbatim) for each in lines]
    if missing > 1:
        lines.append(line(Span(f"… +{counted(missing, 'line')} (Ctrl-T shows all)", "dim")))
    return lines


def patch_title(changes: Mapping[str, Any], look: Look) -> str:
    """A patch in a few words, for one line: `Edited a.py (+1 -1), Added b.py (+3 -0)`."""
    known = [(path, change) for path, change in changes.items() if isinstance(change, Mapping)]
    return ", ".join(plain(heading(path, change, look.place)) for path, change in known)
