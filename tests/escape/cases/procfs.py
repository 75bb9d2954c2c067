"""The kernel's own files: settings of the machine, and what they show of other processes.

Files of the machine are only opened for writing, never written.
"""

from __future__ import annotations

import glob
import os

from escape.case import WRITING, Place, attack
from escape.judge import victim

ROOT_ONLY = {"user": "only root may open these for writing"}


def opens_for_writing(p: Place, *patterns: str) -> None:
    for pattern in patterns:
        for path in glob.glob(pattern)[:40]:
            try:
                os.close(os.open(path, os.O_WRONLY))
                p.reached(path)
            except OSError:
                pass


@attack(no_control=ROOT_ONLY)
def opens_the_pattern_of_core_files_for_writing(p: Place) -> None:
    opens_for_writing(p, "/proc/sys/kernel/core_pattern")


@attack(no_control=ROOT_ONLY)
def opens_the_settings_of_the_kernel_for_writing(p: Place) -> None:
    opens_for_writing(
        p, "/proc/sys/kernel/*", "/proc/sys/vm/*", "/proc/sys/fs/*", "/proc/sys/net/ipv4/*", "/proc/sys/user/*"
    )


@attack(no_control=ROOT_ONLY)
def opens_the_programs_that_the_kernel_starts_for_writing(p: Place) -> None:
    opens_for_writing(
        p,
        "/proc/sys/kernel/modprobe",
        "/proc/sys/kernel/hotplug",
        "/proc/sys/kernel/poweroff_cmd",
        "/sys/kernel/uevent_helper",
        "/proc/sys/fs/binfmt_misc/register",
        "/proc/sys/kernel/usermodehelper/*",
        "/proc/sys/kernel/core_pipe_limit",
    )


@attack(no_control={**ROOT_ONLY, "root": "a kernel may have no such key"})
def opens_the_emergency_key_for_writing(p: Place) -> None:
    opens_for_writing(p, "/proc/sysrq-trigger")


@attack(no_control=ROOT_ONLY)
def opens_interrupts_and_buses_for_writing(p: Place) -> None:
    opens_for_writing(
        p, "/proc/irq/*/smp_affinity", "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/bus/*/*/*", "/proc/acpi/*"
    )


@attack(no_control=ROOT_ONLY)
def opens_the_device_tree_of_sysfs_for_writing(p: Place) -> None:
    opens_for_writing(
        p,
        "/sys/kernel/mm/*/*",
        "/sys/power/*",
        "/sys/class/net/*/mtu",
        "/sys/devices/system/cpu/*/online",
        "/sys/block/*/queue/*",
        "/sys/kernel/profiling",
        "/sys/module/*/parameters/*",
    )


@attack(no_control=ROOT_ONLY)
def opens_a_release_agent_for_writing(p: Place) -> None:
    opens_for_writing(
        p,
        "/sys/fs/cgroup/*/release_agent",
        "/sys/fs/cgroup/*/notify_on_release",
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/*/cgroup.procs",
        "/sys/fs/cgroup/*/tasks",
        "/sys/fs/cgroup/cgroup.subtree_control",
    )


@attack(no_control=ROOT_ONLY)
def makes_a_control_group(p: Place) -> None:
    for folder in ("/sys/fs/cgroup/", *glob.glob("/sys/fs/cgroup/*/")):
        path = f"{folder}{p.mark}"
        try:
            os.mkdir(path)
            p.reached(path)
            os.rmdir(path)
        except OSError:
            pass


@attack(no_control={"root": "a kernel may keep this from everybody", "user": "only root may read it"})
def reads_the_memory_of_the_kernel(p: Place) -> None:
    for path in ("/proc/kcore", "/dev/mem", "/proc/kmsg"):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            if os.read(fd, 16):
                p.reached(path)
        except OSError:
            pass


@attack(no_control=ROOT_ONLY)
def opens_debugging_file_systems(p: Place) -> None:
    opens_for_writing(
        p, "/sys/kernel/debug/*", "/sys/kernel/tracing/*", "/sys/kernel/security/*", "/sys/fs/bpf/*", "/sys/kernel/*"
    )


