"""The composition root: Config → Session. The only module that knows every concrete class."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from spindle import __version__
from spindle.auth.credentials import session_secrets, sign_in
from spindle.config.providers import BUILT_IN
from spindle.config.schema import Config
from spindle.core.briefing import Briefing, BriefingOptions
from spindle.core.live_thread import CompactionOptions, LiveThread, ModelOverrides
from spindle.core.notify import Notifier
from spindle.core.secrecy import masked_msg
from spindle.core.session import Session
from spindle.core.stream import EventStream
from spindle.core.workbench import Workbench
from spindle.errors import ThreadError
from spindle.model.catalog import Catalog, ModelInfo
from spindle.model.client import ModelClient
from spindle.model.credential import Credential, StaticCredential
from spindle.model.headers import Identity
from spindle.model.provider import Provider
from spindle.model.responses import ResponsesClient
from spindle.policy.environment import child_environment, withheld_names
from spindle.policy.rulebook import RuleBook
from spindle.policy.sandbox import PROTECTED_NAMES
from spindle.process.table import ProcessTable
from spindle.prompt.instructions import choose_instructions
from spindle.protocol.clock import Clock, SystemClock, iso_utc
from spindle.protocol.events import SessionConfigured
from spindle.protocol.request import TokenUsage
from spindle.protocol.settings import AgentRole, ThreadSettings
from spindle.thread.history import History
from spindle.thread.private_files import close_home
from spindle.thread.rollout import RolloutWriter
from spindle.thread.store import ThreadRef, ThreadStore
from spindle.tools.router import JIT_TOOLS, ToolSet, build_tools
from spindle.workspace.git import find_root, git_facts
from spindle.workspace.shell import user_shell

if TYPE_CHECKING:
    from spindle.core.subagents import AgentOrder, Subagents


class SessionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which thread to open, and for whom."""

    config: Config
    source: str
    """"exec", "cli", "vscode" or "mcp": what kind of front end asks."""
    originator: str
    ephemeral: bool = False
    thread: str | None = None
    """Id or name of a recorded thread to go on with."""
    rollout_path: str | None = None
    """The same, by its file."""
    newest: bool = False
    """Go on with the newest thread of this folder; a new one when there is none."""
    any_folder: bool = False
    fork: bool = False
    """Branch off instead of going on."""
    fork_at: str | int | None = None
    """The response after which to branch, or the number of turns to keep; None = the end."""
    base_instructions: str | None = None
    user_instructions: str | None = None
    bypass: bool = False
    """The person started this with the flag that takes away sandbox and approvals; the record says so."""
    legacy_interrupt_error: bool = False
    replay: bool = False
    """Tell the front end what was said before, in session_configured."""
    client: ModelClient | None = None
    """Talk to this model instead of the configured provider (the demo, tests)."""
    clock: Clock = SystemClock()
    stream: EventStream | None = None
    order: AgentOrder | None = None
    """Given by the parent of a sub-agent."""
    root: SessionRequest | None = None
    """The request for the session that a person opened, if this one is for a sub-agent."""


async def open_session(request: SessionRequest) -> Session:
    """Open, resume or fork a thread. Raises a SpindleError when it cannot be done; then nothing was changed."""
    catalog = Catalog.load(request.config.model_catalog_json)
    store = ThreadStore(request.config.home, request.clock)
    history, thread_id, warnings = _open_history(request, store)
    try:
        return await _assemble(request, store, catalog, history, thread_id, warnings)
    except BaseException:
        history.close()  # else nobody could open the thread while this process lives
        raise


