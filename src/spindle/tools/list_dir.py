"""Lists a folder, page by page. How is in `listing`."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from spindle.tools.descriptions import description
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, function_spec, parse_arguments

DEFAULT_LIMIT = 25
DEFAULT_DEPTH = 2


class ListDirArgs(msgspec.Struct, frozen=True):
    dir_path: str
    offset: int = 1
    limit: int = DEFAULT_LIMIT
    depth: int = DEFAULT_DEPTH


class ListDir:
    name = "list_dir"
    parallel = True

    def spec(self) -> dict[str, Any]:
        properties = {
            "dir_path": {"type": "string", "description": "The folder, as an absolute path."},
            "offset": {"type": "number", "description": "The first entry to list, counted from 1 (1 by default)."},
            "limit": {"type": "number", "description": f"How many entries to list ({DEFAULT_LIMIT} by default)."},
            "depth": {"type": "number", "description": f"How many levels to go down ({DEFAULT_DEPTH} by default)."},
        }
        return function_spec(self.name, description(self.name), properties, ["dir_path"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, ListDirArgs)
        from spindle.tools import listing  # loaded with the first call

        return ToolResult(output=await asyncio.to_thread(listing.answer, args, ctx))
