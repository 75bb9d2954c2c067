"""The one-shot shell tools: `shell` takes an argument list, `shell_command` a script. Both wait for the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from spindle.errors import SandboxUnavailable, ToolError
from spindle.policy.commands import join
from spindle.process.output import Taken
from spindle.process.table import Finished
from spindle.protocol.items import encode_json
from spindle.tools.descriptions import description
from spindle.tools.execution import Execution, PermissionArgs, apply_patch_instead, cut_for_model, permission_parameters
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, function_spec, parse_arguments

DEFAULT_TIMEOUT_MS = 10_000

_WORKDIR = {"type": "string", "description": "Folder to run it in; the working directory by default."}
_TIMEOUT = {"type": "number", "description": "When to stop the command, in milliseconds (10000 by default)."}


class ShellArgs(PermissionArgs, kw_only=True):
    command: list[str] | str
    timeout_ms: float | None = None
    timeout: float | None = None
    """Another name of `timeout_ms`."""

    @property
    def limit_s(self) -> float:
        given = self.timeout_ms if self.timeout_ms is not None else self.timeout
        return (given if given is not None and given > 0 else DEFAULT_TIMEOUT_MS) / 1000


class ShellCommandArgs(ShellArgs, kw_only=True):
    login: bool = True


class Shell:
    """Runs a program. Answers calls to `shell`, `container.exec` and `local_shell`."""

    name = "shell"
    parallel = True

    def __init__(self, request_rule: bool = True) -> None:
        self._request_rule = request_rule

    def spec(self) -> dict[str, Any]:
        command = {"type": "array", "items": {"type": "string"}, "description": "The program and its arguments."}
        properties = {"command": command, "workdir": _WORKDIR, "timeout_ms": _TIMEOUT}
        properties |= permission_parameters(self._request_rule)
        return function_spec(self.name, description(self.name), properties, ["command"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, ShellArgs)
        argv = ["bash", "-lc", args.command] if isinstance(args.command, str) else args.command
        return await _run(argv, args, ctx, as_json=not ctx.freeform_patch)


class ShellCommand:
    """Runs a script in the user's shell."""

    name = "shell_command"
    parallel = True

    def __init__(self, request_rule: bool = True) -> None:
        self._request_rule = request_rule

    def spec(self) -> dict[str, Any]:
        properties = {
            "command": {"type": "string", "description": "The script."},
            "login": {"type": "boolean", "description": "Read the user's profile first (true by default)."},
            "workdir": _WORKDIR,
            "timeout_ms": _TIMEOUT,
            **permission_parameters(self._request_rule),
        }
        return function_spec(self.name, description(self.name), properties, ["command"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, ShellCommandArgs)
        script = args.command if isinstance(args.command, str) else join(args.command)
        return await _run(ctx.processes.shell_argv(script, login=args.login), args, ctx, as_json=False)


async def _run(argv: Sequence[str], args: ShellArgs, ctx: ToolContext, *, as_json: bool) -> ToolResult:
    cwd = args.folder(ctx)
    if not argv:
        raise ToolError("failed to parse function arguments: `command` is empty")
    started = ctx.clock.monotonic()
    patched = await apply_patch_instead(argv, cwd, ctx)
    if patched is not None:
        code, text = patched
        taken = Taken(text.encode(), b"", len(text), text.count("\n"), 0)
        return _answer(ctx, code, ctx.clock.monotonic() - started, taken, as_json=as_json)
    shown = Execution(ctx, argv, cwd)
    command = await shown.permit(args)
    shown.begin()
    ended = False

    def end(finished: Finished) -> None:
        nonlocal ended
        ended = True
        shown.end(finished.exit_code, finished.output, finished.duration_s)

    try:
        finished = await ctx.processes.run(command, timeout_s=args.limit_s, on_output=shown.output, on_end=end)
    except (OSError, SandboxUnavailable) as error:
        shown.refuse_start(error)
    except asyncio.CancelledError:
        if not ended:
            shown.never_ran("aborted by user before it started")
        raise
    taken = finished.output.peek()
    if finished.timed_out:
        notice = f"command timed out after {finished.duration_s * 1000:.0f} milliseconds\n".encode()
        taken = Taken(notice + taken.head, taken.tail, taken.total + len(notice), taken.lines + 1, taken.dropped)
    return _answer(ctx, finished.exit_code, finished.duration_s, taken, as_json=as_json)


def _answer(ctx: ToolContext, exit_code: int, seconds: float, output: Taken, *, as_json: bool) -> ToolResult:
    text, truncated = cut_for_model(output, ctx.truncation.mode, ctx.truncation.limit)
    if as_json:
        if truncated:
            text = f"Total output lines: {output.lines}\n\n{text}"
        metadata = {"exit_code": exit_code, "duration_seconds": round(seconds, 1)}
        return ToolResult(output=encode_json({"output": text, "metadata": metadata}).decode())
    lines = f"Total output lines: {output.lines}\n" if truncated else ""
    return ToolResult(output=f"Exit code: {exit_code}\nWall time: {seconds:.1f} seconds\n{lines}Output:\n{text}")
