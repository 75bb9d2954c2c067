"""What a thread looks like as the body of a Messages request."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from spindle.model.capabilities import Capabilities
from spindle.model.wires.messages.wire import MessagesWire
from spindle.model.wires.wire import Terms
from spindle.protocol.items import Item, assistant_message, developer_message, user_message
from spindle.protocol.request import ModelFacts, VisibleItem
from wire_rules import cache_marks, messages_prefix, messages_problems
from wires import ORIGIN, PNG, asks, body, call, output, terms, visible


def sent(items: list[Any], **fields: Any) -> dict[str, Any]:
    """The body for these items; every server takes it."""
    given = body(MessagesWire(), asks(items, **fields))
    assert messages_problems(given) == []
    return given


def said(given: dict[str, Any]) -> list[tuple[str, Any]]:
    """Who says what: the texts and results of a body, in order."""
    return [
        (message["role"], block.get("text", block.get("content", block.get("name"))))
        for message in given["messages"]
        for block in message["content"]
    ]


def thinking(text: str = "hm", signature: str = "SIG") -> VisibleItem:
    block = {"type": "thinking", "thinking": text, "signature": signature}
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}
    return VisibleItem.of(item, ORIGIN, {"thinking": block})


def test_base_text_and_leading_developer_words_are_the_system_text_and_later_ones_a_users():
    given = sent([developer_message("rules"), user_message("hi"), developer_message("changed"), user_message("go")])
    assert [block["text"] for block in given["system"]] == ["You help.", "rules"]
    assert said(given) == [("user", "hi"), ("user", "<developer>\nchanged\n</developer>"), ("user", "go")]
    assert len(given["messages"]) == 1


def test_only_the_keys_that_every_version_takes_are_sent():
    given = sent([user_message("hi")])
    assert list(given) == ["model", "system", "tools", "messages", "max_tokens", "stream"]


def test_the_items_of_an_answer_are_one_message_and_results_come_first_in_the_next_in_the_order_of_the_calls():
    items = [user_message("go"), assistant_message("I look."), call("a"), call("b"), output("b", "2"), output("a", "1")]
    given = sent([*items, user_message("more")])
    assert [[block["type"] for block in message["content"]] for message in given["messages"]] == [
        ["text"],
        ["text", "tool_use", "tool_use"],
        ["tool_result", "tool_result", "text"],
    ]
    assert [block.get("tool_use_id") for block in given["messages"][2]["content"]] == ["a", "b", None]


def test_a_result_that_was_recorded_late_still_follows_its_call():
    given = sent([user_message("go"), call("a"), user_message("hurry"), output("a", "done")])
    assert said(given) == [("user", "go"), ("assistant", "exec_command"), ("user", "done"), ("user", "hurry")]


def test_a_call_without_a_result_is_aborted():
    given = sent([user_message("go"), call("a"), user_message("more")])
    result = given["messages"][2]["content"][0]
    assert (result["content"], result["is_error"]) == ("aborted", True)


@pytest.mark.parametrize(
    ("arguments", "sent_as"),
    [
        ('{"cmd": "echo hi"}', {"cmd": "echo hi"}),
        ("", {"invalid_arguments": ""}),
        ('{"cmd": "echo', {"invalid_arguments": '{"cmd": "echo'}),
        ("[1]", {"invalid_arguments": "[1]"}),
        ("null", {"invalid_arguments": "null"}),
        ('{"n": 123456789012345678901234567890}', {"n": 123456789012345678901234567890}),
    ],
)
def test_arguments_are_an_object_whatever_the_model_wrote(arguments: str, sent_as: dict[str, Any]):
    given = sent([user_message("go"), call("a", arguments), output("a")])
    assert given["messages"][1]["content"][0]["input"] == sent_as


def test_calls_of_every_kind_are_sent():
    items: list[Item] = [
        user_message("go"),
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch", "call_id": "p"},
        {"type": "local_shell_call", "call_id": "s", "action": {"type": "exec", "command": ["ls"], "timeout_ms": 5}},
        call("m", "{}", "made up.name!"),
        {"type": "web_search_call", "status": "completed"},
        {"type": "custom_tool_call_output", "call_id": "p", "output": "ok"},
        output("s"),
        output("m"),
    ]
    calls = sent(items)["messages"][1]["content"]
    assert [(block["name"], block["input"]) for block in calls] == [
        ("apply_patch", {"input": "*** Begin Patch"}),
        ("shell", {"command": ["ls"], "timeout_ms": 5}),
        ("made_up_name_", {}),
    ]


def test_ids_that_no_server_takes_are_replaced_the_same_way_every_time():
    long, spelled = "x" * 60, "functions.exec:0"
    items = [user_message("go")]
    for call_id in ("fine-1", long, spelled, "fine-1", ""):
        items += [call(call_id), output(call_id, f"for {call_id}")]
    given = sent(items)
    ids = [block["id"] for message in given["messages"] for block in message["content"] if block["type"] == "tool_use"]
    assert ids[0] == "fine-1" and len(set(ids)) == 5 and sent(items) == given


@pytest.mark.parametrize(
    ("given", "content"),
    [
        ("", "(no output)"),
        (" \n", "(no output)"),
        ([], "(no output)"),
        ([{"type": "input_text", "text": "a"}], [{"type": "text", "text": "a"}]),
        (
            [{"type": "input_image", "image_url": PNG}],
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}],
        ),
    ],
)
def test_results_are_never_empty_and_hold_pictures(given: Any, content: Any):
    result = sent([user_message("go"), call("a"), output("a", given)])["messages"][2]["content"][0]
    del result["cache_control"]
    assert result == {"type": "tool_result", "tool_use_id": "a", "content": content}


@pytest.mark.parametrize(
    ("text", "is_error"),
    [
        ("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\n", None),
        ("Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\n", True),
        ("failed to parse function arguments: missing field `cmd`", True),
        ("aborted by user after 1.0s", True),
        ("unsupported call: no_such_tool", True),
        ("`rm -rf /` rejected: it would destroy the system", True),
        ("exec command rejected by user", True),
        ("patch rejected: empty patch", True),
        ("write_stdin failed: Unknown process id 7", True),
        ("unable to locate image at `a.png`: no such file", True),
        ("Plan updated", None),
    ],
)
def test_a_result_that_tells_of_a_failure_says_so(text: str, is_error: bool | None):
    result = sent([user_message("go"), call("a"), output("a", text)])["messages"][2]["content"][0]
    assert result.get("is_error") is is_error


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("https://example.com/a.png", {"type": "url", "url": "https://example.com/a.png"}),
        ("data:image/jpg;base64,AAAA", {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"}),
        ("data:image/svg+xml;base64,AAAA", None),
        ("data:image/png,raw", None),
        ("file:///etc/passwd", None),
    ],
)
def test_a_picture_is_sent_in_a_form_that_is_taken_or_a_text_stands_for_it(url: str, source: dict[str, str] | None):
    parts = [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": url}]
    given = sent([{"type": "message", "role": "user", "content": parts}])
    assert given["messages"][0]["content"][1].get("source") == source


def test_blank_texts_are_left_out():
    given = sent([user_message("go"), assistant_message(" \n"), user_message(""), assistant_message(""), call("a")])
    assert said(given) == [("user", "go"), ("assistant", "exec_command"), ("user", "aborted")]


def test_a_blank_word_after_the_models_is_a_word_that_stays():
    given = sent([user_message("go"), assistant_message("a"), user_message(" "), user_message("more")])
    assert said(given) == [("user", "go"), ("assistant", "a"), ("user", "(continue)"), ("user", "more")]


def test_a_thread_that_the_model_begins_gets_a_first_word_and_one_that_it_ends_a_last_one():
    given = sent([assistant_message("where was I")])
    assert [role for role, _ in said(given)] == ["user", "assistant", "user"]
    assert said(given)[0] == ("user", "(continued)")
    assert [role for role, _ in said(sent([]))] == ["user"]
    given = sent([assistant_message("where was I"), user_message("there")])
    assert [text for _, text in said(given)] == ["(continued)", "where was I", "there"]


def test_thinking_goes_back_verbatim_and_in_its_place():
    block = {"type": "redacted_thinking", "data": "R"}
    redacted = VisibleItem.of({"type": "reasoning", "summary": []}, ORIGIN, {"thinking": block})
    items = [user_message("go"), thinking(), redacted, assistant_message("so"), call("a"), output("a")]
    blocks = sent(items)["messages"][1]["content"]
    assert blocks[:2] == [{"type": "thinking", "thinking": "hm", "signature": "SIG"}, block]
    assert [block["type"] for block in blocks[2:]] == ["text", "tool_use"]


def test_reasoning_of_other_origins_and_thinking_that_led_to_nothing_stay_at_home():
    elsewhere = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "x"}], "encrypted_content": "ENC"}
    answered = [user_message("go"), elsewhere, assistant_message("a"), user_message("b")]
    given = sent([*answered, thinking(), user_message("c")])
    assert said(given) == [("user", "go"), ("assistant", "a"), ("user", "b"), ("user", "c")]
    assert "ENC" not in json.dumps(given) and "SIG" not in json.dumps(given)


def test_an_answer_that_paused_is_followed_by_a_word_that_stays():
    paused = VisibleItem.of(assistant_message("half"), ORIGIN, {"paused": True})
    first = sent([user_message("go"), paused])
    second = sent([user_message("go"), paused, assistant_message("whole"), user_message("next")])
    assert messages_prefix(second)[: len(messages_prefix(first))] == messages_prefix(first)


# ---- tools and settings ------------------------------------------------------------------------------


def test_tools_are_functions_and_the_free_text_tool_takes_one_string():
    run, patch = sent([user_message("go")])["tools"]
    assert run == {
        "name": "exec_command",
        "description": "Runs a command.",
        "input_schema": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
    }
    assert patch["input_schema"]["required"] == ["input"] and "start: begin_patch" in patch["description"]


def test_schemas_of_others_are_made_to_fit():
    odd = [
        {"type": "function", "name": "mcp__s__t", "parameters": {"oneOf": [{"type": "object"}]}},
        {"type": "function", "name": "mcp__s__t", "parameters": None},
        {"type": "function", "name": "dots.and spaces", "parameters": {"type": "object", "properties": None}},
    ]
    tools = sent([user_message("go")], tools=odd)["tools"]
    empty = {"type": "object", "properties": {}}
    assert tools == [
        {"name": "mcp__s__t", "input_schema": empty},
        {"name": "dots_and_spaces", "input_schema": empty},
    ]


def test_a_history_of_calls_is_never_sent_without_tools():
    given = sent([user_message("go"), call("a", name="gone"), output("a")], tools=[])
    assert [tool["name"] for tool in given["tools"]] == ["gone"] and given["tool_choice"] == {"type": "none"}
    assert "tools" not in sent([user_message("go")], tools=[])


@pytest.mark.parametrize(
    ("choice", "is_parallel", "sent_as"),
    [
        ("auto", True, None),
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        ("required", True, {"type": "any"}),
        ("exec_command", False, {"type": "tool", "name": "exec_command", "disable_parallel_tool_use": True}),
    ],
)
def test_tool_choice(choice: str, is_parallel: bool, sent_as: dict[str, Any] | None):
    given = sent([user_message("go")], tool_choice=choice, parallel_tool_calls=is_parallel)
    assert given.get("tool_choice") == sent_as


def test_a_server_that_does_not_know_about_parallel_calls_is_not_told():
    plain = terms("messages")
    capable = Terms(plain.provider, msgspec.structs.replace(plain.capabilities, parallel=False))
    assert isinstance(capable.capabilities, Capabilities)
    given = body(MessagesWire(), asks([user_message("go")], parallel_tool_calls=False), capable)
    assert "tool_choice" not in given


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (ModelFacts(), 32_000),
        (ModelFacts(output_limit=8192), 8192),
        (ModelFacts(output_limit=8192, max_output_tokens=4000), 4000),
        (ModelFacts(window=10_000), 9_000),
        (ModelFacts(window=10), 1024),
    ],
)
def test_how_much_may_be_written(facts: ModelFacts, expected: int):
    given = sent([user_message("x" * 3_000)], tools=[], facts=facts)["max_tokens"]
    assert given == expected or (facts.window == 10_000 and expected < given < 9_300)


def test_a_picture_does_not_count_as_a_long_text():
    big = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 400_000}
    given = sent([{"type": "message", "role": "user", "content": [big]}], facts=ModelFacts(window=100_000))
    assert given["max_tokens"] == 32_000


@pytest.mark.parametrize(
    ("facts", "thinks", "config"),
    [
        (ModelFacts(), None, None),
        (ModelFacts(effort="high", thinking="adaptive"), {"type": "adaptive"}, {"effort": "high"}),
        (ModelFacts(effort="ultra", thinking="adaptive"), {"type": "adaptive"}, {"effort": "max"}),
        (ModelFacts(effort="none", thinking="adaptive"), None, None),
        (ModelFacts(effort="low", thinking="enabled"), {"type": "enabled", "budget_tokens": 4096}, None),
        (
            ModelFacts(effort="high", thinking="enabled", max_output_tokens=2000),
            {"type": "enabled", "budget_tokens": 1999},
            None,
        ),
        (ModelFacts(effort="high", thinking="enabled", max_output_tokens=1000), None, None),
    ],
)
def test_how_a_model_is_asked_to_think(facts: ModelFacts, thinks: Any, config: Any):
    given = sent([user_message("go")], facts=facts)
    assert (given.get("thinking"), given.get("output_config")) == (thinks, config)


def test_a_model_that_must_call_a_tool_is_not_asked_to_think():
    facts = ModelFacts(thinking="adaptive", effort="high")
    assert "thinking" not in sent([user_message("go")], tool_choice="required", facts=facts)


def test_the_vendor_is_asked_for_the_text_of_the_thinking():
    facts = ModelFacts(thinking="adaptive")
    at_vendor = terms("messages", base_url="https://api.anthropic.com/v1")
    given = body(MessagesWire(), asks([user_message("go")], facts=facts), at_vendor)
    assert given["thinking"] == {"type": "adaptive", "display": "summarized"}


def test_an_output_schema_is_the_format_of_the_output():
    schema = {"type": "object", "properties": {}}
    form = {"type": "json_schema", "strict": True, "schema": schema, "name": "codex_output_schema"}
    given = sent([user_message("go")], text={"verbosity": "low", "format": form})
    assert given["output_config"] == {"format": {"type": "json_schema", "schema": schema}}


# ---- growth --------------------------------------------------------------------------------------------


def rounds(count: int) -> list[list[Item]]:
    """What is new in each request of a task."""
    steps = [[developer_message("rules"), user_message("go")]]
    for number in range(count):
        steps.append([assistant_message(f"step {number}"), call(f"c{number}"), output(f"c{number}", f"out {number}")])
    return [*steps, [assistant_message("done"), user_message("more")]]


def test_a_wire_that_remembers_sends_what_one_that_does_not_would_send():
    wire, items = MessagesWire(), []
    for new in rounds(6):
        items = items + visible(new)
        assert bytes(wire.encode(asks(items), terms("messages"))) == bytes(
            MessagesWire().encode(asks(items), terms("messages"))
        )
    other = visible([developer_message("other rules"), user_message("go")])
    assert "other rules" in json.dumps(body(wire, asks(other))["system"])
    shorter = items[:3]
    assert bytes(wire.encode(asks(shorter), terms("messages"))) == bytes(
        MessagesWire().encode(asks(shorter), terms("messages"))
    )


def test_each_request_begins_with_the_one_before_and_is_marked_where_that_one_ended():
    items: list[VisibleItem] = []
    before: dict[str, Any] | None = None
    for new in rounds(6):
        items = items + visible(new)
        given = sent(items)
        assert "cache_control" in given["system"][-1]
        assert cache_marks(given)[-1] == len(messages_prefix(given)) - 1
        if before is not None:
            assert messages_prefix(given)[: len(messages_prefix(before))] == messages_prefix(before)
            assert cache_marks(given) == [cache_marks(before)[-1], cache_marks(given)[-1]]
            assert (given["system"], given["tools"]) == (before["system"], before["tools"])
        before = given


def test_without_a_system_text_the_tools_are_marked():
    given = sent([user_message("go")], instructions=b'""')
    assert "system" not in given
    assert ["cache_control" in tool for tool in given["tools"]] == [False, True]


def test_a_body_that_is_still_being_sent_is_not_touched():
    wire, items = MessagesWire(), visible([user_message("go")])
    held = memoryview(wire.encode(asks(items), terms("messages")))
    copy = bytes(held)
    items = items + visible([call("a"), output("a")])
    assert messages_problems(json.loads(bytes(wire.encode(asks(items), terms("messages"))))) == []
    assert bytes(held) == copy


def test_a_new_item_costs_as_much_in_a_long_thread_as_in_a_short_one(monkeypatch: pytest.MonkeyPatch):
    from spindle.model.wires.messages import body as body_module

    written = 0
    mark = body_module._joint

    def counted(*args: Any) -> bytes:
        nonlocal written
        written += 1
        return mark(*args)

    monkeypatch.setattr(body_module, "_joint", counted)
    wire, items, costs = MessagesWire(), [], []
    for new in rounds(200):
        items = items + visible(new)
        written = 0
        wire.encode(asks(items), terms("messages"))
        costs.append(written)
    assert max(costs[3:]) <= 12
