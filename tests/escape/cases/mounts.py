"""Changing what is mounted where, with the old calls, the new calls, and in namespaces of one's own.

Bare there is no fence to take down, so the step that loosens it is left out of the control (`Place.loosen`); the write
that follows shows whether it helped.
"""

from __future__ import annotations

import ctypes
import os

from escape.case import WRITING, Place, attack
from escape.judge import mounted
from escape.kernel import (
    AT_FDCWD,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    MNT_DETACH,
    MS_BIND,
    MS_REC,
    MS_REMOUNT,
    call,
    mount,
)

ROOT_ONLY = {"user": "mounting needs a capability of root"}
OPEN_TREE_CLONE, AT_RECURSIVE, MOVE_MOUNT_F_EMPTY_PATH, MOUNT_ATTR_RDONLY = 1, 0x8000, 4, 1
FSCONFIG_CMD_CREATE = 6


def scribble(p: Place) -> None:
    with open(p.canary, "a") as file:
        file.write(p.mark)


@attack(seen=mounted, no_control=ROOT_ONLY)
def mounts_a_file_system_that_the_host_sees(p: Place) -> None:
    target = f"{p.ws}/{p.mark}"
    os.mkdir(target)
    mount("tmpfs", target, "tmpfs", 0)


@attack("{canary}")
def remounts_the_root_writable(p: Place) -> None:
    p.loosen(
        lambda: mount(None, "/", None, MS_REMOUNT | MS_BIND),
        lambda: mount(None, "/", None, MS_REMOUNT),
        lambda: mount("/", "/", None, MS_BIND | MS_REC),
    )
    scribble(p)


@attack("{canary}")
def remounts_the_folder_outside_writable(p: Place) -> None:
    p.loosen(
        lambda: mount(p.outside, p.outside, None, MS_BIND),
        lambda: mount(None, p.outside, None, MS_REMOUNT | MS_BIND),
    )
    scribble(p)


@attack("{canary}", modes=WRITING)
def binds_the_outside_over_a_folder_of_the_workspace(p: Place) -> None:
    os.mkdir(f"{p.ws}/{p.case}")
    p.loosen(lambda: mount(p.outside, f"{p.ws}/{p.case}", None, MS_BIND))
    folder = p.outside if p.bare else f"{p.ws}/{p.case}"
    with open(f"{folder}/{p.case}.txt", "a") as file:
        file.write(p.mark)


@attack("{canary}")
def clears_read_only_with_the_new_call(p: Place) -> None:
    attributes = (ctypes.c_uint64 * 4)(0, MOUNT_ATTR_RDONLY, 0, 0)
    p.loosen(lambda: call("mount_setattr", AT_FDCWD, "/", AT_RECURSIVE, attributes, 32))
    scribble(p)


@attack("{canary}")
def mounts_in_a_namespace_of_its_own(p: Place) -> None:
    p.loosen(
        lambda: call("unshare", CLONE_NEWUSER | CLONE_NEWNS),
        lambda: call("unshare", CLONE_NEWNS),
        lambda: mount(None, "/", None, MS_REMOUNT | MS_BIND),
    )
    scribble(p)


@attack(no_control=ROOT_ONLY)
def makes_a_detached_copy_of_the_tree(p: Place) -> None:
    call("open_tree", AT_FDCWD, "/", OPEN_TREE_CLONE | AT_RECURSIVE)
    p.reached()


@attack(no_control={"root": "the call may be missing in this kernel", "user": "mounting needs a capability of root"})
def makes_a_writable_copy_of_the_tree_with_the_newest_call(p: Place) -> None:
    attributes = (ctypes.c_uint64 * 4)(0, MOUNT_ATTR_RDONLY, 0, 0)
    call("open_tree_attr", AT_FDCWD, "/", OPEN_TREE_CLONE | AT_RECURSIVE, attributes, 32)
    p.reached()


@attack(no_control=ROOT_ONLY)
def makes_a_file_system_with_the_new_calls(p: Place) -> None:
    context = call("fsopen", "tmpfs", 0)
    p.reached("fsopen")
    call("fsconfig", context, FSCONFIG_CMD_CREATE, 0, 0, 0)
    call("fsmount", context, 0, 0)
    p.reached("fsmount")


