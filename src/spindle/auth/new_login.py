"""From tokens that the login service just gave to a stored login; and the two ways in which a sign-in fails."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from spindle.auth.issuer import CLIENT_ID, Issuer
from spindle.auth.login import replace_login
from spindle.auth.store import Kept, StoredLogin, account_id_of, login_in
from spindle.errors import ConfigError, SpindleError
from spindle.model.provider import OPENAI_ISSUER, LoginSettings
from spindle.protocol.clock import Clock, SystemClock, iso_utc


class LoginFailed(SpindleError):
    """Nobody is signed in by this attempt, and what was stored before is as it was."""


class LoginCancelled(LoginFailed):
    """The person, or the client, gave up."""

    def __init__(self) -> None:
        super().__init__("the sign-in was cancelled")


def check_allowed(settings: LoginSettings) -> None:
    """Raises ConfigError where signing in with ChatGPT is not allowed."""
    if settings.forced_method == "api":
        raise ConfigError("forced_login_method is api: signing in with ChatGPT is not allowed")


async def store_tokens(
    settings: LoginSettings, issuer: Issuer, tokens: Mapping[str, Any], clock: Clock | None = None
) -> StoredLogin:
    """Sign in with these tokens from now on. Raises LoginFailed, or a ConfigError when they cannot be stored."""
    account_id = account_id_of(tokens.get("id_token")) or account_id_of(tokens.get("access_token"))
    if settings.workspaces and account_id not in settings.workspaces:
        raise LoginFailed(
            "this account belongs to another workspace than forced_chatgpt_workspace_id of the configuration allows"
        )
    stored = {name: tokens[name] for name in ("id_token", "access_token", "refresh_token")}
    stored["account_id"] = account_id
    if (issuer.url, issuer.client_id) != (OPENAI_ISSUER, CLIENT_ID):
        # Where to renew them, under the name by which Codex knows it.
        stored["oauth_provenance"] = {"issuer": issuer.url, "client_id": issuer.client_id}
    now = iso_utc((clock or SystemClock()).now())
    login = {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": stored, "last_refresh": now}
    if login_in(Kept(login, "file")) is None:
        raise LoginFailed("the login service answered with tokens that cannot be sent")
    return await asyncio.to_thread(replace_login, settings, login)
