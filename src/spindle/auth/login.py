"""Storing a login, saying which one is stored, and forgetting it. The commands return their exit code; people read
stderr. How a person signs in with ChatGPT is in `browser_login` and `device_login`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TextIO

from spindle.auth.lock import LoginLock
from spindle.auth.store import (
    Kept,
    Place,
    StoredLogin,
    auth_path,
    forget_kept,
    login_in,
    read_kept,
    read_login,
    write_kept,
)
from spindle.errors import ConfigError, SpindleError
from spindle.model.credential import masked
from spindle.model.provider import LoginSettings

_MAX_KEY_CHARACTERS = 1 << 14
_FORGOTTEN: dict[Place, str] = {
    "file": "{path} is removed",
    "keyring": "the login is removed from the keyring",
    "memory": "the login of this process is forgotten",
}


class NotAKey(SpindleError):
    """A text that cannot be an API key."""


def login_with_api_key(settings: LoginSettings, stdin: TextIO, err: TextIO) -> int:
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
        store_api_key(settings, key)
    except NotAKey as error:
        print(f"What was given on stdin: {error}.", file=err)
        return 1
    except SpindleError as error:
        print(error, file=err)
        return 1
    print("Successfully logged in", file=err)
    return 0


def store_api_key(settings: LoginSettings, key: str) -> None:
    """Sign in with this key from now on. Raises NotAKey, or a ConfigError when it is not allowed or cannot be stored.

    May wait for somebody who renews the login that is replaced."""
    if settings.forced_method == "chatgpt":
        raise ConfigError("forced_login_method is chatgpt: signing in with an API key is not allowed")
    if (reason := why_no_key(key)) is not None:
        raise NotAKey(f"this is not an API key: {reason}")
    login = {"auth_mode": "apikey", "OPENAI_API_KEY": key, "tokens": None, "last_refresh": None}
    replace_login(settings, login)


def replace_login(settings: LoginSettings, login: dict[str, Any]) -> StoredLogin:
    """Store a login in place of the one there is. What others keep beside it stays. May wait for a renewal."""
    with LoginLock(settings.home):
        try:
            before = read_kept(settings)
        except ConfigError:
            before = None  # damaged, and about to be replaced
        beside = {} if before is None or before.place == "memory" else before.data
        data = {**beside, **login}
        stored = login_in(Kept(data, write_kept(settings, data)))
    assert stored is not None, "it holds a key or a token"
    return stored


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


def login_status(settings: LoginSettings, err: TextIO) -> int:
    """Say how somebody is signed in, and return 0; return 1 if nobody is."""
    warnings: list[str] = []
    try:
        login = read_login(settings, warnings)
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


def logout(settings: LoginSettings, err: TextIO, environ: Mapping[str, str] = os.environ) -> int:
    """Forget the stored login."""
    try:
        places = asyncio.run(sign_out(settings, environ))
    except SpindleError as error:
        print(error, file=err)
        return 1
    if not places:
        print("Not logged in", file=err)
        return 0
    place = "file" if "file" in places else places[0]
    print(f"Successfully logged out: {_FORGOTTEN[place].format(path=auth_path(settings.home))}", file=err)
    return 0


async def sign_out(settings: LoginSettings, environ: Mapping[str, str] = os.environ) -> list[Place]:
    """Forget the login wherever it is stored, then tell the login service, if it can be reached, to do the same.

    Gives the places where there was one."""
    with suppress(ConfigError):  # damaged, but there
        if read_login(settings) is None and not os.path.lexists(auth_path(settings.home)):
            return []
    login: StoredLogin | None = None
    async with LoginLock(settings.home):
        with suppress(ConfigError):
            login = read_login(settings)  # only now: somebody may have renewed it meanwhile
        places = forget_kept(settings)
    if login is not None and login.refresh_token is not None:
        from spindle.auth.issuer import Issuer  # only where there is something to revoke

        with suppress(SpindleError):  # nobody can use the tokens but whoever has a copy of the file
            issuer = Issuer(login.issuer or settings.issuer, environ=environ, client_id=login.client_id)
            await issuer.revoke(login.refresh_token)
    return places


def _describe(login: StoredLogin) -> str:
    if login.uses_chatgpt or login.api_key is None:
        return "Logged in using ChatGPT"
    return f"Logged in using an API key - {masked(login.api_key)}"
