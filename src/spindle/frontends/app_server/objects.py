"""The objects of the app-server's protocol, as clients read them: threads, turns, items, policies, inputs.

Only shapes; `items` and `threads` make them. The schemas that `generate-json-schema` writes come from here.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of everything that travels: camelCase names."""


# ---- input and policies ----------------------------------------------------------------------------


class ByteRange(Wire, frozen=True, kw_only=True):
    start: int
    end: int


class TextElement(Wire, frozen=True, kw_only=True):
    """A part of a text that the client shows as something else."""

    byte_range: ByteRange
    placeholder: str | None = None


class TextInput(Wire, frozen=True, kw_only=True, tag_field="type", tag="text"):
    text: str
    text_elements: list[TextElement] = msgspec.field(default_factory=list, name="text_elements")


class ImageInput(Wire, frozen=True, kw_only=True, tag_field="type", tag="image"):
    url: str
    detail: str | None = None


class LocalImageInput(Wire, frozen=True, kw_only=True, tag_field="type", tag="localImage"):
    path: str
    detail: str | None = None


class SkillInput(Wire, frozen=True, kw_only=True, tag_field="type", tag="skill"):
    name: str
    path: str


class MentionInput(Wire, frozen=True, kw_only=True, tag_field="type", tag="mention"):
    name: str
    path: str


class OutputText(Wire, frozen=True, kw_only=True, tag_field="type", tag="input_text"):
    text: str


class OutputImage(Wire, frozen=True, kw_only=True, tag_field="type", tag="input_image"):
    image_url: str = msgspec.field(name="image_url")
    detail: Literal["auto", "low", "high", "original"] | None = None


class ToolOutput(Wire, frozen=True, kw_only=True):
    """What a program brings from outside of the conversation, in the name of a tool."""

    name: str
    namespace: str | None = None
    output: str | list[OutputText | OutputImage]


UserInput = TextInput | ImageInput | LocalImageInput | SkillInput | MentionInput

ApprovalName = Literal["untrusted", "on-failure", "on-request", "never"]
AskForApproval = ApprovalName | dict[str, Any]
"""A policy by name, or `{"granular": {…}}`: on-request, but only these kinds of question are asked."""
SandboxMode = Literal["read-only", "workspace-write", "danger-full-access"]


class DangerFullAccess(Wire, frozen=True, kw_only=True, tag_field="type", tag="dangerFullAccess"):
    pass


class ReadOnly(Wire, frozen=True, kw_only=True, tag_field="type", tag="readOnly"):
    network_access: bool = False


class ExternalSandbox(Wire, frozen=True, kw_only=True, tag_field="type", tag="externalSandbox"):
    network_access: Literal["restricted", "enabled"] = "restricted"


class WorkspaceWrite(Wire, frozen=True, kw_only=True, tag_field="type", tag="workspaceWrite"):
    writable_roots: list[str] = []
    network_access: bool = False
    exclude_tmpdir_env_var: bool = False
    exclude_slash_tmp: bool = False


SandboxPolicy = DangerFullAccess | ReadOnly | ExternalSandbox | WorkspaceWrite


# ---- items -----------------------------------------------------------------------------------------


class Item(Wire, frozen=True, kw_only=True, tag_field="type"):
    """Base of all items of a turn."""

    id: str
    started_at_ms: int | None = None
    completed_at_ms: int | None = None


class UserMessageItem(Item, frozen=True, kw_only=True, tag="userMessage"):
    content: list[UserInput]
    client_id: str | None = None


class FunctionCallOutputItem(Item, frozen=True, kw_only=True, tag="functionCallOutput"):
    """What a program brought from outside of the conversation."""

    name: str
    namespace: str | None = None
    output: str | list[dict[str, Any]]
    """A text, or a list of `input_text` and `input_image` parts."""


class AgentMessageItem(Item, frozen=True, kw_only=True, tag="agentMessage"):
    text: str
    phase: str | None = None
    moderation: None = None
    memory_citation: None = None
    delivery: None = None
    questions: None = None


class PlanItem(Item, frozen=True, kw_only=True, tag="plan"):
    text: str


class ReasoningItem(Item, frozen=True, kw_only=True, tag="reasoning"):
    summary: list[str] = []
    content: list[str] = []


class CommandItem(Item, frozen=True, kw_only=True, tag="commandExecution"):
    command: str
    """The argument list as a line of shell."""
    cwd: str
    process_id: str | None = None
    source: Literal["agent", "userShell", "unifiedExecStartup", "unifiedExecInteraction"] = "agent"
    status: Literal["inProgress", "completed", "failed", "declined"] = "inProgress"
    command_actions: list[dict[str, Any]] = []
    aggregated_output: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    plugin_id: None = None
    script_path: None = None


class PatchKind(Wire, frozen=True, kw_only=True):
    type: Literal["add", "delete", "update"]
    move_path: str | msgspec.UnsetType | None = msgspec.field(default=msgspec.UNSET, name="move_path")


class FileUpdateChange(Wire, frozen=True, kw_only=True):
    path: str
    kind: PatchKind
    diff: str


class FileChangeItem(Item, frozen=True, kw_only=True, tag="fileChange"):
    changes: list[FileUpdateChange]
    status: Literal["inProgress", "completed", "failed", "declined"] = "inProgress"


