"""Kernel interfaces that no ordinary command needs, and other doors to the same kernel."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import time

from escape.case import Place, attack
from escape.kernel import (
    CLONE_NEWCGROUP,
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWTIME,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    IS_X86,
    SYS,
    buffer,
    call,
    run_code,
)

ROOT_ONLY = {"user": "the kernel keeps this from ordinary users"}
DANGEROUS = "succeeding would change the machine"
SYS_GETPID = 39


@attack()
def makes_a_ring_for_asynchronous_calls(p: Place) -> None:
    call("io_uring_setup", 4, buffer(256))
    p.reached()


@attack(no_control={"user": "the kernel keeps this from ordinary users", "root": "the kernel may have no programs"})
def loads_a_program_into_the_kernel(p: Place) -> None:
    call("bpf", 0, buffer(struct.pack("=IIII", 2, 4, 4, 1) + bytes(112)), 128)
    p.reached()


@attack(no_control={"root": "the kernel may count nothing", "user": "the kernel may keep this from ordinary users"})
def measures_the_kernel(p: Place) -> None:
    attributes = struct.pack("=IIQ", 1, 128, 0) + bytes(112)
    call("perf_event_open", buffer(attributes), 0, -1, -1, 0)
    p.reached()


@attack()
def handles_its_own_page_faults(p: Place) -> None:
    call("userfaultfd", 1)  # only faults of user mode: the kind ordinary users may have
    p.reached()


@attack(no_control=DANGEROUS)
def loads_a_module(p: Place) -> None:
    for name, arguments in (
        ("init_module", (0, 0, "")),
        ("finit_module", (-1, "", 0)),
        ("delete_module", ("no such", 0)),
    ):
        try:
            call(name, *arguments)
        except PermissionError:
            continue
        except OSError as error:
            if error.errno != 38:
                p.reached(f"{name}: {error}")


@attack(no_control=DANGEROUS)
def loads_another_kernel(p: Place) -> None:
    for name in ("kexec_load", "kexec_file_load"):
        try:
            call(name, -1, -1, 0, 0, 0xFFFFFFFF)
        except PermissionError:
            continue
        except OSError as error:
            if error.errno != 38:
                p.reached(f"{name}: {error}")


@attack(no_control=DANGEROUS)
def adjusts_the_clock(p: Place) -> None:
    if p.bare:
        return
    now = time.time_ns()
    for name, arguments in (
        ("settimeofday", ((ctypes.c_long * 2)(now // 10**9, now // 1000 % 10**6), 0)),
        ("clock_settime", (0, (ctypes.c_long * 2)(now // 10**9, now % 10**9))),
        ("adjtimex", ((ctypes.c_uint * 64)(0x8001),)),
    ):
        try:
            call(name, *arguments)
            p.reached(name)
        except OSError:
            pass


@attack(no_control=DANGEROUS)
def restarts_the_machine(p: Place) -> None:
    try:
        call("reboot", 1, 2, 3, 0)  # wrong magic numbers: refused for them only if the right was there
    except PermissionError:
        return
    except OSError as error:
        p.reached(str(error))


@attack(no_control=ROOT_ONLY)
def switches_accounting_or_swap(p: Place) -> None:
    for name, arguments in (("acct", (f"{p.root}/no such",)), ("swapon", (f"{p.root}/no such", 0))):
        try:
            call(name, *arguments)
        except PermissionError:
            continue
        except OSError as error:
            if error.errno != 38:
                p.reached(f"{name}: {error}")


@attack(no_control=ROOT_ONLY)
def renames_the_machine(p: Place) -> None:
    name = os.uname().nodename
    call("sethostname", name, len(name))
    p.reached()


@attack(no_control=ROOT_ONLY)
def reads_the_log_of_the_kernel(p: Place) -> None:
    if call("syslog", 3, buffer(4096), 4096) >= 0:
        p.reached()


@attack(no_control={"root": "the kernel may lack it", "user": "a capability of root"})
def watches_every_file(p: Place) -> None:
    call("fanotify_init", 0, 0)
    p.reached()


@attack(no_control="no quotas here, and changing them would change the machine")
def changes_quotas(p: Place) -> None:
    try:
        call("quotactl", 0x800002 << 8, "/dev/root", 0, 0)
    except OSError as error:
        if error.errno not in (1, 13, 38, 2, 15, 3, 22):
            p.reached(str(error))


@attack(no_control="a kernel may have no such call")
def opens_the_ports_of_the_machine(p: Place) -> None:
    if IS_X86 and not p.bare:
        call(172, 3)
        p.reached("iopl")


@attack(no_control="" if IS_X86 else "only this kind of machine has these")
def calls_through_the_gate_of_32_bit_programs(p: Place) -> None:
    """int 0x80 has other numbers, which a filter for 64 bits does not know: getpid there is 20."""
    if IS_X86:
        pid = run_code(b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3")
        if pid == os.getpid():
            p.reached(str(pid))


@attack(no_control="the kernel may have no such programs")
def calls_by_numbers_of_x32(p: Place) -> None:
    if IS_X86:
        answer = run_code(b"\xb8" + struct.pack("=I", 0x40000000 | SYS_GETPID) + b"\x0f\x05\xc3")
        if answer == os.getpid():
            p.reached()


@attack(no_control="the kernel may have no such programs")
def asks_for_a_ring_by_a_number_of_x32(p: Place) -> None:
    if IS_X86:
        call(0x40000000 | SYS["io_uring_setup"], 4, buffer(256))
        p.reached()


@attack(no_control="" if IS_X86 else "only this kind of machine has these")
def makes_a_namespace_through_the_gate_of_32_bit_programs(p: Place) -> None:
    """unshare is number 310 there."""
    if IS_X86:
        code = b"\x53\xb8" + struct.pack("=I", 310) + b"\xbb" + struct.pack("=I", CLONE_NEWUSER) + b"\xcd\x80\x5b\xc3"
        if ctypes.c_int(run_code(code)).value == 0:
            p.reached()


@attack()
def listens_to_its_own_system_calls(p: Place) -> None:
    """A second listener would hear of a connection before the one outside, and could let it pass."""
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
    allow = buffer(bytes.fromhex("06000000 0000ff7f"))
    call("seccomp", 1, 8, (ctypes.c_size_t * 2)(1, ctypes.addressof(allow)))
    p.reached()


# ---- namespaces -----------------------------------------------------------------------------------------


@attack()
def makes_a_user_namespace(p: Place) -> None:
    call("unshare", CLONE_NEWUSER)
    p.reached()


@attack()
def makes_namespaces_of_every_kind(p: Place) -> None:
    for flag in (CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWCGROUP, CLONE_NEWTIME):
        for extra in (0, CLONE_NEWUSER):
            pid = os.fork()
            if pid == 0:
                try:
                    call("unshare", flag | extra)
                    p.reached(hex(flag | extra))
                except OSError:
                    pass
                os._exit(0)
            os.waitpid(pid, 0)


@attack()
def clones_into_a_user_namespace(p: Place) -> None:
    pid = call("clone", CLONE_NEWUSER | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    p.reached()


@attack()
def clones_into_a_user_namespace_with_the_newer_call(p: Place) -> None:
    arguments = (ctypes.c_uint64 * 11)(CLONE_NEWUSER, 0, 0, 0, 17)
    pid = call("clone3", arguments, 88)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    p.reached()


@attack()
def clones_with_high_bits_set_in_the_flags(p: Place) -> None:
    """The kernel takes 64 bits, a filter may look at 32 of them."""
    pid = call("clone", (1 << 33) | CLONE_NEWUSER | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    p.reached()


@attack(no_control={"user": "an ordinary user may not enter the namespaces of the system"})
def enters_the_network_of_the_victim(p: Place) -> None:
    for pid in (p.victim, 1):
        try:
            fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            if not p.bare and os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):
                continue
            call("setns", fd, CLONE_NEWNET)
            p.reached()
        except OSError:
            pass


@attack()
def maps_memory_of_a_deleted_program_writable_and_executable(p: Place) -> None:
    """Not an escape by itself; the control shows that machine code can be run, so that the gates above are tried."""
    if not p.bare:
        return
    if IS_X86 and run_code(b"\xb8\x2a\x00\x00\x00\xc3") == 42:
        p.reached()
    elif not IS_X86:
        mmap.mmap(-1, 4096, prot=7).close()
        p.reached()


# ---- rights ---------------------------------------------------------------------------------------------


def status() -> dict[str, str]:
    with open("/proc/self/status") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


@attack(no_control={"user": "an ordinary user has none"})
def has_a_capability(p: Place) -> None:
    for name, value in status().items():
        if name in ("CapInh", "CapPrm", "CapEff", "CapAmb") and int(value, 16):
            p.reached(f"{name} {value}")


@attack()
def may_gain_rights_by_running_a_program(p: Place) -> None:
    if status()["NoNewPrivs"] != "1":
        p.reached("no_new_privs is off")


@attack()
def runs_without_a_filter(p: Place) -> None:
    if status()["Seccomp"] != "2":
        p.reached(f"seccomp mode {status()['Seccomp']}")


@attack()
def belongs_to_the_session_of_its_caller(p: Place) -> None:
    """A process of the caller's session may push characters into the caller's terminal."""
    pid = p.victim if not p.bare else os.getppid()
    if os.getsid(0) == os.getsid(pid):
        p.reached()


@attack(no_control={"user": "only root may become somebody else"})
def becomes_another_user(p: Place) -> None:
    os.setresuid(1, 1, 1)
    p.reached(str(os.getresuid()))


@attack(no_control={"user": "only root may choose its groups"})
def joins_other_groups(p: Place) -> None:
    os.setgroups([0, 4, 27, 999])
    p.reached()
