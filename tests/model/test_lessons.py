"""What refusals teach, and what they do not: words of real servers, and requests that grow."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.model.call_ids import CallIds, SentIds, ShownCalls, is_sendable
from spindle.model.capabilities import Capabilities, CapabilityMemory, default_capabilities
from spindle.model.capability_file import forget
from spindle.model.headers import key_headers, version_headers
from spindle.model.lessons import Refused, is_about_opaque, lessons_of, notice
from spindle.model.lowering import Lowering
from spindle.model.provider import FLAGS, Provider
from spindle.model.server_words import read_words
from spindle.protocol.items import developer_message, encode_json, user_message
from spindle.protocol.request import ModelFacts, Request, VisibleItem
from wires import asks, call, output

PICTURE = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_image", "image_url": "data:image/png;base64,x"}],
}
ASKED = asks(
    [user_message("hi"), PICTURE],
    text={
        "format": {"type": "json_schema", "strict": True, "schema": {"type": "object"}, "name": "codex_output_schema"}
    },
    facts=ModelFacts(max_output_tokens=500),
)


def learned(
    wire: str, said: Any, status: int = 400, request: Request = ASKED, provider: str = "p", **flags: bool
) -> dict[str, bool]:
    served = Provider(id=provider, name=provider, base_url="http://h/v1", wire_api=wire)
    body = said if isinstance(said, dict) else {"error": {"message": said}}
    words = read_words(json.dumps(body).encode(), {})
    can = msgspec.structs.replace(default_capabilities(wire), **flags)
    return lessons_of(Refused(status, words, served, wire, request, can))


TAUGHT: list[tuple[str, Any, dict[str, bool]]] = [
    ("chat", "Unrecognized request argument supplied: stream_options", {"stream_options": False}),
    ("chat", {"error": {"message": "bad value", "param": "stream_options.include_usage"}}, {"stream_options": False}),
    ("chat", "[{'type': 'extra_forbidden', 'loc': ('body', 'parallel_tool_calls')}]", {"parallel": False}),
    ("responses", "Unsupported parameter: 'parallel_tool_calls' is not supported", {"parallel": False}),
    ("messages", "tool_choice.disable_parallel_tool_use: Extra inputs are not permitted", {"parallel": False}),
    ("chat", "This response_format type is unavailable now", {"json_schema": False}),
    ("chat", "Invalid parameter: 'response_format' of type 'json_schema' is not supported", {"json_schema": False}),
    ("messages", "output_config.format: Extra inputs are not permitted", {"json_schema": False}),
    ("responses", "'type' of tool must be 'function'", {"custom_tools": False, "hosted_tools": False}),
    ("responses", "tools[3].type: unknown value", {"custom_tools": False, "hosted_tools": False}),
    ("responses", "Unsupported tool type: custom", {"custom_tools": False}),
    ("responses", "unknown variant `web_search`, expected `function`, in tools", {"hosted_tools": False}),
    ("responses", "Hosted tool 'web_search' is not supported with this model", {"hosted_tools": False}),
    ("chat", "registry.ollama.ai/library/gemma:2b does not support tools", {"tools": False}),
    (
        "chat",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        {"tools": False},
    ),
    ("chat", "tools param requires --jinja flag", {"tools": False}),
    ("chat", "Function calling is not enabled for this model", {"tools": False}),
    ("chat", "Unrecognized request argument supplied: tools", {"tools": False}),
    ("chat", {"detail": [{"loc": ["body", "tools"], "msg": "Extra inputs are not permitted"}]}, {"tools": False}),
    ("chat", "`tool_choice` and `tools` are not supported by this model", {"tools": False}),
    ("chat", {"error": {"message": "Unknown parameter", "param": "tool_choice"}}, {"tool_choice_none": False}),
    (
        "chat",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        {"max_completion_tokens": True},
    ),
    ("chat", "At most 0 image(s) may be provided in one request.", {"images": False}),
    (
        "chat",
        {"detail": [{"loc": ["body", "messages", 2, "content"], "msg": "Input should be a valid string"}]},
        {"images": False},
    ),
    ("chat", "image input is not supported - hint: you may need to provide the mmproj", {"images": False}),
    ("chat", "Invalid content type. image_url is only supported by certain models.", {"images": False}),
    ("chat", "unknown variant `image_url`, expected `text`", {"images": False}),
    ("chat", "deepseek-chat does not support image input", {"images": False}),
    ("chat", "Missing `reasoning_content` field in the assistant message at index 3", {"replay_reasoning": True}),
    ("responses", "Unexpected message role: developer", {"developer_role": False}),
]


@pytest.mark.parametrize(("wire", "said", "flags"), TAUGHT)
def test_the_words_of_a_refusal_name_the_flag(wire: str, said: Any, flags: dict[str, bool]) -> None:
    assert learned(wire, said) == flags
    assert learned(wire, said, 422) == flags
    is_told_by_crashes = set(flags) <= {"tools", "images"}
    assert learned(wire, said, 500) == (flags if is_told_by_crashes else {}), "llama.cpp refuses these two with 500"
    assert learned(wire, said, 503) == {}, "a server that is broken teaches nothing"
    text = notice(Provider(id="lab", name="Lab"), flags)
    assert text.startswith("Lab ") and text.count("Lab") == 1


@pytest.mark.parametrize(("wire", "said", "flags"), TAUGHT)
def test_a_flag_is_lowered_once(wire: str, said: Any, flags: dict[str, bool]) -> None:
    if "replay_reasoning" not in flags:
        again = learned(wire, said, **flags)
        assert not set(again) & set(flags)


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 8192 tokens, however you requested 9000 tokens",
        "The model `gpt-nine` does not exist",
        "Invalid 'temperature'",
        "messages: text content blocks must be non-empty",
        "Your account has no credit; see tools at https://example.com",
        "Unknown model. Look at your tools, there are others",
        "tools.0.description: Extra inputs are not permitted",
        "",
    ],
)
@pytest.mark.parametrize("wire", ["responses", "chat", "messages"])
def test_other_refusals_teach_nothing(wire: str, said: str) -> None:
    assert learned(wire, said) == {}


def test_what_was_not_asked_for_cannot_be_refused() -> None:
    plain = asks([user_message("hi")])
    assert learned("chat", "response_format is not supported", request=plain) == {}
    assert learned("chat", "image input is not supported", request=plain) == {}
    assert learned("messages", "tool_choice must be auto", request=plain) == {}
    nothing = asks([user_message("hi")], tool_choice="none")
    assert learned("chat", "tool_choice must be auto", request=nothing) == {"tool_choice_none": False}


def test_only_servers_on_this_computer_are_taken_to_lack_the_responses_api() -> None:
    assert learned("responses", "404 page not found", 404, provider="ollama") == {"responses": False}
    assert learned("responses", "model 'gpt-oss:20b' not found", 404, provider="ollama") == {}
    assert learned("responses", "404 page not found", 404) == {}


@pytest.mark.parametrize(
    ("said", "is_so"),
    [
        ("messages.1.content.0: Invalid `signature` in `thinking` block", True),
        ("The encrypted content gAAA could not be verified.", True),
        ("Invalid `data` in `redacted_thinking` block", True),
        ("`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified", True),
        ("Invalid signature", False),
        ("Your organization could not be found", False),
    ],
)
def test_words_about_parts_that_only_their_server_can_read(said: str, is_so: bool) -> None:
    assert is_about_opaque(read_words(json.dumps({"error": {"message": said}}).encode(), {})) is is_so


def test_every_flag_that_can_be_configured_is_one_that_requests_depend_on() -> None:
    kinds = {name: type(getattr(Capabilities(), name)) for name in Capabilities.__struct_fields__}
    assert set(FLAGS) == {name for name, kind in kinds.items() if kind is bool}


# ---- the memory --------------------------------------------------------------------------------------

LAB = Provider(id="lab", name="Lab", base_url="http://me:secret@h/v1", wire_api="chat")


def test_two_processes_do_not_lose_each_others_lessons(tmp_path: Path) -> None:
    path = str(tmp_path / "spindle" / "capabilities.json")
    one, other = CapabilityMemory(path, 100.0), CapabilityMemory(path, 100.0)
    assert one.of(LAB, "chat", "m").images and other.of(LAB, "chat", "m").images
    one.learn(LAB, "chat", "m", {"images": False}, "no eyes", 100.0)
    other.learn(LAB, "chat", "m", {"tools": False}, "no hands", 101.0)
    third = CapabilityMemory(path, 200.0).of(LAB, "chat", "m")
    assert (third.images, third.tools) == (False, False)
    assert CapabilityMemory(path, 200.0).of(LAB, "chat", "another").images
    text = Path(path).read_text()
    assert "secret" not in text and "chat http://h/v1" in text and os.stat(path).st_mode & 0o777 == 0o600
    assert forget(path) and not forget(path)
    assert CapabilityMemory(path, 200.0).of(LAB, "chat", "m").images


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version":2,"endpoints":{"chat http://h/v1":{"m":{"images":{"value":false,"since":100}}}}}',
        '{"version":1,"endpoints":{"chat http://h/v1":{"m":{"images":{"value":"no","since":100}}}}}',
        '{"version":1,"endpoints":{"chat http://h/v1":{"m":{"images":[],"flight":{"value":false,"since":1}}}}}',
        '{"version":1,"endpoints":{"chat http://h/v1":{"m":{"images":{"value":false,"since":"long ago"}}}}}',
        '{"version":1,"endpoints":["chat"]}',
    ],
)
def test_a_damaged_memory_teaches_nothing_and_is_written_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "capabilities.json"
    path.write_text(text)
    memory = CapabilityMemory(str(path), 100.0)
    assert memory.of(LAB, "chat", "m") == default_capabilities("chat")
    memory.learn(LAB, "chat", "m", {"tools": False}, "", 100.0)
    assert not CapabilityMemory(str(path), 100.0).of(LAB, "chat", "m").tools


def test_a_home_that_cannot_be_written_keeps_nobody_from_working() -> None:
    memory = CapabilityMemory("/proc/nowhere/capabilities.json", 100.0)
    memory.learn(LAB, "chat", "m", {"images": False}, "", 100.0)
    assert not memory.of(LAB, "chat", "m").images


def test_the_order_of_knowledge(tmp_path: Path) -> None:
    path = str(tmp_path / "capabilities.json")
    memory = CapabilityMemory(path, 100.0)
    catalogued = {"images": False, "parallel": False}
    assert not memory.of(LAB, "chat", "m", catalogued).images
    memory.learn(LAB, "chat", "m", {"images": True, "tools": False}, "", 100.0)
    found = memory.of(LAB, "chat", "m", catalogued)
    assert (found.images, found.parallel, found.tools) == (True, False, False)
    sure = msgspec.structs.replace(LAB, id="sure", capabilities={"tools": True, "images": False})
    found = memory.of(sure, "chat", "m", catalogued)
    assert (found.images, found.tools) == (False, True)
    replaying = msgspec.structs.replace(LAB, id="r", replay_reasoning=True)
    assert memory.of(replaying, "chat", "m").replay_reasoning and not memory.of(LAB, "chat", "m").replay_reasoning


# ---- lowering ----------------------------------------------------------------------------------------


def test_a_lowered_request_keeps_the_objects_of_the_one_before() -> None:
    can = msgspec.structs.replace(default_capabilities("responses"), images=False, developer_role=False)
    lowering = Lowering()
    items = [*ASKED.items, *asks([developer_message("obey"), call("a"), output("a")]).items]
    first = lowering.apply(msgspec.structs.replace(ASKED, items=items[:3]), can, "responses").items
    second = lowering.apply(msgspec.structs.replace(ASKED, items=items), can, "responses").items
    assert all(one is other for one, other in zip(first, second, strict=False))
    assert [shown.item.get("role") for shown in second[:3]] == ["user", "user", "user"]
    assert second[2].item["content"][0]["text"] == "<developer>\nobey\n</developer>"
    fresh = Lowering().apply(msgspec.structs.replace(ASKED, items=items), can, "responses").items
    assert [shown.raw for shown in fresh] == [shown.raw for shown in second]


# ---- ids of calls ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [
        ("call_1", True),
        ("x" * 40, True),
        ("x" * 41, False),
        ("functions.run:0", False),
        ("", False),
        (None, False),
        ("ü", False),
        ("taken", False),
    ],
)
def test_an_id_is_kept_if_every_server_takes_it_and_it_is_new(given: str | None, is_kept: bool) -> None:
    ids = CallIds(["taken"], lambda: "0199-new")
    taken = ids.take(given)
    assert (taken == given) is is_kept and is_sendable(taken)
    assert is_kept or (taken.startswith("call_") and len(taken) == 29)
    assert ids.take(given) != taken, "an id is given once"


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=4), max_size=8))
def test_ids_of_shown_calls_are_those_of_the_request_whatever_was_asked_before(steps: list[list[str]]) -> None:
    shown_calls = ShownCalls()
    thread: list[VisibleItem] = []
    for step in steps:
        # Each request goes on from the one before, or begins anew, as after a compaction.
        thread = [*(thread if len(step) % 2 else thread[:2])]
        for call_id in step:
            thread.append(VisibleItem.of({"type": "function_call", "name": "f", "arguments": "{}", "call_id": call_id}))
            thread.append(VisibleItem.of({"type": "function_call_output", "call_id": f"of {call_id}", "output": ""}))
        shown = shown_calls.ids(thread)
        assert {call_id for call_id in "abcd" if call_id in shown} == {one.item["call_id"] for one in thread[0::2]}


@given(st.lists(st.sampled_from(["a", "b", "call_0", "no good", "x" * 50, ""]), max_size=12))
def test_ids_that_are_sent_are_unique_sendable_and_a_function_of_the_record(recorded: list[str]) -> None:
    def sent() -> list[tuple[str, str]]:
        ids = SentIds()
        return [(ids.of_call(call_id), ids.of_output(call_id)) for call_id in recorded]

    pairs = sent()
    assert pairs == sent() and all(of_call == of_output for of_call, of_output in pairs)
    names = [of_call for of_call, _ in pairs]
    assert len(set(names)) == len(names) and all(map(is_sendable, names))
    first = {call_id: names[recorded.index(call_id)] for call_id in recorded}
    assert all(first[call_id] == call_id for call_id in ("a", "b", "call_0") if call_id in first)


def test_calls_that_share_an_id_are_answered_in_their_order() -> None:
    ids = SentIds()
    one, other = ids.of_call("c"), ids.of_call("c")
    assert one != other and [ids.of_output("c"), ids.of_output("c")] == [one, other]


# ---- headers -----------------------------------------------------------------------------------------

BEARER = {"authorization": "Bearer K", "ChatGPT-Account-ID": "acc"}


@pytest.mark.parametrize(
    ("wire", "fields", "headers"),
    [
        ("responses", {}, BEARER),
        ("chat", {}, BEARER),
        ("messages", {}, {"x-api-key": "K", "ChatGPT-Account-ID": "acc"}),
        ("messages", {"auth_header": "bearer"}, BEARER),
        ("responses", {"base_url": "https://x.openai.azure.com/openai"}, {**BEARER, "api-key": "K"}),
        ("chat", {"name": "Azure"}, {**BEARER, "api-key": "K"}),
        ("responses", {"name": "Azure", "http_headers": {"Api-Key": "other"}}, BEARER),
        ("messages", {"name": "Azure"}, {"x-api-key": "K", "ChatGPT-Account-ID": "acc"}),
    ],
)
def test_the_key_is_spelled_as_the_server_wants_it(wire: str, fields: dict[str, Any], headers: dict[str, str]) -> None:
    provider = Provider(**{"id": "p", "name": "p", "base_url": "https://h/v1", **fields})
    assert key_headers(provider, wire, BEARER) == headers
    assert key_headers(provider, wire, {}) == {}


def test_the_version_of_the_messages_api_is_that_of_the_vendor_at_the_vendor_alone() -> None:
    vendor = Provider(id="a", name="a", base_url="https://api.anthropic.com/v1")
    gateway = Provider(id="g", name="g", base_url="https://api.anthropic.com.gateway.example/v1")
    assert version_headers(vendor, "messages") == {"anthropic-version": "2026-10-21"}
    assert version_headers(gateway, "messages") == {"anthropic-version": "2023-06-01"}
    assert version_headers(vendor, "chat") == {}


def test_tools_are_the_same_bytes_whatever_was_asked_before() -> None:
    can = msgspec.structs.replace(default_capabilities("responses"), custom_tools=False)
    (patch,) = [
        tool
        for tool in json.loads(Lowering().apply(ASKED, can, "responses").tools)
        if tool["type"] == "function" and tool["name"] == "apply_patch"
    ]
    assert patch["parameters"]["required"] == ["input"] and "begin_patch" in patch["description"]
    assert encode_json(json.loads(Lowering().apply(ASKED, can, "responses").tools)).count(b'"web_search"') == 1
