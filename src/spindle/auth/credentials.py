"""Which credential a provider gets. The stored OpenAI login goes to OpenAI and to providers that ask for it only."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from spindle.errors import ModelError, SpindleError
from spindle.model.credential import Credential, KeyOrigin, StaticCredential, credential_for
from spindle.model.provider import CHATGPT_BASE_URL, OPENAI_BASE_URL, LoginSettings, Provider
from spindle.policy.environment import SECRET_NAMES
from spindle.policy.secrets import MaskMode, Secrets, address_passwords, is_telling, secret_variables
from spindle.protocol.clock import Clock, SystemClock

SIGN_IN_HELP = (
    "Not signed in: run `spindle login` to sign in with ChatGPT, or `spindle login --with-api-key`, or set "
    "OPENAI_API_KEY, or use a model on this computer with --oss."
)
_EARLY_S = 5 * 60
"""Tokens are renewed when they have less than this left."""
_PAUSE_S = 60.0
"""After renewing ahead of time was in vain, it is not tried again for so long: every request would wait for it."""
_LAST_S = 3.0
"""How long an interrupt waits for a renewal under way."""


if TYPE_CHECKING:
    import asyncio

    from spindle.auth.store import StoredLogin


class SignedIn(msgspec.Struct, frozen=True, kw_only=True):
    """A credential, and the provider as this way to sign in reaches it."""

    provider: Provider
    credential: Credential
    warnings: list[str]


class MissingCredential:
    """Nobody has signed in. Says so when a request is made, as a missing variable does, and looks again each time.

    A thread may be open already when a person signs in, in another terminal or through the same app-server."""

    def __init__(self, message: str, look_again: Callable[[], SignedIn]) -> None:
        self._message = message
        self._look_again = look_again
        self._found: Credential | None = None

    async def prepare(self) -> Provider | None:
        if self._found is not None:
            return await self._found.prepare()
        try:
            now = self._look_again()
        except SpindleError:
            return None  # what is stored cannot be read; one must sign in all the same
        if isinstance(now.credential, MissingCredential):
            return None
        self._found = now.credential
        return now.provider

    def authorization(self) -> dict[str, str]:
        if self._found is None:
            raise ModelError(self._message, "unauthorized")
        return self._found.authorization()

    async def refresh(self) -> bool:
        return self._found is not None and await self._found.refresh()

    def secrets(self) -> list[str]:
        return [] if self._found is None else self._found.secrets()

    def origin(self) -> KeyOrigin:
        return KeyOrigin() if self._found is None else self._found.origin()


class ChatGptCredential:
    """The tokens of a ChatGPT sign-in, renewed before they run out and when the server no longer takes them."""

    def __init__(
        self, login: StoredLogin, settings: LoginSettings, environ: Mapping[str, str], clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._clock = clock or SystemClock()
        self._renewals: set[asyncio.Task[StoredLogin]] = set()
        self._next_try = 0.0
        """When renewing ahead of time may be tried again, by the clock that never goes back."""
        self._take(login)

    def _take(self, login: StoredLogin) -> None:
        from spindle.auth.store import expiry_of  # there is a stored login, so it is loaded

        self._login = login
        self._refusal = ""
        # The client that brought tokens is only asked for others when these are refused.
        is_brought = login.mode == "chatgptAuthTokens"
        self._expires_at = None if is_brought else expiry_of(login.access_token)

    def authorization(self) -> dict[str, str]:
        headers = {"authorization": f"Bearer {self._login.access_token}"}
        if self._login.account_id:
            headers["ChatGPT-Account-ID"] = self._login.account_id
        return headers

    async def prepare(self) -> Provider | None:
        if self._expires_at is None or self._expires_at - _EARLY_S > self._clock.now():
            return None
        if self._clock.monotonic() < self._next_try:
            return None
        try:
            await self._renew()
        except SpindleError as error:
            from spindle.auth.refresh import NotStored  # it is loaded

            if isinstance(error, NotStored):
                raise
            # The token may be good for some more minutes, or our clock be wrong: if not, the server says so.
            self._next_try = self._clock.monotonic() + _PAUSE_S
        return None

    async def refresh(self) -> bool:
        from spindle.auth.refresh import NotStored  # only after a refusal

        try:
            await self._renew()
        except NotStored:
            raise
        except ModelError as error:
            self._refusal = str(error)
            return False
        return True

    async def _renew(self) -> None:
        import asyncio  # the first paint of the interface does without

        from spindle.auth.refresh import NotStored, renew_login  # once in an hour

        work = renew_login(self._settings, self._login, self._environ, self._clock)
        task = asyncio.get_running_loop().create_task(work)
        self._renewals.add(task)
        task.add_done_callback(self._renewals.discard)
        try:
            self._take(await asyncio.shield(task))
        except NotStored as error:
            self._take(error.login)
            raise
        except asyncio.CancelledError:
            # A refresh token works once: what the service answers now must still be stored, or the login is lost.
            await asyncio.wait([task], timeout=_LAST_S)
            raise

    def secrets(self) -> list[str]:
        return self._login.secrets

    def origin(self) -> KeyOrigin:
        from spindle.auth.store import shown_place  # the same

        place = f"the ChatGPT sign-in in {shown_place(self._settings.home, self._login.place)}"
        remedy = "sign in again with `spindle login`, or use an API key: `spindle login --with-api-key`"
        return KeyOrigin(place=place, remedy=remedy, is_login=True, refusal=self._refusal)


def sign_in(
    provider: Provider,
    settings: LoginSettings,
    *,
    environ: Mapping[str, str] | None = None,
    is_exec: bool = False,
    clock: Clock | None = None,
) -> SignedIn:
    """The credential for `provider`; files are read only if it is entitled to the stored login.

    `is_exec`: `CODEX_API_KEY` counts.
    """
    env = os.environ if environ is None else environ
    entitled = provider.is_openai or provider.requires_openai_auth
    if provider.env_key or provider.bearer_token or not entitled:
        credential = credential_for(provider, None, env)
        return SignedIn(provider=provider, credential=credential, warnings=_said_aloud(provider, credential))
    warnings: list[str] = []
    found = _stored_or_ambient(provider, settings, env, warnings, clock, is_exec=is_exec)
    if isinstance(found, str):

        def look_again() -> SignedIn:
            return sign_in(provider, settings, environ=environ, is_exec=is_exec, clock=clock)

        found = MissingCredential(found, look_again)
    reached = provider
    if provider.base_url == OPENAI_BASE_URL and isinstance(found, ChatGptCredential):
        base_url = f"{settings.chatgpt_base_url}/codex" if settings.chatgpt_base_url else CHATGPT_BASE_URL
        reached = msgspec.structs.replace(provider, base_url=base_url)
    return SignedIn(provider=reached, credential=found, warnings=[*warnings, *_said_aloud(reached, found)])


def _stored_or_ambient(
    provider: Provider,
    settings: LoginSettings,
    env: Mapping[str, str],
    warnings: list[str],
    clock: Clock | None,
    *,
    is_exec: bool,
) -> Credential | str:
    """What a provider gets that is entitled to the stored login; or why there is nothing, in a sentence."""
    from spindle.auth.store import read_login, shown_place  # only who is entitled to the stored login needs it

    key = _key(env, "CODEX_API_KEY") if is_exec and provider.is_openai else ""
    login = None if key else read_login(settings, warnings)
    if login is not None and login.uses_chatgpt:
        return _not_allowed(login, settings) or ChatGptCredential(login, settings, env, clock)
    found: Credential | None = None
    if key:
        found = _from_variable("CODEX_API_KEY", key)
    elif login is not None:
        place = f"the key in {shown_place(settings.home, login.place)}"
        found = StaticCredential(login.api_key, place=place, remedy=_new_login(env))
    elif provider.is_openai and (key := _key(env, "OPENAI_API_KEY")):
        found = _from_variable("OPENAI_API_KEY", key)
    if found is not None and settings.forced_method == "chatgpt":
        return (
            "An API key is set, but forced_login_method is chatgpt and nobody signed in that way: "
            "sign in with `spindle login`, or remove forced_login_method from the configuration."
        )
    return found or _how_to_sign_in(provider, env)


def _not_allowed(login: StoredLogin, settings: LoginSettings) -> str:
    """Why a sign-in with ChatGPT may not be used; "" if it may."""
    if settings.forced_method == "api":
        return "Signed in with ChatGPT, but forced_login_method is api: " + SIGN_IN_HELP
    if settings.workspaces and login.account_id not in settings.workspaces:
        return (
            "Signed in with ChatGPT, but not in the workspace that forced_chatgpt_workspace_id wants: "
            "sign in to that one with `spindle login`."
        )
    return ""


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
        ways = "`spindle login` or `spindle login --with-api-key`"
        return f"Not signed in: {provider.name} takes the stored login, so run {ways}."
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
    named: tuple[tuple[str, str], ...] = ()

    def own() -> tuple[tuple[str, str], ...]:
        # Every event and every line of the record asks, and keys are seldom renewed.
        nonlocal keys, named
        if (now := secured.keys()) != keys:
            keys, named = now, (*now, *fixed, *secured.headers())
        return named

    def stored() -> list[tuple[str, str]]:
        from spindle.auth.mcp_tokens import all_tokens  # once a tool has run, which may have read the files
        from spindle.auth.store import read_login  # the same

        found: list[tuple[str, str]] = []
        # A damaged file is told of by whoever needs it.
        with suppress(SpindleError):
            login = read_login(LoginSettings(home=home))
            found += [("auth.json", value) for value in login.secrets] if login is not None else []
        with suppress(SpindleError):
            for tokens in all_tokens(home):
                found += [(f"the sign-in of {tokens.server}", value) for value in tokens.secrets]
        return found

    return Secrets(mask=mask, own=own, known=secret_variables({**environ, **given}, tuple(unmasked)), later=stored)