@attack(no_control=ROOT_ONLY)
def picks_the_root_for_reconfiguration(p: Place) -> None:
    call("fspick", AT_FDCWD, "/", 0)
    p.reached()


@attack(no_control="moving a mount of the host would disturb it")
def moves_a_mount(p: Place) -> None:
    if not p.bare:
        for source in ("/proc", "/dev", p.ws):
            try:
                call("move_mount", AT_FDCWD, source, AT_FDCWD, p.ws, 0)
                p.reached(source)
            except OSError:
                pass


@attack("{ws}/.git", "{ws}/.codex", modes=WRITING)
def unmounts_what_protects_the_repository(p: Place) -> None:
    p.loosen(
        lambda: call("umount2", f"{p.ws}/.git", MNT_DETACH),
        lambda: call("umount2", f"{p.ws}/.codex", 0),
        lambda: call("umount2", p.ws, MNT_DETACH),
    )
    with open(f"{p.ws}/.git/hooks/post-checkout", "w") as file:
        file.write(p.mark)


@attack(no_control="unmounting something of the host would disturb it")
def unmounts_the_private_folders_of_the_sandbox(p: Place) -> None:
    if not p.bare:
        for target in ("/proc", "/dev", "/dev/shm", "/proc/sys", "/tmp", p.ws, "/"):
            try:
                call("umount2", target, MNT_DETACH)
                p.reached(target)
            except OSError:
                pass


@attack(no_control="changing the root of the host would disturb it")
def changes_the_root_of_the_tree(p: Place) -> None:
    if not p.bare:
        call("pivot_root", p.ws, p.ws)
        p.reached()


@attack(no_control={"user": "changing the root needs a capability of root"})
def changes_its_root_folder(p: Place) -> None:
    os.chroot(p.ws)
    p.reached()


@attack(modes=WRITING, no_control=ROOT_ONLY)
def lays_a_layer_over_the_outside(p: Place) -> None:
    for name in ("upper", "work", "merged"):
        os.mkdir(f"{p.ws}/{p.case}-{name}")
    base = f"{p.ws}/{p.case}"
    if p.bare:
        call("unshare", CLONE_NEWNS)
        mount(None, "/", None, MS_REC | 1 << 18)
        mount("tmpfs", f"{base}-merged", "tmpfs", 0)
        for name in ("u", "w", "m"):
            os.mkdir(f"{base}-merged/{name}")
        mount(
            "overlay",
            f"{base}-merged/m",
            "overlay",
            0,
            f"lowerdir=/etc,upperdir={base}-merged/u,workdir={base}-merged/w",
        )
    else:
        mount("overlay", f"{base}-merged", "overlay", 0, f"lowerdir=/etc,upperdir={base}-upper,workdir={base}-work")
    p.reached()


@attack("{canary}", no_control={"user": "an ordinary user may not enter the namespaces of the system"})
def enters_the_mounts_of_the_victim(p: Place) -> None:
    fd = os.open(f"/proc/{p.victim}/ns/mnt", os.O_RDONLY)
    call("setns", fd, 0)
    scribble(p)


@attack("{canary}", no_control={"user": "an ordinary user may not enter the namespaces of the system"})
def enters_the_mounts_of_the_first_process(p: Place) -> None:
    for pid in (1, os.getppid()):
        try:
            call("setns", os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY), CLONE_NEWNS)
            break
        except OSError:
            pass
    else:
        if p.bare:
            raise OSError(1, "refused")
    scribble(p)


@attack("{canary}", no_control={"user": "an ordinary user may not enter the namespaces of the system"})
def enters_namespaces_through_a_process_descriptor(p: Place) -> None:
    call("setns", call("pidfd_open", p.victim, 0), CLONE_NEWNS)
    scribble(p)


@attack()
def reads_the_name_of_a_mount_below_another(p: Place) -> None:
    """A read-only root that still lists a writable mount outside the roots is a hole of the mount plan."""
    allowed = (p.ws, p.extra, p.tmpdir, "/tmp", "/dev", "/proc", p.deny)  # what is denied is covered with memory
    with open("/proc/self/mountinfo") as file:
        for line in file:
            words = line.split()
            target, options = words[4], words[5].split(",")
            if "rw" in options and not any(target == one or target.startswith(one + "/") for one in allowed):
                p.reached(target)
