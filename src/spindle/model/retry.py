"""How long to wait before asking again. Waiting itself, and counting, is the caller's."""

from __future__ import annotations

import re
import time

from spindle.protocol.clock import Clock

FIRST_DELAY_S = 0.2
MAX_BACKOFF_S = 60.0
MAX_SERVER_DELAY_S = 60.0
"""A server that asks for more than this is asked again after a minute all the same; an hour would look like a hang."""


def backoff_s(attempt: int, clock: Clock) -> float:
    """The wait before retry number `attempt` (from 1): 0.2 s, doubled each time, up to a minute, give or take 10 %."""
    doublings = min(max(attempt, 1) - 1, 16)
    delay = min(FIRST_DELAY_S * 2**doublings, MAX_BACKOFF_S)
    return delay * (0.9 + 0.2 * clock.random())


def parse_retry_after(value: str | None, now: float, date: str | None = None) -> float | None:
    """Seconds to wait by a `retry-after` header, which holds seconds or an HTTP date. None when it says neither.

    `date` is the header of this name: a date is judged by the clock of the server that wrote it, as long as it tells.
    """
    text = (value or "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        moment = _http_date(text)
        if moment is None:
            return None
        seconds = moment - ((_http_date(date) if date else None) or now)
    return _capped(seconds)


def parse_try_again(message: str) -> float | None:
    """Seconds to wait by a sentence like "Please try again in 1.5s" (also "retry in", ms, seconds)."""
    found = re.search(
        r"\b(?:try again|retry) in\s*(\d+(?:\.\d+)?)\s*(ms|milliseconds?|seconds?|s)\b", message, re.IGNORECASE
    )
    if found is None:
        return None
    number, unit = float(found[1]), found[2].lower()
    return _capped(number / 1000 if unit.startswith("m") else number)


def _capped(seconds: float) -> float | None:
    if seconds != seconds:  # a server may send "nan", and float() takes it
        return None
    return min(max(seconds, 0.0), MAX_SERVER_DELAY_S)


def _http_date(text: str) -> float | None:
    import calendar  # only for the rare header that holds a date

    for layout in ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"):
        try:
            return float(calendar.timegm(time.strptime(text, layout)))
        except ValueError:
            continue
    return None
