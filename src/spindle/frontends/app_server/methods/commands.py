"""`command/exec` and what belongs to it: a client's own command in the sandbox, outside of any thread."""

from __future__ import annotations

import binascii
import os
from base64 import b64decode
from collections.abc import Mapping

from spindle.frontends.app_server.client_commands import WITHOUT_CAP, ClientCommand, cannot_run
from spindle.frontends.app_server.items import sandbox_to_wire
from spindle.frontends.app_server.method import Call, Method, Nothing
from spindle.frontends.app_server.objects import SandboxPolicy, Wire
from spindle.frontends.app_server.rpc import INVALID_PARAMS, RpcError
from spindle.frontends.launch import config_from, working_folder
from spindle.policy.environment import child_environment
from spindle.policy.sandbox import boundary_of
from spindle.process.command import Command
from spindle.process.table import ProcessTable
from spindle.protocol import settings
from spindle.workspace.shell import user_shell

TIME_LIMIT_MS = 10_000
MAX_CELLS = 0xFFFF


class TerminalSize(Wire, frozen=True, kw_only=True):
    rows: int
    cols: int


class CommandExecParams(Wire, frozen=True, kw_only=True):
    command: list[str]
    process_id: str | None = None
    """The client's own name for it, to write to it, resize its terminal, or end it."""
    cwd: str | None = None
    timeout_ms: int | None = None
    disable_timeout: bool = False
    env: dict[str, str | None] | None = None
    """Variables to set; null takes one away."""
    sandbox_policy: SandboxPolicy | None = None
    permission_profile: str | None = None
    """The name of a permission profile, instead of `sandbox_policy`."""
    tty: bool = False
    """In a terminal; it takes input then, and its output is streamed."""
    size: TerminalSize | None = None
    stream_stdin: bool = False
    stream_stdout_stderr: bool = False
    output_bytes_cap: int | None = None
    """So much of each stream is wanted."""
    disable_output_cap: bool = False


class CommandExecResult(Wire, frozen=True, kw_only=True):
    exit_code: int
    """124 when the time was up."""
    stdout: str
    stderr: str


class CommandWriteParams(Wire, frozen=True, kw_only=True):
    process_id: str
    delta_base64: str | None = None
    close_stdin: bool = False


class CommandTerminateParams(Wire, frozen=True, kw_only=True):
    process_id: str


class CommandResizeParams(Wire, frozen=True, kw_only=True):
    process_id: str
    size: TerminalSize


async def command_exec(call: Call, params: CommandExecParams) -> Wire:
    _check(params, call.client.commands)
    config = call.server.config
    environment = child_environment(
        os.environ, config.environment, secret_names=config.secret_variables, for_person=True
    )
    for name, value in (params.env or {}).items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    if params.cwd is not None and not os.path.isdir(params.cwd):
        raise RpcError(f"cwd {params.cwd!r} is not a folder")
    cwd = working_folder(params.cwd or config.cwd)
    policy = _policy(call, params, cwd)
    boundary = boundary_of(policy, cwd=cwd, env=environment, home=config.home, fence=config.spindle.fence)
    table = ProcessTable(clock=call.server.clock, shell=user_shell(), environment=environment, home=config.home)
    size = None if params.size is None else (params.size.rows, params.size.cols)
    command = Command(argv=params.command, cwd=cwd, boundary=boundary, tty=params.tty, size=size)
    is_streamed = params.tty or params.stream_stdout_stderr
    running = ClientCommand(
        params.process_id,
        takes_input=params.tty or params.stream_stdin,
        cap=WITHOUT_CAP if params.disable_output_cap else params.output_bytes_cap,
        tell=(lambda note: call.client.notify(note, call.server.now_ms)) if is_streamed else None,
    )
    if params.process_id is not None:
        call.client.commands[params.process_id] = running
    limit_ms = TIME_LIMIT_MS if params.timeout_ms is None else params.timeout_ms
    # Who works with a command decides how long it runs.
    has_limit = not params.disable_timeout and (params.timeout_ms is not None or not is_streamed)
    try:
        code = await running.run(table, command, timeout_s=limit_ms / 1000 if has_limit else None)
    except OSError as error:
        raise cannot_run(params.command[0], error) from error
    finally:
        if params.process_id is not None:
            del call.client.commands[params.process_id]
        await table.aclose()
    return CommandExecResult(exit_code=code, stdout=running.stdout.text(), stderr=running.stderr.text())


