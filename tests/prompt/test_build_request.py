"""The request body: which fields a model gets, and the same bytes for the same content."""

from __future__ import annotations

import msgspec
import pytest

from spindle.prompt.build import ModelTraits, build_request
from spindle.protocol.items import decode_json, encode_json, user_message
from spindle.protocol.request import VisibleItem
from spindle.protocol.settings import ThreadSettings

CODEX = ModelTraits(
    slug="gpt-5.2-codex",
    family="codex",
    supports_reasoning_summaries=True,
    default_effort="medium",
    supports_parallel_tool_calls=True,
)
PLAIN = ModelTraits(slug="plain")
TALKER = ModelTraits(slug="talker", support_verbosity=True, default_verbosity="low")
SETTINGS = ThreadSettings(cwd="/w", model="gpt-5.2-codex", model_provider="openai")
SCHEMA = {"type": "object", "properties": {"b": {}, "a": {}}}


def request(traits: ModelTraits = CODEX, *, schema=None, store=False, **changes):
    return build_request(
        items=[VisibleItem.of(user_message("hi é"))],
        instructions=encode_json("BASE"),
        tools=b"[]",
        traits=traits,
        settings=msgspec.structs.replace(SETTINGS, **changes),
        thread_id="THREAD",
        output_schema=schema,
        store=store,
    )


def body(traits: ModelTraits = CODEX, **options) -> dict:
    return decode_json(request(traits, **options).encode())


def test_the_body_has_these_very_bytes():
    golden = (
        '{"model":"gpt-5.2-codex","instructions":"BASE","input":[{"type":"message","role":"user",'
        '"content":[{"type":"input_text","text":"hi é"}]}],"tools":[],"tool_choice":"auto",'
        '"parallel_tool_calls":true,"reasoning":{"effort":"medium","summary":"auto"},"store":false,"stream":true,'
        '"include":["reasoning.encrypted_content"],"prompt_cache_key":"THREAD"}'
    )
    assert request().encode().decode() == golden
    assert request().encode() == request().encode()


def test_a_model_without_reasoning_summaries_gets_none():
    got = body(PLAIN)
    assert (got["reasoning"], got["include"], got["parallel_tool_calls"]) == (None, [], False)


@pytest.mark.parametrize(
    ("traits", "changes", "reasoning"),
    [
        (CODEX, {"effort": "high"}, {"effort": "high", "summary": "auto"}),
        (CODEX, {"summary": "detailed"}, {"effort": "medium", "summary": "detailed"}),
        (CODEX, {"summary": "none"}, {"effort": "medium"}),
        (msgspec.structs.replace(CODEX, default_effort=None), {}, {"summary": "auto"}),
        (PLAIN, {"effort": "high"}, None),
    ],
)
def test_effort_and_summary_follow_settings_then_model(traits, changes, reasoning):
    assert body(traits, **changes)["reasoning"] == reasoning


@pytest.mark.parametrize(
    ("traits", "changes", "text"),
    [
        (TALKER, {}, {"verbosity": "low"}),
        (TALKER, {"verbosity": "high"}, {"verbosity": "high"}),
        (CODEX, {"verbosity": "high"}, None),
    ],
)
def test_verbosity_goes_only_to_models_that_know_it(traits, changes, text):
    assert body(traits, **changes).get("text") == text


def test_an_output_schema_is_sent_in_the_order_given():
    assert (
        request(schema=SCHEMA)
        .encode()
        .endswith(
            b',"text":{"format":{"type":"json_schema","strict":true,"schema":'
            b'{"type":"object","properties":{"b":{},"a":{}}},"name":"codex_output_schema"}}}'
        )
    )


def test_the_service_tier_is_sent_only_when_configured():
    assert "service_tier" not in body()
    assert body(service_tier="flex")["service_tier"] == "flex"


def test_store_is_false_unless_the_provider_insists():
    assert body()["store"] is False and body(store=True)["store"] is True


def test_a_compaction_can_forbid_tools_without_changing_the_list():
    got = msgspec.structs.replace(request(), tool_choice="none", parallel_tool_calls=False)
    sent = decode_json(got.encode())
    assert (sent["tool_choice"], sent["parallel_tool_calls"], sent["tools"]) == ("none", False, body()["tools"])
