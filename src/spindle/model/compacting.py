"""The endpoint that shortens a thread: what is asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.errors import ModelError
from spindle.model.compacted import read_compaction
from spindle.model.sending import Sending
from spindle.model.wires.responses.wire import compaction_body
from spindle.protocol.items import Item
from spindle.protocol.request import Request

if TYPE_CHECKING:
    from spindle.model.remote import RemoteModel


async def compact_by_server(remote: RemoteModel, request: Request) -> list[Item]:
    """`ModelClient.compact` over HTTP. Raises ModelError."""
    endpoint, watch = remote.endpoint, remote.watch
    if endpoint.wire.name != "responses":
        raise ModelError(f"{endpoint.provider.name} cannot compact a thread itself")
    body, growth = compaction_body(request)
    if watch is not None:
        watch.before_body()
        watch.sent(Sending.to(endpoint, endpoint.terms(request), request, body, growth))
    try:
        reply = await remote.post_json("/responses/compact", bytes(body))
    finally:
        if watch is not None:
            watch.answered()
    return read_compaction(reply)
