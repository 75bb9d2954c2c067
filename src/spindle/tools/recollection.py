"""`remember` and `recall`: what a model keeps through compactions, and what it can look up again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from spindle.errors import ToolError
from spindle.tools.specs import RECALL_MATCHES
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, parse_arguments

if TYPE_CHECKING:
    from spindle.tools.services import NoteFound

MAX_FACT_CHARS = 2_000
MOST_MATCHES = 40


class RememberArgs(msgspec.Struct, frozen=True):
    fact: str


class RecallArgs(msgspec.Struct, frozen=True):
    query: str = ""
    entry: int | None = None
    limit: int = RECALL_MATCHES


async def remember(call: ToolCall, ctx: ToolContext) -> ToolResult:
    fact = parse_arguments(call, RememberArgs).fact.strip()
    if not fact:
        raise ToolError("there is nothing to remember: `fact` is empty")
    if len(fact) > MAX_FACT_CHARS:
        raise ToolError(f"a fact has at most {MAX_FACT_CHARS} characters, this one has {len(fact)}; say it shorter")
    ctx.notes.pin(fact, by="model")
    return ToolResult(output="Remembered for the rest of this thread.")


async def recall(call: ToolCall, ctx: ToolContext) -> ToolResult:
    args = parse_arguments(call, RecallArgs)
    if args.entry is not None:
        text = ctx.notes.entry(args.entry)
        if text is None:
            raise ToolError(f"there is no entry {args.entry}; search with `query` first")
        return ToolResult(output=text)
    if not args.query.strip():
        raise ToolError("give a `query` to search for, or the number of an `entry` to read")
    found = ctx.notes.search(args.query, max(1, min(args.limit, MOST_MATCHES)))
    if not found:
        return ToolResult(output=f"Nothing in this thread holds all words of {args.query!r}.")
    return ToolResult(output="\n\n".join(_shown(match) for match in found))


def _shown(match: NoteFound) -> str:
    more = "\n[…]" if match.is_cut else ""
    return f"entry {match.entry} ({match.kind}):\n{match.text}{more}"
