"""What a model is shown of a thread: the wire form of each item, and the pairing of calls with outputs.

Pure over items. Which records survive compaction and rollback is decided by the record (`thread/`); how a request is
put together from the result, by `prompt/`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from spindle.protocol.items import Item, Part, call_id_of, encode_json, is_call, is_external, is_output, output_for
from spindle.protocol.provenance import ModelOrigin, Provenance
from spindle.protocol.request import VisibleItem, VisibleItems

ABORTED = "aborted"
"""The output of a call that never got one."""
IMAGE_OMITTED = "[picture left out: this model reads text only]"

_ID_PREFIX = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
    "web_search_call": "ws_",
    "compaction": "cmp_",
}
_TEXT_PARTS = ("input_text", "output_text")


class Recorded(Protocol):
    """A visible record of a thread: the item, its JSON as recorded, and which model made it, where that is known."""

    @property
    def item(self) -> Item: ...
    @property
    def raw(self) -> bytes: ...
    @property
    def made(self) -> Provenance | None: ...


class Audience(msgspec.Struct, frozen=True, kw_only=True):
    """Who is shown the thread, and what the receiving side can take."""

    accepts_images: bool = True
    keeps_raw_reasoning: bool = False
    """Unencrypted reasoning is sent back; for providers that give it out unencrypted."""
    keeps_all_ids: bool = False
    """Every id that a server gave is sent; for providers that store responses."""
    wire: str = "responses"
    origin: ModelOrigin | None = None
    """Where what the receiving side makes comes from; None for a model that takes everything."""
    refuses_opaque: bool = False
    """It could not read what should be its own."""

    def is_maker(self, made: Provenance | None) -> bool:
        """Whether an item was made there, as far as is known. Old records do not tell; they come from this API."""
        if self.origin is None:
            return True
        return self.wire == "responses" if made is None else made.origin.is_same_place(self.origin)

    def can_read(self, made: Provenance | None) -> bool:
        """Whether the opaque parts of an item may be sent."""
        return not self.refuses_opaque and self.is_maker(made)


_ANYONE = Audience()


# ---- one item ----------------------------------------------------------------------------------------


def to_wire(item: Item, audience: Audience = _ANYONE, made: Provenance | None = None) -> Item | None:
    """What is sent for `item`: the same object if it is already in wire form, None if it is not sent."""
    shape = _SHAPES.get(item.get("type", ""))
    if shape in _OF_ITS_SERVER and not audience.can_read(made):
        wire = _for_others(item, audience)
    else:
        wire = shape(item, audience) if shape else None
    if wire is None:
        return None
    given = item.get("id")
    if isinstance(given, str) and given and audience.is_maker(made):
        prefix = _ID_PREFIX.get(wire["type"])
        if (prefix is not None and given.startswith(prefix)) or (audience.keeps_all_ids and not is_output(wire)):
            wire["id"] = given
    return item if wire == item and list(wire) == list(item) else wire


def _message(item: Item, audience: Audience) -> Item | None:
    role, content = item.get("role"), item.get("content")
    if role not in ("developer", "user", "assistant"):
        return None
    if isinstance(content, str):
        content = [{"type": "output_text" if role == "assistant" else "input_text", "text": content}]
    wire = {"type": "message", "role": role, "content": _parts(content, audience)}
    if item.get("phase") is not None:
        wire["phase"] = item["phase"]
    return wire


def _parts(parts: Any, audience: Audience) -> list[Any]:
    """Text parts hold a type and a text; pictures only go where they can be seen; what we do not know stays."""
    if not isinstance(parts, list):
        return []  # a damaged rollout may hold anything
    return [_part(part, audience) if isinstance(part, dict) else part for part in parts]


def _part(part: Part, audience: Audience) -> Part:
    kind = part.get("type")
    if kind in _TEXT_PARTS and len(part) > 2:
        return {"type": kind, "text": part.get("text", "")}
    if kind == "input_image" and not audience.accepts_images:
        return {"type": "input_text", "text": IMAGE_OMITTED}
    return part


def _reasoning(item: Item, audience: Audience) -> Item:
    encrypted = item.get("encrypted_content")
    raw = item.get("content") if audience.keeps_raw_reasoning and not encrypted else None
    return {
        "type": "reasoning",
        "summary": item.get("summary") or [],
        "content": raw or None,
        "encrypted_content": encrypted,
    }


def _function_call(item: Item, audience: Audience) -> Item:
    arguments = item.get("arguments", "")
    if not isinstance(arguments, str):
        arguments = encode_json(arguments).decode()
    call: Item = {"type": "function_call", "name": item.get("name", "")}
    if isinstance(namespace := item.get("namespace"), str):
        call["namespace"] = namespace  # without it, the call would name another tool
    return {**call, "arguments": arguments, "call_id": call_id_of(item)}


def _custom_call(item: Item, audience: Audience) -> Item:
    return {
        "type": "custom_tool_call",
        "status": item.get("status") or "completed",
        "call_id": call_id_of(item),
        "name": item.get("name", ""),
        "input": item.get("input", ""),
    }


def _local_shell_call(item: Item, audience: Audience) -> Item:
    return {
        "type": "local_shell_call",
        "call_id": call_id_of(item),
        "status": item.get("status") or "completed",
        "action": item.get("action"),
    }


def _output(item: Item, audience: Audience) -> Item:
    output = item.get("output", "")
    if isinstance(output, list):
        output = _parts(output, audience)
    if is_external(item):
        return _external(item, output, audience)
    return {"type": item["type"], "call_id": call_id_of(item), "output": output}


def _external(item: Item, output: Any, audience: Audience) -> Item:
    """Only this API has a form for what no call asked for; its id is ours, whichever server it goes to."""
    if audience.wire != "responses":
        from spindle.context.external import as_message  # few threads have one

        return as_message(item, output)
    named = {name: item[name] for name in ("id", "name", "namespace") if isinstance(item.get(name), str)}
    if not named.get("id", "fco_").startswith("fco_"):
        del named["id"]  # written by others; servers take none but theirs and this kind
    return {"type": item["type"], **named, "output": output}


def _web_search(item: Item, audience: Audience) -> Item:
    wire = {"type": "web_search_call", "status": item.get("status") or "completed"}
    if item.get("action") is not None:
        wire["action"] = item["action"]
    return wire


def _compaction(item: Item, audience: Audience) -> Item:
    return {"type": "compaction", "encrypted_content": item.get("encrypted_content")}


_OF_ITS_SERVER = (_reasoning, _compaction, _web_search)


def _for_others(item: Item, audience: Audience) -> Item | None:
    """What another server than its maker is shown of an item that means little elsewhere: of reasoning the text.

    A Responses server refuses reasoning that it cannot open.
    """
    if audience.wire == "responses" or item.get("type") != "reasoning":
        return None
    return {**_reasoning(item, audience), "content": item.get("content"), "encrypted_content": None}


_SHAPES: dict[str, Callable[[Item, Audience], Item | None]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "function_call_output": _output,
    "custom_tool_call": _custom_call,
    "custom_tool_call_output": _output,
    "local_shell_call": _local_shell_call,
    "web_search_call": _web_search,
    "compaction": _compaction,
    "compaction_summary": _compaction,
}


# ---- calls and outputs -------------------------------------------------------------------------------


def pair_calls(items: Sequence[Item]) -> list[Item]:
    """Each call followed by exactly one output: a missing one is made up, an output without its call is left out."""
    return [items[step] if isinstance(step, int) else step for step in _pairing(items)]


def _pairing(items: Sequence[Item]) -> list[int | Item]:
    """The paired order: an index into `items`, or an output made up for the call before it."""
    call_of = _answered(items)
    answered = set(call_of.values())
    order: list[int | Item] = []
    run: list[tuple[int, int | Item]] = []  # neighbouring outputs, each with the place of its call
    for index, item in enumerate(items):
        if is_output(item):
            if index in call_of:
                run.append((call_of[index], index))
            continue
        if run:
            order += _by_call(run)
            run = []
        order.append(index)
        if is_call(item) and index not in answered:
            run.append((index, output_for(item, ABORTED)))
    return order + _by_call(run)


def _answered(items: Sequence[Item]) -> dict[int, int]:
    """The place of each output that counts → the place of its call.

    A model may use an id again. Of several calls that wait under one id, the newest are answered, in their order: an
    older one that is still open was left open, and its made-up output stands right behind it.
    """
    waiting: dict[tuple[str, str], list[int]] = {}
    given: dict[tuple[str, str], list[int]] = {}
    found: dict[int, int] = {}

    def settle(key: tuple[str, str]) -> None:
        calls, outputs = waiting.pop(key, []), given.pop(key, [])
        count = min(len(calls), len(outputs))
        found.update(zip(outputs[:count], calls[len(calls) - count :], strict=True))

    for index, item in enumerate(items):
        if is_output(item):
            key = (item["type"], call_id_of(item))
            calls = waiting.get(key)
            if calls is None:
                continue  # its call is answered, or there is none
            if len(calls) == 1:  # nearly always, so it must be quick
                found[index] = calls[0]
                del waiting[key]
            else:
                given.setdefault(key, []).append(index)
        elif is_call(item):
            is_custom = item["type"] == "custom_tool_call"
            key = ("custom_tool_call_output" if is_custom else "function_call_output", call_id_of(item))
            if key in given:
                settle(key)
            waiting.setdefault(key, []).append(index)
    for key in list(given):
        settle(key)
    return found


def _by_call(run: list[tuple[int, int | Item]]) -> list[int | Item]:
    """Neighbouring outputs in the order of their calls: a program that was killed may have left them in another."""
    if len(run) == 1:
        return [run[0][1]]
    return [step for _, step in sorted(run, key=lambda placed: placed[0])]


# ---- the whole thread, incrementally -----------------------------------------------------------------


class VisibleFold:
    """The items of a growing thread as a model is shown them; each update costs only what is new.

    While the generation stays the same, every answer is a prefix of the next one. So a call that a request showed as
    aborted stays aborted, and an output that comes later is left out.
    """

    PAST = ("_wire", "_raws")
    """What is packed while the thread rests (`core/resting.py`)."""

    def __init__(self, audience: Audience = _ANYONE) -> None:
        self.audience = audience
        self._generation: object = None
        self._seen = 0
        self._wire: list[VisibleItem] = []
        self._raws: list[bytes] = []

    def address(self, audience: Audience) -> bool:
        """Another model, or another server, may take the thread over: what it can take decides anew about each item.

        False when the audience is the same as before.
        """
        if audience == self.audience:
            return False
        self.audience = audience
        self._restart()
        return True

    def update(self, entries: Sequence[Recorded], generation: object) -> VisibleItems:
        """The items for a request now. `generation` changes when earlier entries did."""
        if generation != self._generation or len(entries) < self._seen:
            self._generation = generation
            self._restart()
        new = entries[self._seen :]
        if new:
            self._take(new)
            self._seen = len(entries)
            self._raws += [shown.raw for shown in self._wire[len(self._raws) :]]
        return VisibleItems(self._wire, self._raws.copy())

    def _restart(self) -> None:
        self._seen = 0
        self._wire = []
        self._raws = []

    def _take(self, new: Sequence[Recorded]) -> None:
        # Rollouts may hold anything; what has no proper type is of an unknown type.
        new = [entry for entry in new if isinstance(entry.item.get("type"), str)]
        # An output whose call came with an earlier update finds no call here, and that call was closed then.
        for step in _pairing([entry.item for entry in new]):
            if not isinstance(step, int):
                self._wire.append(VisibleItem.of(step))
                continue
            entry = new[step]
            made = entry.made
            wire = to_wire(entry.item, self.audience, made)
            if wire is None:
                continue
            raw = entry.raw if wire is entry.item else encode_json(wire)
            if made is None:
                self._wire.append(VisibleItem(item=wire, raw=raw))
            else:
                opaque = made.opaque if self.audience.can_read(made) else None
                self._wire.append(VisibleItem(item=wire, raw=raw, origin=made.origin, opaque=opaque))
