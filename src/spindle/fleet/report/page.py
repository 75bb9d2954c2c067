"""A run as one page: no script, nothing from a network, and a policy in it that forbids both."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from urllib.parse import quote

from spindle.api.markup import Markup, join, tag
from spindle.fleet.exchange import FILES
from spindle.fleet.folder import FILES_OF_TASKS, RunFolder, Spending
from spindle.fleet.record import Record
from spindle.fleet.report.figures import OK, FailureGroup, Figures, quantile
from spindle.fleet.report.plots import histogram, legend, over_time, status_bar
from spindle.fleet.report.rows import STATUSES, amount, duration, first_words, money, said_of
from spindle.protocol.quote import visible

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_MOST_ROWS = 2_000
"""A browser scrolls through that many without trouble; all of them are in the CSV file."""
_ROWS_OF_A_PART = 100
"""A browser lays out only the parts that are seen."""
_MOST_IDS = 12
_MOST_GROUPS = 30
_WORDS_OF_A_ROW = 160
_WORDS_OF_A_GROUP = 400
_LINKS = {name: name.partition(".")[0] for name in FILES if name != "patch.diff"}


def render(folder: RunFolder, place: str, now: float) -> str:
    """The whole page. `place` is the folder that it will stand in: links lead from there."""
    figures = Figures(folder.records(), _MOST_IDS)
    spending = folder.spending()
    links = _Links(folder, place)
    title = f"Fleet run {os.path.basename(folder.path)}"
    body = (
        _header(folder, figures, title, now),
        _facts(folder, figures, spending),
        _pictures(folder, figures),
        _failures(figures, links),
        _table(folder, figures, links),
    )
    with open(f"{os.path.dirname(__file__)}/page.css", encoding="utf-8") as file:
        style = Markup(file.read())
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", style),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, tag("body", *body), lang="en") + "\n"


class _Links:
    """Ways from the page to files of tasks. They are made from ids, which are checked, and from names of ours."""

    def __init__(self, folder: RunFolder, place: str) -> None:
        self._folder = folder
        base = os.path.relpath(folder.path, place)
        self._base = "" if base == "." else quote(base) + "/"

    def to(self, task: str, name: str, words: str) -> Markup:
        return tag("a", words, href=f"{self._base}{FILES_OF_TASKS}/{quote(task)}/{name}")

    def to_folder(self, task: str) -> Markup:
        # Not `visible`: an id is of letters, digits and three signs.
        return self.to(task, "", task) if os.path.isdir(self._path(task)) else tag("span", task)

    def files(self, task: str) -> Iterator[Markup]:
        for name, words in _LINKS.items():
            if os.path.isfile(self._path(task, name)):
                yield self.to(task, name, words)

    def _path(self, task: str, name: str = "") -> str:
        return self._folder.file(FILES_OF_TASKS, task, name)


# ---- above the plots -----------------------------------------------------------------------------------


def _header(folder: RunFolder, figures: Figures, title: str, now: float) -> Markup:
    facts = folder.facts
    models = [visible(model) for model, _ in figures.models.most_common(4)]
    said = [f"begun {_when(facts.created_at)}", f"engine {visible(facts.engine)}", f"Spindle {visible(facts.spindle)}"]
    if models:
        said.append(f"{'models' if len(models) > 1 else 'model'} {', '.join(models)}")
    made = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M UTC")
    state = "a driver is at work, so the numbers still grow" if folder.is_alive() else "no driver is at work"
    return tag(
        "header",
        tag("h1", title),
        tag("p", " · ".join(said), class_="dim"),
        tag("p", f"As of {made}; {state}.", class_="dim"),
    )


def _when(timestamp: str) -> str:
    try:
        return datetime.fromisoformat(timestamp).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return visible(timestamp)


def _facts(folder: RunFolder, figures: Figures, spending: Spending) -> Markup:
    done, ok = len(figures.tasks), figures.by_status[OK]
    times = sorted(task.duration_s for task in figures.tasks)
    used = spending.used if spending.used.requests else figures.used
    cached = used.cached_input_tokens / used.input_tokens if used.input_tokens else 0.0
    cost = spending.known_cost if spending.used.requests else None
    cards = [
        ("tasks recorded", f"{done:,} of {folder.total:,}", ""),
        ("ok", f"{ok / done:.1%}" if done else "–", ""),
        ("not ok", f"{done - ok:,}", "bad" if done > ok else ""),
        ("attempts", f"{figures.attempts:,}", ""),
        ("cost, all attempts", money(cost), ""),
        ("cost per ok task", money(cost / ok) if cost is not None and ok else "–", ""),
        ("model requests", f"{used.requests:,}", ""),
        ("tokens in, from cache", f"{amount(used.input_tokens)}, {cached:.0%}", ""),
        ("tokens out", amount(used.output_tokens), ""),
        ("median time", duration(quantile(times, 0.5)) if times else "–", ""),
    ]
    return tag(
        "dl", *(tag("div", tag("dt", name), tag("dd", value), class_=kind or None) for name, value, kind in cards),
        class_="facts",
    )  # fmt: skip


def _pictures(folder: RunFolder, figures: Figures) -> Markup:
    counts = [(status, count) for status in STATUSES if (count := figures.by_status[status])]
    if pending := folder.total - len(figures.tasks):
        counts.append(("pending", pending))
    tasks = figures.tasks
    priced = [(task.cost_usd, task.is_ok) for task in tasks if task.cost_usd is not None]
    plots = (
        histogram("Duration", [(task.duration_s, task.is_ok) for task in tasks], duration, "Nothing is recorded yet."),
        histogram("Cost", priced, money, "No price is known for the models of this run."),
        histogram("Tokens", [(task.tokens, task.is_ok) for task in tasks], amount, "Nothing is recorded yet."),
        over_time("Done over time", tasks, duration),
    )
    return join(
        tag("section", tag("h2", "Status"), status_bar(counts), class_="status"),
        tag("section", tag("h2", "How long, how much"), legend(), tag("div", *plots, class_="plots")),
    )


# ---- below ---------------------------------------------------------------------------------------------


def _failures(figures: Figures, links: _Links) -> Markup | None:
    groups = figures.groups
    if not groups:
        return None
    shown = [_group(group, links) for group in groups[:_MOST_GROUPS]]
    more = len(groups) - len(shown)
    rest = tag("p", f"{more:,} more kinds of failure are in the table.", class_="dim") if more else None
    return tag("section", tag("h2", "What went wrong"), tag("div", *shown, class_="groups"), rest)


def _group(group: FailureGroup, links: _Links) -> Markup:
    more = group.count - len(group.ids)
    ids = [tag("li", links.to_folder(task)) for task in group.ids]
    if more:
        ids.append(tag("li", f"and {more:,} more", class_="dim"))
    kind = None if group.kind == group.status else tag("span", first_words(group.kind, 60), class_="dim")
    return tag(
        "article",
        tag("h3", _chip(group.status), tag("b", f"{group.count:,}"), " ", kind),
        tag("p", first_words(group.sentence, _WORDS_OF_A_GROUP) or "Nothing was said about it."),
        tag("ul", *ids, class_="ids"),
    )


def _chip(status: str) -> Markup:
    return tag("span", tag("i", class_=f"st {status}"), status, class_="chip")


def _table(folder: RunFolder, figures: Figures, links: _Links) -> Markup:
    names = ("task", "status", "attempts", "time", "cost", "tokens", "patch", "said", "files")
    numbers = ("attempts", "time", "cost", "tokens")
    head = tag("tr", *(tag("th", name, class_="n" if name in numbers else None, scope="col") for name in names))
    rows = (_row(record, links) for record in islice(folder.records(), _MOST_ROWS))
    parts = []
    while part := list(islice(rows, _ROWS_OF_A_PART)):
        parts.append(tag("tbody", *part))
    hidden = len(figures.tasks) - _MOST_ROWS
    cut = "In the order of the list."
    if hidden > 0:
        cut = f"The first {_MOST_ROWS:,} in the order of the list; {hidden:,} more are in results.csv beside the run."
    return tag(
        "section",
        tag("h2", "Tasks"),
        tag("p", cut, class_="dim"),
        tag("div", tag("table", tag("thead", head), *parts), class_="wide"),
    )


def _row(record: Record, links: _Links) -> Markup:
    tokens = record.usage.input_tokens + record.usage.output_tokens
    files = list(links.files(record.id))
    for place in range(len(files) - 1, 0, -1):
        files.insert(place, tag("span", " "))
    return tag(
        "tr",
        tag("th", links.to_folder(record.id), scope="row"),
        tag("td", _chip(record.status)),
        tag("td", record.attempts, class_="n"),
        tag("td", duration(record.duration_s), class_="n"),
        tag("td", money(record.cost_usd), class_="n"),
        tag("td", amount(tokens), class_="n"),
        tag("td", _patch(record, links), class_="patch"),
        tag("td", first_words(said_of(record), _WORDS_OF_A_ROW), class_="said"),
        tag("td", *files, class_="files"),
    )


def _patch(record: Record, links: _Links) -> Markup | str:
    if record.patch is None:
        return "–"
    patch = record.patch
    changes = f"+{patch.added} −{patch.removed}"
    files = f" in {patch.files:,} {'file' if patch.files == 1 else 'files'}"
    return join(links.to(record.id, "patch.diff", changes), tag("span", files, class_="dim"))
