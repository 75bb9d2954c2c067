"""The report as one page: no script, nothing from a network, and a policy in it that forbids both."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Sequence

from spindle.api.markup import Markup, join, tag
from spindle.context.account import SOURCES, breakdown
from spindle.frontends.context.pictures import lost_of, new_of, pictures, share_of, tokens_of
from spindle.frontends.context.plots import amount, fills, stripes
from spindle.frontends.context_words import (
    break_words,
    cause_words,
    cost_words,
    counted,
    deeds_words,
    ledger_words,
    money,
    note_on,
    one_line,
    shown_text,
    source_words,
    title_of,
    turn_words,
    zone_words,
)
from spindle.frontends.when import local_clock, local_time
from spindle.lookback.inspection import Inspection
from spindle.lookback.report import ContextReport, RequestReport
from spindle.protocol.items import Item
from spindle.protocol.quote import visible

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_MOST_TEXT = 6_000
_PAGE_TEXT = 1_500_000
"""About how many characters of items the page holds; beyond that, each item is cut to its share."""
_LEAST_TEXT = 200
_WORDS_OF_A_ROW = 240
_COLUMNS = 11
"""How many the table of requests has."""


def render(
    found: Inspection, name: str | None = None, request: int | None = None, *, compaction_limit: int | None = None
) -> str:
    """The whole page; with `request` also everything that one request showed, uncut.

    `compaction_limit` is where the thread would be compacted by today's settings; the record does not hold it.
    """
    report = found.report
    title = visible(title_of(report, name))
    body = [
        stripes(),
        _header(report, title),
        _facts(report),
        *(tag("p", notice, class_="notice") for notice in report.notices),
        pictures(report, compaction_limit),
        _table(report),
        _sources(found, request or len(report.requests)),
        _causes(report),
        _kept(found),
        _one(found, request) if request is not None else None,
        _inputs(found),
    ]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="referrer", content="no-referrer"),
        tag("title", f"{title} · context"),
        tag("style", _style()),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *body), lang='en')}\n"


def _style() -> Markup:
    with open(f"{os.path.dirname(__file__)}/page.css", encoding="utf-8") as file:
        sheet = file.read()
    kinds = ("cached", "lost", "fresh", "made", "guess", "cost", *(f"s-{source}" for source in SOURCES))
    paints = "".join(f".{kind}{{fill:var(--{kind});background:var(--{kind})}}\n" for kind in kinds)
    return Markup("\n" + sheet + paints + fills())


# ---- above: sums and plots ---------------------------------------------------------------------------


def _header(report: ContextReport, title: str) -> Markup:
    models = ", ".join(dict.fromkeys(request.model for request in report.requests if request.model))
    times = [local_time(request.at) for request in report.requests if request.at]
    when = (" – ".join(dict.fromkeys((times[0], times[-1])))) if times else ""
    where = " · ".join(visible(part) for part in (models, when, report.cwd or "") if part)
    return tag(
        "header",
        tag("h1", title),
        tag("p", where, class_="dim"),
        tag(
            "p", "thread ", tag("code", report.thread_id), " · ", tag("code", visible(report.path)), class_="dim small"
        ),
    )


def _facts(report: ContextReport) -> Markup:
    totals, last = report.totals, report.requests[-1] if report.requests else None
    facts = [
        ("turns", f"{totals.turns:,}", ""),
        ("requests", f"{totals.requests:,}", ""),
        ("commands run", f"{totals.commands:,}", ""),
        ("files changed by patches", f"{totals.files_changed:,}", ""),
        ("cost", money(totals.cost_usd) + ("+" if totals.cost_usd and totals.unpriced_requests else ""), ""),
        ("tokens in", amount(totals.input_tokens), ""),
        ("of them from the cache", f"{totals.hit_percent} %", ""),
        ("lost to cache misses", amount(sum(totals.lost_tokens.values())), ""),
        ("tokens out", amount(totals.output_tokens), ""),
        ("compactions", totals.compactions, ""),
        ("context edits", totals.edits, ""),
    ]
    if last is not None and last.fill_percent is not None:
        facts.append(("window in use", f"{last.fill_percent:.0f} %", ""))
    if totals.alarms:
        facts.append(("breaks nobody declared", totals.alarms, "bad"))
    tiles = tag("dl", *(tag("div", tag("dt", a), tag("dd", b), class_=c or None) for a, b, c in facts), class_="facts")
    return join(tiles, tag("p", _fine_print(report), class_="dim small"))


def _fine_print(report: ContextReport) -> str:
    """What the numbers above do and do not hold."""
    totals = report.totals
    said = [
        "A request is one answer of the model; a context edit clears old outputs from what the model is shown and"
        " changes no file.",
        f"Cost: {cost_words(report)}" + ("" if totals.cost_usd is None else ", by list price in US dollars") + ".",
    ]
    if totals.side_tokens:
        said.append(f"Summaries and sub-agents took {totals.side_tokens:,} more tokens.")
    return " ".join(said)


# ---- in the middle: sources, causes, what is kept ----------------------------------------------------


def _sources(found: Inspection, number: int) -> Markup | None:
    if not found.report.requests:
        return None
    request = found.report.requests[number - 1] if number <= len(found.report.requests) else found.report.requests[-1]
    whole = max(1, request.estimated_input)
    rows = [
        tag(
            "tr",
            tag("td", tag("i", class_=f"chip s-{source}"), source_words(source), class_="words"),
            tag("td", f"{tokens:,}"),
            tag("td", f"{100 * tokens / whole:.0f} %"),
            tag("td", _bar([(f"s-{source}", 100 * tokens / whole)]), class_="share"),
        )
        for source in SOURCES
        if (tokens := request.sources.get(source, 0))
    ]
    said = f"{request.estimated_input:,} tokens by our estimate; a full bar would be all of them"
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
    most = max(1, *map(tokens_of, report.requests))
    zone = zone_words(report)
    named = ("input", f"0 – {amount(most)}", "cached", "output", "cost", "in context", "window")
    head = tag(
        "tr",
        tag("th", "request"),
        tag("th", f"time ({zone})" if zone else "time"),
        tag("th", "what it did", class_="words"),
        *(tag("th", name) for name in named),
        tag("th", "cache", class_="words"),
    )
    rows: list[Markup] = _break_rows(report, 0)
    for request in report.requests:
        rows += _turn_rows(report, request.number)
        rows.append(_row(request, most))
        rows += _break_rows(report, request.number)
    rows += _turn_rows(report, len(report.requests) + 1)
    return tag(
        "section",
        tag("h2", "Request by request"),
        tag("p", "All bars have one scale; the heading of their column names it.", class_="dim bars"),
        tag("div", tag("table", head, *rows, class_="requests"), class_="wide tall"),
    )


def _turn_rows(report: ContextReport, first: int) -> list[Markup]:
    turns = [turn for turn in report.turns if turn.first_request == first]
    return [
        tag("tr", tag("td", turn_words(turn, 400), colspan=_COLUMNS), class_=f"turn {turn.end}".rstrip())
        for turn in turns
    ]


def _break_rows(report: ContextReport, after: int) -> list[Markup]:
    broken = [broken for broken in report.breaks if broken.after_request == after]
    return [tag("tr", tag("td", break_words(each), colspan=_COLUMNS), class_=f"break {each.kind}") for each in broken]


def _row(request: RequestReport, most: int) -> Markup:
    is_counted = request.usage is not None
    made = request.usage.output_tokens if request.usage else 0
    parts = [("cached", request.cached_tokens), ("lost", lost_of(request)), ("fresh", new_of(request)), ("made", made)]
    if not is_counted:
        parts = [("guess", request.input_tokens)]
    cells = (
        f"{'' if is_counted else '≈ '}{request.input_tokens:,}",
        _bar((kind, 100 * tokens / most) for kind, tokens in parts if tokens),
        f"{share_of(request, request.cached_tokens):.0f} %" if is_counted else "?",
        f"{made:,}" if is_counted else "?",
        money(request.cost_usd),
        f"{request.used:,}",
        "" if request.fill_percent is None else f"{request.fill_percent:.0f} %",
    )
    return tag(
        "tr",
        tag("td", tag("a", request.number, href=f"#r{request.number}")),
        tag("td", local_clock(request.at)),
        tag("td", one_line(deeds_words(request), _WORDS_OF_A_ROW), class_="words"),
        *(tag("td", cell) for cell in cells),
        tag("td", note_on(request), class_="words"),
    )


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
        title += f" · {one_line(deeds_words(request), 90)}"
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
