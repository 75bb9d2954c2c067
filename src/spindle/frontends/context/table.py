"""The report as text: a line a request, what the newest one was made of, and why the cache missed."""

from __future__ import annotations

from collections.abc import Iterator

from spindle.context.account import SOURCES
from spindle.core.inspection import Inspection
from spindle.core.report import ContextReport, RequestReport
from spindle.frontends.context.wording import (
    break_words,
    cause_words,
    ledger_words,
    note_on,
    shown_text,
    source_words,
    summary_words,
    time_of,
)
from spindle.frontends.transcript import printable
from spindle.protocol.quote import visible

_BAR = 24
_HEAD = "  #  turn  time      items   new      input  cached   output  context  window  cache"


def overview(found: Inspection, name: str | None = None) -> Iterator[str]:
    """All lines about a thread."""
    report = found.report
    yield f"{visible(name)} ({report.thread_id})" if name else f"thread {report.thread_id}"
    models = dict.fromkeys(request.model for request in report.requests if request.model)
    yield " · ".join(visible(part) for part in (*models, report.cwd or "") if part)
    yield summary_words(report)
    yield from map(printable, report.notices)
    if not report.requests:
        yield "no request is recorded yet"
        return
    yield ""
    yield _HEAD
    yield from _breaks(report, 0)
    for request in report.requests:
        yield _row(request)
        yield from _breaks(report, request.number)
    yield ""
    yield from sources(report.requests[-1])
    yield from _causes(report)
    yield from _kept(report)


def one_request(found: Inspection, number: int) -> Iterator[str]:
    """Everything the model was shown by one request, in full."""
    items, costs = found.input_of(number), found.costs_of(number).items
    request = found.report.requests[number - 1]
    yield f"request {number} of thread {found.report.thread_id} · turn {request.turn} · {visible(request.model or '')}"
    yield ""
    yield _HEAD
    yield _row(request)
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


def sources(request: RequestReport) -> Iterator[str]:
    counted = f"; the server counted {request.usage.input_tokens:,}" if request.usage else ""
    yield f"request {request.number} by source ({request.estimated_input:,} tokens estimated{counted})"
    most = max(request.sources.values(), default=1)
    for source in SOURCES:
        if tokens := request.sources.get(source, 0):
            share = 100 * tokens / max(1, request.estimated_input)
            bar = "█" * max(1, round(_BAR * tokens / most))
            yield f"  {source_words(source):<12} {tokens:>9,}  {share:>3.0f} %  {bar}"


def _row(request: RequestReport) -> str:
    is_counted = request.usage is not None
    cached = f"{100 * request.cached_tokens / max(1, request.input_tokens):.0f} %" if is_counted else "?"
    window = "" if request.fill_percent is None else f"{request.fill_percent:.0f} %"
    given = f"{'' if is_counted else '~'}{request.input_tokens:,}"
    made = f"{request.usage.output_tokens:,}" if request.usage else "?"
    cells = (
        f"{request.number:>3}  {request.turn:>4}  {time_of(request.at):<8}  {request.items:>5}"
        f"  {request.items - request.shared_items:>4}  {given:>9}  {cached:>6}  {made:>7}"
        f"  {request.used:>7,}  {window:>6}  {note_on(request)}"
    )
    return cells.rstrip()


def _breaks(report: ContextReport, after: int) -> Iterator[str]:
    for broken in report.breaks:
        if broken.after_request == after:
            yield f"  ── {printable(break_words(broken))}"


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
