"""Whose Unix socket is it: one of a confined program, or one of a program outside?

The kernel lists the sockets of a network namespace. Programs outside have ours; confined ones have one of their own,
or are known by the descriptors they hold.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from functools import cache

from spindle.process import kill, proc_files

_AF_UNIX = 1
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_DONE, _FAILED = 3, 2
_SHOW_NAME, _SHOW_FILE = 1, 2
_NAME_ATTRIBUTE, _FILE_ATTRIBUTE = 0, 1
_HEADER = struct.Struct("=IHHII")


def belongs_outside(status: os.stat_result, place: str, *, own_network: bool) -> bool:
    """Was the socket made by a program that is not confined? Those have our network namespace."""
    sockets = _bound_sockets()
    if sockets is None:
        # The kernel does not tell files: then anything of the same name will do.
        name = os.path.basename(place).encode()
        with open("/proc/net/unix", "rb") as file:
            return any(line.rstrip(b"\n").endswith((b"/" + name, b" " + name)) for line in file)
    bound = sockets.get(status.st_ino & 0xFFFFFFFF)  # the kernel lists the low half; a collision refuses too much
    if bound is None:
        return False  # nobody in our network namespace has it: it is a confined program's, or dead
    return own_network or bound.isdisjoint(_confined_sockets())


def is_confined_name(name: bytes) -> bool:
    """Does a confined program have this abstract name, in a network namespace it shares with us?"""
    bound = (_bound_sockets() or {}).get(name)
    return bound is not None and not bound.isdisjoint(_confined_sockets())


def _confined_sockets() -> set[int]:
    """The sockets that confined programs of this process have open, when they share its network namespace."""
    found: set[int] = set()
    own = os.readlink("/proc/self/ns/pid")
    for pid in kill.descendants():
        with contextlib.suppress(OSError):
            # What we started without a sandbox counts as outside: it has our process namespace, and no filter.
            if os.readlink(f"/proc/{pid}/ns/pid") == own and not _has_filters(pid):
                continue
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{fd}")
                    if target.startswith("socket:["):
                        found.add(int(target[8:-1]))
    return found


def _has_filters(pid: int) -> bool:
    """Is it confined without a namespace of its own? A launcher has one filter more than we, confined programs two."""
    return (_filters_of(pid) or 0) > (_own_filters() or 0) + 1


def is_launcher(pid: int) -> bool:
    """Is this one of our launchers, which has not yet become the command? Never true of a confined program."""
    # Filters can be added, never taken off. Launchers have the watching one, commands that and their confinement.
    ours = _own_filters()
    return ours is not None and _filters_of(pid) == ours + 1


@cache
def _own_filters() -> int | None:
    return _filters_of(os.getpid())


def _filters_of(pid: int) -> int | None:
    """How many filters of system calls a process has; None when the kernel does not tell (before Linux 5.9)."""
    _, _, rest = proc_files.read_record(f"/proc/{pid}/status").partition(b"\nSeccomp_filters:")
    return int(rest.split(None, 1)[0]) if rest else None


def _bound_sockets() -> dict[int | bytes, set[int]] | None:
    """The Unix sockets of our network namespace, by the inode of their file and by their abstract name.

    None when the kernel does not tell.
    """
    import socket  # only once a confined program connects to a Unix socket

    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as link:
            show = _SHOW_NAME | _SHOW_FILE
            body = struct.pack("=BBHIIIII", _AF_UNIX, 0, 0, 0xFFFFFFFF, 0, show, 0xFFFFFFFF, 0xFFFFFFFF)
            link.send(_HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + body)
            found: dict[int | bytes, set[int]] = {}
            while not _read_dump(link.recv(1 << 16), found):
                pass
            return found
    except OSError:
        return None


def _read_dump(data: bytes, found: dict[int | bytes, set[int]]) -> bool:
    """Collect the sockets of one part of the answer; True when it was the last."""
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if kind == _FAILED:
            raise OSError(errno.EOPNOTSUPP, "no list of sockets")
        if kind == _DONE:
            return True
        (number,) = struct.unpack_from("=I", data, at + _HEADER.size + 4)
        inner = at + _HEADER.size + 16
        while inner + 4 <= at + length:
            size, attribute = struct.unpack_from("=HH", data, inner)
            if attribute == _FILE_ATTRIBUTE:
                found.setdefault(struct.unpack_from("=I", data, inner + 4)[0], set()).add(number)
            elif attribute == _NAME_ATTRIBUTE and data[inner + 4 : inner + 5] == b"\0":
                found.setdefault(data[inner + 4 : inner + size], set()).add(number)
            inner += max(4, size + 3 & ~3)
        at += max(_HEADER.size, length + 3 & ~3)
    return False
