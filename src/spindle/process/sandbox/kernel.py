"""System calls that Python has no function for. Linux on 64 bits; loaded with the first confined command."""

from __future__ import annotations

import ctypes
import os
import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_SECCOMP, _PIDFD_GETFD, _OPENAT2, _KEYCTL = range(4)
_NUMBERS = {
    "x86_64": (317, 438, 437, 250),
    "aarch64": (277, 438, 437, 219),
}

_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER = 1
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5
_JOIN_SESSION_KEYRING = 1
_CAPABILITIES_V3 = 0x20080522
CREATE_RULESET = 444
_ASK_VERSION = 1
_RESOLVE_NO_MAGICLINKS, _RESOLVE_BENEATH, _RESOLVE_IN_ROOT = 0x02, 0x08, 0x10

_libc = ctypes.CDLL(None, use_errno=True)
_libc.sendmsg.restype = ctypes.c_ssize_t


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


class _Vector(ctypes.Structure):
    _fields_ = (("start", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Message(ctypes.Structure):
    _fields_ = (
        ("address", ctypes.c_char_p),
        ("address_size", ctypes.c_uint32),
        ("vectors", ctypes.POINTER(_Vector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_char_p),
        ("control_size", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


@cache
def _numbers() -> tuple[int, ...]:
    return _NUMBERS[os.uname().machine]


def _call(which: int, *arguments: object) -> int:
    result = _libc.syscall(ctypes.c_long(_numbers()[which]), *arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def forbid_new_privileges() -> None:
    """For this thread and all it starts: no program gets more rights by being executed."""
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")


@cache
def hide_from_other_processes() -> None:
    """This process leaves no core file, and others of the same user cannot look into its memory."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def landlock_version() -> int:
    """The version of Landlock that this kernel speaks; 0 when it has none, or has it switched off."""
    return max(0, _libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION)))


def leave_keyring() -> None:
    """A new, empty session keyring for this thread and all it starts."""
    _call(_KEYCTL, ctypes.c_long(_JOIN_SESSION_KEYRING), None)


def install_filter(program: bytes) -> None:
    """A seccomp filter for this thread and all it starts."""
    _install(program, 0)


def install_listener(program: bytes) -> int:
    """The same with a descriptor that hears of each call the filter asks about."""
    try:
        # Kernel 5.19: a call that is being answered is not interrupted by signals, so it is not made twice.
        return _install(program, _NEW_LISTENER | _WAIT_KILLABLE)
    except OSError:
        return _install(program, _NEW_LISTENER)


def _install(program: bytes, flags: int) -> int:
    described = _Program(len(program) // 8, program)
    return _call(_SECCOMP, ctypes.c_uint(_SET_MODE_FILTER), ctypes.c_uint(flags), ctypes.byref(described))


@contextmanager
def without_capabilities() -> Iterator[None]:
    """What this thread does meanwhile it does with the rights of its user alone, also when that is user 0."""
    header = struct.pack("=Ii", _CAPABILITIES_V3, 0)
    held = ctypes.create_string_buffer(24)
    if _libc.capget(header, held) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities of this thread are not known")
    low, low_permitted, low_inheritable, high, high_permitted, high_inheritable = struct.unpack("=6I", held)
    if not low and not high:
        yield
        return
    none = struct.pack("=6I", 0, low_permitted, low_inheritable, 0, high_permitted, high_inheritable)
    _set_capabilities(header, none)
    try:
        yield
    finally:
        _set_capabilities(header, held.raw)


def _set_capabilities(header: bytes, wanted: bytes) -> None:
    if _libc.capset(header, wanted) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities of this thread cannot be set")


def descriptor_of(pidfd: int, fd: int) -> int:
    """Our own copy of another process's descriptor."""
    return _call(_PIDFD_GETFD, ctypes.c_int(pidfd), ctypes.c_int(fd), ctypes.c_uint(0))


def open_in_root(root: int, path: bytes) -> int:
    """What `path` leads to when `root` is the root folder, as a handle that can be neither read nor written."""
    how = struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    return _call(_OPENAT2, ctypes.c_int(root), ctypes.c_char_p(path), how, ctypes.c_size_t(len(how)))


def open_beneath(folder: int, path: bytes) -> int:
    """The same for a path that must stay inside a folder, links included."""
    how = struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    return _call(_OPENAT2, ctypes.c_int(folder), ctypes.c_char_p(path), how, ctypes.c_size_t(len(how)))


def connect(fd: int, address: bytes) -> int:
    """`connect` with an address in the kernel's form: 0, or the negative error. It is made for somebody else, so
    without capabilities."""
    with without_capabilities():
        result = _libc.connect(ctypes.c_int(fd), address, ctypes.c_uint(len(address)))
        return 0 if result == 0 else -ctypes.get_errno()


def send(fd: int, data: bytes, address: bytes, control: bytes, flags: int) -> int:
    """`sendmsg` in the same way: the number of bytes, or the negative error."""
    vector = _Vector(data, len(data))
    message = _Message(address or None, len(address), ctypes.pointer(vector), 1, control or None, len(control), 0)
    with without_capabilities():
        result = _libc.sendmsg(ctypes.c_int(fd), ctypes.byref(message), ctypes.c_int(flags))
        return result if result >= 0 else -ctypes.get_errno()
