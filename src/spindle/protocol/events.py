"""What a session tells the world: protocol v1's event messages. Front ends translate these and nothing else.

Each struct says when it is sent and what in it can quote text from outside. Those of parts that most sessions do not
use are in modules of their own, which import `Msg` from here.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from spindle.errors import ErrorInfo
from spindle.protocol.items import encode_json, encode_payload
from spindle.protocol.outside import NOTHING, Outside
from spindle.protocol.request import TokenUsage


class Msg(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=False):
    """Base of all event messages."""

    ends_call: ClassVar[bool] = False
    """It shows that a call is over, and what came of it: shown only when the call's answer is recorded."""
    outside: ClassVar[Outside]
    """Its fields that can quote text from outside. Every kind declares this, so that none is forgotten when masking."""

    def __init_subclass__(cls) -> None:
        if "outside" not in cls.__dict__:
            raise TypeError(f"{cls.__name__} must declare which of its fields quote text from outside, or NOTHING")


class Event(msgspec.Struct, frozen=True):
    """A message, and the id of the submission that caused it ("" when none did)."""

    id: str
    msg: Msg


# ---- session and turn ------------------------------------------------------------------------------


class SessionConfigured(Msg, frozen=True, kw_only=True, tag="session_configured"):
    """A thread is open. Comes before every other event of the session."""

    outside = Outside(
        words=("model", "model_provider_id", "sandbox_policy", "cwd", "thread_name", "initial_messages", "rollout_path")
    )
    session_id: str
    model: str
    model_provider_id: str
    approval_policy: str
    sandbox_policy: dict[str, Any]
    cwd: str
    reasoning_effort: str | None = None
    forked_from_id: str | None = None
    thread_name: str | None = None
    history_log_id: int = 0
    history_entry_count: int = 0
    initial_messages: list[dict[str, Any]] | None = None
    rollout_path: str | None = None


class TaskStarted(Msg, frozen=True, kw_only=True, tag="task_started"):
    """A turn began."""

    outside = Outside(person=("turn_attribution",))
    turn_id: str
    model_context_window: int | None
    collaboration_mode_kind: str = "default"
    turn_attribution: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET  # a TurnAttribution, where one was given


class TaskComplete(Msg, frozen=True, kw_only=True, tag="task_complete"):
    """The turn is over; with an `error` before it, it failed. Always the last event of its turn."""

    outside = Outside(words=("last_agent_message", "response_id"))
    turn_id: str
    last_agent_message: str | None
    response_id: str | None = None


class TurnAborted(Msg, frozen=True, kw_only=True, tag="turn_aborted"):
    """The turn was stopped. Always the last event of its turn."""

    outside = NOTHING
    turn_id: str
    reason: str  # "interrupted" or "replaced"


class Error(Msg, frozen=True, kw_only=True, tag="error"):
    """A turn, or an op, failed."""

    outside = Outside(words=("message",))
    message: str
    codex_error_info: ErrorInfo | None = None
    budget: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET  # scope, limit, max, used


class Warning(Msg, frozen=True, kw_only=True, tag="warning"):
    """Something a person should know; the work goes on."""

    outside = Outside(words=("message",))
    message: str


class StreamError(Msg, frozen=True, kw_only=True, tag="stream_error"):
    """The model's answer broke off and is asked for again."""

    outside = Outside(words=("message", "additional_details"))
    message: str
    codex_error_info: ErrorInfo | None = None
    additional_details: str | None = None
    delay_s: float | msgspec.UnsetType = msgspec.UNSET  # how long the session waits before it asks again


class TokenCount(Msg, frozen=True, kw_only=True, tag="token_count"):
    """After every response."""

    outside = Outside(words=("rate_limits",))
    info: dict[str, Any] | None
    rate_limits: dict[str, Any] | None = None


class ContextCompacted(Msg, frozen=True, kw_only=True, tag="context_compacted"):
    """A shorter thread stands for everything before."""

    outside = NOTHING
    tokens_before: int = 0
    tokens_after: int = 0


