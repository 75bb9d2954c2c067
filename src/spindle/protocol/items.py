"""Items of a thread, in the shape of the Responses API.

The wire dict is the truth: an item is kept, replayed and recorded as the mapping that came in, unknown fields and
unknown types included. The functions here make our own items and look into any item; none of them changes one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

Item = dict[str, Any]
Part = dict[str, Any]

encode_json = msgspec.json.Encoder().encode
"""Deterministic: compact, UTF-8, keys in the order they stand in the mapping."""

MAX_FOREIGN_DEPTH = 128
"""How deep what others send may be nested: clients, models, tool servers."""
MAX_DEPTH = 200
"""How deep anything we read may be nested: the same, and what we put around it. Far below what a recursive function,
of ours or of a library, can walk through."""

T = TypeVar("T")

_decode = msgspec.json.Decoder().decode
decode_own = _decode
"""Read JSON that we encoded: how deep it is nested was looked at when it came in."""


def decode_json(data: bytes | str, max_depth: int | None = MAX_DEPTH) -> Any:
    """Read JSON. Raises `msgspec.DecodeError`, also for what is nested too deep; `UnicodeError` for what is no text.

    Without `max_depth`: for values that are looked at and never walked through.
    """
    try:
        value = _decode(data)
    except RecursionError as error:
        raise _too_deep(max_depth or MAX_DEPTH) from error
    if max_depth is not None and _is_nested(data, max_depth) and _is_deeper(value, max_depth):
        raise _too_deep(max_depth)
    return value


def decode_foreign(data: bytes | str) -> Any:
    """Read JSON that somebody else sends, and that may become part of a record."""
    return decode_json(data, MAX_FOREIGN_DEPTH)


def json_reader(kind: type[T], max_depth: int = MAX_DEPTH, *, is_walked: bool = True) -> Callable[[bytes | str], T]:
    """What reads JSON of one shape, and raises as `decode_json` does.

    Where its fields are looked at but never walked through (`is_walked` false), their depth is nobody's trouble.
    """
    decode: Callable[[bytes | str], T] | None = None

    def read(data: bytes | str) -> T:
        nonlocal decode
        try:
            if decode is None:
                decode = msgspec.json.Decoder(kind).decode  # not before it is used: start-up has no use for most
            value = decode(data)
        except RecursionError as error:
            raise _too_deep(max_depth) from error
        if is_walked and _is_nested(data, max_depth):
            # What has a shape of its own below the top is as deep as that shape.
            fields = msgspec.structs.astuple(value) if isinstance(value, msgspec.Struct) else (value,)
            if _is_deeper(list(fields), max_depth):
                raise _too_deep(max_depth)
        return value

    return read


def _is_nested(data: bytes | str, depth: int) -> bool:
    """Whether it could be nested deeper than that. Quick: each level has two brackets."""
    if len(data) <= 2 * depth:
        return False
    # Most texts have few brackets, and `find` is many times as fast as `count` between them.
    left = depth
    for sign in ("{", "["):
        left -= _count(data, sign, left)
        if left < 0:
            return True
    return False


def _count(data: bytes | str, sign: str, most: int) -> int:
    """How often a sign is in the text; as soon as that is more than `most`, it does not matter how often."""
    find, wanted = data.find, sign if isinstance(data, str) else sign.encode()
    number, at = 0, find(wanted)  # pyright: ignore[reportArgumentType]
    while at >= 0 and number <= most:
        number += 1
        at = find(wanted, at + 1)  # pyright: ignore[reportArgumentType]
    return number


def _is_deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth + 1):
        level = [
            entry
            for holder in level
            if isinstance(holder, dict | list)
            for entry in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(entry, dict | list)
        ]
        if not level:
            return False
    return True


def _too_deep(depth: int) -> msgspec.DecodeError:
    return msgspec.DecodeError(f"JSON is nested more than {depth} levels deep")


SENT_TYPES = frozenset(
    (
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
        "web_search_call",
        "compaction",
        "compaction_summary",
    )
)
"""Item types a model server understands; any other type is recorded but not sent."""

CALL_TYPES = frozenset(("function_call", "custom_tool_call", "local_shell_call"))
OUTPUT_TYPES = frozenset(("function_call_output", "custom_tool_call_output"))

CONTEXT_PREFIXES = (
    "<environment_context>",
    "<turn_aborted>",
    "<user_shell_command>",
    "<skill",
    "# agents.md instructions for ",
    "<user_instructions>",
    "<user_action>",
    "<work_ledger>",
    "<hook_prompt",
    "<external_message",
    "<project_notes>",
    "<codex_internal_context",
)
"""How user-role messages begin that no person typed (compared in lower case)."""


def encode_payload(payload: Any) -> bytes:
    """JSON bytes. Lone surrogates, which no UTF-8 text can hold, become question marks."""
    try:
        return encode_kept(payload)
    except UnicodeEncodeError:
        return encode_kept(without_surrogates(payload))


def encode_kept(value: Any) -> bytes:
    """JSON bytes that stay for long. The encoder's own take half as much again: it never gives back what its buffer
    has left over."""
    return bytes(memoryview(encode_json(value)))


@lru_cache(maxsize=16)
def one_copy(kept: bytes) -> bytes:
    """The same bytes; those that an earlier thread of this process keeps, if they are equal."""
    return kept


def without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_surrogates(entry) for entry in value]
    return value


def message(role: str, *texts: str) -> Item:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts]}


def user_message(*texts: str) -> Item:
    return message("user", *texts)


def developer_message(text: str) -> Item:
    return message("developer", text)


def assistant_message(text: str) -> Item:
    return message("assistant", text)


def output_for(call: Item, output: str | list[Part]) -> Item:
    """The item that answers `call`, of the type that fits the call's."""
    kind = "custom_tool_call_output" if call["type"] == "custom_tool_call" else "function_call_output"
    return {"type": kind, "call_id": call_id_of(call), "output": output}


