"""`exec_command` runs a shell command, which may outlive its call: `write_stdin` comes back to it."""

from __future__ import annotations

import asyncio

from spindle.context.truncate import DEFAULT_LIMIT
from spindle.errors import Rejected, SandboxUnavailable, ToolError
from spindle.process.command import Command
from spindle.process.output import OutputRing
from spindle.process.table import WARN_LIVE, LiveProcess, sandbox_failure
from spindle.protocol.quote import shell_join
from spindle.tools.command_arguments import Amount, PermissionArgs
from spindle.tools.execution import Execution, apply_patch_instead, folder_of, refuse_masks
from spindle.tools.shown_output import cut_for_model, put_aside
from spindle.tools.specs import YIELD_MS
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, parse_arguments

SHELLS = ("bash", "zsh", "sh", "dash", "ksh")
"""Shells that understand `-c` and `-lc`."""
MIN_YIELD_MS, _MAX_YIELD_MS = 250, 30_000


class ExecCommandArgs(PermissionArgs, kw_only=True):
    cmd: str | list[str]
    shell: str | None = None
    login: bool = True
    tty: bool = False
    yield_time_ms: Amount = YIELD_MS
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
    refuse_masks(" ".join(argv), ctx)
    try:
        permit = await ctx.permission.command(shown.argv, cwd=cwd, wants=args, tty=args.tty)
    except Rejected as refusal:
        shown.refused(refusal)
        raise
    command = shown.permitted(permit, tty=args.tty)
    while True:  # twice, when the sandbox stopped it and a person lets it out
        started = ctx.clock.monotonic()
        shown.begin()
        try:
            live = await ctx.processes.start(
                command, session_id=session_id, call_id=ctx.call_id, on_output=shown.output, on_exit=shown.ended
            )
        except (OSError, SandboxUnavailable) as error:
            shown.refuse_start(error)
        except asyncio.CancelledError:
            shown.stopped_early()
            raise
        again = await _follow(live, clamp(args.yield_time_ms, MIN_YIELD_MS), shown, ctx)
        if again is None:
            return report(ctx, live, started, args.max_output_tokens)
        command = again


async def _follow(live: LiveProcess, milliseconds: float, shown: Execution, ctx: ToolContext) -> Command | None:
    """Wait for its end, but not for longer; gives the command to run once more, outside, if a person says so."""
    try:
        await live.wait(milliseconds / 1000)
    except asyncio.CancelledError:
        # The model never learnt of this command, so nobody could come back to it.
        await ctx.processes.stop(live)
        raise
    if live.running.never_ran:
        ctx.processes.forget(live)
        shown.refuse_start(sandbox_failure(live.transcript))
    if live.exit_code is None:
        return None
    try:
        again = await shown.permit_retry(live.command, live.exit_code, live.unread)
    except asyncio.CancelledError:
        ctx.processes.forget(live)
        raise
    if again is not None:
        ctx.processes.forget(live)
    return again


def clamp(milliseconds: float, shortest: float) -> float:
    return min(max(milliseconds, shortest), _MAX_YIELD_MS)


def report(ctx: ToolContext, live: LiveProcess, started: float, max_tokens: float | None) -> ToolResult:
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
