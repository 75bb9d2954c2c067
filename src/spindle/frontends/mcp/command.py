"""`spindle mcp list | get | add | remove | trust | untrust | login | logout`: look after the configured MCP servers."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from spindle.auth.mcp_tokens import auth_status, forget_tokens
from spindle.config.consent import Consents
from spindle.config.kinds import dotted
from spindle.config.schema import Config
from spindle.config.sources import read_layer
from spindle.config.writing import Edit, write_user_config
from spindle.errors import ConfigError, SpindleError, UsageError
from spindle.frontends.fit import hang, table
from spindle.frontends.launch import config_from, home_from
from spindle.frontends.options import Parsed
from spindle.frontends.terminal import STDOUT, columns_of
from spindle.mcp.spec import McpServer
from spindle.protocol.quote import shell_join, visible

_STATUS_WORDS = {
    "unsupported": "Unsupported",
    "not_logged_in": "Not logged in",
    "bearer_token": "Bearer token",
    "o_auth": "OAuth",
}
_DEFAULTS = McpServer(name="")


def run(parsed: Parsed, words: list[str]) -> int:
    name, *command = words or [""]
    match parsed.command[1]:
        case "list":
            return _list(config_from(parsed), as_json=parsed.flag("json"))
        case "get":
            return _get(config_from(parsed), name, as_json=parsed.flag("json"))
        case "add":
            return _add(parsed, name, command)
        case "remove":
            return _remove(name)
        case "trust":
            return _trust(config_from(parsed), name)
        case "untrust":
            return _untrust(config_from(parsed), name)
        case "login":
            return _login(config_from(parsed), name, parsed.value("scopes"))
        case _:
            return _logout(name)


# ---- looking ---------------------------------------------------------------------------------------


def _list(config: Config, *, as_json: bool) -> int:
    servers = [config.mcp_servers[name] for name in sorted(config.mcp_servers)]
    if as_json:
        entries = [
            {
                **_head(config, server),
                "startup_timeout_sec": _unless_default(server, "startup_timeout_s"),
                "tool_timeout_sec": _unless_default(server, "tool_timeout_s"),
                "auth_status": auth_status(config.home, server),
            }
            for server in servers
        ]
        _print_json(entries)
        return 0
    if not servers:
        print("no MCP servers are configured; `spindle mcp add NAME -- COMMAND` adds one", file=sys.stderr)
        return 0
    programs = [
        [
            server.name,
            visible(server.command or ""),
            visible(shell_join(server.args)) or "-",
            _masked(server),
            visible(server.cwd or "-"),
            _status(config, server),
            _STATUS_WORDS[auth_status(config.home, server)],
        ]
        for server in servers
        if server.url is None
    ]
    addresses = [
        [
            server.name,
            visible(server.url or ""),
            visible(server.bearer_token_env_var or "-"),
            _status(config, server),
            _STATUS_WORDS[auth_status(config.home, server)],
        ]
        for server in servers
        if server.url is not None
    ]
    tables = [
        (["Name", "Command", "Args", "Env", "Cwd", "Status", "Auth"], programs),
        (["Name", "Url", "Bearer Token Env Var", "Status", "Auth"], addresses),
    ]
    print("\n\n".join(table([head, *rows], columns_of(STDOUT)) for head, rows in tables if rows))
    return 0


def _get(config: Config, name: str, *, as_json: bool) -> int:
    server = _find(config, name)
    if as_json:
        entry = {
            **_head(config, server),
            "enabled_tools": server.enabled_tools,
            "disabled_tools": server.disabled_tools or None,
            "startup_timeout_sec": _unless_default(server, "startup_timeout_s"),
            "tool_timeout_sec": _unless_default(server, "tool_timeout_s"),
        }
        _print_json(entry)
        return 0
    rows: list[tuple[str, str]] = [("enabled", str(server.enabled).lower())]
    if server.url is None:
        rows += [
            ("transport", "stdio"),
            ("command", visible(server.command or "")),
            ("args", visible(shell_join(server.args)) or "-"),
            ("cwd", visible(server.cwd or "-")),
            ("env", _masked(server)),
        ]
    else:
        rows += [
            ("transport", "streamable_http"),
            ("url", visible(server.url)),
            ("bearer_token_env_var", visible(server.bearer_token_env_var or "-")),
            ("http_headers", ", ".join(f"{visible(key)}=*****" for key in server.http_headers) or "-"),
            (
                "env_http_headers",
                ", ".join(f"{visible(k)}={visible(v)}" for k, v in server.env_http_headers.items()) or "-",
            ),
        ]
    if server.default_tools_approval_mode is not None:
        rows.append(("default_tools_approval_mode", server.default_tools_approval_mode))
    if server.project_file is not None:
        rows.append(("described in", visible(server.project_file)))
        rows.append(("agreed to", "yes" if Consents(config.home).covers(server) else f"no: spindle mcp trust {name}"))
    else:
        rows.append(("remove", f"spindle mcp remove {name}"))
    width = columns_of(STDOUT)
    print("\n".join([name, *(hang(f"  {label}: ", value, width) for label, value in rows)]))
    return 0


def _find(config: Config, name: str) -> McpServer:
    server = config.mcp_servers.get(name)
    if server is None:
        raise SpindleError(f"there is no MCP server {name!r}; `spindle mcp list` shows those there are")
    return server


def _head(config: Config, server: McpServer) -> dict[str, Any]:
    reason = None if server.enabled else "disabled in the configuration"
    is_blocked = server.project_file is not None and not Consents(config.home).covers(server)
    return {
        "name": server.name,
        "enabled": server.enabled and not is_blocked,
        "disabled_reason": reason or ("not agreed to" if is_blocked else None),
        "transport": _transport(server),
    }


def _transport(server: McpServer) -> dict[str, Any]:
    if server.url is not None:
        return {
            "type": "streamable_http",
            "url": server.url,
            "bearer_token_env_var": server.bearer_token_env_var,
            "http_headers": server.http_headers or None,
            "env_http_headers": server.env_http_headers or None,
        }
    return {
        "type": "stdio",
        "command": server.command,
        "args": server.args,
        "env": server.env or None,
        "env_vars": server.env_vars,
        "cwd": server.cwd,
    }


def _status(config: Config, server: McpServer) -> str:
    if not server.enabled:
        return "disabled"
    is_blocked = server.project_file is not None and not Consents(config.home).covers(server)
    return "not agreed to" if is_blocked else "enabled"


def _unless_default(server: McpServer, field: str) -> float | None:
    value = getattr(server, field)
    return None if value == getattr(_DEFAULTS, field) else value


def _masked(server: McpServer) -> str:
    """The variables, without their values; those that a project chose are no secret, and may be the trick."""
    is_own = server.project_file is None
    given = [f"{visible(name)}={'*****' if is_own else visible(value)}" for name, value in server.env.items()]
    return ", ".join([*given, *map(visible, server.env_vars)]) or "-"


def _print_json(value: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


# ---- changing --------------------------------------------------------------------------------------


def _add(parsed: Parsed, name: str, command: list[str]) -> int:
    if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
        raise UsageError(f"{name!r} cannot be the name of a server: only letters, digits, `-` and `_`")
    url, token = parsed.value("url"), parsed.value("bearer_token_env_var")
    if bool(url) == bool(command):
        raise UsageError("`mcp add NAME` needs either --url URL, or `--` and a command")
    values: dict[str, Any]
    if url is not None:
        if not url.startswith(("https://", "http://")):
            raise UsageError(f"--url: {url!r} must begin with https:// or http://")
        if parsed.many("env"):
            raise UsageError("--env is for programs; an address has no environment")
        values = {"url": url, **({"bearer_token_env_var": token} if token else {})}
    else:
        if token:
            raise UsageError("--bearer-token-env-var is for servers with --url")
        values = {"command": command[0], **({"args": command[1:]} if command[1:] else {})}
        if given := _variables(parsed.many("env")):
            values["env"] = given
    write_user_config(home_from(), [Edit(key=_key(name), value=values)])
    print(f"Added global MCP server '{name}'.")
    return 0


def _variables(words: list[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise UsageError(f"--env needs KEY=VALUE, found {name!r}")
    return {name: value for name, _, value in pairs}


def _remove(name: str) -> int:
    home = home_from()
    layer = read_layer(f"{home}/config.toml")
    if layer is None or name not in layer.values.get("mcp_servers", {}):
        print(f"No MCP server named '{visible(name)}' found.")
        return 0
    write_user_config(home, [Edit(key=_key(name), value=None)])
    forget_tokens(home, name)
    print(f"Removed global MCP server '{visible(name)}'.")
    return 0


def _key(name: str) -> str:
    return dotted(("mcp_servers", name))


def _trust(config: Config, name: str) -> int:
    """Show what would run, and agree to it: whoever types this has been told to look first."""
    from spindle.config.own_servers import contents_of  # only to agree to a server

    server = _find(config, name)
    contents = contents_of(config, server)
    if server.project_file is None and contents == "":
        raise ConfigError(f"{name} is in your own configuration; it needs no consent")
    if server.project_file is None and contents is None:
        raise ConfigError(
            f"what {name} runs is too large to check, or depends on the folder it starts in; keep it where the agent "
            "cannot write"
        )
    _get(config, name, as_json=False)
    Consents(config.home).give(server, contents)
    if server.project_file is not None:
        print(f"Agreed to '{name}' as it stands in {visible(server.project_file)}; when it changes, it is off again.")
    if contents:
        print("Agreed to the files it runs as they are now; when they change, it runs inside the sandbox.")
    return 0


def _untrust(config: Config, name: str) -> int:
    server = _find(config, name)
    if Consents(config.home).take_back(server):
        where = f"of {visible(server.project_file)} is off" if server.project_file else "runs inside the sandbox"
        print(f"'{name}' {where} from the next session on.")
    else:
        print(f"There is no consent to '{name}'.")
    return 0


# ---- signing in ------------------------------------------------------------------------------------


def _login(config: Config, name: str, scopes: str | None) -> int:
    server = _find(config, name)
    import asyncio  # only to sign in

    from spindle.frontends.mcp.login import sign_in  # the same
    from spindle.frontends.server_sign_in import check_sign_in  # the same

    check_sign_in(server, config.home)
    wanted = tuple(scope for scope in (scopes or "").replace(",", " ").split())
    asyncio.run(sign_in(server, wanted, config.home))
    print(f"Signed in to MCP server '{name}'.")
    return 0


def _logout(name: str) -> int:
    if forget_tokens(home_from(), name):
        print(f"Signed out of MCP server '{visible(name)}'.")
    else:
        print(f"Nobody was signed in to an MCP server named '{visible(name)}'.")
    return 0
