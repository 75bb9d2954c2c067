"""The answers of the benchmark's model server in the dialects beside Responses: Chat Completions and Messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Item = dict[str, Any]

PATHS = {"responses": "/responses", "chat": "/chat/completions", "messages": "/messages"}


def chat_answer(number: int, items: list[Item]) -> bytes:
    """The body of a whole stream with these items."""
    frames: list[str] = []

    def say(delta: Item | None, finish: str | None = None, **more: Any) -> None:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        frames.append(
            _json({"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "choices": choices, **more})
        )

    say({"role": "assistant", "content": ""})
    calls = 0
    for item in items:
        if item["type"] == "function_call":
            function = {"name": item["name"], "arguments": item["arguments"]}
            call = {"index": calls, "id": item["call_id"], "type": "function", "function": function}
            say({"tool_calls": [call]})
            calls += 1
        else:
            for piece in item["pieces"]:
                say({"content": piece})
    say({}, "tool_calls" if calls else "stop")
    say(None, usage={"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110})
    return "".join(f"data: {frame}\n\n" for frame in [*frames, "[DONE]"]).encode()


def messages_answer(number: int, items: list[Item]) -> bytes:
    """The same in the dialect of Messages."""
    return "".join(f"event: {event['type']}\ndata: {_json(event)}\n\n" for event in _events(number, items)).encode()


def _events(number: int, items: list[Item]) -> Iterator[Item]:
    usage = {"input_tokens": 100, "output_tokens": 1}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "bench", "content": []}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}
    for index, item in enumerate(items):
        is_call = item["type"] == "function_call"
        call = {"type": "tool_use", "id": item.get("call_id"), "name": item.get("name"), "input": {}}
        block = call if is_call else {"type": "text", "text": ""}
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for piece in [item["arguments"]] if is_call else item["pieces"]:
            delta = (
                {"type": "input_json_delta", "partial_json": piece}
                if is_call
                else {"type": "text_delta", "text": piece}
            )
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = "tool_use" if any(item["type"] == "function_call" for item in items) else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 10}}
    yield {"type": "message_stop"}


def _json(value: Item) -> str:
    return json.dumps(value, separators=(",", ":"))
