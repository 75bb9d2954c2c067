"""`request_permissions` asks a person to let the turn's commands reach more than the sandbox allows."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.errors import ToolError
from spindle.policy.widening import Given, Wish
from spindle.protocol.items import encode_payload
from spindle.tools.tool import ToolCall, ToolContext, ToolResult, parse_arguments

LOCAL = "local"
"""The one environment there is, by the name that clients know it by."""


class Files(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    read: list[str] | None = None
    write: list[str] | None = None


class Network(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    enabled: bool | None = None


class Wanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    network: Network | None = None
    file_system: Files | None = None


class RequestPermissionsArgs(msgspec.Struct, frozen=True, kw_only=True):
    permissions: Wanted
    reason: str | None = None
    environment_id: str | None = None


async def run(call: ToolCall, ctx: ToolContext) -> ToolResult:
    args = parse_arguments(call, RequestPermissionsArgs)
    if args.environment_id not in (None, "", LOCAL):
        raise ToolError(f"there is no environment {args.environment_id!r}; leave environment_id out")
    network, files = args.permissions.network or Network(), args.permissions.file_system or Files()
    if not (network.enabled or files.read or files.write):
        raise ToolError("request_permissions requires at least one permission")
    wish = Wish(
        network=bool(network.enabled), read=tuple(files.read or ()), write=tuple(files.write or ()), reason=args.reason
    )
    given = await ctx.permission.more(wish)
    return ToolResult(output=encode_payload(_answer(given)).decode())


def _answer(given: Given) -> dict[str, Any]:
    more = given.more
    files = {name: list(paths) for name, paths in (("read", more.read), ("write", more.write)) if paths}
    answer: dict[str, Any] = {
        "permissions": {"network": {"enabled": True} if more.network else None, "file_system": files or None},
        "scope": given.expires,
    }
    return {**answer, "not_granted": list(given.reasons)} if given.reasons else answer
