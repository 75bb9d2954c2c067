"""The table of model providers: the built-in ones and the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spindle.config.kinds import dotted
from spindle.errors import ConfigError
from spindle.model.provider import BUILT_IN, OPENAI_BASE_URL, RETRY_CAP, Provider
from spindle.workspace.files import shown

OSS_PORTS = {"ollama": 11434, "lmstudio": 1234}
OSS_MODELS = {"ollama": "gpt-oss:20b", "lmstudio": "openai/gpt-oss-20b"}
_OSS_NAMES = {"ollama": "Ollama", "lmstudio": "LM Studio"}


INSIDE = Provider(
    id="local",
    name="Local models",
    base_url="http://127.0.0.1:0/v1",  # a child process is given a port when it starts
    wire_api="chat",
    # A processor may read a long prompt for minutes before it writes a word; a child that has ended is noticed at once.
    stream_idle_timeout_ms=3_600_000,
    capabilities={"images": False},
    runs_inside=True,
)
"""The models that Spindle runs itself. Whoever has described a provider of that name means their own."""


def build_providers(
    merged: Mapping[str, Any], origins: Mapping[str, str], env: Mapping[str, str], warnings: list[str]
) -> dict[str, Provider]:
    """Every provider by id."""
    images = merged.get("spindle", {}).get("image_tool_output", "array")
    providers = _built_in(merged, env, images)
    for id, table in merged.get("model_providers", {}).items():
        if id in BUILT_IN:
            hint = "set openai_base_url for another address" if id == "openai" else "set CODEX_OSS_BASE_URL"
            warnings.append(f"[model_providers.{id}] is ignored: {id} is built in; {hint}, or choose another id")
            continue
        providers[id] = _provider(id, table, origins, images)
    return providers


def choose_provider(id: str, providers: Mapping[str, Provider], origin: str) -> Provider:
    if id not in providers:
        raise ConfigError(
            f"Model provider `{shown(id)}` not found (model_provider, set by {origin}); known: {', '.join(providers)}"
        )
    return providers[id]


def check_url(url: str, where: str) -> str:
    """A base address as we use it: http or https, without a slash at the end."""
    if not url.lower().startswith(("http://", "https://")) or not url.isprintable() or " " in url:
        raise ConfigError(f"{where} is not an http or https address")
    return url.rstrip("/")


def _built_in(merged: Mapping[str, Any], env: Mapping[str, str], images: str) -> dict[str, Provider]:
    base_url, where = OPENAI_BASE_URL, "the default"
    if merged.get("openai_base_url"):
        base_url, where = merged["openai_base_url"], "openai_base_url"
    elif env.get("OPENAI_BASE_URL", "").strip():
        base_url, where = env["OPENAI_BASE_URL"].strip(), "OPENAI_BASE_URL"
    openai = Provider(
        id="openai",
        name="OpenAI",
        base_url=check_url(base_url, where),
        requires_openai_auth=True,
        image_tool_output=images,
    )
    return {"openai": openai, **{id: _oss(id, env, images) for id in OSS_PORTS}, INSIDE.id: INSIDE}


def _oss(id: str, env: Mapping[str, str], images: str) -> Provider:
    base_url = env.get("CODEX_OSS_BASE_URL", "").strip()
    if not base_url:
        port = env.get("CODEX_OSS_PORT", "").strip() or str(OSS_PORTS[id])
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(f"CODEX_OSS_PORT is not a port number: {port!r}")
        base_url = f"http://localhost:{port}/v1"
    return Provider(
        id=id, name=_OSS_NAMES[id], base_url=check_url(base_url, "CODEX_OSS_BASE_URL"), image_tool_output=images
    )


def _provider(id: str, table: Mapping[str, Any], origins: Mapping[str, str], images: str) -> Provider:
    prefix = dotted(("model_providers", id))

    def where(key: str) -> str:
        origin = origins.get(f"{prefix}.{key}") or next(
            (label for name, label in origins.items() if name.startswith(f"{prefix}.")), "configuration"
        )
        return f"{origin}: {prefix}.{key}"

    if not table.get("name"):
        raise ConfigError(f"{where('name')} is missing; every provider needs a name")
    for key in ("http_headers", "env_http_headers", "query_params"):
        if not all(name.isprintable() and value.isprintable() for name, value in table.get(key, {}).items()):
            raise ConfigError(f"{where(key)} contains line ends or other control characters")
    return Provider(
        id=id,
        name=table["name"],
        base_url=check_url(table.get("base_url", OPENAI_BASE_URL), where("base_url")),
        env_key=table.get("env_key") or None,
        env_key_instructions=table.get("env_key_instructions"),
        bearer_token=table.get("experimental_bearer_token") or None,
        wire_api=table.get("wire_api", "responses"),
        auth_header=table.get("auth_header"),
        replay_reasoning=table.get("replay_reasoning", False),
        capabilities=dict(table.get("capabilities", {})),
        query_params=dict(table.get("query_params", {})),
        http_headers=dict(table.get("http_headers", {})),
        env_http_headers=dict(table.get("env_http_headers", {})),
        request_max_retries=min(table.get("request_max_retries", 4), RETRY_CAP),
        stream_max_retries=min(table.get("stream_max_retries", 5), RETRY_CAP),
        stream_idle_timeout_ms=table.get("stream_idle_timeout_ms", 300_000),
        requires_openai_auth=table.get("requires_openai_auth", False),
        supports_websockets=table.get("supports_websockets", False),
        image_tool_output=table.get("image_tool_output", images),
        ca_file=table.get("ca_file"),
        client_cert=table.get("client_cert"),
        client_key=table.get("client_key"),
    )
