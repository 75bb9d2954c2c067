"""Listening on a socket: the address, a socket that nobody else can use, and a task for each client.

For `proto` and the `app-server`; what is spoken over a connection is theirs.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import ipaddress
import os
import socket
import stat
import sys
import time
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

import msgspec

from spindle.errors import SpindleError, UsageError, reason_of
from spindle.frontends.socket_lines import EndableReader, SocketPeer
from spindle.protocol.quote import readable

_BACKLOG = 128
_LOCK_S = 5.0
_READ_AHEAD = 1 << 16
_CLOSING_S = 5.0
"""How long conversations may take to end when the server ends."""

Converse = Callable[[SocketPeer], Awaitable[None]]


class TcpAddress(msgspec.Struct, frozen=True):
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class UnixAddress(msgspec.Struct, frozen=True):
    path: str
    """Absolute."""


Address = TcpAddress | UnixAddress


def address_of(url: str, *, may_be_remote: bool, schemes: tuple[str, ...]) -> Address:
    """Where to listen. Raises UsageError for what is not served here, SpindleError for what is no address."""
    scheme, _, rest = url.partition("://")
    if scheme not in schemes:
        raise UsageError(f"--listen {url}: use one of {', '.join(f'{name}://' for name in schemes)}")
    if scheme == "unix":
        if not rest or "\0" in rest:
            raise SpindleError(f"--listen {url}: the path of the socket is missing; use unix://PATH")
        return UnixAddress(os.path.abspath(rest))
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or port is None or parts.path.strip("/") or parts.query or parts.username:
        raise SpindleError(f"--listen {url}: this is not an address; use {scheme}://HOST:PORT")
    address = TcpAddress(host, port)
    if not address.is_loopback and not may_be_remote:
        raise UsageError(f"--listen {url}: other machines could connect; use 127.0.0.1, or add --allow-remote")
    return address


class Listener:
    """A socket that is listened on. `close` takes its file away."""

    def __init__(self, address: Address) -> None:
        """Raises SpindleError when it cannot be listened on."""
        self._file: tuple[str, int, int] | None = None
        try:
            if isinstance(address, UnixAddress):
                self.socket = self._open_file(address.path)
                self.url = f"unix://{address.path}"
            else:
                self.socket = _open_port(address)
                host, port = self.socket.getsockname()[:2]
                self.url = f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
        except OSError as error:
            where = address.path if isinstance(address, UnixAddress) else f"{address.host}:{address.port}"
            reason = reason_of(error) if error.errno is not None else str(error)
            raise SpindleError(f"{readable(where)} cannot be listened on: {reason}") from error

    def _open_file(self, path: str) -> socket.socket:
        opened = socket.socket(socket.AF_UNIX)
        try:
            with _FolderLock(os.path.dirname(path)):
                _make_room(path)
                # With this mask the file is ours alone from the moment it exists.
                mask = os.umask(0o177)
                try:
                    opened.bind(path)
                finally:
                    os.umask(mask)
                opened.listen(_BACKLOG)
                status = os.lstat(path)
                self._file = path, status.st_dev, status.st_ino
        except BaseException:
            opened.close()
            raise
        return opened

    def close(self) -> None:
        self.socket.close()
        if self._file is None:
            return
        path, device, number = self._file
        self._file = None
        try:
            status = os.lstat(path)
            if (status.st_dev, status.st_ino) == (device, number):
                os.unlink(path)
        except OSError:
            pass  # somebody else took it away


def _open_port(address: TcpAddress) -> socket.socket:
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, where = found[0]
    return socket.create_server(where, family=family, backlog=_BACKLOG)


class _FolderLock:
    """Two servers that start at once must not both find that nobody listens, and take each other's socket away."""

    def __init__(self, folder: str) -> None:
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> None:
        deadline = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() > deadline:
                    os.close(self._fd)
                    raise
                time.sleep(0.02)

    def __exit__(self, *exception: object) -> None:
        os.close(self._fd)


def _make_room(path: str) -> None:
    """Take away a socket that nobody listens on. Raises OSError when something else is there."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise FileExistsError(errno.EEXIST, "there is a file of that name already")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except BlockingIOError:
            pass  # it listens, and is busy
    raise OSError(errno.EADDRINUSE, "another server listens there")


async def serve(listener: Listener, converse: Converse, ended: asyncio.Event, greeting: str = "") -> None:
    """Have a conversation with everybody who connects, side by side, until `ended`; then all of them are ended.

    `greeting` is said on stderr as soon as somebody can connect.
    """
    talks: dict[asyncio.Task[None], SocketPeer] = {}
    is_unix = listener.socket.family == socket.AF_UNIX

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = SocketPeer(reader, writer)
        # The file's mode keeps others out; this holds also if somebody has changed it.
        if is_unix and peer.uid not in (None, os.geteuid()):
            peer.abort()
            return
        if not is_unix:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        task = asyncio.ensure_future(_talk(converse, peer))
        talks[task] = peer
        task.add_done_callback(talks.pop)

    def make_protocol() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(EndableReader(limit=_READ_AHEAD), accept)

    loop = asyncio.get_running_loop()
    start = loop.create_unix_server if is_unix else loop.create_server
    server = await start(make_protocol, sock=listener.socket)
    if greeting:
        print(greeting, file=sys.stderr, flush=True)
    try:
        await ended.wait()
    finally:
        server.close()
        listener.close()
        for peer in talks.values():
            peer.hang_up()
        if talks:
            await asyncio.wait(list(talks), timeout=_CLOSING_S)
        for task in list(talks):
            task.cancel()


async def _talk(converse: Converse, peer: SocketPeer) -> None:
    try:
        await converse(peer)
    finally:
        peer.abort()
