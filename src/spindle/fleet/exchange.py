"""What a driver and its workers say to each other: plain data, and never a secret.

The driver gives an `Attempt` to a worker, and the worker answers with an `Outcome`. What holds for every attempt of a
run is said once, when the worker starts (`Terms`). Between the two a worker asks for leave before each model request
and tells what it came to (`Asking`, `Spent`).
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

Status = Literal[
    "ok",
    "verify_failed",
    "invalid_output",
    "agent_failed",
    "setup_failed",
    "model_error",
    "timeout",
    "budget",
    "quarantined",
    "cancelled",
]
STATUSES: tuple[str, ...] = get_args(Status)
Ended = Literal[Status, "stopped", "lost"]
"""How an attempt ended: with a status, stopped before its end (unrecorded), or lost with its worker."""


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of a task list, checked (`tasks.py`). Paths in it are absolute, and schemas inline."""

    id: str
    prompt: str
    repo: str | None = None
    base: str = "HEAD"
    setup: str | None = None
    verify: str | None = None
    setup_timeout: float = 600.0
    verify_timeout: float = 600.0
    restore: list[str] = []
    image: list[str] = []
    container: str | None = None
    model: str | None = None
    config: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    timeout: float | None = None
    max_cost: float | None = None
    max_tokens: int | None = None
    max_requests: int | None = None
    group: str | None = None
    priority: int = 0
    meta: Any = None


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every attempt of a run. A worker hears it once."""

    out: str
    """The folder of the run, absolute: no task may read it."""
    home: str
    """The operator's `$CODEX_HOME`: its AGENTS.md and skills count, and no task may read it."""
    cache: str
    """Where mirrors and workspaces are made, on the node of the worker."""
    overrides: list[str] = []
    """`-c KEY=VALUE` of the operator, in order, and what `-m`, `-p` and `-s` come to."""
    profile: str | None = None
    settings: dict[str, Any] = {}
    """The operator's configuration as the driver read it, without a secret; a worker adds what its own node knows."""
    sandbox: str = "workspace-write"
    timeout_s: float = 3600.0
    output_schema: dict[str, Any] | None = None
    """For tasks that bring none."""
    keep: Literal["never", "failed", "always"] = "never"
    setup_network: bool = False
    starts_at_once: int = 8
    """How many clones and set-ups may run at a time on a node."""
    worker_memory: int = 2 << 30
    orphan_ttl_s: float = 600.0
    """How long a worker that can outlive its driver waits for another one."""


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What model requests came to."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0
    requests: int = 0

    def __add__(self, other: Used) -> Used:
        return Used(**{name: getattr(self, name) + getattr(other, name) for name in Used.__struct_fields__})


class Attempt(msgspec.Struct, frozen=True, kw_only=True, tag="attempt"):
    """One try at a task."""

    task: Task
    number: int
    """From 1."""
    used: Used = Used()
    """By the attempts before it: the task's own limits cover all of them."""
    cost_usd: float = 0.0


class PatchFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What `patch.diff` of an attempt is about."""

    sha256: str
    bytes: int
    files: int
    added: int
    removed: int
    skipped: list[str] = []


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """How `verify` ended."""

    exit_code: int
    duration_s: float


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt did not end well: a word for programs, and a sentence for people."""

    kind: str
    message: str


NODE = "node"
"""The kind of a failure that is neither the task's nor the model's: the worker's own folders cannot be used."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended. Its files lie in `folder`, on the worker's node, until the driver has taken them."""

    ended: Ended
    may_retry: bool = False
    """The reason may be gone at the next attempt."""
    error: Failure | None = None
    thread_id: str | None = None
    model: str | None = None
    base_commit: str | None = None
    started_at: float = 0.0
    """Unix seconds."""
    ended_at: float = 0.0
    duration_s: float = 0.0
    used: Used = Used()
    """By this attempt alone."""
    cost_usd: float | None = 0.0
    """None where a price is not known."""
    patch: PatchFacts | None = None
    final_message: str = ""
    output: Any = None
    verify: Verified | None = None
    folder: str | None = None
    """With those of `FILES` that there are, as plain files of ours, each at most `FILE_BYTES`."""
    files: list[str] = []
    """Their names, as the worker saw them."""


FILES = (
    "patch.diff",
    "final.md",
    "output.json",
    "rollout.jsonl",
    "setup.log",
    "verify.log",
    "events.jsonl",
)
FILE_BYTES = 64 << 20


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """A model request that waits for leave."""

    provider: str
    model: str
    input_tokens: int
    """As estimated."""


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What a request came to. Told once for each request that was made."""

    task: str
    attempt: int
    provider: str
    model: str
    used: Used = Used()
    cost_usd: float | None = None
    """None where the price is not known."""
    status: int | None = None
    """Of a refusal: what the server answered."""
    retry_after_s: float | None = None
    """How long the server wants to be left alone."""
    word: str | None = None
    """By whom it was told, and which of its words that was: a worker that outlives its driver may tell it again."""


class Lease(msgspec.Struct, frozen=True, kw_only=True, tag="lease"):
    """Leave for a few requests to the provider that was asked for."""

    number: int
    """Of the question it answers; names the lease when its requests are settled."""
    granted: int
    valid_s: float
    """What was not begun by then is given back."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag="refusal"):
    """No request is admitted any more: the budget of the run is used up."""

    number: int
    reason: str
