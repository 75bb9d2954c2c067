"""The agent as an editor sees it: which methods there are, and which sessions are open."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from spindle import __version__
from spindle.api.door import SessionRequest, open_thread
from spindle.auth.credentials import sign_in
from spindle.config.schema import Config
from spindle.errors import ModelError, ThreadError, ThreadNotFound
from spindle.frontends.acp.files import ClientFiles
from spindle.frontends.acp.modes import with_folders
from spindle.frontends.acp.params import (
    CancelParams,
    InitializeParams,
    ListParams,
    ModeParams,
    OpenParams,
    OpenRecordedParams,
    OptionParams,
    PromptParams,
    SessionParams,
    read,
)
from spindle.frontends.acp.prompts import input_of
from spindle.frontends.acp.session import AcpSession
from spindle.frontends.json_rpc import INVALID_PARAMS, UNKNOWN_METHOD, Notification, Request, RequestId, RpcError
from spindle.frontends.launch import config_from, flags_from
from spindle.frontends.options import Parsed
from spindle.frontends.recorded_settings import recorded_config
from spindle.frontends.rpc_peer import RpcPeer
from spindle.protocol.clock import Clock, SystemClock, iso_utc
from spindle.thread.listing import ThreadFilter, ThreadOrder
from spindle.thread.store import ThreadRef, ThreadStore

VERSION = 1
_AUTH_REQUIRED = -32000
_PAGE = 50
_TITLE = 80
_AUTH_METHODS = [
    {
        "id": "spindle-login",
        "name": "Log in with `spindle login`",
        "description": "Run `spindle login` in a terminal, or set the key in the environment of the editor",
    }
]


class Agent:
    """One editor and its sessions."""

    def __init__(self, peer: RpcPeer, config: Config, parsed: Parsed) -> None:
        self._peer = peer
        self._config = config
        self._parsed = parsed
        self._clock: Clock = SystemClock()
        self._store = ThreadStore(config.home, self._clock)
        self._client = InitializeParams()
        self._sessions: dict[str, AcpSession] = {}
        self._prompts: dict[RequestId, str] = {}
        """The sessions of the prompts that run, by the ids of their requests."""
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._telling: set[asyncio.Task[None]] = set()
        self._methods: dict[str, Callable[[Any], Awaitable[dict[str, Any]]]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/fork": self._fork,
            "session/list": self._list,
            "session/close": self._close,
            "session/delete": self._delete,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
        }

    async def answer(self, request: Request) -> Any:
        method = self._methods.get(request.method)
        if method is None:
            raise RpcError(f"there is no method {request.method[:100]!r} here", UNKNOWN_METHOD)
        if request.method != "session/prompt":
            return await method(request.params)
        self._prompts[request.id] = read(request.params, PromptParams).session_id
        try:
            return await method(request.params)
        finally:
            self._prompts.pop(request.id, None)

    def hear(self, note: Notification) -> None:
        match note.method:
            case "session/cancel":
                session_id = read(note.params, SessionParams).session_id
            case "$/cancel_request":
                session_id = self._prompts.get(read(note.params, CancelParams).request_id, "")
            case _:
                return
        if (session := self._sessions.get(session_id)) is not None:
            session.cancel()

    async def close(self) -> None:
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(session.close() for session in sessions), return_exceptions=True)

    def kill(self) -> None:
        for session in self._sessions.values():
            session.live.kill()

    # ---- the editor itself ---------------------------------------------------------------------

    async def _initialize(self, raw: Any) -> dict[str, Any]:
        self._client = read(raw, InitializeParams)
        return {
            "protocolVersion": VERSION,
            "agentInfo": {"name": "spindle", "title": "Spindle", "version": __version__},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "embeddedContext": True, "audio": False},
                "mcpCapabilities": {"http": True, "sse": False},
                "sessionCapabilities": {
                    "list": {},
                    "resume": {},
                    "fork": {},
                    "close": {},
                    "delete": {},
                    "additionalDirectories": {},
                },
            },
            "authMethods": [] if self._sign_in_problem(self._config) is None else _AUTH_METHODS,
        }

    async def _authenticate(self, raw: Any) -> dict[str, Any]:
        if (problem := self._sign_in_problem(config_from(self._parsed))) is not None:
            raise RpcError(problem, _AUTH_REQUIRED)
        return {}

    def _sign_in_problem(self, config: Config) -> str | None:
        """Why the configured provider could not be asked; None if there is a key, or none is needed."""
        try:
            sign_in(config.provider, config.login).credential.authorization()
        except ModelError as error:
            return str(error)
        return None

    # ---- opening -------------------------------------------------------------------------------

    async def _new(self, raw: Any) -> dict[str, Any]:
        params = read(raw, OpenParams)
        params.check()
        session = await self._open(params, self._config_for(params, params.cwd))
        return {"sessionId": session.id, **session.describe()}

    async def _load(self, raw: Any) -> dict[str, Any]:
        session = await self._recorded(read(raw, OpenRecordedParams))
        await session.replay()
        return session.describe()

    async def _resume(self, raw: Any) -> dict[str, Any]:
        return (await self._recorded(read(raw, OpenRecordedParams))).describe()

    async def _fork(self, raw: Any) -> dict[str, Any]:
        params = read(raw, OpenRecordedParams)
        params.check()
        ref = self._find(params.session_id)
        session = await self._open(params, self._recorded_config(params, ref), thread=ref.id, fork=True)
        return {"sessionId": session.id, **session.describe()}

    async def _recorded(self, params: OpenRecordedParams) -> AcpSession:
        """A session that is open already, or the recorded thread as one."""
        params.check()
        async with self._lock(params.session_id):
            if (session := self._sessions.get(params.session_id)) is not None:
                await session.take_folders(self._config_for(params, session.live.settings.cwd).workspace_write)
                self._announce(session)
                return session
            ref = self._find(params.session_id)
            return await self._open(params, self._recorded_config(params, ref), thread=ref.id)

    def _find(self, session_id: str) -> ThreadRef:
        try:
            return self._store.get(session_id)
        except ThreadNotFound as error:
            raise RpcError(f"there is no session {session_id[:100]!r}", INVALID_PARAMS) from error

    def _lock(self, session_id: str) -> asyncio.Lock:
        return self._locks.setdefault(session_id, asyncio.Lock())

    def _config_for(self, params: OpenParams, cwd: str | None) -> Config:
        folders = [*(flags_from(self._parsed).get("add_dirs") or ()), *params.additional_directories]
        flags = {"add_dirs": folders} if folders else None
        config = config_from(self._parsed, cwd=cwd, flags=flags)
        if not (tables := params.server_tables(set(config.mcp_servers))):
            return config
        return config_from(self._parsed, cwd=cwd, flags=flags, config={"mcp_servers": tables})

    def _recorded_config(self, params: OpenRecordedParams, ref: ThreadRef) -> Config:
        data = self._store.read(ref)
        config = recorded_config(
            data, self._config, self._clock, lambda cwd: self._config_for(params, cwd), cwd=params.cwd
        )
        # The editor names the folders anew each time; those of the last time count no more.
        return msgspec.structs.replace(config, sandbox=with_folders(config.sandbox, config.workspace_write))

    async def _open(self, params: OpenParams, config: Config, **more: Any) -> AcpSession:
        client = self._client.client_capabilities
        files = ClientFiles(self._peer) if client.has_files and not self._parsed.flag("no_fs") else None
        request = SessionRequest(
            config=config,
            source="vscode",
            originator=self._originator,
            bypass=self._parsed.flag("dangerously_bypass_approvals_and_sandbox"),
            clock=self._clock,
            reload=lambda: self._config_for(params, config.cwd),
            editor=files,
            **more,
        )
        thread = await open_thread(request)
        session = AcpSession(self._peer, thread, config, has_forms=client.has_forms, files=files)
        self._sessions[session.id] = session
        session.driven.begin()
        self._announce(session)
        return session

    @property
    def _originator(self) -> str:
        """The editor's name as a header can carry it."""
        name = self._client.client_info.get("name")
        plain = "".join(sign if "!" <= sign <= "~" else "_" for sign in name) if isinstance(name, str) else ""
        return plain or "spindle_acp"

    def _announce(self, session: AcpSession) -> None:
        """Tell the editor which commands there are, once it knows the session."""
        task = asyncio.ensure_future(session.announce())
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    # ---- sessions ------------------------------------------------------------------------------

    async def _opened(self, session_id: str) -> AcpSession:
        """An open session; one that is just being opened is waited for."""
        lock = self._locks.get(session_id)
        if lock is not None and lock.locked():
            async with lock:
                pass
        session = self._sessions.get(session_id)
        if session is None:
            raise RpcError(f"session {session_id[:100]!r} is not open; load it first", INVALID_PARAMS)
        return session

    async def _prompt(self, raw: Any) -> dict[str, Any]:
        params = read(raw, PromptParams)
        text, attached = input_of(params.prompt)
        session = await self._opened(params.session_id)
        return await session.prompt(text, attached)

    async def _set_mode(self, raw: Any) -> dict[str, Any]:
        params = read(raw, ModeParams)
        await (await self._opened(params.session_id)).set_mode(params.mode_id)
        return {}

    async def _set_option(self, raw: Any) -> dict[str, Any]:
        params = read(raw, OptionParams)
        session = await self._opened(params.session_id)
        return {"configOptions": await session.set_option(params.config_id, params.value)}

    async def _close(self, raw: Any) -> dict[str, Any]:
        session_id = read(raw, SessionParams).session_id
        await self._opened(session_id)
        await self._sessions.pop(session_id).close()
        return {}

    async def _delete(self, raw: Any) -> dict[str, Any]:
        session_id = read(raw, SessionParams).session_id
        if (session := self._sessions.pop(session_id, None)) is not None:
            await session.close()
            if self._store.find(session_id) is None:
                return {}  # nothing was said in it, so there is no record
        self._store.delete(self._find(session_id).id)
        return {}

    async def _list(self, raw: Any) -> dict[str, Any]:
        params = read(raw, ListParams)
        params.check()
        cwds = [os.path.realpath(params.cwd)] if params.cwd is not None else None
        which = ThreadFilter(cwds=cwds, subagents=False)
        try:
            page = self._store.list(which, order=ThreadOrder(key="updated_at"), cursor=params.cursor, limit=_PAGE)
        except ThreadError as error:
            raise RpcError(str(error), INVALID_PARAMS) from error
        sessions = [
            {
                "sessionId": thread.id,
                "cwd": thread.cwd,
                "title": thread.name or " ".join(thread.preview.split())[:_TITLE],
                "updatedAt": iso_utc(thread.updated_at),
            }
            for thread in page.threads
        ]
        return {"sessions": sessions, **({"nextCursor": page.next_cursor} if page.next_cursor else {})}
