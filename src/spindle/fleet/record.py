"""The record of a task: one line of `results.jsonl`, and what everybody reads who looks back at a run."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from spindle.fleet.exchange import Failure, PatchFacts, Status, Used, Verified


class RecordedPatch(PatchFacts, frozen=True, kw_only=True):
    """Where the patch of a task lies, and what it is about."""

    path: str
    """From the folder of the run."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a task. `supersedes` stands in the lines of a task that was done again: the last one counts."""

    v: Literal[1] = 1
    id: str
    status: Status
    attempts: int
    thread_id: str | None = None
    model: str | None = None
    base_commit: str | None = None
    started_at: str
    ended_at: str
    duration_s: float
    queue_s: float
    usage: Used = Used()
    cost_usd: float | None = None
    patch: RecordedPatch | None = None
    final_message: str = ""
    output: Any = None
    verify: Verified | None = None
    rollout: str | None = None
    error: Failure | None = None
    worker: str | None = None
    node: str | None = None
    meta: Any = None
    supersedes: bool | msgspec.UnsetType = msgspec.UNSET
