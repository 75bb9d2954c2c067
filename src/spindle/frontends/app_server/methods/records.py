"""Recorded threads: `thread/list`, `read`, `turns/list`, `archive`, `name/set`, `rollback` and the like."""

from __future__ import annotations

import asyncio
from typing import Literal

from spindle.errors import ThreadNotFound
from spindle.frontends.app_server.loaded import LoadedThread
from spindle.frontends.app_server.method import After, Call, Method, Nothing
from spindle.frontends.app_server.methods.turns import ThreadParams
from spindle.frontends.app_server.notifications import (
    Note,
    ThreadArchived,
    ThreadDeleted,
    ThreadNameUpdated,
    ThreadReverted,
    ThreadUnarchived,
)
from spindle.frontends.app_server.objects import (
    FunctionCallOutputItem,
    NotLoaded,
    Thread,
    ThreadItem,
    Turn,
    UserMessageItem,
    Wire,
)
from spindle.frontends.app_server.rpc import INVALID_PARAMS, RpcError
from spindle.frontends.app_server.threads import (
    MAX_PAGE,
    Direction,
    TurnsPage,
    TurnsPageParams,
    last_cursors,
    page,
    page_size,
    recorded_turns,
    thread_from_file,
    thread_from_summary,
    turns_page,
    with_git,
)
from spindle.protocol.ops import ThreadRollback, Undo
from spindle.thread.listing import ThreadFilter, ThreadOrder, ThreadSummary
from spindle.thread.store import ThreadRef

INTERACTIVE = ["cli", "vscode"]
MAX_NAME_CHARACTERS = 1000


class ThreadListParams(Wire, frozen=True, kw_only=True):
    cursor: str | None = None
    limit: int = 25
    sort_key: Literal["created_at", "updated_at", "recency_at"] = "created_at"
    sort_direction: Direction = "desc"
    model_providers: list[str] = []
    source_kinds: list[str] = []
    archived: bool = False
    cwd: str | list[str] | None = None
    search_term: str | None = None
    section_id: str | None = None
    """There are no sections, so none has a thread in it."""


class ThreadListResult(Wire, frozen=True, kw_only=True):
    data: list[Thread]
    next_cursor: str | None
    backwards_cursor: str | None
    read_states: None = None
    """What was read and what was not is not kept."""


class PageParams(Wire, frozen=True, kw_only=True):
    cursor: str | None = None
    limit: int = MAX_PAGE


class LoadedListResult(Wire, frozen=True, kw_only=True):
    data: list[str]
    next_cursor: str | None


class ThreadReadParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    include_turns: bool = False


class ThreadResult(Wire, frozen=True, kw_only=True):
    thread: Thread


class ThreadReadResult(ThreadResult, frozen=True, kw_only=True):
    read_state: None = None
    """What was read and what was not is not kept."""


class TurnsListParams(TurnsPageParams, frozen=True, kw_only=True):
    thread_id: str
    cursor: str | None = None


class ItemsListParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    turn_id: str | None = None
    cursor: str | None = None
    limit: int = 100
    sort_direction: Direction = "asc"


class ItemEntry(Wire, frozen=True, kw_only=True):
    turn_id: str
    item: ThreadItem
    started_at_ms: int | None = None
    completed_at_ms: int | None = None


class ItemsListResult(Wire, frozen=True, kw_only=True):
    data: list[ItemEntry]
    next_cursor: str | None
    backwards_cursor: str | None


class NameSetParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    name: str


class RollbackParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    num_turns: int


class RevertParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    before_turn_id: str


class RevertResult(Wire, frozen=True, kw_only=True):
    thread: Thread
    turns_backwards_cursor: str | None
    """Leads `thread/turns/list` and `thread/items/list` back from the newest entry that is left."""
    items_backwards_cursor: str | None


class UnsubscribeResult(Wire, frozen=True, kw_only=True):
    status: Literal["unsubscribed", "notSubscribed", "notLoaded"]


# ---- looking ---------------------------------------------------------------------------------------


async def thread_list(call: Call, params: ThreadListParams) -> Wire:
    limit = page_size(params.limit)
    if params.section_id is not None:
        return ThreadListResult(data=[], next_cursor=None, backwards_cursor=None)
    found = await asyncio.to_thread(
        call.server.store.list,
        ThreadFilter(
            archived=params.archived,
            cwds=[params.cwd] if isinstance(params.cwd, str) else params.cwd,
            providers=params.model_providers,
            sources=source_kinds(params.source_kinds) or INTERACTIVE,
            search=params.search_term,
        ),
        order=ThreadOrder(
            key="created_at" if params.sort_key == "created_at" else "updated_at",
            descending=params.sort_direction == "desc",
        ),
        cursor=params.cursor,
        limit=limit,
    )
    notes = call.server.store.git_notes.all()
    threads = [with_git(listed(call, summary), notes.get(summary.id)) for summary in found.threads]
    return ThreadListResult(data=threads, next_cursor=found.next_cursor, backwards_cursor=found.backwards_cursor)


