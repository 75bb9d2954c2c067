"""What a model is to the rest of the program: a request goes in, a stream of events comes out.

Holds the interface and its event types. How a provider is reached stands in `remote`; a model that follows a
script, in `scripted`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Protocol, runtime_checkable

import msgspec

from spindle.protocol.items import Item
from spindle.protocol.provenance import ModelOrigin
from spindle.protocol.request import Request, TokenUsage


class Created(msgspec.Struct, frozen=True):
    """The server took the request up. First event of a response, where the server sends it."""

    response_id: str | None = None
    model: str | None = None
    """The model that answers, where the server tells of it because it may be another than was asked for."""


class ItemAdded(msgspec.Struct, frozen=True):
    """An item began. `item_id` ties it to its deltas and to its `ItemDone`, also when the server gave no id."""

    item: Item
    item_id: str = ""


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of the assistant's text."""

    item_id: str
    delta: str


class SummaryPartAdded(msgspec.Struct, frozen=True, gc=False):
    """A new section of a reasoning summary begins."""

    item_id: str
    summary_index: int = 0


class SummaryDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of a reasoning summary."""

    item_id: str
    delta: str
    summary_index: int = 0


class RawReasoningDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of raw reasoning."""

    item_id: str
    delta: str
    content_index: int = 0


class InputDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of what the model writes for a free-form tool."""

    item_id: str
    delta: str
    call_id: str
    name: str


class ItemDone(msgspec.Struct, frozen=True):
    """An item is final: what it says replaces what streamed. Comes once per item, in order."""

    item: Item
    item_id: str = ""
    opaque: dict[str, Any] | None = None
    """Parts of the answer that only its own server can read and that the item has no place for; see
    `protocol/provenance.py`."""
    origin: ModelOrigin | None = None
    """Who made it; set by the client, not by decoders."""


class Notice(msgspec.Struct, frozen=True):
    """Something about the server that the person should know."""

    message: str


class OpaqueRefused(msgspec.Struct, frozen=True):
    """The server could not read what it is said to have written itself, so it was asked without those parts."""

    origin: ModelOrigin


class RateLimits(msgspec.Struct, frozen=True):
    """How much of the account's allowance is used, as token_count messages carry it."""

    snapshot: dict[str, Any]


class Completed(msgspec.Struct, frozen=True):
    """The response ended well. Always the last event."""

    response_id: str | None = None
    usage: TokenUsage | None = None
    end_turn: bool | None = None
    """False when the model wants to be asked again at once."""
    reasoning_included: bool = False
    """The server's input count already holds the reasoning of earlier responses."""
    counts_cached: bool = True
    """The server says how much of the input it had in its cache; many local ones do not."""


ModelEvent = (
    Created
    | ItemAdded
    | TextDelta
    | SummaryPartAdded
    | SummaryDelta
    | RawReasoningDelta
    | InputDelta
    | ItemDone
    | Notice
    | OpaqueRefused
    | RateLimits
    | Completed
)


class TurnState:
    """The server's routing token. One per turn: given by a reply, sent back on the turn's later requests."""

    __slots__ = ("value",)

    def __init__(self, value: str | None = None) -> None:
        self.value = value


class Compacted(list[Item]):
    """The items that stand for a shortened input, and what making them cost, if the server says so."""

    usage: TokenUsage | None = None


def cost_of_compaction(items: list[Item]) -> TokenUsage | None:
    return items.usage if isinstance(items, Compacted) else None


@runtime_checkable
class ModelClient(Protocol):
    """A model. Every implementation keeps the contract that `stream` states."""

    def stream(self, request: Request, turn_state: TurnState | None = None) -> AsyncGenerator[ModelEvent, None]:
        """Ask once.

        Raises `StreamDropped` when asking again is safe, `ModelError` when it is not; yields each finished item once,
        in order; yields nothing after an error or after `Completed`. Close it (`contextlib.aclosing`) if you leave
        early.
        """
        ...

    async def compact(self, request: Request) -> list[Item]:
        """Let the server shorten the input of a request; the items that stand for it, to be sent back as they are.

        A `Compacted` list also tells what that cost.
        Raises `ModelError` when the server cannot do that.
        """
        ...

    async def warm(self) -> None:
        """Open the connection ahead of the first request. Never fails."""
        ...

    async def aclose(self) -> None:
        """Close what is open. Asked again after that, it opens what it needs."""
        ...
