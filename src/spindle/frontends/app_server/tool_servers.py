"""MCP servers as a client sees them: calls of their tools as items, and their questions. Loaded when there are any."""

from __future__ import annotations

from typing import Any

from spindle.frontends.app_server import notifications as notes
from spindle.frontends.app_server import server_requests as asks
from spindle.frontends.app_server.asking import Put, Reply
from spindle.frontends.app_server.objects import McpToolCallItem
from spindle.protocol.ops import Op, ResolveElicitation
from spindle.protocol.tool_servers import ElicitationRequest, McpStartupUpdate, McpToolCallBegin, McpToolCallEnd

_NO_FIELDS = {"type": "object", "properties": {}}


def call_item(msg: McpToolCallBegin | McpToolCallEnd) -> McpToolCallItem:
    item: dict[str, Any] = {
        "id": msg.call_id,
        "server": msg.invocation["server"],
        "tool": msg.invocation["tool"],
        "arguments": msg.invocation.get("arguments"),
    }
    if isinstance(msg, McpToolCallBegin):
        return McpToolCallItem(**item)
    took = msg.duration.secs * 1000 + msg.duration.nanos // 1_000_000
    answer = msg.result.get("Ok")
    if not isinstance(answer, dict):
        error = {"message": str(msg.result.get("Err") or "")}
        return McpToolCallItem(**item, status="failed", error=error, duration_ms=took)
    result = {
        "content": answer.get("content") or [],
        "structuredContent": answer.get("structuredContent"),
        "_meta": answer.get("_meta"),
    }
    status = "failed" if answer.get("isError") is True else "completed"
    return McpToolCallItem(**item, status=status, result=result, duration_ms=took)


def startup_note(msg: McpStartupUpdate, thread_id: str) -> notes.ServerStartupUpdated:
    state: Any = msg.status.get("state")
    return notes.ServerStartupUpdated(thread_id=thread_id, name=msg.server, status=state, error=msg.status.get("error"))


def _permissions_put(msg: ElicitationRequest, thread_id: str, now_ms: int) -> Put:
    """The model asks to reach more than the sandbox allows: the client gives what it likes of it."""

    def read(reply: Reply) -> tuple[Op, bool]:
        decision, content = "decline", None
        # To have every command of the turn looked at by another model is nothing that Spindle can promise.
        if isinstance(reply, asks.PermissionsReply) and not reply.strict_auto_review and _is_any(reply.permissions):
            decision = "accept_for_session" if reply.scope == "session" else "accept"
            content = {"permissions": reply.permissions}
        op = ResolveElicitation(server_name=msg.server_name, request_id=msg.id, decision=decision, content=content)
        return op, decision == "decline"

    asked = (msg.invocation or {}).get("arguments") or {}
    ask = asks.PermissionsApproval(
        thread_id=thread_id,
        turn_id=msg.turn_id,
        item_id=msg.call_id,
        started_at_ms=now_ms,
        cwd=msg.cwd or "",
        reason=asked.get("reason"),
        permissions=msg.permissions or {},
    )
    return Put(ask, read)


def _is_any(permissions: dict[str, Any]) -> bool:
    return any(value is not None for value in permissions.values())


def elicitation_put(msg: ElicitationRequest, thread_id: str, now_ms: int) -> Put:
    """A server's own question, or ours about a tool of it: that one has nothing to fill in."""
    if msg.permissions is not None:
        return _permissions_put(msg, thread_id, now_ms)
    meta = None
    if msg.kind == "tool_approval":
        meta = {
            "codex_approval_kind": "mcp_tool_call",
            "persist": ["session"],
            "if_approved": msg.if_approved,
            "invocation": msg.invocation,
        }
    ask = asks.Elicitation(
        thread_id=thread_id,
        turn_id=msg.turn_id,
        server_name=msg.server_name,
        message=msg.message,
        requested_schema=msg.requested_schema or _NO_FIELDS,
        meta=meta,
    )
    return Put(ask, lambda reply: answer_to(msg, reply if isinstance(reply, asks.ElicitationReply) else None))


def answer_to(msg: ElicitationRequest, reply: asks.ElicitationReply | None) -> tuple[Op, bool]:
    """What a session is told; and whether that is a no. To cancel ends the turn only where a tool was asked about."""
    decision = reply.action if reply is not None else "decline"
    is_about_tool = msg.kind == "tool_approval"
    if is_about_tool and decision == "cancel":
        decision = "abort"
    if is_about_tool and reply is not None and decision == "accept" and (reply.meta or {}).get("persist") == "session":
        decision = "accept_for_session"
    content = reply.content if reply is not None else None
    op = ResolveElicitation(server_name=msg.server_name, request_id=msg.id, decision=decision, content=content)
    return op, not decision.startswith("accept")