def listed(call: Call, summary: ThreadSummary) -> Thread:
    loaded = call.server.threads.get(summary.id)
    return thread_from_summary(summary, loaded.status if loaded is not None else NotLoaded())


def source_kinds(kinds: list[str]) -> list[str]:
    """Kinds as the index knows them: every sort of sub-agent is one, and app servers of old were called mcp."""
    renamed = {"appServer": "mcp"}
    return sorted({"subagent" if kind.startswith("subAgent") else renamed.get(kind, kind) for kind in kinds})


async def loaded_list(call: Call, params: PageParams) -> Wire:
    ids = sorted(call.server.threads)
    chosen, following, _ = page(ids, ids, cursor=params.cursor, limit=params.limit, descending=False)
    return LoadedListResult(data=chosen, next_cursor=following)


async def thread_read(call: Call, params: ThreadReadParams) -> ThreadReadResult:
    loaded = call.server.threads.get(params.thread_id)
    if loaded is not None:
        return ThreadReadResult(thread=call.server.describe(loaded, with_turns=params.include_turns))
    ref = call.server.store.get(params.thread_id)
    return ThreadReadResult(thread=await asyncio.to_thread(_recorded, call, ref, params.include_turns))


def _recorded(call: Call, ref: ThreadRef, with_turns: bool) -> Thread:
    """A thread that is not loaded, by its file."""
    store = call.server.store
    data = store.read(ref)
    turns = recorded_turns(data) if with_turns else ()
    thread = thread_from_file(ref, data, store.names.all().get(ref.id), turns)
    return with_git(thread, store.git_notes.all().get(ref.id))


async def turns_in(call: Call, thread_id: str) -> list[Turn]:
    """The turns of a thread with all their items, whether it is loaded or not."""
    loaded = call.server.threads.get(thread_id)
    if loaded is not None:
        return loaded.turns()
    ref = call.server.store.get(thread_id)
    return await asyncio.to_thread(lambda: recorded_turns(call.server.store.read(ref)))


async def turns_list(call: Call, params: TurnsListParams) -> Wire:
    return turns_page(await turns_in(call, params.thread_id), params, params.cursor)


async def items_list(call: Call, params: ItemsListParams) -> Wire:
    entries = [
        ItemEntry(turn_id=turn.id, item=item)
        for turn in await turns_in(call, params.thread_id)
        if params.turn_id in (None, turn.id)
        for item in turn.items
    ]
    chosen, following, back = page(
        entries,
        [entry.item.id for entry in entries],
        cursor=params.cursor,
        limit=params.limit,
        descending=params.sort_direction == "desc",
    )
    return ItemsListResult(data=chosen, next_cursor=following, backwards_cursor=back)


# ---- changing --------------------------------------------------------------------------------------


async def thread_archive(call: Call, params: ThreadParams) -> After:
    ref = call.server.store.find(params.thread_id)
    note = ThreadArchived(thread_id=params.thread_id)
    if await _puts_away_unrecorded(call, ref, params.thread_id):
        return _told(call, note)
    if ref is None or ref.archived:
        raise ThreadNotFound(f"no rollout found for thread id {params.thread_id}")
    await call.server.unload(ref.id)
    call.server.store.archive(ref.id)
    return _told(call, note)


async def _puts_away_unrecorded(call: Call, ref: ThreadRef | None, thread_id: str) -> bool:
    """A thread in which nothing was said yet has no file: all there is of it ends here. False for any other."""
    loaded = call.server.threads.get(thread_id)
    if ref is not None or loaded is None or loaded.live.path is None:
        return False
    return await call.server.unload(thread_id)


async def thread_unarchive(call: Call, params: ThreadParams) -> After:
    archived = call.server.store.find(params.thread_id)
    if archived is None or not archived.archived:
        raise ThreadNotFound(f"no archived rollout found for thread id {params.thread_id}")
    ref = call.server.store.unarchive(archived.id)
    thread = await asyncio.to_thread(_recorded, call, ref, False)
    return After(
        ThreadResult(thread=thread), lambda: call.server.tell_all(ThreadUnarchived(thread_id=params.thread_id))
    )


async def thread_delete(call: Call, params: ThreadParams) -> After:
    found = call.server.store.find(params.thread_id)
    if await _puts_away_unrecorded(call, found, params.thread_id):
        return _told(call, ThreadDeleted(thread_id=params.thread_id))
    ref = call.server.store.get(params.thread_id)
    await call.server.unload(ref.id)
    from spindle.api.undoing import delete_thread  # seldom, and it knows the store of checkpoints

    await asyncio.to_thread(delete_thread, call.server.store, ref.id)
    return _told(call, ThreadDeleted(thread_id=ref.id))


