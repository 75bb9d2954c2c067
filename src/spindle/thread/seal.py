"""A seal on the settings of a thread's turns, by which Spindle recognises records that this home wrote.

A thread file can come from anywhere: another program, another machine, an archive somebody sent. What it says about
rights (approval policy, sandbox, folder) and about the model's base text and tools counts only if the seal is valid;
see `api/taking_over`. The key never leaves the home.
"""

from __future__ import annotations

import os
from _blake2 import blake2b  # of the standard library; `hashlib` would load OpenSSL before the first request
from typing import TYPE_CHECKING, Any

from spindle.errors import ConfigError
from spindle.protocol.clock import Clock
from spindle.protocol.items import encode_payload
from spindle.protocol.settings import SandboxPolicy
from spindle.thread import private_files

if TYPE_CHECKING:
    from spindle.thread.reading import RolloutData

FIELD = "spindle"
"""Where turn contexts carry what only we read."""
_KEY_BYTES = 32


class Sealer:
    """Seals what one home records."""

    def __init__(self, home: str, clock: Clock) -> None:
        self._path = f"{home}/spindle/thread-key"
        self._clock = clock
        self._key: bytes | None = None

    def seal(self, meta: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
        """The turn context with its seal; without one where no key can be kept."""
        key = self._key = self._key or _read_key(self._path) or _new_key(self._path, self._clock)
        if key is None:
            return context
        marks = context.get(FIELD)
        return {**context, FIELD: {**(marks if isinstance(marks, dict) else {}), "seal": _digest(key, meta, context)}}

    def holds(self, meta: dict[str, Any], context: dict[str, Any] | None) -> bool:
        """Did this home write these settings, for this very thread?"""
        marks = context.get(FIELD) if context is not None else None
        found = marks.get("seal") if isinstance(marks, dict) else None
        key = self._key = self._key or _read_key(self._path)
        if context is None or key is None or not isinstance(found, str):
            return False
        # The digests are compared, not the texts: how long that takes tells nothing about the right one.
        return _keyed(key, found.encode("utf-8", "replace")) == _keyed(key, _digest(key, meta, context).encode())

    def moved(self, data: RolloutData, meta: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
        """The context for a copy of the thread, which `meta` begins: sealed anew if it was sealed."""
        return self.seal(meta, context) if self.holds(data.meta, context) else context


def _digest(key: bytes, meta: dict[str, Any], context: dict[str, Any]) -> str:
    try:
        sandbox: Any = SandboxPolicy.from_wire(context.get("sandbox_policy")).to_wire()
    except ConfigError:
        sandbox = None
    covered = [
        meta.get("id"),
        meta.get("base_instructions"),
        meta.get("dynamic_tools"),
        context.get("cwd"),
        context.get("approval_policy"),
        sandbox,
    ]
    return _keyed(key, encode_payload(covered)).hex()


def _keyed(key: bytes, text: bytes) -> bytes:
    return blake2b(text, key=key, digest_size=32).digest()


def _read_key(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # One that another user wrote, or could write, seals nothing.
        status = os.fstat(fd)
        is_private = status.st_uid == os.geteuid() and not status.st_mode & 0o022
        key = os.read(fd, _KEY_BYTES + 1) if is_private else b""
    finally:
        os.close(fd)
    return key if len(key) == _KEY_BYTES else None


def _new_key(path: str, clock: Clock) -> bytes | None:
    key = blake2b("".join(clock.uuid7() for _ in range(4)).encode(), digest_size=_KEY_BYTES).digest()
    scratch = f"{path}.{os.getpid()}.new"
    folder = os.path.dirname(path)
    try:
        private_files.make_private_folders(folder, folder)
        fd = private_files.open_private(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW)
        try:
            private_files.write_all(fd, key)
        finally:
            os.close(fd)
        try:
            # A link, not a rename: of two processes that begin at once, both go on with the key of the first.
            os.link(scratch, path)
        finally:
            os.unlink(scratch)
    except FileExistsError:
        return _read_key(path)
    except OSError:
        return None
    return key
