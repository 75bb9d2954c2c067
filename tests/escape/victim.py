"""A process of the host that attacks aim at: its memory, its shared memory, queues, keys, limits.

Prints its facts as one line of JSON, then its state for every line it is sent, until it is told to end.
`victim.py clean FACTS` takes away what a killed one shared.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from escape.kernel import buffer, call

IPC_CREAT, IPC_RMID, IPC_STAT, GETVAL = 0o1000, 0, 2, 12
KEY_USER_RING, KEYCTL_READ, KEYCTL_INVALIDATE = -4, 11, 21


def main(stamp: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    libc.mq_open.restype = ctypes.c_int
    secret = buffer(f"memory-{stamp}".encode() + bytes(16))
    key = int.from_bytes(os.urandom(3), "big")
    shm = call("shmget", key, 4096, IPC_CREAT | 0o666)
    shared = ctypes.cast(libc.shmat(shm, None, 0), ctypes.POINTER(ctypes.c_char * 64)).contents
    sem = call("semget", key, 1, IPC_CREAT | 0o666)
    msg = call("msgget", key, IPC_CREAT | 0o666)
    posix = f"/dev/shm/{stamp}"
    with open(posix, "wb") as file:
        file.write(b"shared" * 8)
    os.chmod(posix, 0o666)
    open_memory = os.memfd_create("victim")
    os.write(open_memory, f"descriptor-{stamp}".encode())
    umask = os.umask(0)
    queue = libc.mq_open(f"/{stamp}".encode(), os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666, None)
    os.umask(umask)
    try:
        ring_key = call("add_key", "user", stamp, f"key-{stamp}", len(f"key-{stamp}"), KEY_USER_RING)
        call("keyctl", 5, ring_key, 0x3F3F0000)  # whoever possesses it, or is of this user, may do everything
    except OSError:
        ring_key = 0
    facts = {
        "victim": os.getpid(),
        "victim_stamp": stamp,
        "victim_memory": ctypes.addressof(secret),
        "victim_fd": open_memory,
        "ipc_key": key,
        "shm": shm,
        "sem": sem,
        "msg": msg,
        "posix_shm": posix,
        "mqueue": stamp,
        "key_serial": ring_key,
    }
    print(json.dumps(facts), flush=True)
    for line in sys.stdin:
        if line.strip() == "end":
            break
        print(json.dumps(state(libc, secret, shared, sem, msg, posix, queue, ring_key, open_memory)), flush=True)
    clean(facts)


def clean(facts: dict[str, Any]) -> None:
    """Take away what outlives a process, also one that was killed."""
    libc = ctypes.CDLL(None)
    libc.shmctl(facts["shm"], IPC_RMID, None)
    libc.semctl(facts["sem"], 0, IPC_RMID)
    libc.msgctl(facts["msg"], IPC_RMID, None)
    if os.path.exists(facts["posix_shm"]):
        os.unlink(facts["posix_shm"])
    libc.mq_unlink(f"/{facts['mqueue']}".encode())
    if facts["key_serial"]:
        try:
            call("keyctl", KEYCTL_INVALIDATE, facts["key_serial"])
        except OSError:
            pass  # an attack got there first


def state(
    libc: Any, secret: Any, shared: Any, sem: int, msg: int, posix: str, queue: int, ring_key: int, fd: int
) -> dict[str, object]:
    counts = buffer(256)
    libc.msgctl(msg, IPC_STAT, counts)
    attributes = (ctypes.c_long * 8)()
    libc.mq_getattr(queue, attributes)
    payload = buffer(128)
    try:
        size = call("keyctl", KEYCTL_READ, ring_key, payload, 128) if ring_key else 0
    except OSError:
        size = 0
    with open("/proc/self/oom_score_adj") as file:
        oom = int(file.read())
    try:
        with open(posix, "rb") as file:
            posix_bytes = file.read().hex()
    except OSError:
        posix_bytes = "gone"
    return {
        "memory": secret.raw.hex(),
        "shared memory": bytes(shared).hex(),
        "semaphore": libc.semctl(sem, 0, GETVAL),
        "message queue": int.from_bytes(counts.raw[72:80], "little") if sys.maxsize > 2**32 else 0,
        "posix shared memory": posix_bytes,
        "posix queue": attributes[3],
        "key": payload.raw[:size].hex(),
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "processors": sorted(os.sched_getaffinity(0)),
        "scheduler": os.sched_getscheduler(0),
        "file limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "oom score": oom,
        "descriptor": os.pread(fd, 128, 0).hex(),
    }


if __name__ == "__main__":
    if sys.argv[1] == "clean":
        clean(json.loads(sys.argv[2]))
    else:
        main(sys.argv[1])
