"""`shell` runs an argument list, `shell_command` a script: to the end, or to a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from spindle.errors import Rejected, SandboxUnavailable, ToolError
from spindle.process.command import Command
from spindle.process.output import Taken
from spindle.process.table import Finished
from spindle.protocol.items import encode_json
from spindle.protocol.quote import shell_join
from spindle.tools.command_arguments import Amount, PermissionArgs
from spindle.tools.execution import Execution, apply_patch_instead, folder_of, refuse_masks
from spindle.tools.shown_output import cut_for_model, put_aside
from spindle.tools.specs import TIMEOUT_MS
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, parse_arguments


class ShellArgs(PermissionArgs, kw_only=True):
    command: list[str] | str
    timeout_ms: Amount | None = None
    timeout: Amount | None = None
    """Another name of `timeout_ms`."""

    @property
    def limit_s(self) -> float:
        given = self.timeout_ms if self.timeout_ms is not None else self.timeout
        return (given if given is not None and given > 0 else TIMEOUT_MS) / 1000


class ShellCommandArgs(ShellArgs, kw_only=True):
    login: bool = True


async def run(call: ToolCall, ctx: ToolContext) -> ToolResult:
    """Answers calls to `shell`, `container.exec` and `local_shell`."""
    args = parse_arguments(call, ShellArgs)
    argv = ["bash", "-lc", args.command] if isinstance(args.command, str) else args.command
    return await _run_to_the_end(argv, args, ctx, as_json=not ctx.output.freeform_patch)


async def run_script(call: ToolCall, ctx: ToolContext) -> ToolResult:
    """Answers calls to `shell_command`: a script for the user's shell."""
    args = parse_arguments(call, ShellCommandArgs)
    script = args.command if isinstance(args.command, str) else shell_join(args.command)
    return await _run_to_the_end(ctx.processes.shell_argv(script, login=args.login), args, ctx, as_json=False)


async def _run_to_the_end(argv: Sequence[str], args: ShellArgs, ctx: ToolContext, *, as_json: bool) -> ToolResult:
    """Run `argv` to its end or its time limit, and answer in text or in JSON."""
    cwd = folder_of(args, ctx)
    if not argv:
        raise ToolError("failed to parse function arguments: `command` is empty")
    started = ctx.clock.monotonic()
    patched = await apply_patch_instead(argv, cwd, ctx)
    if patched is not None:
        code, text = patched
        taken = Taken(text.encode(), b"", len(text), text.count("\n"), 0)
        return _answer(ctx, code, ctx.clock.monotonic() - started, taken, as_json=as_json)
    shown = Execution(ctx, argv, cwd)
    refuse_masks(" ".join(argv), ctx)
    try:
        permit = await ctx.permission.command(shown.argv, cwd=cwd, wants=args)
    except Rejected as refusal:
        shown.refused(refusal)
        raise
    command = shown.permitted(permit)
    finished = await run_once(shown, command, args.limit_s, ctx)
    if not finished.timed_out:
        again = await shown.permit_retry(command, finished.exit_code, finished.output)
        if again is not None:
            finished = await run_once(shown, again, args.limit_s, ctx)
    taken = finished.output.peek()
    if finished.timed_out:
        notice = f"command timed out after {finished.duration_s * 1000:.0f} milliseconds\n".encode()
        taken = Taken(notice + taken.head, taken.tail, taken.total + len(notice), taken.lines + 1, taken.dropped)
    return _answer(ctx, finished.exit_code, finished.duration_s, taken, as_json=as_json)


async def run_once(shown: Execution, command: Command, limit_s: float | None, ctx: ToolContext) -> Finished:
    """One run, from its begin event to its end event."""
    shown.begin()

    def end(finished: Finished) -> None:
        shown.end(finished.exit_code, finished.output, finished.duration_s)

    try:
        return await ctx.processes.run(command, timeout_s=limit_s, on_output=shown.output, on_end=end)
    except (OSError, SandboxUnavailable) as error:
        shown.refuse_start(error)
    except asyncio.CancelledError:
        shown.stopped_early()
        raise


def _answer(ctx: ToolContext, exit_code: int, seconds: float, output: Taken, *, as_json: bool) -> ToolResult:
    text, truncated = cut_for_model(output, ctx.output.truncation.mode, ctx.output.truncation.limit)
    if truncated:
        text += put_aside(output, ctx)
    plain = text
    if as_json:
        if truncated:
            text = f"Total output lines: {output.lines}\n\n{text}"
        metadata = {"exit_code": exit_code, "duration_seconds": round(seconds, 1)}
        return ToolResult(output=encode_json({"output": text, "metadata": metadata}).decode(), plain=plain)
    lines = f"Total output lines: {output.lines}\n" if truncated else ""
    output_text = f"Exit code: {exit_code}\nWall time: {seconds:.1f} seconds\n{lines}Output:\n{text}"
    return ToolResult(output=output_text, plain=plain)
