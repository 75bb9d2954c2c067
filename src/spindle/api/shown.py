"""What the Python API shows: items, usage, errors, changes, the result of a turn, recorded threads. Frozen records.

`to_dict()` of each gives its JSON form. New fields and new types may come with any release.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

Status = Literal["in_progress", "completed", "failed", "declined"]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything the Python API shows."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts and lists, as JSON has them."""
        return msgspec.to_builtins(self)


# ---- items -----------------------------------------------------------------------------------------


class BaseItem(Shown, frozen=True, kw_only=True):
    """Base of all items."""

    id: str
    type: str


class UserMessage(BaseItem, frozen=True, kw_only=True):
    """What was said to the model: the input of the turn, and what was steered in."""

    type: Literal["user_message"] = "user_message"
    text: str
    images: list[str] = []
    """Paths and URLs of pictures."""


class ExternalMessage(BaseItem, frozen=True, kw_only=True):
    """What a program brought from outside of the conversation, in the name of a tool."""

    type: Literal["external_message"] = "external_message"
    tool: str
    """The tool's name, with its namespace before it."""
    text: str


class AgentMessage(BaseItem, frozen=True, kw_only=True):
    """A message of the model."""

    type: Literal["agent_message"] = "agent_message"
    text: str
    phase: str | None = None
    """"commentary" for what was said on the way, "final_answer" for the answer; None where the model does not say."""


class Reasoning(BaseItem, frozen=True, kw_only=True):
    """A summary of what the model thought."""

    type: Literal["reasoning"] = "reasoning"
    text: str


class Plan(BaseItem, frozen=True, kw_only=True):
    """A plan that the model proposes; only in plan mode."""

    type: Literal["plan"] = "plan"
    text: str


class CommandExecution(BaseItem, frozen=True, kw_only=True):
    """A command that the model ran."""

    type: Literal["command_execution"] = "command_execution"
    command: str
    aggregated_output: str
    exit_code: int | None = None
    """None while it runs; -1 when it never ran, and the output says why."""
    status: Status


class PathChange(Shown, frozen=True, kw_only=True):
    """A file that a patch changed."""

    path: str
    kind: Literal["add", "update", "delete"]


class FileChange(BaseItem, frozen=True, kw_only=True):
    """A patch."""

    type: Literal["file_change"] = "file_change"
    changes: list[PathChange]
    status: Status


class McpToolCall(BaseItem, frozen=True, kw_only=True):
    """A call to a tool of an MCP server."""

    type: Literal["mcp_tool_call"] = "mcp_tool_call"
    server: str
    tool: str
    arguments: Any = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    status: Status


class PythonToolCall(BaseItem, frozen=True, kw_only=True):
    """A call to a Python function that was given as a tool."""

    type: Literal["python_tool_call"] = "python_tool_call"
    tool: str
    arguments: Any = None
    status: Status
    result: Any = None
    """What the model was given."""
    error: str | None = None
    """What the model was told when it failed."""
    duration_ms: int | None = None


class CollabToolCall(BaseItem, frozen=True, kw_only=True):
    """A call that starts, instructs, awaits or closes sub-agents."""

    type: Literal["collab_tool_call"] = "collab_tool_call"
    tool: str
    sender_thread_id: str
    receiver_thread_ids: list[str]
    prompt: str | None = None
    agents_states: dict[str, Any] = {}
    status: Status


class WebSearch(BaseItem, frozen=True, kw_only=True):
    """A search that the model server made."""

    type: Literal["web_search"] = "web_search"
    call_id: str = ""
    query: str
    action: dict[str, Any] | None = None


class TodoEntry(Shown, frozen=True, kw_only=True):
    """A step of the model's checklist."""

    text: str
    completed: bool


class TodoList(BaseItem, frozen=True, kw_only=True):
    """The model's checklist."""

    type: Literal["todo_list"] = "todo_list"
    items: list[TodoEntry]


class ErrorItem(BaseItem, frozen=True, kw_only=True):
    """Something a person should know; the work went on."""

    type: Literal["error"] = "error"
    message: str


Item = (
    UserMessage
    | ExternalMessage
    | AgentMessage
    | Reasoning
    | Plan
    | CommandExecution
    | FileChange
    | McpToolCall
    | PythonToolCall
    | CollabToolCall
    | WebSearch
    | TodoList
    | ErrorItem
)
"""One thing that happened in a turn. `type` says which; the id is the same in every event about it."""

ITEM_TYPES: dict[str, type[Item]] = {str(kind.__struct_defaults__[0]): kind for kind in get_args(Item)}


def shown_item(item: dict[str, Any]) -> Item:
    """The object for an item in the form of `exec --json`. Values of servers are taken as they come."""
    kind = ITEM_TYPES[item["type"]]
    fields = {name: item[name] for name in kind.__struct_fields__ if name in item}
    if kind is FileChange:
        fields["changes"] = [PathChange(**change) for change in item["changes"]]
    elif kind is TodoList:
        fields["items"] = [TodoEntry(**entry) for entry in item["items"]]
    return kind(**fields)


