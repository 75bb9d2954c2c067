"""Filters for system calls, as the kernel takes them: which calls a confined program cannot make.

Built as bytes once per kind and handed to the launcher. What is closed here has no use in building and testing
software, and has been a way out of sandboxes: other processes' memory, mounts, namespaces, keyrings, kernel modules,
asynchronous rings, foreign call tables. Files and networks are fenced in by namespaces, not here.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Sequence
from functools import cache

import msgspec

SUPPORTED = ("x86_64", "aarch64")

_ALLOW = 0x7FFF0000
_KILL = 0x80000000
_NOTIFY = 0x7FC00000
_ERRNO = 0x00050000

_LOAD, _MASK, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16

_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NEWEST = 469
"""The last call this list was made with. A later one answers "not implemented" until somebody has looked at it."""

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_NAMESPACES = 0x7E020000
_NEW_TIME = 0x80
_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI types into a terminal, TIOCLINUX pastes into one."""
_LEASES = (1024, 1040)
"""F_SETLEASE and F_SETDELEG: whoever may read a file could make others wait who want to write it, the agent among
them."""
_PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0x40000, 0xFFFFFFFF)
"""Linux, 32-bit Linux, and without address randomisation; and the question which one it is."""

_CALLS: dict[str, tuple[int | None, int | None]] = {
    # name: number on x86_64, on aarch64
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
_SHARED: dict[str, tuple[int | None, int | None]] = {
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
}
"""What programs share by numbers that mean the same everywhere, unless they have a namespace of their own."""
_ATTRIBUTES: dict[str, tuple[int | None, int | None]] = {
    "fremovexattr": (199, 16),
    "fsetxattr": (190, 7),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
}
_MODES = ((1, (90, None)), (1, (91, 52)), (2, (268, 53)), (2, (452, 452)))
"""chmod, fchmod, fchmodat, fchmodat2: which argument is the mode."""
_OWNERS_AND_TIMES = (
    *((92, None), (93, 55), (94, None), (260, 54)),  # chown, fchown, lchown, fchownat
    *((132, None), (235, None), (261, None), (280, 88)),  # utime, utimes, futimesat, utimensat
)
_OTHERS_RIGHTS = 0o6000
_OWNERS_RIGHTS = 0o4000
"""Whoever runs such a program is its owner meanwhile; a command must not leave that behind for others. The group's are
left alone, since folders have the same mark and mean something harmless by it."""
_NEW_FILE = 0o20000100
"""O_CREAT, and what O_TMPFILE has beside O_DIRECTORY."""
_OPENS = ((1, (2, None)), (2, (257, 56)))
"""open, openat: which argument has the flags; the mode is the next one, and means something only for a new file."""
_FILE_MAKERS = ((1, (85, None)), (1, (133, None)), (2, (259, 33)))
"""creat, mknod, mknodat: which argument is the mode."""
_OPENAT2 = (437, 437)
_SET_FILE_FLAGS = (0x40086602, 0x40046602, 0x401C5820)
_OF_OTHERS = (
    (0, (302, 261)),  # prlimit64
    (0, (203, 122)),  # sched_setaffinity
    (0, (314, 274)),  # sched_setattr
    (0, (142, 118)),  # sched_setparam
    (0, (144, 119)),  # sched_setscheduler
    (1, (251, 30)),  # ioprio_set
    (1, (141, 140)),  # setpriority
)
"""Limits and priorities: which argument names the process, and the numbers of the call. 0 is the caller itself."""
_SOCKET_KIND, _DATAGRAM, _RAW = 0xF, 2, 3
_CLONE, _CLONE3, _UNSHARE = (56, 220), (435, 435), (272, 97)
_IOCTL, _PERSONALITY, _FCNTL = (16, 29), (135, 92), (72, 25)
_SOCKET, _SOCKETPAIR = (41, 198), (53, 199)
_CONNECT, _SENDTO, _SENDMSG, _SENDMMSG = (42, 203), (44, 206), (46, 211), (307, 269)


@cache
def machine() -> str:
    """The name of this machine's call table; "" when there is no filter for it."""
    name = os.uname().machine
    return name if name in SUPPORTED and struct.calcsize("P") == 8 else ""


@cache
def confinement(arch: str, *, inet: bool = True, unix: bool = True) -> bytes:
    """The filter of a confined program.

    `inet`: internet sockets may be made, because the network namespace is empty or the network allowed. `unix`: so may
    Unix sockets, because somebody watches what they connect to; a pair of connected streams is always allowed.
    """
    which = SUPPORTED.index(arch)
    families = [*((_AF_UNIX,) if unix else ()), *((_AF_INET, _AF_INET6) if inet else ())]
    # A call by another table (a 32-bit one, say) cannot be judged by the numbers below: they mean other calls there.
    code = _Code(arch, foreign=_KILL)
    code.refuse_from(_NEWEST + 1, errno.ENOSYS)  # the numbers of the x32 table are far above
    code.on(_CLONE3[which], [_return(_ERRNO | errno.ENOSYS)])  # its flags are in memory; libraries fall back to clone
    code.on(_CLONE[which], _refuse_bits(0, _NAMESPACES))
    code.on(_UNSHARE[which], _refuse_bits(0, _NAMESPACES | _NEW_TIME))
    code.on(_IOCTL[which], _refuse_values(1, _TERMINAL_INPUT))
    code.on(_FCNTL[which], _refuse_values(1, _LEASES))
    code.on(_PERSONALITY[which], _allow_values(0, _PERSONALITIES, errno.EPERM))
    code.on(_SOCKET[which], _socket_rule(families))
    code.on(_OPENAT2[which], [_return(_ERRNO | errno.ENOSYS)])  # its mode is in memory; who uses it can do without
    for argument, numbers in _OPENS:
        if (number := numbers[which]) is not None:
            code.on(number, _refuse_mode_of_new(argument, _OWNERS_RIGHTS))
    for argument, numbers in (*_MODES, *_FILE_MAKERS):
        if (number := numbers[which]) is not None:
            code.on(number, _refuse_bits(argument, _OWNERS_RIGHTS))
    if not unix:
        code.on(_SOCKETPAIR[which], _on_unix_datagrams(_ERRNO | errno.EPERM))
    for numbers in _CALLS.values():
        if (number := numbers[which]) is not None:
            code.on(number, [_return(_ERRNO | errno.EPERM)])
    return code.assemble()


@cache
def without_namespaces(arch: str, *, writes: bool = True) -> bytes:
    """What else is closed where a program shares the namespaces of the machine.

    `writes`: it may write somewhere, and so may change modes, owners and times of what it wrote.
    """
    which = SUPPORTED.index(arch)
    code = _Code(arch, foreign=_KILL)
    refused = [_return(_ERRNO | errno.EPERM)]
    for argument, numbers in _MODES:
        if (number := numbers[which]) is not None:
            code.on(number, _refuse_bits(argument, _OTHERS_RIGHTS) if writes else refused)
    for numbers in () if writes else _OWNERS_AND_TIMES:
        if (number := numbers[which]) is not None:
            code.on(number, refused)
    code.on(_IOCTL[which], _refuse_values(1, _SET_FILE_FLAGS))
    for argument, numbers in _OF_OTHERS:
        code.on(numbers[which], _allow_values(argument, (0,), errno.EPERM))
    for calls, error in ((_SHARED, errno.EPERM), (_ATTRIBUTES, errno.EOPNOTSUPP)):
        for numbers in calls.values():
            if (number := numbers[which]) is not None:
                code.on(number, [_return(_ERRNO | error)])
    return code.assemble()


class Watched(msgspec.Struct, frozen=True):
    """The numbers of the calls that a listener answers."""

    connect: int
    sendto: int
    sendmsg: int
    sendmmsg: int
    socket: int
    socketpair: int


def watched(arch: str) -> Watched:
    which = SUPPORTED.index(arch)
    calls = (_CONNECT, _SENDTO, _SENDMSG, _SENDMMSG, _SOCKET, _SOCKETPAIR)
    return Watched(*(numbers[which] for numbers in calls))


@cache
def watch(arch: str) -> bytes:
    """A filter that stops nothing but lets a listener answer whatever may reach a program outside.

    That is every `connect`, every `sendto` with an address, every `sendmsg` (nobody can see here whether it has one);
    and it hears of every Unix datagram socket, since without one `sendmsg` leads nowhere.
    """
    calls = watched(arch)
    # Of several filters the strictest answer counts. What this one allows, `confinement` may still refuse or kill, and
    # nobody is asked here about a call that is refused there.
    code = _Code(arch, foreign=_ALLOW)
    for number in (calls.connect, calls.sendmsg, calls.sendmmsg):
        code.on(number, [_return(_NOTIFY)])
    address = 4
    code.on(
        calls.sendto,
        [
            _load_argument(address),
            _jump(_EQUAL, 0, 0, 2),
            _load_argument(address, high=True),
            _jump(_EQUAL, 0, 1, 0),
            _return(_NOTIFY),
            _return(_ALLOW),
        ],
    )
    for number in (calls.socket, calls.socketpair):
        code.on(number, _on_unix_datagrams(_NOTIFY))
    return code.assemble()


# ---- the machine of the filter -------------------------------------------------------------------------


def _instruction(code: int, k: int, jt: int = 0, jf: int = 0) -> bytes:
    return struct.pack("=HBBI", code, jt, jf, k)


def _return(action: int) -> bytes:
    return _instruction(_RETURN, action)


def _jump(test: int, value: int, if_true: int, if_false: int) -> bytes:
    return _instruction(test, value, if_true, if_false)


def _load_argument(index: int, *, high: bool = False) -> bytes:
    return _instruction(_LOAD, _ARGUMENTS + 8 * index + (4 if high else 0))  # both architectures are little-endian


def _refuse_bits(index: int, bits: int) -> list[bytes]:
    return [
        _load_argument(index),
        _jump(_ANY_BIT, bits, 0, 1),
        _return(_ERRNO | errno.EPERM),
        _return(_ALLOW),
    ]


def _refuse_mode_of_new(flags: int, bits: int) -> list[bytes]:
    return [
        _load_argument(flags),
        _jump(_ANY_BIT, _NEW_FILE, 0, 2),
        _load_argument(flags + 1),
        _jump(_ANY_BIT, bits, 1, 0),
        _return(_ALLOW),
        _return(_ERRNO | errno.EPERM),
    ]


def _refuse_values(index: int, values: Sequence[int]) -> list[bytes]:
    """The kernel looks only at the low half of these arguments, and so do we."""
    found = [_load_argument(index)]
    for at, value in enumerate(values):
        found.append(_jump(_EQUAL, value, len(values) - at, 0))
    return [*found, _return(_ALLOW), _return(_ERRNO | errno.EPERM)]


def _allow_values(index: int, values: Sequence[int], error: int) -> list[bytes]:
    found = [_load_argument(index)]
    for at, value in enumerate(values):
        found.append(_jump(_EQUAL, value, len(values) - at, 0))
    return [*found, _return(_ERRNO | error), _return(_ALLOW)]


def _socket_rule(families: Sequence[int]) -> list[bytes]:
    """Some address families; and of netlink only routing, which tells a program its own interfaces."""
    rule = [_load_argument(0)]
    tail = 5  # what follows the list: netlink? protocol, route?, refuse, allow
    for at, family in enumerate(families):
        rule.append(_jump(_EQUAL, family, len(families) - at - 1 + tail - 1, 0))
    rule += [
        _jump(_EQUAL, _AF_NETLINK, 0, 2),
        _load_argument(2),
        _jump(_EQUAL, 0, 1, 0),
        _return(_ERRNO | errno.EAFNOSUPPORT),
        _return(_ALLOW),
    ]
    return rule


def _on_unix_datagrams(action: int) -> list[bytes]:
    """For Unix sockets that can send without being connected; the kernel treats a raw one as a datagram socket."""
    return [
        _load_argument(0),
        _jump(_EQUAL, _AF_UNIX, 0, 5),
        _load_argument(1),
        _instruction(_MASK, _SOCKET_KIND),
        _jump(_EQUAL, _DATAGRAM, 1, 0),
        _jump(_EQUAL, _RAW, 0, 1),
        _return(action),
        _return(_ALLOW),
    ]


_LEAF = 8
"""So few numbers are compared one after the other; more are halved first."""


class _Code:
    """A filter under construction: the call's number is looked up by halves, and what is not named is allowed.

    The kernel tries a new filter with every number there is, for every command, so a list from front to end would cost
    a command more than its own calls do.
    """

    def __init__(self, arch: str, *, foreign: int) -> None:
        self._start = [
            # First of all: a number means nothing before it is known whose table it is from.
            _instruction(_LOAD, _ARCH),
            _jump(_EQUAL, _ARCHES[arch], 1, 0),
            _return(foreign),
            _instruction(_LOAD, _NUMBER),
        ]
        self._rules: dict[int, Sequence[bytes]] = {}

    def refuse_from(self, number: int, error: int) -> None:
        self._start += [_jump(_AT_LEAST, number, 0, 1), _return(_ERRNO | error)]

    def on(self, number: int, rule: Sequence[bytes]) -> None:
        """`rule` ends with a decision on every path; it may load something else than the number. The first counts."""
        self._rules.setdefault(number, rule)

    def assemble(self) -> bytes:
        return b"".join([*self._start, *_search(sorted(self._rules.items()))])


def _search(rules: Sequence[tuple[int, Sequence[bytes]]]) -> list[bytes]:
    """What decides about a number that is loaded, by rules in the order of their numbers."""
    if len(rules) <= _LEAF:
        return _compare(rules)
    half = len(rules) // 2
    below, above = _search(rules[:half]), _search(rules[half:])
    # A jump reaches 255 instructions, which is enough: a filter that outgrew it could not be packed.
    return [_jump(_AT_LEAST, rules[half][0], len(below), 0), *below, *above]


def _compare(rules: Sequence[tuple[int, Sequence[bytes]]]) -> list[bytes]:
    """One number after the other. Decisions without a question stand at the end, once for all numbers they are for."""
    ends = list(dict.fromkeys([_return(_ALLOW), *(rule[0] for _, rule in rules if len(rule) == 1)]))
    found: list[bytes] = []
    for number, rule in reversed(rules):
        if len(rule) == 1:
            found = [_jump(_EQUAL, number, len(found) + ends.index(rule[0]), 0), *found]
        else:
            found = [_jump(_EQUAL, number, 0, len(rule)), *rule, *found]
    return [*found, *ends]
