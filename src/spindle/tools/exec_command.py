"""`exec_command` runs a shell command, which may outlive its call; `write_stdin` comes back to it."""

from __future__ import annotations

import asyncio

import msgspec

from spindle.context.truncate import DEFAULT_LIMIT
from spindle.errors import SandboxUnavailable, ToolError
from spindle.process.command import Command
from spindle.process.output import OutputRing
from spindle.process.table import WARN_LIVE, LiveProcess, sandbox_failure
from spindle.protocol.events import TerminalInteraction
from spindle.protocol.quote import shell_join
from spindle.tools.command_arguments import Amount, PermissionArgs
from spindle.tools.execution import Execution, apply_patch_instead, folder_of, refuse_masks
from spindle.tools.shown_output import cut_for_model, put_aside
from spindle.tools.specs import TYPED_YIELD_MS, YIELD_MS
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, parse_arguments

SHELLS = ("bash", "zsh", "sh", "dash", "ksh")
"""Shells that understand `-c` and `-lc`."""
_MIN_YIELD_MS, _MAX_YIELD_MS = 250, 30_000
_MIN_POLL_MS = 5000
_TYPE_LIMIT_S = 5.0
_MOST_TYPED = 1 << 16  # a longer line is not looked through
_MOST_KEPT = 1 << 20  # more than anybody can read, and than is compared with rules


class ExecCommandArgs(PermissionArgs, kw_only=True):
    cmd: str | list[str]
    shell: str | None = None
    login: bool = True
    tty: bool = False
    yield_time_ms: Amount = YIELD_MS
    max_output_tokens: Amount | None = None


class WriteStdinArgs(msgspec.Struct, kw_only=True):
    session_id: int
    chars: str = ""
    yield_time_ms: Amount = TYPED_YIELD_MS
    max_output_tokens: Amount | None = None


async def run(call: ToolCall, ctx: ToolContext) -> ToolResult:
    """Start the command and wait for its end, or for as long as the call wants."""
    args = parse_arguments(call, ExecCommandArgs)
    script = args.cmd if isinstance(args.cmd, str) else shell_join(args.cmd)
    if args.shell is not None and args.shell.rsplit("/", 1)[-1] not in SHELLS:
        raise ToolError(f"exec_command failed: {args.shell!r} is not a shell; use one of {', '.join(SHELLS)}")
    argv = ctx.processes.shell_argv(script, login=args.login, shell=args.shell)
    cwd = folder_of(args, ctx)
    started = ctx.clock.monotonic()
    patched = await apply_patch_instead(argv, cwd, ctx)
    if patched is not None:
        code, text = patched
        ring = OutputRing()
        ring.add(text.encode())
        return _answer(ctx, started, f"Process exited with code {code}", ring, args.max_output_tokens)
    session_id = ctx.processes.reserve_id()
    shown = Execution(ctx, argv, cwd, source="unified_exec_startup", process_id=str(session_id))
    command = await shown.permit(args, tty=args.tty)
    yield_s = _clamp(args.yield_time_ms, _MIN_YIELD_MS) / 1000
    started = ctx.clock.monotonic()
    live = await _start(shown, command, session_id, yield_s, ctx)
    if live.exit_code is not None:
        try:
            again = await shown.permit_retry(command, live.exit_code, live.unread)
        except asyncio.CancelledError:
            ctx.processes.forget(live)
            raise
        if again is not None:
            ctx.processes.forget(live)
            started = ctx.clock.monotonic()
            live = await _start(shown, again, session_id, yield_s, ctx)
    return _report(ctx, live, started, args.max_output_tokens)


