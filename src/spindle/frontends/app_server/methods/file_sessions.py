"""`fuzzyFileSearch/session…`: a search whose query changes while the user types. A newer query ends the older one."""

from __future__ import annotations

import asyncio
import os
import threading

from spindle.frontends.app_server.method import Call, Method, Nothing
from spindle.frontends.app_server.methods.files import search
from spindle.frontends.app_server.notifications import FileSearchCompleted, FileSearchUpdated
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.rpc import RpcError

MAX_SESSIONS = 64
"""Of one client."""


class FileSession:
    """One search of one client. `ended` stops the thread that looks; `task` tells what it found."""

    def __init__(self, roots: list[str]) -> None:
        self.roots = roots
        self.ended = threading.Event()
        self.task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        self.ended.set()
        if self.task is not None:
            self.task.cancel()


class SessionStartParams(Wire, frozen=True, kw_only=True):
    session_id: str
    roots: list[str]


class SessionUpdateParams(Wire, frozen=True, kw_only=True):
    session_id: str
    query: str


class SessionStopParams(Wire, frozen=True, kw_only=True):
    session_id: str


async def session_start(call: Call, params: SessionStartParams) -> Wire:
    if not params.session_id:
        raise RpcError("sessionId must not be empty")
    for root in params.roots:
        if not os.path.isabs(root) or "\0" in root:
            raise RpcError(f"a root must be an absolute path, not {root!r}")
    sessions = call.client.file_sessions
    if (former := sessions.pop(params.session_id, None)) is not None:
        former.stop()
    if len(sessions) >= MAX_SESSIONS:
        raise RpcError(f"a client can have {MAX_SESSIONS} searches at a time; stop one first")
    sessions[params.session_id] = FileSession(params.roots)
    return Nothing()


async def session_update(call: Call, params: SessionUpdateParams) -> Wire:
    session = call.client.file_sessions.get(params.session_id)
    if session is None:
        raise RpcError(f"fuzzy file search session not found: {params.session_id}")
    session.stop()
    session.ended = threading.Event()
    session.task = asyncio.ensure_future(_search(call, session, params))
    return Nothing()


async def _search(call: Call, session: FileSession, params: SessionUpdateParams) -> None:
    files = await asyncio.to_thread(search, params.query, session.roots, session.ended)
    now_ms = call.server.now_ms
    call.client.notify(FileSearchUpdated(session_id=params.session_id, query=params.query, files=files), now_ms)
    call.client.notify(FileSearchCompleted(session_id=params.session_id), now_ms)


async def session_stop(call: Call, params: SessionStopParams) -> Wire:
    session = call.client.file_sessions.pop(params.session_id, None)
    if session is not None:
        session.stop()
    return Nothing()


METHODS = tuple(
    Method(name=f"fuzzyFileSearch/{name}", params=params, result=Nothing, run=run, is_experimental=True)
    for name, params, run in (
        ("sessionStart", SessionStartParams, session_start),
        ("sessionUpdate", SessionUpdateParams, session_update),
        ("sessionStop", SessionStopParams, session_stop),
    )
)
