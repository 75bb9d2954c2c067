"""`spindle replay`: are the requests of a recorded thread still the same when they are built anew?"""

from __future__ import annotations

import os
import sys

import msgspec

from spindle import __version__
from spindle.errors import ThreadError, ThreadNotFound, UsageError
from spindle.frontends.launch import home_from
from spindle.frontends.options import Parsed
from spindle.lookback.replay import Replayed, replay_thread
from spindle.protocol.clock import SystemClock
from spindle.protocol.items import encode_payload
from spindle.protocol.quote import visible
from spindle.thread.store import ThreadRef, ThreadStore

IDENTICAL, DIFFERENT, IMPOSSIBLE = 0, 1, 2


def run(parsed: Parsed, words: list[str]) -> int:
    if len(words) != 1:
        raise UsageError("usage: spindle replay THREAD [--json] (an id, a name, or a file)")
    store = ThreadStore(home_from(), SystemClock())
    try:
        found = replay_thread(store.read(_thread(store, words[0])))
    except ThreadError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
        return IMPOSSIBLE
    if parsed.flag("json"):
        difference = found.first_difference and msgspec.to_builtins(found.first_difference)
        said = {"requests": found.requests, "identical": found.identical, "first_difference": difference}
        sys.stdout.buffer.write(encode_payload(said) + b"\n")
    else:
        print(_sentences(found))
    return IDENTICAL if found.first_difference is None else DIFFERENT


def _thread(store: ThreadStore, word: str) -> ThreadRef:
    if store.find(word) is None and os.path.isfile(word):
        return ThreadRef(id="", path=os.path.abspath(word))
    try:
        return store.choose(word)
    except ThreadNotFound as error:
        raise ThreadNotFound(f"no thread has the id or the name {word!r}, and there is no such file either") from error


def _sentences(found: Replayed) -> str:
    said = f"{found.identical} of {found.requests} requests identical"
    if found.first_difference is None:
        return said
    number, path = found.first_difference.request, visible(found.first_difference.path)
    said += f"\nrequest {number} is the first that differs, at {path or 'its beginning'}"
    others = [version for version in found.versions if version != __version__]
    if others:
        said += f"\nit was recorded by Spindle {visible(', '.join(others))}, and rebuilt by {__version__}"
    return said
