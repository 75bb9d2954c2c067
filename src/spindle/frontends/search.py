"""`spindle threads search`: where something was said, in the recorded threads of every folder."""

from __future__ import annotations

import sys
from itertools import islice

import msgspec

from spindle.api.records import MAX_LIST, each_match
from spindle.errors import UsageError
from spindle.frontends.launch import home_from
from spindle.frontends.options import Parsed, whole_number
from spindle.frontends.plain_text import printable
from spindle.protocol.clock import SystemClock
from spindle.protocol.quote import visible
from spindle.thread.store import ThreadStore

_LIMIT = 100


def run(parsed: Parsed, words: list[str]) -> int:
    texts = [word.strip() for word in words if word.strip()]
    if not texts:
        raise UsageError("there is nothing to search for: the words are empty")
    store = ThreadStore(home_from(), SystemClock())
    found = 0
    for match in islice(each_match(store, texts), _limit_of(parsed)):
        found += 1
        if parsed.flag("json"):
            sys.stdout.buffer.write(msgspec.json.encode(match) + b"\n")
            sys.stdout.buffer.flush()
        else:
            where = f"{match.thread_id}  {visible(match.turn_id)}" if match.turn_id else match.thread_id
            print(f"{where}\n  {printable(match.snippet)}")
    if not found and not parsed.flag("json"):
        print("nothing found")
    return 0


def _limit_of(parsed: Parsed) -> int:
    text = parsed.value("limit")
    if text is None:
        return _LIMIT
    number = whole_number(text)
    if number is None or not 1 <= number <= MAX_LIST:
        raise UsageError(f"--limit takes a number from 1 to {MAX_LIST}, not {text!r}")
    return number
