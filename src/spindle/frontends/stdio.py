"""Lines over stdin and stdout, for front ends that talk to a program."""

from __future__ import annotations

import asyncio
import os
import stat
import sys

MAX_LINE_BYTES = 64 << 20


async def open_stdin() -> asyncio.StreamReader:
    lines = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    loop = asyncio.get_running_loop()
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty():
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    else:
        # A file or /dev/null: always ready, so the system refuses to wait for it.
        lines.feed_data(await loop.run_in_executor(None, sys.stdin.buffer.read))
        lines.feed_eof()
    return lines


def write_all(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
