"""The query for a list of threads, and its results. Light: only code that lists loads the index itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.errors import ThreadError
from spindle.protocol.items import encode_payload, json_reader

if TYPE_CHECKING:
    from spindle.thread.index import Row


class ThreadFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which threads belong to a list. None, or an empty list, leaves nothing out."""

    archived: bool = False
    """Only those that were put away, instead of only the others."""
    cwds: Sequence[str] | None = None
    providers: Sequence[str] | None = None
    sources: Sequence[str] | None = None
    """What started the thread: `cli`, `exec`, `subagent`, …"""
    subagents: bool = True
    """Also the threads of sub-agents, in which no person said anything."""
    search: str | None = None
    """Occurs in the thread's name or in something that was said in it; upper and lower case are alike."""


class ThreadOrder(msgspec.Struct, frozen=True, kw_only=True):
    """How a list is sorted."""

    key: str = "created_at"
    descending: bool = True

    def __post_init__(self) -> None:
        if self.key not in ("created_at", "updated_at"):
            raise ThreadError(f"threads cannot be sorted by {self.key!r}; use created_at or updated_at")


class ThreadSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a thread list."""

    id: str
    path: str
    archived: bool
    name: str | None
    preview: str
    cwd: str
    model_provider: str | None
    source: Any
    created_at: float
    """Unix seconds."""
    updated_at: float
    originator: str | None
    cli_version: str | None
    git: dict[str, Any] | None
    forked_from_id: str | None
    model: str | None
    effort: str | None


class ThreadPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a thread list. `backwards_cursor` leads back when given with the opposite direction."""

    threads: list[ThreadSummary]
    next_cursor: str | None
    backwards_cursor: str | None
    left_out: dict[str, str] = {}
    """Files that cannot be read as a thread, and why."""


def summary_of(row: Row, name: str | None) -> ThreadSummary:
    """The index's row as a line of a list."""
    return ThreadSummary(
        id=row.id,
        path=row.path,
        archived=row.archived,
        name=name,
        preview=row.preview,
        cwd=row.cwd,
        model_provider=row.provider,
        source=row.source,
        created_at=row.created_at,
        updated_at=row.updated_at,
        **row.facts,
    )


def cursor_at(thread: ThreadSummary, order: ThreadOrder) -> str:
    """A cursor that continues a list of this order after this thread."""
    return encode_payload([getattr(thread, order.key), thread.id]).hex()


def read_cursor(cursor: str | None) -> tuple[float, str] | None:
    """The sort key's value and the id of the thread after which the list continues."""
    if cursor is None:
        return None
    try:
        return json_reader(tuple[float, str])(bytes.fromhex(cursor))
    except (ValueError, msgspec.DecodeError) as error:
        raise ThreadError("this cursor was not made by this list") from error
