"""Signing in with ChatGPT in a browser: an address to visit, a page that the browser comes back to, tokens.

async with BrowserLogin(settings, environ) as attempt:
    ...show attempt.address...
    login = await attempt.finish()
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from types import TracebackType
from urllib.parse import quote, urlencode

from spindle.auth.issuer import Grant, Issuer
from spindle.auth.loopback import HOST, Loopback, Page
from spindle.auth.new_login import LoginCancelled, LoginFailed, store_tokens
from spindle.auth.store import StoredLogin
from spindle.errors import SpindleError
from spindle.model.headers import ORIGINATOR_VARIABLE
from spindle.model.provider import LoginSettings
from spindle.protocol.clock import Clock, SystemClock
from spindle.protocol.quote import readable, without_terminal_codes

PORTS = (1455, 1457)
"""The ports that the login service knows for this client."""
WAIT_S = 15 * 60.0
_SCOPES = "openid profile email offline_access"
_SHOWN_CHARS = 300


class BrowserLogin:
    """One attempt. It waits for its own answer only, and stores nothing before it has that."""

    def __init__(
        self,
        settings: LoginSettings,
        environ: Mapping[str, str] = os.environ,
        *,
        originator: str = "codex_cli_rs",
        clock: Clock | None = None,
        ports: Sequence[int] = PORTS,
    ) -> None:
        self._clock = clock or SystemClock()
        originator = environ.get(ORIGINATOR_VARIABLE, "").strip() or originator
        self._settings = settings
        self._issuer = Issuer(settings.issuer, environ=environ, originator=originator)
        self._originator = originator
        self._state = self._secret(32)
        self._verifier = self._secret(64)
        self._loopback = Loopback(ports, self._visit)
        self._done: asyncio.Future[StoredLogin] = asyncio.get_running_loop().create_future()
        self._is_taken = False

    async def __aenter__(self) -> BrowserLogin:
        await self._loopback.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()
        await self._loopback.__aexit__(kind, error, trace)
        if not self._done.cancelled():
            self._done.exception()  # nobody may have asked for it

    @property
    def address(self) -> str:
        """What the person opens in a browser."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self._verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": self._issuer.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": _SCOPES,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "id_token_add_organizations": "true",
            "codex_cli_simplified_flow": "true",
            "state": self._state,
            "originator": self._originator,
        }
        if self._settings.workspaces:
            query["allowed_workspace_id"] = ",".join(self._settings.workspaces)
        return f"{self._issuer.url}/oauth/authorize?{urlencode(query, quote_via=quote)}"

    @property
    def _redirect_uri(self) -> str:
        # As a number: the name localhost may first lead to ::1, where somebody else could listen.
        return f"http://{HOST}:{self._loopback.port}/auth/callback"

    async def finish(self) -> StoredLogin:
        """Wait until the person has signed in. Raises SpindleError."""
        try:
            async with asyncio.timeout(WAIT_S):
                return await asyncio.shield(self._done)
        except TimeoutError:
            raise LoginFailed(f"nobody signed in within {WAIT_S / 60:g} minutes") from None

    def cancel(self) -> None:
        self._fail(LoginCancelled())

    def _fail(self, error: SpindleError) -> None:
        if not self._done.done():
            self._done.set_exception(error)

    # ---- the browser comes back ------------------------------------------------------------------------

    async def _visit(self, path: str, given: Mapping[str, str]) -> Page:
        match path:
            case "/cancel":
                return _page("200 OK", "The sign-in was cancelled", "You can close this page.", self.cancel)
            case "/auth/callback":
                return await self._come_back(given)
            case _:
                return Page("404 Not Found", "There is nothing here.\n")

    async def _come_back(self, given: Mapping[str, str]) -> Page:
        if given.get("state") != self._state or self._is_taken or self._done.done():
            why = "This does not belong to the sign-in that is waited for."
            return _page("400 Bad Request", "That did not work", why)
        if "error" in given:
            return self._failed(f"the sign-in was refused: {_reason(given)}")
        if not given.get("code"):
            return _page("400 Bad Request", "That did not work", "The login service sent no code.")
        self._is_taken = True
        grant = Grant(code=given["code"], verifier=self._verifier, redirect_uri=self._redirect_uri)
        try:
            tokens = await self._issuer.exchange(grant)
            if self._done.done():
                return _page("400 Bad Request", "That did not work", "The sign-in was cancelled meanwhile.")
            login = await store_tokens(self._settings, self._issuer, tokens, self._clock)
        except SpindleError as error:
            return self._failed(str(error))
        text = "You can close this page and go back to where you came from."
        return _page("200 OK", "Signed in to Spindle", text, lambda: self._succeed(login))

    def _succeed(self, login: StoredLogin) -> None:
        if not self._done.done():
            self._done.set_result(login)

    def _failed(self, reason: str) -> Page:
        text = f"{reason[:1].upper()}{reason[1:]}."
        failure = LoginFailed(reason)
        return _page("400 Bad Request", "The sign-in did not work", text, lambda: self._fail(failure))

    def _secret(self, size: int) -> str:
        """So many random bytes, as a word."""
        drawn = bytes(int(self._clock.random() * 256) for _ in range(size))
        return base64.urlsafe_b64encode(drawn).decode().rstrip("=")


def _reason(given: Mapping[str, str]) -> str:
    described = given.get("error_description")
    said = f"{described} ({given['error']})" if described else given["error"]
    line = " ".join(readable(without_terminal_codes(said[: 4 * _SHOWN_CHARS])).split())
    return line[:_SHOWN_CHARS] or "no reason given"


def _page(status: str, title: str, text: str, then: Callable[[], None] | None = None) -> Page:
    style = "body{font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:15vh auto;padding:0 1em}"
    html = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{style}</style>'
        f"<h1>{escape(title)}</h1><p>{escape(text)}</p></html>\n"
    )
    return Page(status, html, "text/html", then)
