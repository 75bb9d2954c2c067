"""`spindle models`: which models there are, what they can do, and what they cost."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any

import msgspec

from spindle import __version__
from spindle.auth.credentials import sign_in
from spindle.config.schema import Config
from spindle.errors import ConfigError, SpindleError
from spindle.frontends.fit import cells, hang, table
from spindle.frontends.launch import config_from
from spindle.frontends.options import Parsed
from spindle.frontends.terminal import STDOUT, columns_of
from spindle.model.capabilities import CAPABILITY_FILE
from spindle.model.capability_file import forget
from spindle.model.catalog import Catalog, ModelInfo
from spindle.model.endpoint import Endpoint
from spindle.model.headers import Identity
from spindle.model.plain_json import request_json
from spindle.model.prices import known_prices
from spindle.model.provider import Provider
from spindle.model.server_models import ServerModel, read_list, read_ollama_window
from spindle.model.url import parse_url
from spindle.protocol.quote import visible
from spindle.protocol.request import Prices

PATIENCE_S = 3.0
LIST_MAX_BYTES = 4 * 1024 * 1024


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One model, as programs get it."""

    slug: str
    provider: str
    context_window: int | None
    max_output_tokens: int | None
    efforts: list[str]
    prices: dict[str, Any] | None
    source: str
    """Who says that it exists: `bundled`, `server` or `config`."""


def run(parsed: Parsed, words: list[str]) -> int:
    config = config_from(parsed)
    for warning in config.warnings:
        print(f"warning: {visible(warning)}", file=sys.stderr)
    if parsed.flag("forget"):
        return _forget(config)
    rows = asyncio.run(_rows(config, parsed.value("provider")))
    if parsed.flag("json"):
        print(msgspec.json.encode({"models": rows}).decode())
    else:
        print(_table(rows, columns_of(STDOUT)))
    return 0


# ---- which there are ---------------------------------------------------------------------------------


async def _rows(config: Config, wanted: str | None) -> list[Row]:
    catalog = Catalog.load(config.model_catalog_json, config.spindle.models)
    provider = config.providers.get(wanted) if wanted is not None else config.provider
    if provider is None and wanted not in [model.provider for model in catalog.models]:
        known = ", ".join(dict.fromkeys((*config.providers, "anthropic")))
        raise ConfigError(f"Model provider `{visible(wanted or '')}` not found (--provider); known: {known}")
    rows: dict[str, Row] = {}
    for model in catalog.models:
        row = _of_catalogue(config, catalog, model, provider, wanted)
        if row is not None:
            rows[row.slug] = row
    # What OpenAI offers beside models for work like this is not worth a question that nobody asked.
    if provider is not None and (wanted is not None or not provider.is_openai):
        for found in await _of_server(config, provider, is_asked_for=wanted is not None):
            rows[found.slug] = _with_server(config, catalog, provider, found, rows.get(found.slug))
    return list(rows.values())


def _of_catalogue(
    config: Config, catalog: Catalog, model: ModelInfo, provider: Provider | None, wanted: str | None
) -> Row | None:
    """The row of a model that the catalogue or the configuration names, if it is to be shown."""
    is_ours = model.slug in config.spindle.models
    if model.visibility == "none" and not is_ours:
        return None
    whose = model.provider or config.provider.id
    if wanted is not None and whose != wanted:
        if provider is None or whose != provider.vendor:
            return None
        whose = provider.id
    return _row(config, catalog, model, whose, "config" if is_ours else "bundled")


def _with_server(config: Config, catalog: Catalog, provider: Provider, found: ServerModel, known: Row | None) -> Row:
    """A model that the server lists; what it says of itself counts, but for what the user says."""
    if known is not None and known.source == "config":
        return known
    model = catalog.find(found.slug)
    is_told = known is None or found.context_window or found.max_output_tokens
    return msgspec.structs.replace(
        _row(config, catalog, model, provider.id, "server" if is_told else "bundled"),
        # A window that is only a guess is none.
        context_window=found.context_window or (model.context_window if model.known else None),
        max_output_tokens=found.max_output_tokens or model.max_output_tokens,
    )


def _row(config: Config, catalog: Catalog, model: ModelInfo, provider: str, source: str) -> Row:
    found = known_prices(model.slug, catalog, config.spindle.price_list, provider=provider)
    return Row(
        slug=model.slug,
        provider=provider,
        context_window=model.context_window,
        max_output_tokens=model.max_output_tokens,
        efforts=[level.effort for level in model.supported_reasoning_levels],
        prices=None if found is None else _told(found.prices),
        source=source,
    )


