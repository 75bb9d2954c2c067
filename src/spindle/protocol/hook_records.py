"""Hooks as data: programs of the user that are asked at named moments, and what one run of one came to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

EVENTS = (
    *("PreToolUse", "PermissionRequest", "PostToolUse", "PreCompact", "PostCompact", "SessionStart", "SessionEnd"),
    *("UserPromptSubmit", "SubagentStart", "SubagentStop", "Stop"),
)
"""The moments, in the order in which hooks of one file are listed."""
MATCHED = frozenset(EVENTS) - {"UserPromptSubmit", "Stop", "SessionEnd"}
"""Events of several sorts, among which a `matcher` can choose."""

DEFAULT_TIMEOUT_S = 600
LAST_WORDS_S = 1
LAST_WORDS_MAX_S = 3
"""How long a SessionEnd hook may take unless it says otherwise, and at most: somebody waits for the program to end."""

Source = Literal["user", "project", "system", "sessionFlags"]
Trust = Literal["trusted", "untrusted", "modified"]
HookFunction = Callable[[dict[str, Any]], Awaitable[Any]]
"""Gets what a command would read, and gives what it would print; None for nothing."""


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """One command to run, or one function to call, at one kind of moment."""

    key: str
    """Names it in `[hooks.state]`: file, event, group and place in the group."""
    event: str
    command: str = ""
    function: HookFunction | None = None
    """Called in place of a command: a hook of the program that embeds the engine."""
    path: str
    """The file it stands in; for a function its name."""
    source: Source
    hash: str
    """Of all that its definition says; consent is given to this hash and nothing else."""
    matcher: str | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    is_async: bool = False
    """Nobody waits for it, and what it says changes nothing."""
    status_message: str | None = None
    context_tokens: int | None = None
    """How much of its context the model is shown; None = the default."""
    is_confined: bool = True
    """Runs inside the sandbox of the turn. Only the user's own files can say otherwise."""
    order: int = 0
    trust: Trust = "trusted"
    is_enabled: bool = True

    @property
    def may_run(self) -> bool:
        return self.is_enabled and self.trust == "trusted"


class HookEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a hook said, and to whom: the person (warning, error, stop) or the model (feedback, context)."""

    kind: Literal["warning", "stop", "feedback", "context", "error"]
    text: str


class HookRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a hook, as people see it."""

    id: str
    event_name: str
    handler_type: Literal["command", "function"] = "command"
    execution_mode: Literal["sync", "async"] = "sync"
    scope: Literal["thread", "turn"] = "turn"
    source_path: str
    source: str
    display_order: int
    status: Literal["running", "completed", "failed", "blocked", "stopped"] = "running"
    status_message: str | None = None
    started_at: int
    completed_at: int | None = None
    duration_ms: int | None = None
    entries: list[HookEntry] = []


def snake(event: str) -> str:
    """`PreToolUse` → `pre_tool_use`."""
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in event).lstrip("_")
