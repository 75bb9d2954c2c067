"""`turn/*` and `thread/compact/start`: work in a loaded thread."""

from __future__ import annotations

from typing import Any, Literal

from spindle.frontends.app_server.items import input_to_items, sandbox_to_wire, tool_output_of
from spindle.frontends.app_server.loaded import LoadedThread
from spindle.frontends.app_server.method import After, Call, Method, Nothing
from spindle.frontends.app_server.objects import AskForApproval, SandboxPolicy, ToolOutput, Turn, UserInput, Wire
from spindle.frontends.app_server.rpc import INVALID_PARAMS, RpcError
from spindle.frontends.app_server.settings_told import tell_settings
from spindle.frontends.launch import config_from
from spindle.model.wellformed import is_well_formed
from spindle.protocol import ops
from spindle.protocol.items import SENT_TYPES
from spindle.protocol.ops import Compact, InjectItems, Interrupt, OverrideTurnContext, RunUserShellCommand, UserTurn
from spindle.protocol.ops import UserInput as SteerInput
from spindle.protocol.settings import TurnAttribution

MAX_INPUT_CHARACTERS = 1 << 20


class SettingsChanges(Wire, frozen=True, kw_only=True):
    """Settings of a thread, for its next turn and later ones; None leaves one as it is."""

    cwd: str | None = None
    approval_policy: AskForApproval | None = None
    sandbox_policy: SandboxPolicy | None = None
    permissions: str | None = None
    """The name of a permission profile for this turn and later ones, instead of `sandbox_policy`."""
    model: str | None = None
    model_provider: str | None = None
    service_tier: str | None = None
    """`default` is the usual one."""
    effort: str | None = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None
    personality: Literal["friendly", "pragmatic", "none"] | None = None
    collaboration_mode: dict[str, Any] | None = None


class TurnStartParams(SettingsChanges, frozen=True, kw_only=True):
    thread_id: str
    input: list[UserInput]
    client_user_message_id: str | None = None
    output_schema: dict[str, Any] | None = None
    tool_output: ToolOutput | None = None
    """What a program brings, in the place of `input`."""
    service_tier_for_turn: str | None = None
    """For this turn alone, if it is a new one; `default` is the usual one."""
    turn_trigger: str | None = None
    """What starts the turn: a label, recorded with it."""
    parent_turn_id: str | None = None
    """The turn for which this one is started."""
    root_turn_id: str | None = None
    """The first turn of the chain that led to this one; clients see it in the turn."""


class TurnStartResult(Wire, frozen=True, kw_only=True):
    turn: Turn


class TurnSteerParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    expected_turn_id: str
    input: list[UserInput]
    client_user_message_id: str | None = None


class TurnSteerResult(Wire, frozen=True, kw_only=True):
    turn_id: str


class TurnInterruptParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    turn_id: str


class ThreadParams(Wire, frozen=True, kw_only=True):
    thread_id: str


class ShellCommandParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    command: str


class InjectItemsParams(Wire, frozen=True, kw_only=True):
    thread_id: str
    items: list[dict[str, Any]]


async def turn_start(call: Call, params: TurnStartParams) -> Wire | After:
    thread = await call.server.ready(params.thread_id)
    if params.collaboration_mode is not None and not call.client.is_experimental:
        raise RpcError("turn/start.collaborationMode requires experimentalApi capability")
    external = None if params.tool_output is None else _external(params.tool_output, params.input)
    if external is None:
        check_input(params.input)
    changes = changed_settings(params, thread, call)
    items = input_to_items(params.input, params.client_user_message_id)
    turn = thread.running_turn
    if turn is None:
        return _started(thread, _turn_op(params, items, external, changes))
    if changes:
        later = OverrideTurnContext(**changes)
        after, before = thread.live.check(later), thread.live.settings
        thread.submit(later)
        if after != before:
            tell_settings(thread, after)
    sub_id = thread.submit(SteerInput(items=items, tool_output=external, mode="steer"))
    if thread.hearing.takes_no_input:
        # It waits, and becomes a turn of its own.
        turn = Turn(id=sub_id, root_turn_id=sub_id)
    return TurnStartResult(turn=turn)


def _turn_op(
    params: TurnStartParams, items: list[dict[str, Any]], external: ops.ToolOutput | None, changes: dict[str, Any]
) -> UserTurn:
    origin = (params.turn_trigger, params.parent_turn_id, params.root_turn_id)
    _check_length("what says where the turn comes from", sum(len(label or "") for label in origin))
    trigger, parent, root = origin
    return UserTurn(
        items=items,
        tool_output=external,
        final_output_json_schema=params.output_schema,
        service_tier_for_turn=params.service_tier_for_turn,
        attribution=TurnAttribution(turn_trigger=trigger, parent_turn_id=parent, root_turn_id=root)
        if any(origin)
        else None,
        **changes,
    )


def _started(thread: LoadedThread, op: UserTurn) -> After:
    # Checked here, so that a bad value is the answer to this request.
    before, after = thread.live.settings, thread.live.check(op)
    turn_id = thread.start_turn(op)
    root = op.attribution.root_turn_id if op.attribution is not None else None
    result = TurnStartResult(turn=Turn(id=turn_id, root_turn_id=root or turn_id))
    return After(result, lambda: tell_settings(thread, after) if after != before else None)