def _check(params: CommandExecParams, running: Mapping[str, ClientCommand]) -> None:
    """Refuse what does not go together."""
    if not params.command:
        raise RpcError("command must not be empty")
    if params.process_id is None and (params.tty or params.stream_stdin or params.stream_stdout_stderr):
        raise RpcError("command/exec tty or streaming requires a client-supplied processId")
    if params.process_id in running:
        raise RpcError(f'duplicate active command/exec process id: "{params.process_id}"')
    if params.size is not None and not params.tty:
        raise RpcError("command/exec size requires tty: true", INVALID_PARAMS)
    _check_size(params.size)
    if params.timeout_ms is not None and params.disable_timeout:
        raise RpcError("command/exec cannot set both timeoutMs and disableTimeout", INVALID_PARAMS)
    if params.output_bytes_cap is not None and params.disable_output_cap:
        raise RpcError("command/exec cannot set both outputBytesCap and disableOutputCap", INVALID_PARAMS)
    for name, value in (("timeoutMs", params.timeout_ms), ("outputBytesCap", params.output_bytes_cap)):
        if value is not None and value < 0:
            raise RpcError(f"{name} must not be negative", INVALID_PARAMS)
    for name in params.env or {}:
        if not name or "=" in name:
            raise RpcError(f"Invalid request: {name!r} in `env` cannot be the name of a variable", INVALID_PARAMS)


def _check_size(size: TerminalSize | None) -> None:
    if size is not None and not (0 < size.rows <= MAX_CELLS and 0 < size.cols <= MAX_CELLS):
        raise RpcError(f"rows and cols of a terminal must be between 1 and {MAX_CELLS}", INVALID_PARAMS)


def _policy(call: Call, params: CommandExecParams, cwd: str) -> settings.SandboxPolicy:
    config = call.server.config
    if params.permission_profile is not None:
        if params.sandbox_policy is not None:
            raise RpcError("`permissionProfile` and `sandboxPolicy` cannot be given together", INVALID_PARAMS)
        named = {"default_permissions": params.permission_profile}
        policy = config_from(call.server.parsed, cwd=cwd, config=named).sandbox
    elif params.sandbox_policy is not None:
        policy = settings.SandboxPolicy.from_wire(sandbox_to_wire(params.sandbox_policy))
    else:
        policy = config.sandbox
    mode = policy.amounts_in(cwd)
    if mode not in (config.allowed_sandbox_modes or (mode,)):
        raise RpcError(f"the sandbox mode {mode} is not allowed here by the administrator")
    return policy


# ---- while it runs -----------------------------------------------------------------------------------


def _running(call: Call, process_id: str) -> ClientCommand:
    running = call.client.commands.get(process_id)
    if running is None:
        raise RpcError(f'no active command/exec for process id "{process_id}"')
    return running


async def command_write(call: Call, params: CommandWriteParams) -> Wire:
    try:
        data = b64decode(params.delta_base64 or "", validate=True)
    except binascii.Error as error:
        raise RpcError(f"invalid deltaBase64: {error}", INVALID_PARAMS) from error
    await _running(call, params.process_id).write(data, is_last=params.close_stdin)
    return Nothing()


async def command_terminate(call: Call, params: CommandTerminateParams) -> Wire:
    await _running(call, params.process_id).terminate()
    return Nothing()


async def command_resize(call: Call, params: CommandResizeParams) -> Wire:
    _check_size(params.size)
    await _running(call, params.process_id).resize(params.size.rows, params.size.cols)
    return Nothing()


METHODS = (
    Method(name="command/exec", params=CommandExecParams, result=CommandExecResult, run=command_exec),
    Method(name="command/exec/write", params=CommandWriteParams, result=Nothing, run=command_write),
    Method(name="command/exec/terminate", params=CommandTerminateParams, result=Nothing, run=command_terminate),
    Method(name="command/exec/resize", params=CommandResizeParams, result=Nothing, run=command_resize),
)
