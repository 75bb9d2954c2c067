"""A confined thread that waits for the answer to a system call, and what may be known of it meanwhile."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import struct
from collections.abc import Iterator

from spindle.process import proc_files
from spindle.process.sandbox import kernel

_IS_ALIVE = 0x40082102
_PROCESS_AND_PARENT = rb"\nTgid:\s*(\d+)\n(?:.*\n)*?PPid:\s*(\d+)\n"
_OWN_FOLDER = rb"(?s)/proc/(?:thread-)?self/(cwd|fd/\d+)/(.+)"


class Caller:
    """One call of a confined thread, waiting for its answer."""

    def __init__(self, listener: int, ident: int, tid: int, _flags: int, number: int, *rest: int) -> None:
        self._listener = listener
        self.tid = tid
        self.id = ident
        self.number = number
        self.arguments = rest[2:]  # before them come the architecture and the place in the program
        self.leader = 0
        """The first process of its command, as far as somebody has looked; 0 while that is not known."""

    def memory(self, start: int, size: int) -> bytes:
        """A part of the caller's memory."""
        if not size:
            return b""
        # Opened first, then asked for, here and below. If the caller lives now, it lived when the file was opened, and
        # the file is its own; asked the other way round, its number could have gone to another process in between.
        fd = os.open(f"/proc/{self.tid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.require_alive()
            data = os.pread(fd, size, start)
        except (OSError, OverflowError) as error:
            raise OSError(errno.EFAULT, "not the caller's memory") from error
        finally:
            os.close(fd)
        if len(data) != size:
            raise OSError(errno.EFAULT, "not the caller's memory")
        return data

    def write(self, start: int, data: bytes) -> None:
        """Change the caller's memory where the call itself would."""
        fd = os.open(f"/proc/{self.tid}/mem", os.O_WRONLY | os.O_CLOEXEC)
        try:
            self.require_alive()
            if os.pwrite(fd, data, start) != len(data):
                raise OSError(errno.EFAULT, "not the caller's memory")
        except OverflowError as error:
            raise OSError(errno.EFAULT, "not the caller's memory") from error
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def descriptor(self, number: int) -> Iterator[int]:
        """A copy of a descriptor of the caller."""
        try:
            pidfd = os.pidfd_open(self.tid)
        except OSError:  # not the first thread of its process
            pidfd = os.pidfd_open(self.process())
        try:
            self.require_alive()
            copy = kernel.descriptor_of(pidfd, number)
        finally:
            os.close(pidfd)
        try:
            yield copy
        finally:
            os.close(copy)

    def open(self, path: bytes) -> int:
        """A handle of what a path leads to in the caller's world."""
        folder = f"/proc/{self.tid}"
        own = re.fullmatch(_OWN_FOLDER, path)
        if own is not None:  # a way around the length of addresses; "self" is the caller, not us
            start = os.open(f"{folder}/{own[1].decode()}", os.O_PATH | os.O_CLOEXEC)
            try:
                self.require_alive()
                return kernel.open_beneath(start, own[2])
            finally:
                os.close(start)
        root = os.open(f"{folder}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not path.startswith(b"/"):
                # The folder may be renamed before the path is followed. That leads to another place in the caller's own
                # world at worst, and what is found there is judged like anything else.
                path = os.readlink(f"{folder}/cwd".encode()) + b"/" + path
            self.require_alive()
            return kernel.open_in_root(root, path)
        finally:
            os.close(root)

    def process(self) -> int:
        """The number of the process that the calling thread belongs to."""
        return self.process_and_parent()[0]

    def process_and_parent(self) -> tuple[int, int]:
        """The same, and the number of that process's parent."""
        found = re.search(_PROCESS_AND_PARENT, proc_files.read_record(f"/proc/{self.tid}/status"))
        if found is None:
            raise ProcessLookupError(errno.ESRCH, "the caller is gone")
        return int(found[1]), int(found[2])

    def require_alive(self) -> None:
        """Raise OSError unless the call still waits. Then the caller's number is still the caller's, and no other's."""
        fcntl.ioctl(self._listener, _IS_ALIVE, struct.pack("=Q", self.id))
