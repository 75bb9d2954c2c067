"""What the server says without being asked: one struct per method."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from spindle.frontends.app_server.objects import (
    FileUpdateChange,
    Thread,
    ThreadItem,
    ThreadStatus,
    ThreadTokenUsage,
    Turn,
    TurnError,
    Wire,
)
from spindle.protocol.goal import Goal


class Note(Wire, frozen=True, kw_only=True):
    """The params of a notification; `method` is its name."""

    method: ClassVar[str]


class ThreadStarted(Note, frozen=True, kw_only=True):
    method = "thread/started"
    thread: Thread


class ThreadStatusChanged(Note, frozen=True, kw_only=True):
    method = "thread/status/changed"
    thread_id: str
    status: ThreadStatus


class ThreadClosed(Note, frozen=True, kw_only=True):
    method = "thread/closed"
    thread_id: str


class ThreadArchived(Note, frozen=True, kw_only=True):
    method = "thread/archived"
    thread_id: str


class ThreadReverted(Note, frozen=True, kw_only=True):
    """Turns were taken out of the thread, or put back; `thread/read` shows what is left."""

    method = "thread/reverted"
    thread_id: str


class ThreadUnarchived(Note, frozen=True, kw_only=True):
    method = "thread/unarchived"
    thread_id: str


class ThreadDeleted(Note, frozen=True, kw_only=True):
    method = "thread/deleted"
    thread_id: str


class ThreadNameUpdated(Note, frozen=True, kw_only=True):
    method = "thread/name/updated"
    thread_id: str
    thread_name: str


class ThreadGoalUpdated(Note, frozen=True, kw_only=True):
    """Also for a thread with a goal that was resumed."""

    method = "thread/goal/updated"
    thread_id: str
    turn_id: str | None
    """The turn that changed it; null where a client did."""
    goal: Goal


class ThreadGoalCleared(Note, frozen=True, kw_only=True):
    method = "thread/goal/cleared"
    thread_id: str


class ThreadCompacted(Note, frozen=True, kw_only=True):
    """For clients that know no contextCompaction items."""

    method = "thread/compacted"
    thread_id: str
    turn_id: str


class TokenUsageUpdated(Note, frozen=True, kw_only=True):
    method = "thread/tokenUsage/updated"
    thread_id: str
    turn_id: str
    token_usage: ThreadTokenUsage


class TurnStarted(Note, frozen=True, kw_only=True):
    method = "turn/started"
    thread_id: str
    turn: Turn


class TurnCompleted(Note, frozen=True, kw_only=True):
    method = "turn/completed"
    thread_id: str
    turn: Turn


class ModelRerouted(Note, frozen=True, kw_only=True):
    """The server lets another model answer than was asked for."""

    method = "model/rerouted"
    thread_id: str
    turn_id: str
    from_model: str
    to_model: str
    reason: Literal["highRiskCyberActivity"]


class PatchUpdated(Note, frozen=True, kw_only=True):
    """The changes of a `fileChange` item that began are others now."""

    method = "item/fileChange/patchUpdated"
    thread_id: str
    turn_id: str
    item_id: str
    changes: list[FileUpdateChange]


class TurnDiffUpdated(Note, frozen=True, kw_only=True):
    method = "turn/diff/updated"
    thread_id: str
    turn_id: str
    diff: str


HookEventName = Literal[
    "preToolUse",
    "permissionRequest",
    "postToolUse",
    "preCompact",
    "postCompact",
    "sessionStart",
    "sessionEnd",
    "userPromptSubmit",
    "subagentStart",
    "subagentStop",
    "stop",
]


class HookOutputEntry(Wire, frozen=True, kw_only=True):
    kind: Literal["warning", "stop", "feedback", "context", "error"]
    text: str


class HookRunSummary(Wire, frozen=True, kw_only=True):
    id: str
    event_name: HookEventName
    handler_type: Literal["command"]
    execution_mode: Literal["sync", "async"]
    scope: Literal["thread", "turn"]
    source_path: str
    source: Literal["system", "user", "project", "sessionFlags"]
    display_order: int
    status: Literal["running", "completed", "failed", "blocked", "stopped"]
    status_message: str | None
    started_at: int
    completed_at: int | None
    duration_ms: int | None
    entries: list[HookOutputEntry]


class HookStarted(Note, frozen=True, kw_only=True):
    method = "hook/started"
    thread_id: str
    turn_id: str | None
    run: HookRunSummary


class HookCompleted(Note, frozen=True, kw_only=True):
    method = "hook/completed"
    thread_id: str
    turn_id: str | None
    run: HookRunSummary


class PlanStep(Wire, frozen=True, kw_only=True):
    step: str
    status: Literal["pending", "inProgress", "completed"]


class TurnPlanUpdated(Note, frozen=True, kw_only=True):
    method = "turn/plan/updated"
    thread_id: str
    turn_id: str
    explanation: str | None
    plan: list[PlanStep]


class ItemStarted(Note, frozen=True, kw_only=True):
    method = "item/started"
    item: ThreadItem
    thread_id: str
    turn_id: str
    started_at_ms: int


class ItemCompleted(Note, frozen=True, kw_only=True):
    method = "item/completed"
    item: ThreadItem
    thread_id: str
    turn_id: str
    content_token_count: None = None
    completed_at_ms: int


class AgentMessageDelta(Note, frozen=True, kw_only=True):
    method = "item/agentMessage/delta"
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class PlanDelta(Note, frozen=True, kw_only=True):
    method = "item/plan/delta"
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class ReasoningSummaryPartAdded(Note, frozen=True, kw_only=True):
    method = "item/reasoning/summaryPartAdded"
    thread_id: str
    turn_id: str
    item_id: str
    summary_index: int


class ReasoningSummaryTextDelta(Note, frozen=True, kw_only=True):
    method = "item/reasoning/summaryTextDelta"
    thread_id: str
    turn_id: str
    item_id: str
    delta: str
    summary_index: int


class ReasoningTextDelta(Note, frozen=True, kw_only=True):
    method = "item/reasoning/textDelta"
    thread_id: str
    turn_id: str
    item_id: str
    delta: str
    content_index: int


class CommandOutputDelta(Note, frozen=True, kw_only=True):
    method = "item/commandExecution/outputDelta"
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


DELTAS = (AgentMessageDelta, PlanDelta, ReasoningSummaryTextDelta, ReasoningTextDelta, CommandOutputDelta)
Delta = AgentMessageDelta | PlanDelta | ReasoningSummaryTextDelta | ReasoningTextDelta | CommandOutputDelta


class TerminalInteraction(Note, frozen=True, kw_only=True):
    method = "item/commandExecution/terminalInteraction"
    thread_id: str
    turn_id: str
    item_id: str
    process_id: str
    stdin: str


class CommandExecOutput(Note, frozen=True, kw_only=True):
    """What a command of the client's own has printed; told to that client alone."""

    method = "command/exec/outputDelta"
    process_id: str
    stream: Literal["stdout", "stderr"]
    delta_base64: str
    cap_reached: bool
    """This was the last piece, because more is not wanted."""


