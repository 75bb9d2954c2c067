"""What the server asks its clients: one struct per method, and the shape of the answer."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec

from spindle.frontends.app_server.objects import Wire


class Ask(Wire, frozen=True, kw_only=True):
    """The params of a request that the client must answer; `reply` is the shape of its answer."""

    method: ClassVar[str]
    reply: ClassVar[type[Wire]]
    flag: ClassVar[Literal["waitingOnApproval", "waitingOnUserInput"] | None] = "waitingOnApproval"
    """What the thread's status says meanwhile."""


class ApprovalReply(Wire, frozen=True, kw_only=True):
    """`accept`, `acceptForSession`, `decline`, `cancel`, or an object with `acceptWithExecpolicyAmendment`."""

    decision: str | dict[str, Any]


class CommandApproval(Ask, frozen=True, kw_only=True):
    method = "item/commandExecution/requestApproval"
    reply = ApprovalReply
    kind: str = "command"
    thread_id: str
    turn_id: str
    item_id: str
    started_at_ms: int
    environment_id: str = "local"
    reason: str | None
    command: str
    cwd: str
    command_actions: list[dict[str, Any]]
    proposed_execpolicy_amendment: list[str] | None
    available_decisions: list[Any]


class FileChangeApproval(Ask, frozen=True, kw_only=True):
    method = "item/fileChange/requestApproval"
    reply = ApprovalReply
    thread_id: str
    turn_id: str
    item_id: str
    started_at_ms: int
    reason: str | None
    grant_root: str | None


class PermissionsReply(Wire, frozen=True, kw_only=True):
    """What is given of it, in the same form; nothing is a no."""

    permissions: dict[str, Any]
    scope: Literal["turn", "session"] = "turn"
    strict_auto_review: bool | None = None


class PermissionsApproval(Ask, frozen=True, kw_only=True):
    """The model asks to reach more than the sandbox allows."""

    method = "item/permissions/requestApproval"
    reply = PermissionsReply
    thread_id: str
    turn_id: str
    item_id: str
    environment_id: str = "local"
    started_at_ms: int
    cwd: str
    reason: str | None
    permissions: dict[str, Any]


class Answers(Wire, frozen=True, kw_only=True):
    answers: list[str] = []


class UserInputReply(Wire, frozen=True, kw_only=True):
    answers: dict[str, Answers]


class RequestUserInput(Ask, frozen=True, kw_only=True):
    method = "item/tool/requestUserInput"
    reply = UserInputReply
    flag = "waitingOnUserInput"
    thread_id: str
    turn_id: str
    item_id: str
    questions: list[dict[str, Any]]
    is_blocking: bool = True
    auto_resolution_ms: int | None = None


class DynamicToolReply(Wire, frozen=True, kw_only=True):
    content_items: list[dict[str, Any]] = []
    """`{"type":"inputText","text"}` or `{"type":"inputImage","imageUrl"}`."""
    success: bool


class DynamicToolCall(Ask, frozen=True, kw_only=True):
    """The model calls a tool that the client brought along."""

    method = "item/tool/call"
    reply = DynamicToolReply
    flag = None
    thread_id: str
    turn_id: str
    call_id: str
    namespace: str | None
    tool: str
    arguments: Any


class ElicitationReply(Wire, frozen=True, kw_only=True):
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")
    """For a tool: `{"persist": "session"}` allows it until the thread is closed."""


class TokensRefreshReply(Wire, frozen=True, kw_only=True):
    access_token: str
    chatgpt_account_id: str
    chatgpt_plan_type: str | None = None


class TokensRefresh(Ask, frozen=True, kw_only=True):
    """The tokens that a client signed in with are no longer taken. About no thread."""

    method = "account/chatgptAuthTokens/refresh"
    reply = TokensRefreshReply
    flag = None
    reason: Literal["unauthorized"]
    previous_account_id: str | None


class Elicitation(Ask, frozen=True, kw_only=True):
    """A tool server wants something filled in, or the model wants to use a tool of one."""

    method = "mcpServer/elicitation/request"
    reply = ElicitationReply
    thread_id: str
    turn_id: str | None
    server_name: str
    mode: Literal["form"] = "form"
    message: str
    requested_schema: dict[str, Any]
    meta: dict[str, Any] | None = msgspec.field(default=None, name="_meta")