async def _assemble(
    request: SessionRequest, store: ThreadStore, catalog: Catalog, history: History, thread_id: str, warnings: list[str]
) -> Session:
    config, clock = request.config, request.clock
    model = config.model or history.model or catalog.default_slug
    info = catalog.find(model)
    if not info.known:
        warnings.append(f"model {model} is not in the catalogue; general defaults are used for it")
    if history.model not in (None, model):
        warnings.append(f"this thread was recorded with model {history.model} and goes on with {model}")
    if absent := [name for name, server in config.mcp_servers.items() if server.enabled]:
        warnings.append(f"this version starts no tool servers; missing: {', '.join(absent)}")
    client, provider, credential = (
        (request.client, config.provider, StaticCredential())
        if request.client
        else _model_client(request, thread_id, warnings)
    )
    order = request.order
    if order is not None:
        from spindle.core.agent_tree import MeteredClient  # only for sub-agents

        client = MeteredClient(client, order.tree, order.charge, is_borrowed=request.client is not None)
    _close_to_others(config, warnings)
    secrets = session_secrets(
        os.environ,
        provider,
        credential,
        home=config.home,
        variables=config.secret_variables,
        given=config.environment.set,
        mask=config.spindle.mask_secrets,
        unmasked=config.spindle.unmasked_variables,
    )
    history.guard = secrets.mask_json
    stream = request.stream or EventStream()
    stream.guard = partial(masked_msg, secrets=secrets)
    # The connection opens while files are read below; the first request waits for it only as long as it must.
    warming = asyncio.ensure_future(client.warm())
    await asyncio.sleep(0)
    settings = settings_from(config, model) if order is None else order.settings
    instructions = choose_instructions(
        explicit=request.base_instructions,
        recorded=history.base_instructions,
        file_text=config.base_instructions,
        template=info.model_messages.instructions_template if info.model_messages else None,
        template_variables=info.model_messages.instructions_variables if info.model_messages else None,
        model_text=info.base_instructions,
        family=info.family,
        personality=settings.personality,
    )
    if not history.meta:
        history.append_meta(_session_meta(request, thread_id, instructions))
    thread = LiveThread(
        thread_id=thread_id,
        history=history,
        client=client,
        provider=provider,
        instructions=instructions,
        has_own_text=bool(request.base_instructions or config.base_instructions),
        tools=_tools(config, info, depth=0 if order is None else order.depth),
        catalog=catalog,
        overrides=ModelOverrides(
            context_window=config.model_context_window,
            compact_limit=config.model_auto_compact_token_limit,
            output_token_limit=config.tool_output_token_limit,
            reasoning_summaries=config.model_supports_reasoning_summaries,
        ),
        model=model,
        personality=settings.personality,
        show_raw_reasoning=config.show_raw_agent_reasoning,
        clock=clock,
        secrets=secrets,
    )
    _restore_usage(thread)
    shell = user_shell()
    environment = child_environment(os.environ, config.environment, secret_names=config.secret_variables)
    # What was written since the person's session began is no rule for its sub-agents either.
    rules = RuleBook(config.home, config.rule_folders) if order is None else order.rules
    has_agents = _agent_roles(config) is not None
    return Session(
        thread=thread,
        settings=settings,
        briefing=Briefing(_briefing_options(request, shell.name, environment), history.last_turn_context),
        workbench=Workbench(
            processes=ProcessTable(
                clock=clock,
                shell=shell,
                environment=environment,
                home=config.home,
                allows_login=config.allow_login_shell,
                secrets=secrets,
                withheld=withheld_names(config.environment, config.secret_variables),
            ),
            environment=environment,
            home=config.home,
            fence=config.spindle.fence,
            rules=rules,
            image_as_message="message" in (config.provider.image_tool_output, config.spindle.image_tool_output),
            offload_home=config.home if _offloads(config) else None,
        ),
        store=store,
        notifier=Notifier(config.notify),
        configured=_configured(thread, settings, replay=request.replay),
        warnings=(*config.warnings, *warnings),
        max_samples=config.spindle.max_steps,
        turn_limit_s=config.spindle.turn_timeout_s,
        compaction=_compaction(config, provider),
        legacy_interrupt_error=request.legacy_interrupt_error,
        stream=stream,
        warming=warming,
        cap=order.cap if order is not None else lambda settings: settings,
        make_agents=partial(_make_agents, request, rules) if has_agents else None,
    )


def _close_to_others(config: Config, warnings: list[str]) -> None:
    """Other people on this machine can read neither transcripts nor keys, also if another program left them open."""
    close_home(config.home, not_these=("/", os.path.expanduser("~"), config.cwd))
    try:
        is_open = os.stat(f"{config.home}/auth.json").st_mode & 0o077
    except OSError:
        return
    if is_open:
        from spindle.auth.store import close_file  # seldom

        close_file(config.home, warnings)


def settings_from(config: Config, model: str) -> ThreadSettings:
    return ThreadSettings(
        cwd=config.cwd,
        model=model,
        model_provider=config.provider.id,
        approval_policy=config.approval_policy,
        sandbox=config.sandbox,
        effort=config.model_reasoning_effort,
        summary=config.model_reasoning_summary,
        verbosity=config.model_verbosity,
        personality=config.personality or "pragmatic",
        service_tier=config.service_tier,
    )


# ---- the record ------------------------------------------------------------------------------------


