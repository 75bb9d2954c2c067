"""`thread/search`: recorded threads in which something was said, each with the words around the place."""

from __future__ import annotations

import asyncio
from typing import Literal

from spindle.api.records import snippet_of
from spindle.frontends.app_server.method import Call, Method
from spindle.frontends.app_server.methods.records import INTERACTIVE, Direction, listed, source_kinds
from spindle.frontends.app_server.objects import Thread, Wire
from spindle.frontends.app_server.rpc import INVALID_PARAMS, RpcError
from spindle.frontends.app_server.threads import page_size
from spindle.thread.listing import ThreadFilter, ThreadOrder, ThreadPage


class SearchParams(Wire, frozen=True, kw_only=True):
    search_term: str
    cursor: str | None = None
    limit: int = 25
    sort_key: Literal["created_at", "updated_at", "recency_at"] = "created_at"
    sort_direction: Direction = "desc"
    source_kinds: list[str] = []
    archived: bool = False


class Found(Wire, frozen=True, kw_only=True):
    thread: Thread
    snippet: str


class SearchResult(Wire, frozen=True, kw_only=True):
    data: list[Found]
    next_cursor: str | None
    backwards_cursor: str | None


async def thread_search(call: Call, params: SearchParams) -> Wire:
    term = params.search_term.strip()
    if not term:
        raise RpcError("searchTerm must not be empty", INVALID_PARAMS)
    page, snippets = await asyncio.to_thread(_search, call, params, term)
    threads = zip(page.threads, snippets, strict=True)
    data = [Found(thread=listed(call, summary), snippet=snippet) for summary, snippet in threads]
    return SearchResult(data=data, next_cursor=page.next_cursor, backwards_cursor=page.backwards_cursor)


def _search(call: Call, params: SearchParams, term: str) -> tuple[ThreadPage, list[str]]:
    store = call.server.store
    page = store.list(
        ThreadFilter(archived=params.archived, sources=source_kinds(params.source_kinds) or INTERACTIVE, search=term),
        order=ThreadOrder(
            key="created_at" if params.sort_key == "created_at" else "updated_at",
            descending=params.sort_direction == "desc",
        ),
        cursor=params.cursor,
        limit=page_size(params.limit),
    )
    return page, [snippet_of(store, summary, term) for summary in page.threads]


METHODS = (
    Method(name="thread/search", params=SearchParams, result=SearchResult, run=thread_search, is_experimental=True),
)
