"""`command/exec`: a client's own command in the sandbox, outside of any thread."""

from __future__ import annotations

import os

from spindle.errors import SpindleError
from spindle.frontends.app_server.items import sandbox_to_wire
from spindle.frontends.app_server.method import Call, Method
from spindle.frontends.app_server.objects import SandboxPolicy, Wire
from spindle.frontends.app_server.rpc import INVALID_PARAMS, RpcError
from spindle.frontends.launch import working_folder
from spindle.policy.environment import child_environment
from spindle.policy.sandbox import boundary_of
from spindle.process.command import Command
from spindle.process.error_stream import error_stream
from spindle.process.output import OutputRing
from spindle.process.table import ProcessTable
from spindle.protocol import settings
from spindle.workspace.shell import user_shell

TIME_LIMIT_MS = 10_000
_CHUNK = 1 << 16


class CommandExecParams(Wire, frozen=True, kw_only=True):
    command: list[str]
    cwd: str | None = None
    timeout_ms: int | None = None
    disable_timeout: bool = False
    env: dict[str, str | None] = {}
    """Variables to set; null takes one away."""
    sandbox_policy: SandboxPolicy | None = None
    tty: bool = False
    stream_stdin: bool = False
    stream_stdout_stderr: bool = False


class CommandExecResult(Wire, frozen=True, kw_only=True):
    exit_code: int
    """124 when the time was up."""
    stdout: str
    stderr: str


async def command_exec(call: Call, params: CommandExecParams) -> Wire:
    if not params.command:
        raise RpcError("command must not be empty")
    if params.tty or params.stream_stdin or params.stream_stdout_stderr:
        raise RpcError("command/exec runs a command to its end; terminals and streams are not supported")
    if params.timeout_ms is not None and params.timeout_ms < 0:
        raise RpcError("timeoutMs must not be negative", INVALID_PARAMS)
    for name in params.env:
        if not name or "=" in name:
            raise RpcError(f"Invalid request: {name!r} in `env` cannot be the name of a variable", INVALID_PARAMS)
    config = call.server.config
    environment = child_environment(
        os.environ, config.environment, secret_names=config.secret_variables, for_person=True
    )
    for name, value in params.env.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    cwd = working_folder(params.cwd or config.cwd)
    boundary = boundary_of(
        _policy(call, params.sandbox_policy), cwd=cwd, env=environment, home=config.home, fence=config.spindle.fence
    )
    table = ProcessTable(clock=call.server.clock, shell=user_shell(), environment=environment, home=config.home)
    limit_ms = TIME_LIMIT_MS if params.timeout_ms is None else params.timeout_ms
    try:
        errors = OutputRing()
        with error_stream(errors) as error_file:
            command = Command(argv=params.command, cwd=cwd, boundary=boundary, error_file=error_file)
            done = await table.run(command, timeout_s=None if params.disable_timeout else limit_ms / 1000)
        return CommandExecResult(exit_code=done.exit_code, stdout=_text(done.output), stderr=_text(errors))
    except OSError as error:
        raise SpindleError(f"{params.command[0]} cannot be run: {error.strerror or error}") from error
    finally:
        await table.aclose()


def _policy(call: Call, given: SandboxPolicy | None) -> settings.SandboxPolicy:
    config = call.server.config
    if given is None:
        return config.sandbox
    policy = settings.SandboxPolicy.from_wire(sandbox_to_wire(given))
    if policy.mode not in (config.allowed_sandbox_modes or (policy.mode,)):
        raise RpcError(f"the sandbox mode {policy.mode} is not allowed here by the administrator")
    return policy


def _text(ring: OutputRing) -> str:
    return ring.value().decode("utf-8", "replace")


METHODS = (Method(name="command/exec", params=CommandExecParams, result=CommandExecResult, run=command_exec),)
