"""The op that takes back what turns did to files and conversation has an answer: these events, and a report."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from spindle.protocol.events import Msg
from spindle.protocol.outside import Outside


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """A file that went back to how it was."""

    path: str
    action: Literal["written", "deleted", "mode", "linked"]


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A file that somebody else has changed, so it was left alone."""

    path: str
    reason: str
    saved_as: str | None = None
    """Where the older version was put, when the rest was restored."""


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a turn has changed and that cannot be put back."""

    path: str
    reason: str


class UndoReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo did, or would do."""

    status: Literal["undone", "redone", "conflict", "nothing", "dry_run"]
    thread_id: str | None
    turns: list[str] = []
    restored: list[Restored] = []
    conflicts: list[Conflict] = []
    skipped: list[Skipped] = []
    incomplete: bool = False
    """A turn was killed in the middle: what was there when it was undone counts as its end."""
    message: str = ""
    """The same in a sentence or two."""


class UndoStarted(Msg, frozen=True, kw_only=True, tag="undo_started"):
    announces: ClassVar[bool] = True
    """It is no answer yet: those who wait for one wait on."""
    outside = Outside(words=("message",))
    message: str


class UndoCompleted(Msg, frozen=True, kw_only=True, tag="undo_completed"):
    """Answers `undo`. `report` is an `UndoReport`; a dry run also has the diff."""

    outside = Outside(words=("message", "report"), tools=("diff",))
    success: bool
    message: str
    report: dict[str, Any]
    diff: str | None = None
