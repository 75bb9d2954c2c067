"""A program that embeds the engine has no thread of ours left when its last client is closed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import shlex, sys, threading
from spindle import Spindle
from spindle.testing import ScriptedModel, calls, says, temporary_home

CONNECT = "import socket; socket.socket(socket.AF_UNIX).connect('/nobody')"

def names():
    return {one.name.rstrip("0123456789") for one in threading.enumerate() if one is not threading.main_thread()}

def client(home):
    python = shlex.quote(sys.executable)
    call = calls("exec_command", {"cmd": f"echo it runs; {python} -c \\"{CONNECT}\\" 2>&1 | tail -1"}, "c1")
    return Spindle(home=home, model_client=ScriptedModel(call, says("done")))

def run(one):
    thread = one.thread_start(cwd=sys.argv[1], sandbox="workspace-write")
    printed = [item.aggregated_output for item in thread.run("go").items if item.type == "command_execution"]
    # Answered by us: the sandbox lets no program connect by itself.
    assert len(printed) == 1 and "it runs" in printed[0] and "No such file" in printed[0], printed
    assert {"sandbox-spawner", "sockets-"} <= names(), names()
    return thread

with temporary_home() as home:
    for _ in range(2):
        with client(home) as first:
            run(first)
            with client(home) as second:
                run(second).close()
            # The first one has an open thread, whose commands would die with what started them.
            assert {"sandbox-spawner", "sockets-"} <= names(), names()
        for one in threading.enumerate():
            if one.name.startswith("asyncio_"):
                one.join()  # the loop's own; told to end when the loop was closed
        assert names() == set(), names()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="these threads serve bubblewrap")
def test_closing_the_last_thread_ends_what_served_its_sandbox_and_the_next_one_gets_it_anew(workspace: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(workspace)], capture_output=True, text=True, timeout=60, cwd=workspace
    )
    assert done.returncode == 0, done.stderr
