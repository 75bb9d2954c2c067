"""Servers that are programs: one JSON-RPC message a line over their stdin and stdout.

The program is an argument list, never a shell's line, and is looked up where the user's PATH says, never in the
working folder. How it is started, and that it dies with us, is the business of whoever hands in `Start`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import IO, Any, Protocol

from spindle.errors import McpError, SandboxUnavailable
from spindle.mcp.channel import MESSAGE_MAX_BYTES, Message, messages_in
from spindle.mcp.log import ServerLog
from spindle.mcp.spec import McpServer
from spindle.protocol.items import decode_foreign, encode_payload
from spindle.protocol.quote import visible

PASSED_ON = ("HOME", "LOGNAME", "PATH", "SHELL", "USER", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ")
"""What a server inherits; everything else it needs is named in its entry."""
CLOSE_S = 0.3
"""How long a server may take to end by itself once its input is closed."""

_END_S = 0.5


class Child(Protocol):
    """A running server."""

    @property
    def stdin(self) -> IO[bytes]: ...
    @property
    def stdout(self) -> IO[bytes]: ...
    @property
    def stderr(self) -> IO[bytes]: ...
    @property
    def exit_code(self) -> int | None: ...
    async def ends_within(self, within_s: float) -> bool: ...
    async def stop(self, grace_s: float) -> None: ...
    def kill(self) -> None: ...


Start = Callable[[Sequence[str], Mapping[str, str]], Awaitable[Child]]
"""Starts a program with an environment; in which folder, and how far confined, is for whoever starts it to decide."""


class StdioChannel:
    """One run of a server's program."""

    def __init__(self, spec: McpServer, *, start: Start, environ: Mapping[str, str], log: ServerLog) -> None:
        self._spec = spec
        self._start = start
        self._environ = environ
        self._log = log
        self._child: Child | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._stderr: asyncio.BaseTransport | None = None
        self._stdout: asyncio.BaseTransport | None = None

    async def open(self, receive: Callable[[Message], None], lost: Callable[[str], None]) -> None:
        env = server_environment(self._spec, self._environ)
        argv = [find_program(self._spec, env.get("PATH", os.defpath)), *self._spec.args]
        try:
            child = self._child = await self._start(argv, env)
        except SandboxUnavailable as error:
            raise McpError(str(error)) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise McpError(f"{visible(argv[0])} cannot be started: {reason}") from error
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MESSAGE_MAX_BYTES)
        self._stderr, _ = await loop.connect_read_pipe(lambda: _Errors(self._log), child.stderr)
        self._stdout, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), child.stdout)
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, child.stdin)
        self._writer = asyncio.StreamWriter(transport, protocol, None, loop)
        self._reading = asyncio.ensure_future(self._read(reader, receive, lost))

    async def send(self, message: Message) -> None:
        if self._writer is None or self._writer.is_closing():
            raise McpError("the server is not running")
        self._writer.write(encode_payload(message) + b"\n")
        try:
            await self._writer.drain()
        except OSError as error:
            raise McpError("the server closed its input") from error

    def forget(self, request_id: int) -> None:
        pass

    def agreed(self, version: str) -> None:
        pass

    async def aclose(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        if self._writer is not None:
            self._writer.close()
        if self._child is not None:
            await self._child.stop(CLOSE_S)
            self._close_pipes(self._child)
        self._log.close()

    def _close_pipes(self, child: Child) -> None:
        """Close every pipe. The event loop closes those it has; a start that was cancelled may have left some without
        it."""
        for transport, pipe in ((self._stdout, child.stdout), (self._stderr, child.stderr)):
            transport.close() if transport is not None else pipe.close()
        if self._writer is None:
            child.stdin.close()
        elif self._writer.transport.get_write_buffer_size():
            self._writer.transport.abort()  # it never read what we wrote

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()

    async def _read(
        self, reader: asyncio.StreamReader, receive: Callable[[Message], None], lost: Callable[[str], None]
    ) -> None:
        """Read to the end. The only owner of the server's output."""
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                lost(f"the server sent a line longer than {MESSAGE_MAX_BYTES >> 20} MiB")
                return
            except OSError:
                line = b""
            if not line:
                lost(await self._end())
                return
            for message in self._messages(line):
                receive(message)

    def _messages(self, line: bytes) -> list[Message]:
        """A line that is no message is a server's way of printing; it goes where its errors go."""
        if not line.strip():
            return []
        try:
            value: Any = decode_foreign(line)
        except ValueError:
            self._log.write(line[:1000].rstrip() + b"\n")
            return []
        return messages_in(value)

    async def _end(self) -> str:
        """How it ended. Its exit, and what it said last, come a moment after the end of its output."""
        assert self._child is not None
        await self._child.ends_within(_END_S)
        words, code = self._log.last_words, self._child.exit_code
        how = "the server ended" if code is None else f"the server ended with exit code {code}"
        return f"{how}: {words}" if words else how


class _Errors(asyncio.Protocol):
    """What a server prints on stderr."""

    def __init__(self, log: ServerLog) -> None:
        self._log = log

    def data_received(self, data: bytes) -> None:
        self._log.write(data)


def server_environment(spec: McpServer, environ: Mapping[str, str]) -> dict[str, str]:
    names = (*PASSED_ON, *spec.env_vars)
    return {name: environ[name] for name in names if name in environ} | spec.env


def find_program(spec: McpServer, path: str) -> str:
    """The absolute path of the program. A name is looked up in the absolute folders of `path` and nowhere else."""
    command = os.path.expanduser(spec.command or "")
    if os.path.isabs(command):
        return command
    if "/" in command:
        if spec.cwd is None:
            raise McpError(f"{visible(command)!r} must be an absolute path, a name in PATH, or relative to a `cwd`")
        return os.path.normpath(f"{spec.cwd}/{command}")
    for folder in path.split(os.pathsep):
        candidate = f"{folder}/{command}"
        if os.path.isabs(folder) and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise McpError(f"there is no program {visible(command)!r} in PATH")
