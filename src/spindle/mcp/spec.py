"""One MCP server as the user describes it. Read with every start, so nothing else belongs here."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

DEPTH_NAME = "SPINDLE_AGENT_DEPTH"
"""The variable that tells a server how many agents stand above it: it may be a Spindle itself, and start others."""


def agents_above(environ: Mapping[str, str]) -> int:
    """How many agents stand above this process; 0 for one that a person started."""
    given = environ.get(DEPTH_NAME, "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 10 else 0


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """One `[mcp_servers.NAME]` table: a program to start, or an address to talk to."""

    name: str
    command: str | None = None
    """The program of a stdio server: a name that is looked up in PATH, or an absolute path."""
    args: tuple[str, ...] = ()
    """Its arguments; no shell reads them."""
    env: dict[str, str] = {}
    """Variables set for the program."""
    env_vars: tuple[str, ...] = ()
    """Names of variables passed through to the program."""
    cwd: str | None = None
    """The folder it runs in; else the working folder, if it is trusted."""
    url: str | None = None
    """The address of a streamable HTTP server."""
    bearer_token_env_var: str | None = None
    """The variable that holds the token for it."""
    http_headers: dict[str, str] = {}
    """Headers sent with each request."""
    env_http_headers: dict[str, str] = {}
    """Headers whose values are in variables: header = variable."""
    enabled: bool = True
    """Whether it is started."""
    required: bool = False
    """Whether a run fails when this server cannot be started."""
    startup_timeout_s: float = 10.0
    """How many seconds it may take to be ready."""
    tool_timeout_s: float = 60.0
    """How many seconds one call may take."""
    enabled_tools: tuple[str, ...] | None = None
    """Only these tools are offered; None = all."""
    disabled_tools: tuple[str, ...] = ()
    """These tools are never offered, whatever `enabled_tools` says."""
    scopes: tuple[str, ...] = ()
    """What `spindle mcp login` asks for."""
    default_tools_approval_mode: str | None = None
    """When you are asked before the model uses one of its tools: `auto` = unless the tool only reads, `prompt` =
    always, `approve` = never."""
    tool_approval_modes: dict[str, str] = {}
    """The same for individual tools, by their names: `[mcp_servers.NAME.tools.TOOL] approval_mode`."""
    supports_parallel_tool_calls: bool = False
    """Whether several of its tools may run at the same time."""
    project_file: str | None = None
    """The project's file that has a say in this entry; then it works only with the user's consent."""
