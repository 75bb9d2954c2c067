"""The plots of the page: SVG drawn here, one column a request. Labels are HTML, so they stay readable at any width.

An SVG is stretched to the width there is, but a unit of height is always a pixel: hence stripes that lie flat look the
same everywhere, and heights can be compared between plots that have the same scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from spindle.api.markup import Markup, join, tag

HEIGHT = 192
"""The height of every plot, in pixels; the style sheet says the same."""
_FEWEST_COLUMNS = 16
"""A thread with few requests gets thin bars and room on the right."""
_MOST_APART = 150
_MOST_LABELS = 8
_MOST_TARGETS = 250
"""How many places can be pointed at; in longer threads one of them stands for several columns."""
_MOST_EDIT_MARKS = 200
STRIPES = {
    "fine": ("s-permissions", "s-skills", "s-summary", "s-images"),
    "coarse": ("lost", "s-environment", "s-reasoning", "s-calls"),
}
"""Kinds that are told apart by stripes as well as by their colour. The others are plain."""
_PERIODS = {"fine": (4, 1), "coarse": (8, 3)}
"""How far stripes are apart, and how thick they are."""


class Scale(msgspec.Struct, frozen=True):
    """An axis from 0 to `top`, with a line at every `step`. Nothing that is drawn on it is higher."""

    step: float
    top: float
    said: Callable[[float], str]

    def y(self, value: float) -> str:
        return f"{HEIGHT - HEIGHT * value / self.top:.1f}"

    @property
    def lines(self) -> list[float]:
        return [self.step * number for number in range(round(self.top / self.step) + 1)]


class Series(msgspec.Struct, frozen=True):
    """Values, one a column; stacked on those before it."""

    name: str
    kind: str
    """The class its colour comes from."""
    values: Sequence[float]


class Mark(msgspec.Struct, frozen=True):
    """A line between two columns: something happened after the first `after` of them."""

    after: int
    kind: str
    title: str


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    note: str
    series: Sequence[Series]
    scale: Scale
    hints: Sequence[str]
    """What is said about each column under the pointer."""
    marks: Sequence[Mark] = ()
    turns: Sequence[int] = ()
    """The number of the first request of each turn."""
    line: Series | None = None
    """Drawn over the columns."""
    levels: Sequence[tuple[float, str, str]] = ()
    """Heights with a meaning: the height, its class, its name."""


def scale_for(highest: float, said: Callable[[float], str]) -> Scale:
    """From zero to a round number that is not lower than the highest value."""
    highest = highest if highest > 0 else 1
    step = 10.0**-9
    factors = (2, 2.5, 2)
    turn = 0
    while highest / step > 5:
        step *= factors[turn % 3]
        turn += 1
    step = float(f"{step:.6g}")
    return Scale(step, step * -(-highest // step), said)


def draw(plot: Plot) -> Markup:
    """A figure with its axes, columns that lead to their requests, and a legend."""
    count = len(plot.hints)
    width = max(count, _FEWEST_COLUMNS)
    shapes = [*_bands(plot, count), *_grid(plot.scale, width), *_columns(plot, count), *_marks(plot)]
    for height, kind, _ in plot.levels:
        shapes.append(_line(f"M0 {plot.scale.y(height)}H{width}", f"level {kind}"))
    if plot.line is not None:
        shapes.append(_line(_steps(plot.line.values, plot.scale), plot.line.kind))
    shapes += _targets(plot.hints)
    svg = tag(
        "svg", *shapes, viewBox=f"0 0 {width} {HEIGHT}", preserveAspectRatio="none", role="img", aria_label=plot.title
    )
    labels = (_y_labels(plot.scale), _turn_labels(plot, count, width), svg, _x_labels(count, width))
    return tag(
        "figure",
        tag("figcaption", tag("h3", plot.title), tag("p", plot.note)),
        tag("div", *labels, class_="plot"),
    )


def stripes() -> Markup:
    """The patterns that all plots use, drawn nowhere themselves."""
    kinds = [(kind, size) for size, names in STRIPES.items() for kind in names]
    patterns = []
    for kind, size in kinds:
        period, thick = _PERIODS[size]
        parts = (
            tag("rect", width=9, height=period, class_=f"plain {kind}"),
            tag("rect", width=9, height=thick, class_="stripe"),
        )
        box = {"width": 9, "height": period, "patternUnits": "userSpaceOnUse"}
        patterns.append(tag("pattern", *parts, id=f"p-{kind}", **box))
    return tag("svg", tag("defs", *patterns), class_="unseen", width=0, height=0, aria_hidden="true")


def fills() -> str:
    """The rules that give striped kinds their pattern, in plots and in the small boxes of legends and tables."""
    rules = []
    for size, names in STRIPES.items():
        period, thick = _PERIODS[size]
        for kind in names:
            stripe = f"var(--stripe) 0 {thick}px,transparent {thick}px {period}px"
            rules.append(f"path.{kind}{{fill:url(#p-{kind})}}")
            rules.append(f"i.{kind}{{background:repeating-linear-gradient({stripe}),var(--{kind})}}")
    return "\n".join(rules) + "\n"


def amount(value: float) -> str:
    """A number of tokens in few characters."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:.{0 if value >= 10 * size or value % size == 0 else 1}f}{unit}"
    return f"{value:.0f}"


# ---- shapes ------------------------------------------------------------------------------------------


