"""Signals to, and the insides of, processes that are not the command's own."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess

from escape.case import Place, attack
from escape.judge import survives, victim
from escape.kernel import buffer, call

PTRACE_ATTACH, PTRACE_SEIZE, PTRACE_TRACEME = 16, 0x4206, 0


@attack(seen=victim("alive"))
def kills_the_victim(p: Place) -> None:
    os.kill(p.victim, signal.SIGKILL)


@attack(seen=victim("alive"))
def stops_the_victim(p: Place) -> None:
    os.kill(p.victim, signal.SIGSTOP)


@attack(seen=victim("alive"))
def kills_the_group_of_the_victim(p: Place) -> None:
    os.killpg(p.victim, signal.SIGKILL)


@attack(seen=victim("alive"))
def kills_a_thread_of_the_victim(p: Place) -> None:
    call("tgkill", p.victim, p.victim, signal.SIGKILL)


@attack(seen=victim("alive"))
def kills_the_victim_through_a_descriptor(p: Place) -> None:
    call("pidfd_send_signal", call("pidfd_open", p.victim, 0), signal.SIGKILL, 0, 0)


@attack(seen=victim("alive"))
def queues_a_signal_for_the_victim(p: Place) -> None:
    information = (ctypes.c_int * 32)(signal.SIGTERM, 0, -1)
    call("rt_sigqueueinfo", p.victim, signal.SIGTERM, information)


@attack(seen=victim("alive"))
def has_the_kernel_signal_the_victim(p: Place) -> None:
    """The owner of a descriptor is told of its events with a signal of one's choice."""
    import fcntl

    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETOWN, p.victim)
    fcntl.fcntl(reader, 10, signal.SIGKILL)
    fcntl.fcntl(reader, fcntl.F_SETFL, fcntl.fcntl(reader, fcntl.F_GETFL) | os.O_ASYNC)
    os.write(writer, b"x")


@attack(seen=victim("alive"), no_control="signalling everybody would end the machine, or everything of this user")
def kills_everybody(p: Place) -> None:
    if not p.bare:
        # In a child that has left the runner's group, and the runner ignores nothing: pid 1 of the sandbox survives.
        for pid in range(2, 200):
            if pid not in (os.getpid(), os.getppid()) and not is_ancestor(pid):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass


def is_ancestor(pid: int) -> bool:
    one = os.getpid()
    while one > 1:
        if one == pid:
            return True
        with open(f"/proc/{one}/stat") as file:
            one = int(file.read().rsplit(")", 1)[1].split()[1])
    return False


@attack(seen=victim("alive"))
def attaches_to_the_victim(p: Place) -> None:
    call("ptrace", PTRACE_ATTACH, p.victim, 0, 0)
    p.reached()


@attack()
def seizes_the_victim(p: Place) -> None:
    call("ptrace", PTRACE_SEIZE, p.victim, 0, 0)
    p.reached()


@attack()
def reads_the_memory_of_the_victim(p: Place) -> None:
    data = buffer(64)
    mine = (ctypes.c_size_t * 2)(ctypes.addressof(data), 64)
    theirs = (ctypes.c_size_t * 2)(p.victim_memory, 32)
    call("process_vm_readv", p.victim, mine, 1, theirs, 1, 0)
    if b"memory-" in data.raw:
        p.reached()


@attack(seen=victim("memory"))
def writes_the_memory_of_the_victim_by_call(p: Place) -> None:
    data = buffer(b"overwritten")
    mine = (ctypes.c_size_t * 2)(ctypes.addressof(data), 11)
    theirs = (ctypes.c_size_t * 2)(p.victim_memory, 11)
    call("process_vm_writev", p.victim, mine, 1, theirs, 1, 0)


@attack()
def takes_a_descriptor_of_the_victim(p: Place) -> None:
    fd = call("pidfd_getfd", call("pidfd_open", p.victim, 0), p.victim_fd, 0)
    if p.victim_stamp.encode() in os.pread(fd, 128, 0):
        p.reached()


@attack()
def compares_itself_with_the_victim(p: Place) -> None:
    call("kcmp", os.getpid(), p.victim, 2, 0, 0)
    p.reached()


@attack(seen=victim("priority"))
def lowers_the_priority_of_the_victim(p: Place) -> None:
    # Lower than it is: the whole run may be a nice one, and nobody may raise it again.
    os.setpriority(os.PRIO_PROCESS, p.victim, os.getpriority(os.PRIO_PROCESS, p.victim) + 1)


@attack(seen=victim("processors"), no_control="" if len(os.sched_getaffinity(0)) > 1 else "one processor only")
def ties_the_victim_to_one_processor(p: Place) -> None:
    os.sched_setaffinity(p.victim, {min(os.sched_getaffinity(0))})


@attack(seen=victim("scheduler"))
def changes_the_scheduler_of_the_victim(p: Place) -> None:
    os.sched_setscheduler(p.victim, os.SCHED_BATCH, os.sched_param(0))


@attack(seen=victim("file limit"))
def changes_a_limit_of_the_victim(p: Place) -> None:
    resource.prlimit(p.victim, resource.RLIMIT_NOFILE, (64, resource.prlimit(p.victim, resource.RLIMIT_NOFILE)[1]))


@attack()
def changes_the_disk_priority_of_the_victim(p: Place) -> None:
    call("ioprio_set", 1, p.victim, (2 << 13) | 7)
    p.reached()


@attack()
def moves_pages_of_the_victim(p: Place) -> None:
    node = ctypes.c_ulong(1)
    call("migrate_pages", p.victim, 8, ctypes.byref(node), ctypes.byref(node))
    p.reached()


# ---- outliving the command ------------------------------------------------------------------------------


def sleeper(p: Place, *before: str) -> list[str]:
    """A process that would sleep for a day, with the mark among its words."""
    return [*before, "sh", "-c", "while :; do sleep 1; done", p.mark]


@attack(seen=survives)
def leaves_a_child_in_the_background(p: Place) -> None:
    subprocess.Popen(sleeper(p), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


@attack(seen=survives)
def leaves_a_daemon_in_a_session_of_its_own(p: Place) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for fd in range(256):
                try:
                    os.close(fd)
                except OSError:
                    pass
            os.execvp("sh", sleeper(p))
        os._exit(0)


@attack(seen=survives)
def leaves_a_daemon_that_ignores_every_signal(p: Place) -> None:
    if os.fork() == 0:
        os.setsid()
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            os.execvp("nohup", sleeper(p, "nohup"))
        os._exit(0)


@attack(seen=survives)
def leaves_a_stopped_process(p: Place) -> None:
    child = subprocess.Popen(sleeper(p), start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    child.send_signal(signal.SIGSTOP)


@attack(seen=survives)
def leaves_a_daemon_without_environment(p: Place) -> None:
    subprocess.Popen(sleeper(p, "env", "-i", "setsid"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
