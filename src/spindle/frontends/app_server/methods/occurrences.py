"""`thread/searchOccurrences` and `thread/items/read`: places within one thread."""

from __future__ import annotations

from collections.abc import Iterator

from spindle.frontends.app_server.method import Call, Method
from spindle.frontends.app_server.methods.records import ItemEntry, turns_in
from spindle.frontends.app_server.objects import AgentMessageItem, ThreadItem, Turn, UserMessageItem, Wire
from spindle.frontends.app_server.rpc import RpcError
from spindle.frontends.app_server.threads import MAX_PAGE, page

MAX_ITEMS = 100
_BEFORE, _AFTER = 60, 140
"""Characters of a snippet around its match."""


class OccurrencesParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    search_term: str
    cursor: str | None = None
    limit: int | None = None


class TextRange(Wire, frozen=True, kw_only=True):
    """In UTF-16 code units, as JavaScript counts."""

    start: int
    end: int


class Occurrence(Wire, frozen=True, kw_only=True):
    turn_id: str
    item_id: str
    snippet: str
    snippet_match_range: TextRange
    turn_cursor: str
    """Begins `thread/turns/list` with this turn."""


class OccurrencesResult(Wire, frozen=True, kw_only=True):
    data: list[Occurrence]
    next_cursor: str | None


class ItemsReadParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    turn_id: str
    item_ids: list[str]


class ItemsReadResult(Wire, frozen=True, kw_only=True):
    data: list[ItemEntry]


async def search_occurrences(call: Call, params: OccurrencesParams) -> Wire:
    term = params.search_term.strip()
    if not term:
        raise RpcError("thread/searchOccurrences requires a non-empty searchTerm")
    turns = await turns_in(call, params.thread_id)
    found = [place for turn in turns for item in turn.items for place in _places(turn, item, term)]
    keys = [f"{place.item_id} {number}" for number, place in enumerate(found)]
    limit = MAX_PAGE if params.limit is None else params.limit
    chosen, following, _ = page(found, keys, cursor=params.cursor, limit=limit, descending=False)
    return OccurrencesResult(data=chosen, next_cursor=following)


def _places(turn: Turn, item: ThreadItem, term: str) -> Iterator[Occurrence]:
    for text in _texts(item):
        folded, wanted = text.lower(), term.lower()
        if len(folded) != len(text):
            folded, wanted = text, term  # a letter that is longer in small letters: places would not be right
        at = folded.find(wanted)
        while at >= 0:
            start = max(0, at - _BEFORE)
            before, match = text[start:at], text[at : at + len(wanted)]
            yield Occurrence(
                turn_id=turn.id,
                item_id=item.id,
                snippet=text[start : at + len(wanted) + _AFTER],
                snippet_match_range=TextRange(start=_units(before), end=_units(before) + _units(match)),
                turn_cursor=f"={turn.id}",
            )
            at = folded.find(wanted, at + len(wanted))


def _texts(item: ThreadItem) -> list[str]:
    if isinstance(item, UserMessageItem):
        return [text for part in item.content if isinstance(text := getattr(part, "text", None), str)]
    return [item.text] if isinstance(item, AgentMessageItem) else []


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


async def items_read(call: Call, params: ItemsReadParams) -> Wire:
    if not 1 <= len(params.item_ids) <= MAX_ITEMS:
        raise RpcError(f"itemIds must contain 1 to {MAX_ITEMS} IDs")
    wanted = set(params.item_ids)
    entries = [
        ItemEntry(turn_id=turn.id, item=item)
        for turn in await turns_in(call, params.thread_id)
        if turn.id == params.turn_id
        for item in turn.items
        if item.id in wanted
    ]
    return ItemsReadResult(data=entries)


METHODS = (
    Method(
        name="thread/searchOccurrences",
        params=OccurrencesParams,
        result=OccurrencesResult,
        run=search_occurrences,
        is_experimental=True,
    ),
    Method(
        name="thread/items/read", params=ItemsReadParams, result=ItemsReadResult, run=items_read, is_experimental=True
    ),
)
