"""Finds files by what is in them. How is in `searching`."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.tools.descriptions import description
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, function_spec, parse_arguments

DEFAULT_LIMIT = 100
MAX_LIMIT = 2_000


class GrepFilesArgs(msgspec.Struct, frozen=True):
    pattern: str
    include: str | None = None
    path: str | None = None
    limit: int = DEFAULT_LIMIT


class GrepFiles:
    name = "grep_files"
    parallel = True

    def spec(self) -> dict[str, Any]:
        properties = {
            "pattern": {"type": "string", "description": "The regular expression to look for."},
            "include": {"type": "string", "description": 'Only files whose path fits this glob, e.g. "*.{ts,tsx}".'},
            "path": {"type": "string", "description": "Folder or file to search; the working directory by default."},
            "limit": {
                "type": "number",
                "description": f"How many paths to return ({DEFAULT_LIMIT} by default, {MAX_LIMIT} at most).",
            },
        }
        return function_spec(self.name, description(self.name), properties, ["pattern"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, GrepFilesArgs)
        from spindle.tools import searching  # loaded with the first call

        return ToolResult(output=await searching.answer(args, ctx))
