"""A file that a person named for something of ours: the last message, a page, an exported thread.

Between the naming and the writing the agent may be at work, and it may have been at work before. So the folder is
opened when the file is named and kept open; what is written goes into that folder, under that name, whatever was put in
its way since. Links that the agent could have made are not followed: one in the place of the file is replaced, one on
the way to it is an error. A file is replaced as a whole, so that it never holds a half.
"""

from __future__ import annotations

import errno
import os
import stat

from spindle.policy.links import links_towards
from spindle.policy.reach import Reach
from spindle.policy.sandbox import is_below
from spindle.thread.private_files import write_all

_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_MOST_LINKS = 40
_NOT_BESIDE = frozenset((errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.ENAMETOOLONG))
"""No file can be put beside the old one, or in its place; it can perhaps be written all the same."""


def check_way(path: str, reach: Reach) -> None:
    """Raises OSError where a link that the agent could have made leads to `path`, or stands in its place.

    For folders that a person names: what is written into them is many files, or is opened by its name again.
    """
    for link in links_towards(path if path.startswith("/") else f"{os.getcwd()}/{path}"):
        if reach.holds_name(link):
            raise OSError(errno.ELOOP, f"{link} is a link, which the agent could have made", path)


class OutputFile:
    """Opened when it is named; `write` may come much later."""

    def __init__(self, path: str, *, reach: Reach | None = None, mode: int = 0o666) -> None:
        """Raises OSError when nothing can be written there, as far as that can be told without writing.

        `reach` tells what the agent could have made; `mode` is for a file that is new.
        """
        self.path = path
        self._reach = reach
        self._mode = mode
        self._special: str | None = None
        """A device, or a descriptor of this process: opened by its name, which nobody can change."""
        self._folder, self._place, self._name = -1, "", ""
        if path.endswith("/"):
            raise IsADirectoryError(errno.EISDIR, "it names a folder; name a file in it", path)
        self._open(path if path.startswith("/") else f"{os.getcwd()}/{path}")
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def write(self, content: bytes) -> None:
        """Put `content` there. Raises OSError."""
        if self._special is not None:
            self._fill(os.open(self._special, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY), content)
            return
        old = self._status()
        if old is None or stat.S_ISLNK(old.st_mode) or (stat.S_ISREG(old.st_mode) and self._may_replace(old)):
            try:
                if self._put_in_place(content, old):
                    return
            except OSError as error:
                if error.errno not in _NOT_BESIDE:
                    raise
        self._fill(self._open_old(), content)

    # ---- the way to it ---------------------------------------------------------------------------

    def _open(self, whole: str) -> None:
        """Walk to the folder; every step is one name in a folder that is open, so nobody can exchange it."""
        waiting = [part for part in whole.split("/") if part not in ("", ".")][::-1]
        self._folder, links = os.open("/", _FOLDER), 0
        try:
            while len(waiting) > 1 or self._leads_on(waiting[-1] if waiting else ""):
                if _is_of_kernel(self._place):
                    self._special = f"{self._place}/{'/'.join(reversed(waiting))}"
                    self.close()
                    return
                name = waiting.pop()
                status = _lstat(name, self._folder)
                if status is not None and stat.S_ISLNK(status.st_mode):
                    links += 1
                    if links > _MOST_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), whole)
                    waiting += self._target(name)
                else:
                    self._enter(name)
        except BaseException:
            self.close()
            raise
        if not waiting:
            raise IsADirectoryError(errno.EISDIR, "it is a folder; name a file in it", self.path)
        self._name = waiting[0]

    def _leads_on(self, name: str) -> bool:
        """Is the last name a link that may be followed?"""
        if name == ".." or _is_of_kernel(self._place):
            return True
        status = _lstat(name, self._folder) if name else None
        return status is not None and stat.S_ISLNK(status.st_mode) and not self._is_in_reach(name)

    def _target(self, name: str) -> list[str]:
        if self._is_in_reach(name):
            where = f"{self._place}/{name}"
            raise OSError(errno.ELOOP, f"{where} is a link, which the agent could have made", self.path)
        target = os.readlink(name, dir_fd=self._folder)
        if target.startswith("/"):
            os.close(self._folder)
            self._folder, self._place = os.open("/", _FOLDER), ""
        return [part for part in target.split("/") if part not in ("", ".")][::-1]

    def _enter(self, name: str) -> None:
        try:
            inner = os.open(name, _FOLDER, dir_fd=self._folder)
        except FileNotFoundError as error:
            where = f"{self._place}/{name}"
            raise FileNotFoundError(errno.ENOENT, f"the folder {where} does not exist", self.path) from error
        os.close(self._folder)
        self._folder = inner
        self._place = os.path.dirname(self._place) if name == ".." else f"{self._place}/{name}"

    def _is_in_reach(self, name: str) -> bool:
        return self._reach is not None and self._reach.holds_name(f"{self._place}/{name}")

    # ---- what is there now -----------------------------------------------------------------------

    def _status(self) -> os.stat_result | None:
        return _lstat(self._name, self._folder)

    def _may_replace(self, old: os.stat_result) -> bool:
        """A file with several names is written in place, so that they stay one; unless the agent gave it one."""
        return old.st_nlink == 1 or self._is_in_reach(self._name)

    def _check(self) -> None:
        if self._special is not None:
            if not os.access(self._special, os.W_OK):
                raise PermissionError(errno.EACCES, "no permission", self.path)
            return
        old = self._status()
        if old is None or stat.S_ISLNK(old.st_mode):
            self._check_folder()
        elif stat.S_ISDIR(old.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder; name a file in it", self.path)
        elif stat.S_ISREG(old.st_mode):
            # Opened as it will be, but not emptied: what it holds is good until there is something better.
            os.close(os.open(self._name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder))
        elif self._is_in_reach(self._name):
            raise OSError(errno.EINVAL, "it is not an ordinary file, and the agent could have made it", self.path)
        elif not os.access(self._name, os.W_OK, dir_fd=self._folder):
            raise PermissionError(errno.EACCES, "no permission", self.path)

    def _check_folder(self) -> None:
        if os.access(".", os.W_OK | os.X_OK, dir_fd=self._folder):
            return
        where = self._place or "/"
        is_read_only = os.statvfs(where).f_flag & os.ST_RDONLY
        reason = f"{where} is on a read-only file system" if is_read_only else f"no permission to write in {where}"
        raise PermissionError(errno.EACCES, reason, self.path)

    # ---- writing ---------------------------------------------------------------------------------

    def _put_in_place(self, content: bytes, old: os.stat_result | None) -> bool:
        """Write beside the file and rename. False when the new file would belong to somebody else than the old one."""
        beside = f".spindle-{os.getpid()}-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(beside, flags, self._mode, dir_fd=self._folder)
        try:
            if old is not None and stat.S_ISREG(old.st_mode):
                new = os.fstat(fd)
                if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
                    os.close(fd)
                    os.unlink(beside, dir_fd=self._folder)
                    return False
                os.fchmod(fd, stat.S_IMODE(old.st_mode) & 0o777)
            self._fill(fd, content)
            os.rename(beside, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            try:
                os.unlink(beside, dir_fd=self._folder)
            except OSError:
                pass
            raise
        return True

    def _open_old(self) -> int:
        """What is there, for its content to be exchanged; judged by what was opened."""
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
        fd = os.open(self._name, flags | os.O_NONBLOCK, dir_fd=self._folder)
        status = os.fstat(fd)
        is_file = stat.S_ISREG(status.st_mode)
        if self._is_in_reach(self._name) and not (is_file and status.st_nlink == 1):
            os.close(fd)
            raise OSError(errno.EINVAL, "the agent could have made it, and it is not a file with only this name")
        os.set_blocking(fd, True)
        if is_file:
            os.truncate(fd, 0)
        return fd

    def _fill(self, fd: int, content: bytes) -> None:
        try:
            write_all(fd, content)
        finally:
            os.close(fd)


def _is_of_kernel(path: str) -> bool:
    return any(is_below(path, folder) for folder in ("/dev", "/proc")) and not is_below(path, "/dev/shm")


def _lstat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
