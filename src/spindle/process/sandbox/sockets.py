"""Which sockets a confined program may connect to: those of its own world, not those of programs outside.

A network namespace keeps a program from the network and from abstract names, but a Unix socket with a path can be
reached from anywhere the file is seen, and behind it may be a container engine, a key agent or the session bus. No
mount helps, since sockets may appear later. So every `connect`, and every `sendto` with an address, is answered here:
the kernel stops the caller, we read the address once, judge it, and make the call ourselves on a copy of its
descriptor. The program never gets to use its own copy of the address, so changing it meanwhile changes nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import struct
import threading
import time
from collections.abc import Iterator

import msgspec

from spindle.policy.sandbox import is_below
from spindle.process import kill
from spindle.process.sandbox import kernel

_RECEIVE, _ANSWER, _IS_ALIVE = 0xC0502100, 0xC0182101, 0x40082102
_QUESTION = struct.Struct("=QIIiIQ6Q")
_REPLY = struct.Struct("=QqiI")

_AF_UNIX = 1
_PATH_AT = 2
_LONGEST_ADDRESS = 128
_LONGEST_DATAGRAM = 1 << 20
_MSG_NOSIGNAL = 0x4000
_MOST_THREADS = 32
_PATIENCE, _PAUSE_S = 100, 0.005

_PRIVATE_FOLDERS = ("/dev",)
"""Made anew for each command, so whatever listens there is its own."""


class SocketRules(msgspec.Struct, frozen=True, kw_only=True):
    """What confined programs may connect to."""

    roots: tuple[str, ...] = ()
    """Sockets below these folders are theirs, unless a program outside made them."""
    allowed: tuple[str, ...] = ()
    """Sockets of programs outside that the user lets them use."""
    own_network: bool = True
    """Their network namespace is their own: names without a file, and sockets unknown outside, are theirs."""


class SocketWatch:
    """Answers for one listener, as long as this process lives."""

    def __init__(self, listener: int, connect_number: int) -> None:
        self._listener = listener
        self._connect_number = connect_number
        self._rules: dict[int, SocketRules] = {}
        self._lock = threading.Lock()
        self._threads = self._idle = 0
        self._add_thread()

    def set_rules(self, leader: int, rules: SocketRules) -> None:
        """What the command may connect to whose first process is `leader`."""
        self._rules[leader] = rules

    def forget(self, leader: int) -> None:
        self._rules.pop(leader, None)

    def _rules_for(self, pid: int) -> SocketRules:
        """Those of the command that a process belongs to. It may be so new that nobody has said yet."""
        for _ in range(_PATIENCE):
            ancestor = pid
            while ancestor > 1:
                if (rules := self._rules.get(ancestor)) is not None:
                    return rules
                ancestor = kill.parent_of(ancestor)
            time.sleep(_PAUSE_S)
        raise PermissionError(errno.EPERM, "nobody knows this process")

    def _add_thread(self) -> None:
        self._threads += 1
        self._idle += 1
        threading.Thread(target=self._answer_all, name=f"sockets-{self._threads}", daemon=True).start()

    def _answer_all(self) -> None:
        while True:
            buffer = bytearray(_QUESTION.size)
            try:
                fcntl.ioctl(self._listener, _RECEIVE, buffer)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):  # a signal, or the caller is gone
                    continue
                return
            with self._lock:  # a connection may take minutes, so somebody must be free for the next caller
                self._idle -= 1
                if not self._idle and self._threads < _MOST_THREADS:
                    self._add_thread()
            self._reply(buffer)
            with self._lock:
                self._idle += 1

    def _reply(self, buffer: bytearray) -> None:
        question = _Question(self._listener, *_QUESTION.unpack(buffer))
        try:
            result = self._result(question)
        except OSError as error:
            result = -(error.errno or errno.EPERM)
        except Exception:
            result = -errno.EPERM
        value, error_number = (result, 0) if result >= 0 else (0, result)
        with contextlib.suppress(OSError):  # the caller may be gone
            fcntl.ioctl(self._listener, _ANSWER, _REPLY.pack(question.id, value, error_number, 0))

    def _result(self, question: _Question) -> int:
        """The result of the call, made in the caller's name; negative = an error."""
        if question.number == self._connect_number:
            fd, pointer, length, *_ = question.arguments
            data, flags = None, 0
        else:
            fd, start, size, flags, pointer, length = question.arguments
            if size > _LONGEST_DATAGRAM:
                return -errno.EMSGSIZE
            data = question.memory(start, size)
        length &= 0xFFFFFFFF
        if length > _LONGEST_ADDRESS:
            return -errno.EINVAL
        address = question.memory(pointer, length)
        with question.descriptor(fd & 0xFFFFFFFF) as socket, self._judged(question, address) as judged:
            if data is None:
                return kernel.connect(socket, judged)
            return kernel.send(socket, data, flags & 0xFFFFFFFF | _MSG_NOSIGNAL, judged)

    @contextlib.contextmanager
    def _judged(self, question: _Question, address: bytes) -> Iterator[bytes]:
        """The address to use; raises OSError when it may not be used."""
        if len(address) <= _PATH_AT or int.from_bytes(address[:2], "little") != _AF_UNIX:
            yield address
            return
        rules = self._rules_for(question.process())
        path = address[_PATH_AT:]
        if path[:1] == b"\0":
            if not rules.own_network and not _is_confined_name(path):
                raise PermissionError(errno.EPERM, "an abstract name of a program outside")
            yield address
            return
        found = question.open(path.split(b"\0", 1)[0])
        try:
            _require_leave(found, rules)
            yield address[:_PATH_AT] + f"/proc/self/fd/{found}".encode() + b"\0"
        finally:
            os.close(found)


