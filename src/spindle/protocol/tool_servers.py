"""What a session tells of its MCP servers: event messages of their own module, loaded when there are any."""

from __future__ import annotations

from typing import Any

from spindle.protocol.events import Duration, Msg
from spindle.protocol.outside import Outside


class McpStartupUpdate(Msg, frozen=True, kw_only=True, tag="mcp_startup_update"):
    """A server is being started, or how that ended."""

    outside = Outside(words=("server", "status"))
    server: str
    status: dict[str, str]
    """`{"state": "starting" | "ready" | "failed" | "cancelled"}`, and `error` where it failed."""


class McpStartupComplete(Msg, frozen=True, kw_only=True, tag="mcp_startup_complete"):
    """No server is being started any more: the list of tools is final."""

    outside = Outside(words=("ready", "failed", "cancelled"))
    ready: list[str]
    failed: list[dict[str, str]]
    """`{"server", "error"}` for each."""
    cancelled: list[str]


class McpToolCallBegin(Msg, frozen=True, kw_only=True, tag="mcp_tool_call_begin"):
    """A server is asked to do something. `invocation`: server, tool, arguments; names as the server gave them."""

    outside = Outside(words=("call_id", "invocation"))
    call_id: str
    invocation: dict[str, Any]


class McpToolCallProgress(Msg, frozen=True, kw_only=True, tag="mcp_tool_call_progress"):
    """What the server says while it works on a call."""

    outside = Outside(tools=("call_id", "message"))
    call_id: str
    message: str


class McpToolCallEnd(Msg, frozen=True, kw_only=True, tag="mcp_tool_call_end"):
    """The server has answered, also with an error of its own; `Err` where there was no answer."""

    outside = Outside(tools=("call_id", "invocation", "result"))
    ends_call = True
    call_id: str
    invocation: dict[str, Any]
    duration: Duration
    result: dict[str, Any]
    """`{"Ok": RESULT}` as the server sent it, or `{"Err": TEXT}`."""


class ElicitationRequest(Msg, frozen=True, kw_only=True, tag="elicitation_request"):
    """The turn waits for a person: a server wants to know something, or the model wants to use a tool of one."""

    outside = Outside(
        words=(
            *("server_name", "id", "message", "requested_schema", "call_id", "invocation"),
            *("if_approved", "available_decisions", "offers", "permissions", "cwd"),
        )
    )
    server_name: str
    id: str
    message: str
    kind: str = "server_question"
    """"server_question", or "tool_approval": then the words are ours, not the server's."""
    requested_schema: dict[str, Any] | None = None
    """The form that the server wants filled in."""
    call_id: str = ""
    turn_id: str = ""
    invocation: dict[str, Any] | None = None
    """With a tool approval: server, tool, arguments."""
    permissions: dict[str, Any] | None = None
    """Where the model asks to reach more than the sandbox allows: what, in the words of the app-server. An answer may
    give less, in the same words, as `permissions` of its content."""
    cwd: str | None = None
    """Where the commands run that it is asked for."""
    if_approved: str = ""
    available_decisions: list[Any] = []
    offers: list[dict[str, Any]] = []
    """With a tool approval, for each decision the grants it would make."""
    thread_id: str | None = None
    """The sub-agent that asks; None = this thread itself."""


class McpListToolsResponse(Msg, frozen=True, kw_only=True, tag="mcp_list_tools_response"):
    """Answers `list_mcp_tools`."""

    outside = Outside(words=("tools", "resources", "resource_templates", "auth_statuses"))
    tools: dict[str, Any]
    """By full name, as the server described them."""
    resources: dict[str, list[Any]]
    """By server."""
    resource_templates: dict[str, list[Any]]
    auth_statuses: dict[str, str]
    """By server: "unsupported", "not_logged_in", "bearer_token" or "o_auth"."""


class McpServerAnswer(Msg, frozen=True, kw_only=True, tag="mcp_server_answer"):
    """Answers `call_mcp_tool` and `read_mcp_resource`: what the server said, errors of its tool included."""

    outside = Outside(tools=("server", "result"))
    server: str
    result: dict[str, Any]
