"""What a Chat Completions server is sent for a thread."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from spindle.model.capabilities import Capabilities, default_capabilities
from spindle.model.provider import Provider
from spindle.model.wires.chat.wire import ChatWire
from spindle.model.wires.wire import Terms
from spindle.protocol.items import Item, developer_message, encode_json, message, user_message
from spindle.protocol.request import ModelFacts, Request, VisibleItem

CAN = default_capabilities("chat")
RUN = {
    "type": "function",
    "name": "run",
    "description": "Runs it.",
    "strict": False,
    "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}},
}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files. Send plain text, no JSON.",
    "format": {"definition": "GRAMMAR"},
}
PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
SENT_PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def call(call_id: str, arguments: str = "{}", name: str = "run") -> Item:
    return {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id}


def result(call_id: str, output: Any = "ok") -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def thought(text: str) -> Item:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}], "encrypted_content": None}


def said_call(call_id: str, arguments: str = "{}", name: str = "run") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def request(items: list[Item], tools: list[dict[str, Any]] | None = None, **fields: Any) -> Request:
    given = {"instructions": b'"base"', "prompt_cache_key": "T", **fields}
    visible = [VisibleItem.of(item) for item in items]
    return Request(model="m", items=visible, tools=encode_json([RUN] if tools is None else tools), **given)


def terms(can: Capabilities = CAN, base_url: str = "http://127.0.0.1:1/v1") -> Terms:
    return Terms(Provider(id="p", name="p", base_url=base_url), can)


def body(asked: Request, given: Terms | None = None) -> dict[str, Any]:
    return json.loads(ChatWire().encode(asked, given or terms()))


def messages(*items: Item, can: Capabilities = CAN) -> list[dict[str, Any]]:
    return body(request([*items]), terms(can))["messages"][1:]


# ---- messages ------------------------------------------------------------------------------------------


def test_instructions_and_the_developers_first_words_are_the_one_system_message() -> None:
    sent = body(request([developer_message("one"), developer_message("two"), user_message("hi")]))["messages"]
    assert sent == [{"role": "system", "content": "base\n\none\n\ntwo"}, {"role": "user", "content": "hi"}]


def test_without_any_text_there_is_no_system_message() -> None:
    sent = body(request([user_message("hi")], instructions=b'""'))["messages"]
    assert sent == [{"role": "user", "content": "hi"}]


def test_a_later_word_of_the_developer_is_a_user_message_in_a_block() -> None:
    assert messages(user_message("hi"), developer_message("mind this")) == [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": "<developer>\nmind this\n</developer>"},
    ]


def test_texts_of_a_message_are_joined_and_with_a_picture_they_are_parts() -> None:
    assert messages(user_message("a", "b")) == [{"role": "user", "content": "a\n\nb"}]
    item = user_message("look", "")
    item["content"] += [PICTURE, {"type": "input_text", "text": "at it"}]
    parts = [{"type": "text", "text": "look"}, SENT_PICTURE, {"type": "text", "text": "at it"}]
    assert messages(item) == [{"role": "user", "content": parts}]


def test_an_answer_is_one_message_and_its_results_follow_in_the_order_of_the_calls() -> None:
    sent = messages(
        user_message("go"),
        message("assistant", "First."),
        call("a"),
        call("b"),
        message("assistant", "Then."),
        result("b", "2"),
        result("a", "1"),
        message("assistant", "Done."),
        user_message("more"),
    )
    calls = [said_call("a"), said_call("b")]
    assert sent == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "First.\n\nThen.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "more"},
    ]


def test_calls_of_every_kind_are_functions() -> None:
    patch = {"type": "custom_tool_call", "name": "apply_patch", "input": "*** x", "call_id": "p"}
    shell = {"type": "local_shell_call", "call_id": "s", "action": {"command": ["ls"], "working_directory": "/d"}}
    remote = {**call("r", name="look"), "namespace": "mcp__docs__"}
    done = {"type": "custom_tool_call_output", "call_id": "p", "output": "done"}
    sent = messages(user_message("go"), patch, shell, remote, done, result("s"), result("r"))
    assert sent[1] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            said_call("p", '{"input":"*** x"}', "apply_patch"),
            said_call("s", '{"command":["ls"],"workdir":"/d"}', "shell"),
            said_call("r", name="mcp__docs__look"),
        ],
    }


@pytest.mark.parametrize("raw", ["", "nonsense", '{"cmd": "ec', "[1]", "null", "1", '{"a":' * 300 + "1" + "}" * 300])
def test_arguments_that_are_no_object_are_sent_inside_of_one(raw: str) -> None:
    sent = messages(user_message("go"), call("a", raw), result("a"))
    assert json.loads(sent[1]["tool_calls"][0]["function"]["arguments"]) == {"invalid_arguments": raw}


def test_arguments_that_are_an_object_keep_their_bytes() -> None:
    raw = '{ "cmd" : "é\\u00e9",\n "x": [1.0, null] }'
    sent = messages(user_message("go"), call("a", raw), result("a"))
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == raw


def test_names_and_ids_that_servers_refuse_are_replaced_and_the_pairs_stay() -> None:
    items = [user_message("go"), *(entry for _ in "12" for entry in (call("call_0", name="a.b c"), result("call_0")))]
    items += [call("too:odd", name=""), result("too:odd")]
    sent = messages(*items)
    calls = [entry["tool_calls"][0] for entry in sent if entry["role"] == "assistant"]
    assert [entry["function"]["name"] for entry in calls] == ["a_b_c", "a_b_c", "unknown_tool"]
    ids = [entry["id"] for entry in calls]
    assert ids[0] == "call_0" and len(set(ids)) == 3
    assert [entry["tool_call_id"] for entry in sent if entry["role"] == "tool"] == ids
    assert sent == messages(*items)


def test_an_output_without_text_says_so_and_a_missing_one_is_aborted() -> None:
    sent = messages(user_message("go"), call("a"), call("b"), call("c"), result("a", ""), result("c", []))
    assert [entry["content"] for entry in sent if entry["role"] == "tool"] == ["(no output)", "aborted", "(no output)"]


def test_pictures_of_results_come_in_one_message_after_the_last_of_them() -> None:
    items = [user_message("go"), call("a"), call("b"), result("a", [PICTURE])]
    items += [result("b", [{"type": "input_text", "text": "two"}, PICTURE])]
    assert messages(*items)[2:] == [
        {"role": "tool", "tool_call_id": "a", "content": "(picture below)"},
        {"role": "tool", "tool_call_id": "b", "content": "two\n(picture below)"},
        {"role": "user", "content": [SENT_PICTURE, SENT_PICTURE]},
    ]


def test_what_the_wire_has_no_place_for_is_left_out() -> None:
    others = [{"type": "web_search_call"}, {"type": "compaction", "encrypted_content": "x"}, {"type": "new_kind"}]
    others += [result("nobody asked"), thought("hm"), message("assistant", " \n")]
    assert messages(user_message("hi"), *others) == [{"role": "user", "content": "hi"}]


def test_a_conversation_has_a_person_in_it_and_ends_with_one() -> None:
    assert messages() == [{"role": "user", "content": "(continued)"}]
    assert messages(call("a"), result("a"))[0] == {"role": "user", "content": "(continued)"}
    assert messages(user_message("hi"), message("assistant", "ho"))[-1] == {"role": "user", "content": "(continue)"}


def test_lone_surrogates_do_not_make_a_body_impossible() -> None:
    assert messages(user_message("a"), call("a", '{"x":"\\ud800"}'), result("a", "b"))[-1]["content"] == "b"
    asked = request([])
    broken = VisibleItem(item=user_message("\ud800"), raw=b"{}")
    assert body(msgspec.structs.replace(asked, items=[broken]))["messages"][1]["content"] == "?"


# ---- reasoning -----------------------------------------------------------------------------------------


def test_reasoning_is_sent_back_only_where_it_is_wanted() -> None:
    items = [user_message("go"), thought("hm"), thought("so"), call("a"), result("a"), call("b"), result("b")]
    items += [
        thought("well"),
        message("assistant", "Done."),
        user_message("x"),
        thought("never said"),
        user_message("y"),
    ]
    assert "reasoning_content" not in json.dumps(messages(*items))
    sent = messages(*items, can=msgspec.structs.replace(CAN, replay_reasoning=True))
    told = [entry.get("reasoning_content") for entry in sent if entry["role"] == "assistant"]
    assert told == ["hm\n\nso", "(not available)", "well"]


# ---- settings ------------------------------------------------------------------------------------------


def test_a_request_has_these_keys_and_no_others() -> None:
    function = {"name": "run", "description": "Runs it.", "parameters": RUN["parameters"]}
    sent = body(request([user_message("hi")]))
    del sent["messages"]
    assert sent == {
        "model": "m",
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_tools_for_free_text_are_functions_and_hosted_ones_are_left_out() -> None:
    tools = body(request([user_message("hi")], [PATCH, {"type": "web_search"}, {**RUN, "strict": True}]))["tools"]
    patch, run = [tool["function"] for tool in tools]
    assert patch["parameters"]["required"] == ["input"]
    assert patch["description"].startswith("Edits files.\n") and patch["description"].endswith("grammar:\nGRAMMAR")
    assert run["name"] == "run" and run["strict"] is True


def test_without_tools_nothing_is_said_of_them() -> None:
    for tools in ([], [{"type": "web_search"}]):
        sent = body(request([user_message("hi")], tools))
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(sent)


@pytest.mark.parametrize(
    ("choice", "sent"),
    [("none", "none"), ("required", "required"), ("run", {"type": "function", "function": {"name": "run"}})],
)
def test_which_tool_must_be_called(choice: str, sent: object) -> None:
    assert body(request([user_message("hi")], tool_choice=choice))["tool_choice"] == sent


def test_what_a_server_does_not_know_is_left_out() -> None:
    can = msgspec.structs.replace(CAN, stream_options=False, parallel=False, tool_choice_none=False)
    sent = body(request([user_message("hi")]), terms(can))
    assert not {"stream_options", "parallel_tool_calls", "tool_choice"} & set(sent)
    assert body(request([user_message("hi")], tool_choice="run"), terms(can))["tool_choice"]


def test_a_server_may_know_the_limit_of_an_answer_by_its_newer_name_only() -> None:
    asked = request([user_message("hi")], facts=ModelFacts(max_output_tokens=77))
    sent = body(asked, terms(msgspec.structs.replace(CAN, max_completion_tokens=True)))
    assert sent["max_completion_tokens"] == 77 and "max_tokens" not in sent


def test_effort_schema_and_limit_are_said_where_they_are_set() -> None:
    schema = {"type": "object", "properties": {}}
    asked = request(
        [user_message("hi")],
        text={"format": {"type": "json_schema", "strict": True, "schema": schema, "name": "codex_output_schema"}},
        facts=ModelFacts(effort="high", max_output_tokens=77),
    )
    sent = body(asked)
    named = {"name": "codex_output_schema", "strict": True, "schema": schema}
    assert sent["response_format"] == {"type": "json_schema", "json_schema": named}
    assert (sent["reasoning_effort"], sent["max_tokens"]) == ("high", 77)
    at_openai = body(asked, terms(base_url="https://api.openai.com/v1"))
    assert (at_openai["max_completion_tokens"], at_openai["prompt_cache_key"]) == (77, "T")
    assert "max_tokens" not in at_openai and "prompt_cache_key" not in sent


# ---- growing -------------------------------------------------------------------------------------------


def test_a_growing_thread_gives_the_same_bytes_as_encoding_it_anew() -> None:
    items = [developer_message("d"), user_message("go")]
    for number in range(30):
        items += [thought("hm"), message("assistant", f"{number}"), call(f"c{number}"), call(f"d{number}")]
        items += [result(f"c{number}", [PICTURE]), result(f"d{number}"), developer_message("now"), user_message("on")]
    wire, visible, before = ChatWire(), [VisibleItem.of(item) for item in items], []
    for end in range(2, len(items) + 1, 4):
        asked = msgspec.structs.replace(request([]), items=visible[:end])
        grown = bytes(wire.encode(asked, terms()))
        assert grown == bytes(ChatWire().encode(asked, terms()))
        if visible[end - 1].item.get("role") == "user":
            sent = json.loads(grown)["messages"]
            assert sent[: len(before)] == before
            before = sent


def test_only_what_is_new_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    from spindle.model.wires.chat import conversation

    taken: list[Item] = []
    take = conversation.Conversation.take
    monkeypatch.setattr(conversation.Conversation, "take", lambda self, item: (taken.append(item), take(self, item))[1])
    wire, visible = ChatWire(), [VisibleItem.of(user_message(str(number))) for number in range(100)]
    for end in (50, 51, 100):
        wire.encode(msgspec.structs.replace(request([]), items=visible[:end]), terms())
    assert taken == [entry.item for entry in visible]
    wire.encode(msgspec.structs.replace(request([]), items=visible[1:]), terms())
    assert len(taken) == 199