class _Question:
    """One call of a confined thread, waiting for its answer."""

    def __init__(self, listener: int, ident: int, tid: int, _flags: int, number: int, *rest: int) -> None:
        self._listener = listener
        self._tid = tid
        self.id = ident
        self.number = number
        self.arguments = rest[2:]

    def memory(self, start: int, size: int) -> bytes:
        """A part of the caller's memory."""
        if not size:
            return b""
        fd = os.open(f"/proc/{self._tid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._require_alive()
            data = os.pread(fd, size, start)
        except (OSError, OverflowError) as error:
            raise OSError(errno.EFAULT, "not the caller's memory") from error
        finally:
            os.close(fd)
        if len(data) != size:
            raise OSError(errno.EFAULT, "not the caller's memory")
        return data

    @contextlib.contextmanager
    def descriptor(self, number: int) -> Iterator[int]:
        """A copy of a descriptor of the caller."""
        try:
            pidfd = os.pidfd_open(self._tid)
        except OSError:  # not the first thread of its process
            pidfd = os.pidfd_open(self.process())
        try:
            self._require_alive()
            copy = kernel.descriptor_of(pidfd, number)
        finally:
            os.close(pidfd)
        try:
            yield copy
        finally:
            os.close(copy)

    def open(self, path: bytes) -> int:
        """A handle of what a path leads to in the caller's world."""
        folder = f"/proc/{self._tid}"
        own = re.fullmatch(rb"/proc/(?:thread-)?self/(cwd|fd/\d+)/(.+)", path, re.DOTALL)
        if own is not None:  # a way around the length of addresses; "self" is the caller, not us
            start = os.open(f"{folder}/{own[1].decode()}", os.O_PATH | os.O_CLOEXEC)
            try:
                self._require_alive()
                return kernel.open_beneath(start, own[2])
            finally:
                os.close(start)
        root = os.open(f"{folder}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not path.startswith(b"/"):
                path = os.readlink(f"{folder}/cwd".encode()) + b"/" + path
            self._require_alive()
            return kernel.open_in_root(root, path)
        finally:
            os.close(root)

    def process(self) -> int:
        """The number of the process that the calling thread belongs to."""
        with open(f"/proc/{self._tid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"Tgid:"):
                    return int(line.split()[1])
        raise ProcessLookupError(errno.ESRCH, "the caller is gone")

    def _require_alive(self) -> None:
        """Until here the number may have been given to another process; now it is known that it was not."""
        fcntl.ioctl(self._listener, _IS_ALIVE, struct.pack("=Q", self.id))


def _require_leave(found: int, rules: SocketRules) -> None:
    """Raise OSError unless the socket with this handle may be used."""
    status = os.fstat(found)
    if not stat.S_ISSOCK(status.st_mode):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "not a socket")
    if any(_is_file(status, path) for path in rules.allowed):
        return
    place = os.readlink(f"/proc/self/fd/{found}")
    if not any(is_below(place, root) for root in (*rules.roots, *_PRIVATE_FOLDERS)):
        raise PermissionError(errno.EPERM, "a socket outside of the writable folders")
    if _belongs_outside(status, place, own_network=rules.own_network):
        raise PermissionError(errno.EPERM, "a socket of a program outside")


def _is_file(status: os.stat_result, path: str) -> bool:
    try:
        return os.path.samestat(status, os.stat(path))
    except OSError:
        return False


# ---- whose socket is it? -------------------------------------------------------------------------------

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_DUMP = 0x301
_DONE, _FAILED = 3, 2
_SHOW_NAME, _SHOW_FILE = 1, 2
_NAME_ATTRIBUTE, _FILE_ATTRIBUTE = 0, 1
_HEADER = struct.Struct("=IHHII")


def _belongs_outside(status: os.stat_result, place: str, *, own_network: bool) -> bool:
    """Was the socket made by a program that is not confined? Those have our network namespace."""
    sockets = _bound_sockets()
    if sockets is None:
        # The kernel does not tell files: then anything of the same name will do.
        name = os.path.basename(place).encode()
        with open("/proc/net/unix", "rb") as file:
            return any(line.rstrip(b"\n").endswith((b"/" + name, b" " + name)) for line in file)
    bound = sockets.get(status.st_ino & 0xFFFFFFFF)
    if bound is None:
        return False
    return own_network or bound.isdisjoint(_confined_sockets())


def _is_confined_name(name: bytes) -> bool:
    """Does a confined program have this abstract name, in a network namespace it shares with us?"""
    bound = (_bound_sockets() or {}).get(name)
    return bound is not None and not bound.isdisjoint(_confined_sockets())


def _confined_sockets() -> set[int]:
    """The sockets that confined programs of this process have open, when they share its network namespace."""
    found: set[int] = set()
    own = os.readlink("/proc/self/ns/pid")
    for pid in kill.descendants():
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/ns/pid") == own and not _has_filters(pid):
                continue
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{fd}")
                    if target.startswith("socket:["):
                        found.add(int(target[8:-1]))
    return found


def _has_filters(pid: int) -> bool:
    """Is it confined without a namespace of its own? A launcher has one filter, confined programs have more."""
    with open(f"/proc/{pid}/status", "rb") as file:
        return any(line.startswith(b"Seccomp_filters:") and int(line.split()[1]) > 1 for line in file)


def _bound_sockets() -> dict[int | bytes, set[int]] | None:
    """The Unix sockets of our network namespace, by the inode of their file and by their abstract name.

    None when the kernel does not tell.
    """
    import socket

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
