"""Where secrets are taken out of what a session shows: events as they are emitted, a model's words as they stream.

What is recorded is masked where it is recorded, what tools bring in before it becomes an item: see `policy.secrets`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spindle.policy.secrets import Secrets
from spindle.protocol.events import (
    AgentMessageContentDelta,
    ApplyPatchApprovalRequest,
    ExecApprovalRequest,
    ExecCommandBegin,
    ExecCommandEnd,
    ExecCommandOutputDelta,
    ItemCompleted,
    ItemStarted,
    Msg,
    PatchApplyBegin,
    PatchApplyEnd,
    ReasoningContentDelta,
    ReasoningRawContentDelta,
    TerminalInteraction,
    TokenCount,
    TurnDiff,
    UserMessage,
    decode_msg,
    msg_to_wire,
)
from spindle.protocol.items import Part, encode_payload

if TYPE_CHECKING:
    from spindle.policy.secret_stream import TextMasker

_MASKED_BEFORE = (
    *(AgentMessageContentDelta, ReasoningContentDelta, ReasoningRawContentDelta),
    *(ExecCommandOutputDelta, TokenCount),
)
"""Streams have maskers of their own, which know what came before; and numbers have no secrets."""

_FROM_TOOLS = (
    *(ExecCommandBegin, ExecCommandEnd, ExecApprovalRequest, TerminalInteraction),
    *(PatchApplyBegin, PatchApplyEnd, ApplyPatchApprovalRequest, TurnDiff),
)
"""These quote files and commands: what only looks like a secret is masked in them too."""

_FROM_OTHERS = frozenset(("mcp_tool_call_end", "python_tool_call_progress", "python_tool_call_end"))
"""So do these, which are known by their tag: their modules are loaded with the first server or function."""

_OUTPUT_FIELDS = frozenset(("stdout", "stderr", "aggregated_output", "formatted_output"))
"""What a command printed was masked when it was taken from the command."""


def masked_msg(msg: Msg, secrets: Secrets) -> Msg:
    """The message without secrets; the same object when it has none."""
    if isinstance(msg, _MASKED_BEFORE):
        return msg
    if isinstance(msg, _FROM_TOOLS) or msg.__struct_config__.tag in _FROM_OTHERS:
        skipped = _OUTPUT_FIELDS if isinstance(msg, ExecCommandEnd) else frozenset[str]()
        wire, mask = msg_to_wire(msg), secrets.masker()
        masked = {
            key: value if key in skipped or key == "type" else _mapped(value, mask) for key, value in wire.items()
        }
        return msg if masked == wire else decode_msg(masked)
    own_only = _is_from_person(msg)
    wire = msg_to_wire(msg)
    raw = encode_payload(wire)
    if secrets.mask_json(raw, own_only=own_only) is raw:
        return msg
    return decode_msg(_mapped(wire, lambda text: secrets.mask_known(text, own_only=own_only)))


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
        self._open: dict[tuple[str, str, int], TextMasker] = {}

    def show(self, kind: str, item_id: str, delta: str, index: int = 0) -> None:
        """Emit what can be shown of one more piece of an item; `kind` is "text", "summary" or "raw"."""
        masker = self._open.get((kind, item_id, index))
        if masker is None:
            masker = self._open[kind, item_id, index] = self._secrets.text_stream()
        if shown := masker.feed(delta):
            self._show(kind, item_id, index, shown)

    def finish(self, item_id: str) -> None:
        """The item is complete: emit what was held back of it."""
        for key in [key for key in self._open if key[1] == item_id]:
            if rest := self._open.pop(key).finish():
                self._show(*key, rest)

    def _show(self, kind: str, item_id: str, index: int, delta: str) -> None:
        thread_id, turn_id = self._thread_id, self._turn_id
        match kind:
            case "text":
                msg = AgentMessageContentDelta(thread_id=thread_id, turn_id=turn_id, item_id=item_id, delta=delta)
            case "summary":
                msg = ReasoningContentDelta(
                    thread_id=thread_id, turn_id=turn_id, item_id=item_id, delta=delta, summary_index=index
                )
            case _:
                msg = ReasoningRawContentDelta(
                    thread_id=thread_id, turn_id=turn_id, item_id=item_id, delta=delta, content_index=index
                )
        self._emit(msg)


def _is_from_person(msg: Msg) -> bool:
    if isinstance(msg, ItemStarted | ItemCompleted):
        return msg.item.get("type") == "UserMessage"
    return isinstance(msg, UserMessage)


def _mapped(value: Any, mask: Callable[[str], str]) -> Any:
    match value:
        case str():
            return mask(value)
        case list() | tuple():
            return [_mapped(entry, mask) for entry in value]
        case dict():
            return {key: _mapped(entry, mask) for key, entry in value.items()}
        case _:
            return value
