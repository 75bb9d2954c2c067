"""The login in the keyring of the system, where Codex keeps it too. Needs the extra `keyring`; loaded for it only."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import msgspec

from spindle.errors import SpindleError
from spindle.protocol.items import decode_json, encode_json

_SERVICE = "Codex Auth"
_INSTALL = (
    "cli_auth_credentials_store wants the keyring, but the package for it is missing: install "
    '`spindle-agent[keyring]`, or set cli_auth_credentials_store = "file"'
)


class KeyringUnavailable(SpindleError):
    """There is no keyring, or it is locked."""


def read(home: str) -> dict[str, Any] | None:
    text = _call("read", "get_password", _SERVICE, _entry(home))
    if text is None:
        return None
    try:
        data = decode_json(text.encode())
    except (msgspec.DecodeError, UnicodeError):
        data = None
    if not isinstance(data, dict):
        # The cause is left out on purpose: its message could quote a key.
        raise KeyringUnavailable("the login in the keyring is damaged; sign in again with `spindle login`") from None
    return data


def write(home: str, data: dict[str, Any]) -> None:
    _call("written", "set_password", _SERVICE, _entry(home), encode_json(data).decode())


def remove(home: str) -> bool:
    """False if there was no login."""
    if _call("read", "get_password", _SERVICE, _entry(home)) is None:
        return False
    _call("changed", "delete_password", _SERVICE, _entry(home))
    return True


def _entry(home: str) -> str:
    """The name of the entry: each home has one."""
    return "cli|" + hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:16]


def _call(done: str, name: str, *arguments: str) -> Any:
    try:
        import keyring  # pyright: ignore[reportMissingImports]  # an extra, and slow to load
        from keyring.errors import KeyringError  # pyright: ignore[reportMissingImports]  # the same
    except ImportError:
        raise KeyringUnavailable(_INSTALL) from None
    try:
        return getattr(keyring, name)(*arguments)
    except (KeyringError, OSError, RuntimeError) as error:
        # Its back ends raise many things; the first line is for people.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise KeyringUnavailable(
            f'the keyring cannot be {done}: {reason[:200]}; unlock it, or set cli_auth_credentials_store = "file"'
        ) from None
