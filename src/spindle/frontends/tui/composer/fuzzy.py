"""Which names fit what a person typed, and in which order."""

from __future__ import annotations

from typing import NamedTuple


class Rank(NamedTuple):
    """Smaller is better: how it matches, then how long it is, then its letters."""

    kind: int
    length: int
    name: str


def _has_letters(text: str, letters: str, start: int = 0) -> bool:
    """The letters are there in their order, with anything between them. Takes as long as the text, whatever it is."""
    for letter in letters:
        start = text.find(letter, start) + 1
        if not start:
            return False
    return True


def path_kind(path: str, query: str) -> int | None:
    """How a path matches, both in small letters; None if not. The last part of the path counts most."""
    if not query:
        return path.count("/")  # the nearest ones
    place = path.rfind(query)
    if place < 0:
        if not _has_letters(path, query):
            return None
        return 4 if _has_letters(path, query, path.rfind("/") + 1) else 5
    start = path.rfind("/") + 1
    if place < start:
        return 3
    if not path.startswith(query, start):
        return 2
    return 0 if len(path) - start == len(query) else 1


def rank_path(path: str, query: str) -> Rank | None:
    kind = path_kind(path.lower(), query)
    return None if kind is None else Rank(kind, len(path), path)


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
        elif _has_letters(lowered, query):
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
