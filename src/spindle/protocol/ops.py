"""What may be asked of a session. An op travels in a `Submission`, whose id the caller chooses."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from spindle.errors import SpindleError
from spindle.protocol.items import decode_foreign
from spindle.protocol.settings import BudgetLimits, TurnAttribution

UNSET = msgspec.UNSET
UnsetType = msgspec.UnsetType


class BadSubmission(SpindleError):
    """A line that is not a submission. `id` is the caller's, where one could be read."""

    def __init__(self, message: str, id: str = "") -> None:
        super().__init__(message)
        self.id = id


class Op(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all ops."""


class ConfigureSession(Op, frozen=True, kw_only=True, tag="configure_session"):
    """Open a thread, or another one in its place; aborts what runs."""

    model: str | None = None
    model_provider: str | None = None
    provider: dict[str, Any] | None = None
    """A whole provider table given inline (older clients)."""
    cwd: str | None = None
    approval_policy: str | dict[str, Any] | None = None
    sandbox_policy: Any = None
    effort: str | None = None
    summary: str | None = None
    model_reasoning_effort: str | None = None
    model_reasoning_summary: str | None = None
    personality: str | None = None
    base_instructions: str | None = None
    developer_instructions: str | None = None
    user_instructions: str | None = None
    resume_path: str | None = None
    resume_id: str | None = None
    config: dict[str, Any] | None = None


class ToolOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a program brings from outside of the conversation, in the name of a tool. It gives no rights."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    output: str | list[dict[str, Any]]
    """A text, or a list of `input_text` and `input_image` parts."""
    namespace: str | None = None


class UserTurn(Op, frozen=True, kw_only=True, tag="user_turn"):
    """Start a turn. Every field but `items` may be missing: then the session's value holds. Given ones stay."""

    items: list[dict[str, Any]]
    cwd: str | None = None
    approval_policy: str | dict[str, Any] | None = None
    sandbox_policy: Any = None
    model: str | None = None
    model_provider: str | None = None
    effort: str | UnsetType | None = UNSET
    summary: str | None = None
    service_tier: str | None = None
    final_output_json_schema: dict[str, Any] | None = None
    collaboration_mode: Any = None
    personality: str | None = None
    last_response_id: str | None = None
    budget: BudgetLimits | None = None
    """What this turn may use, beside what is configured."""
    tool_output: ToolOutput | None = None
    """Begins the turn before a person's words, or in their place: then `items` is empty."""
    service_tier_for_turn: str | None = None
    """For this turn alone; `default` is the usual one. The session's value stays."""
    attribution: TurnAttribution | None = None


class UserInput(Op, frozen=True, kw_only=True, tag="user_input"):
    """Start a turn with the session's settings; with mode "steer", feed the running one."""

    items: list[dict[str, Any]]
    final_output_json_schema: dict[str, Any] | None = None
    mode: str = "replace"
    tool_output: ToolOutput | None = None
    """As in a `UserTurn`."""


class OverrideTurnContext(Op, frozen=True, kw_only=True, tag="override_turn_context"):
    """Change the settings of later turns. Nothing is recorded until one starts."""

    cwd: str | None = None
    approval_policy: str | dict[str, Any] | None = None
    sandbox_policy: Any = None
    model: str | None = None
    model_provider: str | None = None
    effort: str | UnsetType | None = UNSET
    summary: str | None = None
    service_tier: str | None = None
    collaboration_mode: Any = None
    personality: str | None = None


class UpdateTurn(Op, frozen=True, kw_only=True, tag="update_turn"):
    """Change settings of the turn that runs, from its next request on, and not those of later turns. Answered by
    `turn_updated`."""

    turn_id: str
    model: str | None = None
    effort: str | UnsetType | None = UNSET
    summary: str | None = None


class Interrupt(Op, frozen=True, kw_only=True, tag="interrupt"):
    """Stop the running turn; without one, nothing."""


class ExecApproval(Op, frozen=True, kw_only=True, tag="exec_approval"):
    """A person's answer about a command. `id` is the request's event id or its call id."""

    id: str
    decision: Any


class PatchApproval(Op, frozen=True, kw_only=True, tag="patch_approval"):
    """A person's answer about a patch."""

    id: str
    decision: Any


class ResolveElicitation(Op, frozen=True, kw_only=True, tag="resolve_elicitation"):
    """A person's answer to what a server asks, or about a tool of one: accept, decline or cancel."""

    server_name: str
    request_id: str | int
    decision: Any
    content: dict[str, Any] | None = None
    """The filled-in form."""


class UserInputAnswer(Op, frozen=True, kw_only=True, tag="user_input_answer"):
    """A person's answers to `request_user_input`. `id` is the turn's or the call's."""

    id: str
    response: dict[str, Any]


class DynamicToolResponse(Op, frozen=True, kw_only=True, tag="dynamic_tool_response"):
    """What a tool of the client's own answers. `id` is the call's; `response`: content_items, success."""

    id: str
    response: dict[str, Any]


class ListMcpTools(Op, frozen=True, kw_only=True, tag="list_mcp_tools"):
    """Ask which tools and resources the MCP servers have."""


class RefreshMcpServers(Op, frozen=True, kw_only=True, tag="refresh_mcp_servers"):
    """Start the MCP servers anew; their tools are used from the next turn. `config` replaces what files say."""

    config: dict[str, Any] | None = None


class CallMcpTool(Op, frozen=True, kw_only=True, tag="call_mcp_tool"):
    """Call a tool of an MCP server for the client, not for the model; answered by `mcp_server_answer`."""

    server: str
    tool: str
    arguments: dict[str, Any] = {}


class ReadMcpResource(Op, frozen=True, kw_only=True, tag="read_mcp_resource"):
    """Read a resource of an MCP server for the client; answered by `mcp_server_answer`."""

    server: str
    uri: str


class ListSkills(Op, frozen=True, kw_only=True, tag="list_skills"):
    cwds: list[str] = []
    force_reload: bool = False


class ListGrants(Op, frozen=True, kw_only=True, tag="list_grants"):
    """Ask what a person has granted: for this session, and for good."""


class RevokeGrant(Op, frozen=True, kw_only=True, tag="revoke_grant"):
    """Take a grant back, at once. `id` is the grant's."""

    id: str


class ListModels(Op, frozen=True, kw_only=True, tag="list_models"):
    pass


class Compact(Op, frozen=True, kw_only=True, tag="compact"):
    """Replace the thread by a summary, now. `instructions` say what must be kept."""

    instructions: str | None = None


class RunUserShellCommand(Op, frozen=True, kw_only=True, tag="run_user_shell_command"):
    """Run a command of the person's own, without sandbox and approval. Not while a turn runs."""

    command: str


class CleanBackgroundTerminals(Op, frozen=True, kw_only=True, tag="clean_background_terminals"):
    """End commands that run on after their call: those with these ids, or all of them."""

    process_ids: list[str] | None = None


class GetContext(Op, frozen=True, kw_only=True, tag="get_context"):
    """Ask how full the window is and what fills it."""


class StartOver(Op, frozen=True, kw_only=True, tag="start_over"):
    """Go on with a fresh context made of what is known; the thread so far stays in the record."""


class Pin(Op, frozen=True, kw_only=True, tag="pin"):
    """Keep a fact, word for word, through every compaction."""

    text: str


class Unpin(Op, frozen=True, kw_only=True, tag="unpin"):
    """Let a pinned fact go."""

    text: str


class ThreadRollback(Op, frozen=True, kw_only=True, tag="thread_rollback"):
    """Forget the last `num_turns` user turns."""

    num_turns: int


class Undo(Op, frozen=True, kw_only=True, tag="undo"):
    """Take back what turns did to files and to the conversation; answered by `undo_completed`."""

    turns: int | None = None
    """How many; one when nothing is said."""
    to: str | None = None
    """The id of a turn: everything from it on."""
    files: bool = True
    conversation: bool = True
    keep_mine: bool = False
    """Files that somebody else has changed stay as they are, the rest goes back."""
    dry_run: bool = False
    redo: bool = False
    """Put back what the last undo took."""


class Review(Op, frozen=True, kw_only=True, tag="review"):
    """Have code reviewed by a session of its own that can change nothing; a turn like any other, with the report as
    its answer. `review_request`: target, user_facing_hint."""

    review_request: dict[str, Any]


class GoalSet(Op, frozen=True, kw_only=True, tag="goal_set"):
    """Give the thread a goal, or change the one it has: what is left out stays. An active goal on an idle thread
    starts work. Answered by `thread_goal_updated`."""

    objective: str | None = None
    token_budget: int | UnsetType | None = UNSET
    status: str | None = None


class GoalClear(Op, frozen=True, kw_only=True, tag="goal_clear"):
    """The thread has no goal any more; a turn that runs goes on to its end. Answered by `thread_goal_updated`."""


class SetThreadName(Op, frozen=True, kw_only=True, tag="set_thread_name"):
    name: str


class InjectItems(Op, frozen=True, kw_only=True, tag="inject_items"):
    """Append items that the model is shown with the next request; as the op of a turn, what a feature begins it with.
    Not on the wire: front ends check what they take."""

    items: list[dict[str, Any]]


class GetPath(Op, frozen=True, kw_only=True, tag="get_path"):
    """Ask where the thread is recorded."""


class Shutdown(Op, frozen=True, kw_only=True, tag="shutdown"):
    """Abort, flush, answer `shutdown_complete`, and close the event stream."""


OPS: dict[str, type[Op]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (
        ConfigureSession,
        UserTurn,
        UserInput,
        OverrideTurnContext,
        UpdateTurn,
        Interrupt,
        ExecApproval,
        PatchApproval,
        ResolveElicitation,
        UserInputAnswer,
        DynamicToolResponse,
        ListMcpTools,
        RefreshMcpServers,
        CallMcpTool,
        ReadMcpResource,
        ListGrants,
        RevokeGrant,
        ListSkills,
        ListModels,
        Compact,
        RunUserShellCommand,
        CleanBackgroundTerminals,
        StartOver,
        GetContext,
        Pin,
        Unpin,
        ThreadRollback,
        Undo,
        Review,
        GoalSet,
        GoalClear,
        SetThreadName,
        GetPath,
        Shutdown,
    )
}


ANSWERS = (ExecApproval, PatchApproval, ResolveElicitation, UserInputAnswer, DynamicToolResponse)
"""Ops that answer what a turn has asked."""

_ALIASES = {"request_user_input_response": "user_input_answer"}


class Submission(msgspec.Struct, frozen=True):
    """One op and the id under which its events come back."""

    id: str
    op: Op


def decode_submission(line: bytes | str) -> Submission:
    """Read one line of protocol v1. Unknown fields are ignored; an unknown op is a BadSubmission with its id."""
    from spindle.protocol.foreign import field_with_nul, peek_id  # not on the way of programs that read no ops

    try:
        value = decode_foreign(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        given = peek_id(line if isinstance(line, bytes) else line.encode("utf-8", "replace"))
        raise BadSubmission(f"not a JSON object: {error}", given if isinstance(given, str) else "") from error
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        raise BadSubmission('a submission is an object with a string "id" and an "op"')
    sub_id, op = value["id"], value.get("op")
    if not isinstance(op, dict) or not isinstance(op.get("type"), str):
        raise BadSubmission('"op" must be an object with a "type"', sub_id)
    tag: str = _ALIASES.get(op["type"]) or op["type"]
    kind = OPS.get(tag)
    if kind is None:
        raise BadSubmission(f"unknown op {op['type'][:100]!r}", sub_id)
    if (field := field_with_nul(op)) is not None:
        raise BadSubmission(f"bad {tag} op: `{field}` holds a NUL character", sub_id)
    try:
        return Submission(sub_id, msgspec.convert({**op, "type": tag}, kind))
    except msgspec.ValidationError as error:
        raise BadSubmission(f"bad {op['type']} op: {error}", sub_id) from error
