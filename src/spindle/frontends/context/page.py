"""The report as one page: no script, nothing from a network, and a policy in it that forbids both."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Sequence

from spindle.context.account import SOURCES, breakdown
from spindle.core.inspection import Inspection
from spindle.core.report import ContextReport, RequestReport
from spindle.frontends.context.markup import Markup, join, tag
from spindle.frontends.context.plots import Mark, Plot, Series, amount, draw
from spindle.frontends.context.wording import (
    break_words,
    cause_words,
    counted,
    ledger_words,
    note_on,
    shown_text,
    source_words,
    time_of,
)
from spindle.protocol.items import Item
from spindle.protocol.quote import visible

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_MOST_TEXT = 6_000
_PAGE_TEXT = 4_000_000
"""How many characters of items the page holds about; beyond it each item is cut to its share."""
_LEAST_TEXT = 300


def render(found: Inspection, name: str | None = None, request: int | None = None) -> str:
    """The whole page; with `request` also everything that one request showed, uncut."""
    report = found.report
    title = f"Context of {visible(name) if name else f'thread {report.thread_id}'}"
    body = [
        _header(report, title),
        _facts(report),
        *(tag("p", notice, class_="notice") for notice in report.notices),
        _plots(report),
        _sources(found, request or len(report.requests)),
        _causes(report),
        _kept(found),
        _table(report),
        _one(found, request) if request is not None else None,
        _inputs(found),
    ]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", _style()),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *body), lang='en')}\n"


def _style() -> Markup:
    with open(f"{os.path.dirname(__file__)}/page.css", encoding="utf-8") as file:
        sheet = file.read()
    return Markup("\n" + sheet + "".join(f".s-{source}{{{_paint(source)}}}\n" for source in SOURCES))


def _paint(source: str) -> str:
    return f"fill:var(--s-{source});background:var(--s-{source})"


# ---- above: sums and plots ---------------------------------------------------------------------------


def _header(report: ContextReport, title: str) -> Markup:
    models = ", ".join(dict.fromkeys(request.model for request in report.requests if request.model))
    where = " · ".join(visible(part) for part in (models, report.cwd or "") if part)
    return tag(
        "header",
        tag("h1", title),
        tag("p", where, class_="dim"),
        tag("p", tag("code", visible(report.path)), class_="dim"),
    )


def _facts(report: ContextReport) -> Markup:
    totals, last = report.totals, report.requests[-1] if report.requests else None
    facts = [
        ("requests", f"{totals.requests:,}", ""),
        ("input", amount(totals.input_tokens), ""),
        ("from cache", f"{totals.hit_percent} %", ""),
        ("output", amount(totals.output_tokens), ""),
        ("compactions", totals.compactions, ""),
        ("edits", totals.edits, ""),
        ("lost to misses", amount(sum(totals.lost_tokens.values())), ""),
    ]
    if last is not None and last.fill_percent is not None:
        facts.append(("window in use", f"{last.fill_percent:.0f} %", ""))
    if totals.alarms:
        facts.append(("breaks nobody declared", totals.alarms, "bad"))
    return tag("dl", *(tag("div", tag("dt", a), tag("dd", b), class_=c or None) for a, b, c in facts), class_="facts")


def _plots(report: ContextReport) -> Markup:
    requests = report.requests
    if not requests:
        return tag("p", "No request is recorded in this thread yet.")
    marks = [Mark(broken.after_request, broken.kind, break_words(broken)) for broken in report.breaks]
    hints = [_hint(request) for request in requests]
    windows = [request.window for request in requests if request.window]
    window = windows[-1] if windows else None
    plots = [
        Plot(
            title="Requests",
            note="Tokens of each request and its answer, as the server counted them.",
            series=[
                Series("input from the cache", "cached", [request.cached_tokens for request in requests]),
                Series("other input", "fresh", [request.input_tokens - request.cached_tokens for request in requests]),
                Series("output", "made", [request.usage.output_tokens if request.usage else 0 for request in requests]),
            ],
            hints=hints,
            marks=marks,
        ),
        Plot(
            title="Prefix and cache",
            note="What of each input the provider knew already, and what it should have known.",
            series=[
                Series("from the cache", "cached", [_share(request, request.cached_tokens) for request in requests]),
                Series("lost", "lost", [_share(request, _lost(request)) for request in requests]),
                Series("new", "fresh", [_share(request, _unseen(request)) for request in requests]),
            ],
            line=Series("same beginning as the request before", "prefix", [_prefix(request) for request in requests]),
            hints=hints,
            marks=marks,
            is_percent=True,
        ),
        Plot(
            title="Window",
            note="Tokens in context after each answer." + (f" The window takes {window:,}." if window else ""),
            series=[Series("in use", "fill", [request.used for request in requests])],
            ceiling=(window, "the whole window") if window else None,
            hints=hints,
            marks=marks,
        ),
        Plot(
            title="Tokens by source",
            note="What each input was made of; estimated by size.",
            series=[
                Series(
                    source_words(source),
                    f"s-{source}",
                    [request.sources.get(source, 0) for request in requests],
                )
                for source in SOURCES
            ],
            hints=[_source_hint(request) for request in requests],
            marks=marks,
        ),
    ]
    return tag("section", *map(draw, plots), class_="plots")


def _hint(request: RequestReport) -> str:
    counts = "estimated" if request.usage is None else f"{request.cached_tokens:,} from the cache"
    said = [f"request {request.number}, turn {request.turn}: {request.input_tokens:,} tokens in ({counts})"]
    if request.usage is not None:
        said.append(f"{request.usage.output_tokens:,} out")
    fill = "" if request.fill_percent is None else f", {request.fill_percent:.0f} % of the window"
    said.append(f"{request.used:,} in context{fill}")
    if note := note_on(request):
        said.append(note)
    return "\n".join(said)


def _source_hint(request: RequestReport) -> str:
    parts = sorted(request.sources.items(), key=lambda part: -part[1])
    return "\n".join([f"request {request.number}", *(f"{source_words(name)}: {tokens:,}" for name, tokens in parts)])


def _share(request: RequestReport, tokens: int) -> float:
    return 0 if request.usage is None else 100 * tokens / max(1, request.input_tokens)


def _lost(request: RequestReport) -> int:
    return min(request.cache.lost_tokens, request.input_tokens - request.cached_tokens)


def _unseen(request: RequestReport) -> int:
    return request.input_tokens - request.cached_tokens - _lost(request)


def _prefix(request: RequestReport) -> float:
    return min(100.0, 100 * request.cache.prefix_tokens / max(1, request.estimated_input))


# ---- in the middle: sources, causes, what is kept ----------------------------------------------------


def _sources(found: Inspection, number: int) -> Markup | None:
    if not found.report.requests:
        return None
    request = found.report.requests[number - 1] if number <= len(found.report.requests) else found.report.requests[-1]
    most = max(request.sources.values(), default=1)
    whole = max(1, request.estimated_input)
    rows = [
        tag(
            "tr",
            tag("td", tag("i", class_=f"chip s-{source}"), source_words(source), class_="words"),
            tag("td", f"{tokens:,}"),
            tag("td", f"{100 * tokens / whole:.0f} %"),
            tag("td", _bar([(f"s-{source}", 100 * tokens / most)]), class_="share"),
        )
        for source in SOURCES
        if (tokens := request.sources.get(source, 0))
    ]
    said = f"{request.estimated_input:,} tokens by our estimate"
    if request.usage is not None:
        said += f"; the server counted {request.usage.input_tokens:,}"
    return tag(
        "section",
        tag("h2", f"What request {request.number} was made of"),
        tag("p", said, class_="dim"),
        tag("div", tag("table", *rows, class_="sources"), class_="wide"),
    )


def _bar(parts: Iterable[tuple[str, float]]) -> Markup:
    return tag("span", *(tag("i", class_=kind, style=f"width:{share:.1f}%") for kind, share in parts), class_="bar")


def _causes(report: ContextReport) -> Markup | None:
    if not report.totals.lost_tokens:
        return None
    rows = []
    for cause, tokens in sorted(report.totals.lost_tokens.items(), key=lambda pair: -pair[1]):
        where = [request for request in report.requests if request.cache.cause == cause and request.cache.lost_tokens]
        links = join(*(_link(request.number, comma=place > 0) for place, request in enumerate(where[:40])))
        more = f" and {len(where) - 40} more" if len(where) > 40 else None
        rows.append(
            tag(
                "tr",
                tag("td", cause_words(cause), class_="words"),
                tag("td", f"{tokens:,}"),
                tag("td", links, more, class_="words"),
            )
        )
    head = tag(
        "tr", tag("th", "cause", class_="words"), tag("th", "tokens lost"), tag("th", "requests", class_="words")
    )
    return tag(
        "section",
        tag("h2", "Why the cache missed"),
        tag("p", "What was charged in full although the provider had seen it before.", class_="dim"),
        tag("div", tag("table", head, *rows), class_="wide"),
    )


def _link(number: int, *, comma: bool) -> Markup:
    return join(", " if comma else None, tag("a", number, href=f"#r{number}"))


def _kept(found: Inspection) -> Markup | None:
    """Pins, and the ledger the harness keeps."""
    report, parts = found.report, []
    if report.pins:
        parts.append(tag("ul", *(tag("li", f"{pin['text']} (by {pin['by']})") for pin in report.pins)))
    if words := ledger_words(report):
        text = tag("pre", found.ledger_text) if found.ledger_text else None
        parts.append(tag("details", tag("summary", f"The work ledger: {words}"), text))
    if found.instructions:
        size = counted(len(found.instructions), "character")
        parts.append(tag("details", tag("summary", f"The base instructions: {size}"), tag("pre", found.instructions)))
    return tag("section", tag("h2", "What stays through every compaction"), *parts) if parts else None


# ---- below: request by request -----------------------------------------------------------------------


def _table(report: ContextReport) -> Markup | None:
    if not report.requests:
        return None
    named = ("turn", "time (UTC)", "items", "new", "input", "cached", "", "output", "in context", "window")
    head = tag("tr", tag("th", "request"), *(tag("th", name) for name in named), tag("th", "cache", class_="words"))
    rows: list[Markup] = _break_rows(report, 0)
    for request in report.requests:
        rows.append(_row(request))
        rows += _break_rows(report, request.number)
    return tag(
        "section", tag("h2", "Requests"), tag("div", tag("table", head, *rows, class_="requests"), class_="wide")
    )


def _break_rows(report: ContextReport, after: int) -> list[Markup]:
    broken = [broken for broken in report.breaks if broken.after_request == after]
    return [tag("tr", tag("td", break_words(each), colspan=12), class_=f"break {each.kind}") for each in broken]


def _row(request: RequestReport) -> Markup:
    is_counted = request.usage is not None
    parts = [("cached", _share(request, request.cached_tokens)), ("lost", _share(request, _lost(request)))]
    cells = (
        request.turn,
        time_of(request.at),
        request.items,
        request.items - request.shared_items,
        f"{'' if is_counted else '≈ '}{request.input_tokens:,}",
        f"{_share(request, request.cached_tokens):.0f} %" if is_counted else "?",
        _bar([*parts, ("fresh", _share(request, _unseen(request)))]),
        f"{request.usage.output_tokens:,}" if request.usage else "?",
        f"{request.used:,}",
        "" if request.fill_percent is None else f"{request.fill_percent:.0f} %",
    )
    link = tag("a", request.number, href=f"#r{request.number}")
    return tag("tr", tag("td", link), *(tag("td", cell) for cell in cells), tag("td", note_on(request), class_="words"))


def _inputs(found: Inspection) -> Markup | None:
    """What each request showed beyond the one before; so every item stands on the page once."""
    requests = found.report.requests
    if not requests:
        return None
    new = [found.input_of(request.number, request.shared_items) for request in requests]
    room = min(_MOST_TEXT, max(_LEAST_TEXT, _PAGE_TEXT // max(1, sum(map(len, new)))))
    blocks = []
    for request, items in zip(requests, new, strict=True):
        title = f"Request {request.number} · turn {request.turn} · {counted(request.items, 'item')}, {len(items)} new"
        note = note_on(request)
        shared = None
        if request.shared_items:
            known = counted(request.shared_items, "item")
            link = tag("a", f"request {request.number - 1}", href=f"#r{request.number - 1}")
            shared = tag("p", f"The first {known} as in ", link, "; then:", class_="dim")
        body = tag("div", shared, *_items(items, request.shared_items, room), id=f"r{request.number}")
        blocks.append(tag("details", tag("summary", f"{title}{f' · {note}' if note else ''}"), body))
    if found.since:
        title = f"Since then · {counted(len(found.since), 'item')} the model was not shown yet, its last answer first"
        body = tag("div", *_items(found.since, requests[-1].items, room))
        blocks.append(tag("details", tag("summary", title), body))
    command = f"spindle context {found.report.thread_id} --request N"
    return tag(
        "section",
        tag("h2", "What the model saw"),
        tag("p", "Long texts are cut here; ", tag("code", command), " shows one request in full.", class_="dim"),
        *blocks,
    )


def _one(found: Inspection, number: int) -> Markup:
    return tag(
        "section",
        tag("h2", f"Everything the model saw at request {number}"),
        *_items(found.input_of(number), 0, None),
    )


def _items(items: Sequence[Item], first: int, room: int | None) -> list[Markup]:
    costs = breakdown(b"", b"", items, each=True).items
    blocks = []
    for item, cost in zip(items, costs, strict=True):
        text = shown_text(item)
        left = 0 if room is None else max(0, len(text) - room)
        label = cost.label if item.get("type") not in ("message", "reasoning") else ""
        named = " · ".join(part for part in (source_words(cost.source), visible(label)) if part)
        start = " ".join(text[:160].split())[:90]
        summary = tag(
            "summary",
            tag("i", class_=f"chip s-{cost.source}"),
            f"{first + cost.index + 1}. ",
            tag("b", named),
            f" · {cost.tokens:,} tokens · ",
            tag("span", start, class_="start"),
        )
        cut = f"\n… {left:,} more characters" if left else ""
        blocks.append(tag("details", summary, tag("pre", text[: len(text) - left] + cut), class_="item"))
    return blocks