# ---- the result ------------------------------------------------------------------------------------


class Usage(Shown, frozen=True, kw_only=True):
    """Tokens."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    """How many of the input tokens came from the provider's cache."""
    output_tokens: int = 0
    reasoning_output_tokens: int = 0
    """How many of the output tokens were reasoning."""
    total_tokens: int = 0


class TurnError(Shown, frozen=True, kw_only=True, omit_defaults=True):
    """Why a turn failed."""

    message: str
    info: str
    """The kind of failure, for machines."""
    budget: dict[str, Any] | None = None
    """Which budget is used up, if one is: scope, limit, max, used."""


class Change(Shown, frozen=True, kw_only=True):
    """What a turn did to one file, from before it to after it."""

    path: str
    """Absolute."""
    kind: Literal["add", "update", "delete"]
    diff: str | None = None
    """Git-style."""
    move_path: str | None = None
    """Where the file is now, if it was moved."""


class TurnResult(Shown, frozen=True, kw_only=True):
    """How a turn ended, and what came of it."""

    thread_id: str
    turn_id: str
    status: Literal["completed", "interrupted", "failed"]
    error: TurnError | None = None
    final_response: str | None = None
    """The last message that is no commentary; None when there is none."""
    output: Any = None
    """The answer as an instance of `output_type`."""
    plan: str | None = None
    """The plan that was proposed, in plan mode."""
    items: list[Item] = []
    """What happened, in order."""
    changes: list[Change] = []
    """What the turn did to files, net."""
    usage: Usage = Usage()
    """What this turn cost."""
    thread_usage: Usage = Usage()
    """What the thread has cost so far."""
    response_id: str | None = None
    """A bookmark: `fork(at=…)` goes on from here."""
    started_at: float = 0.0
    """Unix seconds."""
    completed_at: float = 0.0
    duration_ms: int = 0

    @property
    def id(self) -> str:
        """The same as `turn_id`."""
        return self.turn_id


# ---- undo ------------------------------------------------------------------------------------------


class RestoredFile(Shown, frozen=True, kw_only=True):
    """A file that an undo put back."""

    path: str
    action: Literal["written", "deleted", "mode", "linked"]


class ConflictingFile(Shown, frozen=True, kw_only=True):
    """A file that somebody else has changed, so an undo left it alone."""

    path: str
    reason: str
    saved_as: str | None = None
    """Where the older version was put, with `keep_mine`."""


class SkippedFile(Shown, frozen=True, kw_only=True):
    """A file that a turn has changed and that cannot be put back."""

    path: str
    reason: str


class UndoReport(Shown, frozen=True, kw_only=True):
    """What an undo did, or would do."""

    status: Literal["undone", "redone", "conflict", "nothing", "dry_run"]
    thread_id: str | None
    turns: list[str] = []
    """The ids of the turns, oldest first."""
    restored: list[RestoredFile] = []
    conflicts: list[ConflictingFile] = []
    skipped: list[SkippedFile] = []
    incomplete: bool = False
    """A turn was killed in the middle: what was there when it was undone counts as its end."""
    message: str = ""
    """The same in a sentence or two."""


# ---- records ---------------------------------------------------------------------------------------


class TurnRecord(Shown, frozen=True, kw_only=True):
    """A turn as it was recorded."""

    id: str
    status: Literal["completed", "interrupted", "failed", "in_progress"]
    items: list[Item]


class ThreadRecord(Shown, frozen=True, kw_only=True):
    """A thread as it was recorded."""

    id: str
    name: str | None
    cwd: str
    model: str | None
    created_at: float
    """Unix seconds."""
    updated_at: float
    preview: str = ""
    """How the first input begins."""
    path: str | None = None
    archived: bool = False
    turns: list[TurnRecord] = []
    """Empty unless they were asked for."""


class Page(Shown, frozen=True, kw_only=True):
    """A part of a list of threads."""

    data: list[ThreadRecord]
    next_cursor: str | None
    """Give it to `list` for the next part; None at the end."""


class Match(Shown, frozen=True, kw_only=True):
    """A place where a text was found."""

    thread_id: str
    turn_id: str | None
    snippet: str


class ModelEntry(Shown, frozen=True, kw_only=True):
    """A model there is to choose from."""

    id: str
    name: str
    description: str = ""
    is_default: bool = False
    hidden: bool = False
    efforts: list[str] = []
    default_effort: str | None = None
    context_window: int | None = None
    input_modalities: list[str] = []


class Account(Shown, frozen=True, kw_only=True):
    """Who is signed in to the configured model provider."""

    type: Literal["api_key", "chatgpt"] | None
    """None when nobody is signed in."""
    email: str | None = None
    plan: str | None = None
    provider: str
    requires_login: bool
    """Whether the configured provider needs a login at all."""
