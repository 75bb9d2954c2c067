"""How long to wait before asking again. Waiting itself, and counting, is the caller's."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

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


def asked_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by the headers of an answer; some servers also tell them in milliseconds."""
    try:
        exact = _capped(float(headers.get("retry-after-ms", "")) / 1000)
    except ValueError:
        exact = None
    return parse_retry_after(headers.get("retry-after"), now, headers.get("date")) if exact is None else exact


def parse_try_again(message: str) -> float | None:
    """Seconds to wait by a sentence like "Please try again in 1.5s" (also "retry after", ms, 1m30s, minutes)."""
    found = _TRY_AGAIN.search(message)
    if found is None:
        return None
    return _capped(sum(float(number) * _seconds_in(unit.lower()) for number, unit in _AMOUNT.findall(found[1])))


def _seconds_in(unit: str) -> float:
    if unit.startswith(("ms", "mil")):
        return 0.001
    return {"m": 60.0, "h": 3600.0}.get(unit[0], 1.0)


_UNIT = r"(?:ms|milliseconds?|seconds?|secs?|s|minutes?|mins?|m|hours?|h)"
_AMOUNT = re.compile(rf"(\d+(?:\.\d+)?)\s*({_UNIT})", re.IGNORECASE)
_TRY_AGAIN = re.compile(rf"\b(?:try again|retry) (?:in|after)\s*((?:\d+(?:\.\d+)?\s*{_UNIT})+)(?![a-z])", re.IGNORECASE)


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
