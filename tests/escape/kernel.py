"""Kernel calls that Python has no function for, by number. Used by attacks inside the sandbox."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from typing import Any

IS_X86 = platform.machine() == "x86_64"
_NUMBERS = {  # name: (x86-64, arm64); numbers from 424 on are the same everywhere
    "ioctl": (16, 29),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgctl": (71, 187),
    "ptrace": (101, 117),
    "syslog": (103, 116),
    "rt_sigqueueinfo": (129, 138),
    "personality": (135, 92),
    "adjtimex": (159, 171),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "mount": (165, 40),
    "umount2": (166, 39),
    "swapon": (167, 224),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "quotactl": (179, 60),
    "pivot_root": (155, 41),
    "clock_settime": (227, 112),
    "tgkill": (234, 131),
    "mq_open": (240, 180),
    "mq_timedsend": (242, 182),
    "kexec_load": (246, 104),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "ioprio_set": (251, 30),
    "migrate_pages": (256, 238),
    "unshare": (272, 97),
    "move_pages": (279, 239),
    "perf_event_open": (298, 241),
    "fanotify_init": (300, 262),
    "prlimit64": (302, 261),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "finit_module": (313, 273),
    "linkat": (265, 37),
    "renameat2": (316, 276),
    "seccomp": (317, 277),
    "memfd_create": (319, 279),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "clone": (56, 220),
    "sendmmsg": (307, 269),
    "pidfd_send_signal": (424, 424),
    "io_uring_setup": (425, 425),
    "io_uring_register": (427, 427),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "pidfd_open": (434, 434),
    "clone3": (435, 435),
    "openat2": (437, 437),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "mount_setattr": (442, 442),
    "quotactl_fd": (443, 443),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "fchmodat2": (452, 452),
    "open_tree_attr": (467, 467),
}
SYS = {name: pair[0 if IS_X86 else 1] for name, pair in _NUMBERS.items()}

AT_FDCWD = -100
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWTIME = 0x10000000, 0x20000000, 0x40000000, 0x80
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
RENAME_EXCHANGE = 2

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def call(name: str | int, *arguments: Any) -> int:
    """The kernel's answer, or the OSError it stands for."""
    words = [
        ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(os.fsencode(a)) if isinstance(a, str) else a
        for a in arguments
    ]
    ctypes.set_errno(0)
    answer = _libc.syscall(ctypes.c_long(SYS[name] if isinstance(name, str) else name), *words)
    if answer == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return answer


def buffer(data: bytes | int) -> Any:
    """Memory with these bytes, or of this size."""
    size = len(data) if isinstance(data, bytes) else data
    return ctypes.create_string_buffer(data if isinstance(data, bytes) else b"", size)


def run_code(code: bytes) -> int:
    """Run machine code as a function without arguments."""
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_long)(address)()


def link_descriptor(fd: int, path: str) -> None:
    """Give the file behind a descriptor another name."""
    call("linkat", AT_FDCWD, f"/proc/self/fd/{fd}", AT_FDCWD, path, 0x400)


def exchange(one: str, other: str) -> None:
    call("renameat2", AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    call("mount", source or 0, target, kind or 0, flags, data or 0)
