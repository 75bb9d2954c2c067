"""The filter of system calls: judged by an interpreter for both machines, and by the kernel for this one."""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from spindle.process.sandbox import seccomp
from spindle.process.table import Command, ProcessTable
from spindle.protocol.settings import SandboxPolicy

ALLOW, KILL, NOTIFY = 0x7FFF0000, 0x80000000, 0x7FC00000
ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386, ARM = 0x40000003, 0x40000028


def errno_of(number: int) -> int:
    return 0x00050000 | number


def verdict(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """What the kernel would answer. Every jump must land inside the program."""
    code = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    six = (*arguments, *([0] * (6 - len(arguments))))
    data = struct.pack("=IIQ6Q", number, arch, 0, *six)
    accumulator = at = 0
    while True:
        operation, if_true, if_false, k = code[at]
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, k)
            case 0x54:
                accumulator &= k
            case 0x15:
                at += if_true if accumulator == k else if_false
            case 0x35:
                at += if_true if accumulator >= k else if_false
            case 0x45:
                at += if_true if accumulator & k else if_false
            case 0x06:
                return k
            case _:
                raise AssertionError(f"unknown instruction {operation:#x}")


@pytest.fixture(params=["x86_64", "aarch64"])
def arch(request: pytest.FixtureRequest) -> str:
    return request.param


def judge(arch: str, x86_64: int, aarch64: int, *arguments: int, inet: bool = True, unix: bool = True) -> int:
    number = x86_64 if arch == "x86_64" else aarch64
    return verdict(seccomp.confinement(arch, inet=inet, unix=unix), ARCHES[arch], number, *arguments)


CLOSED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "clock_settime": (227, 112),
    "settimeofday": (164, 170),
    "fanotify_init": (300, 262),
}


@pytest.mark.parametrize("name", CLOSED)
def test_these_calls_are_refused(name: str, arch: str) -> None:
    assert judge(arch, *CLOSED[name]) == errno_of(errno.EPERM)


OPEN = {
    "read": (0, 63),
    "openat": (257, 56),
    "execve": (59, 221),
    "futex": (202, 98),
    "socketpair": (53, 199),
    "bind": (49, 200),
    "connect": (42, 203),
    "sendmsg": (46, 211),
    "kill": (62, 129),
    "memfd_create": (319, 279),
    "landlock_create_ruleset": (444, 444),
    "seccomp": (317, 277),
    "inotify_init1": (294, 26),
    "renameat2": (316, 276),
    "statx": (332, 291),
}


@pytest.mark.parametrize("name", OPEN)
def test_these_calls_are_allowed(name: str, arch: str) -> None:
    assert judge(arch, *OPEN[name], 1, 2, 3) == ALLOW


def test_a_call_from_another_table_ends_the_program(arch: str) -> None:
    program = seccomp.confinement(arch)
    for foreign in (I386, ARM, *(set(ARCHES.values()) - {ARCHES[arch]})):
        assert verdict(program, foreign, 1) == KILL


def test_the_third_table_of_x86_and_calls_yet_unknown_do_not_exist(arch: str) -> None:
    program = seccomp.confinement(arch)
    for number in (470, 600, 0x40000000, 0x40000000 + 101, 0xFFFFFFFF):
        assert verdict(program, ARCHES[arch], number) == errno_of(errno.ENOSYS), hex(number)
    assert verdict(program, ARCHES[arch], 469) == ALLOW


NEW_NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)


@pytest.mark.parametrize("flag", NEW_NAMESPACES)
def test_no_namespace_can_be_made(flag: int, arch: str) -> None:
    for call in ((56, 220), (272, 97)):
        assert judge(arch, *call, flag) == errno_of(errno.EPERM)
        assert judge(arch, *call, flag | 17) == errno_of(errno.EPERM)


def test_processes_threads_and_private_tables_can_be_made(arch: str) -> None:
    assert judge(arch, 56, 220, 17) == ALLOW  # fork
    assert judge(arch, 56, 220, 0x3D0F00) == ALLOW  # a thread of glibc
    assert judge(arch, 272, 97, 0x600) == ALLOW  # unshare(CLONE_FS | CLONE_FILES)
    assert judge(arch, 272, 97, 0x80) == errno_of(errno.EPERM)  # a time namespace
    assert judge(arch, 435, 435) == errno_of(errno.ENOSYS)  # clone3: libraries use clone then


def test_nobody_types_into_a_terminal(arch: str) -> None:
    for request in (0x5412, 0x541C):
        assert judge(arch, 16, 29, 0, request) == errno_of(errno.EPERM)
        assert judge(arch, 16, 29, 0, request | 0xABCD << 32) == errno_of(errno.EPERM), "the kernel drops the high half"
    assert judge(arch, 16, 29, 0, 0x5413) == ALLOW  # the window's size


