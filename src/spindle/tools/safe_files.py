"""Reading and writing single files where the folder tree may be hostile.

`true_path` follows every link once; that path is what policy judges and people see. From then on no link is followed:
each open walks from the root folder component by component, so a link put in place after the check makes the call
fail and cannot redirect it. Only regular files are touched, and a file is replaced by rename, so the other names of a
hard-linked file keep their old content. May this path be written at all? That is asked in `policy`, not here.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from spindle.thread.private_files import write_all

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_LISTED_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DESCRIPTORS = "/proc/self/fd"
_NO_SUCH_PLACE_FOR_A_TEMPORARY = (errno.EACCES, errno.EPERM)
_NOT_REPLACEABLE = (errno.EBUSY, errno.EPERM, errno.EACCES)


def true_path(path: str, cwd: str, *, keep_last_link: bool = False) -> str:
    """The absolute path without links or dots that `path`, read from `cwd`, leads to now. It need not exist.

    With `keep_last_link` a link is not followed when it is the last component: the way to name the link itself.
    """
    whole = os.path.normpath(path if path.startswith("/") else f"{cwd}/{path}")
    if keep_last_link:
        folder, name = os.path.split(whole)
        return f"{os.path.realpath(folder).rstrip('/')}/{name}"
    return os.path.realpath(whole)


def read_file(path: str, limit: int = -1) -> bytes:
    """The bytes of the regular file at a true path, no more than `limit`."""
    with open_file(path) as fd, open(fd, "rb", closefd=False) as file:
        return file.read(limit)


@contextmanager
def open_file(path: str) -> Iterator[int]:
    """The regular file at a true path, open for reading."""
    with open_parent(path) as (folder, name):
        try:
            # Non-blocking, so that a named pipe is refused and not waited for.
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                _require_regular(stat.S_IFLNK, path)
            raise
    try:
        _require_regular(os.fstat(fd).st_mode, path)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def open_folder(path: str) -> Iterator[int]:
    """The folder at a true path, open for looking into it."""
    if path == "/":
        fd = os.open(path, _LISTED_FOLDER)
    else:
        with open_parent(path) as (folder, name):
            fd = os.open(name, _LISTED_FOLDER, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def write_file(path: str, content: bytes, *, mode: int = 0o666, home: str | None = None) -> int:
    """Put `content` at a true path, making missing folders; the permission bits it has now are returned.

    A new file gets `mode` less the umask. An existing one keeps its permissions and, where we may give it away, its
    owner. `home` is the agent's folder: what a crash at the wrong moment leaves beside the file is known there.
    """
    with open_parent(path, create=True) as (folder, name):
        current = _status(name, folder)
        if current is not None:
            _require_regular(current.st_mode, path)
        try:
            return _put(name, folder, content, current, mode, os.path.dirname(path), home)
        except _CannotReplace as problem:
            # A file in a folder we may not write to, or one mounted on its own: only its content can be exchanged.
            if current is None or current.st_nlink > 1:
                raise problem.error from None
            return _overwrite(name, folder, content, path)


def remove_file(path: str) -> int:
    """Unlink the regular file at a true path; the permission bits it had are returned."""
    with open_parent(path) as (folder, name):
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        _require_regular(mode, path)
        os.unlink(name, dir_fd=folder)
        return mode & 0o777


class _CannotReplace(Exception):
    def __init__(self, error: OSError) -> None:
        self.error = error


@contextmanager
def open_parent(path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """The folder that holds a true path, opened without following a link, and the name in it."""
    parts = [part for part in path.split("/") if part]
    if not path.startswith("/") or not parts or ".." in parts:
        raise OSError(errno.EINVAL, "Not an absolute path of a file", path)
    folder = os.open("/", _FOLDER)
    try:
        for part in parts[:-1]:
            inner = _open_folder(part, folder, create=create)
            os.close(folder)
            folder = inner
        yield folder, parts[-1]
    finally:
        os.close(folder)


def _open_folder(name: str, folder: int, *, create: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        pass
    return os.open(name, _FOLDER, dir_fd=folder)


def _status(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _require_regular(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "It is a symbolic link", path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)


def _put(
    name: str, folder: int, content: bytes, current: os.stat_result | None, mode: int, where: str, home: str | None
) -> int:
    """Write a file that has no name yet, then give it one: at no time is it half written."""
    unnamed = _open_unnamed(folder, mode)
    if unnamed is None:
        return _put_by_name(name, folder, content, current, mode, where, home)
    with open(unnamed, "wb", buffering=0):
        _fill(unnamed, content, current)
        made = os.fstat(unnamed).st_mode & 0o777
        if current is None and _name(unnamed, name, folder):
            return made
        from spindle.process.leftovers import listed, temporary_name  # most that use this module only read

        # Nothing gives a file a name that is taken; for an instant it needs another.
        temporary = temporary_name()
        with listed(f"{where}/{temporary}", home):
            if _name(unnamed, temporary, folder):
                _rename(temporary, name, folder)
                return made
    return _put_by_name(name, folder, content, current, mode, where, home)


def _put_by_name(
    name: str, folder: int, content: bytes, current: os.stat_result | None, mode: int, where: str, home: str | None
) -> int:
    """The same where files need a name from the start: write beside the file and rename over it."""
    from spindle.process.leftovers import listed, temporary_name  # most that use this module only read

    temporary = temporary_name()
    with listed(f"{where}/{temporary}", home):
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=folder)
        except OSError as error:
            if error.errno in _NO_SUCH_PLACE_FOR_A_TEMPORARY:
                raise _CannotReplace(error) from error
            raise
        try:
            with open(fd, "wb", buffering=0):
                _fill(fd, content, current)
                mode = os.fstat(fd).st_mode & 0o777
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise
        _rename(temporary, name, folder)
        return mode


def _open_unnamed(folder: int, mode: int) -> int | None:
    """A file without a name in `folder`, which vanishes unless it gets one; None where that cannot be had."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not os.path.isdir(_DESCRIPTORS):
        return None
    try:
        return os.open(".", os.O_WRONLY | flag | os.O_CLOEXEC, mode, dir_fd=folder)
    except OSError as error:
        if error.errno in _NO_SUCH_PLACE_FOR_A_TEMPORARY:
            raise _CannotReplace(error) from error
        return None  # not every file system has them; what else is wrong shows when a name is used


