"""What stands at a path right now. No link is followed, neither at the end of the path nor on the way to it."""

from __future__ import annotations

import os

from spindle.features.checkpoints.images import ABSENT, Image
from spindle.features.checkpoints.listing import LARGE, UNREADABLE, WHY, entry_kind
from spindle.features.checkpoints.reading import GONE
from spindle.features.checkpoints.store import Store, digest_of
from spindle.tools.safe_files import open_parent

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def image_at(path: str, max_file_bytes: int, keep_in: Store | None = None) -> Image:
    """The image of a path; with `keep_in` the content of a file is put there."""
    try:
        with open_parent(path) as (folder, name):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            match entry_kind(status.st_mode):
                case "d":
                    return Image("folder", mode=status.st_mode & 0o777)
                case "l":
                    return Image("link", target=os.readlink(name, dir_fd=folder))
                case "f":
                    return _file(name, folder, status, max_file_bytes, keep_in)
                case _:
                    return Image("other", why="it is neither a file nor a link")
    except OSError as error:
        if error.errno in GONE:
            return ABSENT
        return Image("other", why=f"it cannot be looked at: {error.strerror}")


def image_like(path: str, *others: Image, keep_in: Store | None = None) -> Image:
    """The same as far as it takes to tell whether it is one of these: a larger file is none of them, and is not read.

    A command can make a file of any size in no time.
    """
    return image_at(
        path, max((other.size for other in others if other.kind == "file" and other.digest), default=0), keep_in
    )


def _file(name: str, folder: int, status: os.stat_result, max_file_bytes: int, keep_in: Store | None) -> Image:
    mode = status.st_mode & 0o777
    if status.st_size > max_file_bytes:
        return Image("file", mode=mode, size=status.st_size, why=WHY[LARGE])
    try:
        with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
            data = file.read(min(max_file_bytes, status.st_size) + 1)
    except OSError as error:
        if error.errno in GONE:
            raise
        return Image("file", mode=mode, size=status.st_size, why=WHY[UNREADABLE])
    if len(data) > max_file_bytes:
        return Image("file", mode=mode, size=len(data), why=WHY[LARGE])
    digest = digest_of(data) if keep_in is None else keep_in.put(data)
    return Image("file", digest, mode, size=len(data))


def missing_folders(path: str) -> list[str]:
    """The folders on the way to a path that are not there, the outermost first."""
    missing: list[str] = []
    folder = os.path.dirname(path)
    while folder not in ("", "/") and not os.path.lexists(folder):
        missing.insert(0, folder)
        folder = os.path.dirname(folder)
    return missing
