"""Links, magic links, handles and races that lead out of a writable root."""

from __future__ import annotations

import ctypes
import os
import threading
import time

from escape.case import WRITING, Place, attack
from escape.judge import heard
from escape.kernel import AT_FDCWD, call, exchange, link_descriptor


def scribble(path: str, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


@attack("{canary}", modes=WRITING)
def writes_through_a_symbolic_link(p: Place) -> None:
    os.symlink(p.canary, f"{p.ws}/{p.case}")
    scribble(f"{p.ws}/{p.case}", p.mark)


@attack("{canary}", modes=WRITING)
def writes_through_a_link_to_a_folder(p: Place) -> None:
    os.symlink(p.outside, f"{p.ws}/{p.case}")
    scribble(f"{p.ws}/{p.case}/{p.case}.txt", p.mark)


@attack("{canary}")
def writes_through_a_link_that_the_repository_ships(p: Place) -> None:
    scribble(f"{p.ws}/link-to-outside/{p.case}.txt", p.mark)


@attack("{canary}", modes=WRITING)
def writes_through_a_chain_of_links_in_slash_tmp(p: Place) -> None:
    os.symlink(p.outside, f"{p.slash_tmp}/{p.case}-1")
    os.symlink(f"{p.case}-1", f"{p.slash_tmp}/{p.case}-2")
    scribble(f"{p.slash_tmp}/{p.case}-2/{p.case}.txt", p.mark)


@attack("{canary}", modes=WRITING)
def writes_through_a_hard_link(p: Place) -> None:
    os.link(p.canary, f"{p.ws}/{p.case}")
    scribble(f"{p.ws}/{p.case}", p.mark)


@attack("{canary}", modes=WRITING)
def writes_through_a_hard_link_made_of_a_descriptor(p: Place) -> None:
    fd = os.open(p.canary, os.O_RDONLY)
    link_descriptor(fd, f"{p.ws}/{p.case}")
    scribble(f"{p.ws}/{p.case}", p.mark)


@attack("{canary}", modes=WRITING)
def writes_through_a_hard_link_in_slash_tmp(p: Place) -> None:
    os.link(p.canary, f"{p.slash_tmp}/{p.case}")
    scribble(f"{p.slash_tmp}/{p.case}", p.mark)


@attack("{canary}")
def writes_through_proc_self_root(p: Place) -> None:
    scribble(f"/proc/self/root{p.canary}", p.mark)


@attack("{canary}")
def writes_through_the_root_of_every_process_it_sees(p: Place) -> None:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            scribble(f"/proc/{pid}/root{p.canary}", p.mark)
        except OSError:
            pass


@attack("{canary}")
def writes_through_the_folder_of_its_process(p: Place) -> None:
    os.chdir(p.outside)
    scribble(f"/proc/self/cwd/{p.case}.txt", p.mark)


@attack("{canary}")
def writes_through_the_folder_of_the_victim(p: Place) -> None:
    scribble(f"/proc/{p.victim}/cwd/{'../' * 20}{p.canary}", p.mark)


@attack("{canary}")
def writes_through_the_folder_of_a_thread(p: Place) -> None:
    scribble(f"/proc/self/task/{os.getpid()}/root{p.canary}", p.mark)


@attack("{canary}")
def writes_below_a_folder_descriptor(p: Place) -> None:
    folder = os.open(p.outside, os.O_PATH | os.O_DIRECTORY)
    fd = os.open(f"{p.case}.txt", os.O_WRONLY | os.O_APPEND, dir_fd=folder)
    os.write(fd, p.mark.encode())


@attack("{canary}")
def climbs_out_of_the_workspace(p: Place) -> None:
    os.chdir(p.ws)
    scribble(f"../outside/{p.case}.txt", p.mark)


@attack("{canary}")
def writes_through_a_doubled_slash_and_dots(p: Place) -> None:
    scribble(f"{p.ws}//.//..//outside/./{p.case}.txt", p.mark)


@attack("{canary}", no_control={"user": "opening by handle needs a capability of root"})
def opens_a_file_outside_by_its_handle(p: Place) -> None:
    handle = ctypes.create_string_buffer(136)
    ctypes.c_uint.from_buffer(handle).value = 128
    mount_id = ctypes.c_int()
    call("name_to_handle_at", AT_FDCWD, p.canary, handle, ctypes.byref(mount_id), 0)
    for folder in (p.ws, p.slash_tmp, "/"):
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.write(call("open_by_handle_at", root, handle, os.O_WRONLY | os.O_APPEND), p.mark.encode())
        except OSError:
            pass


@attack("{canary}", modes=WRITING)
def swaps_a_folder_for_a_link_while_it_writes(p: Place) -> None:
    """Race: the same name is a folder of the workspace, then a link to outside."""
    os.mkdir(f"{p.ws}/{p.case}-folder")
    os.symlink(p.outside, f"{p.ws}/{p.case}-link")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            exchange(f"{p.ws}/{p.case}-folder", f"{p.ws}/{p.case}-link")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        limit = time.monotonic() + (3 if p.bare else 0.15)
        while time.monotonic() < limit and os.path.getsize(p.canary) < 20:
            try:
                scribble(f"{p.ws}/{p.case}-folder/{p.case}.txt", p.mark)
            except OSError:
                pass
    finally:
        over.set()
        thread.join()


@attack("{canary}")
def copies_into_a_file_outside_with_splice(p: Place) -> None:
    source, target = os.open("/etc/passwd", os.O_RDONLY), os.open(p.canary, os.O_WRONLY)
    os.copy_file_range(source, target, 10)


@attack(seen=heard)
def writes_into_a_pipe_of_the_host_outside_the_roots(p: Place) -> None:
    """A read-only mount does not keep anybody from opening a FIFO for writing."""
    fd = os.open(p.fifo_outside, os.O_WRONLY | os.O_NONBLOCK)
    os.write(fd, p.mark.encode())


@attack("{canary}", seen=heard)
def writes_through_inherited_descriptors(p: Place) -> None:
    for fd in range(3, 4096):
        if fd == p.report:
            continue
        for step in (
            lambda fd=fd: os.write(fd, p.mark.encode()),
            lambda fd=fd: os.write(
                os.open(f"{p.case}.txt", os.O_WRONLY | os.O_APPEND, dir_fd=fd), f"by folder {p.mark}".encode()
            ),
        ):
            try:
                step()
            except OSError:
                pass


@attack()
def finds_descriptors_it_was_not_given(p: Place) -> None:
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if int(name) > 2 and int(name) != p.report and "/proc/" not in target:
            p.reached(f"{name} -> {target}")
