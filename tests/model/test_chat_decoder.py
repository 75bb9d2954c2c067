"""What comes of the answers of Chat Completions servers, each with habits of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spindle.errors import StreamDropped
from spindle.model.call_ids import CallIds
from spindle.model.capabilities import default_capabilities
from spindle.model.client import Completed, Created, ItemDone, ModelEvent, SummaryDelta, TextDelta
from spindle.model.failures import ResponseFailed
from spindle.model.provider import Provider
from spindle.model.wires.chat.decoder import ChatDecoder
from spindle.model.wires.wire import Asking, Terms
from spindle.protocol.clock import FixedClock
from spindle.protocol.items import Item, assistant_message
from spindle.protocol.request import Request, TokenUsage

DONE = b"[DONE]"
STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def decoder(*taken: str, tools: bytes = b"[]") -> ChatDecoder:
    request = Request(model="m", instructions=b'""', items=[], tools=tools, prompt_cache_key="T")
    terms = Terms(Provider(id="p", name="p"), default_capabilities("chat"))
    new_id = FixedClock().uuid7
    return ChatDecoder(Asking(request=request, terms=terms, new_id=new_id, call_ids=CallIds(taken, new_id)))


def read(*chunks: dict[str, Any] | bytes, reader: ChatDecoder | None = None) -> list[ModelEvent]:
    reader = reader or decoder()
    events: list[ModelEvent] = []
    for chunk in chunks:
        events += reader.feed(chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode())
    return events if reader.is_over else events + reader.finish()


def delta(**fields: Any) -> dict[str, Any]:
    return {"id": "r1", "choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def piece(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    function = {**({} if name is None else {"name": name}), "arguments": arguments}
    return {**fields, "type": "function", "function": function}


def calls(*pieces: dict[str, Any]) -> dict[str, Any]:
    return delta(tool_calls=[*pieces])


def items(events: list[ModelEvent]) -> list[Item]:
    return [event.item for event in events if isinstance(event, ItemDone)]


def called(events: list[ModelEvent]) -> list[tuple[str, str]]:
    return [(item["name"], item["arguments"]) for item in items(events) if item["type"] == "function_call"]


# ---- text and reasoning --------------------------------------------------------------------------------


def test_text_and_reasoning_stream_and_are_items_at_the_end() -> None:
    events = read(
        delta(role="assistant", content=""),
        delta(reasoning_content="hm"),
        delta(reasoning_content="m", content=None),
        delta(content="Hel"),
        delta(content="lo"),
        STOP,
        DONE,
    )
    assert isinstance(events[0], Created) and events[0].response_id == "r1"
    assert [event.delta for event in events if isinstance(event, TextDelta)] == ["Hel", "lo"]
    assert [event.delta for event in events if isinstance(event, SummaryDelta)] == ["hm", "m"]
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hmm"}], "encrypted_content": None}
    assert items(events) == [thought, assistant_message("Hello")]
    assert isinstance(events[-1], Completed) and events[-1].response_id == "r1"
    deltas = {event.item_id for event in events if isinstance(event, TextDelta | SummaryDelta)}
    assert {event.item_id for event in events if isinstance(event, ItemDone)} == deltas


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning": "hm"},
        {"thinking": "hm"},
        {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
        {"reasoning": None, "reasoning_details": [{"type": "reasoning.text", "text": "hm"}, {"data": "x"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]},
    ],
)
def test_reasoning_under_other_names_counts_once(fields: dict[str, Any]) -> None:
    assert items(read(delta(**fields), STOP, DONE))[0]["summary"][0]["text"] == "hm"


def test_text_in_parts_and_refusals_are_text() -> None:
    events = read(delta(content=[{"type": "text", "text": "I "}]), delta(refusal="cannot."), STOP, DONE)
    assert items(events) == [assistant_message("I cannot.")]


def test_blanks_alone_are_no_message() -> None:
    assert items(read(delta(content="\n"), delta(content="\n"), STOP, DONE)) == []
    assert items(read(delta(content="\n"), delta(content=" so"), STOP, DONE)) == [assistant_message("\n so")]


def test_a_server_that_does_not_stream_sends_all_at_once() -> None:
    message = {"role": "assistant", "content": "Hi", "tool_calls": [piece("run", "{}", id="c1")]}
    whole = {"id": "r", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}], "usage": None}
    assert items(read(whole)) == [
        assistant_message("Hi"),
        {"type": "function_call", "name": "run", "arguments": "{}", "call_id": "c1"},
    ]
    assert items(read(delta(content="Hi"), whole)) == [assistant_message("Hi")]


def test_unknown_keys_garbage_and_empty_choices_are_passed_over() -> None:
    odd = [b"", b"null", b"[]", b"nonsense", b'{"choices":5}', b'{"choices":[]}', b'{"choices":[7]}', b'{"a":"\xff"}']
    odd += [b"[" * 5000, b'{"choices":[{"delta":7}]}', b'{"choices":[{"delta":{"tool_calls":[7,{}]}}],"error":null}']
    assert items(read(*odd[:-1], delta(content="ok", new=[{}]), STOP, DONE)) == [assistant_message("ok")]
    assert read(odd[-1], STOP, DONE)


# ---- calls ---------------------------------------------------------------------------------------------

TWO = [("run", '{"a":1}'), ("look", '{"b":"}"}')]
HABITS: dict[str, list[dict[str, Any]]] = {
    "by index": [
        calls(piece("run", "", index=0, id="c1")),
        calls(piece(None, '{"a"', index=0)),
        calls(piece("look", "", index=1, id="c2")),
        calls(piece(None, ":1}", index=0)),
        calls(piece(None, '{"b":"}"}', index=1)),
    ],
    "name and id always": [
        calls(piece("run", '{"a"', index=0, id="c1")),
        calls(piece("run", ":1}", index=0, id="c1")),
        calls(piece("look", '{"b":', index=1, id="c2"), piece("look", '"}"}', index=1, id="c2")),
    ],
    "by id": [
        calls(piece("run", '{"a"', id="c1"), piece("look", '{"b":', id="c2")),
        calls(piece(None, '"}"}', id="c2")),
        calls(piece(None, ":1}", id="c1")),
    ],
    "in order": [
        calls(piece("run", '{"a"')),
        calls(piece(None, ":1}")),
        calls(piece("look", '{"b":"}"}')),
    ],
    "in order, name always": [
        calls(piece("run", "")),
        calls(piece("run", '{"a"')),
        calls(piece("run", ":1}")),
        calls(piece("look", '{"b":"}')),
        calls(piece("look", '"}')),
    ],
    "in order, together": [
        calls(piece("run", '{"a"'), piece("look", '{"b":')),
        calls(piece(None, ":1}"), piece(None, '"}"}')),
    ],
    "one index for all": [
        calls(piece("run", '{"a":1}', index=0, id="c1")),
        calls(piece("look", '{"b":"}"}', index=0, id="c2")),
    ],
    "one index for all, and the arguments later": [
        calls(piece("run", "", index=0, id="c1")),
        calls(piece(None, '{"a":1}', index=0)),
        calls(piece("look", "", index=0, id="c2")),
        calls(piece(None, '{"b":"}"}', index=0)),
    ],
    "another id with each piece": [
        calls(piece("run", '{"a"', index=0, id="c1")),
        calls(piece(None, ":1}", index=0, id="c8")),
        calls(piece("look", '{"b":"}"}', index=1, id="c9")),
    ],
    "whole": [calls(piece("run", '{"a":1}', index=0, id="c1"), piece("look", '{"b":"}"}', index=1, id="c2"))],
    "objects": [calls(piece("run", {"a": 1}, index=0)), calls(piece("look", {"b": "}"}, index=1))],
    "null": [
        calls(piece("run", None, index=0)),
        calls(piece(None, '{"a":1}', index=0), piece("look", '{"b":"}"}', index=1), piece(None, None, index=1)),
    ],
    "name in pieces": [
        calls(piece("r", None, index=0), piece("lo", None, index=1)),
        calls(piece("un", '{"a":1}', index=0), piece("look", '{"b":"}"}', index=1)),
    ],
    "whole once more at the end": [
        calls(piece("run", '{"a"', index=0, id="c1"), piece("look", '{"b":"}"}', index=1, id="c2")),
        calls(piece(None, ":1}", index=0)),
        calls(piece("run", '{"a":1}', index=0, id="c1"), piece("look", '{"b":"}"}', index=1, id="c2")),
    ],
    "index as text": [
        calls(piece("run", '{"a"', index="0"), piece("look", '{"b":', index="1")),
        calls(piece(None, ":1}", index="0")),
        calls(piece(None, '"}"}', index="1")),
    ],
    "no object around name and arguments": [
        calls({"index": 0, "id": "c1", "name": "run", "arguments": '{"a"'}, {"name": "look", "arguments": {"b": "}"}}),
        calls({"index": 0, "arguments": ":1}"}),
    ],
    "index missing later": [
        calls(piece("run", '{"a"', index=0.0, id="c1")),
        calls(piece(None, ":1}", index=None)),
        calls(piece("look", '{"b":"}"}', index=1, id="c2")),
    ],
}


@pytest.mark.parametrize("habit", HABITS)
def test_calls_are_joined_whatever_the_habits_of_the_server(habit: str) -> None:
    events = read(*HABITS[habit], STOP, DONE)
    assert called(events) == TWO
    assert len({item["call_id"] for item in items(events)}) == 2


def test_calls_without_arguments_that_share_an_index_are_still_two() -> None:
    events = read(calls(piece("run", "", index=0, id="c1")), calls(piece("look", None, index=0, id="c2")), STOP, DONE)
    assert [name for name, _ in called(events)] == ["run", "look"]


def test_one_call_that_is_no_list_is_a_call() -> None:
    events = read(delta(tool_calls=piece("run", '{"a":1}', id="c1")), STOP, DONE)
    assert called(events) == [("run", '{"a":1}')]


def test_an_escaped_quote_does_not_end_an_argument() -> None:
    events = read(calls(piece("run", '{"a":"\\"}')), calls(piece("run", 'x"}')), calls(piece("run", "{}")), STOP, DONE)
    assert called(events) == [("run", '{"a":"\\"}x"}'), ("run", "{}")]


def test_the_call_of_an_older_server_is_a_call() -> None:
    events = read(delta(function_call={"name": "run"}), delta(function_call={"arguments": '{"a":1}'}), STOP, DONE)
    assert called(events) == [("run", '{"a":1}')]


def test_ids_stay_if_they_will_do_and_are_new() -> None:
    given = ["c1", "", None, "call_0", "a b", "x" * 41, "c1", "ok-_9"]
    pieces = [piece("run", "{}", index=index, id=call_id) for index, call_id in enumerate(given)]
    ids = [item["call_id"] for item in items(read(calls(*pieces), DONE, reader=decoder("call_0")))]
    assert [call_id for call_id in ids if call_id in given] == ["c1", "ok-_9"]
    assert len(set(ids)) == len(given)
    for call_id in ids[1:-1]:
        assert call_id.startswith("call_") and len(call_id) == 29 and int(call_id[5:], 16) >= 0


def test_arguments_that_never_came_are_none_and_broken_ones_stay_as_they_are() -> None:
    pieces = [piece("a", None, index=0), piece("b", "", index=1), piece("c", '{"x', index=2)]
    assert called(read(calls(*pieces), STOP, DONE)) == [("a", "{}"), ("b", "{}"), ("c", '{"x')]


def test_a_call_of_a_tool_for_free_text_is_one_in_the_thread() -> None:
    reader = decoder(tools=b'[{"type":"custom","name":"apply_patch"}]')
    assert items(read(calls(piece("apply_patch", '{"input":"*** x"}', id="p")), DONE, reader=reader)) == [
        {"type": "custom_tool_call", "status": "completed", "call_id": "p", "name": "apply_patch", "input": "*** x"}
    ]


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "function_call", "end_turn", None])
def test_calls_are_run_whatever_the_reason_to_stop(reason: str | None) -> None:
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    events = read(delta(content="I look."), calls(piece("run", "{}", id="c1")), delta(content=" Now."), end, DONE)
    assert [item["type"] for item in items(events)] == ["message", "function_call"]
    assert items(events)[0] == assistant_message("I look. Now.")


# ---- the end -------------------------------------------------------------------------------------------


def test_the_body_may_end_after_the_reason_and_not_before() -> None:
    assert isinstance(read(delta(content="x"), STOP)[-1], Completed)
    with pytest.raises(StreamDropped):
        read(delta(content="x"))
    with pytest.raises(StreamDropped):
        read()


@pytest.mark.parametrize("reason", ["length", "max_tokens"])
def test_a_text_that_was_cut_off_is_kept_and_a_call_is_not(reason: str) -> None:
    reader = decoder()
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    events = read(delta(content="half"), calls(piece("run", '{"a', id="c1")), end, DONE, reader=reader)
    assert items(events) == [assistant_message("half")] and not any(isinstance(e, Completed) for e in events)
    assert str(reader.failure) == "Incomplete response returned, reason: max_output_tokens"


@pytest.mark.parametrize(
    ("reason", "word", "info"),
    [("content_filter", "content filter", "other"), ("model_context_window_exceeded", "context window", None)],
)
def test_an_answer_that_must_not_be_used_leaves_a_sentence(reason: str, word: str, info: str | None) -> None:
    reader = decoder()
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    assert items(read(delta(content="x"), end, DONE, reader=reader)) == []
    assert reader.failure is not None and word in str(reader.failure)
    assert reader.failure.info == (info or "context_window_exceeded")


def test_a_server_that_gave_up_is_asked_again() -> None:
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}
    with pytest.raises(StreamDropped):
        read(delta(content="x"), end, DONE)


@pytest.mark.parametrize(
    ("chunk", "error"),
    [
        ({"error": {"message": "died", "code": 502}}, {"message": "died", "code": 502}),
        ({"error": "died"}, {"message": "died"}),
        ({"object": "error", "message": "died"}, {"object": "error", "message": "died"}),
        ({"type": "error", "message": "died"}, {"type": "error", "message": "died"}),
        ({"message": "died", "code": 500}, {"message": "died", "code": 500}),
        ({"detail": "died"}, {"detail": "died"}),
        ({"choices": [{"delta": {}, "error": {"message": "died"}}]}, {"message": "died"}),
    ],
)
def test_an_error_in_the_stream_is_the_servers_word(chunk: dict[str, Any], error: dict[str, Any]) -> None:
    with pytest.raises(ResponseFailed) as raised:
        read(delta(content="half"), chunk)
    assert raised.value.error == error


# ---- usage ---------------------------------------------------------------------------------------------


def test_the_last_count_wins() -> None:
    usage = {"prompt_tokens": 120, "completion_tokens": 17, "prompt_tokens_details": {"cached_tokens": 40}}
    usage["completion_tokens_details"] = {"reasoning_tokens": 5}
    events = read({**delta(content="x"), "usage": {"prompt_tokens": 1}}, STOP, {"choices": [], "usage": usage}, DONE)
    counted = TokenUsage(
        input_tokens=120, cached_input_tokens=40, output_tokens=17, reasoning_output_tokens=5, total_tokens=137
    )
    completed = events[-1]
    assert isinstance(completed, Completed) and completed.usage == counted and completed.counts_cached


def test_other_names_and_missing_counts() -> None:
    usage = {"prompt_tokens": 10.0, "completion_tokens": 1, "total_tokens": 11, "prompt_cache_hit_tokens": 4}
    hit = read(STOP, {"choices": [], "usage": usage}, DONE)[-1]
    assert isinstance(hit, Completed) and hit.usage is not None and hit.usage.cached_input_tokens == 4
    silent = read(STOP, {"choices": [], "usage": {"prompt_tokens": 3}}, DONE)[-1]
    assert isinstance(silent, Completed) and silent.usage == TokenUsage(input_tokens=3, total_tokens=3)
    assert not silent.counts_cached
    nothing = read(STOP, DONE)[-1]
    assert isinstance(nothing, Completed) and nothing.usage is None


@pytest.mark.parametrize(
    "last",
    [
        {"choices": [{"delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 5, "completion_tokens": 2}}]},
        {"choices": [], "x_groq": {"id": "q", "usage": {"prompt_tokens": 5, "completion_tokens": 2}}},
    ],
)
def test_counts_in_odd_places_are_found(last: dict[str, Any]) -> None:
    completed = read(delta(content="x"), STOP, last, DONE)[-1]
    assert isinstance(completed, Completed)
    assert completed.usage == TokenUsage(input_tokens=5, output_tokens=2, total_tokens=7)


def test_a_count_in_an_odd_place_does_not_outweigh_the_usual_one() -> None:
    odd = {"choices": [{"delta": {}, "usage": {"prompt_tokens": 1}}], "usage": {"prompt_tokens": 9}}
    completed = read(odd, STOP, DONE)[-1]
    assert isinstance(completed, Completed) and completed.usage is not None and completed.usage.input_tokens == 9
