"""The answers of a scripted server in the dialects of Chat Completions and Messages.

Items are those of `fake_server`; so one script runs over every wire.
"""

from __future__ import annotations

import json
from typing import Any

Event = dict[str, Any]
Item = dict[str, Any]


def messages_events(items: tuple[Item, ...], usage: dict[str, int], *, stop: str | None = None) -> list[Event]:
    """A stream of the Messages API. A reasoning item with `encrypted_content` is thinking with that signature."""
    counts = {"input": 100, "cached": 0, "written": 0, "output": 10, **usage}
    fresh = max(0, counts["input"] - counts["cached"] - counts["written"])
    begun = {
        "input_tokens": fresh,
        "cache_read_input_tokens": counts["cached"],
        "cache_creation_input_tokens": counts["written"],
        "output_tokens": 1,
    }
    message = {"id": "msg_fake", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": begun}
    started = {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}}
    events: list[Event] = [started, {"type": "ping"}]
    for index, item in enumerate(items):
        start, deltas = _block(item)
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    reason = stop or ("tool_use" if any(_is_call(item) for item in items) else "end_turn")
    final = {"output_tokens": counts["output"]}
    if counts.get("reasoning"):
        final["output_tokens_details"] = {"thinking_tokens": counts["reasoning"]}
    ended = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": final}
    return [*events, ended, {"type": "message_stop"}]


def _block(item: Item) -> tuple[Event, list[Event]]:
    match item["type"]:
        case "message":
            text = item["content"][0]["text"]
            pieces = _pieces(text, item.get("_deltas", 1))
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
        case "reasoning":
            text = "\n".join(part["text"] for part in item["summary"])
            signed = {"type": "signature_delta", "signature": item.get("encrypted_content") or "signed"}
            start = {"type": "thinking", "thinking": "", "signature": ""}
            return start, [*({"type": "thinking_delta", "thinking": piece} for piece in _pieces(text, 2)), signed]
        case _:
            start = {"type": "tool_use", "id": item["call_id"], "name": item["name"], "input": {}}
            pieces = _pieces(_arguments(item), 3)
            return start, [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces)]


def chat_chunks(items: tuple[Item, ...], usage: dict[str, int], *, finish: str | None = None) -> list[Event | str]:
    """A stream of Chat Completions, down to the `[DONE]` at its end."""
    base = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m"}

    def chunk(delta: Event, reason: str | None = None) -> Event:
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    chunks: list[Event | str] = [chunk({"role": "assistant", "content": ""})]
    calls = 0
    for item in items:
        match item["type"]:
            case "message":
                pieces = _pieces(item["content"][0]["text"], item.get("_deltas", 1))
                chunks += [chunk({"content": piece}) for piece in pieces]
            case "reasoning":
                text = "\n".join(part["text"] for part in item["summary"])
                chunks += [chunk({"reasoning_content": piece}) for piece in _pieces(text, 2)]
            case _:
                named = {"id": item["call_id"], "type": "function", "function": {"name": item["name"], "arguments": ""}}
                chunks.append(chunk({"tool_calls": [{"index": calls, **named}]}))
                for piece in _pieces(_arguments(item), 3):
                    chunks.append(chunk({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]}))
                calls += 1
    chunks.append(chunk({}, finish or ("tool_calls" if calls else "stop")))
    counts = {"input": 100, "cached": 0, "output": 10, "reasoning": 0, **usage}
    counted = {
        "prompt_tokens": counts["input"],
        "prompt_tokens_details": {"cached_tokens": counts["cached"]},
        "completion_tokens": counts["output"],
        "completion_tokens_details": {"reasoning_tokens": counts["reasoning"]},
        "total_tokens": counts["input"] + counts["output"],
    }
    return [*chunks, {**base, "choices": [], "usage": counted}, "[DONE]"]


def encode_frame(event: Event | str) -> bytes:
    data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
    return f"{name}data: {data}\n\n".encode()


def _is_call(item: Item) -> bool:
    return item["type"] in ("function_call", "custom_tool_call")


def _arguments(item: Item) -> str:
    return json.dumps({"input": item["input"]}) if item["type"] == "custom_tool_call" else item["arguments"]


def _pieces(text: str, count: int) -> list[str]:
    size = max(1, -(-len(text) // count))
    return [text[at : at + size] for at in range(0, len(text), size)]
