"""The fields of a line's payload that the fold (`folding`) reads: only those are decoded, whatever else it holds."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.protocol.items import json_reader
from spindle.protocol.provenance import ModelOrigin

REQUEST = "spindle_request"
"""The kind of the line that tells of a request."""
TERMS = "spindle_terms"
"""The kind of the line that tells what requests are made from, beside the thread."""
REFUSED = "spindle_opaque_refused"
"""The kind of the line that tells of opaque parts which a server could not read."""


class EventHead(msgspec.Struct):
    """The fields of an event that the fold looks at."""

    type: str
    num_turns: Any = None
    response_id: Any = None
    info: msgspec.Raw = msgspec.Raw(b"null")
    spindle_bookmark: Any = None


class Compacted(msgspec.Struct):
    message: Any = None
    replacement_history: list[msgspec.Raw] | None = None
    spindle_bookmark: Any = None
    window_number: Any = None
    """Which compaction of the thread it was. The reference's current generation writes this number instead of an
    event."""


class KnownState(msgspec.Struct):
    agents_md: dict[str, Any] | None = None


class WorldState(msgspec.Struct):
    """How the reference's current generation records what it told: whole at first, later what changed."""

    state: KnownState
    full: bool = False


class BookmarkLine(msgspec.Struct):
    response_id: str


class RefusedLine(msgspec.Struct):
    """A server cannot read the opaque parts that come from it."""

    origin: ModelOrigin


decode_event = json_reader(EventHead, is_walked=False)
decode_compacted = json_reader(Compacted, is_walked=False)
decode_world_state = json_reader(WorldState)
decode_refused = json_reader(RefusedLine, is_walked=False)
decode_bookmark = json_reader(BookmarkLine, is_walked=False)
