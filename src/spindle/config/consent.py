"""The user's consent to MCP servers that a project describes: given to one entry exactly as it stands, by its hash.

A changed command, argument, variable, folder, address, header or choice of tools is another entry, and needs a consent
of its own. Where the agent can write what the entry runs, the consent is also to the contents of those files; that may
be given to the user's own servers as well, which need no other.
Kept in the home, where neither a repository nor a sandboxed command can write.
"""

from __future__ import annotations

import os

import msgspec

from spindle.errors import ConfigError
from spindle.mcp.spec import McpServer
from spindle.protocol.items import json_reader
from spindle.thread.private_files import replace_private
from spindle.workspace.files import read_own

_FILE = "mcp-consents.json"
_MAX_BYTES = 1 << 20


class _Given(msgspec.Struct, frozen=True, kw_only=True):
    """One consent; everything but the hash is there for people."""

    hash: str
    name: str
    project_file: str
    contents: str | None = None
    """What `own_servers.contents_of` made of the files; None when they were not looked at, or cannot be pinned."""


class Consents:
    """What the user has agreed to."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._path = f"{home}/{_FILE}"
        self._given = {entry.hash: entry for entry in self._read()}

    def covers(self, server: McpServer) -> bool:
        return fingerprint(server) in self._given

    def covers_contents(self, server: McpServer, contents: str | None) -> bool:
        """Did the user agree to the entry, and to the files that it runs as they are now?"""
        given = self._given.get(fingerprint(server))
        return given is not None and contents is not None and given.contents == contents

    def give(self, server: McpServer, contents: str | None = None) -> None:
        """Agree to the entry as it stands. What was agreed to before under its name and file no longer counts."""
        kept = self._without(server)
        given = _Given(
            hash=fingerprint(server), name=server.name, project_file=server.project_file or "", contents=contents
        )
        self._write([*kept, given])

    def take_back(self, server: McpServer) -> bool:
        kept = self._without(server)
        is_changed = len(kept) != len(self._given)
        if is_changed:
            self._write(kept)
        return is_changed

    def _without(self, server: McpServer) -> list[_Given]:
        who = (server.name, server.project_file or "")
        return [entry for entry in self._given.values() if (entry.name, entry.project_file) != who]

    def _read(self) -> list[_Given]:
        try:
            return json_reader(list[_Given])(read_own(self._path, _MAX_BYTES))
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return []  # what cannot be read, or is another user's, is no consent

    def _write(self, entries: list[_Given]) -> None:
        try:
            os.makedirs(self._home, 0o700, exist_ok=True)
            replace_private(self._path, msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n")
        except OSError as error:
            raise ConfigError(f"{self._path} cannot be written: {error.strerror}") from error
        self._given = {entry.hash: entry for entry in entries}


def fingerprint(server: McpServer) -> str:
    """The hash of everything that decides what runs, with what, and where data goes; and of the file that says so."""
    what = {
        "project_file": server.project_file,
        "name": server.name,
        "command": server.command,
        "args": server.args,
        "env": dict(sorted(server.env.items())),
        "env_vars": server.env_vars,
        "cwd": server.cwd,
        "url": server.url,
        "bearer_token_env_var": server.bearer_token_env_var,
        "http_headers": dict(sorted(server.http_headers.items())),
        "env_http_headers": dict(sorted(server.env_http_headers.items())),
        "default_tools_approval_mode": server.default_tools_approval_mode,
        **({"tool_approval_modes": server.tool_approval_modes} if server.tool_approval_modes else {}),
        "enabled_tools": server.enabled_tools,
        "disabled_tools": server.disabled_tools,
        "scopes": server.scopes,
    }
    import hashlib  # only with servers that projects describe

    return hashlib.sha256(msgspec.json.encode(what)).hexdigest()
