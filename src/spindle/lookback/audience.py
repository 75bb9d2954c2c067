"""Who was shown a thread: the server that answered, as far as the record tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from spindle.context.visible import Audience
from spindle.protocol.provenance import ModelOrigin
from spindle.thread.entry import Entry


def audience_of(answer: Sequence[Entry], refused: Sequence[ModelOrigin], meta: dict[str, Any]) -> Audience:
    """The audience of the request that was answered so; `meta` is the thread's first line.

    `refused` are the servers that could not read their own opaque parts by then.
    """
    usual = Audience(keeps_raw_reasoning=meta.get("model_provider") not in ("openai", None))
    origin = next((entry.made.origin for entry in answer if entry.made is not None), None)
    if origin is None:
        return usual
    refuses = any(other.is_same_place(origin) for other in refused)
    place = msgspec.structs.replace(origin, model="")
    return msgspec.structs.replace(usual, wire=origin.wire, origin=place, refuses_opaque=refuses)
