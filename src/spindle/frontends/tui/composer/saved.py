"""The draft on disk, so that a crash or a kill costs nothing: `$CODEX_HOME/spindle/drafts/`, a file per interface.

The file is locked as long as its interface lives. What another start finds unlocked, for its own folder, was left
behind. Nothing here may disturb typing: writing happens in a thread, and a disk that is full is no reason to complain.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable

import msgspec

from spindle.frontends.tui.composer.draft import Folds
from spindle.protocol.clock import Clock
from spindle.protocol.items import encode_json, json_reader
from spindle.thread.private_files import make_private_folders, open_private, try_lock, unlink_if_possible, write_all

_DELAY_S = 0.3
_LARGEST = 64 << 20


class _Part(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str = ""
    paste: str = ""
    image: str = ""


class Saved(msgspec.Struct):
    """A draft as it stands in its file."""

    cwd: str
    parts: tuple[_Part, ...] = ()
    ts: float = 0
    path: str = ""

    def forget(self) -> None:
        """It has been taken over: its file goes."""
        unlink_if_possible(self.path)

    def raw(self, folds: Folds) -> str:
        """The draft as text for the editor; what was folded is folded again."""
        return "".join(
            folds.image(part.image) if part.image else folds.paste(part.paste) if part.paste else folds.fit(part.text)
            for part in self.parts
        )


_read_saved = json_reader(Saved)


class DraftFile:
    """The file of this interface's draft. It is there only while there is a draft."""

    def __init__(self, home: str, cwd: str, clock: Clock) -> None:
        self._top = f"{home}/spindle"
        self._folder = f"{self._top}/drafts"
        self._path = f"{self._folder}/{clock.uuid7()}.json"
        self._cwd = os.path.realpath(cwd)
        self._clock = clock
        self._fd = -1
        self._lock = threading.Lock()
        self._make: Callable[[], list[dict[str, str]]] | None = None
        self._wanted: list[dict[str, str]] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[None] | None = None

    def changed(self, parts: Callable[[], list[dict[str, str]]]) -> None:
        """The draft has changed: ask for its parts soon, and write them. Without a running loop: at once."""
        self._make = parts
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.save_now()
            return
        if self._timer is None:
            self._timer = loop.call_later(_DELAY_S, self._begin)

    def _begin(self) -> None:
        """Write in a thread; what changes meanwhile is written after it."""
        loop = asyncio.get_running_loop()
        if self._writing is not None and not self._writing.done():
            self._timer = loop.call_later(_DELAY_S, self._begin)
            return
        self._collect()
        self._writing = loop.run_in_executor(None, self._write_wanted)

    def _collect(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._make is not None:
            self._wanted, self._make = self._make(), None

    def save_now(self) -> None:
        """Write at once: something may be about to end us."""
        self._collect()
        self._write_wanted()

    def _write_wanted(self) -> None:
        with self._lock:  # a thread may still write what was there before
            parts, self._wanted = self._wanted, None
            if parts is None:
                return
            try:
                self._write(parts) if parts else self._remove()
            except OSError:
                pass  # what could be written before is still there; the next change tries again

    def _write(self, parts: list[dict[str, str]]) -> None:
        data = encode_json({"cwd": self._cwd, "ts": self._clock.now(), "parts": parts})
        make_private_folders(self._folder, self._top)
        scratch = f"{self._path}.new"
        fd = open_private(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW)
        try:
            try_lock(fd)  # before it has its name: nobody can find it unlocked
            write_all(fd, data)
            os.replace(scratch, self._path)
        except BaseException:
            os.close(fd)
            unlink_if_possible(scratch)
            raise
        self._close()
        self._fd = fd

    def _remove(self) -> None:
        unlink_if_possible(self._path)
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def close(self) -> None:
        """The interface ends in good order: whatever is left of the draft was the person's to leave."""
        self._make = None
        self._collect()
        with self._lock:
            self._wanted = None
            self._remove()


def left_behind(home: str, cwd: str) -> list[Saved]:
    """Drafts of interfaces in this folder that ended without a word, newest first."""
    folder = f"{home}/spindle/drafts"
    here = os.path.realpath(cwd)
    found: list[Saved] = []
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".json")]
    except OSError:
        return []
    for name in names:
        saved = _read(f"{folder}/{name}", here)
        if saved is not None:
            found.append(saved)
    return sorted(found, key=lambda saved: -saved.ts)


def _read(path: str, cwd: str) -> Saved | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not try_lock(fd) or os.fstat(fd).st_size > _LARGEST:
            return None
        with os.fdopen(os.dup(fd), "rb") as file:
            saved = _read_saved(file.read(_LARGEST))
        if saved.cwd != cwd or not saved.parts:
            return None
        saved.path = path
        return saved
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return None
    finally:
        os.close(fd)
