"""Signing in to a server with OAuth: discovery, registration, PKCE, tokens. Loaded to sign in and to renew that.

Every address comes from somebody else and is checked before it is used: https, or this machine where the server itself
is on it. No redirect is followed, and what an authorisation server says of itself must be said under its own name.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from spindle.errors import McpError
from spindle.mcp.http import Answer, Http
from spindle.mcp.tokens import Tokens
from spindle.protocol.clock import Clock
from spindle.protocol.items import decode_foreign
from spindle.protocol.quote import readable, visible

_MAX_BYTES = 256 * 1024
_REQUEST_S = 20.0
_LOCAL = ("127.0.0.1", "localhost", "::1")
_FORM = "application/x-www-form-urlencoded"


class AuthServer(msgspec.Struct, frozen=True, kw_only=True):
    """Where to sign in, as the authorisation server describes itself."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str | None = None
    scopes: tuple[str, ...] = ()


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One sign-in under way: what the browser is sent to, and what only we know."""

    address: str
    state: str
    verifier: str
    redirect_uri: str
    client_id: str
    client_secret: str | None


def safe_address(url: Any, what: str, near: str) -> str:
    """The address if it may be used: https, or http on this machine where `near` is there too. Raises McpError."""
    text = url if isinstance(url, str) else ""
    try:
        parts = urlsplit(text)
        is_here = parts.hostname in _LOCAL and urlsplit(near).hostname in _LOCAL
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_here)
        is_plain = (
            bool(parts.hostname) and text.isascii() and text.isprintable() and " " not in text and "\\" not in text
        )
        has_user = parts.username is not None
    except ValueError:
        is_safe = is_plain = has_user = False
    if not is_safe or not is_plain or has_user:
        raise McpError(f"the {what} {visible(text[:200])!r} is not an https address")
    return text


# ---- finding out -----------------------------------------------------------------------------------


async def discover(http: Http, url: str) -> AuthServer:
    """The authorisation server of the MCP server at `url`."""
    safe_address(url, "server's address", url)
    resource = await _protected_resource(http, url)
    named = resource.get("authorization_servers")
    servers = [server for server in named if isinstance(server, str)] if isinstance(named, list) else []
    issuer = safe_address(servers[0], "authorisation server", url) if servers else _origin(url)
    for address in _metadata_places(issuer):
        found = await _get_json(http, address)
        if found is not None:
            return _auth_server(found, issuer if servers else None, resource, url)
    raise McpError("the server does not say where to sign in")


async def _protected_resource(http: Http, url: str) -> Mapping[str, Any]:
    """What the MCP server says about itself; its own answer to a stranger names the place."""
    places: list[str] = []
    answer = await http.request("GET", url, {"accept": "text/event-stream"}, b"", _REQUEST_S)
    hint = _metadata_hint(answer.headers.get("www-authenticate", ""))
    answer.close()
    if hint is not None and _origin(hint) == _origin(url):
        places.append(safe_address(hint, "metadata address", url))
    path = urlsplit(url).path.rstrip("/")
    well_known = f"{_origin(url)}/.well-known/oauth-protected-resource"
    places += [f"{well_known}{path}", well_known]
    for place in dict.fromkeys(places):
        found = await _get_json(http, place)
        if found is not None:
            named = found.get("resource")
            if isinstance(named, str) and _origin(named) != _origin(url):
                raise McpError(f"the server says that it is {visible(named[:200])!r}, which is not its address")
            return found
    return {}


def _metadata_hint(challenge: str) -> str | None:
    _, found, rest = challenge.partition("resource_metadata=")
    if not found:
        return None
    value = rest[1:].partition('"')[0] if rest.startswith('"') else rest.partition(",")[0]
    return value.strip() or None


def _metadata_places(issuer: str) -> list[str]:
    origin, path = _origin(issuer), urlsplit(issuer).path.rstrip("/")
    places = [
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    ]
    return list(dict.fromkeys(places))


def _auth_server(found: Mapping[str, Any], issuer: str | None, resource: Mapping[str, Any], url: str) -> AuthServer:
    named = safe_address(found.get("issuer"), "authorisation server", url)
    if issuer is not None and named.rstrip("/") != issuer.rstrip("/"):
        raise McpError(f"the authorisation server {visible(issuer)} calls itself {visible(named[:200])}")
    methods = found.get("code_challenge_methods_supported")
    if isinstance(methods, list) and "S256" not in methods:
        raise McpError("the authorisation server cannot protect the sign-in (PKCE with S256)")
    registration = found.get("registration_endpoint")
    scopes = resource.get("scopes_supported")
    return AuthServer(
        issuer=named,
        authorization_endpoint=safe_address(found.get("authorization_endpoint"), "address to sign in at", url),
        token_endpoint=safe_address(found.get("token_endpoint"), "address for tokens", url),
        registration_endpoint=safe_address(registration, "address to register at", url) if registration else None,
        scopes=tuple(scope for scope in scopes if isinstance(scope, str)) if isinstance(scopes, list) else (),
    )


# ---- signing in ------------------------------------------------------------------------------------


async def begin(
    http: Http, server: AuthServer, url: str, redirect_uri: str, scopes: tuple[str, ...], clock: Clock
) -> Attempt:
    """Register, and make the address that a person must visit."""
    client_id, client_secret = await _register(http, server, redirect_uri)
    state, verifier = _secret(clock), _secret(clock)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    wanted = " ".join(scopes or server.scopes)
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": url,
        **({"scope": wanted} if wanted else {}),
    }
    joint = "&" if "?" in server.authorization_endpoint else "?"
    return Attempt(
        address=f"{server.authorization_endpoint}{joint}{urlencode(query)}",
        state=state,
        verifier=verifier,
        redirect_uri=redirect_uri,
        client_id=client_id,
        client_secret=client_secret,
    )


async def finish(
    http: Http, server: AuthServer, attempt: Attempt, given: Mapping[str, str], name: str, url: str, clock: Clock
) -> Tokens:
    """The tokens for what the browser brought back. Raises McpError when it is not the answer to this attempt."""
    if given.get("state") != attempt.state:
        raise McpError("the answer of the browser does not belong to this sign-in")
    if given.get("iss", server.issuer).rstrip("/") != server.issuer.rstrip("/"):
        raise McpError("the answer of the browser comes from another authorisation server")
    if "error" in given:
        said = readable(given.get("error_description") or given["error"])[:300]
        raise McpError(f"the sign-in was refused: {said}")
    if not given.get("code"):
        raise McpError("the answer of the browser holds no code")
    form = {
        "grant_type": "authorization_code",
        "code": given["code"],
        "redirect_uri": attempt.redirect_uri,
        "code_verifier": attempt.verifier,
        "resource": url,
    }
    found = await _token_request(http, server.token_endpoint, form, attempt.client_id, attempt.client_secret)
    return Tokens(
        server=name,
        url=url,
        token_endpoint=server.token_endpoint,
        client_id=attempt.client_id,
        client_secret=attempt.client_secret,
        access_token=_access_token(found),
        refresh_token=_text(found.get("refresh_token")),
        expires_at=_expiry(found, clock),
    )


async def renew(http: Http, tokens: Tokens, clock: Clock) -> Tokens:
    """New tokens for old ones. Raises McpError when they cannot be renewed."""
    if tokens.refresh_token is None:
        raise McpError("the sign-in has run out")
    form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token, "resource": tokens.url}
    found = await _token_request(http, tokens.token_endpoint, form, tokens.client_id, tokens.client_secret)
    return msgspec.structs.replace(
        tokens,
        access_token=_access_token(found),
        refresh_token=_text(found.get("refresh_token")) or tokens.refresh_token,
        expires_at=_expiry(found, clock),
    )


async def _register(http: Http, server: AuthServer, redirect_uri: str) -> tuple[str, str | None]:
    if server.registration_endpoint is None:
        raise McpError("the authorisation server does not let programs register themselves; use a token in a variable")
    wanted = {
        "client_name": "Spindle",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    headers = {"content-type": "application/json", "accept": "application/json"}
    body = msgspec.json.encode(wanted)
    answer = await http.request("POST", server.registration_endpoint, headers, body, _REQUEST_S)
    found = await _json_of(answer, "registration")
    client_id = _text(found.get("client_id"))
    if client_id is None:
        raise McpError("the authorisation server registered us without an id")
    return client_id, _text(found.get("client_secret"))


async def _token_request(
    http: Http, endpoint: str, form: Mapping[str, str], client_id: str, client_secret: str | None
) -> Mapping[str, Any]:
    fields = {**form, "client_id": client_id, **({"client_secret": client_secret} if client_secret else {})}
    headers = {"content-type": _FORM, "accept": "application/json"}
    answer = await http.request("POST", endpoint, headers, urlencode(fields).encode(), _REQUEST_S)
    return await _json_of(answer, "request for a token")


async def _json_of(answer: Answer, what: str) -> Mapping[str, Any]:
    """The object in an answer. What the server says in words may quote a secret of ours, so only its code is shown."""
    try:
        value: Any = decode_foreign(await answer.read(_MAX_BYTES, _REQUEST_S))
    except ValueError:
        value = None
    finally:
        answer.close()
    if 200 <= answer.status < 300 and isinstance(value, dict):
        return value
    code = value.get("error") if isinstance(value, dict) else None
    reason = f" ({visible(code[:60])})" if isinstance(code, str) else ""
    raise McpError(f"the {what} was refused with status {answer.status}{reason}")


async def _get_json(http: Http, url: str) -> Mapping[str, Any] | None:
    answer = await http.request("GET", url, {"accept": "application/json"}, b"", _REQUEST_S)
    try:
        return await _json_of(answer, "question")
    except McpError:
        return None


def _access_token(found: Mapping[str, Any]) -> str:
    token, kind = _text(found.get("access_token")), found.get("token_type", "bearer")
    if token is None or not isinstance(kind, str) or kind.lower() != "bearer":
        raise McpError("the authorisation server gave no token that can be used")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise McpError("the authorisation server gave a token that no header can hold")
    return token


def _expiry(found: Mapping[str, Any], clock: Clock) -> float | None:
    seconds = found.get("expires_in")
    return clock.now() + seconds if isinstance(seconds, int | float) and seconds > 0 else None


def _secret(clock: Clock) -> str:
    """260 random bits."""
    return "".join(f"{int(clock.random() * (1 << 52)):013x}" for _ in range(5))


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