def _open_history(request: SessionRequest, store: ThreadStore) -> tuple[History, str, list[str]]:
    """The history to go on with, its thread id, and what to say about it."""
    config, clock = request.config, request.clock
    ref = _recorded(request, store)
    if ref is None:
        thread_id = clock.uuid7()
        writer = None if request.ephemeral else RolloutWriter(store.new_path(thread_id), clock)
        return History(writer), thread_id, []
    if request.ephemeral:
        data = store.read(ref)
        return History.replay(data), data.thread_id, data.notices()
    if request.fork:
        who = {"cwd": config.cwd, "originator": request.originator, "source": request.source}
        ref = store.fork(ref, up_to=request.fork_at, new_id=clock.uuid7(), meta=who | {"cli_version": __version__})
    history, data = store.resume(ref)
    return history, data.thread_id, data.notices()


def _recorded(request: SessionRequest, store: ThreadStore) -> ThreadRef | None:
    """The recorded thread that is meant, or None for a new one."""
    if request.rollout_path is not None:
        return ThreadRef(id="", path=request.rollout_path)
    if request.thread is not None:
        ref = store.get(request.thread)
        if ref.archived and not request.fork:
            raise ThreadError(f"thread {ref.id} is archived; `spindle unarchive {ref.id}` brings it back")
        return ref
    if request.newest:
        config = request.config
        return store.latest(config.cwd, config.provider.id, include_other_cwds=request.any_folder)
    return None


def _session_meta(request: SessionRequest, thread_id: str, instructions: str) -> dict[str, Any]:
    """The first line of a rollout; both generations of the reference read it."""
    config = request.config
    meta: dict[str, Any] = {
        "id": thread_id,
        "session_id": thread_id,
        "timestamp": iso_utc(request.clock.now()),
        "cwd": config.cwd,
        "originator": request.originator,
        "cli_version": __version__,
        "source": request.source if request.order is None else request.order.source,
        "model_provider": config.provider.id,
        "base_instructions": {"text": instructions},
    }
    if (git := git_facts(config.cwd)) is not None:
        meta["git"] = git.to_wire()
    return {**meta, "spindle": {"version": __version__}}


def _restore_usage(thread: LiveThread) -> None:
    """A resumed thread goes on counting where it stopped."""
    info = thread.history.token_info
    if info is None:
        return
    try:
        thread.note_restored(
            msgspec.convert(info.get("total_token_usage") or {}, TokenUsage),
            msgspec.convert(info.get("last_token_usage") or {}, TokenUsage),
        )
    except msgspec.ValidationError:
        pass  # written by somebody else in a shape of their own; counting starts anew


def _offloads(config: Config) -> bool:
    wanted = config.spindle.offload_outputs
    return config.spindle.context_mode != "append_only" if wanted is None else wanted


def _memory(config: Config) -> str | None:
    """The folder of the project's notes, where notes are wanted."""
    if not config.spindle.memory:
        return None
    from spindle.tools.memory_folder import project_folder

    return project_folder(config.home, find_root(config.cwd, config.project_root_markers) or config.cwd)


def _compaction(config: Config, provider: Provider) -> CompactionOptions:
    keeps_tools = config.spindle.compact_keep_tools
    return CompactionOptions(
        prompt=config.compact_prompt,
        keep=config.spindle.compact_keep,
        keeps_tools=provider.id in BUILT_IN if keeps_tools is None else keeps_tools,
        asks_server=provider.is_openai and config.features.get("remote_compaction", True),
        mode=config.spindle.context_mode,
        rule=config.spindle.context_rule,
        offload_home=config.home if _offloads(config) else None,
    )


# ---- the model and its tools -----------------------------------------------------------------------


def _model_client(
    request: SessionRequest, thread_id: str, warnings: list[str]
) -> tuple[ModelClient, Provider, Credential]:
    config = request.config
    signed_in = sign_in(
        config.provider,
        home=config.home,
        is_exec=request.source == "exec",
        forced_method=config.forced_login_method,
    )
    warnings += signed_in.warnings
    identity = Identity(
        thread_id=thread_id,
        version=__version__,
        originator=request.originator,
        subagent="collab_spawn" if request.order is not None else None,
    )
    limit = config.spindle.sse_event_max_bytes
    client = ResponsesClient(
        signed_in.provider, signed_in.credential, identity, request.clock, sse_event_max_bytes=limit
    )
    return client, signed_in.provider, signed_in.credential


