"""The headers of a request to a model server, and what we read from those of its answer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from spindle.model.provider import Provider
from spindle.model.url import parse_url

ORIGINATOR_VARIABLE = "CODEX_INTERNAL_ORIGINATOR_OVERRIDE"
DEFAULT_ORIGINATOR = "codex_exec"


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks: the program, the front end, the thread."""

    thread_id: str
    version: str
    originator: str = DEFAULT_ORIGINATOR
    client: str | None = None
    """`NAME; VERSION` of a client that introduced itself."""
    subagent: str | None = None
    """`review`, `compact` or `collab_spawn` for a sub-session."""


def originator_of(identity: Identity, environ: Mapping[str, str]) -> str:
    return environ.get(ORIGINATOR_VARIABLE, "").strip() or identity.originator


def user_agent(identity: Identity, environ: Mapping[str, str] | None = None) -> str:
    """`ORIGINATOR/VERSION (OS VERSION; ARCH) TERMINAL (CLIENT; CLIENTVERSION)`."""
    environ = os.environ if environ is None else environ
    terminal = environ.get("TERM_PROGRAM") or environ.get("TERM") or "unknown"
    if environ.get("TERM_PROGRAM") and environ.get("TERM_PROGRAM_VERSION"):
        terminal += "/" + environ["TERM_PROGRAM_VERSION"]
    text = f"{originator_of(identity, environ)}/{identity.version} ({_system()}) {terminal}"
    if identity.client:
        text += f" ({identity.client})"
    if text.isascii() and text.isprintable():
        return text  # as good as always
    return "".join(sign if " " <= sign <= "~" else "_" for sign in text)


@cache
def _system() -> str:
    system = os.uname()
    return f"{system.sysname} {system.release}; {system.machine}"


def provider_headers(
    provider: Provider, identity: Identity, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What every request to the provider carries, but for the credential."""
    environ = os.environ if environ is None else environ
    headers = {"originator": originator_of(identity, environ), "user-agent": user_agent(identity, environ)}
    if provider.is_openai:
        headers["version"] = identity.version
        for name, variable in (("OpenAI-Organization", "OPENAI_ORGANIZATION"), ("OpenAI-Project", "OPENAI_PROJECT")):
            if value := environ.get(variable, "").strip():
                headers[name] = value
    return merged(headers, provider.http_headers, environment_headers(provider, environ))


ANTHROPIC_HOST = "api.anthropic.com"
_VERSIONS = {True: "2026-10-21", False: "2023-06-01"}
"""Of the Messages API: at the vendor, and elsewhere, as with gateways and clouds."""


def version_headers(provider: Provider, wire: str) -> dict[str, str]:
    """What a dialect has to say about itself; `http_headers` of the provider count more."""
    if wire != "messages":
        return {}
    is_vendor = parse_url(provider.base_url, "base_url").host == ANTHROPIC_HOST
    return {"anthropic-version": _VERSIONS[is_vendor]}


def key_headers(provider: Provider, wire: str, authorization: Mapping[str, str]) -> dict[str, str]:
    """The headers of a credential, spelled as the server wants them."""
    headers = dict(authorization)
    key = headers.get("authorization", "").removeprefix("Bearer ")
    if not key:
        return headers
    if wire == "messages" and provider.auth_header != "bearer":
        del headers["authorization"]
        headers["x-api-key"] = key
    elif wire != "messages" and provider.is_azure and not _names_api_key(provider):
        headers["api-key"] = key
    return headers


def _names_api_key(provider: Provider) -> bool:
    return any(name.lower() == "api-key" for name in (*provider.http_headers, *provider.env_http_headers))


def environment_headers(provider: Provider, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The provider's headers that come from variables, where those are set and not blank."""
    environ = os.environ if environ is None else environ
    found = {name: environ.get(variable, "").strip() for name, variable in provider.env_http_headers.items()}
    return {name: value for name, value in found.items() if value}


def session_headers(identity: Identity) -> dict[str, str]:
    """What ties a request to its thread. Four spellings, because servers of different ages read different ones."""
    spellings = ("session_id", "session-id", "thread-id", "x-client-request-id")
    headers: dict[str, str] = {name: identity.thread_id for name in spellings}  # noqa: C420  keeps the type of the keys
    if identity.subagent:
        headers["x-openai-subagent"] = identity.subagent
    return headers


def merged(*layers: Mapping[str, str]) -> dict[str, str]:
    """One mapping of headers; later layers win, whatever the case of the names."""
    result: dict[str, tuple[str, str]] = {}
    for layer in layers:
        for name, value in layer.items():
            result[name.lower()] = (name, value)
    return dict(result.values())


def rate_limits(headers: Mapping[str, str]) -> dict[str, Any] | None:
    """The account's allowance as the answer's headers tell it; None when they do not."""
    snapshot = {
        "primary": _window(headers, "x-codex-primary"),
        "secondary": _window(headers, "x-codex-secondary"),
        "credits": _credits(headers),
        "plan_type": None,
    }
    return snapshot if any(value is not None for value in snapshot.values()) else None


def _window(headers: Mapping[str, str], prefix: str) -> dict[str, Any] | None:
    used = _number(headers.get(f"{prefix}-used-percent"))
    if used is None:
        return None
    return {
        "used_percent": used,
        "window_minutes": _whole(headers.get(f"{prefix}-window-minutes")),
        "resets_at": _whole(headers.get(f"{prefix}-reset-at")),
    }


def _credits(headers: Mapping[str, str]) -> dict[str, Any] | None:
    has, unlimited = headers.get("x-codex-credits-has-credits"), headers.get("x-codex-credits-unlimited")
    if has is None or unlimited is None:
        return None
    balance = headers.get("x-codex-credits-balance", "").strip()
    return {"has_credits": is_true(has), "unlimited": is_true(unlimited), "balance": balance or None}


_LONGEST_NAME = 200


def answering_model(headers: Mapping[str, Any]) -> str | None:
    """The model that answers, where the server names it; what cannot be a name is none."""
    name = headers.get("openai-model")
    return name if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME else None


def is_true(value: str) -> bool:
    return value.strip().lower() in ("true", "1")


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if abs(number) < 1e15 else None


def _whole(text: str | None) -> int | None:
    number = _number(text)
    return None if number is None else int(number)
