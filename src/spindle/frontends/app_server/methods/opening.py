"""`thread/start`, `thread/resume`, `thread/fork`: opens a thread, with its settings, for the clients that follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from spindle.api.door import SessionRequest, open_thread
from spindle.api.taking_over import RecordedTurn
from spindle.config.schema import Config
from spindle.frontends.app_server.items import sandbox_of
from spindle.frontends.app_server.loaded import LoadedThread
from spindle.frontends.app_server.method import After, Call, Method
from spindle.frontends.app_server.notifications import ThreadGoalUpdated, ThreadStarted, TokenUsageUpdated
from spindle.frontends.app_server.objects import (
    AskForApproval,
    SandboxMode,
    SandboxPolicy,
    Thread,
    UserMessageItem,
    Wire,
)
from spindle.frontends.app_server.rpc import INVALID_PARAMS, RpcError
from spindle.frontends.app_server.threads import (
    TurnsPage,
    TurnsPageParams,
    last_cursors,
    recorded_turns,
    turns_page,
)
from spindle.frontends.app_server.usage import recorded_usage
from spindle.protocol.ops import OverrideTurnContext
from spindle.protocol.settings import ThreadSettings
from spindle.thread.goals import recorded_goal
from spindle.workspace.agents_md import load_project_docs

if TYPE_CHECKING:
    from spindle.thread.reading import RolloutData


class Overrides(Wire, frozen=True, kw_only=True):
    """What a client may say about a thread it opens; the rest is as recorded, or as configured."""

    model: str | None = None
    model_provider: str | None = None
    service_tier: str | None = None
    cwd: str | None = None
    approval_policy: AskForApproval | None = None
    sandbox: SandboxMode | None = None
    permissions: str | None = None
    """The name of a permission profile, instead of `sandbox`."""
    config: dict[str, Any] = {}
    base_instructions: str | None = None
    developer_instructions: str | None = None
    personality: Literal["friendly", "pragmatic", "none"] | None = None


class ThreadStartParams(Overrides, frozen=True, kw_only=True):
    ephemeral: bool = False
    dynamic_tools: list[dict[str, Any]] = []
    """Tools that the client answers itself, see item/tool/call."""


class ThreadResumeParams(Overrides, frozen=True, kw_only=True):
    thread_id: str
    exclude_turns: bool = False
    initial_turns_page: TurnsPageParams | None = None
    """Answer with a page of `thread/turns/list` too."""


class ThreadForkParams(Overrides, frozen=True, kw_only=True):
    thread_id: str
    last_turn_id: str | None = None
    """The last turn the fork keeps."""
    ephemeral: bool = False
    exclude_turns: bool = False


class ActivePermissionProfile(Wire, frozen=True, kw_only=True):
    id: str
    extends: str | None = None


class ThreadOpened(Wire, frozen=True, kw_only=True):
    thread: Thread
    model: str
    model_provider: str
    service_tier: str | None
    disabled_plugin_ids: list[str] = []
    cwd: str
    runtime_workspace_roots: list[str]
    instruction_sources: list[str]
    approval_policy: AskForApproval
    approvals_reviewer: Literal["user"] = "user"
    sandbox: SandboxPolicy
    active_permission_profile: ActivePermissionProfile | None = None
    """None where a plain mode holds."""
    reasoning_effort: str | None
    multi_agent_mode: Literal["explicitRequestOnly"] = "explicitRequestOnly"


class ThreadResumed(ThreadOpened, frozen=True, kw_only=True):
    collaboration_mode: dict[str, Any]
    initial_turns_page: TurnsPage | None = None
    """Only if the client has asked for it."""
    turns_backwards_cursor: str | None = None
    """For `thread/turns/list`, downwards: begins with the last turn."""
    items_backwards_cursor: str | None = None
    """The same for `thread/items/list`."""


async def thread_start(call: Call, params: ThreadStartParams) -> After:
    if params.dynamic_tools and not call.client.is_experimental:
        raise RpcError("thread/start.dynamicTools requires experimentalApi capability")
    request = request_for(
        call,
        params,
        _config(call, params, params.cwd),
        ephemeral=params.ephemeral,
        dynamic_tools=params.dynamic_tools,
    )
    return _announced(call, await open_loaded(call, request))


async def thread_resume(call: Call, params: ThreadResumeParams) -> After:
    loaded = await call.server.current(params.thread_id)
    was_loaded = loaded is not None
    if loaded is None:
        ref = call.server.store.get(params.thread_id)
        config = _recorded_config(call, params, call.server.store.read(ref))
        loaded = await open_loaded(call, request_for(call, params, config, thread=ref.id))
    else:
        call.server.follow(loaded, call.client)
        await _move(loaded, params)

    def tell_how_it_stands() -> None:
        _tell_usage(call, loaded)
        # A thread that was opened for this tells it of itself.
        if was_loaded and (goal := recorded_goal(loaded.live.records, loaded.id)) is not None:
            call.client.notify(ThreadGoalUpdated(thread_id=loaded.id, turn_id=None, goal=goal), call.server.now_ms)

    opened = _opened(call, loaded, with_turns=not params.exclude_turns)
    return After(_resumed(loaded, params, opened), tell_how_it_stands)


def _resumed(loaded: LoadedThread, params: ThreadResumeParams, opened: ThreadOpened) -> ThreadResumed:
    wanted = params.initial_turns_page
    turns = opened.thread.turns if wanted is None or not params.exclude_turns else loaded.turns()
    turns_cursor, items_cursor = last_cursors(turns)
    return ThreadResumed(
        **{name: getattr(opened, name) for name in opened.__struct_fields__},
        collaboration_mode=mode_of(loaded.live.settings),
        initial_turns_page=None if wanted is None else turns_page(turns, wanted),
        turns_backwards_cursor=turns_cursor,
        items_backwards_cursor=items_cursor,
    )


def _tell_usage(call: Call, loaded: LoadedThread) -> None:
    """What the thread has used so far: a client that shows it need not wait for the next turn."""
    if (usage := recorded_usage(loaded.live.records)) is not None:
        turn_id, counted = usage
        note = TokenUsageUpdated(thread_id=loaded.id, turn_id=turn_id, token_usage=counted)
        call.client.notify(note, call.server.now_ms)


async def _move(loaded: LoadedThread, params: ThreadResumeParams) -> None:
    """A thread that is open goes on with the provider that the client names."""
    provider = params.model_provider or params.config.get("model_provider")
    if provider not in (None, loaded.live.settings.model_provider):
        op = OverrideTurnContext(model_provider=provider, model=params.model)
        loaded.live.check(op)  # so that a bad value is the answer to this request
        loaded.submit(op)
        await loaded.live.settle()


async def thread_fork(call: Call, params: ThreadForkParams) -> After:
    store = call.server.store
    ref = store.get(params.thread_id)
    data = store.read(ref)
    request = request_for(
        call,
        params,
        _recorded_config(call, params, data),
        thread=ref.id,
        fork=True,
        ephemeral=params.ephemeral,
        fork_at=_turns_to_keep(params.last_turn_id, data),
    )
    return _announced(call, await open_loaded(call, request), with_turns=not params.exclude_turns)


def _turns_to_keep(last_turn_id: str | None, data: RolloutData) -> int | None:
    """How many inputs of the person a fork keeps that ends with this turn."""
    if last_turn_id is None:
        return None
    kept = 0
    for turn in recorded_turns(data):
        kept += sum(isinstance(item, UserMessageItem) for item in turn.items)
        if turn.id == last_turn_id:
            return kept
    raise RpcError(f"thread {data.thread_id} has no turn {last_turn_id}")


def mode_of(present: ThreadSettings) -> dict[str, Any]:
    """The collaboration mode in force, with what it comes to."""
    return {
        "mode": present.collaboration_mode.mode,
        "settings": {"model": present.model, "reasoning_effort": present.effort, "developer_instructions": None},
    }


# ---- settings --------------------------------------------------------------------------------------


def _config(call: Call, params: Overrides, cwd: str | None) -> Config:
    """The user's configuration for this folder, with what the client says."""
    if params.permissions is not None and params.sandbox is not None:
        raise RpcError("`permissions` and `sandbox` cannot be given together", INVALID_PARAMS)
    said = {
        "model": params.model,
        "model_provider": params.model_provider,
        "service_tier": params.service_tier,
        "approval_policy": params.approval_policy,
        "sandbox_mode": params.sandbox,
        "default_permissions": params.permissions,
        "developer_instructions": params.developer_instructions,
        "personality": params.personality,
    }
    given = {**params.config, **{key: value for key, value in said.items() if value is not None}}
    return call.server.runtime.config_for(cwd, given)


