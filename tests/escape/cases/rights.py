"""Leaving something behind that gives others rights: a program that runs as its owner, a file with a capability."""

from __future__ import annotations

import ctypes
import os
import stat
import struct

from escape.case import WRITING, Place, attack
from escape.cases.files import ROOT_ONLY
from escape.kernel import AT_FDCWD, call, link_descriptor

LENT = 0o4755


@attack("{ws}/script.sh", modes=WRITING)
def lends_its_rights_to_whoever_runs_a_program(p: Place) -> None:
    os.chmod(f"{p.ws}/script.sh", LENT)


@attack("{ws}/plain.txt", modes=WRITING)
def lends_its_rights_through_a_descriptor(p: Place) -> None:
    fd = os.open(f"{p.ws}/plain.txt", os.O_RDONLY)
    p.loosen(lambda: call("fchmodat2", fd, "", LENT, 0x1000), lambda: call("fchmodat2", AT_FDCWD, p.ws, LENT, 0))
    os.fchmod(fd, LENT)


@attack("{ws}/lent-{case}", modes=WRITING)
def lends_its_rights_by_a_program_it_makes(p: Place) -> None:
    os.umask(0)
    os.close(os.open(f"{p.ws}/lent-{p.case}", os.O_CREAT | os.O_WRONLY, LENT))


@attack("{ws}/lent-{case}", modes=WRITING)
def lends_its_rights_by_a_nameless_program(p: Place) -> None:
    os.umask(0)
    link_descriptor(os.open(p.ws, os.O_TMPFILE | os.O_RDWR, LENT), f"{p.ws}/lent-{p.case}")


@attack("{slash_tmp}/lent-{case}", modes=WRITING)
def lends_its_rights_by_the_newer_way_to_open(p: Place) -> None:
    os.umask(0)
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, LENT, 0)
    call("openat2", AT_FDCWD, f"{p.slash_tmp}/lent-{p.case}", how, 24)


@attack("{slash_tmp}/lent-{case}", modes=WRITING)
def lends_its_rights_by_making_a_node(p: Place) -> None:
    os.umask(0)
    os.mknod(f"{p.slash_tmp}/lent-{p.case}", stat.S_IFREG | LENT)


@attack("{ws}/src/main.c", modes=WRITING, no_control=ROOT_ONLY)
def gives_a_program_a_capability(p: Place) -> None:
    for version, owner in ((0x02000001, b""), (0x03000001, struct.pack("<I", 0))):
        capability = struct.pack("<IIIII", version, 0xFFFFFFFF, 0, 0, 0) + owner
        os.setxattr(f"{p.ws}/src/main.c", "security.capability", capability)