def _told(prices: Prices) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(prices).items() if value is not None}


# ---- what a server says ------------------------------------------------------------------------------


async def _of_server(config: Config, provider: Provider, *, is_asked_for: bool) -> list[ServerModel]:
    """The models that the server lists; none, and a note, when it does not answer."""
    if provider.runs_inside:
        from spindle.local.catalogue import local_rows  # only for those who have any

        return [ServerModel(slug=info.slug, context_window=info.context_window) for info in local_rows(config)]
    signed_in = sign_in(provider, config.login)
    identity = Identity(thread_id="", version=__version__)
    server = Endpoint(signed_in.provider, signed_in.credential, identity, connect_timeout_s=PATIENCE_S)
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await _listed(server)
    except TimeoutError:
        problem = f"no answer within {PATIENCE_S:g} seconds"
    except SpindleError as error:
        problem = server.cleaned(str(error))
    finally:
        await server.http.aclose()
    if is_asked_for:
        print(f"note: {provider.name} was asked for its models in vain: {visible(problem)}", file=sys.stderr)
    return []


async def _listed(server: Endpoint) -> list[ServerModel]:
    kind = server.provider.id
    if kind == "lmstudio":
        # Its own list knows windows; older versions do not have it.
        with suppress(SpindleError):
            if found := read_list(await _ask_own(server, "GET", "/api/v0/models")):
                return found
    found = read_list(await server.json("GET", "/models", timeout_s=PATIENCE_S, max_bytes=LIST_MAX_BYTES))
    return await asyncio.gather(*(_shown(server, model) for model in found)) if kind == "ollama" else found


async def _shown(server: Endpoint, model: ServerModel) -> ServerModel:
    """Ollama tells the window of each model when it is asked for that one."""
    window: int | None = None
    with suppress(SpindleError):
        body = msgspec.json.encode({"model": model.slug})
        window = read_ollama_window(await _ask_own(server, "POST", "/api/show", body))
    return msgspec.structs.replace(model, context_window=window or model.context_window)


async def _ask_own(server: Endpoint, method: str, path: str, body: bytes = b"") -> Any:
    """Ask a server by its own interface, beside the one it shares with others."""
    url = parse_url(server.provider.base_url.removesuffix("/v1") + path, "base_url")
    headers = {"accept": "application/json", **({"content-type": "application/json"} if body else {})}
    return await request_json(server.http, method, url, headers, body, timeout_s=PATIENCE_S, max_bytes=LIST_MAX_BYTES)


# ---- for people --------------------------------------------------------------------------------------

_TITLES = ("MODEL", "PROVIDER", "WINDOW", "OUTPUT", "EFFORTS", "$ / M TOKENS: IN, CACHED, OUT")
_SHORT = 4
"""So many columns have only short words in them."""


def _table(rows: list[Row], width: int | None) -> str:
    """A line for each model. Where that is too wide, the long columns stand below the short ones; nothing is cut."""
    lines = [_TITLES, *map(_cells, rows)]
    whole = table(lines, None)
    if width is None or _is_within(whole, width):
        return whole
    short = table([line[:_SHORT] for line in lines], None)
    if not _is_within(short, width):
        return table(lines, width)
    below = [hang("  ", " · ".join(line[_SHORT:]), width) for line in lines]
    return "\n".join(f"{first}\n{rest}" for first, rest in zip(short.split("\n"), below, strict=True))


def _is_within(text: str, width: int) -> bool:
    return all(cells(line) <= width for line in text.split("\n"))


def _cells(row: Row) -> tuple[str, ...]:
    return (
        visible(row.slug),
        visible(row.provider),
        _number(row.context_window),
        _number(row.max_output_tokens),
        " ".join(map(visible, row.efforts)) or "–",
        _money(row),
    )


def _number(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _money(row: Row) -> str:
    if row.prices is None:
        return "unknown"
    said = ", ".join(f"{row.prices[name]:g}" for name in ("input", "cached_input", "output"))
    long = row.prices.get("long_prompt")
    if long is None or (row.context_window is not None and row.context_window <= long["above"]):
        return said
    return f"{said} (more above {long['above']:,})"


# ---- --forget ----------------------------------------------------------------------------------------


def _forget(config: Config) -> int:
    """Let every server be tried anew with all it might be able to do."""
    is_gone = forget(f"{config.home}/spindle/{CAPABILITY_FILE}")
    print("Forgot what was learned about what model servers can do." if is_gone else "There was nothing to forget.")
    return 0
