"""Who is shown a thread, as far as a request depends on it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from spindle.context.visible import Audience
from spindle.prompt.build import ModelTraits
from spindle.protocol.provenance import ModelOrigin


def audience_for(
    traits: ModelTraits, wire: str, origin: ModelOrigin | None, refused: Sequence[ModelOrigin], *, keeps_all_ids: bool
) -> Audience:
    """Who is shown the thread. `refused` are the servers that could not read their own opaque parts."""
    return Audience(
        accepts_images=traits.accepts_images,
        keeps_raw_reasoning=traits.keeps_raw_reasoning,
        keeps_all_ids=keeps_all_ids,
        wire=wire,
        origin=origin,
        refuses_opaque=origin is not None and any(other.is_same_place(origin) for other in refused),
    )
