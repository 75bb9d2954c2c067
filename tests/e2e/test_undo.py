"""`spindle undo` as a user meets it: recorded threads, other processes, killed runs, what is printed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, call, message, turn
from installed import Spindle, wait_for

YOLO = ("--yolo", "--skip-git-repo-check", "--json")


def work(spindle: Spindle, server: FakeServer, script: str, *how: str) -> str:
    """One turn that runs a script; gives the thread's id."""
    server.script(turn(call("exec_command", {"cmd": script}, "c1")), turn(message("done")))
    run = spindle("exec", *YOLO, *how, "the prompt")
    assert run.code == 0, run.err
    return run.thread_id


def undo(spindle: Spindle, *args: str, code: int = 0) -> dict[str, Any]:
    run = spindle("undo", "--json", *args)
    assert run.code == code, (run.out, run.err)
    return json.loads(run.out)


def test_the_newest_thread_of_the_folder_goes_back_and_forth(
    spindle: Spindle, server: FakeServer, workspace: Path
) -> None:
    (workspace / "a.txt").write_text("one\n")
    thread_id = work(spindle, server, "echo two >> a.txt; rm -f gone; echo new > new.txt")
    listed = undo(spindle, "--list")
    assert listed["thread_id"] == thread_id and listed["turns"][0]["prompt"] == "the prompt"
    assert [(Path(one["path"]).name, one["kind"]) for one in listed["turns"][0]["changes"]] == [
        ("a.txt", "update"),
        ("new.txt", "add"),
    ]
    shown = spindle("undo", "--dry-run")
    assert shown.code == 0 and "-two" in shown.out and "would undo 1 turn: 2 files" in shown.out
    run = spindle("undo")
    assert run.code == 0 and "undid 1 turn: 2 files put back" in run.out
    assert (workspace / "a.txt").read_text() == "one\n" and not (workspace / "new.txt").exists()
    assert undo(spindle, "--list") == {"thread_id": thread_id, "turns": []}
    assert undo(spindle, thread_id[:13], "--redo")["status"] == "redone" and (workspace / "new.txt").exists()


def test_a_conflict_changes_nothing_and_names_the_file(spindle: Spindle, server: FakeServer, workspace: Path) -> None:
    work(spindle, server, "echo agent > a.txt; echo agent > b.txt")
    (workspace / "a.txt").write_text("mine\n")
    run = spindle("undo")
    assert run.code == 1 and "a.txt: it was changed since" in run.err and (workspace / "b.txt").exists()
    report = undo(spindle, "--keep-mine")
    assert (workspace / "a.txt").read_text() == "mine\n" and not (workspace / "b.txt").exists()
    assert [Path(one["path"]).name for one in report["conflicts"]] == ["a.txt"]


def test_nothing_to_undo_and_bad_arguments(spindle: Spindle, server: FakeServer) -> None:
    report = undo(spindle, code=1)
    assert report["status"] == "nothing" and report["thread_id"] is None
    assert spindle("undo").code == 1 and "Traceback" not in spindle("undo", "nobody").err
    for bad in (
        ["--turns", "0"],
        ["--turns", "²"],
        ["--turns", "9" * 5000],
        ["--files", "--conversation"],
        ["--turns", "1", "--to", "x"],
    ):
        assert spindle("undo", *bad).code == 2


def test_a_thread_that_another_process_has_open_is_left_alone(
    spindle: Spindle, server: FakeServer, workspace: Path
) -> None:
    thread_id = work(spindle, server, "echo 1 > a.txt")
    server.script(turn(call("exec_command", {"cmd": "touch busy; sleep 100"}, "c2")))
    other = spindle.start("exec", *YOLO, "resume", thread_id, "again")
    try:
        wait_for(lambda: (workspace / "busy").exists(), "the command")
        report = undo(spindle, thread_id, code=1)
        assert report["status"] == "nothing" and (workspace / "a.txt").exists()
    finally:
        other.kill()
        other.wait()
    report = undo(spindle, thread_id, "--turns", "2")
    assert report["incomplete"] and not (workspace / "a.txt").exists() and not (workspace / "busy").exists()


def test_a_fork_takes_back_what_its_parent_did(spindle: Spindle, server: FakeServer, workspace: Path) -> None:
    parent = work(spindle, server, "echo 1 > a.txt")
    server.script(turn(message("branched")))
    fork = spindle("exec", *YOLO, "fork", parent, "go on").thread_id
    assert len(undo(spindle, fork, "--turns", "2")["restored"]) == 1 and not (workspace / "a.txt").exists()


