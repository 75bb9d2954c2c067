"""Messages that confined programs send with `sendmsg`, sent in their name on copies of their descriptors.

The message lies in memory that other threads of the program can change, so its address is read once, here, and what
was read and judged is what is used. A program that sends much, or waits long, takes little of this process: data are
read in pieces, and descriptors are copied for no longer than a call that does not wait.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack

from spindle.process.sandbox import kernel
from spindle.process.sandbox.caller import Caller

Judge = Callable[[Caller, bytes], AbstractContextManager[bytes]]
"""The address to use instead of the one that was given; raises OSError when it may not be used."""

LONGEST_ADDRESS = 128
_LONGEST_MESSAGE = 1 << 22
_LONGEST_PIECE = 1 << 18
_HEADER = struct.Struct("=QI4xQQQQI4x")
_VECTOR = struct.Struct("=QQ")
_CONTROL = struct.Struct("=Qii")
_MOST_PARTS = 1024
_MOST_MESSAGES = 1024
_LONGEST_CONTROL = 1 << 16
_AF_NETLINK = 16
_SOL_SOCKET, _SCM_RIGHTS, _SCM_CREDENTIALS = 1, 1, 2
_MOST_DESCRIPTORS = 253
"""As many as the kernel takes along with one message."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05
_copying = threading.Lock()
"""Held while descriptors are copied and sent, so that all callers together never take more than one message's."""

Along = Callable[[], AbstractContextManager[bytes]]
"""Makes what goes along with a message."""
Parts = Sequence[tuple[int, int]]
"""Where the data lie in the caller's memory: addresses and sizes."""


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
                # All that is written into the caller's memory is a length, where the kernel would write it.
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
    address = read_address(caller, pointer, length & 0xFFFFFFFF)
    with caller.descriptor(fd & 0xFFFFFFFF) as sender, judge(caller, address) as judged:
        return _send(caller, sender, [(start, size)], judged, _nothing, flags & 0xFFFFFFFF)


def read_address(caller: Caller, pointer: int, length: int) -> bytes:
    if length > LONGEST_ADDRESS:
        raise OSError(errno.EINVAL, "too long for an address")
    return caller.memory(pointer, length)


def _send_one(caller: Caller, sender: int, start: int, flags: int, judge: Judge) -> int:
    # Read once, before anything is judged: other threads of the caller may rewrite all of it at any moment.
    header = _HEADER.unpack(caller.memory(start, _HEADER.size))
    name, name_length, vectors, count, control, control_length, _ = header
    # The kernel cuts an address that is too long here, and refuses one in `sendto`. So do we.
    address = read_address(caller, name, min(name_length, LONGEST_ADDRESS)) if name else b""
    if count > _MOST_PARTS:
        raise OSError(errno.EMSGSIZE, "too many parts")
    parts = list(_VECTOR.iter_unpack(caller.memory(vectors, count * _VECTOR.size)))

    def along() -> AbstractContextManager[bytes]:
        return _passed_on(caller, control, control_length) if control and control_length else _nothing()

    with judge(caller, address) if address else _nothing() as judged:
        return _send(caller, sender, parts, judged, along, flags)


def _nothing() -> AbstractContextManager[bytes]:
    return contextlib.nullcontext(b"")


def _read(caller: Caller, parts: Parts, at: int, size: int) -> bytes:
    """`size` bytes of the data, or what is left of them, beginning at `at`."""
    found: list[bytes] = []
    for start, length in parts:
        if at < length and size:
            found.append(caller.memory(start + at, min(size, length - at)))
            size -= len(found[-1])
        at = max(0, at - length)
    return b"".join(found)


@contextlib.contextmanager
def _passed_on(caller: Caller, start: int, length: int) -> Iterator[bytes]:
    """What goes along with the message: descriptors as copies of ours, the rest as it is."""
    if length > _LONGEST_CONTROL:
        raise OSError(errno.ENOBUFS, "too much goes along with the message")
    control = bytearray(caller.memory(start, length))
    # The numbers in it are the caller's. Each descriptor is copied to us and its number replaced, or the kernel would
    # pass on whatever descriptor of this process happens to have that number.
    with _copying, ExitStack() as held:
        at = copies = 0
        while at + _CONTROL.size <= length:
            size, level, kind = _CONTROL.unpack_from(control, at)
            if size < _CONTROL.size or at + size > length:
                raise OSError(errno.EINVAL, "not what goes along with a message")
            if level == _SOL_SOCKET and kind == _SCM_CREDENTIALS:
                raise OSError(errno.EPERM, "the kernel would take us for the sender")
            if level == _SOL_SOCKET and kind == _SCM_RIGHTS:
                copies += (size - _CONTROL.size) // 4
                if copies > _MOST_DESCRIPTORS:
                    raise OSError(errno.EINVAL, "too many descriptors")
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
    return _kind_of(fd) == (socket.AF_UNIX, socket.SOCK_DGRAM)


def _kind_of(fd: int) -> tuple[int, int] | None:
    """The family and type of a socket; None if it is something else."""
    try:
        one = socket.socket(fileno=fd)
    except OSError:
        return None
    kind = one.family, one.type
    one.detach()
    return kind


def _send(caller: Caller, sender: int, parts: Parts, address: bytes, along: Along, flags: int) -> int:
    """The number of bytes that were sent, or the negative error.

    Never waits in the kernel: whoever waits there for a caller that was killed waits for ever.
    """
    if int.from_bytes(address[:2], "little") == _AF_NETLINK:
        address = _to_kernel(address)
    total = sum(size for _, size in parts)
    kind = _kind_of(sender)
    is_stream = kind is not None and kind[1] == socket.SOCK_STREAM
    if total > _LONGEST_MESSAGE and not is_stream:
        raise OSError(errno.EMSGSIZE, "too long")
    waits = os.get_blocking(sender) and not flags & socket.MSG_DONTWAIT
    # Without NOSIGNAL a peer that went away would send SIGPIPE to this process instead of the caller's.
    flags |= socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
    sent, data, pause_s = 0, b"", 0.0
    while True:
        # Kept over a try that failed: a message is sent as it was read the first time.
        data = data or _read(caller, parts, sent, _LONGEST_PIECE if is_stream else total)
        with along() as control:
            result = kernel.send(sender, data, address, control, flags)
        if result >= 0:
            sent += result
            if sent >= total or not is_stream or (not waits and result < len(data)):
                return sent
            data, along, pause_s = data[result:], _nothing, 0.0  # a stream's rest; descriptors went with its first byte
        elif not waits or result != -errno.EAGAIN:
            return sent or result
        else:
            caller.require_alive()  # raises once the caller was killed: nobody else would end this loop
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
