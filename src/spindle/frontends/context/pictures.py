"""Which plots a report becomes: tokens, sources, the cache's share, and money. How they are drawn is in `plots`."""

from __future__ import annotations

from spindle.api.markup import Markup, tag
from spindle.context.account import SOURCES
from spindle.frontends.context.plots import Mark, Plot, Scale, Series, amount, draw, legend, scale_for
from spindle.frontends.context_words import break_words, counted, deeds_words, money, note_on, one_line, source_words
from spindle.lookback.report import ContextReport, RequestReport

_IN_RANGE = 2.5
"""The line for the window or the limit is drawn if at most this many times as high as the highest column. A higher
one would press the columns flat."""


def pictures(report: ContextReport, limit: int | None) -> Markup:
    if not report.requests:
        return tag("p", "No request is recorded in this thread yet.")
    plots = _Plots(report, limit).all()
    return tag(
        "section", tag("h2", "The requests in pictures"), legend(plots), tag("div", *map(draw, plots), class_="plots")
    )


class _Plots:
    """The plots of one report. They stand below each other, a request in the same column of each."""

    def __init__(self, report: ContextReport, limit: int | None) -> None:
        self._report = report
        self._requests = requests = report.requests
        self._marks = [Mark(broken.after_request, broken.kind, break_words(broken)) for broken in report.breaks]
        self._turns = [turn.first_request for turn in report.turns]
        self._hints = [_hint(request) for request in requests]
        highest = max(max(tokens_of(request), sum(request.sources.values())) for request in requests)
        self._levels, self._far_above = _levels(report, limit, highest)
        top = max(highest, *(height for height, _, _ in self._levels)) if self._levels else highest
        self._tokens = scale_for(top, amount)

    def all(self) -> list[Plot]:
        plots = [self._of_tokens(), self._of_sources(), self._of_the_cache()]
        if self._report.totals.cost_usd is not None:
            plots.append(self._of_money())
        return plots

    def _of_tokens(self) -> Plot:
        requests = self._requests
        return Plot(
            title="Tokens of each request",
            note=f"Input and answer, as the server counted them. {self._far_above}",
            series=[
                Series("input from the cache", "cached", [request.cached_tokens for request in requests]),
                Series("input that was in the cache before, paid again", "lost", [lost_of(one) for one in requests]),
                Series("new input", "fresh", [new_of(request) for request in requests]),
                Series("input, estimated", "guess", [0 if one.usage else one.input_tokens for one in requests]),
                Series("output", "made", [request.usage.output_tokens if request.usage else 0 for request in requests]),
            ],
            scale=self._tokens,
            hints=self._hints,
            levels=self._levels,
            marks=self._marks,
            turns=self._turns,
        )

    def _of_sources(self) -> Plot:
        return Plot(
            title="What each input was made of",
            note="Estimated by size, on the same scale as the plot of tokens.",
            series=[
                Series(source_words(source), f"s-{source}", [one.sources.get(source, 0) for one in self._requests])
                for source in SOURCES
            ],
            scale=self._tokens,
            hints=[_source_hint(request) for request in self._requests],
            marks=self._marks,
            turns=self._turns,
        )

    def _of_the_cache(self) -> Plot:
        requests = self._requests
        return Plot(
            title="Share of the cache",
            note="How much of each input the provider knew already.",
            series=[
                Series("input from the cache", "cached", [share_of(one, one.cached_tokens) for one in requests]),
                Series("", "lost", [share_of(request, lost_of(request)) for request in requests]),
                Series("new input", "fresh", [share_of(request, new_of(request)) for request in requests]),
            ],
            line=Series("same beginning as the request before", "prefix", [_prefix(request) for request in requests]),
            scale=Scale(25, 100, lambda value: f"{value:.0f} %"),
            hints=self._hints,
            marks=self._marks,
            turns=self._turns,
        )

    def _of_money(self) -> Plot:
        costs = [request.cost_usd or 0.0 for request in self._requests]
        unknown = self._report.totals.unpriced_requests
        missing = f" Not drawn: {counted(unknown, 'request')} without a known price." if unknown else ""
        return Plot(
            title="Cost of each request",
            note=f"US dollars, by list price.{missing}",
            series=[Series("cost", "cost", costs)],
            scale=scale_for(max(costs), lambda value: "0" if not value else f"${value:.4g}"),
            hints=self._hints,
            marks=self._marks,
            turns=self._turns,
        )


def tokens_of(request: RequestReport) -> int:
    return request.input_tokens + (request.usage.output_tokens if request.usage else 0)


def _levels(report: ContextReport, limit: int | None, highest: int) -> tuple[list[tuple[float, str, str]], str]:
    """The lines for the window and for the compaction limit, and what is said of those that are far above."""
    windows = [request.window for request in report.requests if request.window]
    known = [
        (windows[-1] if windows else None, "window", "the window of the model"),
        (limit, "limit", "compaction limit, by today's settings"),
    ]
    drawn, said = [], []
    for height, kind, name in known:
        if height is None:
            continue
        if height <= _IN_RANGE * highest:
            drawn.append((float(height), kind, f"{name}: {height:,}"))
        else:
            said.append(f"{name} ({height:,})")
    return drawn, f"Far above this plot: {' and '.join(said)}." if said else ""


def _hint(request: RequestReport) -> str:
    counts = "estimated" if request.usage is None else f"{request.cached_tokens:,} from the cache"
    said = [
        f"request {request.number}, turn {request.turn}: {one_line(deeds_words(request), 120)}",
        f"{request.input_tokens:,} tokens in ({counts})",
    ]
    if request.usage is not None:
        said.append(f"{request.usage.output_tokens:,} out")
    fill = "" if request.fill_percent is None else f", {request.fill_percent:.0f} % of the window"
    said.append(f"{request.used:,} in context{fill}")
    if request.cost_usd is not None:
        said.append(money(request.cost_usd))
    if note := note_on(request):
        said.append(note)
    return "\n".join(said)


def _source_hint(request: RequestReport) -> str:
    parts = sorted(request.sources.items(), key=lambda part: -part[1])
    return "\n".join([f"request {request.number}", *(f"{source_words(name)}: {tokens:,}" for name, tokens in parts)])


def share_of(request: RequestReport, tokens: int) -> float:
    return 0 if request.usage is None else 100 * tokens / max(1, request.input_tokens)


def lost_of(request: RequestReport) -> int:
    return 0 if request.usage is None else min(request.cache.lost_tokens, request.input_tokens - request.cached_tokens)


def new_of(request: RequestReport) -> int:
    return 0 if request.usage is None else request.input_tokens - request.cached_tokens - lost_of(request)


def _prefix(request: RequestReport) -> float:
    return min(100.0, 100 * request.cache.prefix_tokens / max(1, request.estimated_input))