def _recorded_config(call: Call, params: Overrides, data: RolloutData) -> Config:
    """The same for a recorded thread: what the client leaves out is as in its last turn, if the record is ours."""
    present = call.server.config
    recorded = RecordedTurn.of(data, present.home, call.server.clock)
    config = _config(call, params, params.cwd or recorded.folder(present.cwd, present.spindle.fence.protected))
    names_none = params.sandbox is None and params.permissions is None
    changes = recorded.permissions(
        config,
        approval=params.approval_policy is None and "approval_policy" not in params.config,
        sandbox=names_none and not {"sandbox_mode", "default_permissions"} & set(params.config),
        cwd=params.cwd is None,
    )
    context = recorded.context
    # A model of another provider is no use here.
    is_same_provider = recorded.provider in (None, config.provider.id)
    if params.model is None and "model" not in params.config and is_same_provider and context.get("model"):
        changes["model"] = context["model"]
        if "model_reasoning_effort" not in params.config:
            changes["model_reasoning_effort"] = context.get("effort")
    return msgspec.structs.replace(config, **changes) if changes else config


# ---- the thread ------------------------------------------------------------------------------------


def request_for(call: Call, params: Overrides, config: Config, **more: Any) -> SessionRequest:
    # What is to be said about the configuration is told once per client, not with every thread.
    call.server.warn(call.client, config.warnings)
    return SessionRequest(
        config=msgspec.structs.replace(config, warnings=[]),
        source="vscode",
        originator=call.client.originator,
        base_instructions=params.base_instructions,
        bypass=call.server.parsed.flag("dangerously_bypass_approvals_and_sandbox"),
        clock=call.server.clock,
        pursues_goals=True,
        reload=lambda: _config(call, params, config.cwd),
        **more,
    )