def changed_settings(params: SettingsChanges, thread: LoadedThread, call: Call) -> dict[str, Any]:
    """The settings a request changes, for this turn and later ones."""
    config = thread.config
    policy = params.approval_policy
    sandbox = None if params.sandbox_policy is None else sandbox_to_wire(params.sandbox_policy)
    if params.permissions is not None:
        if sandbox is not None:
            raise RpcError("`permissions` and `sandboxPolicy` cannot be given together", INVALID_PARAMS)
        named = {"default_permissions": params.permissions}
        cwd = params.cwd or thread.live.settings.cwd
        sandbox = config_from(call.server.parsed, cwd=cwd, config=named).sandbox.to_wire()
    name = "on-request" if isinstance(policy, dict) else policy
    if name is not None and name not in (config.allowed_approval_policies or (name,)):
        raise RpcError(f"the approval policy {name} is not allowed here by the administrator")
    if sandbox is not None and sandbox["type"] not in (config.allowed_sandbox_modes or (sandbox["type"],)):
        raise RpcError(f"the sandbox mode {sandbox['type']} is not allowed here by the administrator")
    given = {
        "cwd": params.cwd,
        "approval_policy": policy,
        "sandbox_policy": sandbox,
        "model": params.model,
        "model_provider": params.model_provider,
        "service_tier": params.service_tier,
        "effort": params.effort,
        "summary": params.summary,
        "personality": params.personality,
        "collaboration_mode": params.collaboration_mode,
    }
    return {name: value for name, value in given.items() if value is not None}


def _external(given: ToolOutput, parts: list[UserInput]) -> ops.ToolOutput:
    """A program's message, checked; it is no part of what a person says."""
    if parts:
        raise RpcError("`toolOutput` and `input` cannot be given together; leave `input` empty")
    if not given.name:
        raise RpcError("`toolOutput.name` must not be empty")
    output = given.output
    said = len(output) if isinstance(output, str) else sum(len(getattr(part, "text", "")) for part in output)
    _check_length("`toolOutput.output`", said)
    return tool_output_of(given)


def check_input(parts: list[UserInput]) -> None:
    """Refuse an input that is empty or too long."""
    if not parts:
        raise RpcError("input must not be empty", INVALID_PARAMS)
    _check_length("input", sum(len(getattr(part, "text", "")) for part in parts))


def _check_length(what: str, length: int) -> None:
    if length > MAX_INPUT_CHARACTERS:
        text = f"{what} is {length} characters long; at most {MAX_INPUT_CHARACTERS} are taken"
        data = {"input_error_code": "input_too_large", "max_chars": MAX_INPUT_CHARACTERS, "actual_chars": length}
        raise RpcError(text, INVALID_PARAMS, data)


async def turn_steer(call: Call, params: TurnSteerParams) -> Wire:
    thread = await call.server.ready(params.thread_id)
    check_input(params.input)
    active = thread.hearing.active_turn
    if active is None or thread.hearing.takes_no_input:
        raise RpcError("no active turn to steer")
    if active != params.expected_turn_id:
        raise RpcError(f"expected active turn id `{params.expected_turn_id}` but found `{active}`")
    thread.submit(SteerInput(items=input_to_items(params.input, params.client_user_message_id), mode="steer"))
    return TurnSteerResult(turn_id=active)


async def turn_interrupt(call: Call, params: TurnInterruptParams) -> Wire:
    thread = await call.server.ready(params.thread_id)
    active = thread.hearing.active_turn
    if active is None:
        raise RpcError("no active turn to interrupt")
    if active != params.turn_id:
        raise RpcError(f"expected active turn id `{params.turn_id}` but found `{active}`")
    thread.submit(Interrupt())
    await thread.hearing.turn_end()
    return Nothing()


async def compact_start(call: Call, params: ThreadParams) -> Wire:
    thread = await call.server.ready(params.thread_id)
    if thread.hearing.active_turn is not None:
        raise RpcError("a turn is running; interrupt it, or wait for its end, before the thread is compacted")
    thread.start_turn(Compact(), takes_no_input=True)
    return Nothing()


async def shell_command(call: Call, params: ShellCommandParams) -> Wire:
    """A command of the person's own, without sandbox and approval, as a turn of its own."""
    thread = await call.server.ready(params.thread_id)
    if not params.command.strip():
        raise RpcError("command must not be empty")
    if thread.hearing.active_turn is not None:
        raise RpcError("you can run your own command when the turn has ended")
    thread.start_turn(RunUserShellCommand(command=params.command), takes_no_input=True)
    return Nothing()


async def inject_items(call: Call, params: InjectItemsParams) -> Wire:
    """Items that the model is shown with the next request, as if they had happened."""
    thread = await call.server.ready(params.thread_id)
    if thread.hearing.active_turn is not None:
        raise RpcError("items cannot be injected while a turn runs; steer it, or wait for its end")
    for item in params.items:
        if not isinstance(kind := item.get("type"), str) or kind not in SENT_TYPES:
            raise RpcError(f"an item of type {str(kind)[:100]!r} cannot be sent to a model", INVALID_PARAMS)
        if not is_well_formed(item):
            raise RpcError(f"a member of the {kind} item is missing or of the wrong type", INVALID_PARAMS)
    thread.submit(InjectItems(items=params.items))
    await thread.live.settle()
    return Nothing()


METHODS = (
    Method(name="turn/start", params=TurnStartParams, result=TurnStartResult, run=turn_start),
    Method(name="turn/steer", params=TurnSteerParams, result=TurnSteerResult, run=turn_steer),
    Method(name="turn/interrupt", params=TurnInterruptParams, result=Nothing, run=turn_interrupt),
    Method(name="thread/compact/start", params=ThreadParams, result=Nothing, run=compact_start),
    Method(name="thread/shellCommand", params=ShellCommandParams, result=Nothing, run=shell_command),
    Method(name="thread/inject_items", params=InjectItemsParams, result=Nothing, run=inject_items),
)
