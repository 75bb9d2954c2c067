"""Which other repositories the index of a repository names: git looks into those when it looks at the tree.

An archive may bring an index that git itself never wrote, so it is read entry by entry, as git reads it, and by the
bits that git looks at. Whatever it stands for without saying so counts as unclear.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator

from spindle.policy.git_find import OddRepository, same_for_all
from spindle.policy.sandbox import absolute

_HEAD = struct.Struct(">4sII")
_MODE_AT = 24
_ID_BYTES, _LONG_ID_BYTES = 20, 32
_KIND, _SUBMODULE, _FOLDER = 0o170000, 0o160000, 0o040000
_IS_EXTENDED, _LENGTH = 0x4000, 0x0FFF
_PLAIN_VERSIONS = (2, 3)
_SHORTENED_VERSION = 4
"""In this one a name says only what differs from the name before."""
_MOST_BYTES = 256 << 20


def submodules_in(file: str, tree: str | None, *, has_long_ids: bool = False) -> list[str]:
    """The paths of other repositories, as seen from `tree`; OddRepository when they cannot be told."""
    if os.path.islink(file):
        same_for_all(file)
    index = _content(file)
    if not index:
        return []
    try:
        signature, version, count = _HEAD.unpack_from(index)
        if signature != b"DIRC" or version not in (*_PLAIN_VERSIONS, _SHORTENED_VERSION):
            raise OddRepository(f"{file} is an index of a kind that is not read here")
        found = list(_special(index, version, count, _LONG_ID_BYTES if has_long_ids else _ID_BYTES))
    except (struct.error, ValueError, IndexError):
        raise OddRepository(f"{file} is an index that cannot be read to its end") from None
    if found and (version == _SHORTENED_VERSION or has_long_ids):
        raise OddRepository(f"{file} is an index of a kind that is not read here")
    names: list[str] = []
    for kind, name in found:
        if not name:
            raise OddRepository(f"{file} leaves it to another file what a repository in it is called")
        if kind == _SUBMODULE:
            names.append(name)
        elif os.path.lexists(absolute(name, tree or "/")):
            # It stands for a folder that is not checked out. Git takes it apart where it is there all the same.
            raise OddRepository(f"{file} does not say what {name} holds, which is there")
    return names


def _special(index: bytes, version: int, count: int, id_bytes: int) -> Iterator[tuple[int, str]]:
    """Kind and name of each entry that is no file. Only where the version is plain the names are true."""
    fields = struct.Struct(f">I{12 + id_bytes}xH")
    fixed = _MODE_AT + fields.size
    at = _HEAD.size
    for _ in range(count):
        mode, flags = fields.unpack_from(index, at + _MODE_AT)
        start = at + fixed + (2 if flags & _IS_EXTENDED else 0)
        kind, length = mode & _KIND, flags & _LENGTH
        if version == _SHORTENED_VERSION:
            while index[start] & 0x80:
                start += 1
            end = index.index(b"\0", start + 1)
            following = end + 1
        else:
            end = index.index(b"\0", start) if length == _LENGTH else start + length
            following = at + ((end - at + 8) & ~7)
        if kind in (_SUBMODULE, _FOLDER):
            # Git takes as many letters as are noted, and one more, which ought to be the end.
            name = index[start : end + 1].partition(b"\0")[0]
            yield kind, os.fsdecode(name)
        at = following


def _content(path: str) -> bytes:
    """The bytes of a regular file; none if there is no file. Raises OSError or ValueError when it cannot be read to its
    end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            raise OddRepository(f"{path} is not an ordinary file, or it is too large")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(_MOST_BYTES)
    finally:
        os.close(descriptor)
