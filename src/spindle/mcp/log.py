"""What servers print on stderr and log over the protocol: kept in a file of bounded size, never on a terminal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spindle.protocol.quote import readable, without_terminal_codes

if TYPE_CHECKING:
    from spindle.policy.secret_stream import StreamMasker
    from spindle.policy.secrets import Secrets

_FILE_MAX_BYTES = 1024 * 1024
_RUN_MAX_BYTES = 512 * 1024
_TAIL_BYTES = 2048
_WORDS_CHARS = 300


class ServerLog:
    """One server's file, made when there is something to write. It may print the keys it was given, so they are
    masked."""

    def __init__(self, folder: str, name: str, secrets: Secrets) -> None:
        self._folder = folder
        self._path = f"{folder}/mcp-{name}.log"
        self._fd: int | None = None
        self._left = _RUN_MAX_BYTES
        self._tail = b""
        self._secrets = secrets
        self._masker: StreamMasker | None = None

    @property
    def path(self) -> str:
        return self._path

    @property
    def last_words(self) -> str:
        """The last line that says something, fit to be shown; "" when there is none."""
        tail = self._secrets.mask_bytes(self._tail)
        text = readable(without_terminal_codes(tail.decode("utf-8", "replace")))
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return lines[-1][:_WORDS_CHARS] if lines else ""

    def write(self, data: bytes) -> None:
        """What the server printed."""
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        masker = self._masker = self._masker or self._secrets.output_stream()
        self._keep(masker.feed(data))

    def _keep(self, data: bytes) -> None:
        """As much as there is room for. A log that cannot be written is no reason to stop."""
        if self._left <= 0 or not data:
            return
        kept, self._left = data[: self._left], self._left - len(data)
        if self._left <= 0:
            kept += b"\n[the rest of this run is not kept]\n"
        try:
            if self._fd is None:
                self._fd = self._open()
            os.write(self._fd, kept)
        except OSError:
            self._left = 0

    def note(self, text: str) -> None:
        """A line of ours."""
        self._keep_rest()
        self._keep(self._secrets.mask_bytes(f"[{text}]\n".encode("utf-8", "replace")))

    def new_run(self, why: str) -> None:
        """The server begins again; what it said before explains nothing any more."""
        self._tail = b""
        self.note(f"restarting: {why}")

    def _keep_rest(self) -> None:
        """What was held back, because it could have been the beginning of a secret."""
        masker, self._masker = self._masker, None
        if masker is not None:
            self._keep(masker.finish())

    def close(self) -> None:
        self._keep_rest()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> int:
        os.makedirs(self._folder, 0o700, exist_ok=True)
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        if os.fstat(fd).st_size > _FILE_MAX_BYTES:
            os.ftruncate(fd, 0)
        return fd
