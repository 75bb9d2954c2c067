"""`thread/undo`: files and turns go back, everybody hears of it."""

from __future__ import annotations

from pathlib import Path

from app_server.client import Client
from fake_server import FakeServer, call, message, turn


def test_a_turn_goes_back_and_forth(client: Client, server: FakeServer, workspace: Path) -> None:
    thread_id = client.start_thread()
    server.script(turn(call("exec_command", {"cmd": "echo 1 > made.txt"}, "c1")), turn(message("done")))
    client.turn(thread_id, "make it")
    dry = client.result("thread/undo", {"threadId": thread_id, "dryRun": True})
    assert dry["report"]["status"] == "dry_run" and len(dry["thread"]["turns"]) == 1
    undone = client.result("thread/undo", {"threadId": thread_id})
    assert undone["report"]["status"] == "undone" and undone["thread"]["turns"] == []
    assert [Path(one["path"]).name for one in undone["report"]["restored"]] == ["made.txt"]
    assert client.note("thread/reverted") == {"threadId": thread_id} and not (workspace / "made.txt").exists()
    redone = client.result("thread/undo", {"threadId": thread_id, "redo": True})
    assert redone["report"]["status"] == "redone" and len(redone["thread"]["turns"]) == 1
    (workspace / "made.txt").write_text("mine\n")
    conflict = client.result("thread/undo", {"threadId": thread_id})
    assert conflict["report"]["status"] == "conflict" and len(conflict["thread"]["turns"]) == 1
    kept = client.result("thread/undo", {"threadId": thread_id, "keepMine": True})
    assert kept["report"]["status"] == "undone" and (workspace / "made.txt").read_text() == "mine\n"


def test_bad_requests_are_refused(client: Client, server: FakeServer) -> None:
    thread_id = client.start_thread()
    assert client.result("thread/undo", {"threadId": thread_id})["report"]["status"] == "nothing"
    assert "at least 1" in client.error("thread/undo", {"threadId": thread_id, "turns": 0})["message"]
    both = {"threadId": thread_id, "files": False, "conversation": False}
    assert "nothing to undo" in client.error("thread/undo", both)["message"]
