"""The composition root: Config → Session. The only package that knows every concrete class."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from spindle.assembly.agents import agent_roles, make_agents
from spindle.assembly.model import client_tools, model_client, tool_set
from spindle.assembly.options import briefing_options, compaction_options, offloads, settings_from
from spindle.assembly.record import open_history, restore_usage, session_meta
from spindle.assembly.request import SessionRequest
from spindle.auth.credentials import session_secrets
from spindle.config.schema import Config
from spindle.core.briefing import Briefing
from spindle.core.live_thread import LiveThread, ModelOverrides
from spindle.core.notify import Notifier
from spindle.core.secrecy import masked_msg
from spindle.core.session import Session
from spindle.core.stream import EventStream
from spindle.core.workbench import Workbench
from spindle.model.catalog import Catalog
from spindle.model.credential import StaticCredential
from spindle.policy.environment import child_environment, withheld_names
from spindle.policy.rulebook import RuleBook
from spindle.process.table import ProcessTable
from spindle.prompt.instructions import choose_instructions
from spindle.protocol.events import SessionConfigured
from spindle.protocol.settings import ThreadSettings
from spindle.thread.history import History
from spindle.thread.private_files import close_home
from spindle.thread.store import ThreadStore
from spindle.tools.router import ToolSet
from spindle.workspace.shell import user_shell

if TYPE_CHECKING:
    from spindle.core.servers import Servers
    from spindle.policy.secrets import Secrets

__all__ = ["SessionRequest", "open_session"]


async def open_session(request: SessionRequest) -> Session:
    """Open, resume or fork a thread. Raises a SpindleError when it cannot be done; then nothing was changed."""
    catalog = Catalog.load(request.config.model_catalog_json)
    store = ThreadStore(request.config.home, request.clock)
    history, thread_id, warnings = open_history(request, store)
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
    order = request.order
    of_client = [] if order is not None else client_tools(request, history.meta, warnings)
    build_tools = partial(tool_set, config, info, 0 if order is None else order.depth, of_client)
    client, provider, credential = (
        (request.client, config.provider, StaticCredential())
        if request.client
        else model_client(request, thread_id, warnings)
    )
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
    history.mask = secrets.mask_json
    stream = request.stream or EventStream()
    stream.mask = partial(masked_msg, secrets=secrets)
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
        history.append_meta(session_meta(request, thread_id, instructions))
    thread = LiveThread(
        thread_id=thread_id,
        history=history,
        client=client,
        provider=provider,
        instructions=instructions,
        has_own_text=bool(request.base_instructions or config.base_instructions),
        tools=build_tools(),
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
    restore_usage(thread)
    shell = user_shell()
    environment = child_environment(os.environ, config.environment, secret_names=config.secret_variables)
    # What was written since the person's session began is no rule for its sub-agents either.
    rules = RuleBook(config.home, config.rule_folders) if order is None else order.rules
    has_agents = agent_roles(config) is not None
    servers = None
    if request.pool is not None or any(server.enabled for server in config.mcp_servers.values()):
        servers = _make_servers(request, build_tools, secrets)
    workbench = Workbench(
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
        offload_home=config.home if offloads(config) else None,
        # Nobody sits before a run without a screen, and a sub-agent has its parent to ask.
        asks_client=request.source != "exec" and order is None,
    )
    hooks = None
    if config.hooks or config.notify:
        from spindle.assembly.hooks import make_hooks  # only for those who have any

        hooks = make_hooks(request, thread, workbench, warnings)
    return Session(
        thread=thread,
        settings=settings,
        briefing=Briefing(briefing_options(request, shell.name, environment), history.last_turn_context),
        workbench=workbench,
        store=store,
        notifier=Notifier(config.notify),
        configured=_configured(thread, settings, replay=request.replay),
        warnings=(*config.warnings, *warnings),
        max_samples=config.spindle.max_steps,
        turn_limit_s=config.spindle.turn_timeout_s,
        compaction=compaction_options(config, provider),
        legacy_interrupt_error=request.legacy_interrupt_error,
        stream=stream,
        warming=warming,
        cap=order.cap if order is not None else lambda settings: settings,
        hooks=hooks,
        make_agents=partial(make_agents, open_session, request, rules) if has_agents else None,
        servers=servers,
        make_servers=partial(_make_servers, request, build_tools, secrets),
    )


def _make_servers(request: SessionRequest, build_tools: Callable[..., ToolSet], secrets: Secrets) -> Servers:
    from spindle.assembly.servers import make_servers  # only for those who have any

    return make_servers(request, build_tools, secrets)


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
