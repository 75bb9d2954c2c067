"""One client: its handshake, its requests, and the messages to it.

Lines come in through `receive` and go out through `Outbox`. Every request runs in its own task; those about one
thread run in the order they came.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from spindle import __version__
from spindle.errors import SpindleError, reason_of
from spindle.frontends.app_server import rpc
from spindle.frontends.app_server.notifications import Note
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.outbox import Outbox, Write
from spindle.frontends.app_server.rpc import BadFrame, Notification, Request, RequestId, Response, RpcError
from spindle.frontends.stdio import Complaints
from spindle.model.headers import Identity, user_agent

if TYPE_CHECKING:
    from spindle.frontends.app_server.client_commands import ClientCommand
    from spindle.frontends.app_server.methods.file_sessions import FileSession
    from spindle.frontends.app_server.server import Server
    from spindle.frontends.app_server.watching import Watched

MAX_REQUESTS = 128
"""Requests of one client that are being answered at a time; more are refused."""


class ClientInfo(Wire, frozen=True, kw_only=True):
    name: str
    title: str | None = None
    version: str = ""


class Capabilities(Wire, frozen=True, kw_only=True):
    experimental_api: bool = False
    opt_out_notification_methods: list[str] = []


class InitializeParams(Wire, frozen=True, kw_only=True):
    client_info: ClientInfo
    capabilities: Capabilities = Capabilities()


UNVERSIONED = "0.0.0"
"""What Codex calls itself when it was built from a checkout. SDKs compare versions with those of Codex, to which ours
says nothing; with this one they look into the schemas for what there is."""


class ServerInfo(Wire, frozen=True, kw_only=True):
    name: str = "spindle"
    version: str = f"{UNVERSIONED} (spindle {__version__})"


class InitializeResult(Wire, frozen=True, kw_only=True):
    user_agent: str
    server_info: ServerInfo = ServerInfo()
    codex_home: str
    platform_family: str
    platform_os: str


class Connection:
    """A client from its first line to its last."""

    def __init__(self, server: Server, write: Write) -> None:
        self._server = server
        self.outbox = Outbox(write)
        self.client: ClientInfo | None = None
        """Who it is; None before the handshake."""
        self.is_experimental = False
        self._opted_out: frozenset[str] = frozenset()
        self._told_warnings: set[str] = set()
        self._running: set[asyncio.Task[None]] = set()
        self.commands: dict[str, ClientCommand] = {}
        """Commands of its own that run, by the ids that it gave them."""
        self.watches: dict[str, Watched] = {}
        """Paths that it watches, by its own ids."""
        self.file_sessions: dict[str, FileSession] = {}
        """Searches for files whose query may change, by its own ids."""
        self._complaints = Complaints("app-server")

    @property
    def requests_in_flight(self) -> int:
        return len(self._running)

    @property
    def originator(self) -> str:
        """The client's name as a header can carry it."""
        name = self.client.name if self.client is not None else ""
        return "".join(sign if "!" <= sign <= "~" else "_" for sign in name) or "unknown_client"

    # ---- in ------------------------------------------------------------------------------------

    def receive(self, line: bytes) -> None:
        """Deal with one line. Never waits."""
        if not line.strip():
            return
        try:
            message = rpc.read_frame(line)
        except BadFrame as error:
            if error.id is not None:
                self.refuse(error.id, RpcError(str(error)))
            else:
                # There is no id to answer under, and a client would not know what to do with an answer to nothing.
                self.complain(str(error))
            return
        match message:
            case Response(id=request_id, result=result):
                self._server.questions.answer(request_id, result)
            case Notification():
                pass  # `initialized`, and what newer clients may send
            case Request(id=request_id) if len(self._running) >= MAX_REQUESTS:
                self.refuse(request_id, RpcError("too many requests at a time; retry later", rpc.OVERLOADED))
            case Request():
                task = asyncio.ensure_future(self._answer(message))
                self._running.add(task)
                task.add_done_callback(self._running.discard)

    def complain(self, text: str) -> None:
        self._complaints.say(text)

    async def _answer(self, request: Request) -> None:
        try:
            if request.method == "initialize":
                self._reply(request.id, self._initialize(rpc.read_params(request.params, InitializeParams)))
                return
            if self.client is None:
                raise RpcError("Not initialized")
            result, then = await self._server.call(self, request.method, request.params)
            self._reply(request.id, result)
            if then is not None:
                then()
        except RpcError as error:
            self.refuse(request.id, error)
        except (SpindleError, OSError) as error:
            self.refuse(request.id, RpcError(reason_of(error)))
        except Exception as error:  # our bug: the request fails, the server lives on
            text = f"internal error: {type(error).__name__}: {error}"
            self.refuse(request.id, RpcError(text, rpc.INTERNAL_ERROR))

    def _initialize(self, params: InitializeParams) -> InitializeResult:
        if self.client is not None:
            raise RpcError("Already initialized")
        if not params.client_info.name.strip():
            raise RpcError("Invalid request: clientInfo.name is empty", rpc.INVALID_PARAMS)
        self.client = params.client_info
        self.is_experimental = params.capabilities.experimental_api
        self._opted_out = frozenset(params.capabilities.opt_out_notification_methods)
        identity = Identity(
            thread_id="",
            version=__version__,
            originator=self.originator,
            client=f"{self.client.name}; {self.client.version}",
        )
        asyncio.get_running_loop().call_soon(self._server.greet, self)
        return InitializeResult(
            user_agent=user_agent(identity),
            codex_home=self._server.home,
            platform_family="unix" if os.name == "posix" else os.name,
            platform_os="macos" if sys.platform == "darwin" else sys.platform,
        )

    async def finish(self) -> None:
        """The client sends nothing more: what it asked for is given up."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    # ---- out -----------------------------------------------------------------------------------

    def _reply(self, request_id: RequestId, result: msgspec.Struct | dict[str, Any]) -> None:
        self.outbox.answer(rpc.frame({"id": request_id, "result": result}))

    def refuse(self, request_id: RequestId | float | None, error: RpcError) -> None:
        shown = {"code": error.code, "message": str(error)}
        if error.data is not None:
            shown["data"] = error.data
        self.outbox.answer(rpc.frame({"id": request_id, "error": shown}))

    def notify(self, note: Note, now_ms: int) -> None:
        if note.method not in self._opted_out and self.client is not None:
            self.outbox.tell(note, now_ms)

    def ask(self, request_id: int, method: str, params: msgspec.Struct) -> None:
        self.outbox.answer(rpc.frame({"method": method, "id": request_id, "params": params}))

    def untold(self, warnings: list[str]) -> list[str]:
        """Those of the warnings that this client has not heard yet."""
        new = [text for text in warnings if text not in self._told_warnings]
        self._told_warnings.update(new)
        return new
