"""Tokens of MCP servers, in a file that only the owner can read. A token is handed out for the address it is from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from spindle.errors import ConfigError
from spindle.mcp.spec import McpServer
from spindle.mcp.tokens import Tokens
from spindle.policy.ownership import foreign_owner
from spindle.protocol.items import json_reader
from spindle.thread.private_files import open_private, replace_private, wait_for_lock

_FILE = "mcp-tokens.json"
_MAX_BYTES = 1 << 20


def has_tokens(home: str) -> bool:
    return os.path.exists(f"{home}/{_FILE}")


def read_tokens(home: str, server: str, url: str | None) -> Tokens | None:
    """The tokens of this server at this address; None if there are none."""
    return next((tokens for tokens in all_tokens(home) if (tokens.server, tokens.url) == (server, url)), None)


def auth_status(home: str, spec: McpServer) -> str:
    """How we sign in at a server, in the words of the protocol."""
    if spec.url is None:
        return "unsupported"
    if spec.bearer_token_env_var:
        return "bearer_token"
    return "o_auth" if has_tokens(home) and read_tokens(home, spec.name, spec.url) is not None else "unsupported"


def all_tokens(home: str) -> list[Tokens]:
    try:
        fd = open_private(f"{home}/{_FILE}", os.O_RDONLY | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfigError(f"{home}/{_FILE} cannot be read: {error.strerror}") from error
    with open(fd, "rb") as file:
        if (uid := foreign_owner(f"{home}/{_FILE}", os.fstat(fd))) is not None:
            raise ConfigError(f"{home}/{_FILE} is not used: it belongs to another user ({uid}); take it away")
        try:
            return json_reader(list[Tokens])(file.read(_MAX_BYTES))
        except (msgspec.DecodeError, UnicodeDecodeError):
            # The cause is left out on purpose: its message could quote a token.
            raise ConfigError(f"{home}/{_FILE} is damaged; remove it and sign in again") from None


def store_tokens(home: str, tokens: Tokens) -> None:
    """Store these tokens in place of any that the server had before."""
    with _alone(home):
        _write(home, [*(other for other in all_tokens(home) if other.server != tokens.server), tokens])


def forget_tokens(home: str, server: str) -> bool:
    """Forget the tokens of a server. False if there were none."""
    with _alone(home):
        found = all_tokens(home)
        kept = [tokens for tokens in found if tokens.server != server]
        if len(kept) == len(found):
            return False
        _write(home, kept)
    return True


@contextmanager
def _alone(home: str) -> Iterator[None]:
    """Nobody else changes the file between our look at it and our writing: what they store must not be lost.

    The lock is on a file of its own, because the other one is replaced.
    """
    path = f"{home}/{_FILE}.lock"
    try:
        os.makedirs(home, 0o700, exist_ok=True)
        fd = open_private(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
    try:
        wait_for_lock(fd)
        yield
    finally:
        os.close(fd)


def _write(home: str, entries: list[Tokens]) -> None:
    path = f"{home}/{_FILE}"
    try:
        os.makedirs(home, 0o700, exist_ok=True)
        replace_private(path, msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
