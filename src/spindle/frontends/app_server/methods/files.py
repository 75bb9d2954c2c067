"""`fuzzyFileSearch`: files whose path holds the letters of a query, in their order; best first."""

from __future__ import annotations

import asyncio
import os
import threading
import time

from spindle.frontends.app_server.method import Call, Method
from spindle.frontends.app_server.notifications import FoundFile
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.rpc import RpcError

MAX_FOUND = 50
MAX_FILES = 200_000
"""Files that are looked at; what lies beyond is not found."""
TIME_LIMIT_S = 10.0


class FuzzyFileSearchParams(Wire, frozen=True, kw_only=True):
    query: str
    roots: list[str]
    cancellation_token: str | None = None
    """A later search with the same token ends this one."""


class FuzzyFileSearchResult(Wire, frozen=True, kw_only=True):
    files: list[FoundFile]


async def fuzzy_file_search(call: Call, params: FuzzyFileSearchParams) -> Wire:
    for root in params.roots:
        if not os.path.isabs(root):
            raise RpcError(f"a root must be an absolute path, not {root!r}")
    ended = threading.Event()
    token = params.cancellation_token
    if token is not None:
        if (earlier := call.server.searches.get(token)) is not None:
            earlier.set()
        call.server.searches[token] = ended
    try:
        found = await asyncio.to_thread(search, params.query, params.roots, ended)
    finally:
        ended.set()
        if token is not None and call.server.searches.get(token) is ended:
            del call.server.searches[token]
    return FuzzyFileSearchResult(files=found)


def search(query: str, roots: list[str], ended: threading.Event) -> list[FoundFile]:
    """Look through all files below the roots that no ignore file excludes. Stops early when `ended` is set."""
    from spindle.tools.search_worker import files_below  # it is a program of its own, too

    wanted = query.strip()
    if not wanted:
        return []
    found: list[FoundFile] = []
    looked_at = 0
    deadline = time.monotonic() + TIME_LIMIT_S
    for root in roots:
        if not os.path.isdir(root):
            continue
        for path, _, name in files_below(root, None):
            looked_at += 1
            if looked_at > MAX_FILES or ended.is_set() or time.monotonic() > deadline:
                break
            shown = os.path.relpath(path, root)
            if (match := rate(wanted, shown)) is not None:
                score, indices = match
                found.append(FoundFile(root=root, path=shown, file_name=name, score=score, indices=indices))
    found.sort(key=lambda file: (-file.score, len(file.path), file.path))
    return found[:MAX_FOUND]


def rate(query: str, path: str) -> tuple[int, list[int]] | None:
    """How well the path fits, and where the letters are; None when it does not.

    Letters in a row, at the beginning of a word and in the file's own name count more. Capitals count only if the
    query has some.
    """
    has_capitals = query != query.lower()
    text = path if has_capitals else path.lower()
    start_of_name = path.rfind("/") + 1
    # In the name alone if that is enough, else anywhere.
    places = _places(query, text, start_of_name) or _places(query, text, 0)
    if places is None:
        return None
    score = 0
    for number, place in enumerate(places):
        score += 16
        if number and places[number - 1] == place - 1:
            score += 12
        if place == 0 or not path[place - 1].isalnum() or (path[place].isupper() and path[place - 1].islower()):
            score += 8
        if place >= start_of_name:
            score += 4
    return max(1, score - (places[-1] - places[0] + 1 - len(places))), places


def _places(query: str, text: str, start: int) -> list[int] | None:
    """Where the letters of the query are, found forwards and then drawn together from the last one."""
    at = start
    for letter in query:
        at = text.find(letter, at) + 1
        if at == 0:
            return None
    places: list[int] = []
    end = at
    for letter in reversed(query):
        end = text.rfind(letter, start, end)
        places.append(end)
    return places[::-1]


METHODS = (
    Method(name="fuzzyFileSearch", params=FuzzyFileSearchParams, result=FuzzyFileSearchResult, run=fuzzy_file_search),
)
