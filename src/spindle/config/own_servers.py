"""How the programs of MCP servers are started: they run by the user's word, and that is given to what the user saw.

Where the agent could have written what a server runs, it is confined like a command, unless the user agreed to its
contents (`spindle mcp trust`) and they are the same. Loaded only for those who have such servers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from spindle.config.agent_reach import widest_reach
from spindle.config.schema import Config
from spindle.errors import McpError
from spindle.mcp.spec import McpServer
from spindle.mcp.stdio import find_program, server_environment
from spindle.policy.own_programs import Prepared, prepare
from spindle.policy.reach import Reach


def prepare_server(
    config: Config, server: McpServer, reach: Reach, argv: Sequence[str], env: Mapping[str, str]
) -> Prepared:
    is_trusted = config.trust_level == "trusted"
    return prepare(reach, argv, env, cwd=config.cwd, own_cwd=server.cwd, is_trusted=is_trusted)


def contents_of(config: Config, server: McpServer) -> str | None:
    """The hash of what a server runs, so far as the agent could write it: "" = nothing, None = it cannot be pinned.

    It does not depend on the mode that is in force, so that a consent holds in all of them.
    """
    if server.command is None:
        return ""
    reach = widest_reach(config)
    given = server_environment(server, os.environ)
    try:
        argv = [find_program(server, given.get("PATH", os.defpath)), *server.args]
    except McpError:
        return ""  # there is no such program now
    prepared = prepare_server(config, server, reach, argv, given)
    if prepared.found is None:
        return ""
    from spindle.policy.pins import pin_of  # only for what the agent could have written

    return pin_of(reach, prepared.argv, cwd=prepared.cwd, env=prepared.env)
