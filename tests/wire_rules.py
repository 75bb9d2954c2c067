"""What model servers refuse, in the strictness of the strictest ones known.

Each function takes a body and gives back what is wrong with it, as sentences; none for a body that every server takes.
The types of single fields are checked against the vendors' own packages elsewhere (`tests/model/test_typed_bodies.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_KINDS = {
    "user": ("text", "image", "tool_result"),
    "assistant": ("text", "tool_use", "thinking", "redacted_thinking"),
}
_MESSAGES_KEYS = {
    *("model", "max_tokens", "system", "messages", "tools", "tool_choice", "thinking", "output_config", "stream"),
}
_CHAT_KEYS = {
    *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options"),
    *("response_format", "reasoning_effort", "max_tokens", "max_completion_tokens"),
}


def blank(text: Any) -> bool:
    return not isinstance(text, str) or not text.strip()


# ---- Messages --------------------------------------------------------------------------------------


def messages_problems(body: Json) -> list[str]:
    return [*_messages_frame(body), *_messages_turns(body)]


def _messages_frame(body: Json) -> Iterator[str]:
    if unknown := set(body) - _MESSAGES_KEYS:
        yield f"unknown keys {sorted(unknown)}"
    if body.get("stream") is not True or not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        yield "stream must be true, max_tokens a positive number"
    if "system" in body and (not body["system"] or any(blank(block.get("text")) for block in body["system"])):
        yield "system: empty"
    tools = body.get("tools", [])
    if "tools" in body and not tools:
        yield "tools: empty"
    names = [tool["name"] for tool in tools]
    if len(set(names)) < len(names) or not all(_NAME.fullmatch(name) for name in names):
        yield f"tools: bad or repeated names {names}"
    for tool in tools:
        schema = tool["input_schema"]
        if schema.get("type") != "object" or {"oneOf", "anyOf", "allOf"} & set(schema):
            yield f"tools: the schema of {tool['name']} is not that of an object"
    if "tool_choice" in body and not tools:
        yield "tool_choice without tools"
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled" and not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
        yield "thinking: the budget must be at least 1024 and less than max_tokens"
    if thinking and (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        yield "thinking with a forced tool"
    marks = [block for block in _all_blocks(body) if "cache_control" in block]
    if len(marks) > 4 or any(block.get("type") in ("thinking", "redacted_thinking") for block in marks):
        yield "cache_control: more than four, or on thinking"


def _messages_turns(body: Json) -> Iterator[str]:
    messages = body["messages"]
    if not messages or messages[-1]["role"] != "user":
        yield "the last message must be the user's"
    due: list[str] = []
    seen: set[str] = set()
    for place, message in enumerate(messages):
        where, content = f"messages.{place}", message["content"]
        if message["role"] != ("assistant" if place % 2 else "user") or not content:
            yield f"{where}: roles must alternate, and nothing be empty"
        kinds = [block["type"] for block in content]
        if message["role"] == "user":
            results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
            if results != due or kinds[: len(results)] != ["tool_result"] * len(results):
                yield f"{where}: results {results} for calls {due}, in their order and before all else"
        else:
            due = [block["id"] for block in content if block["type"] == "tool_use"]
            if seen & set(due) or len(set(due)) < len(due) or not all(_CALL_ID.fullmatch(call_id) for call_id in due):
                yield f"{where}: bad or repeated ids {due}"
            seen |= set(due)
            if kinds and kinds[-1] in ("thinking", "redacted_thinking") and not due:
                yield f"{where}: ends in thinking"
        for block in content:
            yield from _block_problems(where, message["role"], block)
        if message["role"] == "user":
            due = []
    if due:
        yield f"no results for {due}"
    if seen and not body.get("tools"):
        yield "calls without tools"


def _block_problems(where: str, role: str, block: Json) -> Iterator[str]:
    allowed = (
        ("text", "image", "tool_result") if role == "user" else ("text", "tool_use", "thinking", "redacted_thinking")
    )
    kind = block["type"]
    if kind not in allowed:
        yield f"{where}: {kind} of {role}"
    if kind == "text" and blank(block["text"]):
        yield f"{where}: blank text"
    if kind == "tool_use" and (not isinstance(block["input"], dict) or not _NAME.fullmatch(block["name"])):
        yield f"{where}: bad call {block}"
    if kind == "tool_result":
        inner = block["content"]
        if isinstance(inner, list):
            for part in inner:
                if part["type"] not in ("text", "image"):
                    yield f"{where}: {part['type']} in a result"
                yield from _block_problems(where, "user", part)
        elif blank(inner):
            yield f"{where}: blank result"
    if kind == "image" and block["source"]["type"] == "base64":
        source = block["source"]
        if source["media_type"] not in _PICTURES or not source["data"] or source["data"].startswith("data:"):
            yield f"{where}: bad picture"


def _all_blocks(body: Json) -> Iterator[Json]:
    yield from body.get("system", [])
    yield from body.get("tools", [])
    for message in body["messages"]:
        for block in message["content"]:
            yield block
            if isinstance(block.get("content"), list):
                yield from block["content"]


def messages_prefix(body: Json) -> list[str]:
    """The conversation as what must only grow: role and block, one by one, without marks."""
    bare = [(message["role"], _unmarked(block)) for message in body["messages"] for block in message["content"]]
    return [json.dumps(entry) for entry in bare]


def cache_marks(body: Json) -> list[int]:
    """The places of the marks in the conversation, counted in blocks."""
    blocks = [block for message in body["messages"] for block in message["content"]]
    return [place for place, block in enumerate(blocks) if "cache_control" in block]


def _unmarked(block: Json) -> Json:
    return {key: value for key, value in block.items() if key != "cache_control"}


# ---- Responses ------------------------------------------------------------------------------------------


def responses_problems(body: Json, sealed: set[str]) -> list[str]:
    """What a Responses server refuses in a thread that has been elsewhere; `sealed` is what it has encrypted itself."""
    return [*_responses_items(body["input"], sealed)]


def _responses_items(items: list[Json], sealed: set[str]) -> Iterator[str]:
    due: set[str] = set()
    seen: set[str] = set()
    for place, item in enumerate(items):
        where, kind = f"input.{place}", item["type"]
        if "id" in item and not re.match(r"(msg|rs|fc|ctc|ws|cmp)_", item["id"]):
            yield f"{where}: id {item['id']}"
        if item.get("encrypted_content") not in (None, *sealed):
            yield f"{where}: cannot be decrypted"
        if kind == "reasoning" and not item.get("encrypted_content") and not item.get("content"):
            yield f"{where}: reasoning that nobody can read"
        if "spindle" in item or "origin" in item or "opaque" in item:
            yield f"{where}: holds what is ours"
        if kind.endswith("_call") and "call_id" in item:
            if item["call_id"] in seen:
                yield f"{where}: repeated id"
            seen.add(item["call_id"])
            due.add(item["call_id"])
        elif kind.endswith("_output"):
            if item["call_id"] not in due:
                yield f"{where}: answers no call"
            due.discard(item["call_id"])
    if due:
        yield f"no results for {due}"


# ---- Chat Completions ------------------------------------------------------------------------------


def chat_problems(body: Json, *, replays_reasoning: bool = False) -> list[str]:
    return [*_chat_frame(body), *_chat_turns(body, replays_reasoning)]


def _chat_frame(body: Json) -> Iterator[str]:
    if unknown := set(body) - _CHAT_KEYS:
        yield f"unknown keys {sorted(unknown)}"
    if body.get("stream") is not True:
        yield "stream must be true"
    tools = body.get("tools", [])
    if "tools" in body and not tools:
        yield "tools: empty"
    if not tools and {"tool_choice", "parallel_tool_calls"} & set(body):
        yield "tool_choice or parallel_tool_calls without tools"
    names = [tool["function"]["name"] for tool in tools if tool["type"] == "function"]
    if len(names) < len(tools) or len(set(names)) < len(names) or not all(_NAME.fullmatch(name) for name in names):
        yield f"tools: not all are functions with names of their own: {names}"
    for tool in tools:
        if tool["function"].get("parameters", {}).get("type") != "object":
            yield f"tools: the schema of {tool['function']['name']} is not that of an object"


def _chat_turns(body: Json, replays_reasoning: bool) -> Iterator[str]:
    messages = body["messages"]
    roles = [message["role"] for message in messages]
    if "user" not in roles or roles[-1] not in ("user", "tool"):
        yield "there must be a user message, and the last word must not be the model's"
    due: list[str] = []
    for place, message in enumerate(messages):
        where, role, content = f"messages.{place}", message["role"], message.get("content")
        if role == "tool":
            if message["tool_call_id"] not in due:
                yield f"{where}: answers no call"
            due = [call_id for call_id in due if call_id != message["tool_call_id"]]
            if blank(content):
                yield f"{where}: blank result"
            continue
        if due:
            yield f"{where}: no results for {due}"
        calls = message.get("tool_calls", [])
        due = [call["id"] for call in calls]
        match role:
            case "system":
                if place or blank(content):
                    yield f"{where}: a system message must come first and say something"
            case "user":
                yield from _chat_user(where, content)
            case "assistant":
                allowed = {"role", "content", "tool_calls"} | ({"reasoning_content"} if replays_reasoning else set())
                if set(message) - allowed or ("tool_calls" in message and not calls) or (not calls and blank(content)):
                    yield f"{where}: says nothing, or has unknown keys: {sorted(message)}"
                for call in calls:
                    yield from _chat_call(where, call)
            case _:
                yield f"{where}: role {role}"
    if due:
        yield f"no results for {due}"


def _chat_user(where: str, content: Any) -> Iterator[str]:
    if isinstance(content, str):
        if blank(content):
            yield f"{where}: blank"
        return
    for part in content or [{}]:
        if part.get("type") == "text" and not blank(part["text"]):
            continue
        if part.get("type") != "image_url" or not re.match(r"data:image/|https?://", part["image_url"]["url"]):
            yield f"{where}: bad part {part}"


def _chat_call(where: str, call: Json) -> Iterator[str]:
    function = call["function"]
    if not _CALL_ID.fullmatch(call["id"]) or call["type"] != "function" or not _NAME.fullmatch(function["name"]):
        yield f"{where}: bad call {call}"
    try:
        is_object = isinstance(json.loads(function["arguments"]), dict)
    except ValueError:
        is_object = False
    if not is_object:
        yield f"{where}: arguments are no object: {function['arguments']!r}"


def chat_prefix(body: Json) -> list[str]:
    """The conversation as what must only grow."""
    return [json.dumps(message) for message in body["messages"]]
