"""Renewing the tokens of a ChatGPT sign-in. Loaded only when they run out, or when a server no longer takes them.

A refresh token works once, and several processes share one login (Codex among them). So whoever renews holds the lock,
looks first whether somebody else has done it already, and stores what came back before anything else happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from spindle.auth.issuer import Issuer, IssuerError
from spindle.auth.lock import LoginLock
from spindle.auth.store import (
    Kept,
    StoredLogin,
    expiry_of,
    login_in,
    read_kept,
    shown_place,
    write_kept,
)
from spindle.errors import ConfigError, ModelError, SpindleError, StreamDropped
from spindle.model.provider import LoginSettings
from spindle.protocol.clock import Clock, iso_utc

AGAIN = "sign in again with `spindle login`"
_LATE_WRITE_S = 1.0
"""How long another program may take to store what it got, after the service told us that it was first."""
_LOOK_S = 0.2

_WHY = {
    "refresh_token_expired": "Your ChatGPT sign-in has expired",
    "refresh_token_reused": "Another program has renewed your ChatGPT sign-in without storing the result here",
    "refresh_token_invalidated": "Your ChatGPT sign-in was revoked",
    "invalid_grant": "Your ChatGPT sign-in is no longer accepted",
}
_FINAL_STATUS = 401
_TOO_LATE = frozenset(("refresh_token_reused", "invalid_grant"))
"""Somebody else may have been first."""

BroughtTokens = Callable[[str | None], Awaitable[Mapping[str, Any]]]
"""Asks the client that brought its own tokens for newer ones; it is told the account."""
brought_tokens: dict[str, BroughtTokens] = {}
"""By home, while such a client is there."""


class SignInAgain(ModelError):
    """The login is of no use any more. Says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "unauthorized")


class NotStored(ModelError):
    """The tokens were renewed, but cannot be stored. `login` is good as long as this process lives."""

    def __init__(self, login: StoredLogin, reason: str) -> None:
        super().__init__(
            f"The ChatGPT sign-in was renewed, but could not be stored: {reason}",
            advice=f"This session can go on; {AGAIN} once that is repaired, because the stored tokens are used up.",
        )
        self.login = login


async def renew_login(
    settings: LoginSettings, login: StoredLogin, environ: Mapping[str, str], clock: Clock
) -> StoredLogin:
    """The login with newer tokens than `login` has. Raises ModelError, or StreamDropped when it may work later."""
    if login.mode == "chatgptAuthTokens":
        return await _ask_client(settings, login)
    try:
        async with LoginLock(settings.home):
            return await _renew(settings, login, environ, clock)
    except ConfigError as error:
        raise ModelError(
            f"The ChatGPT sign-in cannot be renewed: {error}",
            "unauthorized",
            advice="The stored login was left as it is.",
        ) from error


async def _renew(settings: LoginSettings, login: StoredLogin, environ: Mapping[str, str], clock: Clock) -> StoredLogin:
    found = _stored(settings, login)
    if _is_newer(found, login) and not has_run_out(found, clock):
        return found
    old = login if _is_spent(found, login) else found
    if old.refresh_token is None:
        raise SignInAgain(f"The ChatGPT sign-in has run out, and nothing is stored to renew it with: {AGAIN}.")
    issuer = Issuer(old.issuer or settings.issuer, environ=environ, client_id=old.client_id)
    try:
        answer = await issuer.refresh(old.refresh_token)
    except IssuerError as error:
        if (late := await _late(settings, old, _LATE_WRITE_S if error.codes & _TOO_LATE else 0.0)) is not None:
            return late
        raise _refusal(error) from error
    return _store(settings, old, answer, clock)


def has_run_out(login: StoredLogin, clock: Clock) -> bool:
    moment = expiry_of(login.access_token)
    return moment is not None and moment < clock.now()


def _stored(settings: LoginSettings, login: StoredLogin) -> StoredLogin:
    """What is stored now, if it is still the login of this account. It must not come back after a sign-out."""
    found = _read(settings)
    if found is None:
        raise SignInAgain(f"The ChatGPT sign-in is no longer stored, so somebody has signed out: {AGAIN}.")
    if not found.uses_chatgpt:
        place = shown_place(settings.home, found.place)
        raise SignInAgain(f"The ChatGPT sign-in in {place} was replaced by an API key: start Spindle again to use it.")
    if not _is_same_account(found, login):
        place = shown_place(settings.home, found.place)
        # Another account is another person's bill: never change over silently.
        raise SignInAgain(
            f"{place} now holds the ChatGPT sign-in of another account: start Spindle again to use that one."
        )
    return found


def _read(settings: LoginSettings) -> StoredLogin | None:
    kept = read_kept(settings)
    return None if kept is None else login_in(kept)


def _is_same_account(found: StoredLogin, login: StoredLogin) -> bool:
    return login.account_id is None or found.account_id == login.account_id


