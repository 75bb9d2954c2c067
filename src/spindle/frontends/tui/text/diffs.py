"""Changes of files as lines: what a patch does to each file, and diffs as git prints them.

A change is an object of the events `patch_apply_begin` and its like: `{"type": "add" | "delete" | "update"}` with
`content` or `unified_diff`, and `move_path` for a file that gets another name. Whatever else it may hold is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from spindle.frontends.fit import counted
from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text.clean import name, safe
from spindle.frontends.tui.text.highlight import Highlighter, language_of
from spindle.frontends.tui.text.layout import expanded

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_STYLES = {"+": "added", "-": "removed"}
_VERBS = {"add": "Added", "delete": "Deleted", "update": "Edited"}
_TAB = 4
_NO_NEWLINE = "\\"


class Counts(NamedTuple):
    added: int
    removed: int

    def spans(self) -> tuple[Span, ...]:
        """`(+3 -1)`"""
        return Span("("), Span(f"+{self.added}", "added"), Span(" "), Span(f"-{self.removed}", "removed"), Span(")")


class _Row(NamedTuple):
    """A line of a diff: `+`, `-`, a blank, `@` between hunks or `\\` for a remark, and its number in the file."""

    sign: str
    number: int
    text: str


def counts(change: Mapping[str, Any]) -> Counts:
    """How many lines a change adds and removes."""
    signs = [row.sign for row in _rows(change)]
    return Counts(signs.count("+"), signs.count("-"))


def heading(path: str, change: Mapping[str, Any], place: Callable[[str], str] | None = None) -> Line:
    """`Edited src/a.py (+3 -1)`; `place` says how a path is called here, for instance within the working folder."""
    called = place or str
    target = change.get("move_path")
    kind = str(change.get("type"))
    verb = "Renamed" if target else _VERBS.get(kind, "Changed")
    moved = (Span(" → "), Span(name(called(str(target))), "bold")) if target else ()
    return Line(
        (Span(f"{verb} "), Span(name(called(path)), "bold"), *moved, Span(" "), *counts(change).spans()), (Span("  "),)
    )


def file_changes(changes: Mapping[str, Any], place: Callable[[str], str] | None = None) -> list[Line]:
    """All files of a patch, with the totals above when there are several."""
    known = {path: change for path, change in changes.items() if isinstance(change, Mapping)}
    lines = [totals(known)] if len(known) > 1 else []
    for path, change in known.items():
        lines += [heading(path, change, place), *file_change(path, change)]
    return lines


def totals(changes: Mapping[str, Any]) -> Line:
    """`Edited 3 files (+10 -2)`"""
    each = [counts(change) for change in changes.values() if isinstance(change, Mapping)]
    total = Counts(sum(one.added for one in each), sum(one.removed for one in each))
    kinds = {change.get("type") for change in changes.values() if isinstance(change, Mapping)}
    verb = _VERBS.get(str(next(iter(kinds))), "Changed") if len(kinds) == 1 else "Changed"
    return Line((Span(f"{verb} {counted(len(each), 'file')} "), *total.spans()))


def file_change(path: str, change: Mapping[str, Any]) -> list[Line]:
    """The lines of one file, without the heading: number, sign, text. A new file has the colours of its language."""
    rows = list(_rows(change))
    width = len(str(max((row.number for row in rows), default=0)))
    is_whole = change.get("type") in ("add", "delete")
    highlighter = Highlighter(language_of(path)) if change.get("type") == "add" else None
    drop_returns = _all_end_with_return(row.text for row in rows if row.sign in "+- ")
    lines: list[Line] = []
    for row in rows:
        if row.sign == "@":
            lines.append(Line((Span(f"{'':>{width}} ⋮", "dim"),), (), True))
            continue
        if row.sign == _NO_NEWLINE:
            lines.append(Line((Span(f"{'':>{width}}   {safe(row.text.strip())}", "dim"),), (), True))
            continue
        style = _STYLES.get(row.sign, "")
        text = safe(row.text.removesuffix("\r") if drop_returns else row.text)
        shown = highlighter.line(text) if highlighter else expanded((Span(text, style),), _TAB)
        sign = Span(f" {row.sign} " if is_whole or row.sign != " " else "   ", style)
        lines.append(Line((Span(f"{row.number:>{width}}", "line-number"), sign, *shown), (), True))
    return lines


def unified(diff: str) -> list[Line]:
    """A diff as git prints it, in colour."""
    lines: list[Line] = []
    old = new = 0
    for line in _lines(diff):
        text = safe(line)
        hunk = _HUNK.match(line)
        if (old > 0 or new > 0) and line[:1] in ("+", "-", " ", ""):
            sign = line[:1] or " "
            old -= sign != "+"
            new -= sign != "-"
            lines.append(Line(expanded((Span(text, _STYLES.get(sign, "")),)), (), True))
        elif hunk is not None:
            old, new = _length(hunk[2]), _length(hunk[4])
            where, rest = text[: len(text) - len(safe(hunk[5]))], safe(hunk[5])
            lines.append(Line(tuple(span for span in (Span(where, "hunk"), Span(rest, "dim")) if span.text), (), True))
        elif line.startswith(_NO_NEWLINE):
            lines.append(Line((Span(text, "dim"),), (), True))
        else:
            # The names of the files are what the eye looks for; git's other remarks are not.
            is_name = line.startswith(("diff ", "--- ", "+++ "))
            lines.append(Line((Span(text, "bold" if is_name else "dim"),) if text else (), (), True))
    return lines


def unified_counts(diff: str) -> Counts:
    """How many lines a diff of git adds and removes."""
    signs = [line.spans[0].style for line in unified(diff) if line.spans]
    return Counts(signs.count("added"), signs.count("removed"))


def _rows(change: Mapping[str, Any]) -> Iterator[_Row]:
    kind = change.get("type")
    if kind in ("add", "delete"):
        sign = "+" if kind == "add" else "-"
        content = change.get("content")
        for number, text in enumerate(_lines(content if isinstance(content, str) else ""), 1):
            yield _Row(sign, number, text)
        return
    diff = change.get("unified_diff")
    yield from _hunk_rows(diff if isinstance(diff, str) else "")


def _hunk_rows(diff: str) -> Iterator[_Row]:
    """The lines of all hunks. A removed line has its number in the old file, others in the new one."""
    old = new = old_left = new_left = 0
    is_first = True
    for line in _lines(diff):
        sign = line[:1] or " "
        if (old_left > 0 or new_left > 0) and sign in "+- ":
            yield _Row(sign, old if sign == "-" else new, line[1:])
            if sign != "+":
                old, old_left = old + 1, old_left - 1
            if sign != "-":
                new, new_left = new + 1, new_left - 1
        elif (hunk := _HUNK.match(line)) is not None:
            old, new = int(hunk[1]), int(hunk[3])
            old_left, new_left = _length(hunk[2]), _length(hunk[4])
            if not is_first:
                yield _Row("@", 0, "")
            is_first = False
        elif sign == _NO_NEWLINE and not is_first:
            yield _Row(_NO_NEWLINE, 0, line[1:])


def _length(text: str | None) -> int:
    return 1 if text is None else int(text)


def _lines(text: str) -> list[str]:
    """Only a line feed ends a line."""
    return text.removesuffix("\n").split("\n") if text else []


def _all_end_with_return(texts: Iterable[str]) -> bool:
    """A file with the line ends of Windows; where they are mixed, each is shown."""
    return all(text.endswith("\r") for text in texts)