class ContextEdited(Msg, frozen=True, kw_only=True, tag="context_edited"):
    """Old outputs were cleared from the thread by rule; `decision` is the arithmetic behind it, where there was one."""

    outside = Outside(words=("message", "decision"))
    message: str
    cleared_tool_uses: int
    tokens_before: int
    tokens_after: int
    decision: dict[str, Any] | None = None


class CacheMissed(Msg, frozen=True, kw_only=True, tag="cache_missed"):
    """Less of a request came from the provider's cache than could have; `cause` says why."""

    outside = Outside(words=("cause",))
    cause: str
    lost_tokens: int
    expected_cached_tokens: int
    cached_tokens: int
    is_declared: bool = True


class PinsUpdated(Msg, frozen=True, kw_only=True, tag="pins_updated"):
    """The facts that are kept through every compaction, after one was added or let go."""

    outside = Outside(words=("pins",))
    pins: list[str]


class ShutdownComplete(Msg, frozen=True, kw_only=True, tag="shutdown_complete"):
    """Everything is flushed and closed. The last event of a session."""

    outside = NOTHING


# ---- what is said ----------------------------------------------------------------------------------


class UserMessage(Msg, frozen=True, kw_only=True, tag="user_message"):
    """A person's input became part of the thread."""

    outside = Outside(person=("message", "images", "local_images", "text_elements", "mentions", "client_id"))
    message: str
    images: list[str] = []
    local_images: list[str] = []
    text_elements: list[Any] = []
    mentions: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET  # of skills and the like: type, name, path
    client_id: str | msgspec.UnsetType = msgspec.UNSET  # what the client calls the message


class AgentMessageContentDelta(Msg, frozen=True, kw_only=True, tag="agent_message_content_delta"):
    """A piece of the assistant's text, while it streams."""

    outside = Outside(masked=("item_id", "delta"))
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class AgentMessage(Msg, frozen=True, kw_only=True, tag="agent_message"):
    """A whole message of the assistant; replaces what streamed."""

    outside = Outside(words=("message",))
    message: str


class ReasoningContentDelta(Msg, frozen=True, kw_only=True, tag="reasoning_content_delta"):
    """A piece of a reasoning summary."""

    outside = Outside(masked=("item_id", "delta"))
    thread_id: str
    turn_id: str
    item_id: str
    delta: str
    summary_index: int = 0


class AgentReasoningSectionBreak(Msg, frozen=True, kw_only=True, tag="agent_reasoning_section_break"):
    """A new section of the summary begins."""

    outside = Outside(words=("item_id",))
    item_id: str = ""
    summary_index: int = 0


class AgentReasoning(Msg, frozen=True, kw_only=True, tag="agent_reasoning"):
    """A whole reasoning summary."""

    outside = Outside(words=("text",))
    text: str


class ReasoningRawContentDelta(Msg, frozen=True, kw_only=True, tag="reasoning_raw_content_delta"):
    """A piece of raw reasoning; only with show_raw_agent_reasoning."""

    outside = Outside(masked=("item_id", "delta"))
    thread_id: str
    turn_id: str
    item_id: str
    delta: str
    content_index: int = 0


class AgentReasoningRawContent(Msg, frozen=True, kw_only=True, tag="agent_reasoning_raw_content"):
    """Raw reasoning as a whole; only with show_raw_agent_reasoning."""

    outside = Outside(words=("text",))
    text: str


class ItemStarted(Msg, frozen=True, kw_only=True, tag="item_started"):
    """A thread item appeared. `item` is tagged in PascalCase: UserMessage, AgentMessage, Reasoning, WebSearch."""

    outside = Outside(items=("item",))
    thread_id: str
    turn_id: str
    item: dict[str, Any]


class ItemCompleted(Msg, frozen=True, kw_only=True, tag="item_completed"):
    """A thread item is final."""

    outside = Outside(items=("item",))
    thread_id: str
    turn_id: str
    item: dict[str, Any]


