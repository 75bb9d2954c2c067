"""`--listen unix://PATH`: many clients over a socket that only the user can open. Lines as on stdio, and no token."""

from __future__ import annotations

import asyncio

from spindle.config.schema import Config
from spindle.frontends.app_server import rpc
from spindle.frontends.app_server.connection import Connection
from spindle.frontends.app_server.rpc import RpcError
from spindle.frontends.app_server.server import Server
from spindle.frontends.options import Parsed
from spindle.frontends.signals import Signals
from spindle.frontends.socket_lines import SocketPeer
from spindle.frontends.sockets import Listener, address_of, serve
from spindle.frontends.stdio import LineTooLong
from spindle.protocol.quote import readable

MAX_CLIENTS = 64
_LAST_WRITE_S = 1.0


def run(config: Config, parsed: Parsed, listen: str) -> int:
    """Serve until a signal comes."""
    listener = Listener(address_of(listen, may_be_remote=False, schemes=("stdio", "unix", "ws")))
    return asyncio.run(_serve(config, parsed, listener))


async def _serve(config: Config, parsed: Parsed, listener: Listener) -> int:
    server = Server(config, parsed)
    wanted, ended = asyncio.Event(), asyncio.Event()
    Signals(wanted.set)

    async def end() -> None:
        await wanted.wait()
        await server.close()  # clients are told how their turns ended
        ended.set()

    async def converse(peer: SocketPeer) -> None:
        if len(server.connections) < MAX_CLIENTS:
            await _converse(server, peer)
        else:
            busy = {"code": rpc.OVERLOADED, "message": f"busy: {MAX_CLIENTS} clients are connected already"}
            await peer.turn_away(rpc.frame({"id": None, "error": busy}))

    ending = asyncio.ensure_future(end())
    await serve(listener, converse, ended, f"app-server: listening on {readable(listener.url)}")
    await ending
    return 0


async def _converse(server: Server, peer: SocketPeer) -> None:
    """One client from its first line to its last. Its threads stay loaded; others may follow them."""

    async def write(lines: list[bytes]) -> None:
        await peer.write(b"".join(lines))

    async def read() -> None:
        try:
            while line := await peer.next():
                connection.receive(line)
                await connection.outbox.room()
        except LineTooLong as error:
            connection.complain(str(error))
            connection.refuse(None, RpcError(str(error)))  # to no request: it could not be read

    connection = Connection(server, write)
    outbox = connection.outbox
    server.connections.append(connection)
    writer = asyncio.ensure_future(outbox.run())
    reader = asyncio.ensure_future(read())
    over = asyncio.ensure_future(peer.is_over.wait())
    try:
        await asyncio.wait([reader, writer, over, outbox.overrun], return_when=asyncio.FIRST_COMPLETED)
    finally:
        reader.cancel()
        await connection.finish()
        server.leave(connection)
        outbox.close()
        if outbox.overrun.done():
            connection.complain(f"a client was dropped: {outbox.overrun.result()}")
        else:
            await asyncio.wait([writer], timeout=_LAST_WRITE_S)
            await peer.close()
        for task in (writer, over):
            task.cancel()
        await asyncio.wait([reader, writer, over])
