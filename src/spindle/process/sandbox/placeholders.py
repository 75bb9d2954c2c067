"""Keep protected names from being created below a writable root, without leaving litter there.

A mount needs something to be mounted on. So for a protected name that does not exist an empty folder is made, bound
read-only inside the sandbox, and removed when its last user is gone. Users in other processes are known by a shared
lock on the folder itself, which a crash releases; a list in the agent's home lets the next run tidy up after a crash.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterable

from spindle.errors import SandboxUnavailable
from spindle.process.survivor import WAIT, Survivor

REGISTER_PREFIX = "guards-"
"""A list's file name is this and the process's id. The word is older than this module's name: lists that an earlier
version left behind must still be found."""
_MODE = 0o555
_TRIES, _PAUSE_S, _LONGEST_PAUSE_S = 60, 0.002, 0.1
"""Some three seconds in all."""

_TIDY_UP = (
    WAIT
    + """
for pass in 1 2 3 4 5 6 7 8; do
  sleep 0.1
  left=
  while IFS= read -r name; do
    [ ! -d "$name" ] || ( exec 9< "$name" && flock -n -x 9 && rmdir "$name" ) || left=yes
  done < "$0" 2>/dev/null
  [ "$left" ] || break
  sleep 0.2
done
rm -f "$0"
"""
)
"""Removes what $0 lists. What another sandbox still holds is locked: it is tried again for a moment, and then left to
that one. `flock` gets a descriptor: where a name is gone, it would make a file."""


class _Held:
    __slots__ = ("fd", "users")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.users = 1


class Placeholders:
    """The placeholders this process holds. `register` is a file below the agent's home."""

    def __init__(self, register: str) -> None:
        self._register = register
        self._held: dict[str, _Held] = {}
        self._listed: set[str] = set()
        self._recovered = False
        self._keeper: Survivor | None = None
        """Outlives us to remove what is listed; None while nothing is."""

    def hold(self, paths: Iterable[str]) -> list[str]:
        """Make a placeholder of each path that does not exist; returns those now held, to be released once."""
        self.recover()
        held: list[str] = []
        try:
            for path in paths:
                if self._hold_one(path):
                    held.append(path)
        except BaseException:
            self.release(held)
            raise
        # After they were made, so once for all of them. A crash before this line leaves empty folders that no list
        # names; the next command here takes them for placeholders, and removes them with its own.
        self._list(held)
        return held

    def release(self, paths: Iterable[str]) -> None:
        for path in paths:
            held = self._held[path]
            held.users -= 1
            if held.users == 0:
                del self._held[path]
                _remove_if_unused(path, held.fd)

    def close(self) -> None:
        """Nothing is held any more: the list is not needed."""
        if not self._held and self._listed:
            self._listed.clear()
            if self._keeper is not None:
                self._keeper.close()
                self._keeper = None
            _unlink(self._register)

    def _hold_one(self, path: str) -> bool:
        if path in self._held:
            self._held[path].users += 1
            return True
        # Made by us or by another process, it is the same to both: each has a shared lock, the last one removes it.
        for attempt in range(_TRIES):
            if not _make(path) and not is_placeholder(path):
                return False
            fd = _lock(path)
            if fd is not None:
                self._held[path] = _Held(fd)
                return True
            # Another process removed it between our two steps, or is about to: it may be a busy machine.
            time.sleep(min(attempt * _PAUSE_S, _LONGEST_PAUSE_S))
        raise SandboxUnavailable(f"cannot protect {path}: it keeps appearing and disappearing; nothing was run")

    def _list(self, paths: list[str]) -> None:
        """One path per line; never shortened, because an entry that is gone does no harm.

        Best effort: without the list only a crash leaves empty folders behind.
        """
        if self._listed.issuperset(paths):
            return
        self._listed.update(path for path in paths if "\n" not in path)
        folder = os.path.dirname(self._register)
        try:
            if not os.path.isdir(folder):
                os.mkdir(folder, 0o700)
            fd = os.open(self._register, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with open(fd, "wb") as file:
                file.write(b"".join(os.fsencode(path) + b"\n" for path in sorted(self._listed)))
            if self._keeper is None:
                self._keeper = Survivor(_TIDY_UP, (self._register,))
        except OSError:
            pass

    def recover(self) -> None:
        """Remove, once, what a run that crashed has left; a list of a process that still lives is left alone."""
        if self._recovered:
            return
        self._recovered = True
        folder = os.path.dirname(self._register)
        try:
            names = [name for name in os.listdir(folder) if name.startswith(REGISTER_PREFIX)]
        except OSError:
            return
        for name in names:
            pid = name.removeprefix(REGISTER_PREFIX)
            # A number that another process has by now only postpones this to a later start.
            if not pid.isdigit() or os.path.exists(f"/proc/{pid}") or int(pid) == os.getpid():
                continue
            listed = f"{folder}/{name}"
            try:
                with open(listed, "rb") as file:
                    paths = [os.fsdecode(line) for line in file.read().splitlines()]
            except OSError:
                continue
            for path in paths:
                fd = _lock(path) if is_placeholder(path) else None
                if fd is not None:
                    _remove_if_unused(path, fd)
            if not any(map(is_placeholder, paths)):
                _unlink(listed)  # else somebody still holds one: the next start looks again


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _make(path: str) -> bool:
    """False when something is there already, or when it cannot be made now; the caller has to find out which."""
    try:
        os.mkdir(path, _MODE)
        if os.lstat(path).st_mode & 0o777 != _MODE:
            os.chmod(path, _MODE)  # whatever the umask is: the mode is how others know a placeholder
        return True
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):  # a command could make room, and then the path itself
            raise SandboxUnavailable(f"cannot protect {path}: {error.strerror}; nothing was run") from error
        return False


_of_homes: dict[str, Placeholders] = {}


def placeholders_of(home: str) -> Placeholders:
    """The placeholders of this process that are listed in one agent home."""
    if home not in _of_homes:
        _of_homes[home] = Placeholders(f"{home}/spindle/{REGISTER_PREFIX}{os.getpid()}")
    return _of_homes[home]


def is_placeholder(path: str) -> bool:
    """Is this what `_make` makes: an empty folder of our mode? Held by another process, or left by a crash."""
    try:
        status = os.lstat(path)
        return status.st_mode == 0o040000 | _MODE and not os.listdir(path)
    except OSError:
        return False


def _lock(path: str) -> int | None:
    """A shared lock on the folder that is now at `path`; None if it went away meanwhile."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # The last user may have removed the folder between our two calls. A lock on what no longer has the name would
        # protect nothing, and a command could make the real thing.
        if os.path.samestat(os.fstat(fd), os.lstat(path)):
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def _remove_if_unused(path: str, fd: int) -> None:
    """Removing it under another sandbox would lift that one's protection, so only the last user does."""
    try:
        # Fails while anybody else holds theirs. The kernel gives up the shared lock before it tries for this one, so
        # another process may come and go in between: what has the name now must be the folder we hold.
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.lstat(path)):
            os.rmdir(path)
    except OSError:
        pass  # in use elsewhere, or a person put something into it
    finally:
        os.close(fd)
