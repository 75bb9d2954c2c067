"""What a server gives back that has shortened a thread itself."""

from __future__ import annotations

from typing import Any

from spindle.errors import ModelError
from spindle.model.client import Compacted
from spindle.model.wellformed import is_well_formed
from spindle.model.wires.responses.decoder import read_usage
from spindle.protocol.items import Item


def read_compaction(reply: Any) -> Compacted:
    """The items that stand for the thread. Raises `ModelError` when there are none to go on from."""
    found = reply.get("output") if isinstance(reply, dict) else None
    listed = found if isinstance(found, list) else []
    items = [item for item in listed if isinstance(item, dict) and is_well_formed(item)]
    if not any(map(_stands_for_work, items)):
        raise ModelError("the server's compaction holds neither a compacted thread nor a message")
    compacted = Compacted(items)
    compacted.usage = read_usage(reply.get("usage"))
    return compacted


def _stands_for_work(item: Item) -> bool:
    """Something a model can go on from: a compacted thread, or what somebody said."""
    if item.get("type") in ("compaction", "compaction_summary"):
        return bool(item["encrypted_content"])
    return item.get("type") == "message" and item.get("role") in ("user", "assistant")
