"""Files and folders that nobody but their owner may read, whatever the umask; advisory locks on them.

Everything the agent records goes through here, because a transcript holds whatever the user and their programs said.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable
from typing import BinaryIO

FOLDER_MODE = 0o700
FILE_MODE = 0o600
_LOCK_PATIENCE_S, _LOCK_PAUSE_S = 1.0, 0.005


def make_private_folders(folder: str, top: str) -> None:
    """Make `folder` and its parents up to and including `top`; a mode that is too open is repaired."""
    missing = []
    current = folder
    while True:
        missing.append(current)
        if current == top or not current.startswith(top):
            break
        current = os.path.dirname(current)
    os.makedirs(os.path.dirname(missing[-1]) or ".", FOLDER_MODE, exist_ok=True)
    for path in reversed(missing):
        try:
            os.mkdir(path, FOLDER_MODE)
        except FileExistsError:
            pass
        _close_folder(path, FOLDER_MODE)


def close_home(home: str, *, not_these: Iterable[str] = ()) -> None:
    """Close the agent's own folder to others. A folder that serves other purposes too (`not_these`) is left alone."""
    try:
        status = os.stat(home)
        is_shared = status.st_mode & (stat.S_ISVTX | stat.S_ISGID) or status.st_uid != os.geteuid()
        if status.st_mode & 0o077 and not is_shared and not any(_is_same(status, other) for other in not_these):
            os.chmod(home, FOLDER_MODE)
    except OSError:
        pass  # there is none yet, or it is on a disk without modes


def open_private(path: str, flags: int) -> int:
    """Open or create a file of mode 0600."""
    fd = os.open(path, flags | os.O_CLOEXEC, FILE_MODE)
    try:
        close_to_others(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_regular(path: str) -> BinaryIO:
    """An ordinary file, for reading. Pipes and devices are refused at once: nobody waits for them. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not an ordinary file", path)
    return open(fd, "rb")


def close_to_others(fd: int) -> None:
    """Repair the mode of an open file that is too open."""
    try:
        if os.fstat(fd).st_mode & 0o777 != FILE_MODE:
            os.fchmod(fd, FILE_MODE)
    except PermissionError:
        # Somebody else's file that we may still write: nothing to repair with our rights.
        pass


def write_all(fd: int, data: bytes) -> None:
    """Write every byte. One `os.write` unless the kernel takes less."""
    while data:
        written = os.write(fd, data)
        data = data[written:]


def ends_inside_a_line(fd: int, size: int) -> bool:
    """True when the last line of a file was cut off before its newline."""
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"


def append_line(fd: int, line: bytes) -> None:
    """Append one line to a locked file; a torn last line is closed first, so that it swallows nothing."""
    torn = ends_inside_a_line(fd, os.fstat(fd).st_size)
    write_all(fd, b"\n" + line if torn else line)


def try_lock(fd: int) -> bool:
    """Take the exclusive lock if it is free. It goes with the descriptor, so a crash releases it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # A file system without locks (some network mounts) must not keep anybody from working.
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def wait_for_lock(fd: int, patience_s: float = _LOCK_PATIENCE_S) -> bool:
    """Take the exclusive lock, waiting for holders that keep it only for one write; False when it was not to be had.

    Whoever may read a file can lock it, a command of the model too; so a holder that keeps it for long is not waited
    for.
    """
    give_up = time.monotonic() + patience_s
    while not (is_taken := try_lock(fd)) and time.monotonic() < give_up:
        time.sleep(_LOCK_PAUSE_S)
    return is_taken


def lock_holder(path: str) -> int | None:
    """The process that holds the lock on `path`, where the system tells (Linux)."""
    try:
        status = os.stat(path)
        wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        with open("/proc/locks") as lines:
            for line in lines:
                fields = line.split()
                if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5] == wanted and int(fields[4]) > 0:
                    return int(fields[4])
    except (OSError, ValueError):
        pass
    return None


def replace_private(path: str, data: bytes) -> None:
    """Put `data` at `path` in one step: a reader sees the old text or the new one."""
    path = os.path.realpath(path)
    scratch = f"{path}.{os.getpid()}.new"
    fd = open_private(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW)
    try:
        write_all(fd, data)
    except BaseException:
        os.unlink(scratch)
        raise
    finally:
        os.close(fd)
    os.replace(scratch, path)


def unlink_if_possible(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _is_same(status: os.stat_result, path: str) -> bool:
    try:
        return os.path.samestat(status, os.stat(path))
    except OSError:
        return False


def _close_folder(path: str, mode: int) -> None:
    """Repair the mode of a folder of ours. One that all users share, such as /tmp, is not ours, even as a home."""
    try:
        present = os.stat(path).st_mode
        if present & 0o777 != mode and not present & stat.S_ISVTX:
            os.chmod(path, mode)
    except OSError:
        pass
