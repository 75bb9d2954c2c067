"""The plots of the page: SVG drawn here. Labels are HTML, so they stay readable at any width.

An SVG is stretched to the width there is; a unit of height is a pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spindle.api.markup import Markup, join, tag
from spindle.fleet.report.figures import OK, Spread, Task, round_step, spread, time_step
from spindle.fleet.report.rows import brief, duration

HEIGHT = 150
"""Of every plot, in pixels; the style sheet says the same."""
_MOST_LABELS = 6
_GRID_LINES = 4
_GAP = 0.12
"""Between two bars, as a part of their width."""
_POINTS = 400
"""A line through more points than that looks the same."""

Said = Callable[[float], str]
"""How a value is written."""


def status_bar(counts: Sequence[tuple[str, int]]) -> Markup:
    """How all tasks of the list stand, as one bar."""
    total = sum(count for _, count in counts) or 1
    parts, x = [], 0.0
    for status, count in counts:
        width = 1000 * count / total
        hint = tag("title", f"{status}: {count} of {total}")
        parts.append(tag("rect", hint, x=f"{x:.2f}", y=0, width=f"{width:.2f}", height=22, class_=f"st {status}"))
        x += width
    said = ", ".join(f"{count} {status}" for status, count in counts)
    bar = _svg(join(*parts), 1000, 22, f"Status of the tasks: {said}", class_="bar")
    keys = [
        tag("li", tag("i", class_=f"st {status}"), f"{status} ", tag("b", f"{count:,}"), f" {count / total:.1%}")
        for status, count in counts
    ]
    return join(bar, tag("ul", *keys, class_="legend"))


def histogram(title: str, values: Sequence[tuple[float, bool]], said: Said, nothing: str) -> Markup:
    """How many tasks have which value; those that went well stand at the bottom of each bar."""
    found = spread(values, is_time=said is duration)
    if found is None:
        return _figure(title, nothing, None)
    bars, tallest = [], max(1, found.tallest)
    for place, (ok, others) in enumerate(zip(found.ok, found.others, strict=True)):
        if not ok + others:
            continue
        low, high = said(place * found.width), said((place + 1) * found.width)
        is_last = place == len(found.ok) - 1 and found.has_more
        hint = tag("title", f"{low} {'and more' if is_last else '– ' + high}: {ok} ok, {others} not")
        y_ok, y_all = HEIGHT * (1 - ok / tallest), HEIGHT * (1 - (ok + others) / tallest)
        bars.append(tag("g", hint, _bar(place, y_ok, HEIGHT, "ok"), _bar(place, y_all, y_ok, "not-ok")))
    count = len(found.ok)
    marks = [_mark(found, value, name, count) for value, name in ((found.median, "median"), (found.high, "high"))]
    picture = _svg(
        join(*_grid(tallest, count), *bars, *marks), count, HEIGHT, f"{title}: {len(values)} tasks in {count} bars"
    )
    step = max(1, -(-count // _MOST_LABELS))
    labels = [(place / count, brief(place * found.width, said)) for place in range(0, count, step)]
    note = f"median {said(found.median)} · 95 % below {said(found.high)} · most {said(found.most)}"
    if found.has_more:
        note += " · the last bar holds all beyond it"
    return _figure(title, note, _framed(picture, _heights(tallest), labels))


def over_time(title: str, tasks: Sequence[Task], said: Said) -> Markup:
    """How many tasks were done at which time, and how many of them went well."""
    ended = sorted((task.ended, task.is_ok) for task in tasks if task.ended)
    if len(ended) < 2 or ended[-1][0] <= ended[0][0]:
        return _figure(title, "There are too few records to draw this.", None)
    begin, length = ended[0][0], ended[-1][0] - ended[0][0]
    total, ok = len(ended), 0
    lines: list[tuple[float, int, int]] = []
    for number, (time, is_ok) in enumerate(ended, 1):
        ok += is_ok
        if number % max(1, total // _POINTS) == 0 or number == total:
            lines.append((1000 * (time - begin) / length, number, ok))
    every = [(x, HEIGHT * (1 - number / total)) for x, number, _ in lines]
    well = [(x, HEIGHT * (1 - good / total)) for x, _, good in lines]
    picture = _svg(
        join(
            *_grid(total, 1000),
            tag("polygon", points=_points([(0, HEIGHT), *every, (1000, HEIGHT)]), class_="area not-ok"),
            tag("polygon", points=_points([(0, HEIGHT), *well, (1000, HEIGHT)]), class_="area ok"),
        ),
        1000,
        HEIGHT,
        f"{title}: {total} tasks in {said(length)}",
    )
    step = time_step(length / 5)
    labels = [(step * part / length, brief(step * part, said)) for part in range(int(0.95 * length / step) + 1)]
    pace = total / (length / 60) if length else 0.0
    return _figure(
        title, f"{total:,} in {said(length)}: {pace:.1f} a minute", _framed(picture, _heights(total), labels)
    )


def _figure(title: str, note: str, plot: Markup | None) -> Markup:
    return tag("figure", tag("figcaption", tag("h3", title), tag("p", note)), plot)


def _framed(picture: Markup, heights: list[tuple[float, str]], labels: list[tuple[float, str]]) -> Markup:
    sides = [tag("span", text, style=f"bottom:{100 * share:.1f}%") for share, text in heights]
    feet = [tag("span", text, style=f"left:{100 * share:.2f}%") for share, text in labels]
    return tag("div", tag("div", *sides, class_="y"), picture, tag("div", *feet, class_="x"), class_="plot")


def _svg(content: Markup, width: int, height: int, label: str, *, class_: str | None = None) -> Markup:
    return tag(
        "svg",
        content,
        viewBox=f"0 0 {width} {height}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
        class_=class_,
    )


def _bar(place: int, top: float, bottom: float, kind: str) -> Markup | None:
    if bottom - top < 0.01:
        return None
    top = min(top, bottom - 1.5)  # one task of ten thousand is still seen
    x, width, height = f"{place + _GAP / 2:.2f}", f"{1 - _GAP:.2f}", f"{bottom - top:.2f}"
    return tag("rect", x=x, y=f"{top:.2f}", width=width, height=height, class_=kind)


def _mark(found: Spread, value: float, name: str, count: int) -> Markup:
    x = f"{min(count, value / found.width):.3f}"
    return tag("line", x1=x, x2=x, y1=0, y2=HEIGHT, class_=f"mark {name}")


def _heights(tallest: int) -> list[tuple[float, str]]:
    step = max(1, round_step(tallest / _GRID_LINES))
    return [(step * number / tallest, f"{step * number:,.0f}") for number in range(int(tallest / step) + 1)]


def _grid(tallest: int, width: int) -> list[Markup]:
    ys = [f"{HEIGHT * (1 - share):.1f}" for share, _ in _heights(tallest)]
    return [tag("line", x1=0, x2=width, y1=y, y2=y, class_="grid") for y in ys]


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def legend() -> Markup:
    """Of all histograms."""
    return tag(
        "ul",
        tag("li", tag("i", class_="ok"), OK),
        tag("li", tag("i", class_="not-ok"), "not ok"),
        tag("li", tag("i", class_="key median"), "median"),
        tag("li", tag("i", class_="key high"), "95 % are below"),
        class_="legend",
    )
