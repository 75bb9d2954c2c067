"""`spindle fleet status`: where a run is."""

from __future__ import annotations

import sys

import msgspec

from spindle.fleet.folder import RunFolder
from spindle.fleet.looking import State, look
from spindle.frontends.options import Parsed
from spindle.protocol.clock import SystemClock

_SHOWN = 10


def run(parsed: Parsed, words: list[str]) -> int:
    state = look(RunFolder(words[0]), SystemClock())
    if parsed.flag("json"):
        sys.stdout.write(msgspec.json.encode(state).decode() + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in lines_of(state)))
    return 0


def lines_of(state: State) -> list[str]:
    used = state.usage
    cost = "cost unknown" if state.cost_usd is None else f"${state.cost_usd:.2f}"
    lines = [
        f"{state.recorded} of {state.total} recorded, {state.pending} pending, {state.running} running; "
        + ("a driver is at work" if state.alive else "no driver is at work"),
        *(f"  {count:6} {status}" for status, count in state.by_status.items()),
        f"{used.requests} requests, {used.input_tokens} tokens in ({used.cached_input_tokens} cached), "
        f"{used.output_tokens} out, {cost}",
    ]
    if state.limited_by is not None:
        lines.append(f"limited by {state.limited_by}")
    if state.slow:
        more = f" and {len(state.slow) - _SHOWN} more" if len(state.slow) > _SHOWN else ""
        lines.append(f"slow: {', '.join(state.slow[:_SHOWN])}{more}")
    return lines