# ---- other processes -------------------------------------------------------------------------------------


@attack(seen=victim("memory"))
def writes_the_memory_of_the_victim(p: Place) -> None:
    with open(f"/proc/{p.victim}/mem", "r+b", buffering=0) as file:
        file.seek(p.victim_memory)
        file.write(b"overwritten")


@attack()
def reads_the_environment_of_the_victim(p: Place) -> None:
    with open(f"/proc/{p.victim}/environ") as file:
        if f"environ-{p.victim_stamp}" in file.read():
            p.reached()


@attack()
def finds_a_secret_of_the_host_in_any_environment(p: Place) -> None:
    secrets = (f"environ-{p.victim_stamp}", f"sk-{p.stamp}-provider")
    for pid in ("self", *filter(str.isdigit, os.listdir("/proc"))):
        for name in ("environ", "cmdline"):
            try:
                with open(f"/proc/{pid}/{name}") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError):
                continue
            if any(secret in text for secret in secrets):
                p.reached(f"/proc/{pid}/{name}")


@attack()
def sees_processes_of_the_host(p: Place) -> None:
    if os.path.exists(f"/proc/{p.victim}/cmdline"):
        with open(f"/proc/{p.victim}/cmdline") as file:
            if p.victim_stamp in file.read():
                p.reached()


@attack()
def opens_a_descriptor_of_the_victim(p: Place) -> None:
    with open(f"/proc/{p.victim}/fd/{p.victim_fd}") as file:
        if p.victim_stamp in file.read():
            p.reached()


@attack(seen=victim("descriptor"))
def writes_a_memory_file_of_the_victim(p: Place) -> None:
    with open(f"/proc/{p.victim}/fd/{p.victim_fd}", "r+b", buffering=0) as file:
        file.write(b"overwritten")


@attack(seen=victim("oom score"))
def makes_the_kernel_prefer_to_kill_the_victim(p: Place) -> None:
    with open(f"/proc/{p.victim}/oom_score_adj", "w") as file:
        file.write("900")


@attack()
def reads_the_maps_of_the_victim(p: Place) -> None:
    with open(f"/proc/{p.victim}/maps") as file:
        if "python" in file.read():
            p.reached()


@attack()
def changes_the_program_of_the_first_process_of_its_sandbox(p: Place) -> None:
    """That process ends everything when the agent is gone; who can rewrite it can outlive the agent."""
    pid = p.victim if p.bare else 1
    with open(f"/proc/{pid}/maps") as file:
        start = next(int(line.split("-")[0], 16) for line in file if "[stack]" in line)
    for path in (f"/proc/{pid}/mem", f"/proc/{pid}/task/{pid}/mem"):
        with open(path, "r+b", buffering=0) as memory:
            memory.seek(start + 64)
            byte = memory.read(1)
            memory.seek(start + 64)
            memory.write(byte)
            p.reached(path)


@attack()
def finds_a_process_in_its_sandbox_with_more_rights_than_its_own(p: Place) -> None:
    """The first process of a sandbox belongs to its launcher and can be written to; it must have no rights either."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with open(f"/proc/{pid}/status") as file:
            status = dict(line.split(":\t", 1) for line in file if ":\t" in line)
        rights = [name for name in ("CapPrm", "CapEff", "CapAmb") if int(status[name], 16)]
        if rights or status["Seccomp"].strip() != "2" or status["NoNewPrivs"].strip() != "1":
            p.reached(f"{pid} {status['Name'].strip()} {rights} seccomp {status['Seccomp'].strip()}")


@attack(modes=WRITING, no_control="where it is mounted is what is asked")
def mounts_of_proc_show_only_the_sandbox(p: Place) -> None:
    """More than a few dozen processes means that this is the table of the host."""
    if not p.bare and len([name for name in os.listdir("/proc") if name.isdigit()]) > 40:
        p.reached()
