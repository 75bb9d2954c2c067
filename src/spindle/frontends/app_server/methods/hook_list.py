"""`hooks/list`: the hooks of a folder, and whether they may run. Consent is given by writing `hooks.state`."""

from __future__ import annotations

from typing import Literal

import msgspec

from spindle.errors import SpindleError
from spindle.frontends.app_server.items import camel
from spindle.frontends.app_server.method import Call, Method
from spindle.frontends.app_server.notifications import HookEventName
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.launch import config_from
from spindle.protocol.hook_records import Hook, snake


class HooksListParams(Wire, frozen=True, kw_only=True):
    cwds: list[str] = []


class HookMetadata(Wire, frozen=True, kw_only=True):
    key: str
    event_name: HookEventName
    handler_type: Literal["command"] = "command"
    command: str
    is_async: bool = msgspec.field(name="async")
    matcher: str | None
    timeout_sec: int
    status_message: str | None
    additional_context_limit: int | None
    source_path: str
    source: Literal["system", "user", "project", "sessionFlags"]
    display_order: int
    enabled: bool
    is_managed: bool = False
    current_hash: str
    trust_status: Literal["untrusted", "trusted", "modified"]


class HookErrorInfo(Wire, frozen=True, kw_only=True):
    path: str
    message: str


class HooksListEntry(Wire, frozen=True, kw_only=True):
    cwd: str
    hooks: list[HookMetadata]
    warnings: list[str]
    errors: list[HookErrorInfo]


class HooksListResult(Wire, frozen=True, kw_only=True):
    data: list[HooksListEntry]


async def hooks_list(call: Call, params: HooksListParams) -> Wire:
    """Read anew each time."""
    server = call.server
    entries = []
    for cwd in params.cwds or [server.config.cwd]:
        try:
            config = config_from(server.parsed, cwd=cwd)
        except SpindleError as error:
            problem = HookErrorInfo(path=cwd, message=str(error))
            entries.append(HooksListEntry(cwd=cwd, hooks=[], warnings=[], errors=[problem]))
        else:
            said = [warning for warning in config.warnings if "hook" in warning]
            entries.append(HooksListEntry(cwd=cwd, hooks=[_shown(h) for h in config.hooks], warnings=said, errors=[]))
    return HooksListResult(data=entries)


def _shown(hook: Hook) -> HookMetadata:
    return HookMetadata(
        key=hook.key,
        event_name=camel(snake(hook.event)),  # pyright: ignore[reportArgumentType]
        command=hook.command,
        is_async=hook.is_async,
        matcher=hook.matcher,
        timeout_sec=int(hook.timeout_s),
        status_message=hook.status_message,
        additional_context_limit=hook.context_tokens,
        source_path=hook.path,
        source=hook.source,
        display_order=hook.order,
        enabled=hook.is_enabled,
        current_hash=hook.hash,
        trust_status=hook.trust,
    )


METHODS = (Method(name="hooks/list", params=HooksListParams, result=HooksListResult, run=hooks_list),)
