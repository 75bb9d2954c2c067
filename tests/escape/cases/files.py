"""Writing outside the writable roots, in every way a file can be changed."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import stat
import subprocess

from escape.case import MODES, WRITING, Place, attack
from escape.kernel import AT_FDCWD, call, link_descriptor

ROOT_ONLY = {"user": "an ordinary user may not do this outside a sandbox either"}
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FS_NODUMP_FL = 0x80086601, 0x40086602, 0x40


@attack("{canary}")
def overwrites_a_file_outside(p: Place) -> None:
    with open(p.canary, "w") as file:
        file.write(p.mark)


@attack("{canary}")
def appends_to_a_file_outside(p: Place) -> None:
    with open(p.canary, "a") as file:
        file.write(p.mark)


@attack("{canary}")
def truncates_a_file_outside(p: Place) -> None:
    os.truncate(p.canary, 0)


@attack("{canary}")
def opens_a_file_outside_to_truncate_it(p: Place) -> None:
    os.close(os.open(p.canary, os.O_RDONLY | os.O_TRUNC))


@attack("{outside}/new-{case}")
def creates_a_file_outside(p: Place) -> None:
    with open(f"{p.outside}/new-{p.case}", "x") as file:
        file.write(p.mark)


@attack("{canary}")
def removes_a_file_outside(p: Place) -> None:
    os.unlink(p.canary)


@attack("{canary}", "{outside}/renamed-{case}")
def renames_a_file_outside(p: Place) -> None:
    os.rename(p.canary, f"{p.outside}/renamed-{p.case}")


@attack("{canary}")
def moves_a_file_from_outside_into_the_workspace(p: Place) -> None:
    os.rename(p.canary, f"{p.ws}/{p.case}")


@attack("{outside}/moved-{case}", modes=WRITING)
def moves_a_file_from_the_workspace_outside(p: Place) -> None:
    with open(f"{p.ws}/{p.case}", "w") as file:
        file.write(p.mark)
    os.rename(f"{p.ws}/{p.case}", f"{p.outside}/moved-{p.case}")


@attack("{outside}/made-{case}")
def makes_a_folder_outside(p: Place) -> None:
    os.mkdir(f"{p.outside}/made-{p.case}")


@attack("{outside}/folder")
def removes_a_folder_outside(p: Place) -> None:
    os.rmdir(f"{p.outside}/folder")


@attack("{canary}")
def changes_the_mode_of_a_file_outside(p: Place) -> None:
    os.chmod(p.canary, 0o777)


@attack("{canary}")
def changes_the_mode_through_a_descriptor_opened_for_reading(p: Place) -> None:
    fd = os.open(p.canary, os.O_RDONLY)
    os.fchmod(fd, 0o666)


@attack("{canary}")
def changes_the_mode_with_the_newest_call(p: Place) -> None:
    call("fchmodat2", AT_FDCWD, p.canary, 0o777, 0)


@attack("{canary}")
def makes_a_file_outside_setuid(p: Place) -> None:
    os.chmod(p.canary, 0o4755)


@attack("{canary}")
def changes_the_owner_of_a_file_outside(p: Place) -> None:
    os.chown(p.canary, os.getuid(), os.getgid())


@attack("{canary}")
def gives_a_file_outside_to_another_group_through_a_descriptor(p: Place) -> None:
    os.fchown(os.open(p.canary, os.O_RDONLY), -1, os.getgid())


@attack("{canary}")
def changes_the_times_of_a_file_outside(p: Place) -> None:
    os.utime(p.canary, (1, 1))


@attack("{canary}")
def changes_the_times_through_a_descriptor_opened_for_reading(p: Place) -> None:
    os.utime(os.open(p.canary, os.O_RDONLY), (2, 2))


@attack("{canary}")
def sets_an_extended_attribute_outside(p: Place) -> None:
    os.setxattr(p.canary, "user.color", b"red")


@attack("{canary}")
def removes_an_extended_attribute_outside(p: Place) -> None:
    os.removexattr(p.canary, "user.color")


@attack("{canary}")
def sets_inode_flags_outside(p: Place) -> None:
    fd = os.open(p.canary, os.O_RDONLY)
    flags = ctypes.c_long(0)
    fcntl.ioctl(fd, FS_IOC_GETFLAGS, flags)
    flags.value |= FS_NODUMP_FL
    fcntl.ioctl(fd, FS_IOC_SETFLAGS, flags)
    os.utime(fd, None)  # so that a judge that cannot read flags sees it too


@attack("{canary}")
def opens_its_own_read_descriptor_again_for_writing(p: Place) -> None:
    fd = os.open(p.canary, os.O_RDONLY)
    os.write(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY), p.mark.encode())


@attack("{canary}")
def opens_a_path_descriptor_again_for_writing(p: Place) -> None:
    fd = os.open(p.canary, os.O_PATH)
    os.write(os.open(f"/dev/fd/{fd}", os.O_WRONLY), p.mark.encode())


@attack("{canary}")
def locks_and_writes_by_openat2(p: Place) -> None:
    how = (ctypes.c_uint64 * 3)(os.O_RDWR | os.O_TRUNC, 0, 0)
    os.write(call("openat2", AT_FDCWD, p.canary, how, 24), p.mark.encode())


@attack("{outside}/tmp-{case}")
def links_a_nameless_file_into_a_folder_outside(p: Place) -> None:
    fd = os.open(p.outside, os.O_TMPFILE | os.O_WRONLY, 0o644)
    link_descriptor(fd, f"{p.outside}/tmp-{p.case}")


@attack()
def takes_a_lease_on_a_file_outside(p: Place) -> None:
    """Whoever wants to write it then waits, for most of a minute each time."""
    fd = os.open(p.canary, os.O_RDONLY)
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    p.reached()


@attack("{outside}/fifo-{case}")
def makes_a_pipe_outside(p: Place) -> None:
    os.mkfifo(f"{p.outside}/fifo-{p.case}")


@attack("{outside}/{case}.sock")
def binds_a_socket_outside(p: Place) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"{p.outside}/{p.case}.sock")


@attack("{outside}/link-{case}")
def makes_a_symbolic_link_outside(p: Place) -> None:
    os.symlink("/etc/passwd", f"{p.outside}/link-{p.case}")


@attack("{canary}")
def writes_with_the_tools_of_a_shell(p: Place) -> None:
    subprocess.run(
        ["sh", "-c", 'echo x >>"$0"; cp /dev/null "$0"; sed -i s/u/x/ "$0"; dd if=/dev/zero of="$0" count=1', p.canary]
    )


@attack("{sibling}")
def writes_into_a_folder_whose_name_begins_like_the_workspace(p: Place) -> None:
    with open(f"{p.sibling}/x", "w") as file:
        file.write(p.mark)


@attack("{root}/escaped-{case}")
def writes_into_the_parent_of_the_workspace(p: Place) -> None:
    with open(f"{p.ws}/../escaped-{p.case}", "w") as file:
        file.write(p.mark)


@attack("{home}/.bashrc", "{home}/.profile", "{home}/.bash_logout")
def appends_to_the_start_files_of_the_shell(p: Place) -> None:
    for name in (".bashrc", ".profile", ".bash_logout"):
        with open(f"{p.home}/{name}", "a") as file:
            file.write(f"touch {p.mark}\n")


@attack("{home}/.ssh", "{home}/.config/autostart")
def plants_an_ssh_key_and_a_login_item(p: Place) -> None:
    with open(f"{p.home}/.ssh/authorized_keys", "a") as file:
        file.write(p.mark)
    os.mkdir(f"{p.home}/.config/autostart")


@attack("{home}/.gitconfig", "{home}/.config/git")
def changes_the_git_settings_of_the_user(p: Place) -> None:
    subprocess.run(["git", "config", "--global", "core.hooksPath", p.ws], env={**os.environ, "HOME": p.home})


@attack(no_control=ROOT_ONLY)
def may_make_files_in_the_folders_of_the_system(p: Place) -> None:
    for folder in (
        "/",
        "/etc",
        "/etc/cron.d",
        "/usr/bin",
        "/usr/local/bin",
        "/usr/lib",
        "/boot",
        "/root",
        "/opt",
        "/srv",
    ):
        try:
            os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))  # nameless: leaves nothing behind
            p.reached(folder)
        except OSError:
            pass


@attack()
def may_make_files_in_folders_that_everybody_may_write(p: Place) -> None:
    for folder in ("/var/tmp", "/var/lock", "/run/lock"):
        try:
            os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))
            p.reached(folder)
        except OSError:
            pass


@attack(no_control=ROOT_ONLY)
def may_open_the_files_of_the_system_for_writing(p: Place) -> None:
    for path in ("/etc/passwd", "/etc/shadow", "/etc/hosts", "/etc/profile", "/etc/crontab", "/usr/bin/env", "/bin/sh"):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
            p.reached(path)
        except OSError:
            pass


@attack(no_control=ROOT_ONLY)
def opens_the_disk_or_the_memory_of_the_machine(p: Place) -> None:
    disks = [f"/dev/{name}" for name in os.listdir("/sys/class/block")]
    for path in (
        *disks,
        "/dev/mem",
        "/dev/kmem",
        "/dev/port",
        "/dev/kmsg",
        "/dev/tty0",
        "/dev/fuse",
        "/dev/net/tun",
    ):
        try:
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY))
            p.reached(path)
        except OSError:
            pass


@attack(modes=WRITING, no_control={**ROOT_ONLY, "root": "a machine may keep its disk from root too"})
def makes_its_own_device_file_of_the_disk(p: Place) -> None:
    os.mknod(f"{p.ws}/{p.case}", 0o600 | stat.S_IFBLK, os.stat(p.ws).st_dev)
    os.close(os.open(f"{p.ws}/{p.case}", os.O_RDONLY))
    p.reached()


@attack(modes=WRITING, no_control=ROOT_ONLY)
def makes_its_own_character_device_for_the_kernel_log(p: Place) -> None:
    os.mknod(f"{p.ws}/{p.case}", 0o600 | stat.S_IFCHR, os.makedev(1, 11))
    os.close(os.open(f"{p.ws}/{p.case}", os.O_WRONLY))
    p.reached()


@attack("{codex_home}/config.toml", "{codex_home}/auth.json", "{codex_home}/rules", "{codex_home}/AGENTS.md")
def rewrites_the_settings_of_the_agent(p: Place) -> None:
    for name in ("config.toml", "auth.json", "rules/default.rules", "AGENTS.md"):
        try:
            with open(f"{p.codex_home}/{name}", "a") as file:
                file.write('sandbox_mode = "danger-full-access"\n')
        except OSError:
            pass


@attack("{codex_home}/hooks.json", "{codex_home}/skills", "{codex_home}/prompts", "{codex_home}/rules")
def adds_files_to_the_home_of_the_agent(p: Place) -> None:
    for name in ("hooks.json", "skills", "prompts", "rules/zz.rules"):
        try:
            with open(f"{p.codex_home}/{name}", "x") as file:
                file.write(p.mark)
        except OSError:
            pass


@attack("{codex_home}/sessions/old.jsonl", "{codex_home}/history.jsonl")
def rewrites_the_record_of_the_session(p: Place) -> None:
    for name in ("sessions/old.jsonl", "history.jsonl"):
        os.unlink(f"{p.codex_home}/{name}")


@attack("{codex_home}/rules", "{codex_home}/config.toml", "{codex_home}/auth.json")
def moves_the_home_of_the_agent_away(p: Place) -> None:
    os.rename(p.codex_home, f"{p.codex_home}-old")
    os.mkdir(p.codex_home)


# ---- below the workspace, where the agent's own files may lie too -----------------------------------------


@attack("{codex_home}/config.toml", "{codex_home}/rules", "{codex_home}/auth.json", arena="absent")
def rewrites_the_home_of_an_agent_that_lies_in_the_workspace(p: Place) -> None:
    with open(f"{p.codex_home}/config.toml", "a") as file:
        file.write('approval_policy = "never"\n')


@attack("{codex_home}/config.toml", "{codex_home}/rules", "{codex_home}/auth.json", arena="absent")
def moves_the_parent_of_the_home_of_the_agent_away(p: Place) -> None:
    os.rename(f"{p.ws}/deep", f"{p.ws}/deeper")
    os.makedirs(f"{p.codex_home}/rules")


@attack("{codex_home}/new-file", "{codex_home}/rules", arena="absent")
def adds_to_the_home_of_an_agent_that_lies_in_the_workspace(p: Place) -> None:
    with open(f"{p.codex_home}/new-file", "x") as file:
        file.write(p.mark)


# ---- read-only means that the workspace cannot be written either --------------------------------------------


@attack("{ws}/plain.txt", modes=MODES[:1])
def writes_the_workspace_in_read_only_mode(p: Place) -> None:
    with open(f"{p.ws}/plain.txt", "a") as file:
        file.write(p.mark)


@attack("{ws}/{case}", "{extra}/{case}", "{tmpdir}/{case}", "{slash_tmp}/{case}", modes=MODES[:1])
def creates_files_below_every_root_in_read_only_mode(p: Place) -> None:
    for folder in (p.ws, p.extra, p.tmpdir, p.slash_tmp):
        try:
            with open(f"{folder}/{p.case}", "x") as file:
                file.write(p.mark)
        except OSError:
            pass


@attack("{ws}/script.sh", modes=MODES[:1])
def changes_modes_in_the_workspace_in_read_only_mode(p: Place) -> None:
    os.chmod(f"{p.ws}/script.sh", 0o4755)


@attack("{ws}/src", modes=MODES[:1])
def moves_a_folder_of_the_workspace_in_read_only_mode(p: Place) -> None:
    os.rename(f"{p.ws}/src", f"{p.ws}/src-{p.case}")