def test_only_local_and_internet_sockets_and_the_list_of_interfaces(arch: str) -> None:
    for family in (1, 2, 10):
        assert judge(arch, 41, 198, family, 1) == ALLOW
    assert judge(arch, 41, 198, 16, 3, 0) == ALLOW
    refused = errno_of(errno.EAFNOSUPPORT)
    for protocol in (4, 12, 15, 16):
        assert judge(arch, 41, 198, 16, 3, protocol) == refused
    for family in (3, 17, 31, 38, 40, 44, 0xFFFFFFFF):
        assert judge(arch, 41, 198, family, 1) == refused
    assert judge(arch, 41, 198, 2, 1, inet=False) == judge(arch, 41, 198, 10, 1, inet=False) == refused
    assert judge(arch, 41, 198, 1, 1, inet=False) == ALLOW
    assert judge(arch, 41, 198, 1, 1, unix=False) == refused
    assert judge(arch, 41, 198, 2, 1, unix=False) == ALLOW
    assert judge(arch, 41, 198, 16, 3, 0, unix=False, inet=False) == ALLOW


def test_odd_personalities_are_refused(arch: str) -> None:
    assert judge(arch, 135, 92, 0xFFFFFFFF) == judge(arch, 135, 92, 0x40000) == ALLOW
    assert judge(arch, 135, 92, 0x400000) == errno_of(errno.EPERM)  # reading means executing


def test_connections_and_letters_with_an_address_are_watched(arch: str) -> None:
    program, own = seccomp.watch(arch), ARCHES[arch]
    connect, sendto, *send_message = ((42, 44, 46, 307), (203, 206, 211, 269))[arch == "aarch64"]
    assert verdict(program, own, connect, 3) == NOTIFY
    assert verdict(program, own, sendto, 3, 1, 1, 0, 0x7F0000001000) == NOTIFY
    assert verdict(program, own, sendto, 3, 1, 1, 0, 1 << 32) == NOTIFY
    assert verdict(program, own, sendto, 3, 1, 1, 0, 0) == ALLOW
    assert {verdict(program, own, number, 3, 1) for number in send_message} == {NOTIFY}
    assert verdict(program, own, 1) == ALLOW


