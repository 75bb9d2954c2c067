"""The MCP servers of a session: which, how they are reached, and whose they are. Loaded when there are any."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from spindle.assembly.request import SessionRequest
from spindle.config.consent import Consents
from spindle.config.mcp_servers import build_mcp_servers
from spindle.errors import ConfigError
from spindle.features.servers import Servers, Wanted
from spindle.mcp.channel import Channel
from spindle.mcp.connection import Connection
from spindle.mcp.log import ServerLog
from spindle.mcp.pool import ServerPool
from spindle.mcp.spec import McpServer
from spindle.mcp.stdio import StdioChannel
from spindle.policy.secrets import Secrets
from spindle.process.companion import Companions
from spindle.protocol.items import decode_json, encode_payload
from spindle.tools.router import ToolSet
from spindle.tools.tool import Tool

BuildTools = Callable[[Sequence[Tool], Sequence[Tool]], ToolSet]


def make_servers(request: SessionRequest, build: BuildTools, secrets: Secrets) -> Servers:
    """Those of the configuration, being started; for a sub-agent those of the session that a person opened."""
    config = request.config
    companions = Companions(request.clock)

    def connect(spec: McpServer, on_changed: Callable[[str], None]) -> Connection:
        log = ServerLog(config.log_dir, spec.name, secrets)
        clean = partial(_without_secrets, secrets=secrets)
        return Connection(spec, lambda: _channel(spec, request, companions, log, secrets), log, on_changed, clean)

    def start() -> ServerPool:
        return ServerPool(config.mcp_servers, connect, blocked=blocked_servers(config.home, config.mcp_servers))

    return Servers(
        request.pool,
        start=start,
        build=build,
        read=lambda given: _wanted(request, given),
        auth_status=lambda spec: _auth_status(config.home, spec),
        close=companions.close,
    )


def _without_secrets(listed: list[Any], secrets: Secrets) -> list[Any]:
    """A server knows what it was given, and its descriptions go to the model with every request."""
    raw = encode_payload(listed)
    masked = secrets.mask_json(raw)
    return listed if masked is raw else decode_json(masked)


def blocked_servers(home: str, servers: Mapping[str, McpServer]) -> dict[str, str]:
    """Why some servers are not started: a project describes them, and the user has not agreed to just this."""
    of_projects = [server for server in servers.values() if server.project_file is not None and server.enabled]
    if not of_projects:
        return {}
    consents = Consents(home)
    return {
        server.name: f"{server.project_file} describes it, and you have not agreed to it as it stands there; look "
        f"at it with `spindle mcp get {server.name}`, then agree with `spindle mcp trust {server.name}`"
        for server in of_projects
        if not consents.covers(server)
    }


def _auth_status(home: str, spec: McpServer) -> str:
    from spindle.auth.mcp_tokens import auth_status  # only when a client wants the list of servers

    return auth_status(home, spec)


def _channel(
    spec: McpServer, request: SessionRequest, companions: Companions, log: ServerLog, secrets: Secrets
) -> Channel:
    if spec.url is not None:
        from spindle.auth.mcp_http import http_channel  # only for servers with an address

        keep_secret = partial(secrets.add, own=True)
        return http_channel(spec, request.config.home, request.clock, keep_secret)
    return StdioChannel(spec, start=companions.start, environ=os.environ, cwd=request.config.cwd, log=log)


def _wanted(request: SessionRequest, given: dict[str, Any] | None) -> Wanted:
    """The servers of an op's `config`, else those that the files describe now."""
    if given is None:
        config = request.config if request.reload is None else request.reload()
        return config.mcp_servers, blocked_servers(config.home, config.mcp_servers)
    tables = given.get("mcp_servers", given)
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ConfigError("refresh_mcp_servers: `config` must hold a table of servers")
    return build_mcp_servers(tables, {}), {}
