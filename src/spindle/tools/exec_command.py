"""The exec_command and write_stdin tools as the model sees them. What they do is in `sessions`."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.tools.command_arguments import Amount, PermissionArgs, permission_parameters
from spindle.tools.descriptions import description
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, function_spec, parse_arguments

_YIELD = "How long to wait for output, in milliseconds ({default} by default, at most 30000)."
_MAX_TOKENS = {
    "type": "number",
    "description": "How much of the output to return, in tokens (10000 by default); the middle is cut.",
}


class ExecCommandArgs(PermissionArgs, kw_only=True):
    cmd: str | list[str]
    shell: str | None = None
    login: bool = True
    tty: bool = False
    yield_time_ms: Amount = 10_000
    max_output_tokens: Amount | None = None


class WriteStdinArgs(msgspec.Struct, kw_only=True):
    session_id: int
    chars: str = ""
    yield_time_ms: Amount = 250
    max_output_tokens: Amount | None = None


class ExecCommand:
    """Runs a shell command; one that takes long becomes a session."""

    name = "exec_command"
    parallel = True

    def __init__(self, request_rule: bool = True) -> None:
        self._request_rule = request_rule

    def spec(self) -> dict[str, Any]:
        properties = {
            "cmd": {"type": "string", "description": "The shell command."},
            "workdir": {"type": "string", "description": "Folder to run it in; the working directory by default."},
            "shell": {"type": "string", "description": "Shell to use instead of the user's."},
            "login": {"type": "boolean", "description": "Read the user's profile first (true by default)."},
            "tty": {"type": "boolean", "description": "Give the command a terminal (false by default)."},
            "yield_time_ms": {"type": "number", "description": _YIELD.format(default=10_000)},
            "max_output_tokens": _MAX_TOKENS,
            **permission_parameters(self._request_rule),
        }
        return function_spec(self.name, description(self.name), properties, ["cmd"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, ExecCommandArgs)
        from spindle.tools import sessions  # what runs commands is loaded with the first one

        return await sessions.run_command(args, ctx)


class WriteStdin:
    """Types into a session, or only looks at what it printed."""

    name = "write_stdin"
    parallel = True

    def spec(self) -> dict[str, Any]:
        properties = {
            "session_id": {"type": "number", "description": "The id that exec_command gave."},
            "chars": {
                "type": "string",
                "description": 'What to type, e.g. "yes\\n", or "\\u0003" for Ctrl-C; empty only waits.',
            },
            "yield_time_ms": {"type": "number", "description": _YIELD.format(default=250)},
            "max_output_tokens": _MAX_TOKENS,
        }
        return function_spec(self.name, description(self.name), properties, ["session_id"])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        args = parse_arguments(call, WriteStdinArgs)
        from spindle.tools import sessions  # what runs commands is loaded with the first one

        return await sessions.write_stdin(args, ctx)