def _is_newer(found: StoredLogin, login: StoredLogin) -> bool:
    return found.access_token != login.access_token and not _is_spent(found, login)


def _is_spent(found: StoredLogin, login: StoredLogin) -> bool:
    """What is stored is older than `login`, which could not be stored."""
    return login.spent is not None and found.refresh_token == login.spent


async def _late(settings: LoginSettings, old: StoredLogin, patience_s: float) -> StoredLogin | None:
    """What another program, which does not know our lock, stored in the meantime or does so in a moment."""
    for number in range(1 + round(patience_s / _LOOK_S)):
        if number:
            await asyncio.sleep(_LOOK_S)
        try:
            found = _read(settings)
        except SpindleError:
            return None
        if found is not None and found.uses_chatgpt and _is_same_account(found, old) and _is_newer(found, old):
            return found
    return None


def _refusal(error: IssuerError) -> ModelError | StreamDropped:
    code = next((code for code in _WHY if code in error.codes), None)
    if code is not None or error.status == _FINAL_STATUS:
        return SignInAgain(f"{_WHY[code or 'invalid_grant']}: {AGAIN}.")
    fact = f"The ChatGPT sign-in could not be renewed: {error}"
    if error.may_pass:
        return StreamDropped(fact, final=fact, advice="The stored login is kept: try again later.")
    return ModelError(fact, "unauthorized", advice=f"The stored login is kept: try again later, or {AGAIN}.")


def _store(settings: LoginSettings, old: StoredLogin, answer: Mapping[str, Any], clock: Clock) -> StoredLogin:
    """Put the new tokens in the place of the old ones; everything else that is stored stays."""
    kept = read_kept(settings)
    found = None if kept is None else login_in(kept)
    is_ours = found is not None and found.uses_chatgpt and _is_same_account(found, old)
    data = kept.data if kept is not None and is_ours else _as_data(old)
    tokens = data.get("tokens")
    tokens = dict(tokens) if isinstance(tokens, dict) else {}
    new = {name: answer[name] for name in ("id_token", "access_token", "refresh_token") if _is_token(answer.get(name))}
    data = {**data, "tokens": {**tokens, **new}, "last_refresh": iso_utc(clock.now())}
    place = kept.place if kept is not None and is_ours else old.place
    renewed = login_in(Kept(data, place))
    assert renewed is not None, "it had a token before"
    if is_ours:
        # Otherwise a program that does not know our lock has signed out meanwhile, or in as somebody else.
        try:
            write_kept(settings, data, place)
        except ConfigError as error:
            assert found is not None, "it is ours"
            raise NotStored(msgspec.structs.replace(renewed, spent=found.refresh_token), str(error)) from error
    if renewed.access_token == old.access_token:
        raise ModelError(
            "The ChatGPT sign-in could not be renewed: the login service gave no new token", "unauthorized"
        )
    return renewed


def _as_data(login: StoredLogin) -> dict[str, Any]:
    tokens = {name: getattr(login, name) for name in ("id_token", "access_token", "refresh_token", "account_id")}
    return {"auth_mode": login.mode, "OPENAI_API_KEY": login.api_key, "tokens": tokens}


def _is_token(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value.isascii() and value.isprintable() and " " not in value


# ---- tokens that a client brought ------------------------------------------------------------------


async def _ask_client(settings: LoginSettings, login: StoredLogin) -> StoredLogin:
    found = _read(settings)
    if found is not None and found.mode == login.mode and found.access_token != login.access_token:
        if _is_same_account(found, login):
            return found
        raise SignInAgain("The client has signed in with another account: start a new thread to use that one.")
    ask = brought_tokens.get(settings.home)
    if ask is None:
        raise SignInAgain("The tokens that the client signed in with have run out, and it is not there to renew them.")
    answer = await ask(login.account_id)
    data = brought_login(answer.get("accessToken"), answer.get("chatgptAccountId"))
    renewed = login_in(Kept(data, "memory"))
    assert renewed is not None, "it was checked"
    if login.account_id is not None and renewed.account_id != login.account_id:
        raise SignInAgain("The client answered with the tokens of another account.")
    write_kept(settings, data, "memory")
    return renewed


def brought_login(access_token: Any, account_id: Any, plan: str | None = None) -> dict[str, Any]:
    """The login object for tokens of a client. Raises SignInAgain when they cannot be sent."""
    if not _is_token(access_token) or not _is_token(account_id):
        raise SignInAgain("The client gave no usable token: accessToken and chatgptAccountId must be plain words.")
    tokens = {"id_token": access_token, "access_token": access_token, "refresh_token": "", "account_id": account_id}
    tokens |= {"plan_type": plan} if plan else {}
    return {"auth_mode": "chatgptAuthTokens", "OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": None}
