"""The login service: every request to it, and what its answers mean. Loaded to sign in, to renew and to sign out.

Addresses are https, or on this machine; no redirect is followed. What the service says is shown as one harmless line,
and never with a token in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from spindle import __version__
from spindle.errors import ConfigError, SpindleError
from spindle.model.connection import TransportError
from spindle.model.headers import Identity, user_agent
from spindle.model.http import HttpClient
from spindle.model.proxy import is_sent_openly
from spindle.model.server_words import read_words
from spindle.model.url import parse_url
from spindle.protocol.items import decode_foreign

CLIENT_ID = "app_EMoamEEZ73f0CkXaXp7hrann"
"""The public client id under which the reference program signs in; a refresh token is only valid together with it."""
CLIENT_ID_VARIABLE = "CODEX_APP_SERVER_LOGIN_CLIENT_ID"
REFRESH_URL_VARIABLE = "CODEX_REFRESH_TOKEN_URL_OVERRIDE"
REVOKE_URL_VARIABLE = "CODEX_REVOKE_TOKEN_URL_OVERRIDE"

REQUEST_S = 30.0
"""For a whole request, however slowly the answer comes."""
REVOKE_S = 10.0
_MAX_ANSWER_BYTES = 1 << 20
_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_BUSY = frozenset((408, 409, 425, 429))
_DEVICE_WAITS = (403, 404)
_MAX_CODE_CHARS = 64


class IssuerError(SpindleError):
    """The login service refused, or could not be asked."""

    def __init__(self, message: str, *, codes: frozenset[str] = frozenset(), status: int = 0, may_pass: bool) -> None:
        super().__init__(message)
        self.codes = codes
        """Every name the service gives the failure."""
        self.status = status
        """0 when there was no answer."""
        self.may_pass = may_pass
        """Asking again later could help."""


class DeviceCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code that a person types into a page, and how to ask whether they did."""

    id: str
    user_code: str
    interval_s: float
    address: str
    """The page."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """What can be exchanged for tokens."""

    code: str
    verifier: str
    redirect_uri: str


def checked_issuer(url: str, what: str) -> str:
    """The address without a slash at its end; https, or on this machine. Raises ConfigError."""
    try:
        parse_url(url, what)
        is_open = is_sent_openly(url)
    except SpindleError as error:
        raise ConfigError(f"{what}: {error}") from error
    if is_open or not url.isascii() or not url.isprintable() or "?" in url or "#" in url or " " in url:
        raise ConfigError(f"{what} must be an https address, because keys are sent to it")
    return url.rstrip("/")


def client_id_of(environ: Mapping[str, str]) -> str:
    return environ.get(CLIENT_ID_VARIABLE, "").strip() or CLIENT_ID


class Issuer:
    """A login service and the name under which we are known to it."""

    def __init__(
        self, url: str, *, environ: Mapping[str, str], client_id: str | None = None, originator: str = "codex_cli_rs"
    ) -> None:
        self.url = checked_issuer(url, "the address of the login service")
        self.client_id = client_id or client_id_of(environ)
        self._environ = environ
        identity = Identity(thread_id="", version=__version__, originator=originator)
        self._agent = user_agent(identity, environ)

    # ---- signing in ------------------------------------------------------------------------------------

    async def exchange(self, grant: Grant) -> dict[str, Any]:
        """The tokens for a grant."""
        form = {
            "grant_type": "authorization_code",
            "code": grant.code,
            "redirect_uri": grant.redirect_uri,
            "client_id": self.client_id,
            "code_verifier": grant.verifier,
        }
        found = await self._ask(f"{self.url}/oauth/token", urlencode(form).encode(), _FORM)
        if not all(isinstance(found.get(name), str) for name in ("id_token", "access_token", "refresh_token")):
            raise IssuerError("the login service answered without tokens", may_pass=False)
        return found

    async def device_code(self) -> DeviceCode:
        address = f"{self.url}/api/accounts/deviceauth/usercode"
        try:
            found = await self._ask(address, msgspec.json.encode({"client_id": self.client_id}))
        except IssuerError as error:
            if error.status != 404:
                raise
            raise IssuerError(
                f"{self.url} does not offer sign-in by a device code; sign in with `spindle login` in a browser",
                status=404,
                may_pass=False,
            ) from error
        device_id, user_code = _word(found.get("device_auth_id"), 512), _word(found.get("user_code"), _MAX_CODE_CHARS)
        if device_id is None or user_code is None:
            raise IssuerError("the login service answered without a code to type in", may_pass=False)
        return DeviceCode(
            id=device_id,
            user_code=user_code,
            interval_s=_interval(found.get("interval")),
            address=f"{self.url}/codex/device",
        )

    async def device_grant(self, device: DeviceCode) -> Grant | None:
        """What the person agreed to; None while they have not."""
        body = msgspec.json.encode({"device_auth_id": device.id, "user_code": device.user_code})
        try:
            found = await self._ask(f"{self.url}/api/accounts/deviceauth/token", body)
        except IssuerError as error:
            if error.status in _DEVICE_WAITS:
                return None
            raise
        code, verifier = found.get("authorization_code"), found.get("code_verifier")
        if not isinstance(code, str) or not isinstance(verifier, str):
            raise IssuerError("the login service answered without a code to exchange", may_pass=False)
        return Grant(code=code, verifier=verifier, redirect_uri=f"{self.url}/deviceauth/callback")

    # ---- afterwards ------------------------------------------------------------------------------------

    async def refresh(self, refresh_token: str) -> dict[str, Any]:
        """New tokens; each of them may be missing."""
        body = {"client_id": self.client_id, "grant_type": "refresh_token", "refresh_token": refresh_token}
        address = self._override(REFRESH_URL_VARIABLE) or f"{self.url}/oauth/token"
        return await self._ask(address, msgspec.json.encode(body), secret=refresh_token)

    async def revoke(self, refresh_token: str) -> None:
        body = {"token": refresh_token, "token_type_hint": "refresh_token", "client_id": self.client_id}
        address = self._override(REVOKE_URL_VARIABLE) or f"{self.url}/oauth/revoke"
        await self._ask(address, msgspec.json.encode(body), secret=refresh_token, timeout_s=REVOKE_S)

    def _override(self, variable: str) -> str | None:
        url = self._environ.get(variable, "").strip()
        return checked_issuer(url, variable) if url else None

    # ---- asking ----------------------------------------------------------------------------------------

    async def _ask(
        self, address: str, body: bytes, kind: str = _JSON, *, secret: str = "", timeout_s: float = REQUEST_S
    ) -> dict[str, Any]:
        """POST, and read the object in the answer. Raises IssuerError; `secret` is kept out of what it says."""
        http = HttpClient(environ=self._environ)
        headers = {"content-type": kind, "accept": _JSON, "user-agent": self._agent}
        url = parse_url(address, "the address of the login service")
        try:
            async with asyncio.timeout(timeout_s):
                response = await http.request("POST", url, headers, body, timeout_s=timeout_s)
                content = await response.read(_MAX_ANSWER_BYTES, timeout_s)
        except TransportError as error:
            raise IssuerError(f"{url.host_and_port} cannot be reached: {error}", may_pass=True) from error
        except TimeoutError as error:
            raise IssuerError(f"{url.host_and_port} did not answer within {timeout_s:g} s", may_pass=True) from error
        finally:
            await http.aclose()
        status = response.status
        value = _decoded(content)
        if 200 <= status < 300 and (isinstance(value, dict) or not content.strip()):
            return value if isinstance(value, dict) else {}
        words = read_words(content, response.headers)
        said = words.text if not words.is_page else f"a web page, “{words.text}”" if words.text else "a web page"
        if 200 <= status < 300:
            said = said or "something else than tokens"
        said = said.replace(secret, "***") if secret else said
        raise IssuerError(
            f"{url.host_and_port} answered {status}" + (f": {said}" if said else ""),
            codes=words.codes,
            status=status,
            may_pass=status >= 500 or status in _BUSY or words.is_page,
        )


def _decoded(content: bytes) -> Any:
    try:
        return decode_foreign(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _interval(value: Any) -> float:
    """Seconds between two questions: the service sends them as text."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return 5.0
    return min(max(seconds, 1.0), 60.0)


def _word(value: Any, max_chars: int) -> str | None:
    """A value that can be shown and sent: one printable word."""
    text = value.strip() if isinstance(value, str) else ""
    return text if 0 < len(text) <= max_chars and text.isascii() and text.isprintable() and " " not in text else None
