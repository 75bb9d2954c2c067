"""One process at a time changes the stored login of a home.

A refresh token works once. Whoever renews it therefore holds this lock from reading what is stored to storing what
came back, and so does whoever signs in or out. The lock is on a file of its own, because `auth.json` is replaced.
"""

from __future__ import annotations

import asyncio
import os
import time
from types import TracebackType

from spindle.errors import ConfigError
from spindle.thread.private_files import open_private, try_lock

PATIENCE_S = 40.0
"""Longer than a renewal may take. Whoever can read the file can lock it, also a command of the model; so a holder that
keeps it for longer is not waited for."""
_PAUSE_S = 0.02


class LoginLock:
    """`with` for those who may block, `async with` for those who may not."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._fd = -1

    def __enter__(self) -> None:
        self._open()
        give_up = time.monotonic() + PATIENCE_S
        while not try_lock(self._fd) and time.monotonic() < give_up:
            time.sleep(_PAUSE_S)

    async def __aenter__(self) -> None:
        self._open()
        try:
            give_up = time.monotonic() + PATIENCE_S
            while not try_lock(self._fd) and time.monotonic() < give_up:
                await asyncio.sleep(_PAUSE_S)
        except BaseException:
            os.close(self._fd)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def _open(self) -> None:
        path = f"{self._home}/auth.json.lock"
        try:
            os.makedirs(self._home, 0o700, exist_ok=True)
            self._fd = open_private(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
