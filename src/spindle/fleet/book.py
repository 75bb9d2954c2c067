"""Writes the folder of a run. Only the driver has a `Book`, and the lock that goes with it.

A record is made in steps, and a driver may be killed between any two of them: the files of the task under a name of
their own, on disk; their rename to `tasks/ID`; one line in one write; the line on disk. Only then is the task done.
What a killed driver left half done, the next one takes back (`recover`).
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import BinaryIO

import msgspec

from spindle.errors import SpindleError, UsageError
from spindle.fleet.exchange import FILE_BYTES, FILES, Task
from spindle.fleet.folder import (
    ATTEMPTS,
    FACTS,
    FILES_OF_TASKS,
    LOCK,
    RESULTS,
    SPEND,
    TASKS,
    AttemptLine,
    Facts,
    RunFolder,
    SpendLine,
)
from spindle.fleet.record import Record
from spindle.thread.private_files import try_lock

SYNC_EVERY_S = 0.1
_LOCK_PATIENCE_S = 1.0
"""Those who only look whether a driver is there hold the lock for an instant."""
_NEW, _OLD = ".new-", ".old-"


class CannotWrite(SpindleError):
    """The folder of the run cannot be written: nothing more is started, and what is recorded stays."""


class RunLock:
    """Held by the driver of a folder as long as it lives."""

    def __init__(self, out: str) -> None:
        """Raises UsageError where another driver holds it."""
        try:
            os.makedirs(out, exist_ok=True)
            self._fd = os.open(f"{out}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise UsageError(f"{out} cannot be used: {error.strerror}") from error
        give_up = time.monotonic() + _LOCK_PATIENCE_S
        while not try_lock(self._fd):
            if time.monotonic() > give_up:
                os.close(self._fd)
                raise UsageError(f"another driver works in {out}; `spindle fleet status {out}` shows what it does")
            time.sleep(0.02)

    def release(self) -> None:
        os.close(self._fd)


def write_list(out: str, lines: Iterable[bytes]) -> tuple[str, int]:
    """Put the list of a run in its place, in one step; gives its SHA-256 and how many tasks it has."""
    import hashlib  # only to begin

    scratch, digest, count = f"{out}/{TASKS}.new", hashlib.sha256(), 0
    try:
        with _scratch_file(scratch) as file:
            for line in lines:
                file.write(line + b"\n")
                digest.update(line + b"\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(scratch)
        raise
    os.replace(scratch, f"{out}/{TASKS}")
    return digest.hexdigest(), count


def write_facts(out: str, facts: Facts) -> None:
    scratch = f"{out}/{FACTS}.new"
    with _scratch_file(scratch) as file:
        file.write(msgspec.json.format(msgspec.json.encode(facts), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(scratch, f"{out}/{FACTS}")
    _sync_folder(out)


def _scratch_file(path: str) -> BinaryIO:
    """A new file, whatever was left there: a link under that name would lead the list of tasks into another file."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644), "wb")


def task_line(task: Task) -> bytes:
    """A task as it stands in the list of a run."""
    return msgspec.json.encode(task)


def recover(out: str) -> None:
    """Take back what a killed driver left half done: torn last lines, files of tasks that have no record yet."""
    for name in (RESULTS, ATTEMPTS, SPEND):
        _cut_torn_line(f"{out}/{name}")
    above = f"{out}/{FILES_OF_TASKS}"
    if not os.path.isdir(above):
        return
    folder: RunFolder | None = None
    for name in os.listdir(above):
        if name.startswith(_NEW):
            shutil.rmtree(f"{above}/{name}")
        elif name.startswith(_OLD):
            folder = folder or RunFolder(out)
            task_id, _, attempts = name.removeprefix(_OLD).rpartition("@")
            record = folder.record(task_id)
            if record is None or str(record.attempts) != attempts:  # the line that replaces it was never written
                shutil.rmtree(f"{above}/{task_id}", ignore_errors=True)
                os.rename(f"{above}/{name}", f"{above}/{task_id}")
            else:
                shutil.rmtree(f"{above}/{name}")


def _cut_torn_line(path: str) -> None:
    try:
        with open(path, "rb+") as file:
            size = end = file.seek(0, os.SEEK_END)
            while end:
                start = max(0, end - 65536)
                file.seek(start)
                last = file.read(end - start).rfind(b"\n")
                if last >= 0:
                    end = start + last + 1
                    break
                end = start
            if end < size:
                file.truncate(end)
                os.fsync(file.fileno())
    except FileNotFoundError:
        pass


