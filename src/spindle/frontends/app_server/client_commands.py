"""A command that a client runs under its own id: its output, its input, its terminal.

The client that started it may write to it, resize its terminal and end it while the answer to `command/exec` is open.
The command lives no longer than that request, and so no longer than its client.
"""

from __future__ import annotations

import asyncio
import base64
import math
import os
from collections.abc import Callable
from typing import Literal

from spindle.errors import SpindleError
from spindle.frontends.app_server.notifications import CommandExecOutput
from spindle.frontends.app_server.rpc import RpcError
from spindle.process.command import Command
from spindle.process.error_stream import error_stream
from spindle.process.output import OutputRing
from spindle.process.table import TIMEOUT_EXIT_CODE, LiveProcess, ProcessTable, sandbox_failure

WITHOUT_CAP = 256 << 20
"""What is kept of a stream whose cap was switched off; a command that prints without end must not take all memory."""
_WRITE_PAUSE_S = 0.01
_END_OF_INPUT = b"\x04"

Tell = Callable[[CommandExecOutput], None]


class Stream:
    """One output of a command: handed on piece by piece, or kept for the answer."""

    def __init__(self, name: Literal["stdout", "stderr"], cap: int | None, tell: Callable[[bytes, bool], None] | None):
        self.name = name
        self._left = cap
        self._tell = tell
        self._kept: bytearray | OutputRing = OutputRing() if cap is None else bytearray()

    def add(self, data: bytes) -> None:
        if not data:
            return
        is_full = False
        if self._left is not None:
            is_full = len(data) > self._left
            had, data = self._left, data[: self._left]
            self._left -= len(data)
            if not had:
                return
        if self._tell is not None:
            self._tell(data, is_full)
        elif isinstance(self._kept, OutputRing):
            self._kept.add(data)
        else:
            self._kept += data

    def text(self) -> str:
        kept = self._kept.value() if isinstance(self._kept, OutputRing) else bytes(self._kept)
        return kept.decode("utf-8", "replace")


class ClientCommand:
    """One running command of one client."""

    def __init__(self, process_id: str | None, *, takes_input: bool, cap: int | None, tell: Tell | None) -> None:
        self._live: LiveProcess | None = None
        self._begun = asyncio.Event()
        self._input = -1
        """Our end of its standard input; none with a terminal."""
        self._takes_input = takes_input
        self._writing = asyncio.Lock()
        self.stdout, self.stderr = (self._stream(name, process_id, cap, tell) for name in ("stdout", "stderr"))

    def _stream(
        self, name: Literal["stdout", "stderr"], process_id: str | None, cap: int | None, tell: Tell | None
    ) -> Stream:
        if tell is None or process_id is None:
            return Stream(name, cap, None)

        def hand_on(data: bytes, is_full: bool) -> None:
            packed = base64.b64encode(data).decode()
            tell(CommandExecOutput(process_id=process_id, stream=name, delta_base64=packed, cap_reached=is_full))

        return Stream(name, cap, hand_on)

    async def run(self, table: ProcessTable, command: Command, *, timeout_s: float | None) -> int:
        """Run to the end or to the time limit; gives the exit code."""
        complaint = OutputRing()

        def collect(data: bytes) -> None:
            complaint.add(data)
            self.stdout.add(data)

        errors = OutputRing()

        def more_errors() -> None:
            self.stderr.add(errors.take().head)

        try:
            with error_stream(errors, more_errors) as error_file:
                await self._start(table, command, error_file, collect)
                live = self._live
                assert live is not None
                code = await live.wait(timeout_s) if timeout_s is not None else await self._end(live)
                if code is None:
                    await live.running.stop()
                    code = TIMEOUT_EXIT_CODE
                if live.running.never_ran:
                    raise sandbox_failure(complaint)
            return code
        finally:
            self._live = None
            self._begun.set()
            self._close_input()

    async def _end(self, live: LiveProcess) -> int:
        await asyncio.wait((live.running.finished,))
        return live.running.finished.result()

    async def _start(
        self, table: ProcessTable, command: Command, error_file: int, collect: Callable[[bytes], None]
    ) -> None:
        readable = -1
        if self._takes_input and not command.tty:
            readable, self._input = os.pipe()
            os.set_blocking(self._input, False)
        try:
            self._live = await table.start(
                Command(
                    argv=command.argv,
                    cwd=command.cwd,
                    boundary=command.boundary,
                    tty=command.tty,
                    size=command.size,
                    input_file=None if readable < 0 else readable,
                    error_file=None if command.tty else error_file,
                ),
                session_id=0,
                call_id="",
                on_output=collect,
                on_exit=lambda _: None,
            )
        finally:
            if readable >= 0:
                os.close(readable)
            self._begun.set()

    # ---- while it runs -------------------------------------------------------------------------

    async def _running(self) -> LiveProcess:
        await self._begun.wait()
        if self._live is None:
            raise RpcError("the command has ended")
        return self._live

    async def write(self, data: bytes, *, is_last: bool) -> None:
        """Give it something to read. Waits while it does not read; what comes later waits for what came before."""
        live = await self._running()
        if not self._takes_input:
            raise RpcError("this command takes no input; start it with `streamStdin` or `tty`")
        async with self._writing:
            if live.running.tty:
                await self._type(live, data + (_END_OF_INPUT if is_last else b""))
                return
            while data:
                data = data[self._write_some(data) :]
                if data:
                    await asyncio.wait((live.running.finished,), timeout=_WRITE_PAUSE_S)
                    if live.exit_code is not None:
                        self._refuse()
            if is_last:
                self._close_input()

    def _write_some(self, data: bytes) -> int:
        try:
            return os.write(self._input, data) if self._input >= 0 else self._refuse()
        except BlockingIOError:
            return 0
        except OSError:
            return self._refuse()

    def _refuse(self) -> int:
        raise RpcError("the input was not taken: the command has ended, or closed its input")

    async def _type(self, live: LiveProcess, data: bytes) -> None:
        if not await live.running.write(data, timeout_s=math.inf):
            self._refuse()

    async def resize(self, rows: int, columns: int) -> None:
        live = await self._running()
        if not live.running.tty:
            raise RpcError("this command has no terminal; start it with `tty`")
        live.running.resize(rows, columns)

    async def terminate(self) -> None:
        """End it, with everything that it started."""
        live = await self._running()
        await live.running.stop()

    def _close_input(self) -> None:
        if self._input >= 0:
            os.close(self._input)
            self._input = -1


def cannot_run(program: str, error: OSError) -> SpindleError:
    return SpindleError(f"{program} cannot be run: {error.strerror or error}")