class McpToolCallItem(Item, frozen=True, kw_only=True, tag="mcpToolCall"):
    server: str
    tool: str
    arguments: Any = None
    status: Literal["inProgress", "completed", "failed"] = "inProgress"
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    duration_ms: int | None = None


class DynamicToolCallItem(Item, frozen=True, kw_only=True, tag="dynamicToolCall"):
    namespace: str | None
    tool: str
    arguments: Any
    status: Literal["inProgress", "completed", "failed"] = "inProgress"
    content_items: list[dict[str, Any]] | None = None
    success: bool | None = None
    duration_ms: int | None = None


class CollabAgentItem(Item, frozen=True, kw_only=True, tag="collabAgentToolCall"):
    tool: Literal["spawnAgent", "sendInput", "resumeAgent", "wait", "closeAgent"]
    sender_thread_id: str
    receiver_thread_ids: list[str]
    prompt: str | None = None
    model: str | None = None
    reasoning_effort: str | None = None
    agents_states: dict[str, dict[str, Any]] = {}
    status: Literal["inProgress", "completed", "failed"] = "inProgress"


class WebSearchItem(Item, frozen=True, kw_only=True, tag="webSearch"):
    query: str
    action: dict[str, Any] | None = None


class ImageViewItem(Item, frozen=True, kw_only=True, tag="imageView"):
    path: str


class ContextCompactionItem(Item, frozen=True, kw_only=True, tag="contextCompaction"):
    pass


class EnteredReviewModeItem(Item, frozen=True, kw_only=True, tag="enteredReviewMode"):
    review: str
    """What is reviewed, in a few words."""


class ExitedReviewModeItem(Item, frozen=True, kw_only=True, tag="exitedReviewMode"):
    review: str
    """The report, as people read it."""


ThreadItem = (
    UserMessageItem
    | FunctionCallOutputItem
    | AgentMessageItem
    | PlanItem
    | ReasoningItem
    | CommandItem
    | FileChangeItem
    | McpToolCallItem
    | DynamicToolCallItem
    | CollabAgentItem
    | WebSearchItem
    | ImageViewItem
    | ContextCompactionItem
    | EnteredReviewModeItem
    | ExitedReviewModeItem
)


# ---- turns and threads -----------------------------------------------------------------------------

ErrorInfo = str | dict[str, Any]


class TurnError(Wire, frozen=True, kw_only=True):
    message: str
    codex_error_info: ErrorInfo | None = None
    additional_details: str | None = None
    misalignment: None = None
    budget: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """Which budget is used up, if one is: scope, limit, max, used."""


class Turn(Wire, frozen=True, kw_only=True):
    """From an input to the final message. Times in seconds."""

    id: str
    root_turn_id: str | None
    items: list[ThreadItem] = []
    items_view: Literal["notLoaded", "summary", "full"] = "notLoaded"
    status: Literal["inProgress", "completed", "interrupted", "failed"] = "inProgress"
    error: TurnError | None = None
    started_at: int | None = None
    completed_at: int | None = None
    duration_ms: int | None = None


class NotLoaded(Wire, frozen=True, kw_only=True, tag_field="type", tag="notLoaded"):
    pass


class Idle(Wire, frozen=True, kw_only=True, tag_field="type", tag="idle"):
    pass


class SystemError(Wire, frozen=True, kw_only=True, tag_field="type", tag="systemError"):
    """The last turn failed."""


class Active(Wire, frozen=True, kw_only=True, tag_field="type", tag="active"):
    active_flags: list[Literal["waitingOnApproval", "waitingOnUserInput"]] = []


ThreadStatus = NotLoaded | Idle | SystemError | Active


class GitInfo(Wire, frozen=True, kw_only=True):
    sha: str | None
    branch: str | None
    origin_url: str | None


class ThreadEnvironment(Wire, frozen=True, kw_only=True):
    """Where the commands of a thread run. There is this machine, and no other."""

    environment_id: Literal["local"] = "local"
    cwd: str
    runtime_workspace_roots: list[str]

    @classmethod
    def of(cls, cwd: str) -> list[ThreadEnvironment]:
        return [cls(cwd=cwd, runtime_workspace_roots=[cwd])]


class Thread(Wire, frozen=True, kw_only=True):
    """A recorded conversation. Times in seconds; `turns` is filled only where a method says so."""

    id: str
    environments: list[ThreadEnvironment] | None = None
    """None for one that is not loaded."""
    extra: None = None
    session_id: str
    forked_from_id: str | None
    attached_to_thread_id: None = None
    parent_thread_id: str | None = None
    preview: str
    ephemeral: bool
    section: None = None
    section_entered_at: None = None
    project_id: None = None
    history_mode: Literal["legacy"] = "legacy"
    model_provider: str
    model: str | None
    reasoning_effort: str | None
    created_at: int
    updated_at: int
    recency_at: int | None
    status: ThreadStatus
    path: str | None
    cwd: str
    cli_version: str
    originator: str | None
    source: str | dict[str, Any]
    can_accept_direct_input: bool | None = None
    """None for one that is not loaded."""
    thread_source: None = None
    agent_nickname: None = None
    agent_role: None = None
    git_info: GitInfo | None
    name: str | None
    daybreak_enabled: None = None
    turns: list[Turn] = []


class TokenUsageBreakdown(Wire, frozen=True, kw_only=True):
    total_tokens: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class ThreadTokenUsage(Wire, frozen=True, kw_only=True):
    total: TokenUsageBreakdown
    last: TokenUsageBreakdown
    model_context_window: int | None
