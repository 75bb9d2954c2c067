"""`spindle proto --listen URL`: protocol v1 over sockets, one engine for each connection.

The lines are those of stdio. Over TCP the first one must be the token: before that, nobody is told anything and nothing
is opened. The end of a connection is a shutdown of its engine, and of nothing else.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable

import msgspec

from spindle.core.stream import DELTAS, Subscription
from spindle.errors import UsageError
from spindle.frontends.event_lines import event_lines
from spindle.frontends.launch import config_from, warn_of_bypass
from spindle.frontends.options import Parsed, whole_number
from spindle.frontends.page_file import check_named
from spindle.frontends.proto.command import make_engine, take_line
from spindle.frontends.proto.engine import Engine
from spindle.frontends.signals import Signals
from spindle.frontends.socket_lines import PATIENCE_S, SocketPeer
from spindle.frontends.sockets import Listener, TcpAddress, address_of, serve
from spindle.frontends.standard_streams import LAST_WRITE_S
from spindle.frontends.stdio import Complaints, LineTooLong
from spindle.frontends.token_file import read_token
from spindle.protocol.events import Event, encode_event
from spindle.protocol.items import decode_foreign, encode_json
from spindle.protocol.ops import Shutdown, Submission
from spindle.protocol.quote import readable

MAX_CONNECTIONS = 64
MAX_BACKLOG_BYTES = 64 << 20
"""With this much unread, a client is given up."""
_TOKEN_S = 5.0
_TOKEN_LINE = 1 << 16
_MAX_WAITING = 64
"""So many may be at the door without having said the token; then the one who waits longest is turned away."""
_GRACE_S = 0.1


def run(parsed: Parsed, listen: str) -> int:
    address = address_of(listen, may_be_remote=parsed.flag("allow_remote"), schemes=("tcp", "unix"))
    most = _max_connections(parsed.value("max_connections"))
    token_file = parsed.value("token_file")
    if isinstance(address, TcpAddress) and token_file is None:
        raise UsageError("tcp:// needs --token-file FILE: a client's first line must be its content as a token")
    config = config_from(parsed)  # what is wrong with it is told now, and not to the first client
    warn_of_bypass(parsed)
    if token_file is not None:
        check_named(token_file, config)
    token = read_token(token_file) if isinstance(address, TcpAddress) and token_file is not None else None
    door = Door(lambda: make_engine(lambda: config_from(parsed), parsed), token, most)
    listener = Listener(address)
    is_open = isinstance(address, TcpAddress) and not address.is_loopback
    warning = " (nothing is encrypted: whoever is on the way can read and change everything)" if is_open else ""
    return asyncio.run(_serve(listener, door, f"proto: listening on {readable(listener.url)}{warning}"))


async def _serve(listener: Listener, door: Door, greeting: str) -> int:
    ended = asyncio.Event()
    Signals(ended.set)
    await serve(listener, door.converse, ended, greeting)
    return 0


def _max_connections(given: str | None) -> int:
    if given is None:
        return MAX_CONNECTIONS
    number = whole_number(given)
    if number is None or not 1 <= number <= 10_000:
        raise UsageError(f"--max-connections takes a number between 1 and 10000, not {given!r}")
    return number


class Backlog(Subscription):
    """The events that wait for one client, and how many bytes they come to while it does not read."""

    def __init__(self, peer: SocketPeer) -> None:
        super().__init__(())
        self._peer = peer
        self._unread = 0

    @property
    def is_too_long(self) -> bool:
        return self._peer.unsent + self._unread > MAX_BACKLOG_BYTES

    def push(self, event: Event) -> None:
        super().push(event)
        if self._peer.is_stalled:
            msg = event.msg
            self._unread += len(msg.delta) if isinstance(msg, DELTAS) else len(encode_event(event))
            if self.is_too_long:
                self._peer.is_over.set()

    def take_ready(self) -> list[Event]:
        self._unread = 0
        return super().take_ready()


class Door:
    """Lets clients in, each to an engine of its own."""

    def __init__(self, make: Callable[[], Engine], token: str | None, most: int) -> None:
        self._make_engine = make
        self._token = token
        self._most = most
        self._waiting: dict[SocketPeer, float] = {}
        """Those who have not said the token yet, in the order they came, and when that was."""
        self._inside = 0
        self._complaints = Complaints("proto")

    async def converse(self, peer: SocketPeer) -> None:
        """One client from its first line to its last."""
        if self._token is not None and not await self._is_let_in(peer):
            await _turn_away(peer, "unauthorized")
        elif self._inside >= self._most:
            await _turn_away(peer, "busy")
        else:
            self._inside += 1
            try:
                await self._serve(peer)
            finally:
                self._inside -= 1

    async def _is_let_in(self, peer: SocketPeer) -> bool:
        await self._make_room()
        self._waiting[peer] = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(_TOKEN_S):
                line = await peer.next(_TOKEN_LINE)
        except (TimeoutError, LineTooLong):
            return False
        finally:
            self._waiting.pop(peer, None)
        assert self._token is not None
        return hmac.compare_digest((token_of(line) or "").encode("utf-8", "replace"), self._token.encode())

    async def _make_room(self) -> None:
        """Many may come at once, each with the token in hand: nobody is turned away whose line is only not read yet."""
        while len(self._waiting) >= _MAX_WAITING:
            oldest, came = next(iter(self._waiting.items()))
            left = came + _GRACE_S - asyncio.get_running_loop().time()
            if left > 0:
                await asyncio.sleep(left)
                continue
            del self._waiting[oldest]
            oldest.hang_up()

    async def _serve(self, peer: SocketPeer) -> None:
        engine = self._make_engine()
        events = Backlog(peer)
        engine.listen(events)
        tasks = [
            asyncio.ensure_future(work)
            for work in (engine.run(), _write_events(events, peer), self._read_ops(engine, events, peer))
        ]
        actor, writer = tasks[:2]
        over = asyncio.ensure_future(peer.is_over.wait())
        try:
            await asyncio.wait([*tasks, over], return_when=asyncio.FIRST_COMPLETED)
            # The client has gone or said its last, or the server ends: there is nothing left to work for.
            engine.submit(Submission("", Shutdown()))
            await asyncio.wait([actor])
            if events.is_too_long:
                self._complaints.say(f"a client was dropped: it left {MAX_BACKLOG_BYTES >> 20} MiB unread")
            else:
                await asyncio.wait([writer], timeout=LAST_WRITE_S if peer.is_over.is_set() else PATIENCE_S)
                await peer.close()
        finally:
            for task in (*tasks, over):
                task.cancel()
            await asyncio.wait([*tasks, over])
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                self._complaints.say(f"a connection broke down: {type(error).__name__}: {error}")

    async def _read_ops(self, engine: Engine, events: Subscription, peer: SocketPeer) -> None:
        """Each line is a submission. Returns at the end of what the client says."""
        is_first = self._token is None
        while True:
            try:
                line = await peer.next()
            except LineTooLong as error:
                engine.reject("", str(error))
                return
            if not line:
                return
            # Nobody needs a token here; one is taken, so that a client can be the same everywhere.
            if not is_first or token_of(line) is None:
                await take_line(engine, events, line)
            is_first = False


def token_of(line: bytes) -> str | None:
    """What stands in a line `{"token": "…"}`; None for any other line."""
    try:
        value = decode_foreign(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    token = value.get("token") if isinstance(value, dict) and "op" not in value else None
    return token if isinstance(token, str) else None


async def _write_events(events: Subscription, peer: SocketPeer) -> None:
    """Every event as a line, at once. A client that stops reading holds up only this task."""
    async for event in events:
        batch = [event, *events.take_ready()]
        try:
            await peer.write(b"".join(line + b"\n" for ready in batch for line in event_lines(ready)))
        except ConnectionError:
            return


async def _turn_away(peer: SocketPeer, reason: str) -> None:
    await peer.turn_away(encode_json({"id": "", "msg": {"type": "error", "message": reason}}) + b"\n")
