"""`fs/watch` and `fs/unwatch`: a client hears what changes at a path, with the rights of the server's user."""

from __future__ import annotations

import os

from spindle.frontends.app_server.method import Call, Method, Nothing
from spindle.frontends.app_server.notifications import FsChanged
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.rpc import INVALID_PARAMS, RpcError

MAX_WATCHES = 256
"""Of one client."""


class WatchParams(Wire, frozen=True, kw_only=True):
    watch_id: str
    path: str


class WatchResult(Wire, frozen=True, kw_only=True):
    path: str
    """Without links."""


class UnwatchParams(Wire, frozen=True, kw_only=True):
    watch_id: str


async def fs_watch(call: Call, params: WatchParams) -> Wire:
    if not os.path.isabs(params.path) or "\0" in params.path:
        raise RpcError(f"the path must be absolute, not {params.path!r}", INVALID_PARAMS)
    client, server = call.client, call.server
    if params.watch_id in client.watches:
        raise RpcError(f"watchId already exists: {params.watch_id}")
    if len(client.watches) >= MAX_WATCHES:
        raise RpcError(f"a client can watch {MAX_WATCHES} paths at a time; give one up with fs/unwatch")
    path = os.path.realpath(params.path)

    def tell(changed: list[str]) -> None:
        client.notify(FsChanged(watch_id=params.watch_id, changed_paths=changed), server.now_ms)

    client.watches[params.watch_id] = server.watches.add(path, tell)
    return WatchResult(path=path)


async def fs_unwatch(call: Call, params: UnwatchParams) -> Wire:
    watched = call.client.watches.pop(params.watch_id, None)
    if watched is not None:
        call.server.watches.remove(watched)
    return Nothing()


METHODS = (
    Method(name="fs/watch", params=WatchParams, result=WatchResult, run=fs_watch),
    Method(name="fs/unwatch", params=UnwatchParams, result=Nothing, run=fs_unwatch),
)
