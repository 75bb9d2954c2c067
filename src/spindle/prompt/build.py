"""The only door from a thread to a `Request`: which fields a model gets, and with which values. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.protocol.request import ModelFacts, Request, VisibleItem
from spindle.protocol.settings import ThreadSettings

SCHEMA_NAME = "codex_output_schema"
ENCRYPTED_REASONING = "reasoning.encrypted_content"


class ModelTraits(msgspec.Struct, frozen=True, kw_only=True):
    """What of a model shapes a request."""

    slug: str
    family: str = "default"
    supports_reasoning_summaries: bool = False
    default_effort: str | None = None
    support_verbosity: bool = False
    default_verbosity: str | None = None
    supports_parallel_tool_calls: bool = False
    accepts_images: bool = True
    keeps_raw_reasoning: bool = False
    """The provider gives reasoning out unencrypted, and wants it back unencrypted."""
    facts: ModelFacts = ModelFacts()
    """The rest, which only some wires ask for."""


def build_request(
    *,
    items: list[VisibleItem],
    instructions: bytes,
    tools: bytes,
    traits: ModelTraits,
    settings: ThreadSettings,
    thread_id: str,
    output_schema: dict[str, Any] | None = None,
    store: bool = False,
) -> Request:
    """One request. `items` come from a `VisibleFold`; `instructions` and `tools` are serialised once per thread.

    `store` is for providers that insist on keeping responses.
    """
    reasoning = _reasoning(traits, settings)
    return Request(
        model=settings.model,
        instructions=instructions,
        items=items,
        tools=tools,
        parallel_tool_calls=traits.supports_parallel_tool_calls,
        reasoning=reasoning,
        store=store,
        include=() if reasoning is None else (ENCRYPTED_REASONING,),
        prompt_cache_key=thread_id,
        text=_text(traits, settings, output_schema),
        service_tier=settings.service_tier,
        facts=msgspec.structs.replace(traits.facts, effort=settings.effort or traits.default_effort),
    )


def _reasoning(traits: ModelTraits, settings: ThreadSettings) -> dict[str, str] | None:
    if not traits.supports_reasoning_summaries:
        return None
    reasoning: dict[str, str] = {}
    if effort := settings.effort or traits.default_effort:
        reasoning["effort"] = effort
    if settings.summary != "none":
        reasoning["summary"] = settings.summary
    return reasoning


def _text(traits: ModelTraits, settings: ThreadSettings, schema: dict[str, Any] | None) -> dict[str, Any] | None:
    shape: dict[str, Any] = {}
    if traits.support_verbosity and (verbosity := settings.verbosity or traits.default_verbosity):
        shape["verbosity"] = verbosity
    if schema is not None:
        shape["format"] = {"type": "json_schema", "strict": True, "schema": schema, "name": SCHEMA_NAME}
    return shape or None
