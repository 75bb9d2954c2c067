"""Recorded and live threads → `Thread` and `Turn` objects. Reads no record itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from spindle import __version__
from spindle.frontends.app_server.items import shown_item, turn_error
from spindle.frontends.app_server.objects import (
    AgentMessageItem,
    CommandItem,
    FileChangeItem,
    GitInfo,
    ImageViewItem,
    McpToolCallItem,
    NotLoaded,
    Thread,
    ThreadEnvironment,
    ThreadItem,
    ThreadStatus,
    Turn,
    TurnError,
    UserMessageItem,
    Wire,
)
from spindle.frontends.app_server.recorded_calls import call_item
from spindle.frontends.app_server.rpc import INVALID_PARAMS, RpcError
from spindle.thread.entry import Record
from spindle.thread.listing import ThreadSummary
from spindle.thread.store import ThreadRef
from spindle.thread.view import TurnView, last_settings, preview, transcript

if TYPE_CHECKING:
    from spindle.thread.reading import RolloutData

MAX_PAGE = 1000
_SOURCES = {"mcp": "appServer"}
_STATUSES = {"in_progress": "inProgress"}

Entry = TypeVar("Entry")


def unix_time(timestamp: Any) -> float | None:
    """`2026-11-15T18:16:43.951Z` as unix seconds; None when it is not such a text."""
    try:
        return datetime.fromisoformat(str(timestamp)).timestamp()
    except ValueError:
        return None


def source_of(source: Any) -> str | dict[str, Any]:
    if isinstance(source, dict):
        return {"subAgent": source.get("subagent", source)}
    return _SOURCES.get(source, source) if isinstance(source, str) else "unknown"


def _parent_of(source: Any) -> str | None:
    match source:
        case {"subagent": {"thread_spawn": {"parent_thread_id": str(parent)}}}:
            return parent
        case _:
            return None


def _git_info(git: Any) -> GitInfo | None:
    if not isinstance(git, Mapping):
        return None
    return GitInfo(sha=git.get("commit_hash"), branch=git.get("branch"), origin_url=git.get("repository_url"))


def with_git(thread: Thread, git: Mapping[str, Any] | None) -> Thread:
    """The thread with what a client has noted about its repository, if it has."""
    return thread if git is None else msgspec.structs.replace(thread, git_info=_git_info(git))


class ThreadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a thread besides the first line of its record, which says how the thread began."""

    id: str
    path: str | None
    """None for a thread that is not recorded."""
    preview: str
    updated_at: float
    """Unix seconds."""
    cwd: str | None = None
    model: str | None = None
    effort: str | None = None
    provider: str | None = None


def thread_from_meta(
    meta: dict[str, Any], facts: ThreadFacts, *, status: ThreadStatus, name: str | None, turns: Sequence[Turn] = ()
) -> Thread:
    """A thread as clients are shown it; `meta` is the first line of its record."""
    cwd = facts.cwd or str(meta.get("cwd") or "")
    is_loaded = not isinstance(status, NotLoaded)
    created = unix_time(meta.get("timestamp")) or facts.updated_at
    return Thread(
        id=facts.id,
        environments=ThreadEnvironment.of(cwd) if is_loaded else None,
        session_id=facts.id,
        forked_from_id=meta.get("forked_from_id"),
        parent_thread_id=_parent_of(meta.get("source")),
        preview=facts.preview,
        ephemeral=facts.path is None,
        model_provider=facts.provider or str(meta.get("model_provider") or "openai"),
        model=facts.model,
        reasoning_effort=facts.effort,
        created_at=int(created),
        updated_at=int(facts.updated_at),
        recency_at=int(facts.updated_at),
        status=status,
        path=facts.path,
        cwd=cwd,
        cli_version=str(meta.get("cli_version") or __version__),
        originator=meta.get("originator"),
        source=source_of(meta.get("source")),
        can_accept_direct_input=True if is_loaded else None,
        git_info=_git_info(meta.get("git")),
        name=name,
        turns=list(turns),
    )


def thread_from_file(ref: ThreadRef, data: RolloutData, name: str | None, turns: Sequence[Turn] = ()) -> Thread:
    """A thread that is not loaded."""
    context = last_settings(data) or {}
    facts = ThreadFacts(
        id=ref.id,
        path=ref.path,
        preview=preview(data.records) or "",
        updated_at=os.stat(ref.path).st_mtime,
        cwd=context.get("cwd"),
        model=context.get("model"),
        effort=context.get("effort"),
    )
    return thread_from_meta(data.meta, facts, status=NotLoaded(), name=name, turns=turns)


def thread_from_summary(summary: ThreadSummary, status: ThreadStatus) -> Thread:
    """A line of the list of threads."""
    is_loaded = not isinstance(status, NotLoaded)
    return Thread(
        id=summary.id,
        environments=ThreadEnvironment.of(summary.cwd) if is_loaded else None,
        session_id=summary.id,
        forked_from_id=summary.forked_from_id,
        parent_thread_id=_parent_of(summary.source),
        preview=summary.preview,
        ephemeral=False,
        model_provider=summary.model_provider or "openai",
        model=summary.model,
        reasoning_effort=summary.effort,
        created_at=int(summary.created_at),
        updated_at=int(summary.updated_at),
        recency_at=int(summary.updated_at),
        status=status,
        path=summary.path,
        cwd=summary.cwd,
        cli_version=summary.cli_version or "",
        originator=summary.originator,
        source=source_of(summary.source),
        can_accept_direct_input=True if is_loaded else None,
        git_info=_git_info(summary.git),
        name=summary.name,
    )


