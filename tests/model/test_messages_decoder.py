"""What the frames of a Messages stream mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fake_server import call, custom_call, message, reasoning
from fake_wires import encode_frame, messages_events
from spindle.errors import ModelError, StreamDropped
from spindle.model.client import (
    Completed,
    Created,
    ItemAdded,
    ItemDone,
    ModelEvent,
    SummaryDelta,
    SummaryPartAdded,
    TextDelta,
)
from spindle.model.failures import ResponseFailed
from spindle.model.wires.messages.wire import MessagesWire
from spindle.protocol.items import assistant_message
from spindle.protocol.request import TokenUsage
from wires import asks, decoder, read

ENDED = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]


def stream(*events: dict[str, Any]) -> bytes:
    return b"".join(encode_frame(event) for event in events)


def answered(*items: dict[str, Any], usage: dict[str, int] | None = None, stop: str | None = None) -> list[ModelEvent]:
    return read(decoder(MessagesWire()), stream(*messages_events(items, usage or {}, stop=stop)))


def items_of(events: list[ModelEvent]) -> list[dict[str, Any]]:
    return [event.item for event in events if isinstance(event, ItemDone)]


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def test_an_answer_streams_and_its_items_are_finished_at_its_end():
    events = answered(reasoning("hm", encrypted="SIG"), message("Hello", deltas=2), call("exec_command", {}, "c1"))
    kinds = [type(event) for event in events]
    assert kinds == [
        *(Created, ItemAdded, SummaryPartAdded, SummaryDelta, SummaryDelta),
        *(ItemAdded, TextDelta, TextDelta, ItemDone, ItemDone, ItemDone, Completed),
    ]
    thought, said, called = (event for event in events if isinstance(event, ItemDone))
    assert thought.item["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert thought.opaque == {"thinking": {"type": "thinking", "thinking": "hm", "signature": "SIG"}}
    assert said.item == assistant_message("Hello") and said.opaque is None
    assert called.item == {"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "c1"}
    shown = [event.item_id for event in events if isinstance(event, TextDelta | ItemDone)]
    assert shown[0] == shown[1] == said.item_id


def test_calls_of_the_tool_for_free_text_are_that_tools_calls():
    called = items_of(answered(custom_call("apply_patch", "*** Begin Patch", "p")))
    assert [(item["type"], item["input"]) for item in called] == [("custom_tool_call", "*** Begin Patch")]


def test_redacted_thinking_is_an_item_without_text():
    start = {"type": "redacted_thinking", "data": "R"}
    events = read(decoder(MessagesWire()), stream(*block(0, start), *ENDED))
    (done,) = (event for event in events if isinstance(event, ItemDone))
    assert done.item["summary"] == [] and done.opaque == {"thinking": start}


def test_tokens_are_counted_with_those_of_the_cache_and_the_last_count_wins():
    events = answered(message("x"), usage={"input": 120, "cached": 40, "written": 30, "output": 17, "reasoning": 5})
    assert events[-1] == Completed(
        response_id="msg_fake",
        reasoning_included=True,
        usage=TokenUsage(
            input_tokens=120,
            cached_input_tokens=40,
            cache_write_input_tokens=30,
            output_tokens=17,
            reasoning_output_tokens=5,
            total_tokens=137,
        ),
    )


def test_a_later_count_of_the_input_replaces_the_first():
    first = {"type": "message_start", "message": {"usage": {"input_tokens": 0, "output_tokens": 0}}}
    last = {**ENDED[0], "usage": {"input_tokens": 50, "cache_read_input_tokens": None, "output_tokens": 7}}
    completed = read(decoder(MessagesWire()), stream(first, last, ENDED[1]))[-1]
    assert isinstance(completed, Completed) and completed.usage is not None
    assert (completed.usage.input_tokens, completed.usage.output_tokens, completed.counts_cached) == (50, 7, False)


def test_a_count_that_falls_back_to_nothing_is_no_count():
    first = {"type": "message_start", "message": {"usage": {"input_tokens": 50, "cache_read_input_tokens": 8}}}
    last = {**ENDED[0], "usage": {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 7}}
    completed = read(decoder(MessagesWire()), stream(first, last, ENDED[1]))[-1]
    assert isinstance(completed, Completed) and completed.usage is not None
    assert (completed.usage.input_tokens, completed.usage.cached_input_tokens) == (58, 8)


def test_a_server_that_counts_nothing_has_counted_nothing():
    completed = read(decoder(MessagesWire()), stream(*ENDED))[-1]
    assert isinstance(completed, Completed) and completed.usage is None


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [("toolu_01", True), ("", False), (None, False), ("taken", False), ("a" * 41, False), ("functions.x:0", False)],
)
def test_the_id_of_a_call_is_kept_if_it_will_do_and_is_new(given: str | None, is_kept: bool):
    start = {"type": "tool_use", "id": given, "name": "t", "input": {}}
    (item,) = items_of(read(decoder(MessagesWire(), ["taken"]), stream(*block(0, start), *ENDED)))
    assert (item["call_id"] == given) is is_kept
    assert is_kept or (item["call_id"].startswith("call_") and len(item["call_id"]) == 29)


@pytest.mark.parametrize(
    ("start", "pieces", "arguments"),
    [
        ({}, [], "{}"),
        ({"input": {}}, [""], "{}"),
        ({"input": {"cmd": "x"}}, [], '{"cmd":"x"}'),
        ({"input": {}}, ['{"cmd"', ': "é"}'], '{"cmd": "é"}'),
        ({"input": {}}, ['{"cmd": "cut'], '{"cmd": "cut'),
    ],
)
def test_the_arguments_of_a_call_are_what_the_model_wrote(start: dict[str, Any], pieces: list[str], arguments: str):
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    begun = {"type": "tool_use", "id": "c", "name": "t", **start}
    (item,) = items_of(read(decoder(MessagesWire()), stream(*block(0, begun, *deltas), *ENDED)))
    assert item["arguments"] == arguments


# ---- why it ended --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["end_turn", "stop_sequence", "tool_use", "something new"])
def test_an_answer_with_any_ordinary_end_is_done(stop: str):
    assert isinstance(answered(message("x"), stop=stop)[-1], Completed)


def test_an_answer_that_reached_its_limit_keeps_its_text_and_no_call():
    reader = decoder(MessagesWire())
    cut = messages_events((reasoning("hm"), message("half a sen"), call("t", {}, "c1")), {}, stop="max_tokens")
    events = read(reader, stream(*cut))
    assert [item["type"] for item in items_of(events)] == ["reasoning", "message"]
    assert str(reader.failure) == "Incomplete response returned, reason: max_output_tokens"
    assert not any(isinstance(event, Completed) for event in events)


def test_thinking_that_was_cut_off_is_not_sent_back():
    reader = decoder(MessagesWire())
    events = read(reader, stream(*messages_events((reasoning("hm"),), {}, stop="max_tokens")))
    (done,) = (event for event in events if isinstance(event, ItemDone))
    assert done.opaque is None and reader.failure is not None


@pytest.mark.parametrize(
    ("details", "named"),
    [
        (None, "The model refused to answer (refusal)."),
        (
            {"type": "refusal", "category": "cyber", "explanation": "No\x1b[2J exploits."},
            "The model refused to answer (refusal: cyber): No exploits.",
        ),
    ],
)
def test_a_refusal_is_told_in_a_sentence_and_leaves_nothing(details: dict[str, str] | None, named: str):
    reader = decoder(MessagesWire())
    ended = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}}
    events = read(reader, stream(*block(0, {"type": "text", "text": "I"}), ended, ENDED[1]))
    assert not items_of(events) and isinstance(reader.failure, ModelError)
    assert str(reader.failure).startswith(named)


def test_a_model_that_paused_is_asked_to_go_on():
    events = answered(message("half"), stop="pause_turn")
    assert isinstance(events[-1], Completed) and events[-1].end_turn is False
    assert [event.opaque for event in events if isinstance(event, ItemDone)] == [{"paused": True}]
    with pytest.raises(StreamDropped, match="paused before"):
        answered(stop="pause_turn")


def test_a_full_window_is_an_error_with_a_name():
    with pytest.raises(ResponseFailed) as caught:
        answered(message("x"), stop="model_context_window_exceeded")
    assert caught.value.error == {"type": "model_context_window_exceeded"}


@pytest.mark.parametrize(
    "error",
    [
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        {"error": {"message": "x"}},
        {"type": "error", "message": "x"},
    ],
)
def test_an_error_in_the_stream_ends_it(error: dict[str, Any]):
    with pytest.raises(ResponseFailed) as caught:
        read(decoder(MessagesWire()), stream(*messages_events((message("half"),), {})[:-2], error))
    assert caught.value.error == error.get("error", {"message": "x"})


def test_a_stream_that_ends_before_its_last_event_leaves_nothing():
    whole = messages_events((message("half"), call("t", {}, "c1")), {})
    for end in range(len(whole)):
        reader = decoder(MessagesWire())
        events: list[ModelEvent] = []
        with pytest.raises(StreamDropped, match="closed before message_stop"):
            for event in whole[:end]:
                events += reader.feed(json.dumps(event).encode())
            reader.finish()
        assert not items_of(events)


# ---- odd servers ---------------------------------------------------------------------------------------


def test_blank_texts_are_no_items_and_leading_blanks_wait_for_a_word():
    blank = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "\n\n"})
    said = block(
        1, {"type": "text", "text": " "}, *({"type": "text_delta", "text": text} for text in ("\n", "Hi", "!"))
    )
    events = read(decoder(MessagesWire()), stream(*blank, *said, *ENDED))
    assert [event.delta for event in events if isinstance(event, TextDelta)] == [" \nHi", "!"]
    assert items_of(events) == [assistant_message(" \nHi!")]


def test_deltas_without_a_beginning_or_a_number_find_their_block():
    events = read(
        decoder(MessagesWire()),
        stream(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
            {"type": "content_block_start", "content_block": {"type": "thinking", "thinking": ""}},
            {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "b"}},
            {"type": "content_block_delta", "index": 9, "delta": {"type": "signature_delta", "signature": "S"}},
            *ENDED,
        ),
    )
    assert [item["type"] for item in items_of(events)] == ["message", "reasoning"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"[DONE]",
        b"null",
        b"[1,2]",
        b"{",
        b'{"type":"ping"}',
        b'{"type":"unheard_of","index":{}}',
        b'{"type":"content_block_delta","index":"0","delta":{"type":"text_delta","text":"x"}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":7}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{}}}',
        b'{"type":"content_block_start","index":1,"content_block":{"type":["text"]}}',
        b'{"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"s"}}',
        b'{"type":"message_delta","delta":null,"usage":null}',
        b'{"type":"content_block_start","index":1,"content_block":' + b'{"a":' * 400 + b"1" + b"}" * 400 + b"}",
    ],
)
def test_what_nobody_knows_is_skipped(garbage: bytes):
    whole = messages_events((message("Hello", deltas=2),), {})
    reader, events = decoder(MessagesWire()), []
    for event in whole:
        events += reader.feed(garbage) + reader.feed(json.dumps(event).encode())
    assert items_of(events) == [assistant_message("Hello")] and reader.is_over


def test_type_may_stand_anywhere_in_an_event():
    reordered = [dict(reversed(event.items())) for event in messages_events((message("Hello"),), {})]
    assert items_of(read(decoder(MessagesWire()), stream(*reordered))) == [assistant_message("Hello")]


def test_a_call_without_a_name_is_a_call_that_can_be_answered():
    request = asks([])
    (item,) = items_of(read(decoder(MessagesWire(), (), request), stream(*block(0, {"type": "tool_use"}), *ENDED)))
    assert (item["name"], item["arguments"]) == ("", "{}") and item["call_id"]
