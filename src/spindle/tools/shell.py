"""The one-shot shell tools as the model sees them: `shell` takes an argument list, `shell_command` a script.

What they do is in `one_shot`.
"""

from __future__ import annotations

from typing import Any

from spindle.tools.command_arguments import Amount, PermissionArgs, permission_parameters
from spindle.tools.descriptions import description
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, function_spec, parse_arguments

DEFAULT_TIMEOUT_MS = 10_000

_WORKDIR = {"type": "string", "description": "Folder to run it in; the working directory by default."}
_TIMEOUT = {
    "type": "number",
    "description": "When to end the command, in milliseconds (10000 by default); allow builds and tests more.",
}


class ShellArgs(PermissionArgs, kw_only=True):
    command: list[str] | str
    timeout_ms: Amount | None = None
    timeout: Amount | None = None
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
        from spindle.tools import one_shot  # what runs commands is loaded with the first one

        return await one_shot.run(argv, args, ctx, as_json=not ctx.output.freeform_patch)


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
        from spindle.tools import one_shot  # what runs commands is loaded with the first one

        return await one_shot.run_script(args, ctx)
