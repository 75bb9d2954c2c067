"""Which model made an item, and what only its own server can read of it.

An answer may hold parts that mean something to the server that wrote them and to no other: encrypted reasoning,
signatures, compacted threads. They are kept beside the item, with the place they come from, and go back to that place
alone.
"""

from __future__ import annotations

from typing import Any

import msgspec


class ModelOrigin(msgspec.Struct, frozen=True):
    """Where an item of a model comes from."""

    wire: str
    """`responses`, `chat` or `messages`."""
    base_url: str
    account: str
    """Stands for the key or the account that asked; holds neither. "" where nobody signed in."""
    model: str
    """Recorded, and not compared: a server reads what its other models wrote."""

    def is_same_place(self, other: ModelOrigin) -> bool:
        return (self.wire, self.base_url, self.account) == (other.wire, other.base_url, other.account)


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the record says of an item beside the item itself: the field `spindle` of its line."""

    origin: ModelOrigin
    opaque: dict[str, Any] | None = None
    """Parts of the answer that the item has no place for, as the wire that read them keeps them."""
