"""The plots of the page: SVG drawn here, one column a request. Labels are HTML, so they stay readable at any width."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from spindle.frontends.context.markup import Markup, join, tag

_FEWEST_COLUMNS = 16
"""A thread with few requests gets thin bars and room on the right."""
_MOST_APART = 150
_MOST_LABELS = 8


class Series(msgspec.Struct, frozen=True):
    """Values, one a column; stacked on those before it."""

    name: str
    kind: str
    """The class its colour comes from."""
    values: Sequence[float]


class Mark(msgspec.Struct, frozen=True):
    """A line between two columns: something happened after so many of them."""

    after: int
    kind: str
    title: str


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    note: str
    series: Sequence[Series]
    hints: Sequence[str]
    """What is said about each column under the pointer."""
    marks: Sequence[Mark] = ()
    line: Series | None = None
    """Drawn over the columns."""
    ceiling: tuple[float, str] | None = None
    """A height with a meaning, and its name."""
    is_percent: bool = False


def draw(plot: Plot) -> Markup:
    """A figure with its axes, columns that lead to their requests, and a legend."""
    count = len(plot.hints)
    width = max(count, _FEWEST_COLUMNS)
    step, top = _scale(plot, count)
    shapes = [*_grid(step, top, width), *_columns(plot, count, top), *_marks(plot)]
    if plot.ceiling is not None:
        shapes.append(_line(f"M0 {_y(plot.ceiling[0], top)}H{width}", "ceiling"))
    if plot.line is not None:
        shapes.append(_line(_steps(plot.line.values, top), plot.line.kind))
    shapes += _targets(plot.hints)
    svg = tag("svg", *shapes, viewBox=f"0 0 {width} 100", preserveAspectRatio="none", role="img", aria_label=plot.title)
    return tag(
        "figure",
        tag("figcaption", tag("h3", plot.title), tag("p", plot.note)),
        tag("div", _y_labels(step, top, plot.is_percent), svg, _x_labels(count, width), class_="plot"),
        _legend(plot),
    )


def amount(value: float) -> str:
    """A number of tokens in few characters."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:.{0 if value >= 10 * size or value % size == 0 else 1}f}{unit}"
    return f"{value:.0f}"


# ---- shapes ------------------------------------------------------------------------------------------


def _columns(plot: Plot, count: int, top: float) -> list[Markup]:
    gap = _gap(count)
    base = [0.0] * count
    shapes = []
    for series in plot.series:
        path = ""
        for place, value in enumerate(series.values):
            if value > 0:
                start, end = f"{place + gap:.6g}", f"{place + 1 - gap:.6g}"
                path += f"M{start} {_y(base[place], top)}H{end}V{_y(base[place] + value, top)}H{start}z"
                base[place] += value
        if path:
            shapes.append(tag("path", d=path, class_=series.kind))
    return shapes


def _gap(count: int) -> float:
    """Half the space between two columns; many stand side by side, or a single one could not be seen any more."""
    return 0.1 if count <= _MOST_APART else 0


def _steps(values: Sequence[float], top: float) -> str:
    gap = _gap(len(values))
    path = ""
    for place, value in enumerate(values):
        path += f"{'L' if path else 'M'}{place + gap:.6g} {_y(value, top)}H{place + 1 - gap:.6g}"
    return path or "M0 100"


def _grid(step: float, top: float, width: int) -> list[Markup]:
    heights = [step * number for number in range(round(top / step) + 1)]
    return [_line(f"M0 {_y(height, top)}H{width}", "grid") for height in heights]


def _marks(plot: Plot) -> list[Markup]:
    return [
        tag("g", tag("title", mark.title), _line(f"M{mark.after} 0V100", f"mark {mark.kind}")) for mark in plot.marks
    ]


def _targets(hints: Sequence[str]) -> list[Markup]:
    """Over each column something invisible that says what it is and leads to its request."""
    return [
        tag(
            "a",
            tag("title", hint),
            tag("rect", x=place, y=0, width=1, height=100, class_="target"),
            href=f"#r{place + 1}",
            # The table below leads to the same places; a thousand stops on the way there help nobody.
            tabindex="-1",
        )
        for place, hint in enumerate(hints)
    ]


def _line(path: str, kind: str) -> Markup:
    return tag("path", d=path, class_=f"line {kind}")


def _y(value: float, top: float) -> str:
    return f"{100 - 100 * min(value, top) / top:.2f}"


# ---- axes --------------------------------------------------------------------------------------------


def _scale(plot: Plot, count: int) -> tuple[float, float]:
    """The distance of the grid lines, and the value at the top."""
    if plot.is_percent:
        return 25, 100
    sums = [sum(series.values[place] for series in plot.series) for place in range(count)]
    highest = max([1.0, *sums, plot.ceiling[0] if plot.ceiling else 0])
    step = 1.0
    while highest / step > 5:
        step *= 2.5 if str(step).startswith("2") else 2
    lines = -(-highest // step)
    return step, step * lines


def _y_labels(step: float, top: float, is_percent: bool) -> Markup:
    labels = []
    for number in range(round(top / step) + 1):
        said = f"{step * number:.0f} %" if is_percent else amount(step * number)
        labels.append(tag("span", said, style=f"bottom:{100 * step * number / top:.2f}%"))
    return tag("div", *labels, class_="y", aria_hidden="true")


def _x_labels(count: int, width: int) -> Markup:
    step = 1
    while count / step > _MOST_LABELS:
        step *= 5 if str(step).startswith("2") else 2
    numbers = [1, *range(step, count + 1, step)] if step > 1 else range(1, count + 1)
    labels = [tag("span", number, style=f"left:{100 * (number - 0.5) / width:.2f}%") for number in numbers]
    return tag("div", *labels, class_="x", aria_hidden="true")


def _legend(plot: Plot) -> Markup:
    shown = [(series.name, series.kind) for series in plot.series if any(series.values)]
    if plot.line is not None:
        shown.append((plot.line.name, f"key {plot.line.kind}"))
    if plot.ceiling is not None:
        shown.append((plot.ceiling[1], "key ceiling"))
    shown += [(kind.replace("_", " "), f"key mark {kind}") for kind in dict.fromkeys(mark.kind for mark in plot.marks)]
    return tag("ul", join(*(tag("li", tag("i", class_=kind), name) for name, kind in shown)), class_="legend")
