"""What the sub-agent tools do: tell the front ends, ask the session's manager of sub-agents, and word the answer."""

from __future__ import annotations

from typing import Any

from spindle.errors import SpindleError, ToolError
from spindle.protocol.agent_events import (
    CollabAgentInteractionBegin,
    CollabAgentInteractionEnd,
    CollabAgentSpawnBegin,
    CollabAgentSpawnEnd,
    CollabCloseBegin,
    CollabCloseEnd,
    CollabWaitingBegin,
    CollabWaitingEnd,
)
from spindle.protocol.items import encode_json
from spindle.tools.agents import CloseAgentArgs, SendInputArgs, SpawnAgentArgs, WaitArgs
from spindle.tools.tool import ToolContext, ToolResult


async def spawn(args: SpawnAgentArgs, ctx: ToolContext) -> ToolResult:
    if not args.message.strip():
        raise ToolError("there is no task: `message` is empty")
    role = None if args.agent_type in ("", "default") else args.agent_type
    known: dict[str, Any] = {"call_id": ctx.call_id, "sender_thread_id": ctx.thread_id, "prompt": args.message}
    ctx.emit(CollabAgentSpawnBegin(**known, agent_type=role))
    try:
        agent_id = await ctx.agents().spawn(args.message, role, ctx.settings)
    except SpindleError as error:
        ctx.emit(CollabAgentSpawnEnd(**known, new_thread_id=None, status={"errored": str(error)}))
        raise ToolError(f"no sub-agent was started: {error}") from error
    ctx.emit(CollabAgentSpawnEnd(**known, new_thread_id=agent_id, status="running"))
    return _answer({"agent_id": agent_id})


async def send(args: SendInputArgs, ctx: ToolContext) -> ToolResult:
    if not args.message.strip():
        raise ToolError("there is nothing to send: `message` is empty")
    agents = ctx.agents()
    known: dict[str, Any] = {
        "call_id": ctx.call_id,
        "sender_thread_id": ctx.thread_id,
        "receiver_thread_id": args.id,
        "prompt": args.message,
    }
    ctx.emit(CollabAgentInteractionBegin(**known))
    try:
        await agents.send(args.id, args.message, interrupt=args.interrupt)
    finally:
        ctx.emit(CollabAgentInteractionEnd(**known, status=agents.status(args.id)))
    return _answer({"status": agents.status(args.id)})


async def wait(args: WaitArgs, ctx: ToolContext) -> ToolResult:
    ids = list(dict.fromkeys(args.ids))
    if not ids:
        raise ToolError("there is nobody to wait for: `ids` is empty")
    agents = ctx.agents()
    known: dict[str, Any] = {"call_id": ctx.call_id, "sender_thread_id": ctx.thread_id}
    ctx.emit(CollabWaitingBegin(**known, receiver_thread_ids=ids))
    timed_out = True
    try:
        timed_out = not await agents.wait(ids, args.timeout_s, any_of_them=args.until == "any")
    finally:
        statuses = {agent_id: agents.status(agent_id) for agent_id in ids}
        usage = {agent_id: spent for agent_id in ids if (spent := agents.usage(agent_id)) is not None}
        ctx.emit(CollabWaitingEnd(**known, statuses=statuses, timed_out=timed_out, usage=usage))
    return _answer({"status": statuses, "timed_out": timed_out})


async def close(args: CloseAgentArgs, ctx: ToolContext) -> ToolResult:
    agents = ctx.agents()
    known: dict[str, Any] = {
        "call_id": ctx.call_id,
        "sender_thread_id": ctx.thread_id,
        "receiver_thread_id": args.id,
    }
    ctx.emit(CollabCloseBegin(**known))
    status = agents.status(args.id)
    try:
        await agents.close(args.id)
    finally:
        ctx.emit(CollabCloseEnd(**known, status=status, usage=agents.usage(args.id) or {}))
    return _answer({"status": status})


def _answer(value: dict[str, Any]) -> ToolResult:
    return ToolResult(output=encode_json(value).decode())
