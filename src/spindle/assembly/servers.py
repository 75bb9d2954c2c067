"""The MCP servers of a session: which, how they are reached, and whose they are. Loaded when there are any."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from spindle.assembly.request import SessionRequest
from spindle.config.consent import Consents
from spindle.config.mcp_servers import build_mcp_servers
from spindle.config.schema import Config
from spindle.errors import ConfigError
from spindle.features.servers import Servers, Wanted
from spindle.mcp.channel import Channel
from spindle.mcp.connection import Connection
from spindle.mcp.log import ServerLog
from spindle.mcp.pool import ServerPool
from spindle.mcp.spec import DEPTH_NAME, McpServer, agents_above
from spindle.mcp.stdio import StdioChannel
from spindle.policy.own_programs import LOADED_APART
from spindle.policy.reach import Found
from spindle.policy.secrets import Secrets
from spindle.process.companion import Companion, Companions
from spindle.protocol.items import decode_json, encode_payload
from spindle.protocol.quote import visible
from spindle.tools.router import ToolSet
from spindle.tools.tool import Tool

if TYPE_CHECKING:
    from spindle.core.session import Session

BuildTools = Callable[[Sequence[Tool], Sequence[Tool]], ToolSet]


def make_servers(request: SessionRequest, build: BuildTools, secrets: Secrets) -> Servers:
    """Those of the configuration, being started; for a sub-agent those of the session that a person opened."""
    config = request.config
    companions = Companions(request.clock)

    def start(session: Session) -> ServerPool:
        starter = _Starter(config, companions, session)

        def connect(spec: McpServer, on_changed: Callable[[str], None]) -> Connection:
            log = ServerLog(config.log_dir, spec.name, secrets)
            clean = partial(_without_secrets, secrets=secrets)
            return Connection(spec, lambda: _channel(spec, request, starter, log, secrets), log, on_changed, clean)

        pool = ServerPool(config.mcp_servers, connect, blocked=blocked_servers(config.own_home, config.mcp_servers))
        starter.warn = pool.warn
        return pool

    return Servers(
        request.pool,
        start=start,
        build=build,
        read=lambda given: _wanted(request, given),
        auth_status=lambda spec: _auth_status(config.own_home, spec),
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


def _channel(spec: McpServer, request: SessionRequest, starter: _Starter, log: ServerLog, secrets: Secrets) -> Channel:
    if spec.url is not None:
        from spindle.auth.mcp_http import http_channel  # only for servers with an address

        starter.look_at_address(spec)
        keep_secret = partial(secrets.add, own=True)
        return http_channel(spec, request.config.own_home, request.clock, keep_secret)
    return StdioChannel(spec, start=partial(starter.start, spec), environ=os.environ, log=log)


class _Starter:
    """Starts the programs of a session's servers, each as far confined as it must be."""

    def __init__(self, config: Config, companions: Companions, session: Session) -> None:
        self._config = config
        self._companions = companions
        self._session = session
        self._started: set[str] = set()
        self.warn: Callable[[str, str], None] = lambda server, text: None

    def look_at_address(self, spec: McpServer) -> None:
        """Say once where everybody on the way can read what a server is given to know us by."""
        from spindle.auth.mcp_http import sends_key_openly  # only for servers with an address

        if spec.name not in self._started and sends_key_openly(spec, self._config.own_home):
            self.warn(
                spec.name,
                "what it knows you by is sent without encryption, because its url begins with http://; whoever is on "
                "the way can read it, so use https:// if the server has it",
            )
        self._started.add(spec.name)

    async def start(self, spec: McpServer, argv: Sequence[str], env: Mapping[str, str]) -> Companion:
        from spindle.config.agent_reach import reach_of  # only for servers that are programs
        from spindle.config.own_servers import contents_of, prepare_server  # likewise

        config, workbench = self._config, self._session.workbench
        boundary = workbench.boundary(self._session.settings)
        prepared = prepare_server(config, spec, reach_of(config, boundary, workbench.environment), argv, env)
        is_again, found = spec.name in self._started, prepared.found
        self._started.add(spec.name)
        given, cwd = {**prepared.env, DEPTH_NAME: str(agents_above(os.environ) + 1)}, prepared.cwd
        if found is None:
            return self._companions.start(prepared.argv, given, cwd)
        # Once the agent is at work, it could exchange the files between our look at them and their use.
        contents = None if is_again else contents_of(config, spec)
        if Consents(config.own_home).covers_contents(spec, contents):
            # Compiled modules beside the sources are not among the contents, so they must not be loaded.
            apart = {LOADED_APART: f"{config.own_home}/spindle/pycache"}
            return self._companions.start(prepared.argv, given | apart, cwd)
        self.warn(spec.name, _why_confined(spec, found, contents, is_again=is_again))
        return await self._companions.start_confined(prepared.argv, given, cwd, boundary=boundary, home=config.home)


def _why_confined(spec: McpServer, found: Found, contents: str | None, *, is_again: bool) -> str:
    what = f"the agent can write {visible(found.what)}"
    if is_again:
        return f"it was started again inside the sandbox, because {what}"
    if contents is None:
        return (
            f"it runs inside the sandbox, because {what}; outside it can only run from a place the agent cannot write"
        )
    return (
        f"it runs inside the sandbox, because {what}; look at it, then `spindle mcp trust {spec.name}` lets it run "
        "outside, as it is now"
    )


def _wanted(request: SessionRequest, given: dict[str, Any] | None) -> Wanted:
    """The servers of an op's `config`, else those that the files describe now."""
    if given is None:
        config = request.config if request.reload is None else request.reload()
        return config.mcp_servers, blocked_servers(config.own_home, config.mcp_servers)
    tables = given.get("mcp_servers", given)
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ConfigError("refresh_mcp_servers: `config` must hold a table of servers")
    return build_mcp_servers(tables, {}), {}