def _bands(plot: Plot, count: int) -> list[Markup]:
    """Every second turn stands on a shade."""
    ends = [*plot.turns[1:], count + 1]
    path = "".join(
        f"M{start - 1} 0H{end - 1}V{HEIGHT}H{start - 1}z"
        for number, (start, end) in enumerate(zip(plot.turns, ends, strict=True))
        if number % 2 and start < end
    )
    return [tag("path", d=path, class_="band")] if path else []


def _columns(plot: Plot, count: int) -> list[Markup]:
    gap = _gap(count)
    base = [0.0] * count
    shapes = []
    for series in plot.series:
        path = ""
        for place, value in enumerate(series.values):
            if value > 0:
                start, end = f"{place + gap:.6g}", f"{place + 1 - gap:.6g}"
                path += f"M{start} {plot.scale.y(base[place])}H{end}V{plot.scale.y(base[place] + value)}H{start}z"
                base[place] += value
        if path:
            shapes.append(tag("path", d=path, class_=series.kind))
    return shapes


def _gap(count: int) -> float:
    """Half the space between two columns; many stand side by side, or a single one could not be seen any more."""
    return 0.1 if count <= _MOST_APART else 0


def _steps(values: Sequence[float], scale: Scale) -> str:
    gap = _gap(len(values))
    path = ""
    for place, value in enumerate(values):
        path += f"{'L' if path else 'M'}{place + gap:.6g} {scale.y(value)}H{place + 1 - gap:.6g}"
    return path or f"M0 {HEIGHT}"


def _grid(scale: Scale, width: int) -> list[Markup]:
    return [_line(f"M0 {scale.y(height)}H{width}", "grid") for height in scale.lines]


def _marks(plot: Plot) -> list[Markup]:
    """Breaks of the whole thread go through the plot; edits, of which there may be one a request, are ticks on top."""
    shapes = []
    edits = [mark for mark in plot.marks if mark.kind == "edit"]
    for mark in plot.marks:
        if mark.kind != "edit":
            shapes.append(tag("g", tag("title", mark.title), _line(f"M{mark.after} 0V{HEIGHT}", f"mark {mark.kind}")))
    for mark in edits[:_MOST_EDIT_MARKS]:
        shapes.append(tag("g", tag("title", mark.title), _line(f"M{mark.after} 0V9", "mark edit")))
    if rest := edits[_MOST_EDIT_MARKS:]:
        shapes.append(_line("".join(f"M{mark.after} 0V9" for mark in rest), "mark edit"))
    return shapes


def _targets(hints: Sequence[str]) -> list[Markup]:
    """Over each column something invisible that says what it is and leads to its request."""
    step = -(-len(hints) // _MOST_TARGETS) or 1
    return [
        tag(
            "a",
            tag("title", hints[place] if step == 1 else f"{hints[place]}\n(and the next {step - 1})"),
            tag("rect", x=place, y=0, width=min(step, len(hints) - place), height=HEIGHT, class_="target"),
            href=f"#r{place + 1}",
            # The table below leads to the same places; a thousand stops on the way there help nobody.
            tabindex="-1",
        )
        for place in range(0, len(hints), step)
    ]


def _line(path: str, kind: str) -> Markup:
    return tag("path", d=path, class_=f"line {kind}")


# ---- axes --------------------------------------------------------------------------------------------


def _y_labels(scale: Scale) -> Markup:
    labels = [tag("span", scale.said(value), style=f"bottom:{100 * value / scale.top:.2f}%") for value in scale.lines]
    return tag("div", *labels, class_="y", aria_hidden="true")


def _x_labels(count: int, width: int) -> Markup:
    step = 1
    while count / step > _MOST_LABELS:
        step *= 5 if str(step).startswith("2") else 2
    numbers = [1, *range(step, count + 1, step)] if step > 1 else range(1, count + 1)
    labels = [tag("span", number, style=f"left:{100 * (number - 0.5) / width:.2f}%") for number in numbers]
    return tag("div", *labels, class_="x", aria_hidden="true")


def _turn_labels(plot: Plot, count: int, width: int) -> Markup:
    """The turns there is room for, each above the column it begins with."""
    shown, free_from = [], -1.0
    for number, start in enumerate(plot.turns, 1):
        left = 100 * (start - 1) / width
        if start <= count and left >= free_from and left < 97:
            shown.append(tag("span", f"turn {number}" if not shown else number, style=f"left:{left:.2f}%"))
            free_from = left + (13 if len(shown) == 1 else 6)
    return tag("div", *shown, class_="turns", aria_hidden="true")


def legend(plots: Sequence[Plot]) -> Markup:
    """What every colour and every line means, in all of the plots."""
    shown: dict[str, str] = {}
    for plot in plots:
        shown |= {series.kind: series.name for series in plot.series if any(series.values) and series.name}
    for plot in plots:
        if plot.line is not None:
            shown[f"key {plot.line.kind}"] = plot.line.name
        shown |= {f"key level {kind}": name for _, kind, name in plot.levels}
        shown |= {f"key mark {mark.kind}": _mark_words(mark.kind) for mark in plot.marks}
    if len(plots[0].turns) > 1:
        shown["key band"] = "every second turn"
    return tag("ul", join(*(tag("li", tag("i", class_=kind), name) for kind, name in shown.items())), class_="legend")


def _mark_words(kind: str) -> str:
    return "context edit" if kind == "edit" else kind.replace("_", " ")
