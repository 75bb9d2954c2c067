"""The sub-agent tools: `spawn_agent`, `send_input`, `wait`, `close_agent`. Loaded where sub-agents are switched on.

They tell the front ends, ask the session's sub-agents, and word the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

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
from spindle.protocol.settings import AgentRole
from spindle.tools.descriptions import description
from spindle.tools.tool import Tool, ToolCall, ToolContext, ToolResult, function_spec, parse_arguments

DEFAULT_WAIT_MS, MIN_WAIT_MS, MAX_WAIT_MS = 30_000, 10_000, 300_000

_ID = {"type": "string", "description": "The id that spawn_agent returned."}


class SpawnAgentArgs(msgspec.Struct, frozen=True):
    message: str
    agent_type: str = ""


class SendInputArgs(msgspec.Struct, frozen=True):
    id: str
    message: str
    interrupt: bool = False


class WaitArgs(msgspec.Struct, frozen=True):
    ids: list[str]
    timeout_ms: float = DEFAULT_WAIT_MS
    until: Literal["all", "any"] = "all"

    @property
    def timeout_s(self) -> float:
        return max(MIN_WAIT_MS, min(self.timeout_ms, MAX_WAIT_MS)) / 1000


class CloseAgentArgs(msgspec.Struct, frozen=True):
    id: str


class SpawnAgent:
    name = "spawn_agent"
    parallel = True

    def __init__(self, roles: Sequence[AgentRole] = ()) -> None:
        self._roles = tuple(roles)

    def spec(self) -> dict[str, Any]:
        message = {"type": "string", "description": "The task, complete in itself."}
        properties: dict[str, Any] = {"message": message, "agent_type": self._types()}
        return function_spec(self.name, description(self.name), properties, ["message"])

    def _types(self) -> dict[str, Any]:
        if not self._roles:
            return {"type": "string", "description": "The kind of agent; only `default` here, which may be left out."}
        lines = [f"- `{role.name}`: {role.description or 'no description'}" for role in self._roles]
        text = "The kind of agent; left out, a general one.\n" + "\n".join(lines)
        return {"type": "string", "description": text}

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, SpawnAgentArgs)
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


class SendInput:
    name = "send_input"
    parallel = False

    def spec(self) -> dict[str, Any]:
        return function_spec(
            self.name,
            description(self.name),
            {
                "id": _ID,
                "message": {"type": "string", "description": "What to tell it."},
                "interrupt": {"type": "boolean", "description": "Stop what it is doing first (false by default)."},
            },
            ["id", "message"],
        )

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, SendInputArgs)
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


class Wait:
    name = "wait"
    parallel = True

    def spec(self) -> dict[str, Any]:
        ids = {"type": "array", "items": {"type": "string"}, "description": "The ids of the agents to wait for."}
        timeout = f"How long at most, in milliseconds: {MIN_WAIT_MS} to {MAX_WAIT_MS}, {DEFAULT_WAIT_MS} by default."
        until = {"type": "string", "enum": ["all", "any"], "description": "Return when all (default) or any are done."}
        return function_spec(
            self.name,
            description(self.name),
            {"ids": ids, "timeout_ms": {"type": "number", "description": timeout}, "until": until},
            ["ids"],
        )

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, WaitArgs)
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


class CloseAgent:
    name = "close_agent"
    parallel = False

    def spec(self) -> dict[str, Any]:
        return function_spec(self.name, description(self.name), {"id": _ID}, ["id"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, CloseAgentArgs)
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


def agent_tools(roles: Sequence[AgentRole] = ()) -> list[Tool]:
    return [SpawnAgent(roles), SendInput(), Wait(), CloseAgent()]


def _answer(value: dict[str, Any]) -> ToolResult:
    return ToolResult(output=encode_json(value).decode())
