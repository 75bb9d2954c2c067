"""The report as text: a line a request, what the newest one was made of, and why the cache missed.

Nothing is wider than the terminal: numbers that are less asked for are left out of narrow tables, texts are cut.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from spindle.context.account import SOURCES
from spindle.frontends.context_words import (
    break_words,
    cause_words,
    deeds_words,
    ledger_words,
    money,
    note_on,
    shown_text,
    source_words,
    summary_words,
    title_of,
    turn_words,
)
from spindle.frontends.fit import cut
from spindle.frontends.plain_text import printable
from spindle.frontends.when import local_clock
from spindle.lookback.inspection import Inspection
from spindle.lookback.report import ContextReport, RequestReport
from spindle.protocol.quote import visible

_BAR = 24
_NARROWEST = 40
"""An id has to stay whole, to be copied."""
_LEAST_WORDS = 23
"""The least room for what a request did; a number that would take it away is left out."""
_COLUMNS = (
    # Name, width, and how soon the column goes when there is no room: the highest goes first.
    ("#", 4, 0),
    ("time", 8, 3),
    ("input", 9, 0),
    ("cached", 6, 1),
    ("output", 7, 4),
    ("cost", 8, 2),
    ("context", 9, 6),
    ("window", 6, 5),
)


def overview(found: Inspection, name: str | None = None, width: int = 100) -> Iterator[str]:
    """All lines about a thread, none wider than `width`."""
    report, width = found.report, max(_NARROWEST, width)
    yield from _overview(report, name, width)
    if report.requests:
        yield ""
        yield from (_fitted(line, width) for line in sources(report.requests[-1], max(4, width - 40)))
        yield from (_fitted(line, width) for line in (*_causes(report), *_kept(report)))


def _overview(report: ContextReport, name: str | None, width: int) -> Iterator[str]:
    yield _fitted(visible(title_of(report, name)), width)
    models = dict.fromkeys(request.model for request in report.requests if request.model)
    yield from _wrapped(" · ".join(visible(part) for part in (*models, report.cwd or "") if part), width)
    yield from _wrapped(f"thread {report.thread_id}", width)
    for line in (*summary_words(report), *map(printable, report.notices)):
        yield from _wrapped(line, width)
    if not report.requests:
        yield "no request is recorded yet"
        return
    columns = _columns(width)
    yield ""
    yield _head(columns)
    yield from _breaks(report, 0, width)
    for request in report.requests:
        yield from _turns(report, request.number, width)
        yield _fitted(_row(request, columns) + printable(deeds_words(request)).replace("\n", " "), width)
        if note := note_on(request):
            yield _fitted(f"      cache: {note}", width)
        yield from _breaks(report, request.number, width)
    yield from _turns(report, len(report.requests) + 1, width)


def one_request(found: Inspection, number: int) -> Iterator[str]:
    """Everything the model was shown by one request, in full."""
    items, costs = found.input_of(number), found.costs_of(number).items
    request = found.report.requests[number - 1]
    yield f"request {number} of thread {found.report.thread_id} · turn {request.turn} · {visible(request.model or '')}"
    columns = _columns(10_000)
    yield ""
    yield _head(columns)
    yield _row(request, columns) + printable(deeds_words(request)).replace("\n", " ")
    if note := note_on(request):
        yield f"      cache: {note}"
    yield ""
    yield from sources(request)
    if found.instructions:
        yield from ("", f"──── instructions · {request.sources.get('instructions', 0):,} tokens")
        yield printable(found.instructions)
    for item, cost in zip(items, costs, strict=True):
        label = cost.label if item.get("type") not in ("message", "reasoning") else str(item.get("role") or "")
        named = " · ".join(part for part in (source_words(cost.source), visible(label)) if part)
        yield from ("", f"──── {cost.index + 1} · {named} · {cost.tokens:,} tokens")
        yield printable(shown_text(item))


def sources(request: RequestReport, room: int = _BAR) -> Iterator[str]:
    counted = f"; the server counted {request.usage.input_tokens:,}" if request.usage else ""
    yield f"request {request.number} by source ({request.estimated_input:,} tokens estimated{counted})"
    most = max(request.sources.values(), default=1)
    for source in SOURCES:
        if tokens := request.sources.get(source, 0):
            share = 100 * tokens / max(1, request.estimated_input)
            bar = "█" * round(min(room, _BAR) * tokens / most) or "▏"
            yield f"  {source_words(source):<12} {tokens:>9,}  {share:>3.0f} %  {bar}"


# ---- one line after the other ------------------------------------------------------------------------


def _columns(width: int) -> list[str]:
    """The columns there is room for, beside some words on what was done."""
    chosen = sorted(_COLUMNS, key=lambda column: column[2])
    while len(chosen) > 1 and sum(column[1] + 2 for column in chosen) + _LEAST_WORDS > width:
        chosen.pop()
    return [column[0] for column in _COLUMNS if column in chosen]


def _head(columns: list[str]) -> str:
    widths = {name: size for name, size, _ in _COLUMNS}
    return "".join(f"{name:>{widths[name]}}  " for name in columns) + "what it did"


def _row(request: RequestReport, columns: list[str]) -> str:
    is_counted = request.usage is not None
    cells = {
        "#": f"{request.number}",
        "time": local_clock(request.at),
        "input": f"{'' if is_counted else '~'}{request.input_tokens:,}",
        "cached": f"{100 * request.cached_tokens / max(1, request.input_tokens):.0f} %" if is_counted else "?",
        "output": f"{request.usage.output_tokens:,}" if request.usage else "?",
        "cost": money(request.cost_usd),
        "context": f"{request.used:,}",
        "window": "" if request.fill_percent is None else f"{request.fill_percent:.0f} %",
    }
    return "".join(f"{cells[name]:>{size}}  " for name, size, _ in _COLUMNS if name in columns)


def _turns(report: ContextReport, first: int, width: int) -> Iterator[str]:
    for turn in report.turns:
        if turn.first_request == first:
            yield _fitted(f"── {printable(turn_words(turn, width))}", width)


def _breaks(report: ContextReport, after: int, width: int) -> Iterator[str]:
    for broken in report.breaks:
        if broken.after_request == after:
            yield from _wrapped(f"   · {printable(break_words(broken))}", width, "     ")


def _fitted(line: str, width: int) -> str:
    return cut(line.rstrip(), width)


def _wrapped(line: str, width: int, indent: str = "  ") -> list[str]:
    return textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _causes(report: ContextReport) -> Iterator[str]:
    if report.totals.lost_tokens:
        yield from ("", "tokens charged in full although they had been in the cache")
        for cause, tokens in sorted(report.totals.lost_tokens.items(), key=lambda pair: -pair[1]):
            yield f"  {cause_words(cause):<26} {tokens:>9,}"


def _kept(report: ContextReport) -> Iterator[str]:
    if report.pins:
        yield from ("", "pinned facts")
        for pin in report.pins:
            yield f"  {printable(' '.join(pin['text'].split()))} (by {pin['by']})"
    if words := ledger_words(report):
        yield from ("", f"work ledger: {words}")
