"""The composition root: Config → Session. The only package that knows every concrete class."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial

from spindle.assembly.features import make_features
from spindle.assembly.model import client_tools, model_access, tool_set
from spindle.assembly.options import (
    allowed_by,
    briefing_options,
    editor_for,
    limits_of,
    offloads,
    secrets_of,
    settings_from,
)
from spindle.assembly.record import Draft, close_to_others, first_event, live_thread
from spindle.assembly.request import SessionRequest
from spindle.core.briefing import Briefing
from spindle.core.feature import Feature
from spindle.core.secrecy import masked_msg
from spindle.core.session import Equipment, Session
from spindle.core.stream import EventStream
from spindle.core.workbench import Workbench
from spindle.policy.environment import child_environment, withheld_names
from spindle.policy.secrets import Secrets
from spindle.process.table import ProcessTable
from spindle.protocol.events import Warning
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
        close_to_others(config, draft.warnings)
        secrets = secrets_of(config, secured)
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
        thread = live_thread(draft, access, settings, build_tools(), secrets)
        greeting = [
            first_event(thread, settings, replay=request.replay),
            *(Warning(message=text) for text in (*config.warnings, *draft.warnings)),
        ]
        return Session(
            thread,
            settings,
            stream,
            features,
            equipment=_equipment(draft, features, secrets, warming),
            limits=limits_of(request),
            greeting=greeting,
        )


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