class FsChanged(Note, frozen=True, kw_only=True):
    """Something happened at a path that the client watches; told to that client alone."""

    method = "fs/changed"
    watch_id: str
    changed_paths: list[str]


class SkillsChanged(Note, frozen=True, kw_only=True):
    """`skills/list` may answer something else now."""

    method = "skills/changed"


class QueueChanged(Note, frozen=True, kw_only=True):
    """`thread/queue/list` answers something else now."""

    method = "thread/queue/changed"
    thread_id: str


class FoundFile(Wire, frozen=True, kw_only=True, rename=None):
    root: str
    path: str
    match_type: Literal["file"] = "file"
    file_name: str
    score: int
    indices: list[int] | None


class FileSearchUpdated(Note, frozen=True, kw_only=True):
    method = "fuzzyFileSearch/sessionUpdated"
    session_id: str
    query: str
    files: list[FoundFile]


class FileSearchCompleted(Note, frozen=True, kw_only=True):
    method = "fuzzyFileSearch/sessionCompleted"
    session_id: str


class ToolCallProgress(Note, frozen=True, kw_only=True):
    """What a tool server says while it works on a call."""

    method = "item/mcpToolCall/progress"
    thread_id: str
    turn_id: str
    item_id: str
    message: str


class DeprecationNotice(Note, frozen=True, kw_only=True):
    """Something in the configuration will not be understood for ever."""

    method = "deprecationNotice"
    summary: str
    details: str | None


class ErrorNote(Note, frozen=True, kw_only=True):
    method = "error"
    error: TurnError
    will_retry: bool
    thread_id: str
    turn_id: str


class WarningNote(Note, frozen=True, kw_only=True):
    method = "warning"
    thread_id: str | None
    message: str


class ConfigWarning(Note, frozen=True, kw_only=True):
    method = "configWarning"
    summary: str
    details: str | None = None


class ServerRequestResolved(Note, frozen=True, kw_only=True):
    method = "serverRequest/resolved"
    thread_id: str
    request_id: int


class ServerStartupUpdated(Note, frozen=True, kw_only=True):
    method = "mcpServer/startupStatus/updated"
    thread_id: str | None
    name: str
    status: Literal["starting", "ready", "failed", "cancelled"]
    error: str | None = None
    failure_reason: None = None


class AccountUpdated(Note, frozen=True, kw_only=True):
    method = "account/updated"
    auth_mode: Literal["apikey", "chatgpt", "chatgptAuthTokens"] | None
    plan_type: str | None = None


class AccountLoginCompleted(Note, frozen=True, kw_only=True):
    method = "account/login/completed"
    login_id: str | None
    success: bool
    error: str | None


class ServerLoginCompleted(Note, frozen=True, kw_only=True):
    """A sign-in to an MCP server that a client has begun is over."""

    method = "mcpServer/oauthLogin/completed"
    name: str
    login_id: str
    thread_id: str | None
    success: bool
    error: str | None = None


class RateLimitsUpdated(Note, frozen=True, kw_only=True):
    method = "account/rateLimits/updated"
    rate_limits: dict[str, Any]


def kinds_of(base: type[msgspec.Struct]) -> dict[str, Any]:
    """Every notification, or every request of the server, by its method."""
    return {kind.method: kind for kind in base.__subclasses__()}  # pyright: ignore[reportAttributeAccessIssue]
