"""The folders of attempts on a node: always new, closed to others, and gone with whoever made them.

CACHE/mirrors/HASH.git         see `mirror.py`
CACHE/attempts/NAME/lock       held by the worker as long as anything of the attempt is wanted
                   /work       the workspace         /check  the fresh checkout of `verify`
                   /home       CODEX_HOME            /tmp    $TMPDIR of commands
                   /ours.git   the git folder that we look at the workspace with
                   /files      what the driver takes
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat

import msgspec

_KEPT = "kept"


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
    def ours(self) -> str:
        return f"{self.root}/ours.git"

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
    os.mkdir(root, 0o700)
    lock = os.open(f"{root}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    place = Place(root, lock)
    for folder in (place.work, place.home, place.tmp, place.files):
        os.mkdir(folder, 0o700)
    return place


def empty(place: Place) -> None:
    """Remove all but what the driver takes."""
    for folder in (place.work, place.check, place.home, place.tmp, place.ours):
        remove(folder)


def discard(place: Place) -> None:
    """Nothing more of the attempt is wanted."""
    if os.path.exists(f"{place.root}/{_KEPT}"):
        remove(place.files)
    else:
        remove(place.root)
    os.close(place.lock)


def sweep(cache: str) -> None:
    """Remove the folders whose workers are dead."""
    folder = attempts_folder(cache)
    try:
        found = os.listdir(folder)
    except OSError:
        return  # there is none, or none that can be used
    for root in (f"{folder}/{name}" for name in found):
        if os.path.exists(f"{root}/{_KEPT}"):
            continue
        try:
            lock = os.open(f"{root}/lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # it is being made, or removed
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(root)
        except BlockingIOError:
            pass  # somebody works there
        finally:
            os.close(lock)


def remove(path: str) -> None:
    """Remove a folder, whatever modes an agent gave to what is in it. No link is followed."""
    if not os.path.lexists(path):
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
