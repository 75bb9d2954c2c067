"""The command: which thread, which form, where to."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from spindle.config.schema import Config
from spindle.errors import ThreadNotFound, UsageError
from spindle.frontends.context_terms import Terms
from spindle.frontends.launch import config_from, home_from, working_folder
from spindle.frontends.options import Parsed, whole_number
from spindle.lookback.inspection import Inspection, inspect_thread
from spindle.protocol.clock import SystemClock
from spindle.protocol.items import encode_payload
from spindle.protocol.quote import visible
from spindle.thread.store import ThreadRef, ThreadStore

_USAGE = "usage: spindle context THREAD [--json | --html [FILE]] [--request N] (an id, a name, a file, or --last)"


def run(parsed: Parsed, words: list[str]) -> int:
    words = list(words)
    is_page = "html" in parsed.values
    file = parsed.value("html") or None
    if is_page and parsed.flag("json"):
        raise UsageError("--json and --html do not go together")
    if is_page and file is None and len(words) > (0 if parsed.flag("last") else 1):
        # `--html FILE`; the thread may stand before it or after it.
        file = words.pop(next((place for place, word in enumerate(words) if _is_page_name(word)), -1))
    number = _number(parsed.value("request"))
    store = ThreadStore(home_from(), SystemClock())
    ref = _thread(store, parsed, words)
    data = store.read(ref)
    terms = Terms(partial(config_from, parsed), data.meta.get("model_provider"))
    found = inspect_thread(data, terms.prices_of)
    if terms.problem:
        found.report.notices.append(terms.problem)
    if number is not None:
        found.input_of(number)  # no such request is said before anything is written
    name = store.names.all().get(found.report.thread_id)
    if is_page:
        from spindle.frontends.context.page import render  # only for a page

        page = render(found, name, number, compaction_limit=terms.compaction_limit(_last_model(found)))
        return _write_page(page.encode(), file, found.report.thread_id, partial(config_from, parsed))
    if parsed.flag("json"):
        sys.stdout.buffer.write(_json(found, name, number) + b"\n")
        return 0
    from spindle.frontends.context_table import one_request, overview  # only for people

    width = shutil.get_terminal_size((100, 24)).columns
    _print(overview(found, name, width) if number is None else one_request(found, number))
    return 0


def _last_model(found: Inspection) -> str | None:
    return next((request.model for request in reversed(found.report.requests) if request.model), None)


def _is_page_name(word: str) -> bool:
    return word == "-" or word.lower().endswith((".html", ".htm"))


def _number(given: str | None) -> int | None:
    if given is None:
        return None
    number = whole_number(given)
    if number is None:
        raise UsageError(f"--request takes the number of a request, from 1 on, not {given!r}")
    return number


def _thread(store: ThreadStore, parsed: Parsed, words: list[str]) -> ThreadRef:
    if parsed.flag("last"):
        if words:
            raise UsageError(_USAGE)
        folder = working_folder(parsed.value("cd"))
        ref = store.latest(folder, include_other_cwds=parsed.flag("all"))
        if ref is None:
            where = "" if parsed.flag("all") else " in this folder (--all looks in every one)"
            raise ThreadNotFound(f"no thread is recorded{where}")
        return ref
    if len(words) != 1:
        raise UsageError(_USAGE)
    if store.find(words[0]) is None and os.path.isfile(words[0]):
        return ThreadRef(id="", path=os.path.abspath(words[0]))
    try:
        return store.choose(words[0])
    except ThreadNotFound as error:
        raise ThreadNotFound(
            f"no thread has the id or the name {words[0]!r}, and there is no such file either"
        ) from error


def _json(found: Inspection, name: str | None, number: int | None) -> bytes:
    if number is None:
        return encode_payload({"name": name, **msgspec.to_builtins(found.report)})
    costs = found.costs_of(number)
    return encode_payload(
        {
            "version": found.report.version,
            "thread_id": found.report.thread_id,
            "request": msgspec.to_builtins(found.report.requests[number - 1]),
            "instructions": found.instructions,
            "items": msgspec.to_builtins(costs.items),
            "input": found.input_of(number),
        }
    )


def _write_page(page: bytes, file: str | None, thread_id: str, load: Callable[[], Config]) -> int:
    if file is None and sys.stdout.isatty():
        file = f"context-{thread_id}.html"  # a terminal has no use for a page
    if file is None or file == "-":
        sys.stdout.buffer.write(page)
        return 0
    from spindle.frontends.page_file import write_page  # only for a page in a file

    write_page(page, file, load)
    _print([visible(file)])
    return 0


def _print(lines: Iterable[str]) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # not every terminal can show what a thread holds
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
