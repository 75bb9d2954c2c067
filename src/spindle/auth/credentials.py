"""Which credential a provider gets. The stored OpenAI login goes to OpenAI and to providers that ask for it only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from spindle.errors import ModelError, SpindleError
from spindle.model.credential import Credential, KeyOrigin, StaticCredential, credential_for
from spindle.model.provider import CHATGPT_BASE_URL, OPENAI_BASE_URL, Provider
from spindle.policy.environment import SECRET_NAMES
from spindle.policy.secrets import MaskMode, Secrets, address_passwords, is_telling, secret_variables

SIGN_IN_HELP = (
    "Not signed in: run `spindle login --with-api-key`, or set OPENAI_API_KEY, "
    "or use a model on this computer with --oss."
)


if TYPE_CHECKING:
    from spindle.auth.store import StoredLogin


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """A credential, and the provider as this way to sign in reaches it."""

    provider: Provider
    credential: Credential
    warnings: list[str]


class MissingCredential:
    """Nobody has signed in. Says so when the first request is made, as a missing variable does."""

    def __init__(self, message: str = SIGN_IN_HELP) -> None:
        self._message = message

    def authorization(self) -> dict[str, str]:
        raise ModelError(self._message, "unauthorized")

    async def refresh(self) -> bool:
        return False

    def secrets(self) -> list[str]:
        return []

    def origin(self) -> KeyOrigin:
        return KeyOrigin()


class ChatGptCredential:
    """The tokens of a ChatGPT sign-in, renewed when the server no longer takes them."""

    def __init__(self, login: StoredLogin, home: str, environ: Mapping[str, str], token_url: str | None = None) -> None:
        self._login = login
        self._home = home
        self._environ = environ
        self._token_url = token_url

    def authorization(self) -> dict[str, str]:
        headers = {"authorization": f"Bearer {self._login.access_token}"}
        if self._login.account_id:
            headers["ChatGPT-Account-ID"] = self._login.account_id
        return headers

    async def refresh(self) -> bool:
        from spindle.auth.refresh import renew_login  # only after a 401

        renewed = await renew_login(self._login, self._home, self._environ, self._token_url)
        if renewed is None:
            return False
        self._login = renewed
        return True

    def secrets(self) -> list[str]:
        return self._login.secrets

    def origin(self) -> KeyOrigin:
        remedy = "sign in again, or use an API key: `spindle login --with-api-key`"
        return KeyOrigin(place=f"the ChatGPT sign-in in {self._home}/auth.json", remedy=remedy, is_login=True)


def sign_in(
    provider: Provider,
    *,
    home: str,
    environ: Mapping[str, str] | None = None,
    is_exec: bool = False,
    forced_method: str | None = None,
    token_url: str | None = None,
) -> SignedIn:
    """The credential for `provider`; files are read only if it is entitled to the stored login.

    `is_exec`: `CODEX_API_KEY` counts. `forced_method` is `forced_login_method` of the configuration.
    `token_url` is where ChatGPT tokens are renewed.
    """
    env = os.environ if environ is None else environ
    warnings: list[str] = []
    entitled = provider.is_openai or provider.requires_openai_auth
    if provider.env_key or provider.bearer_token or not entitled:
        credential = credential_for(provider, None, env)
        return SignedIn(provider=provider, credential=credential, warnings=_said_aloud(provider, credential))
    stored: Credential | None = None
    key = _key(env, "CODEX_API_KEY") if is_exec and provider.is_openai else ""
    from spindle.auth.store import read_login  # only a provider that is entitled to the stored login needs it

    login = None if key else read_login(home, warnings)
    if key:
        stored = _from_variable("CODEX_API_KEY", key)
    elif login is not None and login.uses_chatgpt:
        if forced_method == "api":
            stored = MissingCredential("Signed in with ChatGPT, but forced_login_method is api: " + SIGN_IN_HELP)
        else:
            stored = ChatGptCredential(login, home, env, token_url)
            if provider.base_url == OPENAI_BASE_URL:
                provider = msgspec.structs.replace(provider, base_url=CHATGPT_BASE_URL)
    elif login is not None:
        stored = StaticCredential(login.api_key, place=f"the key in {home}/auth.json", remedy=_new_login(env))
    elif provider.is_openai and (key := _key(env, "OPENAI_API_KEY")):
        stored = _from_variable("OPENAI_API_KEY", key)
    if forced_method == "chatgpt" and isinstance(stored, StaticCredential):
        stored = MissingCredential(
            "An API key is set, but forced_login_method is chatgpt and nobody signed in that way: "
            "remove forced_login_method from the configuration, or sign in with ChatGPT."
        )
    if stored is None:
        stored = MissingCredential(_how_to_sign_in(provider, env))
    credential = credential_for(provider, stored, env)
    return SignedIn(provider=provider, credential=credential, warnings=[*warnings, *_said_aloud(provider, credential)])


def _said_aloud(provider: Provider, credential: Credential) -> list[str]:
    """A warning where everybody on the way can read the key."""
    if not provider.base_url.lower().startswith("http://") or not credential.secrets():
        return []
    from spindle.model.proxy import is_sent_openly  # only for addresses without encryption

    if not is_sent_openly(provider.base_url):
        return []
    return [
        f"the key for {provider.name or provider.id} is sent without encryption, because the base_url begins with "
        "http://; whoever is on the way to that server can read it, so use https:// if the server has it"
    ]


def _how_to_sign_in(provider: Provider, env: Mapping[str, str]) -> str:
    if not provider.is_openai:
        return f"Not signed in: {provider.name} takes the stored login, so run `spindle login --with-api-key`."
    return f"OPENAI_API_KEY is set, but empty. {SIGN_IN_HELP}" if "OPENAI_API_KEY" in env else SIGN_IN_HELP


def _from_variable(name: str, key: str) -> StaticCredential:
    remedy = f"set {name} to a valid key, or unset it and run `spindle login --with-api-key`"
    return StaticCredential(key, place=f"the key in {name}", remedy=remedy)


def _new_login(env: Mapping[str, str]) -> str:
    also = "; OPENAI_API_KEY is set too, and counts after `spindle logout`" if _key(env, "OPENAI_API_KEY") else ""
    return f"store a valid one with `spindle login --with-api-key`{also}"


def _key(env: Mapping[str, str], name: str) -> str:
    return env.get(name, "").strip()


class Secured:
    """The providers that a thread has talked to, with the keys they got: what must be masked grows with them."""

    def __init__(self, provider: Provider, credential: Credential) -> None:
        self._held: dict[str, tuple[Provider, Credential]] = {}
        self.add(provider, credential)

    def add(self, provider: Provider, credential: Credential) -> None:
        self._held[provider.id] = provider, credential

    def keys(self) -> list[tuple[str, str]]:
        """Every key by the name of its variable, as it is now."""
        return [
            (provider.env_key or "API key", value)
            for provider, credential in self._held.values()
            for value in credential.secrets()
        ]

    def headers(self) -> list[tuple[str, str]]:
        """Fixed headers whose name says that they hold a secret."""
        held = [provider.http_headers for provider, _ in self._held.values()]
        return [(header, value) for headers in held for header, value in headers.items() if is_telling(header)]

    def variables(self) -> set[str]:
        return {provider.env_key for provider, _ in self._held.values() if provider.env_key}


def session_secrets(
    environ: Mapping[str, str],
    secured: Secured,
    *,
    home: str,
    variables: Sequence[str],
    given: Mapping[str, str],
    mask: MaskMode,
    unmasked: Sequence[str],
) -> Secrets:
    """What is masked in a session's record, events and outputs.

    `variables` hold keys of ours, `given` are set for commands; `unmasked` are not secret, whatever their names say.
    """
    of_servers = [
        (variable, environ.get(variable, ""))
        for variable in variables
        if variable not in SECRET_NAMES and variable not in secured.variables()
    ]
    fixed = [*of_servers, *address_passwords(environ)]

    keys: list[tuple[str, str]] | None = None
    named: list[tuple[str, str]] = []

    def own() -> list[tuple[str, str]]:
        # Every event and every line of the record asks, and keys are seldom renewed.
        nonlocal keys, named
        if (now := secured.keys()) != keys:
            keys, named = now, [*now, *fixed, *secured.headers()]
        return named

    def stored() -> list[tuple[str, str]]:
        from spindle.auth.mcp_tokens import all_tokens  # once a tool has run, which may have read the files
        from spindle.auth.store import read_login  # the same

        found: list[tuple[str, str]] = []
        # A damaged file is told of by whoever needs it.
        with suppress(SpindleError):
            login = read_login(home)
            found += [("auth.json", value) for value in login.secrets] if login is not None else []
        with suppress(SpindleError):
            for tokens in all_tokens(home):
                found += [(f"the sign-in of {tokens.server}", value) for value in tokens.secrets]
        return found

    return Secrets(mask=mask, own=own, known=secret_variables({**environ, **given}, tuple(unmasked)), later=stored)