def _tools(config: Config, info: ModelInfo, depth: int) -> ToolSet:
    features = config.features
    patch_type = "freeform" if features.get("apply_patch_freeform") else info.apply_patch_tool_type
    live = config.web_search == "live" or (config.web_search == "cached" and config.sandbox.is_full_access)
    return build_tools(
        shell_type=info.shell_type,
        patch_type=patch_type,
        web_search=None if config.web_search == "disabled" else "live" if live else "cached",
        shell_tool=features.get("shell_tool", True),
        unified_exec=features.get("unified_exec", True),
        request_rule=features.get("request_rule", True),
        update_plan=config.update_plan,
        request_user_input=features.get("collaboration_modes", True),
        view_image=config.view_image,
        jit_tools=_jit_tools(config.spindle.jit_tools, info),
        recollection=config.spindle.recollection,
        memory=_memory(config),
        agents=_agent_roles(config),
        may_spawn=depth < config.agents_max_depth and config.agents_max_threads > 0,
    )


def _jit_tools(wanted: bool | None, info: ModelInfo) -> tuple[str, ...]:
    """The file tools: as the user says, else as the catalogue says, else for models nobody taught the shell."""
    if wanted is None:
        return info.experimental_supported_tools if info.known else JIT_TOOLS
    return JIT_TOOLS if wanted else ()


# ---- sub-agents ------------------------------------------------------------------------------------


def _agent_roles(config: Config) -> tuple[AgentRole, ...] | None:
    """The roles a model can choose from; None where it has no sub-agents. Who describes a role wants them."""
    is_on = config.features.get("collab") or config.agent_roles
    return tuple(config.agent_roles.values()) if is_on else None


def _make_agents(request: SessionRequest, rules: RuleBook, session: Session, stream: EventStream) -> Subagents:
    from spindle.core.subagents import Subagents  # with the first sub-agent

    config = request.config
    return Subagents.of_session(
        session,
        stream,
        open_agent=lambda order: open_session(_agent_request(request.root or request, order)),
        roles=config.agent_roles,
        rules=rules,
        order=request.order,
        max_threads=config.agents_max_threads,
        max_depth=config.agents_max_depth,
        max_tokens=config.spindle.agents_max_tokens,
        max_requests=config.spindle.agents_max_requests,
    )


def _agent_request(root: SessionRequest, order: AgentOrder) -> SessionRequest:
    """A new thread with the configuration of the session that a person opened, as it was read then."""
    from spindle.config.roles import config_for_agent  # with the first sub-agent
    from spindle.prompt.bundled import text

    return SessionRequest(
        config=config_for_agent(root.config, order.settings, order.role, text("subagent")),
        source=root.source,
        originator=root.originator,
        ephemeral=root.ephemeral,
        base_instructions=root.base_instructions,
        user_instructions=root.user_instructions,
        bypass=root.bypass,
        client=root.client,
        clock=root.clock,
        order=order,
        root=root,
    )


# ---- what the session says and is told -------------------------------------------------------------


def _configured(thread: LiveThread, settings: ThreadSettings, *, replay: bool) -> SessionConfigured:
    history = thread.history
    return SessionConfigured(
        session_id=thread.thread_id,
        model=settings.model,
        model_provider_id=settings.model_provider,
        approval_policy=settings.approval_policy,
        sandbox_policy=settings.sandbox.to_wire(),
        cwd=settings.cwd,
        reasoning_effort=settings.effort or thread.traits.default_effort,
        forked_from_id=history.meta.get("forked_from_id"),
        thread_name=history.name,
        initial_messages=_said_before(history) if replay and history.records else None,
        rollout_path=history.writer.path if history.writer is not None else None,
    )


def _said_before(history: History) -> list[dict[str, Any]]:
    from spindle.thread.view import initial_messages  # only front ends that show the past need it

    return initial_messages(history.records)


def _briefing_options(request: SessionRequest, shell_name: str, environment: dict[str, str]) -> BriefingOptions:
    config = request.config
    return BriefingOptions(
        home=config.home,
        shell_name=shell_name,
        environment=environment,
        doc_max_bytes=config.project_doc_max_bytes,
        doc_fallback_names=config.project_doc_fallback_filenames,
        root_markers=config.project_root_markers,
        read_project_docs=config.trust_level == "trusted" or config.spindle.agents_md_untrusted,
        include_permissions=config.include_permissions_instructions,
        include_environment=config.include_environment_context,
        include_skills=config.skills_include_instructions,
        disabled_skills=config.disabled_skills,
        developer_instructions=config.developer_instructions,
        user_instructions=request.user_instructions,
        extras=config.spindle.environment_extras,
        memory=_memory(config),
        nested_docs=config.spindle.nested_agents_md,
        bypass=request.bypass,
        protected=(*PROTECTED_NAMES, *config.spindle.fence.protected),
    )
