"""The composition root: Config → Session. The only package that knows every concrete class."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from spindle.assembly.features import make_features
from spindle.assembly.model import client_tools, model_access, tool_set
from spindle.assembly.options import allowed_by, briefing_options, editor_for, offloads, settings_from
from spindle.assembly.record import Draft, base_text, restore_usage, session_meta
from spindle.assembly.request import SessionRequest
from spindle.auth.credentials import Secured, session_secrets
from spindle.config.schema import Config
from spindle.core.access import BaseText, ModelAccess
from spindle.core.briefing import Briefing
from spindle.core.feature import Feature
from spindle.core.live_thread import LiveThread
from spindle.core.secrecy import masked_msg
from spindle.core.session import Equipment, Limits, Session
from spindle.core.stream import EventStream
from spindle.core.workbench import Workbench
from spindle.policy.environment import child_environment, withheld_names
from spindle.policy.secrets import Secrets
from spindle.process.table import ProcessTable
from spindle.protocol.events import SessionConfigured, Warning
from spindle.protocol.settings import ThreadSettings
from spindle.thread.history import History
from spindle.thread.private_files import close_home
from spindle.tools.router import ToolSet
from spindle.tools.tool import Tool
from spindle.workspace.shell import user_shell

__all__ = ["SessionRequest", "open_session"]


async def open_session(request: SessionRequest) -> Session:
    """Open, resume or fork a thread. Raises a SpindleError when it cannot be done; then nothing was changed."""
    config, order = request.config, request.order
    with Draft.of(request) as draft:
        if request.asks_local_server:
            from spindle.assembly.local_servers import with_served_window  # it asks the server of the model

            draft = await with_served_window(draft)
        of_features: list[Tool] = []
        of_caller = client_tools(draft)
        build_tools = partial(tool_set, config, draft.info, of_features, of_caller)
        access, secured = model_access(draft)
        _close_to_others(config, draft.warnings)
        secrets = _secrets(config, secured)
        draft.history.mask = secrets.mask_json
        draft.history.seal = draft.store.sealer.seal
        stream = request.stream or EventStream()
        stream.mask = partial(masked_msg, secrets=secrets)
        # The connection opens while files are read below; the first request waits for it only as long as it must.
        warming = asyncio.ensure_future(access.client.warm())
        draft.tasks.append(warming)
        await asyncio.sleep(0)
        own = make_features(draft, secrets, build_tools)
        of_features += [tool for feature in own for tool in feature.tools()]
        # A sub-agent never reaches more than its parent does, so it cannot ask for more.
        if order is None and config.features.get("request_permissions_tool", False):
            from spindle.tools.specs import request_permissions  # few switch it on

            of_features.append(request_permissions())
        of_caller[:0] = [tool for feature in request.features for tool in feature.tools()]
        for of_role in request.agent_tools.values():
            tool_set(config, draft.info, of_features, of_role)  # now, not when a sub-agent is to begin
        # What the caller brings comes last: it sees each moment as the others have left it.
        features = [*own, *request.features]
        settings = settings_from(config, draft.model) if order is None else order.settings
        allowed_by(config).check(settings.approval_policy, settings.sandbox, settings.cwd)
        thread = _live_thread(draft, access, settings, build_tools(), secrets)
        greeting = [
            _configured(thread, settings, replay=request.replay),
            *(Warning(message=text) for text in (*config.warnings, *draft.warnings)),
        ]
        return Session(
            thread,
            settings,
            stream,
            features,
            equipment=_equipment(draft, features, secrets, warming),
            limits=_limits(request),
            greeting=greeting,
        )


def _secrets(config: Config, secured: Secured) -> Secrets:
    return session_secrets(
        os.environ,
        secured,
        home=config.own_home,
        variables=config.secret_variables,
        given=config.environment.set,
        mask=config.spindle.mask_secrets,
        unmasked=config.spindle.unmasked_variables,
    )


def _live_thread(
    draft: Draft, access: ModelAccess, settings: ThreadSettings, tools: ToolSet, secrets: Secrets
) -> LiveThread:
    """The thread, with the base text it was started with, or starts with now."""
    request, config, history = draft.request, draft.request.config, draft.history
    instructions = base_text(draft, settings)
    if not history.meta:
        history.append_meta(session_meta(request, draft.thread_id, instructions))
    is_for_all = bool(request.base_instructions or config.base_instructions)
    thread = LiveThread(
        draft.thread_id,
        history,
        access=access,
        model=draft.model,
        base=BaseText(text=instructions, is_for_all=is_for_all, personality=settings.personality),
        tools=tools,
        clock=request.clock,
        secrets=secrets,
    )
    restore_usage(thread)
    return thread


def _equipment(draft: Draft, features: Sequence[Feature], secrets: Secrets, warming: asyncio.Task[None]) -> Equipment:
    request, config, shell = draft.request, draft.request.config, user_shell()
    environment = child_environment(os.environ, config.environment, secret_names=config.secret_variables)
    workbench = Workbench(
        processes=ProcessTable(
            clock=request.clock,
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
        rules=draft.rules,
        image_as_message="message" in (config.provider.image_tool_output, config.spindle.image_tool_output),
        offload_home=config.home if offloads(config) else None,
        # Nobody sits before a run without a screen, and a sub-agent has its parent to ask.
        asks_client=request.source != "exec" and request.order is None,
    )
    workbench.editor = editor_for(request)
    briefing = Briefing(briefing_options(request, shell.name, environment, features), draft.history.last_turn_context)
    return Equipment(briefing=briefing, workbench=workbench, store=draft.store, warming=warming)


def _limits(request: SessionRequest) -> Limits:
    config, order = request.config, request.order
    return Limits(
        allowed=allowed_by(config),
        is_attended=request.is_attended,
        max_requests=config.spindle.max_steps,
        turn_s=config.spindle.turn_timeout_s,
        cap=order.cap if order is not None else lambda settings: settings,
        legacy_interrupt_error=request.legacy_interrupt_error,
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
