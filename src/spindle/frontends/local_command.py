"""`spindle local add | list | remove`: the models that Spindle runs itself."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib.util import find_spec

import msgspec

from spindle.config.local_models import Progress
from spindle.errors import UsageError
from spindle.frontends.fit import table
from spindle.frontends.launch import home_from
from spindle.frontends.options import Parsed
from spindle.frontends.plain_text import printable
from spindle.frontends.pulling import PullView, is_live
from spindle.frontends.terminal import STDOUT, columns_of
from spindle.local.download import download
from spindle.local.endpoint import MISSING
from spindle.local.plan import describe, free_memory, plan_for, speed_words
from spindle.local.store import LocalModel, ModelStore, copy_in, name_for, read_sha256


def run(parsed: Parsed, words: list[str]) -> int:
    store = ModelStore(home_from())
    match parsed.command[1]:
        case "add":
            return _add(store, parsed, words[0])
        case "remove":
            model = store.remove(words[0])
            print(f"removed {model.name} ({model.size_bytes / 1e9:.2f} GB)")
            return 0
        case _:
            return _list(store, as_json=parsed.flag("json"))


def _add(store: ModelStore, parsed: Parsed, source: str) -> int:
    is_address = source.lower().startswith(("http://", "https://"))
    if not is_address and "://" in source:
        raise UsageError(f"{source!r}: a model is added from a file, or from an http or https address")
    given = parsed.value("sha256")
    wanted = read_sha256(given) if given is not None else None
    name = parsed.value("name") or name_for(source)
    view = PullView(name, sys.stderr, is_live=is_live())

    def advance(done: int, total: int) -> None:
        view.show(Progress("getting it" if is_address else "copying it", done, total))

    try:
        if is_address:
            model = asyncio.run(download(store, source, name, wanted, os.environ, advance))
        else:
            model = copy_in(store, source, name, wanted, advance)
    finally:
        view.end()
    print(f"added {model.name}\nsha256 {model.sha256}")
    for sentence in describe(plan_for(model, context=None, threads=None, free_bytes=free_memory())):
        print(sentence)
    if find_spec("xllamacpp") is None:
        print(MISSING)
    print(f"Use it with: spindle -c model_provider=local -m {model.name}")
    return 0


def _list(store: ModelStore, *, as_json: bool) -> int:
    models = store.all()
    if as_json:
        for model in models:
            sys.stdout.buffer.write(msgspec.json.encode(_record(model)) + b"\n")
        return 0
    if not models:
        print("no model has been added; `spindle local add FILE` adds one", file=sys.stderr)
        return 0
    rows = [("NAME", "SIZE", "KIND", "WINDOW", "SPEED")]
    for model in models:
        facts = model.facts
        kind = printable(" ".join(filter(None, (facts.architecture, facts.quantization))))
        size, window = f"{model.size_bytes / 1e9:.2f} GB", str(facts.context_length or "?")
        rows.append((model.name, size, kind, window, speed_words(model) or "not measured yet"))
    print(table(rows, columns_of(STDOUT)))
    return 0


def _record(model: LocalModel) -> dict[str, object]:
    facts = model.facts
    return {
        "name": model.name,
        "path": model.path,
        "size_bytes": model.size_bytes,
        "sha256": model.sha256,
        "source": model.source,
        "architecture": facts.architecture,
        "quantization": facts.quantization,
        "context_length": facts.context_length,
        "reads_per_second": model.reads_per_s,
        "writes_per_second": model.writes_per_s,
    }
