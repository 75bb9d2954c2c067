"""`spindle threads export`: a recorded thread as a document for people, or as JSON for programs."""

from __future__ import annotations

import sys
from functools import partial

import msgspec

from spindle.api.documents import markdown, page
from spindle.frontends.app_server.objects import Thread, Turn
from spindle.frontends.app_server.threads import thread_from_file, turns_with_calls
from spindle.frontends.export_blocks import document_of
from spindle.frontends.launch import config_from, home_from
from spindle.frontends.options import Parsed
from spindle.protocol.clock import SystemClock
from spindle.protocol.items import encode_payload
from spindle.protocol.quote import visible
from spindle.thread.store import ThreadStore

_OF_A_SERVER = ("status", "turns")
"""Fields of a thread that say something only while a server runs, or stand beside it here."""


def run(parsed: Parsed, words: list[str]) -> int:
    store = ThreadStore(home_from(), SystemClock())
    ref = store.choose(words[0])
    data = store.read(ref)
    for notice in data.notices():
        print(f"warning: {visible(notice)}", file=sys.stderr)
    thread = thread_from_file(ref, data, store.names.all().get(ref.id))
    content = rendered(thread, turns_with_calls(data.records, thread.cwd), parsed.value("format") or "markdown")
    file = parsed.value("output")
    if file is None or file == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return 0
    from spindle.frontends.page_file import write_page  # only where there is a file

    write_page(content, file, partial(config_from, parsed))
    print(visible(file))
    return 0


def rendered(thread: Thread, turns: list[Turn], form: str) -> bytes:
    match form:
        case "json":
            facts = {name: value for name, value in msgspec.to_builtins(thread).items() if name not in _OF_A_SERVER}
            return encode_payload({"thread": facts, "turns": msgspec.to_builtins(turns)}) + b"\n"
        case "html":
            return page(document_of(thread, turns)).encode("utf-8", "replace")
        case _:
            return markdown(document_of(thread, turns)).encode("utf-8", "replace")
