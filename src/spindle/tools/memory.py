"""`memory` keeps notes for later threads of the same project. The folder they lie in is `memory_folder`."""

from __future__ import annotations

import asyncio
from typing import Any, Literal, TypeVar

import msgspec

from spindle.errors import ToolError
from spindle.tools.descriptions import description
from spindle.tools.memory_folder import MemoryFolder
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, function_spec, parse_arguments

T = TypeVar("T")
COMMANDS = ("view", "create", "str_replace", "insert", "delete", "rename")


class MemoryArgs(msgspec.Struct, frozen=True):
    command: Literal["view", "create", "str_replace", "insert", "delete", "rename"]
    path: str = ""
    text: str | None = None
    old_text: str | None = None
    line: int | None = None
    new_path: str | None = None
    offset: int = 1
    limit: int = 2_000


class Memory:
    """The notes below one folder."""

    name = "memory"
    parallel = False

    def __init__(self, root: str) -> None:
        self._root = root

    def spec(self) -> dict[str, Any]:
        properties = {
            "command": {"type": "string", "enum": list(COMMANDS), "description": "What to do."},
            "path": {"type": "string", "description": "The note, e.g. `build.md`; leave out to list all of them."},
            "text": {"type": "string", "description": "The text to write, to insert, or to put in place of another."},
            "old_text": {
                "type": "string",
                "description": "For str_replace: the passage to replace; it must be unique.",
            },
            "line": {"type": "number", "description": "For insert: the line to insert below; 0 for the top."},
            "new_path": {"type": "string", "description": "For rename: the new name."},
            "offset": {"type": "number", "description": "For view: the first line to read (1 by default)."},
            "limit": {"type": "number", "description": "For view: how many lines to read."},
        }
        return function_spec(self.name, description(self.name), properties, ["command"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, MemoryArgs)
        if args.command != "view":
            await ctx.permission.note(_changes(self._root, args))
        return ToolResult(output=await asyncio.to_thread(_carry_out, self._root, args, ctx))


def _changes(root: str, args: MemoryArgs) -> dict[str, Any]:
    """What a person is shown before a note is changed: the very words, in the form of a patch."""
    path, text = f"{root}/{args.path}", args.text or ""
    match args.command:
        case "create":
            change: dict[str, Any] = {"type": "add", "content": text}
        case "delete":
            change = {"type": "delete", "content": ""}
        case _:
            lines = [f"-{line}" for line in (args.old_text or "").splitlines()]
            diff = "\n".join((*lines, *(f"+{line}" for line in text.splitlines())))
            moved = f"{root}/{args.new_path}" if args.command == "rename" else None
            change = {"type": "update", "unified_diff": diff, "move_path": moved}
    return {path: change}


def _carry_out(root: str, args: MemoryArgs, ctx: ToolContext) -> str:
    memory = MemoryFolder(root)
    match args.command:
        case "view":
            return memory.view(args.path, offset=args.offset, limit=args.limit, budget=ctx.output.truncation.byte_limit)
        case "create":
            memory.create(args.path, _clean(_needed(args.text, "text"), ctx))
            return f"Wrote {args.path}"
        case "str_replace":
            memory.str_replace(args.path, _needed(args.old_text, "old_text"), _clean(args.text or "", ctx))
            return f"Changed {args.path}"
        case "insert":
            memory.insert(args.path, _needed(args.line, "line"), _clean(_needed(args.text, "text"), ctx))
            return f"Changed {args.path}"
        case "delete":
            memory.delete(args.path)
            return f"Deleted {args.path}"
        case "rename":
            memory.rename(args.path, new_path := _needed(args.new_path, "new_path"))
            return f"Renamed {args.path} to {new_path}"


def _clean(text: str, ctx: ToolContext) -> str:
    """No note keeps a secret we know."""
    return text if ctx.processes.secrets is None else ctx.processes.secrets.mask_known(text)


def _needed(value: T | None, name: str) -> T:
    if value is None:
        raise ToolError(f"failed to parse function arguments: missing field `{name}`")
    return value