async def _start(shown: Execution, command: Command, session_id: int, yield_s: float, ctx: ToolContext) -> LiveProcess:
    """Start a command and wait for its end, but no longer than the call wants to."""
    shown.begin()

    def ended(live: LiveProcess) -> None:
        # Called long after this call, too: when the command ends on its own, or while another call waits for it.
        assert live.ended is not None and live.exit_code is not None
        if live.running.never_ran:
            return  # `refuse_start` below tells it
        shown.end(live.exit_code, live.transcript, live.ended - live.started, tell=live.tell)

    try:
        live = await ctx.processes.start(
            command, session_id=session_id, call_id=ctx.call_id, on_output=shown.output, on_exit=ended
        )
    except (OSError, SandboxUnavailable) as error:
        shown.refuse_start(error)
    except asyncio.CancelledError:
        shown.never_ran("aborted by user before it started")
        raise
    try:
        await live.wait(yield_s)
    except asyncio.CancelledError:
        # The model never learnt of this command, so nobody could come back to it.
        await ctx.processes.stop(live)
        raise
    if live.running.never_ran:
        ctx.processes.forget(live)
        shown.refuse_start(sandbox_failure(live.transcript))
    return live


async def write_stdin(call: ToolCall, ctx: ToolContext) -> ToolResult:
    """Type into a running command, or only look at what it printed."""
    args = parse_arguments(call, WriteStdinArgs)
    live: LiveProcess | None = ctx.processes.find(args.session_id)
    if live is None:
        raise ToolError(f"write_stdin failed: Unknown process id {args.session_id}")
    started = ctx.clock.monotonic()
    live.tell = ctx.emit
    if args.chars:
        await _type(args.chars, live, ctx)
    shortest = _MIN_YIELD_MS if args.chars else _MIN_POLL_MS
    await live.wait(_clamp(args.yield_time_ms, shortest) / 1000)
    return _report(ctx, live, started, args.max_output_tokens)


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


def _clamp(milliseconds: float, shortest: float) -> float:
    return min(max(milliseconds, shortest), _MAX_YIELD_MS)


def _report(ctx: ToolContext, live: LiveProcess, started: float, max_tokens: float | None) -> ToolResult:
    """What the command printed since the last look, and whether it still runs."""
    if live.exit_code is not None:
        ctx.processes.forget(live)
        return _answer(ctx, started, f"Process exited with code {live.exit_code}", live.unread, max_tokens)
    status = f"Process running with session ID {live.id}"
    count = ctx.processes.live_count
    warning = ""
    if count >= WARN_LIVE:
        warning = (
            f"\n\nWarning: {count} sessions are open; beyond 64 the one not used for the longest time is ended. "
            "End those you no longer need."
        )
    return _answer(ctx, started, status, live.unread, max_tokens, session_id=live.id, after=warning)


def _answer(
    ctx: ToolContext,
    started: float,
    status: str,
    output: OutputRing,
    max_tokens: float | None,
    *,
    session_id: int | None = None,
    after: str = "",
) -> ToolResult:
    policy = ctx.output.truncation
    allowed = policy.limit if policy.mode == "tokens" else -(-policy.limit // 4)
    limit = min(DEFAULT_LIMIT if max_tokens is None else max(0, int(max_tokens)), allowed)
    # Copied before `take`, which leaves only the two ends.
    whole = output.peek() if ctx.output.offload_home is not None and output.total > 4 * limit else None
    taken = output.take(hold_partial=session_id is not None, most=4 * limit)
    text, truncated = cut_for_model(taken, "tokens", limit)
    count = -(-taken.total // 4)
    if truncated:
        text = f"Warning: truncated output (original token count: {count})\nTotal output lines: {taken.lines}\n\n{text}"
        text += put_aside(whole, ctx, held=whole.total - taken.total) if whole is not None else ""
    chunk_id = f"{int(ctx.clock.random() * 0x1000000):06x}"
    seconds = ctx.clock.monotonic() - started
    return ToolResult(
        output=f"Chunk ID: {chunk_id}\nWall time: {seconds:.4f} seconds\n{status}\n"
        f"Original token count: {count}\nOutput:\n{text}{after}",
        plain=text,
        session_id=session_id,
    )
