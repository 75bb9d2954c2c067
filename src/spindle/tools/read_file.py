"""Reads lines of a file. How is in `reading`."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import msgspec

from spindle.tools.descriptions import description
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, function_spec, parse_arguments

DEFAULT_LIMIT = 2_000


class Indentation(msgspec.Struct, frozen=True):
    """Which block of lines around an anchor is wanted."""

    anchor_line: int | None = None
    """The offset by default."""
    max_levels: int = 0
    """How many levels of indentation above the anchor's to include; 0 = all."""
    include_siblings: bool = False
    """Blocks beside the anchor's own, on the outermost level that is included."""
    include_header: bool = True
    """Comments right above the block."""
    max_lines: int | None = None


class ReadFileArgs(msgspec.Struct, frozen=True):
    file_path: str
    offset: int = 1
    limit: int = DEFAULT_LIMIT
    mode: Literal["slice", "indentation"] = "slice"
    indentation: Indentation | None = None


class ReadFile:
    name = "read_file"
    parallel = True

    def spec(self) -> dict[str, Any]:
        properties = {
            "file_path": {"type": "string", "description": "The file, as an absolute path."},
            "offset": {"type": "number", "description": "The first line to read, counted from 1 (1 by default)."},
            "limit": {"type": "number", "description": f"How many lines to read ({DEFAULT_LIMIT} by default)."},
            "mode": {
                "type": "string",
                "description": '"slice" (the default) reads consecutive lines; "indentation" reads the block of code '
                "around a line.",
            },
            "indentation": _INDENTATION,
        }
        return function_spec(self.name, description(self.name), properties, ["file_path"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, ReadFileArgs)
        from spindle.tools import reading  # loaded with the first call

        text = await asyncio.to_thread(reading.answer, args, ctx)
        known = await asyncio.to_thread(reading.fingerprint, args, ctx)
        if known is not None:
            ctx.notes.read(known[0], hash=known[1])
        return ToolResult(output=text)


_INDENTATION = {
    "type": "object",
    "description": 'Only with mode "indentation".',
    "properties": {
        "anchor_line": {"type": "number", "description": "A line of the block; `offset` by default."},
        "include_header": {"type": "boolean", "description": "With the comments right above it (true by default)."},
        "include_siblings": {"type": "boolean", "description": "With the blocks beside it (false by default)."},
        "max_levels": {
            "type": "number",
            "description": "How many levels of indentation to go outwards; 0 (the default) goes to the outermost.",
        },
        "max_lines": {"type": "number", "description": "How many lines to read at most; `limit` by default."},
    },
    "additionalProperties": False,
}
