"""How a request proves who asks. Stored logins and their renewal belong to `auth`, which hands in a `Credential`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

import msgspec

from spindle.errors import ModelError
from spindle.model.provider import Provider


class KeyOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a key came from and what to do when it is refused, as parts of a sentence. Holds nothing secret."""

    place: str = ""
    """`the key in OPENAI_API_KEY`; "" when no key was sent."""
    shown: str = ""
    """Enough of the key to recognise it."""
    remedy: str = ""
    is_login: bool = False
    """The tokens of a sign-in, not a key."""
    refusal: str = ""
    """Why they could not be renewed, and what to do, as whole sentences."""


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def masked(key: str) -> str:
    """Enough of a key to recognise it, too little to use it."""
    return f"{key[:8]}***{key[-5:]}" if len(key) > 20 else "***"


def checked_key(key: str, place: str) -> str:
    """The key, if it can be sent. A key with line breaks or quotation marks was copied wrongly; say so at once."""
    if len(key) > 1 and key[0] == key[-1] and key[0] in "\"'`":
        raise ModelError(f"{capitalised(place)} is in quotation marks: remove them.", "unauthorized")
    if not key.isprintable():
        raise ModelError(
            f"{capitalised(place)} contains a line break or another control character: set it again.", "unauthorized"
        )
    return key


class Credential(Protocol):
    """What authorises the requests of one session."""

    def authorization(self) -> dict[str, str]:
        """The headers to send. Raises `ModelError` when the key is missing."""
        ...

    async def prepare(self) -> Provider | None:
        """Called before a question is sent: what is about to run out is renewed.

        Gives the provider as it is reached from now on, if somebody has signed in only after the thread was opened.
        """
        ...

    async def refresh(self) -> bool:
        """The server did not take the key. True when there is something new to try.

        Raises `StreamDropped` when renewing may work later; else `origin` knows why it did not.
        """
        ...

    def secrets(self) -> list[str]:
        """Every value that must never be shown, as it is now."""
        ...

    def origin(self) -> KeyOrigin:
        """Where the key came from, for a sentence about it."""
        ...


class StaticCredential:
    """A fixed token, or none at all."""

    def __init__(
        self, token: str | None = None, account_id: str | None = None, *, place: str = "the key", remedy: str = ""
    ) -> None:
        self._token = (token or "").strip()
        self._account_id = account_id
        self._place = place
        self._remedy = remedy

    def authorization(self) -> dict[str, str]:
        if not self._token:
            return {}
        headers = {"authorization": f"Bearer {checked_key(self._token, self._place)}"}
        if self._account_id:
            headers["ChatGPT-Account-ID"] = self._account_id
        return headers

    async def prepare(self) -> Provider | None:
        return None

    async def refresh(self) -> bool:
        return False

    def secrets(self) -> list[str]:
        return [self._token] if self._token else []

    def origin(self) -> KeyOrigin:
        if not self._token:
            return KeyOrigin()
        return KeyOrigin(place=self._place, shown=masked(self._token), remedy=self._remedy or "use another one")


class EnvCredential:
    """A key that is read from the environment each time it is used."""

    def __init__(self, name: str, instructions: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._name = name
        self._instructions = instructions
        self._environ = os.environ if environ is None else environ

    def authorization(self) -> dict[str, str]:
        key = self._key()
        if not key:
            is_empty = "It is set, but empty: g" if self._name in self._environ else "G"
            hint = self._instructions or f"{is_empty}ive it the key, for example with `export {self._name}=KEY`."
            raise ModelError(f"Missing environment variable: `{self._name}`. {hint}")
        return {"authorization": f"Bearer {checked_key(key, f'the key in {self._name}')}"}

    async def prepare(self) -> Provider | None:
        return None

    async def refresh(self) -> bool:
        return False

    def secrets(self) -> list[str]:
        key = self._key()
        return [key] if key else []

    def origin(self) -> KeyOrigin:
        hint = f" ({self._instructions.rstrip('.')})" if self._instructions else ""
        place, remedy = f"the key in {self._name}", f"set {self._name} to a valid key{hint}"
        return KeyOrigin(place=place, shown=masked(self._key()), remedy=remedy)

    def _key(self) -> str:
        try:
            return self._environ[self._name].strip()
        except KeyError:
            return ""


def credential_for(
    provider: Provider, stored: Credential | None = None, environ: Mapping[str, str] | None = None
) -> Credential:
    """Whose key to send: the provider's variable, then its literal token, then the stored login.

    The stored login goes to the built-in provider, and to one that asks for it; to no other.
    """
    if provider.env_key:
        return EnvCredential(provider.env_key, provider.env_key_instructions, environ)
    if provider.bearer_token:
        place = f"experimental_bearer_token of [model_providers.{provider.id}]"
        return StaticCredential(provider.bearer_token, place=place, remedy="set it to a valid key")
    if stored is not None and (provider.is_openai or provider.requires_openai_auth):
        return stored
    return StaticCredential(None)
