"""How a request proves who asks. Stored logins and their renewal belong to `auth`, which hands in a `Credential`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from spindle.errors import ModelError
from spindle.model.provider import Provider


class Credential(Protocol):
    """What authorises the requests of one session."""

    def authorization(self) -> dict[str, str]:
        """The headers to send. Raises `ModelError` when the key is missing."""
        ...

    async def refresh(self) -> bool:
        """The server said 401. True when there is something new to try."""
        ...

    def secrets(self) -> list[str]:
        """Every value that must never be shown, as it is now."""
        ...


class StaticCredential:
    """A fixed token, or none at all."""

    def __init__(self, token: str | None = None, account_id: str | None = None) -> None:
        self._token = (token or "").strip()
        self._account_id = account_id

    def authorization(self) -> dict[str, str]:
        if not self._token:
            return {}
        headers = {"authorization": f"Bearer {self._token}"}
        if self._account_id:
            headers["ChatGPT-Account-ID"] = self._account_id
        return headers

    async def refresh(self) -> bool:
        return False

    def secrets(self) -> list[str]:
        return [self._token] if self._token else []


class EnvCredential:
    """A key that is read from the environment each time it is used."""

    def __init__(self, name: str, instructions: str | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._name = name
        self._instructions = instructions
        self._environ = os.environ if environ is None else environ

    def authorization(self) -> dict[str, str]:
        key = self._key()
        if not key:
            hint = f" {self._instructions}" if self._instructions else ""
            raise ModelError(f"Missing environment variable: `{self._name}`.{hint}")
        return {"authorization": f"Bearer {key}"}

    async def refresh(self) -> bool:
        return False

    def secrets(self) -> list[str]:
        key = self._key()
        return [key] if key else []

    def _key(self) -> str:
        return self._environ.get(self._name, "").strip()


def credential_for(
    provider: Provider, stored: Credential | None = None, environ: Mapping[str, str] | None = None
) -> Credential:
    """Whose key to send: the provider's variable, then its literal token, then the stored login.

    The stored login goes to the built-in provider, and to one that asks for it; to no other.
    """
    if provider.env_key:
        return EnvCredential(provider.env_key, provider.env_key_instructions, environ)
    if provider.bearer_token:
        return StaticCredential(provider.bearer_token)
    if stored is not None and (provider.is_openai or provider.requires_openai_auth):
        return stored
    return StaticCredential(None)
