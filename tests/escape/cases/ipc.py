"""Shared memory, semaphores, queues and keys of other processes."""

from __future__ import annotations

import ctypes
import os
import struct

from escape.case import Place, attack
from escape.judge import victim
from escape.kernel import buffer, call

IPC_RMID, IPC_STAT = 0, 2
KEY_SESSION_RING, KEY_USER_RING, KEY_USER_SESSION_RING = -3, -4, -5
KEYCTL_UPDATE, KEYCTL_REVOKE, KEYCTL_SETPERM, KEYCTL_DESCRIBE, KEYCTL_LINK = 2, 3, 5, 6, 8
KEYCTL_SEARCH, KEYCTL_READ, KEYCTL_INVALIDATE, KEYCTL_GET_PERSISTENT = 10, 11, 21, 22


@attack(seen=victim("shared memory"))
def writes_shared_memory_of_the_victim(p: Place) -> None:
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(p.shm, None, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(1, "refused")
    ctypes.memmove(address, b"overwritten", 11)


@attack(seen=victim("shared memory"))
def finds_shared_memory_of_the_victim_by_its_key(p: Place) -> None:
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    address = libc.shmat(call("shmget", p.ipc_key, 4096, 0), None, 0)
    ctypes.memmove(address, b"by its key.", 11)


@attack()
def looks_at_shared_memory_of_the_victim(p: Place) -> None:
    call("shmctl", p.shm, IPC_STAT, buffer(256))
    p.reached()


@attack(seen=victim("semaphore"))
def raises_a_semaphore_of_the_victim(p: Place) -> None:
    call("semop", p.sem, buffer(struct.pack("=HhH", 0, 3, 0)), 1)


@attack(seen=victim("message queue"))
def sends_to_a_queue_of_the_victim(p: Place) -> None:
    call("msgsnd", p.msg, buffer(struct.pack("=l", 1) + p.mark.encode()), len(p.mark), 0)


@attack(seen=victim("posix shared memory"))
def writes_posix_shared_memory_of_the_victim(p: Place) -> None:
    with open(p.posix_shm, "r+b") as file:
        file.write(b"overwritten")


@attack("{root}/../../../dev/shm/{stamp}-new-{case}")
def leaves_a_file_in_the_shared_memory_of_the_host(p: Place) -> None:
    with open(f"/dev/shm/{p.stamp}-new-{p.case}", "w") as file:
        file.write(p.mark)


@attack(seen=victim("posix queue"))
def sends_to_a_posix_queue_of_the_victim(p: Place) -> None:
    queue = call("mq_open", p.mqueue, os.O_WRONLY | os.O_NONBLOCK, 0, 0)
    call("mq_timedsend", queue, buffer(b"x"), 1, 0, 0)


# ---- keys -----------------------------------------------------------------------------------------------


@attack()
def reads_a_key_of_the_user(p: Place) -> None:
    payload = buffer(128)
    size = call("keyctl", KEYCTL_READ, p.key_serial, payload, 128)
    if p.victim_stamp.encode() in payload.raw[:size]:
        p.reached()


@attack()
def searches_the_keyrings_of_the_user(p: Place) -> None:
    for ring in (KEY_USER_RING, KEY_USER_SESSION_RING, KEY_SESSION_RING):
        try:
            p.reached(str(call("keyctl", KEYCTL_SEARCH, ring, "user", p.victim_stamp, 0)))
        except OSError:
            pass


@attack()
def asks_the_kernel_for_a_key(p: Place) -> None:
    if p.bare:
        call("keyctl", KEYCTL_LINK, KEY_USER_RING, KEY_SESSION_RING)
    p.reached(str(call("request_key", "user", p.victim_stamp, 0, 0)))


@attack()
def adds_a_key_for_the_user(p: Place) -> None:
    serial = call("add_key", "user", p.mark, "x", 1, KEY_USER_RING)
    p.reached(str(serial))
    call("keyctl", KEYCTL_INVALIDATE, serial)


@attack(seen=victim("key"))
def changes_a_key_of_the_user(p: Place) -> None:
    call("keyctl", KEYCTL_UPDATE, p.key_serial, "overwritten", 11)


@attack(seen=victim("key"))
def revokes_a_key_of_the_user(p: Place) -> None:
    call("keyctl", KEYCTL_REVOKE, p.key_serial)


@attack(no_control="a kernel may have no persistent keyrings")
def opens_the_persistent_keyring(p: Place) -> None:
    p.reached(str(call("keyctl", KEYCTL_GET_PERSISTENT, -1, KEY_USER_SESSION_RING)))


@attack()
def describes_the_keyring_of_its_session(p: Place) -> None:
    call("keyctl", KEYCTL_DESCRIBE, KEY_SESSION_RING, buffer(128), 128)
    p.reached()