def is_call(item: Item) -> bool:
    return item.get("type") in CALL_TYPES


def external_output(item_id: str, name: str, namespace: str | None, output: str | list[Part]) -> Item:
    """What a program brings from outside of the conversation: an output that no call asked for."""
    item: Item = {"type": "function_call_output", "id": item_id, "name": name}
    if namespace is not None:
        item["namespace"] = namespace
    return {**item, "output": output}


def is_output(item: Item) -> bool:
    """What a call gave, also where that call is missing."""
    return item.get("type") in OUTPUT_TYPES and not is_external(item)


def is_external(item: Item) -> bool:
    """What a program brought without being asked: it names its tool where an output names its call."""
    if item.get("type") != "function_call_output" or item.get("call_id"):
        return False
    return isinstance(name := item.get("name"), str) and bool(name)


def name_of_external(item: Item) -> str:
    """The tool that speaks, with its namespace."""
    namespace = item.get("namespace")
    return f"{namespace}.{item['name']}" if isinstance(namespace, str) and namespace else item["name"]


def call_id_of(item: Item) -> str:
    given = item.get("call_id")
    if isinstance(given, str) and given:
        return given
    given = item.get("id")
    return given if isinstance(given, str) else ""


def said_text(message: Item) -> str:
    """The words of a person's message: its texts, a line for each; pictures and the tags around them are left out."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    places = {place + step for place, part in enumerate(parts) if part.get("type") == "input_image" for step in (-1, 1)}
    said = [
        text
        for place, part in enumerate(parts)
        if isinstance(text := part.get("text"), str) and text and not (place in places and _is_picture_tag(text))
    ]
    return "\n".join(said)


def _is_picture_tag(text: str) -> bool:
    return text in ("<image>", "</image>") or (text.startswith("<image ") and text.endswith(">"))


def item_text(item: Item) -> str:
    """All text parts of a message, joined; a refusal is text too. A plain string counts as one part."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text", part.get("refusal")) for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def is_user_input(item: Item) -> bool:
    """True for a message a person wrote, false for context that the harness put into the user's role."""
    if item.get("type") != "message" or item.get("role") != "user":
        return False
    return not item_text(item).lstrip()[:40].lower().startswith(CONTEXT_PREFIXES)
