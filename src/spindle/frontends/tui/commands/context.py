"""`/context`: the window drawn by what fills it; `/context past` looks back at every request."""

from __future__ import annotations

from spindle.context.account import SOURCES
from spindle.errors import SpindleError
from spindle.frontends.context_table import overview
from spindle.frontends.context_words import source_words
from spindle.frontends.tui.commands.lines import INDENT, block, note
from spindle.frontends.tui.commands.status import inspection
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.status_line import tokens_words
from spindle.protocol.answers import ContextUsage
from spindle.protocol.ops import GetContext

FULL, FREE = "█", "░"
_WIDEST = 60
_NAMES = 13
_LOOKS = ("fg4", "fg6", "fg5", "fg3", "fg2", "fg1")
"""One colour after the other; each source is named beside its bar, so nothing is told by colour alone."""


async def show(desk: Desk, argument: str) -> None:
    if argument in ("past", "all", "history"):
        await _past(desk)
        return
    if argument:
        raise SpindleError("/context takes nothing, or `past` for the requests so far")
    usage = await desk.call(GetContext())
    if not isinstance(usage, ContextUsage):
        raise SpindleError("the session did not say what fills its context")
    desk.say(*drawn(usage, desk.size[0]))


async def _past(desk: Desk) -> None:
    found = await inspection(desk)
    if found is None:
        raise SpindleError("this thread is not recorded, so there is no past to look at")
    lines = overview(found, desk.thread.name if desk.thread is not None else None, max(20, desk.size[0] - 1))
    await desk.page("Context, request by request", [Line((Span(text),), (), True) for text in lines])


def drawn(usage: ContextUsage, width: int) -> list[Line]:
    """The window as one bar, then each source with its bar, per cent of the window, and tokens."""
    parts = [(source, usage.tokens[source]) for source in SOURCES if usage.tokens.get(source)]
    whole = usage.window or max(1, usage.used)
    # Shares are estimates by size; the server's count of the sum is the truth, so they are scaled to it.
    scale = usage.used / max(1, sum(tokens for _, tokens in parts)) if usage.used else 1.0
    sizes = [(source, round(tokens * scale)) for source, tokens in parts]
    room = max(8, min(_WIDEST, width - 2 * len(INDENT)))
    lines = [_window_bar(sizes, whole, room), _sum(usage)]
    most = max((tokens for _, tokens in sizes), default=1) or 1
    for place, (source, tokens) in enumerate(sizes):
        bar = FULL * max(1, round(_bar_room(room) * tokens / most))
        lines.append(_row(source_words(source), tokens, whole, Span(bar, _look(place))))
    if usage.window:
        lines.append(_row("free", max(0, usage.window - usage.used), whole, Span("")))
    lines += [note(text) for text in _notes(usage)]
    return block("Context", lines)


def _look(place: int) -> str:
    return _LOOKS[place % len(_LOOKS)]


def _window_bar(sizes: list[tuple[str, int]], whole: int, room: int) -> Line:
    """Cells are given to the sources in order, so that their sum is right whatever the rounding."""
    spans = [Span(INDENT)]
    taken = given = 0
    for place, (_, tokens) in enumerate(sizes):
        taken += tokens
        end = min(room, round(room * taken / whole))
        if end > given:
            spans.append(Span(FULL * (end - given), _look(place)))
            given = end
    if given < room:
        spans.append(Span(FREE * (room - given), "dim"))
    return Line(tuple(spans))


def _sum(usage: ContextUsage) -> Line:
    if usage.window is None:
        return note(f"{usage.used:,} tokens; the size of the window is not known")
    return note(f"{usage.used:,} of {tokens_words(usage.window)} tokens, {usage.percent_left}% left")


def _row(name: str, tokens: int, whole: int, bar: Span) -> Line:
    """Per cent of the window; bars are long beside each other, or nothing could be told of a window that is empty."""
    numbers = f"{name:<{_NAMES}}{100 * tokens / whole:>5.1f}% {tokens:>9,}  "
    return Line((Span(INDENT + numbers), bar) if bar.text else (Span((INDENT + numbers).rstrip()),))


def _bar_room(room: int) -> int:
    return max(4, room - _NAMES - 18)


def _notes(usage: ContextUsage) -> list[str]:
    said: list[str] = []
    if usage.limit is not None:
        said.append(f"the thread is compacted at {tokens_words(usage.limit)} tokens; /compact does it now")
    cached = usage.cache.get("hit_percent")
    if isinstance(cached, int) and usage.cache.get("input_tokens"):
        said.append(f"{cached}% of all input so far came from the provider's cache")
    return [*said, "/context past shows every request"]
