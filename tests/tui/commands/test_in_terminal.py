"""Slash commands in a real terminal: what a person sees, and that the composer is theirs again afterwards."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from fake_server import FakeServer, call, message, turn
from tui.terminals import OpenTui


def test_commands_print_ask_and_page(tui: OpenTui, server: FakeServer, workspace: Path, home: Path) -> None:
    server.script(turn(message("the **answer**")), turn(message("SUMMARY")), turn(message("as **written**")))
    (workspace / "new.txt").write_text("fresh line\n")
    with tui() as t:
        t.ready().submit("hello")
        t.wait_for("the answer")
        t.submit("/status").wait_for(re.compile(r"session: +[0-9a-f]{8}-[0-9a-f]{4}-7"))
        assert "sandbox in force:" in t.scrollback and "AGENTS.md:" in t.scrollback
        t.submit("/context").wait_for("instructions").wait_for("% left")
        assert len(re.findall(r"\S\n\n(?:Spindle 0|Context$)", t.scrollback, re.MULTILINE)) == 2, "set apart by one row"
        t.submit("/modle").wait_for("unknown command /modle; did you mean /model?")
        assert "/modle" in t.screen
        t.key("ctrl-u")
        t.submit("/diff").wait_for("+fresh line", where="screen")
        t.key("q").wait_gone("+fresh line")
        t.submit("/model").wait_for("(current)", where="screen")
        t.key("enter").wait_for("How hard should", where="screen")
        t.type("1").wait_for(re.compile(r"Model \S+, effort \w+ from now on; saved in"))
        assert "model_reasoning_effort" in (home / "config.toml").read_text()
        t.submit("/copy").wait_for("Copied the last answer")
        assert any(event.startswith("52;c;") for event in t.events("osc"))
        t.submit("/pin the port is 8080").wait_for("Pinned: the port is 8080")
        t.key("alt-.").wait_for("gpt-5.2-codex medium ·", where="screen")
        t.key("alt-.", "alt-.", gap_s=0).wait_for("gpt-5.2-codex xhigh ·", where="screen")
        t.submit("/compact").until(lambda: len(server.requests) == 2, "the compaction")
        t.wait_for(re.compile("compacted", re.I))
        t.submit("/raw").wait_for("as they were written from now on")
        t.submit("once more").wait_for("as **written**")
        t.submit("/rename my thread").wait_for("This thread is now called my thread")
        t.submit("/export talk.md").wait_for("Exported as markdown")
        assert "hello" in (workspace / "talk.md").read_text()
        t.submit("/quit")
        assert t.wait_exit() == 0
        t.assert_sane()
        assert "spindle resume" in t.scrollback


def test_while_a_turn_runs(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "sleep 300 & echo started; wait"}, "c1")), turn(message("late")))
    with tui("-s", "danger-full-access", "-a", "never") as t:
        t.ready().submit("go")
        t.wait_for("started")
        t.submit("/new").wait_for("/new cannot be used while a turn runs")
        t.wait_for("/new", where="screen").key("ctrl-u")
        t.submit("/status").wait_for("sandbox in force:")
        t.type("later words").key("tab").wait_for("later words")
        t.submit("/quit").wait_for("1 queued message is not sent yet and would be lost")
        t.key("enter").wait_gone("would be lost")
        assert len(server.requests) == 1
        t.submit("/quit").wait_for("would be lost", where="screen").type("2")
        assert t.wait_exit() == 0
        t.assert_sane()


def test_threads_in_the_picker(tui: OpenTui, server: FakeServer, workspace: Path) -> None:
    server.script(*(turn(message(f"{word} answer")) for word in ("apple", "berry", "cherry")))
    with tui() as t:
        t.ready().submit("apple question").wait_for("apple answer")
        t.submit("/new").ready().submit("berry question").wait_for("berry answer")
        t.submit("/resume").wait_for("apple question  master", where="screen")
        t.type("apple").wait_gone("berry question  master")
        t.key("enter").until(lambda: t.scrollback.count("apple answer") == 2, "the old thread")
        t.ready().submit("cherry question").wait_for("cherry answer")
        bodies = [request.json for request in server.requests]
        assert bodies[2]["prompt_cache_key"] == bodies[0]["prompt_cache_key"] != bodies[1]["prompt_cache_key"]
        assert "apple answer" in str(bodies[2]["input"]) and "berry" not in str(bodies[2]["input"])
        t.submit("/rewind").wait_for("Go back to which message?")
        t.key("enter").wait_for("Back before that message")
        t.wait_for("cherry question", where="screen")
        t.key("ctrl-c", "ctrl-c", "ctrl-c")
        assert t.wait_exit() == 0
    assert subprocess.run(["git", "status", "--porcelain"], cwd=workspace, capture_output=True).stdout == b""


def test_another_sign_in_goes_on_with_the_same_thread(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(message("first answer")), turn(message("second answer")))
    with tui() as t:
        t.ready().submit("first question").wait_for("first answer")
        t.submit("/login").wait_for("How shall Spindle reach a model?")
        t.key("enter").wait_for("from now on.")
        t.ready().submit("second question").wait_for("second answer")
        bodies = [request.json for request in server.requests]
        assert bodies[1]["prompt_cache_key"] == bodies[0]["prompt_cache_key"]
        assert "first answer" in str(bodies[1]["input"]) and t.flat.count("first answer") == 1
        t.key("ctrl-d")
        assert t.wait_exit() == 0


def test_in_plain_mode_rows_are_chosen_by_their_number(tui: OpenTui, server: FakeServer, home: Path) -> None:
    server.script(turn(message("apple answer")), turn(message("berry answer")))
    with tui("--plain", rows=60) as t:
        t.wait_for("> ").send("apple question\r").wait_for("apple answer")
        t.idle().send("/new\r").wait_for("A new thread")
        t.idle().send("berry question\r").wait_for("berry answer")
        t.idle().send("/model\r").wait_for("10. ")
        t.send("10\r").wait_for("How hard should gpt-5.5 think?")
        t.send("1\r").wait_for("Model gpt-5.5, effort")
        t.idle().send("/statusline\r").wait_for("[x] current-dir")
        t.send("2\r").wait_for("[ ] current-dir")
        t.send("\r").wait_for("The status line shows")
        assert "current-dir" not in (home / "config.toml").read_text()
        t.idle().send("/resume\r").wait_for(re.compile(r"2\. .*apple question"))
        t.send("2\r").until(lambda: t.scrollback.count("apple answer") == 2, "the old thread")
        t.idle().send("/quit\r")
        assert t.wait_exit() == 0


def test_a_background_command_is_seen_and_ended(tui: OpenTui, server: FakeServer, workspace: Path) -> None:
    script = "echo $$ > pid; exec sleep 300"
    server.script(turn(call("exec_command", {"cmd": script, "yield_time_ms": 250}, "c1")), turn(message("it runs on")))
    with tui("-s", "danger-full-access", "-a", "never") as t:
        t.ready().submit("go").wait_for("it runs on")
        t.wait_for("1 in background", where="screen")
        assert "⚠ full access" in t.screen
        t.submit("/ps").wait_for("1 command in the background")
        t.submit("/stop").wait_for("Ended 1 background command: ")
        assert not Path(f"/proc/{(workspace / 'pid').read_text().strip()}").exists()
        t.wait_gone("1 in background")
        t.submit("/ps").wait_for("No command runs in the background.")
        t.key("ctrl-d")
        assert t.wait_exit() == 0


def test_a_review_is_shown_and_shown_again(tui: OpenTui, server: FakeServer) -> None:
    place = {"absolute_file_path": "/w/f.py", "line_range": {"start": 2, "end": 3}}
    found = {"title": "[P1] Guard", "body": "Fails for 0.", "priority": 1, "code_location": place}
    report = json.dumps(
        {"findings": [found], "overall_correctness": "patch is incorrect", "overall_explanation": "Bad."}
    )
    server.script(turn(call("exec_command", {"cmd": "echo looking"}, "c1")), turn(message(report, deltas=4)))
    with tui() as t:
        t.ready().submit("/review").wait_for("What should be reviewed?", where="screen")
        t.key("enter").wait_for("Review begins: current changes").wait_for("looking")
        t.wait_for("The review is done").wait_for("[P1] Guard — /w/f.py:2-3")
        assert "overall_" not in t.scrollback + t.screen
        t.submit("/quit")
        assert t.wait_exit() == 0
    with tui("resume", "--last") as t:
        t.wait_for("Review begins: current changes").wait_for("[P1] Guard — /w/f.py:2-3")
        t.submit("/quit")
        assert t.wait_exit() == 0
