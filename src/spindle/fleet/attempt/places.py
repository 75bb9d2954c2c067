"""The folders of attempts on a node: always new, closed to others, and gone with whoever made them.

CACHE/mirrors/HASH.git         see `mirror.py`
CACHE/attempts/NAME            locked by the worker as long as anything of the attempt is wanted
                   /work       the workspace         /check    the fresh checkout of `verify`
                   /home       CODEX_HOME            /tmp      $TMPDIR of commands
                   /index      and what else we look at the workspace with (`checkout.py`)
                   /files      what the driver takes
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat

import msgspec

_KEPT = "kept"
_GONE = ".gone"


class Place(msgspec.Struct, frozen=True):
    """The folder of one attempt."""

    root: str
    lock: int

    @property
    def work(self) -> str:
        return f"{self.root}/work"

    @property
    def check(self) -> str:
        return f"{self.root}/check"

    @property
    def home(self) -> str:
        return f"{self.root}/home"

    @property
    def tmp(self) -> str:
        return f"{self.root}/tmp"

    @property
    def files(self) -> str:
        return f"{self.root}/files"

    def keep(self) -> None:
        """What is in here was asked for: nobody sweeps it away."""
        os.close(os.open(f"{self.root}/{_KEPT}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def attempts_folder(cache: str) -> str:
    return f"{cache}/attempts"


def make_place(cache: str, name: str) -> Place:
    """A new folder. `name` must be new."""
    root = f"{attempts_folder(cache)}/{name}"
    while True:
        os.mkdir(root, 0o700)
        lock = _lock(root, wait=True)
        if lock is not None:
            break  # else somebody who sweeps was here between the two
    place = Place(root, lock)
    for folder in (place.work, place.home, place.tmp):
        os.mkdir(folder, 0o700)
    os.mkdir(place.files)  # the folder of the task later on, whose mode is the user's choice
    return place


def empty(place: Place) -> None:
    """Remove all but what the driver takes."""
    for entry in os.scandir(place.root):
        if entry.path != place.files:
            remove(entry.path)


def discard(place: Place) -> None:
    """Nothing more of the attempt is wanted."""
    if os.path.exists(f"{place.root}/{_KEPT}"):
        remove(place.files)
    else:
        _retire(place.root)
    os.close(place.lock)


def sweep(cache: str) -> None:
    """Remove the folders whose workers are dead."""
    folder = attempts_folder(cache)
    try:
        found = os.listdir(folder)
    except OSError:
        return  # there is none, or none that can be used
    for root in (f"{folder}/{name}" for name in found):
        if root.endswith(_GONE):
            remove(root)
        elif not os.path.exists(f"{root}/{_KEPT}") and (lock := _lock(root)) is not None:
            _retire(root)
            os.close(lock)


def _lock(root: str, *, wait: bool = False) -> int | None:
    """Hold a folder; None where somebody else does, or where it is none any more."""
    try:
        lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.lstat(root)):
            return lock
    except OSError:
        pass
    os.close(lock)
    return None


def _retire(root: str) -> None:
    """Remove the folder of an attempt. Renamed first: whoever is killed meanwhile leaves what anybody may remove."""
    try:
        os.rmdir(root)  # most often nothing is left in it
        return
    except OSError:
        pass
    gone = root + _GONE
    try:
        os.rename(root, gone)
    except OSError:
        return  # somebody else was faster
    remove(gone)


def remove(path: str) -> None:
    """Remove whatever is there, with whatever modes an agent gave to what is in it. No link is followed."""
    try:
        os.unlink(path)
        return
    except IsADirectoryError:
        pass
    except OSError:
        if not os.path.isdir(path) or os.path.islink(path):
            return
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        open_up(path)
        shutil.rmtree(path, ignore_errors=True)


def open_up(path: str) -> None:
    """Make everything below readable and every folder writable for us again."""
    _add_mode(path, stat.S_IRWXU)
    for folder, folders, files in os.walk(path):
        for name in folders:
            _add_mode(f"{folder}/{name}", stat.S_IRWXU)
        for name in files:
            _add_mode(f"{folder}/{name}", stat.S_IRUSR)


def _add_mode(path: str, bits: int) -> None:
    try:
        status = os.lstat(path)
        if not stat.S_ISLNK(status.st_mode) and status.st_mode & bits != bits:
            os.chmod(path, stat.S_IMODE(status.st_mode) | bits)
    except OSError:
        pass  # it went away