def _fill(fd: int, content: bytes, current: os.stat_result | None) -> None:
    if current is not None:
        _copy_owner_and_mode(fd, current)
    write_all(fd, content)


def _name(fd: int, name: str, folder: int) -> bool:
    """Give an unnamed file its name; false when that is taken, or names cannot be given in this way here."""
    try:
        os.link(f"{_DESCRIPTORS}/{fd}", name, dst_dir_fd=folder, follow_symlinks=True)
    except OSError:
        return False
    return True


def _rename(temporary: str, name: str, folder: int) -> None:
    try:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException as error:
        os.unlink(temporary, dir_fd=folder)
        if isinstance(error, OSError) and error.errno in _NOT_REPLACEABLE:
            raise _CannotReplace(error) from error
        raise


def _copy_owner_and_mode(fd: int, current: os.stat_result) -> None:
    made = os.fstat(fd)
    if (made.st_uid, made.st_gid) != (current.st_uid, current.st_gid):
        try:
            os.fchown(fd, current.st_uid, current.st_gid)
        except PermissionError:
            pass
    # Without the set-user-id bits: as the kernel does for a file that is written to.
    os.fchmod(fd, current.st_mode & 0o777)


def _overwrite(name: str, folder: int, content: bytes, path: str) -> int:
    fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    with open(fd, "wb") as file:
        now = os.fstat(fd)
        _require_regular(now.st_mode, path)
        if now.st_nlink > 1:
            raise OSError(errno.EMLINK, "The file has other names", path)
        file.write(content)
        file.truncate()
        return now.st_mode & 0o777
