"""The sub-agent tools as the model sees them: `spawn_agent`, `send_input`, `wait`, `close_agent`.

What they do is in `agent_calls`; the sub-agents themselves belong to the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

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
        from spindle.tools import agent_calls  # with the first sub-agent

        return await agent_calls.spawn(args, ctx)


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
        from spindle.tools import agent_calls  # with the first sub-agent

        return await agent_calls.send(args, ctx)


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
        from spindle.tools import agent_calls  # with the first sub-agent

        return await agent_calls.wait(args, ctx)


class CloseAgent:
    name = "close_agent"
    parallel = False

    def spec(self) -> dict[str, Any]:
        return function_spec(self.name, description(self.name), {"id": _ID}, ["id"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, CloseAgentArgs)
        from spindle.tools import agent_calls  # with the first sub-agent

        return await agent_calls.close(args, ctx)


def agent_tools(roles: Sequence[AgentRole] = ()) -> list[Tool]:
    return [SpawnAgent(roles), SendInput(), Wait(), CloseAgent()]
