"""`spindle app-server`: one client over stdio, or many over sockets."""

from __future__ import annotations

import asyncio
import os

from spindle.config.schema import Config
from spindle.errors import SpindleError, UsageError
from spindle.frontends.app_server.connection import Connection
from spindle.frontends.app_server.server import Server
from spindle.frontends.launch import config_from, warn_of_bypass
from spindle.frontends.options import Parsed
from spindle.frontends.signals import Signals
from spindle.frontends.standard_streams import LAST_WRITE_S
from spindle.frontends.stdio import Lines, LineTooLong, write_all, write_without_waiting
from spindle.frontends.token_file import read_token


def run(parsed: Parsed, words: list[str]) -> int:
    listen = parsed.value("listen") or "stdio://"
    if listen != "stdio://" and not listen.startswith(("ws://", "unix://")):
        raise UsageError(f"--listen {listen}: use stdio://, unix://PATH or ws://HOST:PORT")
    config = config_from(parsed)
    warn_of_bypass(parsed)
    if listen == "stdio://":
        return asyncio.run(serve(config, parsed))
    if listen.startswith("unix://"):
        from spindle.frontends.app_server import unix_socket  # few listen

        return unix_socket.run(config, parsed, listen)
    from spindle.frontends.app_server import websocket  # few listen

    host, port = websocket.address_of(listen, may_be_remote=parsed.flag("allow_remote"))
    from spindle.frontends.page_file import check_named  # few listen

    if (token_file := parsed.value("token_file")) is None:
        raise UsageError("ws:// needs --token-file FILE: clients must send its content as `Authorization: Bearer …`")
    check_named(token_file, config)
    return asyncio.run(serve_many(config, parsed, host, port, read_token(token_file)))


async def serve_many(config: Config, parsed: Parsed, host: str, port: int, token: str) -> int:
    """Serve clients over WebSockets until a signal comes."""
    from spindle.frontends.app_server import websocket  # few listen

    ended = asyncio.Event()
    signals = Signals(ended.set)
    await websocket.serve(Server(config, parsed), host, port, token, ended)
    return 128 + (signals.caught or 0)


async def serve(config: Config, parsed: Parsed) -> int:
    """Serve one client over stdio until the end of its input."""
    loop = asyncio.get_running_loop()

    async def write(lines: list[bytes]) -> None:
        data = b"".join(lines)
        if not write_without_waiting(data):
            await loop.run_in_executor(None, write_all, data)

    server = Server(config, parsed)
    connection = Connection(server, write)
    outbox = connection.outbox
    server.connections.append(connection)
    writer = asyncio.ensure_future(outbox.run())
    reader = asyncio.ensure_future(read_lines(connection))
    signals = Signals(reader.cancel)
    # Without a reader at the other end there is nothing left to work for.
    await asyncio.wait([reader, writer, outbox.overrun], return_when=asyncio.FIRST_COMPLETED)
    reader.cancel()
    await connection.finish()
    if signals.caught is None:
        await server.close()
        server.leave(connection)
    else:
        # The client hears of no turn that ends now: to it the server is gone, and nobody has interrupted anything.
        server.leave(connection)
        await server.close()
    outbox.close()
    if signals.caught is not None:
        # Whoever sent the signal does not wait for a client that does not read.
        await asyncio.wait([writer], timeout=LAST_WRITE_S)
        os._exit(128 + signals.caught)
    if outbox.overrun.done():
        raise SpindleError(f"the client does not read its messages: {outbox.overrun.result()}")
    await asyncio.wait([reader, writer])
    for task in (reader, writer):
        if not task.cancelled():
            task.result()
    return 0


async def read_lines(connection: Connection) -> None:
    """Deal with every line of stdin. Returns at the end of input."""
    lines = Lines()
    while True:
        try:
            line = await lines.next()
        except LineTooLong as error:
            connection.complain(str(error))
            continue
        except OSError as error:
            raise SpindleError(f"stdin cannot be read: {error.strerror}") from error
        if not line:
            return
        connection.receive(line)
        await connection.outbox.room()
