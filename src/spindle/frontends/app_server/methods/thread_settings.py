"""`thread/settings/update`: change settings without a turn; `permissionProfile/list`: the profiles there are."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec

from spindle.config.permissions import profile_names
from spindle.config.writing import merged, read_layers
from spindle.errors import ConfigError
from spindle.frontends.app_server.method import After, Call, Method, Nothing
from spindle.frontends.app_server.methods.turns import SettingsChanges, changed_settings
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.settings_told import tell_settings
from spindle.frontends.app_server.threads import MAX_PAGE, page
from spindle.frontends.launch import config_from, overrides_from
from spindle.protocol.answers import TurnUpdated
from spindle.protocol.ops import OverrideTurnContext, UpdateTurn


class SettingsUpdateParams(SettingsChanges, frozen=True, kw_only=True):
    thread_id: str


class TurnSettingsParams(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a turn that runs only these can be changed; others are refused, not ignored."""

    thread_id: str
    turn_id: str
    model: str | None = None
    effort: str | None = None
    summary: Literal["auto", "concise", "detailed", "none"] | None = None


class TurnSettingsResult(Wire, frozen=True, kw_only=True):
    status: Literal["applied", "targetUnavailable"]


class ProfileListParams(Wire, frozen=True, kw_only=True):
    cwd: str | None = None
    cursor: str | None = None
    limit: int = MAX_PAGE


class ProfileSummary(Wire, frozen=True, kw_only=True):
    id: str
    allowed: bool
    """By the administrator of this machine."""


class ProfileListResult(Wire, frozen=True, kw_only=True):
    data: list[ProfileSummary]
    next_cursor: str | None


async def settings_update(call: Call, params: SettingsUpdateParams) -> After:
    thread = await call.server.ready(params.thread_id)
    changes = changed_settings(params, thread, call)
    if changes:
        op = OverrideTurnContext(**changes)
        thread.live.check(op)  # so that a bad value is the answer to this request
        thread.submit(op)
        await thread.live.settle()
    return After(Nothing(), lambda: tell_settings(thread, thread.live.settings) if changes else None)


async def turn_settings_update(call: Call, params: TurnSettingsParams) -> Wire:
    """Other settings for the turn that runs, from its next request on; later turns have those of the thread."""
    thread = await call.server.ready(params.thread_id)
    effort = msgspec.UNSET if params.effort is None else params.effort
    thread.live.check(OverrideTurnContext(model=params.model, effort=effort, summary=params.summary))
    answer = await thread.ask(
        UpdateTurn(turn_id=params.turn_id, model=params.model, effort=effort, summary=params.summary)
    )
    is_applied = isinstance(answer, TurnUpdated) and answer.is_applied
    return TurnSettingsResult(status="applied" if is_applied else "targetUnavailable")


async def profile_list(call: Call, params: ProfileListParams) -> Wire:
    data = await asyncio.to_thread(_profiles, call, params.cwd or call.server.config.cwd)
    names = [profile.id for profile in data]
    chosen, following, _ = page(data, names, cursor=params.cursor, limit=params.limit, descending=False)
    return ProfileListResult(data=chosen, next_cursor=following)


def _profiles(call: Call, cwd: str) -> list[ProfileSummary]:
    server = call.server
    tables = merged(read_layers(cwd, server.home, overrides_from(server.parsed))).get("permissions")
    names = profile_names(tables if isinstance(tables, dict) else {})
    return [ProfileSummary(id=name, allowed=_is_allowed(call, cwd, name)) for name in names]


def _is_allowed(call: Call, cwd: str, name: str) -> bool:
    try:
        config = config_from(call.server.parsed, cwd=cwd, config={"default_permissions": name})
    except ConfigError:
        return False
    return config.sandbox.amounts_to in (config.allowed_sandbox_modes or (config.sandbox.amounts_to,))


METHODS = (
    Method(
        name="thread/settings/update",
        params=SettingsUpdateParams,
        result=Nothing,
        run=settings_update,
        is_experimental=True,
    ),
    Method(
        name="turn/settings/update",
        params=TurnSettingsParams,
        result=TurnSettingsResult,
        run=turn_settings_update,
        is_experimental=True,
    ),
    Method(name="permissionProfile/list", params=ProfileListParams, result=ProfileListResult, run=profile_list),
)