async def open_loaded(call: Call, request: SessionRequest) -> LoadedThread:
    server = call.server
    loaded = LoadedThread(await open_thread(request), request.config, server.questions, server.clock)
    server.add(loaded)
    server.follow(loaded, call.client)
    return loaded


def _announced(call: Call, loaded: LoadedThread, *, with_turns: bool = False) -> After:
    """The result, and after it the news for everybody."""
    opened = _opened(call, loaded, with_turns=with_turns)
    note = ThreadStarted(thread=msgspec.structs.replace(opened.thread, turns=[]))

    def announce() -> None:
        _tell_usage(call, loaded)
        call.server.tell_all(note)

    return After(opened, announce)


def _opened(call: Call, loaded: LoadedThread, *, with_turns: bool) -> ThreadOpened:
    present, config = loaded.live.settings, loaded.config
    docs = load_project_docs(
        present.cwd,
        config.home,
        max_bytes=config.project_doc_max_bytes,
        fallback_names=config.project_doc_fallback_filenames,
        root_markers=config.project_root_markers,
        include_project=config.trust_level == "trusted" or config.spindle.agents_md_untrusted,
        is_trusted=config.trust_level == "trusted",
    )
    return ThreadOpened(
        thread=call.server.describe(loaded, with_turns=with_turns),
        model=present.model,
        model_provider=present.model_provider,
        service_tier=present.service_tier,
        cwd=present.cwd,
        runtime_workspace_roots=[present.cwd],
        instruction_sources=docs.sources,
        approval_policy=present.approval,  # pyright: ignore[reportArgumentType]
        sandbox=sandbox_of(present.sandbox),
        active_permission_profile=(
            ActivePermissionProfile(id=present.sandbox.permissions.name)
            if present.sandbox.permissions is not None
            else None
        ),
        reasoning_effort=present.effort,
    )


METHODS = (
    Method(name="thread/start", params=ThreadStartParams, result=ThreadOpened, run=thread_start),
    Method(name="thread/resume", params=ThreadResumeParams, result=ThreadResumed, run=thread_resume),
    Method(name="thread/fork", params=ThreadForkParams, result=ThreadOpened, run=thread_fork),
)