# ---- turns -----------------------------------------------------------------------------------------


def turns_of(records: Iterable[Record], cwd: str, *, active: str | None = None) -> list[Turn]:
    """The thread by turns, with all items. A turn that nobody runs any more (not `active`) was interrupted.

    Of the calls that are recorded only as the model made them, those are there that clients saw as items of their own.
    """

    def item_of(shown: Mapping[str, Any], is_running: bool) -> ThreadItem | None:
        if (item := shown_item(shown)) is not None:
            return item
        call = call_item(shown, cwd, is_running=is_running)
        return call if isinstance(call, CommandItem | FileChangeItem | McpToolCallItem | ImageViewItem) else None

    return [_turn(view, active, item_of) for view in transcript(records, with_calls=True)]


def recorded_turns(data: RolloutData) -> list[Turn]:
    """Those of a thread that is not loaded."""
    return turns_of(data.records, str((last_settings(data) or data.meta).get("cwd") or ""))


def turns_with_calls(records: Iterable[Record], cwd: str) -> list[Turn]:
    """The same, with every call."""

    def item_of(shown: Mapping[str, Any], is_running: bool) -> ThreadItem | None:
        return shown_item(shown) or call_item(shown, cwd)

    return [_turn(view, None, item_of) for view in transcript(records, with_calls=True)]


def _turn(view: TurnView, active: str | None, item_of: Callable[[Mapping[str, Any], bool], ThreadItem | None]) -> Turn:
    started, completed = unix_time(view.started_at), unix_time(view.completed_at)
    status: Any = _STATUSES.get(view.status, view.status)
    if status == "inProgress" and view.id != active:
        status = "interrupted"
    is_running = status == "inProgress"
    items = [item for shown in view.items if (item := item_of(shown, is_running)) is not None]
    return Turn(
        id=view.id,
        root_turn_id=view.root_id or view.id,
        items=items,
        items_view="full",
        status=status,
        error=_failure(view.error),
        started_at=None if started is None else int(started),
        completed_at=None if completed is None else int(completed),
        duration_ms=None if started is None or completed is None else round((completed - started) * 1000),
    )


def _failure(error: dict[str, Any] | None) -> TurnError | None:
    if error is None:
        return None
    return turn_error(str(error.get("message") or ""), error.get("codex_error_info"))


def summarised(turn: Turn, view: str) -> Turn:
    """The turn with as many items as a client wants: all, none, or what was asked and answered."""
    if view == "full":
        return turn
    items: list[Any] = []
    if view == "summary":
        said = [item for item in turn.items if isinstance(item, UserMessageItem)]
        answers = [item for item in turn.items if isinstance(item, AgentMessageItem)]
        items = [*said[:1], *answers[-1:]]
    return msgspec.structs.replace(turn, items=items, items_view=view)  # pyright: ignore[reportArgumentType]


Direction = Literal["asc", "desc"]


class TurnsPageParams(Wire, frozen=True, kw_only=True):
    limit: int = 25
    sort_direction: Direction = "desc"
    items_view: Literal["notLoaded", "summary", "full"] = "summary"


class TurnsPage(Wire, frozen=True, kw_only=True):
    data: list[Turn]
    next_cursor: str | None
    backwards_cursor: str | None


def turns_page(turns: Sequence[Turn], params: TurnsPageParams, cursor: str | None = None) -> TurnsPage:
    """A part of the turns, each with as many items as the client wants."""
    chosen, following, back = page(
        turns,
        [turn.id for turn in turns],
        cursor=cursor,
        limit=params.limit,
        descending=params.sort_direction == "desc",
    )
    shown = [summarised(turn, params.items_view) for turn in chosen]
    return TurnsPage(data=shown, next_cursor=following, backwards_cursor=back)


def last_cursors(turns: Sequence[Turn]) -> tuple[str | None, str | None]:
    """Where a client begins to list turns, and items, from the end."""
    last = next((item.id for turn in reversed(turns) for item in reversed(turn.items)), None)
    return (f"={turns[-1].id}" if turns else None), (f"={last}" if last is not None else None)


def page_size(limit: int) -> int:
    """How many entries a client gets that asks for so many: a cursor leads to those that are too many at once."""
    if limit < 1:
        raise RpcError("limit must be at least 1", INVALID_PARAMS)
    return min(limit, MAX_PAGE)


def page(
    entries: Sequence[Entry], keys: Sequence[str], *, cursor: str | None, limit: int, descending: bool
) -> tuple[list[Entry], str | None, str | None]:
    """A part of a list, the cursor to go on with, and the one that leads back with the opposite direction.

    A cursor is a key with a sign before it: `=` to begin with that entry, `>` to begin after it.
    """
    limit = page_size(limit)
    order = range(len(entries) - 1, -1, -1) if descending else range(len(entries))
    start = 0
    if cursor is not None:
        place = next((number for number, index in enumerate(order) if keys[index] == cursor[1:]), None)
        if cursor[:1] not in ("=", ">") or place is None:
            raise RpcError("this cursor was not made by this list", INVALID_PARAMS)
        start = place + (cursor[0] == ">")
    chosen = order[start : start + limit]
    following = f">{keys[chosen[-1]]}" if chosen and start + limit < len(order) else None
    back = f"={keys[chosen[0]]}" if chosen else None
    return [entries[index] for index in chosen], following, back
