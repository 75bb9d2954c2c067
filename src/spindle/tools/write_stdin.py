"""`write_stdin` comes back to a command that `exec_command` started: types into it, or looks what it printed."""

from __future__ import annotations

import msgspec

from spindle.errors import ToolError
from spindle.process.table import LiveProcess
from spindle.protocol.events import TerminalInteraction
from spindle.tools.command_arguments import Amount
from spindle.tools.exec_command import MIN_YIELD_MS, clamp, report
from spindle.tools.execution import refuse_masks
from spindle.tools.specs import TYPED_YIELD_MS
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, parse_arguments

_MIN_POLL_MS = 5000
_TYPE_LIMIT_S = 5.0
_MOST_TYPED = 1 << 16  # a longer line is not looked through
_MOST_KEPT = 1 << 20  # more than anybody can read, and than is compared with rules


class WriteStdinArgs(msgspec.Struct, kw_only=True):
    session_id: int
    chars: str = ""
    yield_time_ms: Amount = TYPED_YIELD_MS
    max_output_tokens: Amount | None = None


async def run(call: ToolCall, ctx: ToolContext) -> ToolResult:
    """Type into a running command, or only look at what it printed."""
    args = parse_arguments(call, WriteStdinArgs)
    live: LiveProcess | None = ctx.processes.find(args.session_id)
    if live is None:
        raise ToolError(f"write_stdin failed: Unknown process id {args.session_id}")
    started = ctx.clock.monotonic()
    live.tell = ctx.emit
    if args.chars:
        await _type(args.chars, live, ctx)
    shortest = MIN_YIELD_MS if args.chars else _MIN_POLL_MS
    await live.wait(clamp(args.yield_time_ms, shortest) / 1000)
    return report(ctx, live, started, args.max_output_tokens)


async def _type(chars: str, live: LiveProcess, ctx: ToolContext) -> None:
    if not live.command.tty:
        raise ToolError(
            "write_stdin failed: this session has no terminal and its input is closed; "
            "rerun exec_command with tty=true to be able to type into it"
        )
    if live.exit_code is not None:
        return  # it ended meanwhile; the report says how
    refuse_masks(chars, ctx)
    if not ctx.boundary.holds(live.command.boundary):
        # Let out, or started when commands could reach more.
        await ctx.permission.typing(chars, session_id=live.id, command=live.command)
    else:
        line = live.typed + chars  # a command may come in pieces
        before = live.typed_before
        await ctx.permission.typed_line(line, argv=list(live.command.argv), cwd=live.command.cwd, before=before)
        end = max(line.rfind("\r"), line.rfind("\n")) + 1
        live.typed, live.typed_before = line[end:][-_MOST_TYPED:], (before + line[:end])[:_MOST_KEPT]
    ctx.emit(TerminalInteraction(call_id=live.call_id, process_id=str(live.id), stdin=chars))
    if not await live.running.write(chars.encode(), _TYPE_LIMIT_S) and live.running.exit_code is None:
        raise ToolError("write_stdin failed: the program does not read its input; not all characters were taken")
