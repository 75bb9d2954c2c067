"""Runs cases, each in a child of its own; this is the command that is put inside the sandbox, and run bare as control.

    runner.py attack|work FACTS NAME...

Prints `REACHED case …` for what only the inside can see, `BROKEN case …` for an attack that failed by a bug of its own,
`FAILED case …` for work that did not succeed, and at the end how many ran. Silence about a case means that it ran.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from escape import case as registry

_LIMIT_S = {"attack": 8, "work": 45}
_CONTROL_S = 70
"""For an attack that nothing holds back: it waits for what must come."""


def main(kind: str, facts_path: str, *names: str) -> None:
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py") and name.startswith("work_") == (kind == "work"):
            importlib.import_module(f"escape.cases.{name[:-3]}")
    report = os.dup(1)
    with open(facts_path) as file:
        facts = json.load(file)
    has_fence = facts.get("host_mounts") != os.readlink("/proc/self/ns/mnt")
    for name in names:
        if kind == "work" or has_fence:
            run(facts, kind, name, report)
        else:  # the worst of these would take the machine down with them
            os.write(report, f"REACHED {name} without any sandbox\n".encode())
    os.write(report, f"\nrunner: {len(names)} ran\n".encode())


def run(facts: dict[str, object], kind: str, name: str, report: int) -> None:
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            os.setpgid(0, 0)
            child(facts, kind, name, report)
        finally:
            os._exit(0)
    limit = started + (_CONTROL_S if kind == "attack" and facts["bare"] else _LIMIT_S[kind])
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > limit:
            if kind == "work":
                os.write(report, f"FAILED {name}: did not end in {_LIMIT_S[kind]} s\n".encode())
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.002)
    if os.environ.get("ESCAPE_TIMES"):
        os.write(report, f"TOOK {time.monotonic() - started:6.2f} {name}\n".encode())


def child(facts: dict[str, object], kind: str, name: str, report: int) -> None:
    quiet = os.open("/dev/null", os.O_RDWR)
    if kind == "work" or not facts.get("keeps_stdio"):
        for fd in (0, 1, 2):
            os.dup2(quiet, fd)
    os.close(quiet)
    place = registry.Place(**facts, case=name, report=report)
    place.mark = f"{facts['stamp']}.{name}."
    place.canary = f"{facts['outside']}/{name}.txt"
    try:
        if kind == "work":
            folder = f"{facts['ws']}/works/{name}"
            if os.access(str(facts["ws"]), os.W_OK):
                os.makedirs(folder, exist_ok=True)
                os.chdir(folder)
            registry.WORKS[name].body(place)
        else:
            registry.ATTACKS[name].body(place)
    except OSError as error:
        if kind == "work":
            os.write(report, f"FAILED {name}: {error!r} {where()}\n".encode())
        elif os.environ.get("ESCAPE_WHY"):
            os.write(report, f"WHY {name}: {error!r}\n".encode())
    except BaseException as error:
        word = "FAILED" if kind == "work" else "BROKEN"
        os.write(report, f"{word} {name}: {error!r} {where()}\n".encode()[:1500])


def where() -> str:
    frames = traceback.extract_tb(sys.exc_info()[2])[-3:]
    return " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))


if __name__ == "__main__":
    main(*sys.argv[1:])