# ---- tools -----------------------------------------------------------------------------------------


class ExecApprovalRequest(Msg, frozen=True, kw_only=True, tag="exec_approval_request"):
    """The turn waits for a person's word about a command."""

    outside = Outside(
        tools=(
            *("call_id", "command", "cwd", "reason", "justification", "proposed_execpolicy_amendment", "parsed_cmd"),
            *("available_decisions", "display", "if_approved", "offers"),
        )
    )
    call_id: str
    turn_id: str
    command: list[str]
    cwd: str
    reason: str | None = None
    justification: str | None = None  # what the model says for it; part of the reason
    proposed_execpolicy_amendment: list[str] | None = None
    parsed_cmd: list[dict[str, Any]] = []
    available_decisions: list[Any] = []
    display: str = ""
    """The command as a line of shell, with hidden characters made visible; `command` stays exact."""
    if_approved: str = ""  # what a yes lets the command reach, in a sentence
    offers: list[dict[str, Any]] = []
    """For each available decision the grants it would make: `{"decision", "grants": [Grant]}`."""
    thread_id: str | None = None
    """The sub-agent that asks; None = this thread itself."""


class ApplyPatchApprovalRequest(Msg, frozen=True, kw_only=True, tag="apply_patch_approval_request"):
    """The turn waits for a person's word about a patch."""

    outside = Outside(tools=("call_id", "changes", "reason", "grant_root", "available_decisions", "offers"))
    call_id: str
    turn_id: str
    changes: dict[str, Any]
    reason: str | None = None
    grant_root: str | None = None
    available_decisions: list[Any] = []
    offers: list[dict[str, Any]] = []
    thread_id: str | None = None


class GrantAdded(Msg, frozen=True, kw_only=True, tag="grant_added"):
    """An answer granted something beyond the moment. `grant`: id, effect, scope, expires, text."""

    outside = Outside(tools=("grant",))
    grant: dict[str, Any]


class GrantRevoked(Msg, frozen=True, kw_only=True, tag="grant_revoked"):
    """A grant no longer holds."""

    outside = Outside(tools=("grant",))
    grant: dict[str, Any]
    reason: str = "revoked"
    """"revoked" by a person, or "settings_changed": it was given for another folder or another sandbox."""


class ExecCommandBegin(Msg, frozen=True, kw_only=True, tag="exec_command_begin"):
    """A command is about to run."""

    outside = Outside(tools=("call_id", "command", "cwd", "parsed_cmd", "interaction_input"))
    call_id: str
    turn_id: str
    command: list[str]
    cwd: str
    parsed_cmd: list[dict[str, Any]]
    source: str = "agent"
    process_id: str | None = None
    interaction_input: str | None = None


class ExecCommandOutputDelta(Msg, frozen=True, kw_only=True, tag="exec_command_output_delta"):
    """Output of a running command; `chunk` travels as base64. At most 1 MiB of it per command."""

    outside = Outside(words=("call_id",), masked=("chunk",))
    call_id: str
    stream: str
    chunk: bytes


class TerminalInteraction(Msg, frozen=True, kw_only=True, tag="terminal_interaction"):
    """Text was typed into a running command."""

    outside = Outside(tools=("call_id", "process_id", "stdin"))
    call_id: str
    process_id: str
    stdin: str


