"""The commands `login --with-api-key`, `login status` and `logout`. Each returns its exit code; people read stderr."""

from __future__ import annotations

from typing import TextIO

from spindle.auth.store import StoredLogin, auth_path, read_login, remove_login, write_raw
from spindle.errors import SpindleError
from spindle.model.credential import masked

_MAX_KEY_CHARACTERS = 1 << 14


class NotAKey(SpindleError):
    """A text that cannot be an API key."""


def login_with_api_key(home: str, stdin: TextIO, err: TextIO) -> int:
    """Store the key that stands on standard input, so that it is never part of a command line."""
    if stdin.isatty():
        print("Pipe the key in: printenv OPENAI_API_KEY | spindle login --with-api-key", file=err)
        return 1
    try:
        key = stdin.read(_MAX_KEY_CHARACTERS + 1).strip()
    except UnicodeDecodeError:
        key = "\0"
    if not key:
        print("No API key provided via stdin.", file=err)
        return 1
    try:
        store_api_key(home, key)
    except NotAKey as error:
        print(f"What was given on stdin: {error}.", file=err)
        return 1
    except SpindleError as error:
        print(error, file=err)
        return 1
    print("Successfully logged in", file=err)
    return 0


def store_api_key(home: str, key: str) -> None:
    """Sign in with this key from now on. Raises NotAKey, or a ConfigError when it cannot be stored."""
    if (reason := why_no_key(key)) is not None:
        raise NotAKey(f"this is not an API key: {reason}")
    write_raw(home, {"auth_mode": "apikey", "OPENAI_API_KEY": key, "tokens": None, "last_refresh": None})


def why_no_key(key: str) -> str | None:
    """The mistakes people make when they copy a key; the reason never quotes it."""
    if key[:1] in ("'", '"', "`"):
        return "it begins with a quotation mark; give the key alone"
    if key.lower().startswith("bearer "):
        return "it begins with the word Bearer; give the key alone"
    if key.startswith("OPENAI_API_KEY="):
        return "it begins with OPENAI_API_KEY=; give the key alone"
    if "\n" in key:
        return "it has more than one line"
    if not key or len(key) > _MAX_KEY_CHARACTERS or not key.isascii() or not key.isprintable() or " " in key:
        return "it is empty or too long, or holds blanks or characters that no key has"
    return None


def login_status(home: str, err: TextIO) -> int:
    """Say how somebody is signed in, and return 0; return 1 if nobody is."""
    warnings: list[str] = []
    try:
        login = read_login(home, warnings)
    except SpindleError as error:
        print(error, file=err)
        return 1
    for warning in warnings:
        print(f"warning: {warning}", file=err)
    if login is None:
        print("Not logged in", file=err)
        return 1
    print(_describe(login), file=err)
    return 0


def logout(home: str, err: TextIO) -> int:
    """Forget the stored login."""
    try:
        removed = remove_login(home)
    except SpindleError as error:
        print(error, file=err)
        return 1
    print(f"Successfully logged out: {auth_path(home)} is removed" if removed else "Not logged in", file=err)
    return 0


def _describe(login: StoredLogin) -> str:
    if login.uses_chatgpt or login.api_key is None:
        return "Logged in using ChatGPT"
    return f"Logged in using an API key - {masked(login.api_key)}"
