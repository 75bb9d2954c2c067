"""The symbolic links on the way along a path."""

from __future__ import annotations

import os
from collections.abc import Generator

_MOST_LINKS = 100
"""The kernel itself follows forty."""


def links_towards(path: str) -> Generator[str, None, str | None]:
    """Every symbolic link on the way along `path`, each by its own real place. Whoever turns it changes the end.

    Returns the end, or None after too many links: then the way leads nowhere.
    """
    waiting, place, left = path.split("/")[::-1], "/", _MOST_LINKS
    while waiting and left:
        name = waiting.pop()
        if name in ("", "."):
            continue
        if name == "..":
            place = os.path.dirname(place)
            continue
        here = f"{place.rstrip('/')}/{name}"
        if not os.path.islink(here):
            place = here
            continue
        yield here
        left -= 1
        target = os.readlink(here)
        place = "/" if target.startswith("/") else place
        waiting += target.split("/")[::-1]
    return place if left else None
