"""Answers that a grammar holds to one JSON object: what is asked for, and what comes of it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.model.call_ids import CallIds
from spindle.model.capabilities import default_capabilities
from spindle.model.client import Completed, ItemAdded, ItemDone, ModelEvent, Notice, TextDelta
from spindle.model.provider import Provider
from spindle.model.wires.forced.answer_text import AnswerText
from spindle.model.wires.forced.steps import brief, step_schema
from spindle.model.wires.forced.wire import ForcedWire
from spindle.model.wires.functions import function_tools
from spindle.model.wires.wire import Asking, Terms
from spindle.patch.parse import AddFile, parse_patch
from spindle.protocol.clock import FixedClock
from spindle.protocol.items import Item, assistant_message, encode_json, user_message
from spindle.protocol.request import Request, VisibleItem
from spindle.protocol.schema_check import check

RUN: dict[str, Any] = {
    "type": "function",
    "name": "run",
    "description": "Runs a command. It may take long.",
    "parameters": {
        "type": "object",
        "properties": {
            "cmd": {"type": "string", "description": "The command.", "pattern": "^a"},
            "mode": {"enum": ["fast", "slow"]},
            "env": {"type": "array", "items": {"type": "string"}},
            "more": {"oneOf": [{"type": "string"}]},
            "limit": {"type": ["number", "null"]},
        },
        "required": ["cmd", "gone"],
        "additionalProperties": False,
    },
}
LOOK = {**RUN, "name": "look", "parameters": {**RUN["parameters"], "required": []}}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits."}
TOOLS = encode_json([RUN, LOOK, PATCH, {"type": "web_search"}])
TERMS = Terms(Provider(id="local", name="Local"), default_capabilities("chat"))
CALL: Item = {"type": "function_call", "name": "run", "arguments": '{"cmd":"ls"}', "call_id": "c1"}
OUTPUT: Item = {"type": "function_call_output", "call_id": "c1", "output": "a.txt"}
THREAD = [user_message("list"), CALL, OUTPUT, assistant_message('There is "a.txt".'), user_message("thanks")]


REMINDER = "If all of it is done, give the final answer; else make the next call."


def request(items: list[Item], **fields: Any) -> Request:
    visible = [VisibleItem.of(item) for item in items]
    given = {"tools": TOOLS, "instructions": b'"base"', "prompt_cache_key": "T", **fields}
    return Request(model="m", items=visible, **given)


def body(asked: Request, wire: ForcedWire | None = None) -> dict[str, Any]:
    return json.loads((wire or ForcedWire()).encode(asked, TERMS))


# ---- asking --------------------------------------------------------------------------------------------


def test_the_thread_is_shown_in_the_form_that_is_asked_for() -> None:
    sent = body(request(THREAD))
    system, *messages = sent["messages"]
    assert messages == [
        {"role": "user", "content": "list"},
        {"role": "assistant", "content": '{"name":"run","arguments":{"cmd":"ls"}}'},
        {"role": "user", "content": f"<tool_result name=run>\na.txt\n</tool_result>\nThe task: list\n{REMINDER}"},
        {"role": "assistant", "content": '{"answer":"There is \\"a.txt\\"."}'},
        {"role": "user", "content": "thanks"},
    ]
    assert system["content"].startswith("base\n\n# How to answer") and '{"answer": "' in system["content"]
    assert "## run\nRuns a command.\n- cmd (string, required): The command." in system["content"]
    assert "It may take long" not in system["content"] and "## write_file" in system["content"]
    assert "tools" not in sent and "tool_choice" not in sent


def test_each_request_begins_with_the_one_before() -> None:
    wire, before = ForcedWire(), []
    visible = [VisibleItem.of(item) for item in THREAD]
    for count in (1, 3, 5):
        asked = Request(model="m", items=visible[:count], tools=TOOLS, instructions=b'"base"', prompt_cache_key="T")
        sent = body(asked, wire)
        assert sent == body(asked)
        assert sent["messages"][: len(before)] == before
        before = sent["messages"]


def test_a_tool_is_told_in_a_sentence_with_what_it_needs() -> None:
    run, look = (brief(tool) for tool in function_tools(encode_json([RUN, LOOK])))
    assert (run.description, [*run.parameters["properties"]]) == ("Runs a command.", ["cmd"])
    assert len(look.parameters["properties"]) == 5


@pytest.mark.parametrize(
    ("step", "fits"),
    [
        ({"name": "run", "arguments": {"cmd": "ls"}}, True),
        ({"name": "look", "arguments": {"mode": "fast", "env": ["a"], "more": {}, "limit": None}}, True),
        ({"name": "look", "arguments": {}}, True),
        ({"name": "write_file", "arguments": {"file_path": "a", "content": "b"}}, True),
        ({"name": "apply_patch", "arguments": {"input": "*** Begin Patch"}}, False),
        ({"answer": "done"}, True),
        ({"name": "run", "arguments": {}}, False),
        ({"name": "look", "arguments": {"mode": "other"}}, False),
        ({"name": "run", "arguments": {"cmd": "ls", "mode": "fast"}}, False),
        ({"name": "web_search", "arguments": {}}, False),
        ({"name": "run", "arguments": {"cmd": "ls"}, "answer": "both"}, False),
        ({}, False),
    ],
)
def test_a_step_is_one_call_or_one_answer(step: dict[str, Any], fits: bool) -> None:
    asked = body(request(THREAD))["response_format"]
    assert asked["type"] == "json_schema"
    assert (check(step, asked["json_schema"]["schema"]) is None) == fits


def test_where_calls_are_forbidden_only_an_answer_is_left() -> None:
    schema = body(request(THREAD, tool_choice="none"))["response_format"]["json_schema"]["schema"]
    assert check({"answer": "summary"}, schema) is None
    assert check({"name": "run", "arguments": {"cmd": "ls"}}, schema) is not None


def test_an_output_schema_holds_for_the_final_answer() -> None:
    wanted = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    asked = request(THREAD, text={"format": {"type": "json_schema", "name": "o", "strict": True, "schema": wanted}})
    schema = body(asked)["response_format"]["json_schema"]["schema"]
    assert check({"answer": {"n": 1}}, schema) is None and check({"answer": "1"}, schema) is not None
    assert done(read('{"answer":{"n":1}}', asked=asked)) == [assistant_message('{"n":1}')]


def test_schemas_that_no_grammar_knows_become_anything() -> None:
    odd = {"type": "function", "name": "odd", "parameters": {"$ref": "#/x", "properties": {"a": {"format": "uri"}}}}
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(30):
        deep = {"type": "array", "items": deep}
    nested = {"type": "function", "name": "deep", "parameters": {"type": "object", "properties": {"a": deep}}}
    schema = step_schema(function_tools(encode_json([odd, nested])))
    assert check({"name": "odd", "arguments": {"a": 1}}, schema) is None
    assert "$ref" not in json.dumps(schema) and json.dumps(schema).count('"array"') < 10


# ---- reading -------------------------------------------------------------------------------------------


def read(text: str, *, pieces: int = 3, end: str = "stop", asked: Request | None = None) -> list[ModelEvent]:
    new_id = FixedClock().uuid7
    asking = Asking(request=asked or request(THREAD), terms=TERMS, new_id=new_id, call_ids=CallIds(("c1",), new_id))
    decoder = ForcedWire(lambda timings: f"took {timings['predicted_n']}").decoder(asking)
    cuts = [text[at : at + pieces] for at in range(0, len(text), pieces)]
    chunks = [{"choices": [{"index": 0, "delta": {"content": cut}}]} for cut in cuts]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": end}]})
    counted = {"prompt_tokens": 5, "completion_tokens": 2}
    chunks.append({"choices": [], "usage": counted, "timings": {"predicted_n": 2}})
    events = [event for chunk in chunks for event in decoder.feed(json.dumps(chunk).encode())]
    events += decoder.feed(b"[DONE]")
    assert decoder.is_over and (decoder.failure is not None) == (end == "length")
    return events


def done(events: list[ModelEvent]) -> list[Item]:
    return [event.item for event in events if isinstance(event, ItemDone)]


def shown(events: list[ModelEvent]) -> str:
    return "".join(event.delta for event in events if isinstance(event, TextDelta))


def test_an_answer_streams_as_text_and_is_a_message() -> None:
    events = read('{"answer":"Hello \\"you\\"\\n\\ud83d\\ude00"}')
    assert shown(events) == 'Hello "you"\n😀' and done(events) == [assistant_message('Hello "you"\n😀')]
    assert [type(event) for event in events].count(ItemAdded) == 1
    assert isinstance(events[-1], Completed) and events[-1].usage is not None and events[-1].usage.input_tokens == 5
    assert [event.message for event in events if isinstance(event, Notice)] == ["took 2"]


def test_a_call_is_a_call_and_nothing_of_it_is_shown() -> None:
    events = read('{"name":"run","arguments":{"cmd":"ls","limit":null}}')
    (item,) = done(events)
    assert (item["type"], item["name"], json.loads(item["arguments"])) == (
        "function_call",
        "run",
        {"cmd": "ls", "limit": None},
    )
    assert item["call_id"].startswith("call_") and shown(events) == ""
    assert not any(isinstance(event, ItemAdded) for event in events)


def test_a_patch_is_a_call_of_a_tool_for_free_text() -> None:
    (item,) = done(read('{"name":"apply_patch","arguments":{"input":"*** Begin\\n"}}'))
    assert (item["type"], item["input"]) == ("custom_tool_call", "*** Begin\n")


@pytest.mark.parametrize(
    ("content", "patch"),
    [
        ("one\ntwo\n", "*** Begin Patch\n*** Add File: a/b.txt\n+one\n+two\n*** End Patch"),
        ("no end", "*** Begin Patch\n*** Add File: a/b.txt\n+no end\n*** End Patch"),
        ("\n\n", "*** Begin Patch\n*** Add File: a/b.txt\n+\n+\n*** End Patch"),
        ("", "*** Begin Patch\n*** Add File: a/b.txt\n*** End Patch"),
    ],
)
def test_a_file_that_is_written_is_a_patch_in_the_thread_and_is_shown_as_it_was(content: str, patch: str) -> None:
    asked = {"name": "write_file", "arguments": {"file_path": "a/b.txt", "content": content}}
    (item,) = done(read(json.dumps(asked)))
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", patch)
    (hunk,) = parse_patch(item["input"])
    assert isinstance(hunk, AddFile) and hunk.path == "a/b.txt"
    output: Item = {"type": "custom_tool_call_output", "call_id": item["call_id"], "output": "ok"}
    shown_call = json.loads(body(request([user_message("x"), item, output]))["messages"][2]["content"])
    whole = content if content.endswith("\n") or not content else content + "\n"
    assert shown_call == {"name": "write_file", "arguments": {"file_path": "a/b.txt", "content": whole}}


def test_other_patches_and_other_tools_of_that_name_stay_what_they_are() -> None:
    patch = "*** Begin Patch\n*** Delete File: a\n*** End Patch"
    item: Item = {"type": "custom_tool_call", "name": "apply_patch", "input": patch, "call_id": "c9"}
    output: Item = {"type": "custom_tool_call_output", "call_id": "c9", "output": "ok"}
    sent = body(request([user_message("x"), item, output]))["messages"][2]["content"]
    assert json.loads(sent) == {"name": "apply_patch", "arguments": {"input": patch}}
    theirs = request(THREAD, tools=encode_json([PATCH, {**RUN, "name": "write_file"}]))
    (called,) = done(read('{"name":"write_file","arguments":{"file_path":"a","content":"b"}}', asked=theirs))
    assert (called["type"], called["name"]) == ("function_call", "write_file")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"answer":"half a sent', [assistant_message("half a sent")]),
        ('{"name":"run","arguments":{"cmd":"rm -', []),
        ('{"answer":"', []),
    ],
)
def test_of_an_answer_that_was_cut_off_only_text_is_kept(text: str, kept: list[Item]) -> None:
    assert done(read(text, end="length")) == kept


@pytest.mark.parametrize("text", ["plain words", "[1]", '{"other": 1}', '{"name": 3}', '{"answer": "open'])
def test_what_is_no_step_is_text(text: str) -> None:
    assert done(read(text)) == [assistant_message(text)]


def test_an_empty_answer_is_none() -> None:
    assert done(read('{"answer":" "}')) == []


@given(text=st.text(), ascii=st.booleans(), loose=st.booleans(), seed=st.integers(0, 1 << 30))
def test_the_text_is_the_same_however_it_is_cut(text: str, ascii: bool, loose: bool, seed: int) -> None:
    written = json.dumps({"answer": text}, ensure_ascii=ascii, separators=(" , ", " : ") if loose else (",", ":"))
    cuts, reader, told, place = random.Random(seed), AnswerText(), "", 0
    while place < len(written):
        end = place + cuts.randint(1, 7)
        told += reader.feed(written[place:end])
        place = end
    assert told == text == reader.so_far
