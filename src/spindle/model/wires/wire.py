"""What a wire is: the one thing that knows the dialect of a kind of model server.

`encode` and `Decoder` are pure: no network, no files, no clock; ids that must be made up come from outside. Connecting,
authorising, asking again and reading refusals is the client's work (`model/remote.py`), the same for all wires.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from spindle.errors import ModelError
from spindle.model.body import Growth
from spindle.model.call_ids import CallIds
from spindle.model.capabilities import Capabilities
from spindle.model.client import ModelEvent
from spindle.model.provider import Provider
from spindle.protocol.request import Request


class Terms(msgspec.Struct, frozen=True):
    """On which terms a request is made: who is asked, and what is known of what they can do."""

    provider: Provider
    capabilities: Capabilities


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """What the reader of an answer may know of the question."""

    request: Request
    terms: Terms
    new_id: Callable[[], str]
    """Makes an id that nobody has."""
    call_ids: CallIds
    """Gives each call the id it has in the thread: the server's own, if that will do."""
    headers: Mapping[str, str] = {}
    """Of the answer, names in lower case."""


class Decoder(Protocol):
    """Reads one answer: `feed` it the data of each event, and `finish` it if the body ends before `is_over`."""

    is_over: bool
    """The answer is whole, or has failed: nothing more is read."""
    failure: ModelError | None
    """Why an answer that was read to its end is none: raised by the client once the events of the frame are passed
    on, so that what must be kept of the answer (`ItemDone` of a text that was cut off) is kept."""

    @property
    def has_stopped(self) -> bool:
        """The model has stopped, and `finish` will do; only counts may follow, and some servers never hang up."""
        ...

    def feed(self, frame: bytes) -> list[ModelEvent]:
        """What one frame means; frames are cut as the server cut its events, `[DONE]` included.

        Garbage is skipped. Raises `ResponseFailed` with the server's error object, or `StreamDropped`; then nothing of
        this frame happened.
        """
        ...

    def finish(self) -> list[ModelEvent]:
        """The body ended. Raises `StreamDropped` (`failures.closed_early`) unless the answer is whole."""
        ...


class Wire(Protocol):
    """The dialect, for the requests of one thread; it may remember how it encoded the last one."""

    name: str
    """As `wire_api` spells it."""
    dialect: str
    """The name by which `make_wire` makes another one like it."""
    path: str
    """Behind `base_url`."""

    @property
    def PAST(self) -> tuple[str, ...]:
        """What is packed while the thread rests (`core/resting.py`)."""
        ...

    @property
    def growth(self) -> Growth:
        """How the last body came about. Its pieces are valid until the next call of `encode`."""
        ...

    def encode(self, request: Request, terms: Terms) -> bytes | bytearray:
        """The body. Valid until the next call.

        A pure function of the arguments, whatever was encoded before; but a request that begins with the items of the
        one before (the same `VisibleItem` objects) costs only what is new.
        The client has taken care of some capabilities already: without `images` no item holds a picture, without
        `json_schema` the request has no schema and its last user text asks for it, without `tool_choice_none`
        `tool_choice` is never "none".
        """
        ...

    def decoder(self, asking: Asking) -> Decoder: ...
