"""What a person can do about a failure: the sentence that follows what happened. Loaded only when something failed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from spindle.model.credential import KeyOrigin, capitalised
from spindle.model.provider import CHATGPT_BASE_URL, OPENAI_BASE_URL, Provider
from spindle.model.url import parse_url

BILLING_PAGE = "https://platform.openai.com/settings/organization/billing"
_NAMES_SHOWN = 8
_NEAREST = 3

PAGE = (
    "Something between here and the model server answered with a web page: the sign-in page of a network, a proxy or a "
    "firewall. Open a web page in a browser to sign in to the network, and check base_url and the proxy variables "
    "(HTTPS_PROXY, NO_PROXY)."
)
CLOUDFLARE = (
    "This is a page of Cloudflare, which stands before the server, not an answer of the model server. Try without VPN "
    "or proxy, or from another network, and check base_url."
)
PROXY_SIGN_IN = (
    "The proxy wants a user name and a password: put them into the proxy variable (HTTPS_PROXY, HTTP_PROXY or "
    "ALL_PROXY) as http://USER:PASSWORD@HOST:PORT, or list the server's host in NO_PROXY."
)
REGION = "The service is not offered where this computer seems to be; a VPN or a proxy may be the cause."
SLOW_DOWN = (
    "The server limits how often it may be asked: wait a while and run again, or let it be asked more often before "
    "giving up (stream_max_retries)."
)
TOO_LARGE = "Start a new thread, leave large pictures out, or raise the limit of the server or of the proxy before it."


_API_NAMES = {
    "/responses": "the Responses API",
    "/chat/completions": "Chat Completions",
    "/messages": "the Messages API",
}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Who was asked for what, with whose key: what advice depends on."""

    url: str
    path: str = "/responses"
    model: str = ""
    provider: Provider | None = None
    key: KeyOrigin = KeyOrigin()
    offers: tuple[str, ...] = ()
    """Models the server has, or else those of the catalogue; only looked up when the model is the trouble."""


def for_key(asked: Asked) -> str:
    """After 401."""
    provider, key = asked.provider, asked.key
    if provider is None:
        return ""
    if key.refusal:
        return key.refusal
    if key.place:
        shown = f" ({key.shown})" if key.shown else ""
        return f"{capitalised(key.place)}{shown} was not accepted: {key.remedy}."
    header = next((name for name in (*provider.http_headers, *provider.env_http_headers) if _carries_key(name)), None)
    if header is not None:
        return f"The header {header} of {_table(provider)} was not accepted: correct it."
    if provider.id in ("ollama", "lmstudio"):
        return f"{provider.name} needs no key, so none was sent: check that {provider.public_base_url} is its address."
    return (
        f'No key was sent, because {provider.name} has no env_key: add env_key = "NAME" to {_table(provider)} in '
        "config.toml, and set the environment variable NAME to the key."
    )


def for_forbidden(asked: Asked) -> str:
    """After 403."""
    who = capitalised(asked.key.place or "this account")
    may_use = f", and whether it may use {asked.model}" if asked.model else ""
    return (
        f"{who} may not do this: check the rights, the project and the region of the account{may_use}, "
        "or use another key."
    )


def for_path(asked: Asked) -> str:
    """After 404 or 405 that is not about the model."""
    provider = asked.provider
    if provider is None:
        return ""
    if provider.id == "ollama":
        return f"Ollama before 0.13.4 lacks this path: update it, and check {_address_setting(provider)}."
    if provider.base_url in (OPENAI_BASE_URL, CHATGPT_BASE_URL):
        return "The path is right for this service: try again later, or update Spindle."
    needs = "" if "/v" in parse_url(provider.base_url).target else "; most servers want it to end in /v1"
    return (
        f"There is no such path on the server: check {_address_setting(provider)} "
        f"(now {provider.public_base_url}){needs}. "
        f"The server must offer {_API_NAMES.get(asked.path, 'this API')}, POST {asked.path}, or wire_api "
        "must name the one it offers: responses, chat or messages."
    )


def for_model(asked: Asked) -> str:
    """The server does not have the model."""
    model, provider = asked.model, asked.provider
    if provider is None or not model:
        return ""
    if provider.id == "ollama":
        return f"Get it with `ollama pull {model}`, or choose another with -m{_offered(asked.offers)}."
    if provider.id == "lmstudio":
        return f"Get it with `lms get {model}`, or choose another with -m{_offered(asked.offers)}."
    near = nearest(model, asked.offers)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    return f"{meant}Choose a model with -m MODEL or `model` in config.toml{_offered(asked.offers, near)}."


def for_quota(asked: Asked) -> str:
    """The account's money or allowance is spent."""
    provider, place = asked.provider, asked.key.place
    page = f" ({BILLING_PAGE})" if provider is not None and provider.base_url == OPENAI_BASE_URL else ""
    used = f"; this was {place}" if place else ""
    return f"Check the plan and the billing of the account{page}, or use another key{used}."


def for_plan(asked: Asked) -> str:
    """The account's plan leaves this out."""
    if not asked.key.is_login:
        return for_quota(asked)
    return (
        "Your ChatGPT plan decides that: choose another model with -m, change the plan, or use an API key instead: "
        "`spindle login --with-api-key`."
    )


def for_usage_limit(asked: Asked, *, tells_when: bool) -> str:
    wait = "Wait until then" if tells_when else "Wait until it resets"
    if not asked.key.is_login:
        return f"{wait}, or use another key or provider."
    return f"{wait}, or use an API key instead: `spindle login --with-api-key`."


def for_redirect(asked: Asked) -> str:
    if asked.provider is None:
        return ""
    return f"Redirects are not followed: set {_address_setting(asked.provider)} to the address it points to."


def nearest(model: str, names: Sequence[str]) -> list[str]:
    """The known names most like `model`, best first."""
    from difflib import get_close_matches  # after a failure only

    by_lower = {name.lower(): name for name in names}
    return [by_lower[name] for name in get_close_matches(model.lower(), by_lower, n=_NEAREST, cutoff=0.6)]


def _offered(names: Sequence[str], left_out: Sequence[str] = ()) -> str:
    rest = [name for name in names if name not in left_out]
    if not rest:
        return ""
    more = f" and {len(rest) - _NAMES_SHOWN} more" if len(rest) > _NAMES_SHOWN else ""
    return f" (there {'are' if len(rest) > 1 else 'is'}: {', '.join(rest[:_NAMES_SHOWN])}{more})"


def _carries_key(header: str) -> bool:
    return header.lower() in ("authorization", "api-key", "x-api-key")


def _table(provider: Provider) -> str:
    return f"[model_providers.{provider.id}]"


def _address_setting(provider: Provider) -> str:
    if provider.is_openai:
        return "openai_base_url in config.toml, or OPENAI_BASE_URL"
    if provider.id in ("ollama", "lmstudio"):
        return "CODEX_OSS_BASE_URL"
    return f"base_url in {_table(provider)}"
