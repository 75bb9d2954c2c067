"""Messages that confined programs send with `sendmsg`, sent in their name on copies of their descriptors.

The message lies in memory that other threads of the program can change, so it is read once, here, and what was read is
what is sent.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

from spindle.process.sandbox import kernel
from spindle.process.sandbox.caller import Caller

Judge = Callable[[Caller, bytes], AbstractContextManager[bytes]]
"""The address to use instead of the one that was given; raises OSError when it may not be used."""

LONGEST_ADDRESS = 128
LONGEST_MESSAGE = 1 << 24
_HEADER = struct.Struct("=QI4xQQQQI4x")
_VECTOR = struct.Struct("=QQ")
_CONTROL = struct.Struct("=Qii")
_MOST_PARTS = 1024
_MOST_MESSAGES = 1024
_LONGEST_CONTROL = 1 << 16
_AF_NETLINK = 16
_SOL_SOCKET, _SCM_RIGHTS, _SCM_CREDENTIALS = 1, 1, 2
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05


def send_message(caller: Caller, judge: Judge) -> int:
    """The result of the caller's `sendmsg`; raises OSError when it fails."""
    fd, start, flags, *_ = caller.arguments
    with caller.descriptor(fd & 0xFFFFFFFF) as sender:
        return _send_one(caller, sender, start, flags & 0xFFFFFFFF, judge)


def send_messages(caller: Caller, judge: Judge) -> int:
    """The result of the caller's `sendmmsg`: how many were sent; an error only if it was the first that failed."""
    fd, start, count, flags, *_ = caller.arguments
    size = _HEADER.size + 8
    sent = 0
    with caller.descriptor(fd & 0xFFFFFFFF) as sender:
        while sent < min(count & 0xFFFFFFFF, _MOST_MESSAGES):
            at = start + sent * size
            try:
                length = _send_one(caller, sender, at, flags & 0xFFFFFFFF, judge)
                caller.write(at + _HEADER.size, struct.pack("=I", length))
            except OSError:
                if sent:
                    break
                raise
            sent += 1
    return sent


def send_to(caller: Caller, judge: Judge) -> int:
    """The result of the caller's `sendto`; raises OSError when it fails."""
    fd, start, size, flags, pointer, length = caller.arguments
    if size > LONGEST_MESSAGE:
        raise OSError(errno.EMSGSIZE, "too long")
    data = caller.memory(start, size)
    address = read_address(caller, pointer, length & 0xFFFFFFFF)
    with caller.descriptor(fd & 0xFFFFFFFF) as sender, judge(caller, address) as judged:
        return _send(caller, sender, data, judged, b"", flags & 0xFFFFFFFF)


def read_address(caller: Caller, pointer: int, length: int) -> bytes:
    if length > LONGEST_ADDRESS:
        raise OSError(errno.EINVAL, "too long for an address")
    return caller.memory(pointer, length)


def _send_one(caller: Caller, sender: int, start: int, flags: int, judge: Judge) -> int:
    header = _HEADER.unpack(caller.memory(start, _HEADER.size))
    name, name_length, vectors, count, control, control_length, _ = header
    address = read_address(caller, name, min(name_length, LONGEST_ADDRESS)) if name else b""
    data = _read_parts(caller, vectors, count)
    with ExitStack() as held:
        passed = held.enter_context(_passed_on(caller, control, control_length if control else 0))
        judged = held.enter_context(judge(caller, address)) if address else b""
        return _send(caller, sender, data, judged, passed, flags)


def _read_parts(caller: Caller, vectors: int, count: int) -> bytes:
    if count > _MOST_PARTS:
        raise OSError(errno.EMSGSIZE, "too many parts")
    parts = list(_VECTOR.iter_unpack(caller.memory(vectors, count * _VECTOR.size)))
    if sum(size for _, size in parts) > LONGEST_MESSAGE:
        raise OSError(errno.EMSGSIZE, "too long")
    return b"".join(caller.memory(start, size) for start, size in parts)


@contextlib.contextmanager
def _passed_on(caller: Caller, start: int, length: int) -> Iterator[bytes]:
    """What goes along with the message: descriptors as copies of ours, the rest as it is."""
    if length > _LONGEST_CONTROL:
        raise OSError(errno.ENOBUFS, "too much goes along with the message")
    control = bytearray(caller.memory(start, length))
    with ExitStack() as held:
        at = 0
        while at + _CONTROL.size <= length:
            size, level, kind = _CONTROL.unpack_from(control, at)
            if size < _CONTROL.size or at + size > length:
                raise OSError(errno.EINVAL, "not what goes along with a message")
            if level == _SOL_SOCKET and kind == _SCM_CREDENTIALS:
                raise OSError(errno.EPERM, "the kernel would take us for the sender")
            if level == _SOL_SOCKET and kind == _SCM_RIGHTS:
                for place in range(at + _CONTROL.size, at + size - 3, 4):
                    (number,) = struct.unpack_from("=i", control, place)
                    copy = held.enter_context(caller.descriptor(number & 0xFFFFFFFF))
                    _require_harmless(copy)
                    struct.pack_into("=i", control, place, copy)
            at += (size + 7) & ~7
        yield bytes(control)


def _require_harmless(fd: int) -> None:
    """A program that has no datagram socket is not asked where it sends, so it must not be given one."""
    if is_unix_datagram(fd):
        raise OSError(errno.EPERM, "a datagram socket is not passed on")


def is_unix_datagram(fd: int) -> bool:
    try:
        one = socket.socket(fileno=fd)
    except OSError:  # not a socket
        return False
    kind = one.family, one.type
    one.detach()
    return kind == (socket.AF_UNIX, socket.SOCK_DGRAM)


def _send(caller: Caller, sender: int, data: bytes, address: bytes, control: bytes, flags: int) -> int:
    """The number of bytes that were sent, or the negative error.

    Never waits in the kernel: whoever waits there for a caller that was killed waits for ever.
    """
    if int.from_bytes(address[:2], "little") == _AF_NETLINK:
        address = _to_kernel(address)
    waits = os.get_blocking(sender) and not flags & socket.MSG_DONTWAIT
    flags |= socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
    sent = 0
    pause_s = 0.0
    while True:
        result = kernel.send(sender, data[sent:], address, control, flags)
        if result >= 0:
            sent += result
            if not waits or sent >= len(data):
                return sent
            control, pause_s = b"", 0.0  # the rest of a stream
        elif not waits or result != -errno.EAGAIN:
            return sent or result
        else:
            caller.require_alive()
            _wait_for_room(sender, pause_s)
            pause_s = min(max(2 * pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)


def _to_kernel(address: bytes) -> bytes:
    """How to reach the kernel by netlink: with an address it looks at our rights, without one at the caller's."""
    if any(address[4:]):
        raise OSError(errno.EPERM, "not the kernel's address")
    return b""


def _wait_for_room(sender: int, pause_s: float) -> None:
    poll = select.poll()
    poll.register(sender, select.POLLOUT)
    poll.poll(1000 * _LONGEST_PAUSE_S)
    time.sleep(pause_s)  # a datagram socket can always be written, also when there is no room where it sends to