def test_a_deleted_thread_leaves_no_journal(spindle: Spindle, server: FakeServer, home: Path) -> None:
    thread_id = work(spindle, server, "echo 1 > a.txt")
    journal = home / "spindle" / "checkpoints" / "threads" / f"{thread_id}.jsonl"
    assert journal.exists()
    assert spindle("delete", "--force", thread_id).code == 0 and not journal.exists()


def test_a_killed_process_leaves_what_can_be_undone(spindle: Spindle, server: FakeServer, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\n")
    server.script(turn(call("exec_command", {"cmd": "echo early > a.txt; touch ready; sleep 100"}, "c1")))
    run = spindle.start("exec", *YOLO, "work")
    wait_for(lambda: (workspace / "ready").exists(), "the command")
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert undo(spindle)["incomplete"] is True
    assert (workspace / "a.txt").read_text() == "one\n" and not (workspace / "ready").exists()


KILLED = """
import os, signal, sys
from spindle.features.checkpoints.recorder import Options, Recorder
from spindle.features.checkpoints.talk import turns_of
from spindle.features.checkpoints.undoing import Undoer
from spindle.protocol.clock import SystemClock
from spindle.protocol.ops import Undo
from spindle.thread.history import History
from spindle.thread.store import ThreadStore

home, thread_id, last = sys.argv[1:]
store = ThreadStore(home, SystemClock())
turns = turns_of(History.replay(store.read(store.get(thread_id))))

def step(name):
    if name == last:
        os.kill(os.getpid(), signal.SIGKILL)

undoer = Undoer(Recorder(home, thread_id, Options(), SystemClock()), SystemClock().uuid7, [], step)
undoer.restore(undoer.prepare(Undo(), turns, ()))
"""


def kill_an_undo(home: Path, thread_id: str, step: str) -> None:
    """An undo whose process is killed before its first step of this kind."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(home), thread_id, step], timeout=30, check=False)
    assert done.returncode == -signal.SIGKILL


def test_an_undo_that_was_killed_in_the_middle_is_finished_by_the_next_and_that_is_said(
    spindle: Spindle, server: FakeServer, workspace: Path, home: Path
) -> None:
    (workspace / "a.txt").write_text("one\n")
    thread_id = work(spindle, server, "echo two > a.txt; echo new > new.txt")
    kill_an_undo(home, thread_id, "clean")
    run = spindle("undo", "--json")
    report = json.loads(run.out)
    assert (run.code, report["status"]) == (0, "undone") and "has been finished" in report["message"]
    assert (workspace / "a.txt").read_text() == "one\n" and not (workspace / "new.txt").exists()
    assert undo(spindle, "--list")["turns"] == [] and undo(spindle, code=1)["status"] == "nothing"


def test_an_undo_that_was_killed_before_it_changed_anything_is_taken_away(
    spindle: Spindle, server: FakeServer, workspace: Path, home: Path
) -> None:
    (workspace / "a.txt").write_text("one\n")
    thread_id = work(spindle, server, "echo two > a.txt")
    kill_an_undo(home, thread_id, "stage")
    server.script(turn(message("going on")))
    run = spindle("exec", "--yolo", "resume", thread_id, "next")
    assert run.code == 0 and "cut short before it changed any file" in run.err
    assert not [name for name in os.listdir(workspace) if name.startswith(".spindle")]
    assert (workspace / "a.txt").read_text() == "two\n"
    assert undo(spindle, "--turns", "2")["status"] == "undone" and (workspace / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize(
    ("damage", "advice"), [("garbage", "move "), ("pipe", "undo again"), ("journal", "nothing was changed")]
)
def test_a_store_that_cannot_be_used_is_an_error_that_names_the_thread(
    spindle: Spindle, server: FakeServer, home: Path, damage: str, advice: str
) -> None:
    thread_id = work(spindle, server, "echo two > a.txt")
    kept = home / "spindle" / "checkpoints"
    journal = kept / "threads" / f"{thread_id}.jsonl"
    for path in [journal] if damage == "journal" else list(kept.glob("contents.db*")):
        path.unlink()
    if damage == "garbage":
        (kept / "contents.db").write_bytes(b"no database" * 500)
    else:
        os.mkfifo(journal if damage == "journal" else kept / "contents.db")
    report = undo(spindle, code=1)
    assert report["status"] == "nothing" and report["thread_id"] == thread_id
    assert advice in report["message"] and "internal error" not in report["message"]