class Book:
    """The open files of a run. Lines are on disk when `durable` says so."""

    def __init__(self, out: str) -> None:
        self.out = out
        os.makedirs(f"{out}/{FILES_OF_TASKS}", exist_ok=True)
        if os.path.islink(f"{out}/{FILES_OF_TASKS}"):
            raise CannotWrite(f"{out}/{FILES_OF_TASKS} is a link; the files of tasks must lie in the folder of the run")
        self._fds = {name: _open_for_lines(f"{out}/{name}") for name in (RESULTS, ATTEMPTS, SPEND)}
        self._synced: asyncio.Future[None] | None = None
        self._last_sync_s = 0.0
        self._syncing: asyncio.Task[None] | None = None

    def attempt(self, line: AttemptLine) -> None:
        self._append(ATTEMPTS, msgspec.json.encode(line))

    def spent(self, line: SpendLine) -> None:
        self._append(SPEND, msgspec.json.encode(line))

    async def record(self, record: Record) -> None:
        """Write the record of a task; returns when it is on disk. Its files are in their place already."""
        self.append_record(record)
        await self.durable()

    def append_record(self, record: Record) -> None:
        self._append(RESULTS, msgspec.json.encode(record))

    def new_files(self, task_id: str, attempt: int) -> str:
        """Where the files of an attempt are to be put, a folder that is to be made; `keep_files` makes them those of
        the task."""
        folder = f"{self.out}/{FILES_OF_TASKS}/{_NEW}{task_id}@{attempt}"
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def keep_files(self, folder: str, task_id: str, attempts: int) -> str | None:
        """Rename the folder to `tasks/ID`. Gives what was there before, for `drop_files` when the record is written."""
        _sync_folder(folder)
        above = f"{self.out}/{FILES_OF_TASKS}"
        place, old = f"{above}/{task_id}", f"{above}/{_OLD}{task_id}@{attempts}"
        had_files = os.path.isdir(place)
        if had_files:
            os.rename(place, old)
        os.rename(folder, place)
        _sync_folder(above)
        return old if had_files else None

    def drop_files(self, folder: str | None) -> None:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    async def durable(self) -> None:
        """Wait until what was written so far is on disk. Those who wait at the same time share a sync."""
        if self._synced is None:
            self._synced = asyncio.get_running_loop().create_future()
            if self._syncing is None or self._syncing.done():
                self._syncing = asyncio.create_task(self._sync())
        await asyncio.shield(self._synced)

    async def _sync(self) -> None:
        while self._synced is not None:
            await asyncio.sleep(max(0.0, self._last_sync_s + SYNC_EVERY_S - time.monotonic()))
            self._last_sync_s = time.monotonic()
            waiting, self._synced = self._synced, None
            try:
                await asyncio.to_thread(self._sync_files)
            except OSError as error:
                waiting.set_exception(CannotWrite(f"{self.out} cannot be written: {error.strerror}"))
            else:
                waiting.set_result(None)

    def _sync_files(self) -> None:
        for fd in self._fds.values():
            os.fsync(fd)

    def close(self) -> None:
        """Everything that was written is on disk after it."""
        for fd in self._fds.values():
            os.fsync(fd)
            os.close(fd)
        self._fds = {}

    def _append(self, name: str, line: bytes) -> None:
        """One line in one write. Where the disk is full, nothing of it stays."""
        fd, data = self._fds[name], line + b"\n"
        before = os.fstat(fd).st_size
        try:
            if os.write(fd, data) == len(data):
                return
            reason = "the disk is full"
        except OSError as error:
            reason = error.strerror or str(error)
        os.ftruncate(fd, before)
        raise CannotWrite(f"{self.out}/{name} cannot be written: {reason}")


def take_files(source: str, into: str) -> list[str]:
    """Move the files of an attempt, without following a link, onto disk; gives the names of those that lost their end.

    Where the folder as a whole can be moved, and has only what is to be in it, nothing is copied."""
    try:
        with os.scandir(source) as entries:
            is_whole = all(map(_is_as_expected, entries))
        if is_whole:
            os.rename(source, into)
            for name in os.listdir(into):
                _sync(f"{into}/{name}", os.O_NOFOLLOW)
            return []
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    os.mkdir(into)
    return _copy_files(source, into)


def _is_as_expected(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    is_only_name = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    return entry.name in FILES and is_only_name and status.st_size <= FILE_BYTES


def _copy_files(source: str, into: str) -> list[str]:
    cut: list[str] = []
    for name in FILES:
        file = open_plain(f"{source}/{name}")
        if file is None:
            continue
        with file:
            with open(f"{into}/{name}", "xb") as copy:
                left = FILE_BYTES
                while left and (part := file.read(min(left, 1 << 20))):
                    copy.write(part)
                    left -= len(part)
                copy.flush()
                os.fsync(copy.fileno())
            if not left and file.read(1):
                cut.append(name)
    return cut


def open_plain(path: str) -> BinaryIO | None:
    """A file to read; None where there is none, or something else than a plain file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return os.fdopen(fd, "rb")
    os.close(fd)
    return None


def _open_for_lines(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)


def _sync_folder(path: str) -> None:
    _sync(path, os.O_DIRECTORY)


def _sync(path: str, flags: int) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
