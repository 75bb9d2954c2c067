"""`fs/…`: a client reads and changes files itself, with the user's rights, as an editor does."""

from __future__ import annotations

import asyncio
import binascii
import contextlib
import os
import shutil
import stat
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import TypeVar

from spindle.errors import reason_of
from spindle.frontends.app_server.method import Call, Method, Nothing
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.rpc import INVALID_PARAMS, RpcError

MAX_FILE_BYTES = 512 * 1024 * 1024

T = TypeVar("T")


class PathParams(Wire, frozen=True, kw_only=True):
    path: str


class ReadFileResult(Wire, frozen=True, kw_only=True):
    data_base64: str


class WriteFileParams(Wire, frozen=True, kw_only=True):
    path: str
    data_base64: str


class CreateDirectoryParams(Wire, frozen=True, kw_only=True):
    path: str
    recursive: bool | None = None
    """True when left out."""


class MetadataResult(Wire, frozen=True, kw_only=True):
    is_directory: bool
    is_file: bool
    is_symlink: bool
    created_at_ms: int
    modified_at_ms: int


class DirectoryEntry(Wire, frozen=True, kw_only=True):
    file_name: str
    is_directory: bool
    is_file: bool


class ReadDirectoryResult(Wire, frozen=True, kw_only=True):
    entries: list[DirectoryEntry]


class RemoveParams(Wire, frozen=True, kw_only=True):
    path: str
    recursive: bool | None = None
    force: bool | None = None
    """Both are true when left out: a folder goes with what is in it, and what is not there is no error."""


class CopyParams(Wire, frozen=True, kw_only=True):
    source_path: str
    destination_path: str
    recursive: bool = False


async def read_file(call: Call, params: PathParams) -> Wire:
    def read(path: str) -> bytes:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise RpcError(f"{path} is not a file")
        if os.path.getsize(path) > MAX_FILE_BYTES:
            raise RpcError(f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB")
        with open(path, "rb") as file:
            return file.read(MAX_FILE_BYTES)

    data = await _on_disk("read", params.path, read)
    return ReadFileResult(data_base64=b64encode(data).decode())


async def write_file(call: Call, params: WriteFileParams) -> Wire:
    try:
        data = b64decode(params.data_base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RpcError(f"Invalid request: dataBase64 is not base64: {error}", INVALID_PARAMS) from error

    def write(path: str) -> None:
        # A device or a pipe could be waited for without end.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        with os.fdopen(fd, "wb") as file:
            file.write(data)

    await _on_disk("write", params.path, write)
    return Nothing()


async def create_directory(call: Call, params: CreateDirectoryParams) -> Wire:
    def create(path: str) -> None:
        if params.recursive is False:
            os.mkdir(path)
        else:
            os.makedirs(path, exist_ok=True)

    await _on_disk("create", params.path, create)
    return Nothing()


async def get_metadata(call: Call, params: PathParams) -> Wire:
    def look(path: str) -> MetadataResult:
        itself = os.lstat(path)
        status = os.stat(path) if stat.S_ISLNK(itself.st_mode) else itself
        born: float = getattr(status, "st_birthtime", 0.0)
        return MetadataResult(
            is_directory=stat.S_ISDIR(status.st_mode),
            is_file=stat.S_ISREG(status.st_mode),
            is_symlink=stat.S_ISLNK(itself.st_mode),
            created_at_ms=int(born * 1000),
            modified_at_ms=status.st_mtime_ns // 1_000_000,
        )

    return await _on_disk("look at", params.path, look)


async def read_directory(call: Call, params: PathParams) -> Wire:
    def read(path: str) -> list[DirectoryEntry]:
        with os.scandir(path) as found:
            return sorted(map(_entry, found), key=lambda entry: entry.file_name)

    return ReadDirectoryResult(entries=await _on_disk("read", params.path, read))


def _entry(found: os.DirEntry[str]) -> DirectoryEntry:
    name = found.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return DirectoryEntry(file_name=name, is_directory=_is(found.is_dir), is_file=_is(found.is_file))


def _is(look: Callable[[], bool]) -> bool:
    try:
        return look()
    except OSError:
        return False  # a link that leads nowhere, or in a circle


async def remove(call: Call, params: RemoveParams) -> Wire:
    def take_away(path: str) -> None:
        try:
            is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
        except FileNotFoundError:
            if params.force is False:
                raise
            return
        if not is_folder:
            os.unlink(path)
        elif params.recursive is False:
            os.rmdir(path)
        else:
            shutil.rmtree(path)

    await _on_disk("remove", params.path, take_away)
    return Nothing()


async def copy(call: Call, params: CopyParams) -> Wire:
    target = _absolute(params.destination_path)

    def duplicate(path: str) -> None:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(path), target)
        elif stat.S_ISREG(status.st_mode):
            _copy_file(path, target)
        elif not stat.S_ISDIR(status.st_mode):
            raise RpcError(f"{path} is neither a file nor a folder")
        elif not params.recursive:
            raise RpcError(f"{path} is a folder; `recursive` copies it with what is in it")
        elif os.path.realpath(target).startswith(os.path.realpath(path).rstrip("/") + "/"):
            raise RpcError(f"{path} cannot be copied into itself")
        else:
            shutil.copytree(path, target, symlinks=True, dirs_exist_ok=True, copy_function=_copy_file)

    await _on_disk("copy", params.source_path, duplicate)
    return Nothing()


def _copy_file(path: str, target: str) -> None:
    with contextlib.suppress(shutil.SameFileError):  # it is there already
        shutil.copy2(path, target)


async def _on_disk(what: str, path: str, work: Callable[[str], T]) -> T:
    """Run beside the loop: a disk may be slow. What the system refuses is said in a sentence."""
    path = _absolute(path)
    try:
        return await asyncio.to_thread(work, path)
    except shutil.Error as error:  # of a whole folder: everything that could not be copied
        (first, *_), *others = error.args[0]
        count = "1 entry" if not others else f"{len(others) + 1} entries"
        raise RpcError(f"cannot {what} {path}: {count} could not be copied, {first} first") from error
    except OSError as error:
        reason = error.strerror if error.filename == path and error.strerror else reason_of(error)
        raise RpcError(f"cannot {what} {path}: {reason}") from error


def _absolute(path: str) -> str:
    if not os.path.isabs(path):
        raise RpcError(f"Invalid request: {path!r} is not an absolute path")
    return path


METHODS = (
    Method(name="fs/readFile", params=PathParams, result=ReadFileResult, run=read_file),
    Method(name="fs/writeFile", params=WriteFileParams, result=Nothing, run=write_file),
    Method(name="fs/createDirectory", params=CreateDirectoryParams, result=Nothing, run=create_directory),
    Method(name="fs/getMetadata", params=PathParams, result=MetadataResult, run=get_metadata),
    Method(name="fs/readDirectory", params=PathParams, result=ReadDirectoryResult, run=read_directory),
    Method(name="fs/remove", params=RemoveParams, result=Nothing, run=remove),
    Method(name="fs/copy", params=CopyParams, result=Nothing, run=copy),
)