class Duration(msgspec.Struct, frozen=True):
    secs: int
    nanos: int

    @classmethod
    def of(cls, seconds: float) -> Duration:
        nanos = max(0, int(seconds * 1e9))
        return cls(nanos // 1_000_000_000, nanos % 1_000_000_000)


class ExecCommandEnd(Msg, frozen=True, kw_only=True, tag="exec_command_end"):
    """A command is over. exit_code -1 when it never ran; then the output says why."""

    outside = Outside(
        tools=("call_id", "command", "cwd", "parsed_cmd", "interaction_input"),
        masked=("stdout", "stderr", "aggregated_output", "formatted_output"),
    )
    ends_call = True
    call_id: str
    turn_id: str
    command: list[str]
    cwd: str
    parsed_cmd: list[dict[str, Any]]
    source: str = "agent"
    process_id: str | None = None
    interaction_input: str | None = None
    stdout: str
    stderr: str = ""
    aggregated_output: str
    exit_code: int
    duration: Duration
    formatted_output: str


class PatchApplyBegin(Msg, frozen=True, kw_only=True, tag="patch_apply_begin"):
    """A verified patch is about to be written. `changes` maps absolute paths to FileChange objects."""

    outside = Outside(tools=("call_id", "changes"))
    call_id: str
    turn_id: str
    auto_approved: bool
    changes: dict[str, Any]


class PatchApplyEnd(Msg, frozen=True, kw_only=True, tag="patch_apply_end"):
    """A patch was written, or failed half-way."""

    outside = Outside(tools=("call_id", "stdout", "stderr", "changes"))
    ends_call = True
    call_id: str
    turn_id: str
    stdout: str
    stderr: str
    success: bool
    changes: dict[str, Any]


class TurnDiff(Msg, frozen=True, kw_only=True, tag="turn_diff"):
    """Everything the turn's patches changed so far, as one git-style diff."""

    outside = Outside(tools=("unified_diff",))
    ends_call = True
    unified_diff: str


class PlanUpdate(Msg, frozen=True, kw_only=True, tag="plan_update"):
    """The model's checklist changed."""

    outside = Outside(words=("plan", "explanation"))
    ends_call = True
    plan: list[dict[str, str]]
    explanation: str | None = None


class ViewImageToolCall(Msg, frozen=True, kw_only=True, tag="view_image_tool_call"):
    """The model looks at a local picture."""

    outside = Outside(words=("call_id", "path"))
    ends_call = True
    call_id: str
    path: str


class WebSearchBegin(Msg, frozen=True, kw_only=True, tag="web_search_begin"):
    """The server searches the web."""

    outside = Outside(words=("call_id",))
    call_id: str


class WebSearchEnd(Msg, frozen=True, kw_only=True, tag="web_search_end"):
    """The server's search is over."""

    outside = Outside(words=("call_id", "query", "action"))
    call_id: str
    query: str
    action: dict[str, Any] | None = None


# ---- hooks -----------------------------------------------------------------------------------------


class HookStarted(Msg, frozen=True, kw_only=True, tag="hook_started"):
    """A hook begins to run. `run` is a `protocol.hook_records.HookRun`."""

    outside = Outside(tools=("run",))
    turn_id: str | None
    run: dict[str, Any]


class HookCompleted(Msg, frozen=True, kw_only=True, tag="hook_completed"):
    """A hook is over; the run says how, and what it said."""

    outside = Outside(tools=("run",))
    turn_id: str | None
    run: dict[str, Any]


# ---- the thread's own ops --------------------------------------------------------------------------


class ThreadRolledBack(Msg, frozen=True, kw_only=True, tag="thread_rolled_back"):
    outside = NOTHING
    num_turns: int


class ThreadNameUpdated(Msg, frozen=True, kw_only=True, tag="thread_name_updated"):
    outside = Outside(words=("thread_name",))
    thread_id: str
    thread_name: str


TERMINAL = (TaskComplete, TurnAborted)
"""Exactly one of these ends each turn."""


def encode_event(event: Event) -> bytes:
    """One line of protocol v1, without the newline."""
    try:
        return encode_json(event)
    except UnicodeEncodeError:  # a path or an argument with bytes that are no text
        return encode_payload(msgspec.to_builtins(event))


def usage_info(total: TokenUsage, last: TokenUsage, window: int | None) -> dict[str, Any]:
    """The `info` of a token_count message."""
    return {"total_token_usage": total.to_dict(), "last_token_usage": last.to_dict(), "model_context_window": window}
