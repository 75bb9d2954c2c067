"""Which names fit what a person typed, and in which order."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Rank(NamedTuple):
    """Smaller is better: how it matches, then how long it is, then its letters."""

    kind: int
    length: int
    name: str


@lru_cache(maxsize=16)
def _scattered(query: str) -> re.Pattern[str]:
    """The letters in their order, with anything between them."""
    return re.compile(".*?".join(map(re.escape, query)), re.DOTALL)


def rank_path(path: str, lowered: str, query: str) -> Rank | None:
    """How well a path fits (`query` in small letters); None if not. The last part of the path counts most."""
    if not query:
        return Rank(lowered.count("/"), 0, path)  # the nearest ones
    start = lowered.rfind("/") + 1
    place = lowered.rfind(query)
    if place >= start:
        is_start = place == start or lowered.startswith(query, start)
        kind = 0 if is_start and len(lowered) - start == len(query) else 1 if is_start else 2
    elif place >= 0:
        kind = 3
    elif _scattered(query).search(lowered, start):
        kind = 4
    elif _scattered(query).search(lowered):
        kind = 5
    else:
        return None
    return Rank(kind, len(path), path)


def rank_name(names: tuple[str, ...], query: str) -> int | None:
    """How well a name or one of its aliases fits; None if not."""
    best: int | None = None
    for is_alias, name in enumerate(names):
        lowered = name.lower()
        if lowered == query:
            kind = 0
        elif lowered.startswith(query):
            kind = 1
        elif query in lowered:
            kind = 3
        elif _scattered(query).search(lowered):
            kind = 5
        else:
            continue
        kind += bool(is_alias)
        best = kind if best is None else min(best, kind)
    return best


def matched_places(shown: str, query: str) -> frozenset[int]:
    """Which letters of a name are the ones that were typed."""
    lowered, query = shown.lower(), query.lower()
    if len(lowered) != len(shown) or not query:
        return frozenset()
    place = lowered.rfind(query)
    if place >= 0:
        return frozenset(range(place, place + len(query)))
    places: list[int] = []
    place = -1
    for letter in query:
        place = lowered.find(letter, place + 1)
        if place < 0:
            return frozenset()
        places.append(place)
    return frozenset(places)
