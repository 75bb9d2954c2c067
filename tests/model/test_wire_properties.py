"""What holds on every wire but Responses, whatever the thread and however the stream is cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_wires import chat_chunks, encode_frame, messages_events
from spindle.errors import ModelError, SpindleError
from spindle.model.client import Completed, ItemDone, TextDelta
from spindle.model.wires.chat.wire import ChatWire
from spindle.model.wires.messages.wire import MessagesWire
from spindle.model.wires.wire import Wire
from spindle.protocol.items import Item, assistant_message, developer_message, message
from spindle.protocol.request import VisibleItem
from wire_rules import cache_marks, chat_prefix, chat_problems, messages_prefix, messages_problems
from wires import ORIGIN, PNG, asks, decoder, read, terms

WIRES = pytest.mark.parametrize("kind", [ChatWire, MessagesWire])
PREFIX = {"chat": chat_prefix, "messages": messages_prefix}
PROBLEMS = {"chat": chat_problems, "messages": messages_problems}

words = st.text(st.characters(codec="utf-8"), max_size=12)
said = words.filter(str.strip)

# ---- threads -------------------------------------------------------------------------------------------

parts = st.lists(
    st.one_of(
        words.map(lambda text: {"type": "input_text", "text": text}),
        st.sampled_from([PNG, "https://example.com/a.png"]).map(lambda url: {"type": "input_image", "image_url": url}),
    ),
    max_size=3,
)
person = st.one_of(
    said.map(lambda text: message("user", text)),
    st.tuples(said, parts).map(
        lambda drawn: {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": drawn[0]}, *drawn[1]],
        }
    ),
)
around = st.lists(st.one_of(person, words.map(developer_message)), max_size=2)
call_ids = st.one_of(st.sampled_from(["a", "b", "call_0", "", "x" * 60, "functions.run:0", "é"]), words)
arguments = st.one_of(st.sampled_from(["", "{}", '{"cmd": "ls"}', "[1]", "{", '{"a":{"b":[1,2.50,1e3,null]}}']), words)
calls = st.one_of(
    st.builds(
        lambda call_id, name, given: {"type": "function_call", "call_id": call_id, "name": name, "arguments": given},
        call_ids,
        st.one_of(st.sampled_from(["exec_command", "no such.tool", ""]), words),
        arguments,
    ),
    st.builds(
        lambda call_id, text: {"type": "custom_tool_call", "call_id": call_id, "name": "apply_patch", "input": text},
        call_ids,
        words,
    ),
    st.builds(
        lambda call_id: {"type": "local_shell_call", "call_id": call_id, "action": {"command": ["ls"]}}, call_ids
    ),
)
thinking = words.map(
    lambda text: VisibleItem.of(
        {"type": "reasoning", "summary": []},
        ORIGIN,
        {"thinking": {"type": "thinking", "thinking": text, "signature": "S"}},
    )
)
others = st.sampled_from(
    [
        {"type": "web_search_call", "status": "completed"},
        {"type": "hologram"},
        {"type": "compaction", "encrypted_content": "E"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "E"},
    ]
)
answer = st.lists(st.one_of(words.map(assistant_message), calls, thinking, others), min_size=1, max_size=5)
outputs = st.one_of(words, parts)
steps = st.lists(
    st.tuples(answer, st.lists(outputs, min_size=5, max_size=5), around, st.booleans(), person), max_size=5
)


@st.composite
def threads(draw: Any) -> list[list[VisibleItem]]:
    """What is new in each request of a thread: words, or what the calls of an answer gave."""
    requests: list[list[Any]] = [
        [*draw(st.lists(words.map(developer_message), max_size=2)), draw(person), *draw(around)]
    ]
    for items, given_back, more, comes_back_reversed, next_word in draw(steps):
        made = [
            item for item in items if isinstance(item, dict) and item["type"].endswith("_call") and "call_id" in item
        ]
        results = [_output(item, back) for item, back in zip(made, given_back, strict=False)]
        if comes_back_reversed and len({item["call_id"] for item in made}) == len(made):
            results.reverse()
        requests.append([*items, *results, *more, *([] if made else [next_word])])
    return [[item if isinstance(item, VisibleItem) else VisibleItem.of(item) for item in new] for new in requests]


def _output(item: Item, given_back: Any) -> Item:
    kind = "custom_tool_call_output" if item["type"] == "custom_tool_call" else "function_call_output"
    return {"type": kind, "call_id": item["call_id"], "output": given_back}


@WIRES
@settings(max_examples=60, deadline=None)
@given(thread=threads())
def test_every_request_is_taken_and_begins_with_the_one_before(
    kind: type[Wire], thread: list[list[VisibleItem]]
) -> None:
    wire, items = kind(), []
    before: dict[str, Any] | None = None
    for new in thread:
        items = items + new
        sent = bytes(wire.encode(asks(items), terms(wire.name)))
        assert sent == bytes(kind().encode(asks(items), terms(wire.name))), "remembering must change nothing"
        body = json.loads(sent)
        assert PROBLEMS[wire.name](body) == []
        if before is not None:
            begun = PREFIX[wire.name](before)
            assert PREFIX[wire.name](body)[: len(begun)] == begun
            assert (body.get("tools"), body.get("system")) == (before.get("tools"), before.get("system"))
        before = body


@settings(max_examples=60, deadline=None)
@given(thread=threads())
def test_a_request_is_marked_where_the_one_before_ended(thread: list[list[VisibleItem]]) -> None:
    items: list[VisibleItem] = []
    ends: list[int] = []
    for new in thread:
        items = items + new
        body = json.loads(bytes(MessagesWire().encode(asks(items), terms("messages"))))
        marks = cache_marks(body)
        has_answered = any(block["role"] == "assistant" for block in body["messages"])
        assert marks[-1] == len(messages_prefix(body)) - 1 and len(marks) <= 2
        if has_answered and body["messages"][-2]["role"] == "assistant":
            assert set(marks[:-1]) <= set(ends)
        ends.append(marks[-1])


# ---- streams -------------------------------------------------------------------------------------------

spoken = st.one_of(
    st.tuples(said, st.integers(1, 4)).map(lambda drawn: {**assistant_message(drawn[0]), "_deltas": drawn[1]}),
    said.map(lambda text: {"type": "reasoning", "summary": [{"text": text}], "encrypted_content": "S"}),
    st.builds(
        lambda number, given: {"type": "function_call", "call_id": f"c{number}", "name": "t", "arguments": given},
        st.integers(0, 10**6),
        st.one_of(st.just('{"cmd":"ä"}'), said),
    ),
)
replies = st.lists(spoken, min_size=1, max_size=5)


def stream_of(wire: Wire, items: tuple[Item, ...]) -> bytes:
    events = messages_events(items, {}) if wire.name == "messages" else chat_chunks(items, {})
    return b"".join(encode_frame(event) for event in events)


@WIRES
@settings(max_examples=60, deadline=None)
@given(items=replies, cuts=st.lists(st.integers(0, 4000), max_size=12), style=st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_an_answer_is_the_same_however_it_is_cut(
    kind: type[Wire], items: list[Item], cuts: list[int], style: bytes
) -> None:
    stream = stream_of(kind(), tuple(items))
    whole = read(decoder(kind()), stream)
    assert read(decoder(kind()), stream.replace(b"\n", style), cuts) == whole
    assert read(decoder(kind()), stream, range(len(stream))) == whole
    assert isinstance(whole[-1], Completed)
    done = [event.item for event in whole if isinstance(event, ItemDone)]
    called = [item["arguments"] for item in done if item["type"] == "function_call"]
    assert called == [item["arguments"] for item in items if item["type"] == "function_call"]
    shown = "".join(event.delta for event in whole if isinstance(event, TextDelta))
    assert shown == "".join(item["content"][0]["text"] for item in items if item["type"] == "message")


@WIRES
@settings(max_examples=40, deadline=None)
@given(items=replies, end=st.floats(0, 1, exclude_max=True))
def test_an_answer_that_breaks_off_leaves_no_item(kind: type[Wire], items: list[Item], end: float) -> None:
    frames = stream_of(kind(), tuple(items)).split(b"\n\n")[:-1]
    # The last frames of a chat stream may be missing: it has said by then why it stopped.
    cut = frames[: int(end * (len(frames) - (1 if kind is MessagesWire else 3)))]
    reader, events = decoder(kind()), []
    with pytest.raises(SpindleError):
        for frame in cut:
            events += reader.feed(frame.partition(b"data: ")[2])
        reader.finish()
    assert not any(isinstance(event, ItemDone | Completed) for event in events)


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=8,
)
TYPES = ("message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "error")
NAMES = (
    *("type", "index", "delta", "content_block", "message", "usage", "error", "text", "thinking", "signature", "input"),
    *("partial_json", "stop_reason", "id", "name", "choices", "tool_calls", "function", "arguments", "content", "role"),
    *("reasoning_content", "finish_reason", "reasoning_details"),
)
near = st.recursive(
    st.one_of(json_values, st.sampled_from([*TYPES, "text", "thinking", "tool_use", "text_delta", "thinking_delta"])),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)),
    max_leaves=12,
)
frames = st.one_of(
    st.binary(max_size=40),
    near.map(lambda value: json.dumps(value).encode()),
    st.tuples(st.sampled_from(TYPES), st.dictionaries(st.sampled_from(NAMES), near, max_size=4)).map(
        lambda drawn: json.dumps({"type": drawn[0], **{k: v for k, v in drawn[1].items() if k != "type"}}).encode()
    ),
    near.map(lambda value: json.dumps({"choices": [{"index": 0, "delta": value}]}).encode()),
)


@WIRES
@settings(max_examples=150, deadline=None)
@given(given_frames=st.lists(frames, max_size=6))
def test_garbage_is_skipped_or_named_and_never_breaks_anything(kind: type[Wire], given_frames: list[bytes]) -> None:
    reader = decoder(kind())
    try:
        for frame in given_frames:
            if reader.is_over:
                break
            reader.feed(frame)
        ends = (b'{"type":"message_stop"}',) if kind is MessagesWire else (b"[DONE]",)
        for frame in ends if not reader.is_over else ():
            reader.feed(frame)
    except SpindleError:
        pass


@WIRES
def test_an_answer_that_never_ends_is_stopped(kind: type[Wire]) -> None:
    reader = decoder(kind())
    piece = "x" * 2**20
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
    frame = json.dumps(delta if kind is MessagesWire else {"choices": [{"delta": {"content": piece}}]}).encode()
    with pytest.raises(ModelError, match="larger than"):
        for _ in range(65):
            reader.feed(frame)
