"""What a tool is, what it is handed, and what it answers. Read this before writing one.

A tool turns one call of the model into a `ToolResult`. It reaches the person, the disk's fence and the machine only
through the `ToolContext` it is handed. Raise `ToolError` to tell the model something; anything else is our bug.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from spindle.errors import ToolError
from spindle.policy.sandbox import Boundary
from spindle.protocol.clock import Clock
from spindle.protocol.events import Msg
from spindle.protocol.items import Item, Part, decode_foreign
from spindle.protocol.settings import ThreadSettings


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call as the model made it."""

    item: Item
    """The call item, verbatim."""
    name: str
    call_id: str
    arguments: str
    """JSON text of a function call, or the free text of a custom one."""

    @property
    def is_freeform(self) -> bool:
        return self.item["type"] == "custom_tool_call"


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the model reads. What people see went out as events while the tool ran."""

    output: str | list[Part]
    follow_up: list[Item] = []
    """Messages to append after all outputs of this response (the seed-era form of an image)."""
    plain: str | None = None
    """What a command printed, without what the tool says about it; hooks are told this."""
    session_id: int | None = None
    """The command runs on, and can be come back to by this."""


class Permit(msgspec.Struct, frozen=True, kw_only=True):
    """Policy's (and perhaps a person's) leave to run one command or write one patch."""

    sandboxed: bool = True
    asked: bool = False
    """A person was asked; a patch's begin event then says auto_approved = false."""
    cwd: str | None = None
    """The real folder that a person's yes is about; the command must run there and nowhere else."""


class Truncation(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a tool's output a model wants to see."""

    mode: str = "bytes"
    """"bytes" or "tokens"; a token is four bytes."""
    limit: int = 10_000


async def _no_retry(*_: Any, **__: Any) -> bool:
    return False


async def _no_patch_retry(*_: Any, **__: Any) -> None:
    return None


async def _no_permission(*_: Any, **__: Any) -> None:
    raise ToolError("tools of MCP servers cannot be used here")


async def _decline(*_: Any, **__: Any) -> dict[str, Any]:
    return {"action": "decline"}


async def nobody_answers(kind: str, _: Msg) -> dict[str, Any]:
    if kind == "dynamic_tool":
        raise ToolError("the program that answers this tool is not connected; do without it")
    raise ToolError(
        "questions cannot be put to a person in this session; decide with reasonable assumptions and "
        "name them in the plan, or ask in the text of your final message"
    )


def _no_agents() -> Any:
    raise ToolError("there are no sub-agents in this session")


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a tool may use while it answers one call."""

    call_id: str
    turn_id: str
    thread_id: str
    settings: ThreadSettings
    boundary: Boundary
    """What this call may read and write. Every tool that opens a file asks it first."""
    clock: Clock
    emit: Callable[[Msg], None]
    truncation: Truncation
    accepts_images: bool
    freeform_patch: bool
    """The free-form patch tool is listed; chooses the text flavour of the one-shot shell tools."""
    image_as_message: bool
    processes: Any
    """The session's `spindle.process.table.ProcessTable`."""
    permit_command: Callable[..., Awaitable[Permit]]
    """`await permit_command(argv, cwd=…, escalated=False, justification=None, prefix_rule=None)`; raises Rejected."""
    permit_patch: Callable[..., Awaitable[Permit]]
    """`await permit_patch(changes)` with absolute paths → FileChange; raises Rejected."""
    permit_retry: Callable[..., Awaitable[bool]] = _no_retry
    """`await permit_retry(argv, cwd=…)` after the sandbox stopped a command nobody was asked about: again, outside?"""
    permit_patch_retry: Callable[..., Awaitable[Permit | None]] = _no_patch_retry
    """The same for a patch: `await permit_patch_retry(changes)`; None for no."""
    permit_tool: Callable[..., Awaitable[None]] = _no_permission
    """`await permit_tool(tool, arguments, mode)` before a `RemoteTool` is called; raises Rejected."""
    elicit: Callable[..., Awaitable[dict[str, Any]]] = _decline
    """`await elicit(server, params)`: a server's question to a person."""
    ask: Callable[..., Awaitable[dict[str, Any]]] = nobody_answers
    """`await ask(kind, msg)`: the client is told `msg` and answers; ToolError where nobody can."""
    notes: Any
    """The thread's `spindle.core.notes.Notes`: what is kept of it, whatever is compacted."""
    diff: Any
    """The turn's `spindle.patch.diff.TurnDiffTracker`."""
    agents: Callable[[], Any] = _no_agents
    """The session's `spindle.core.subagents.Subagents`, made when it is first asked for."""
    offload_home: str | None = None
    """The agent's folder, when outputs that do not fit are put aside there; None = they are only cut."""


class Tool(Protocol):
    """An object with a name, a specification, and `run`."""

    name: str
    parallel: bool
    """May run beside other parallel calls of the same response."""

    def spec(self) -> dict[str, Any]:
        """The entry of the request's tool list. The same bytes every time."""
        ...

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult: ...


Args = TypeVar("Args", bound=msgspec.Struct)


def parse_arguments(call: ToolCall, kind: type[Args]) -> Args:
    """The call's JSON arguments as `kind`. Lax: integers may come as floats or digit strings, null means not given."""
    try:
        value = decode_foreign(call.arguments)
        if not isinstance(value, dict):
            raise ToolError(f"failed to parse function arguments: expected an object, got {type(value).__name__}")
        given = {name: entry for name, entry in value.items() if entry is not None}
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ToolError(f"failed to parse function arguments: {_rephrase(str(error))}") from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ToolError(f"failed to parse function arguments: {error}") from error


def _rephrase(reason: str) -> str:
    missing = "Object missing required field "
    if reason.startswith(missing):
        return "missing field " + reason[len(missing) :]
    return reason


def function_spec(name: str, description: str, properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    """A function entry; `properties` are put into alphabetical order so that the bytes never vary."""
    parameters: dict[str, Any] = {"type": "object", "properties": dict(sorted(properties.items()))}
    if required:
        parameters["required"] = required
    parameters["additionalProperties"] = False
    return {"type": "function", "name": name, "description": description, "strict": False, "parameters": parameters}