SHARED = {"shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180)}
ATTRIBUTES = {"setxattr": (188, 5), "fsetxattr": (190, 7), "removexattr": (197, 14), "setxattrat": (463, 463)}


def test_without_namespaces_more_is_closed(arch: str) -> None:
    program, which = seccomp.without_namespaces(arch), list(ARCHES).index(arch)

    def ask(numbers: tuple[int, int], *arguments: int) -> int:
        return verdict(program, ARCHES[arch], numbers[which], *arguments)

    assert {ask(numbers) for numbers in SHARED.values()} == {errno_of(errno.EPERM)}
    assert {ask(numbers) for numbers in ATTRIBUTES.values()} == {errno_of(errno.EOPNOTSUPP)}
    assert {ask(numbers, 1, 2, 3) for numbers in OPEN.values()} == {ALLOW}
    assert verdict(program, I386, 1) == KILL


@pytest.mark.parametrize(
    ("numbers", "argument"),
    [
        ((302, 261), 0),
        ((203, 122), 0),
        ((314, 274), 0),
        ((142, 118), 0),
        ((144, 119), 0),
        ((251, 30), 1),
        ((141, 140), 1),
    ],
)
def test_without_namespaces_limits_and_priorities_are_ones_own(
    arch: str, numbers: tuple[int, int], argument: int
) -> None:
    number = numbers[list(ARCHES).index(arch)]
    for process, answer in ((0, ALLOW), (1, errno_of(errno.EPERM)), (4711, errno_of(errno.EPERM))):
        arguments = [7, 7, 7]
        arguments[argument] = process
        assert verdict(seccomp.without_namespaces(arch), ARCHES[arch], number, *arguments) == answer


MODES = {"chmod": ((90, -1), 1), "fchmod": ((91, 52), 1), "fchmodat": ((268, 53), 2), "fchmodat2": ((452, 452), 2)}
OTHERS = {"fchown": (93, 55), "fchownat": (260, 54), "utimensat": (280, 88)}


MAKERS = {"creat": ((85, -1), 1), "mknod": ((133, -1), 1), "mknodat": ((259, 33), 2)}
OPENS = {"open": ((2, -1), 1), "openat": ((257, 56), 2)}


def test_no_program_is_left_that_runs_as_its_owner(arch: str) -> None:
    refused = errno_of(errno.EPERM)
    which = list(ARCHES).index(arch)
    for numbers, argument in (*MODES.values(), *MAKERS.values()):
        for mode, answer in ((0o755, ALLOW), (0o2755, ALLOW), (0o4755, refused), (0o106755, refused)):
            assert numbers[which] < 0 or judge(arch, *numbers, *([0] * argument), mode) == answer
    creating, nameless, reading = 0o101, 0o20200002, 0o2000000
    for numbers, argument in OPENS.values():
        for flags, mode, answer in (
            (creating, 0o4755, refused),
            (nameless, 0o4700, refused),
            (creating, 0o777, ALLOW),
            (reading, 0o4755, ALLOW),  # without a new file the mode means nothing, and may be anything
        ):
            assert numbers[which] < 0 or judge(arch, *numbers, *([0] * argument), flags, mode) == answer
    assert judge(arch, 437, 437) == errno_of(errno.ENOSYS)


def test_without_namespaces_modes_are_for_those_who_write_and_never_lend_rights(arch: str) -> None:
    which = list(ARCHES).index(arch)
    for numbers, argument in MODES.values():
        for mode, answer in ((0o755, ALLOW), (0o4755, errno_of(errno.EPERM)), (0o2755, errno_of(errno.EPERM))):
            arguments = [0, 0, 0]
            arguments[argument] = mode
            number = numbers[which]
            if number >= 0:
                writer, reader = (seccomp.without_namespaces(arch, writes=writes) for writes in (True, False))
                assert verdict(writer, ARCHES[arch], number, *arguments) == answer
                assert verdict(reader, ARCHES[arch], number, *arguments) == errno_of(errno.EPERM)
    for numbers in OTHERS.values():
        assert verdict(seccomp.without_namespaces(arch), ARCHES[arch], numbers[which]) == ALLOW
        reader = seccomp.without_namespaces(arch, writes=False)
        assert verdict(reader, ARCHES[arch], numbers[which]) == errno_of(errno.EPERM)


def test_a_unix_letter_box_is_heard_of_or_refused(arch: str) -> None:
    make, make_two = {"x86_64": (41, 53), "aarch64": (198, 199)}[arch]
    unix, inet, stream, letters, raw, packets, flags = 1, 2, 1, 2, 3, 5, 0o2004000
    watched, alone = seccomp.watch(arch), seccomp.confinement(arch, unix=False)
    for family, kind, is_one in (
        (unix, letters, True),
        (unix, letters | flags, True),
        (unix, raw | flags, True),
        (unix, stream | flags, False),
        (unix, packets, False),
        (inet, letters, False),
    ):
        expected = NOTIFY if is_one else ALLOW
        assert [verdict(watched, ARCHES[arch], number, family, kind) for number in (make, make_two)] == [expected] * 2
        answer = verdict(alone, ARCHES[arch], make_two, family, kind)
        assert answer == (errno_of(errno.EPERM) if is_one else ALLOW)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls by number")
async def test_the_kernel_agrees(table: ProcessTable, command: Callable[..., Command], folder: Path) -> None:
    numbers = [numbers[0] for numbers in CLOSED.values()]
    (folder / "try.py").write_text(
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def call(*words):\n"
        "    ctypes.set_errno(0)\n"
        "    libc.syscall(*[ctypes.c_long(word) for word in words])\n"
        "    return ctypes.get_errno()\n"
        f"print([call(number, -1, -1, -1, -1) for number in {numbers}])\n"
        "print(call(435, 0, 0), call(470), call(0x40000000 + 39), call(56, 0x10000011), call(272, 0x10000000))\n"
    )
    policy = SandboxPolicy(mode="workspace-write")
    finished = await table.run(command("python3 try.py", policy), timeout_s=20)
    refused, others = finished.output.peek().text().splitlines()
    assert refused == str([errno.EPERM] * len(numbers))
    assert others == f"{errno.ENOSYS} {errno.ENOSYS} {errno.ENOSYS} {errno.EPERM} {errno.EPERM}"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code")
async def test_the_old_gate_into_the_kernel_is_closed(
    table: ProcessTable, command: Callable[..., Command], folder: Path
) -> None:
    (folder / "gate.py").write_text(
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
        "page.write(bytes.fromhex('b814000000cd80c3'))  # getpid by int 0x80\n"
        "print('calling', flush=True)\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))())\n"
    )
    bare = await table.run(command("python3 gate.py"), timeout_s=20)
    assert bare.exit_code == 0
    finished = await table.run(command("python3 gate.py", SandboxPolicy(mode="read-only")), timeout_s=20)
    assert finished.exit_code == 128 + 31
    assert finished.output.peek().text().splitlines()[0] == "calling"
