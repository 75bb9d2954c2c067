"""What a tool is, what it is handed, and what it answers. Read this before writing one.

A tool turns one call of the model into a `ToolResult`. It reaches the person, the disk's fence and the machine only
through the `ToolContext` it is handed; `services` describes what that offers. Raise `ToolError` to tell the model
something; anything else is our bug.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from spindle.context.truncate import Truncation
from spindle.errors import ToolError
from spindle.policy.sandbox import Boundary
from spindle.protocol.clock import Clock
from spindle.protocol.items import Item, Part, decode_foreign
from spindle.protocol.settings import ThreadSettings

if TYPE_CHECKING:
    from spindle.patch.diff import TurnDiffTracker
    from spindle.process.table import ProcessTable
    from spindle.tools.services import EditorFiles, Emit, FileKeeper, FindSubAgents, Notes, Permission, Person


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
    """Messages to append after all outputs of this response (how older models are sent a picture)."""
    plain: str | None = None
    """What a command printed, without what the tool says about it; hooks are told this."""
    session_id: int | None = None
    """The command still runs; a later call names it by this."""


class Permit(msgspec.Struct, frozen=True, kw_only=True):
    """The permission to run one command or write one patch, and how."""

    sandboxed: bool = True
    asked: bool = False
    """A person was asked; a patch's begin event then says auto_approved = false."""
    cwd: str | None = None
    """The real folder that a person's yes is about; the command must run there and nowhere else."""


class OutputForm(msgspec.Struct, frozen=True, kw_only=True):
    """In which form the model of this thread takes what a tool gives."""

    truncation: Truncation = Truncation()
    accepts_images: bool
    image_as_message: bool
    """A picture goes into a message after the output, not into the output."""
    freeform_patch: bool
    """The free-form patch tool is listed; chooses the text flavour of the one-shot shell tools."""
    offload_home: str | None = None
    """The agent's folder, when outputs that do not fit are put aside there; None = they are only cut."""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a tool may use while it answers one call."""

    call_id: str
    turn_id: str
    thread_id: str
    settings: ThreadSettings
    boundary: Boundary
    """What this call may read and write. Every tool that opens a file asks it first."""
    clock: Clock
    emit: Emit
    output: OutputForm
    permission: Permission
    """Asked before anything is run, written or sent."""
    person: Person
    processes: ProcessTable
    """The session's, with its shell and its secrets."""
    notes: Notes
    diff: TurnDiffTracker
    """What the turn has changed so far; a tool that writes files tells it."""
    keeper: FileKeeper | None = None
    """Told before a tool writes files, and after; None = nobody keeps them."""
    agents: FindSubAgents
    editor: EditorFiles | None = None
    """Through which text files of the workspace are patched; None = on disk."""


class Tool(Protocol):
    """An object with a name, a specification, and `run`.

    One with a true attribute `runs_last` runs alone, after all other calls of the response, also those that come after
    it. Most tools have no such attribute.
    """

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
