"""Renewing the tokens of a ChatGPT sign-in at OpenAI's login service. Loaded only when a server answered 401."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.auth.store import StoredLogin, read_login, read_raw, write_raw
from spindle.errors import SpindleError
from spindle.model.http import HttpClient
from spindle.model.url import parse_url
from spindle.protocol.clock import iso_utc
from spindle.protocol.items import decode_foreign

TOKEN_URL = "https://auth.openai.com/oauth/token"
CLIENT_ID = "app_EMoamEEZ73f0CkXaXp7hrann"
"""The public client id under which the reference program signs in; a refresh token is only valid together with it."""
_TIMEOUT_S = 30.0
_MAX_ANSWER_BYTES = 1 << 20


async def renew_login(
    login: StoredLogin, home: str, environ: Mapping[str, str], token_url: str | None = None
) -> StoredLogin | None:
    """New tokens, written to `auth.json`; None if they cannot be had.

    Another process may have renewed them meanwhile, and a refresh token works only once: its result is taken over.
    """
    if (newer := _newer(login, home)) is not None:
        return newer
    if login.refresh_token is None:
        return None
    url = token_url or environ.get("CODEX_REFRESH_TOKEN_URL_OVERRIDE") or TOKEN_URL
    answer = await _ask(url, login.refresh_token, environ)
    if answer is None or not isinstance(answer.get("access_token"), str):
        return _newer(login, home)
    _save(answer, home)
    return _newer(login, home)


def _newer(login: StoredLogin, home: str) -> StoredLogin | None:
    try:
        found = read_login(home)
    except SpindleError:
        return None
    if found is None or not found.uses_chatgpt or found.access_token == login.access_token:
        return None
    # Another account is another person's bill: never change over silently.
    return found if login.account_id in (None, found.account_id) else None


async def _ask(url: str, refresh_token: str, environ: Mapping[str, str]) -> dict[str, Any] | None:
    body = {
        "client_id": CLIENT_ID,
        "grant_type": "refresh_token",
        "refresh_token": refresh_token,
        "scope": "openid profile email",
    }
    http = HttpClient(environ=environ)
    try:
        response = await http.request(
            "POST",
            parse_url(url, "the login service"),
            {"content-type": "application/json", "accept": "application/json"},
            msgspec.json.encode(body),
            timeout_s=_TIMEOUT_S,
        )
        content = await response.read(_MAX_ANSWER_BYTES, _TIMEOUT_S)
        if response.status != 200:
            return None
        answer = decode_foreign(content)
        return answer if isinstance(answer, dict) else None
    except (SpindleError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    finally:
        await http.aclose()


def _save(answer: Mapping[str, Any], home: str) -> None:
    """Put the new tokens into the file, which keeps everything else it holds."""
    data = read_raw(home) or {"auth_mode": "chatgpt", "OPENAI_API_KEY": None}
    old = data.get("tokens")
    tokens = dict(old) if isinstance(old, dict) else {}
    for name in ("id_token", "access_token", "refresh_token"):
        if isinstance(answer.get(name), str):
            tokens[name] = answer[name]
    write_raw(home, {**data, "tokens": tokens, "last_refresh": iso_utc(time.time())})
