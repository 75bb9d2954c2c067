"""The shapes of what an editor sends, as far as they matter here."""

from __future__ import annotations

import os
import re
from typing import Any, TypeVar

import msgspec

from spindle.frontends.json_rpc import INVALID_PARAMS, RpcError, read_params

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_NAME = 40

Params = TypeVar("Params", bound="Wire")


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all of them: unknown members are ignored."""


class FileCapabilities(Wire, frozen=True, kw_only=True):
    read_text_file: bool = False
    write_text_file: bool = False


class ClientCapabilities(Wire, frozen=True, kw_only=True):
    fs: FileCapabilities | None = None
    elicitation: dict[str, Any] | None = None

    @property
    def has_files(self) -> bool:
        """It reads and writes files for us. One without the other would lose what is not saved yet."""
        return self.fs is not None and self.fs.read_text_file and self.fs.write_text_file

    @property
    def has_forms(self) -> bool:
        return self.elicitation is not None and isinstance(self.elicitation.get("form"), dict)


class InitializeParams(Wire, frozen=True, kw_only=True):
    client_capabilities: ClientCapabilities = ClientCapabilities()
    client_info: dict[str, Any] = {}


class NamedValue(Wire, frozen=True, kw_only=True):
    """An environment variable, or a header."""

    name: str
    value: str


class ServerParams(Wire, frozen=True, kw_only=True):
    """An MCP server that the editor brings along."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: list[str] = []
    env: list[NamedValue] = []
    url: str = ""
    headers: list[NamedValue] = []

    def table(self) -> dict[str, Any]:
        """The `[mcp_servers]` table that says the same."""
        if self.type == "http" and self.url:
            return {"url": self.url, "http_headers": {header.name: header.value for header in self.headers}}
        if self.type == "stdio" and self.command:
            return {"command": self.command, "args": self.args, "env": {one.name: one.value for one in self.env}}
        raise RpcError(f"MCP server {self.name!r}: only stdio and http servers can be used", INVALID_PARAMS)


class OpenParams(Wire, frozen=True, kw_only=True):
    """What `session/new` says, and every other way to open one."""

    cwd: str
    mcp_servers: list[ServerParams] = []
    additional_directories: list[str] = []

    def check(self) -> None:
        for what, path in (("cwd", self.cwd), *(("additionalDirectories", one) for one in self.additional_directories)):
            if not os.path.isabs(path):
                raise RpcError(f"{what} must be an absolute path, not {path!r}", INVALID_PARAMS)
            if not os.path.isdir(path):
                raise RpcError(f"{what} {path!r} is not a folder", INVALID_PARAMS)

    def server_tables(self, taken: set[str]) -> dict[str, dict[str, Any]]:
        """The servers by names that are free beside those that are `taken`."""
        tables: dict[str, dict[str, Any]] = {}
        for server in self.mcp_servers:
            plain = _NOT_IN_NAMES.sub("_", server.name).strip("_")[:_MAX_NAME] or "server"
            name, count = plain, 1
            while name in taken or name in tables:
                count += 1
                name = f"{plain}_{count}"
            tables[name] = server.table()
        return tables


class OpenRecordedParams(OpenParams, frozen=True, kw_only=True):
    """`session/load`, `session/resume` and `session/fork`."""

    session_id: str


class SessionParams(Wire, frozen=True, kw_only=True):
    session_id: str


class CancelParams(Wire, frozen=True, kw_only=True):
    """`$/cancel_request`: nobody waits for a request any more. A prompt is stopped, everything else is done soon."""

    request_id: str | int


class ListParams(Wire, frozen=True, kw_only=True):
    cwd: str | None = None
    cursor: str | None = None

    def check(self) -> None:
        if self.cwd is not None and not os.path.isabs(self.cwd):
            raise RpcError(f"cwd must be an absolute path, not {self.cwd!r}", INVALID_PARAMS)


class PromptParams(SessionParams, frozen=True, kw_only=True):
    prompt: list[dict[str, Any]]


class ModeParams(SessionParams, frozen=True, kw_only=True):
    mode_id: str


class OptionParams(SessionParams, frozen=True, kw_only=True):
    config_id: str
    value: str


def read(raw: Any, kind: type[Params]) -> Params:
    """The params of a request. Raises RpcError with the code for bad params."""
    try:
        return read_params(raw, kind)
    except RpcError as error:
        raise RpcError(str(error).removeprefix("Invalid request: "), INVALID_PARAMS) from error
