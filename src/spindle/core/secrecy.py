"""Takes secrets out of what a session shows: events as they are emitted, a model's words as they stream.

The record is masked where it is written, and tool results before they become items: see `policy.secrets`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from spindle.policy.secrets import Secrets
from spindle.protocol.events import AgentMessageContentDelta, Msg, ReasoningContentDelta, ReasoningRawContentDelta
from spindle.protocol.items import Part

if TYPE_CHECKING:
    from spindle.core.patch_preview import PatchPreview
    from spindle.model.client import InputDelta
    from spindle.policy.secret_stream import TextMasker

Mask = Callable[[str], str]
Kind = Literal["text", "summary", "raw"]
"""What a piece of an answer belongs to: a message, a summary of reasoning, reasoning as it is."""


def masked_msg(msg: Msg, secrets: Secrets) -> Msg:
    """The message without secrets in the fields that its class declares; the same object when it has none."""
    outside = msg.outside
    if outside.is_settled:
        return msg
    changed: dict[str, Any] = {}
    if outside.words:
        _mask_fields(msg, outside.words, secrets.known_masker(), changed)
    if outside.tools:
        _mask_fields(msg, outside.tools, secrets.masker(), changed)
    if outside.person:
        _mask_fields(msg, outside.person, secrets.known_masker(own_only=True), changed)
    for name in outside.items:
        is_typed = getattr(msg, name).get("type") == "UserMessage"
        _mask_fields(msg, (name,), secrets.known_masker(own_only=is_typed), changed)
    return msgspec.structs.replace(msg, **changed) if changed else msg


def _mask_fields(msg: Msg, names: tuple[str, ...], mask: Mask, changed: dict[str, Any]) -> None:
    """Note in `changed` the fields that are not the same when they are masked."""
    for name in names:
        value = getattr(msg, name)
        if value and (masked := _masked(value, mask)) != value:
            changed[name] = masked


def mask_output(output: str | list[Part], secrets: Secrets) -> str | list[Part]:
    """What a tool answers, before it becomes an item of the thread."""
    if isinstance(output, str):
        return secrets.mask(output)
    return [
        {**part, "text": secrets.mask(part["text"])} if isinstance(part.get("text"), str) else part for part in output
    ]


class StreamedText:
    """The items of one answer while they stream: each has a masker, which may hold a few characters back."""

    def __init__(self, secrets: Secrets, thread_id: str, turn_id: str, emit: Callable[[Msg], None]) -> None:
        self._secrets = secrets
        self._thread_id = thread_id
        self._turn_id = turn_id
        self._emit = emit
        self._open: dict[tuple[Kind, str, int], tuple[TextMasker, str]] = {}
        """By item and part of it: the masker, and the item's id as it is shown; servers choose these ids."""
        self._patches: dict[str, PatchPreview] = {}
        """Patches that the model is writing, by item."""

    def show(self, kind: Kind, item_id: str, delta: str, index: int = 0) -> None:
        """Emit what can be shown of one more piece of an item."""
        known = self._open.get((kind, item_id, index))
        if known is None:
            known = self._open[kind, item_id, index] = self._secrets.text_stream(), self._secrets.mask_known(item_id)
        masker, shown_id = known
        if shown := masker.feed(delta):
            self._show(kind, shown_id, index, shown)

    def show_input(self, event: InputDelta) -> None:
        """The same for what is written for a tool; only patches are worth showing before they are whole."""
        if event.name != "apply_patch":
            return
        from spindle.core.patch_preview import PatchPreview  # with the first patch

        patch = self._patches.get(event.item_id)
        if patch is None:
            patch = self._patches[event.item_id] = PatchPreview(event.call_id, self._turn_id, self._secrets)
        if (msg := patch.feed(event.delta)) is not None:
            self._emit(msg)

    def finish(self, item_id: str) -> None:
        """The item is complete: emit what was held back of it."""
        self._patches.pop(item_id, None)
        for key in [key for key in self._open if key[1] == item_id]:
            masker, shown_id = self._open.pop(key)
            if rest := masker.finish():
                self._show(key[0], shown_id, key[2], rest)

    def _show(self, kind: Kind, item_id: str, index: int, delta: str) -> None:
        thread_id, turn_id = self._thread_id, self._turn_id
        match kind:
            case "text":
                msg = AgentMessageContentDelta(thread_id=thread_id, turn_id=turn_id, item_id=item_id, delta=delta)
            case "summary":
                msg = ReasoningContentDelta(
                    thread_id=thread_id, turn_id=turn_id, item_id=item_id, delta=delta, summary_index=index
                )
            case "raw":
                msg = ReasoningRawContentDelta(
                    thread_id=thread_id, turn_id=turn_id, item_id=item_id, delta=delta, content_index=index
                )
        self._emit(msg)


def _masked(value: Any, mask: Mask) -> Any:
    match value:
        case str():
            return mask(value)
        case list():
            return [_masked(entry, mask) for entry in value]
        case dict():
            return _masked_mapping(value, mask)
        case tuple():
            return tuple(_masked(entry, mask) for entry in value)
        case msgspec.Struct():
            fields = {name: _masked(getattr(value, name), mask) for name in value.__struct_fields__}
            return msgspec.structs.replace(value, **fields)
        case _:
            return value


def _masked_mapping(mapping: dict[Any, Any], mask: Mask) -> dict[Any, Any]:
    """Keys are masked too. Those that then look the same get numbers: no file may vanish from a question."""
    masked: dict[Any, Any] = {}
    for key, value in mapping.items():
        shown = mask(key) if isinstance(key, str) else key
        name, number = shown, 1
        while name in masked:
            number += 1
            name = f"{shown} ({number})"
        masked[name] = _masked(value, mask)
    return masked