async def name_set(call: Call, params: NameSetParams) -> After:
    name = params.name.strip()
    if not name or len(name) > MAX_NAME_CHARACTERS:
        raise RpcError(f"a thread's name has between 1 and {MAX_NAME_CHARACTERS} characters", INVALID_PARAMS)
    if params.thread_id not in call.server.threads:
        call.server.store.get(params.thread_id)
    call.server.store.set_name(params.thread_id, name)
    return _told(call, ThreadNameUpdated(thread_id=params.thread_id, thread_name=name))


async def thread_rollback(call: Call, params: RollbackParams) -> Wire:
    thread = await call.server.ready(params.thread_id)
    if params.num_turns < 1:
        raise RpcError("numTurns must be at least 1", INVALID_PARAMS)
    if thread.hearing.active_turn is not None:
        raise RpcError("a thread cannot be rolled back while a turn runs; interrupt it first")
    await thread.ask(ThreadRollback(num_turns=params.num_turns))
    return ThreadResult(thread=call.server.describe(thread, with_turns=True))


async def thread_revert(call: Call, params: RevertParams) -> After:
    """Forget a turn and all that came after it; files stay as they are."""
    thread = await call.server.ready(params.thread_id)
    if thread.hearing.active_turn is not None:
        raise RpcError("a thread cannot be reverted while a turn runs; interrupt it first")
    turns = thread.turns()
    place = next((number for number, turn in enumerate(turns) if turn.id == params.before_turn_id), None)
    if place is None:
        raise RpcError(f"thread {thread.id} has no turn {params.before_turn_id}")
    inputs = [sum(isinstance(item, UserMessageItem) for item in turn.items) for turn in turns[place:]]
    given = (item for item in turns[place].items if isinstance(item, UserMessageItem | FunctionCallOutputItem))
    if isinstance(next(given, None), UserMessageItem):
        await thread.ask(ThreadRollback(num_turns=sum(inputs)))
    else:
        await _forget_from(thread, params.before_turn_id)
    left = call.server.describe(thread, with_turns=True)
    turns_cursor, items_cursor = last_cursors(left.turns)
    result = RevertResult(thread=left, turns_backwards_cursor=turns_cursor, items_backwards_cursor=items_cursor)
    return After(result, lambda: call.server.tell_all(ThreadReverted(thread_id=thread.id)))


async def _forget_from(thread: LoadedThread, turn_id: str) -> None:
    """The same for a turn that no person began: of a goal or a program, for instance."""
    from spindle.protocol.undo import UndoCompleted  # seldom

    answer = await thread.ask(Undo(to=turn_id, files=False))
    if not isinstance(answer, UndoCompleted) or answer.report["status"] != "undone":
        raise RpcError(f"turn {turn_id} cannot be reverted: there is nothing of it that the model is shown")


async def thread_unsubscribe(call: Call, params: ThreadParams) -> Wire:
    thread = call.server.threads.get(params.thread_id)
    if thread is None:
        return UnsubscribeResult(status="notLoaded")
    followed = call.server.unfollow(thread, call.client)
    return UnsubscribeResult(status="unsubscribed" if followed else "notSubscribed")


def _told(call: Call, note: Note) -> After:
    """An empty answer to whoever asked, and a notification to everybody."""
    return After(Nothing(), lambda: call.server.tell_all(note))


METHODS = (
    Method(name="thread/list", params=ThreadListParams, result=ThreadListResult, run=thread_list),
    Method(name="thread/loaded/list", params=PageParams, result=LoadedListResult, run=loaded_list),
    Method(name="thread/read", params=ThreadReadParams, result=ThreadReadResult, run=thread_read),
    Method(name="thread/turns/list", params=TurnsListParams, result=TurnsPage, run=turns_list),
    Method(name="thread/items/list", params=ItemsListParams, result=ItemsListResult, run=items_list),
    Method(name="thread/archive", params=ThreadParams, result=Nothing, run=thread_archive),
    Method(name="thread/unarchive", params=ThreadParams, result=ThreadResult, run=thread_unarchive),
    Method(name="thread/delete", params=ThreadParams, result=Nothing, run=thread_delete),
    Method(name="thread/name/set", params=NameSetParams, result=Nothing, run=name_set),
    Method(name="thread/rollback", params=RollbackParams, result=ThreadResult, run=thread_rollback),
    Method(name="thread/revert", params=RevertParams, result=RevertResult, run=thread_revert),
    Method(name="thread/unsubscribe", params=ThreadParams, result=UnsubscribeResult, run=thread_unsubscribe),
)
