"""`--oss`: which model server on this computer to use, whether it is new enough, and whether it has the model.

Only this part of the configuration uses the network. Getting a model that is missing is in `local_models`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.config.providers import OSS_PORTS
from spindle.errors import ConfigError, SpindleError
from spindle.model.http import HttpClient
from spindle.model.provider import Provider
from spindle.model.server_models import read_list, read_ollama_window
from spindle.model.url import parse_url
from spindle.protocol.items import decode_foreign

MIN_OLLAMA = (0, 13, 4)
START = {"ollama": "`ollama serve`", "lmstudio": "`lms server start`"}
_PROBE_TIMEOUT_S = 3.0
_MAX_ANSWER_BYTES = 1 << 22
_LOAD_S = 600.0


class LocalServer(msgspec.Struct, frozen=True, kw_only=True):
    """A model server that answers on this computer, and the models it has."""

    provider: Provider
    models: tuple[str, ...]


async def find_local_servers(providers: Mapping[str, Provider], within_s: float) -> list[LocalServer]:
    """The servers that answer on this computer's own address within that time. Nothing else is asked, no proxy used."""
    # With a port of the user's own, all of them are at the same address; the first is meant.
    here = [providers[id] for id in OSS_PORTS if _is_here(providers[id])]
    candidates: dict[str, Provider] = {}
    for provider in here:
        candidates.setdefault(provider.base_url, provider)
    tasks = [asyncio.ensure_future(_get(f"{base_url}/models", {})) for base_url in candidates]
    if not tasks:
        return []
    _, late = await asyncio.wait(tasks, timeout=within_s)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late)
    found: list[LocalServer] = []
    for provider, task in zip(candidates.values(), tasks, strict=True):
        status, answer = (None, {}) if task.cancelled() else task.result()
        if status == 200:
            rows = answer.get("data")
            names = [row.get("id") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
            models = tuple(name for name in names if isinstance(name, str) and name)
            found.append(LocalServer(provider=provider, models=models))
    return found


def _is_here(provider: Provider) -> bool:
    return parse_url(provider.base_url, "the local model server").host in ("localhost", "127.0.0.1", "::1", "[::1]")


async def choose_oss_provider(
    asked_for: str | None, configured: str | None, providers: Mapping[str, Provider], environ: Mapping[str, str]
) -> Provider:
    """`--local-provider`, else `oss_provider`, else the one that answers on its port."""
    if chosen := asked_for or configured:
        if chosen not in OSS_PORTS:
            raise ConfigError(f"unknown local provider {chosen!r}; use one of {', '.join(OSS_PORTS)}")
        return providers[chosen]
    candidates = [providers[id] for id in OSS_PORTS]
    answers = await asyncio.gather(*(_get(f"{found.base_url}/models", environ) for found in candidates))
    for provider, (status, _) in zip(candidates, answers, strict=True):
        if status is not None:
            return provider
    places = " or ".join(f"{found.name} with {START[found.id]} ({found.base_url})" for found in candidates)
    raise ConfigError(f"--oss needs a model server on this computer, but none answers: start {places}")


async def check_oss_server(provider: Provider, environ: Mapping[str, str]) -> None:
    """Raise ConfigError unless the server answers, and speaks the Responses API as far as it tells its version."""
    if provider.id != "ollama":
        status, _ = await _get(f"{provider.base_url}/models", environ)
        if status is None:
            raise ConfigError(
                f"{provider.name} does not answer at {provider.base_url}: start its server (0.3.39 or newer) with "
                f"{START['lmstudio']}, or from the Developer tab of the app"
            )
        return
    status, answer = await _get(f"{server_root(provider)}/api/version", environ)
    if status is None:
        raise ConfigError(f"Ollama does not answer at {provider.base_url}: start it with {START['ollama']}")
    version = _version(answer.get("version"))
    # Builds from source call themselves 0.0.0.
    if version is not None and (0, 0, 0) < version < MIN_OLLAMA:
        found, needed = ".".join(map(str, version)), ".".join(map(str, MIN_OLLAMA))
        raise ConfigError(
            f"Ollama {found} is too old: the Responses API needs {needed} or newer; get it from "
            "https://ollama.com/download"
        )


async def has_model(provider: Provider, model: str, environ: Mapping[str, str]) -> bool:
    """Whether the server lists the model. A server that gives no list is asked for the model itself, later."""
    if provider.id == "ollama":
        status, answer = await _get(f"{server_root(provider)}/api/tags", environ)
        rows, key = answer.get("models"), "name"
        wanted = model if ":" in model.rpartition("/")[2] else f"{model}:latest"
    else:
        status, answer = await _get(f"{provider.base_url}/models", environ)
        rows, key, wanted = answer.get("data"), "id", model
    if status != 200 or not isinstance(rows, list):
        return True
    return any(isinstance(row, dict) and row.get(key) == wanted for row in rows)


async def served_window(provider: Provider, model: str, environ: Mapping[str, str]) -> int | None:
    """How many tokens the server lets the model read and write; None if it does not say. Never fails."""
    if provider.id == "ollama":
        return read_ollama_window((await _post(f"{server_root(provider)}/api/show", {"model": model}, environ))[1])
    listed = read_list((await _get(f"{server_root(provider)}/api/v0/models", environ))[1])
    return next((found.context_window for found in listed if found.slug == model), None)


async def load_model(provider: Provider, model: str, environ: Mapping[str, str]) -> None:
    """Have LM Studio load a model that it has only on disk, so that the first answer need not wait. Never fails."""
    rows = (await _get(f"{server_root(provider)}/api/v0/models", environ))[1].get("data")
    states = (
        [row.get("state") for row in rows if isinstance(row, dict) and row.get("id") == model]
        if isinstance(rows, list)
        else []
    )
    if states == ["not-loaded"]:
        shortest = {"model": model, "input": "", "max_output_tokens": 1}
        await _post(f"{provider.base_url}/responses", shortest, environ, within_s=_LOAD_S)


def server_root(provider: Provider) -> str:
    """The address of the server's own interface, beside the one it shares with others."""
    return provider.base_url.removesuffix("/v1")


async def _get(url: str, environ: Mapping[str, str]) -> tuple[int | None, dict[str, Any]]:
    return await _ask("GET", url, b"", environ, _PROBE_TIMEOUT_S)


async def _post(
    url: str, value: dict[str, Any], environ: Mapping[str, str], *, within_s: float = _PROBE_TIMEOUT_S
) -> tuple[int | None, dict[str, Any]]:
    return await _ask("POST", url, msgspec.json.encode(value), environ, within_s)


async def _ask(
    method: str, url: str, body: bytes, environ: Mapping[str, str], within_s: float
) -> tuple[int | None, dict[str, Any]]:
    """Status and JSON object of an answer; (None, {}) if nothing answers."""
    http = HttpClient(environ=environ, connect_timeout_s=_PROBE_TIMEOUT_S)
    headers = {"accept": "application/json", **({"content-type": "application/json"} if body else {})}
    try:
        target = parse_url(url, "the local model server")
        response = await http.request(method, target, headers, body, timeout_s=within_s)
        content = await response.read(_MAX_ANSWER_BYTES, within_s)
    except SpindleError:
        return None, {}
    finally:
        await http.aclose()
    try:
        answer = decode_foreign(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        answer = None
    return response.status, answer if isinstance(answer, dict) else {}


def _version(text: Any) -> tuple[int, int, int] | None:
    """`0.13.4-rc1` → (0, 13, 4)."""
    if not isinstance(text, str):
        return None
    parts = text.strip().removeprefix("v").split("-")[0].split("+")[0].split(".")
    if not 1 <= len(parts) <= 4 or not all(part.isdecimal() for part in parts):
        return None
    numbers = [int(part) for part in parts[:3]]
    numbers += [0] * (3 - len(numbers))
    return numbers[0], numbers[1], numbers[2]
