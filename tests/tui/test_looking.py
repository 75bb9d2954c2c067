"""Looking around without sending anything: keys, transcript, history, modes, windows."""

from __future__ import annotations

import re
from pathlib import Path

from fake_server import FakeServer, call, message, turn
from tui.terminals import OpenTui

FREE = ("-s", "danger-full-access", "-a", "never")


def test_the_keys_that_look_around(tui: OpenTui, server: FakeServer) -> None:
    numbers = "for i in $(seq 40); do echo row-$i; done"
    server.script(turn(call("exec_command", {"cmd": numbers}, "c1")), turn(message("the answer")))
    t = tui(*FREE).ready().submit("first question").wait_for("Worked for")
    assert "row-1" in t.scrollback and "row-5" not in t.scrollback.replace("echo row-$i", "")
    t.key("ctrl-t").wait_for("row-35", where="screen").wait_for("the answer", where="screen")
    assert "row-7" not in t.screen, "the transcript opens at its end"
    t.key("/").type("row-7").key("enter").wait_for("row-7", where="screen").key("q").wait_gone("row-5").ready()
    t.key("?").wait_for("shift-tab", where="screen").wait_for("ctrl-r", where="screen").key("esc").wait_gone("ctrl-r")
    t.key("?").wait_for("ctrl-r", where="screen").type("x").wait_for(re.compile("^› x$", re.MULTILINE), where="screen")
    t.key("ctrl-c").wait_gone(re.compile("^› x$", re.MULTILINE))
    t.key("ctrl-r").type("first").wait_for("first question", where="screen").key("enter")
    t.wait_for(re.compile("^› first question$", re.MULTILINE), where="screen")
    above = t.scrollback
    t.key("ctrl-l").wait_gone("the answer").wait_for("› first question", where="screen")
    assert "the answer" in t.scrollback and above.count("the answer") == t.scrollback.count("the answer")
    assert not {"2J", "3J"} & {*t.events("csi")} and len(server.turns_asked) == 2
    t.key("ctrl-c", "ctrl-d")
    assert t.wait_exit() == 0
    t.assert_sane()


def mode(text: str) -> str:
    return "plan" if "Plan mode" in text else "auto-edit" if "Auto-edit" in text else "default"


def test_shift_tab_stops_at_auto_edit_where_that_changes_something(
    tui: OpenTui, server: FakeServer, home: Path
) -> None:
    server.script(turn(message("one")), turn(message("two")), turn(message("three")))
    config = (home / "config.toml").read_text()
    (home / "config.toml").write_text(re.sub(r"(?m)^(sandbox_mode|approval_policy) = .*\n", "", config))
    t = tui("-a", "on-request").ready()  # trusted: workspace-write already
    t.key("shift-tab").wait_for("Plan mode", where="screen").key("shift-tab").wait_gone("Plan mode")
    assert mode(t.screen) == "default"
    t.submit("/permissions read-only").idle()
    t.key("shift-tab").wait_for("Plan mode", where="screen").key("shift-tab").wait_for("Auto-edit", where="screen")
    t.submit("go").wait_for("one")
    t.key("shift-tab").wait_gone("Auto-edit").submit("again").wait_for("two")
    texts = [str(request.json["input"]) for request in server.turns_asked]
    assert texts[0].count("workspace-write") > 0 and texts[1].count("read-only") > texts[0].count("read-only")


def test_the_person_s_own_sandbox_is_never_loosened_by_shift_tab(tui: OpenTui) -> None:
    t = tui("-s", "read-only").ready()
    t.key("shift-tab").wait_for("Plan mode", where="screen").key("shift-tab").wait_gone("Plan mode").idle()
    assert mode(t.screen) == "default"


def test_the_smallest_window_still_shows_the_answer_and_the_draft(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(message("small answer")))
    t = tui(columns=20, rows=5).ready().submit("hi").wait_for("small answer", where="screen")
    t.type("my draft").wait_for("my draft", where="screen").idle()
    assert "answer" in t.screen
    t.resize(100, 30).wait_for("my draft", where="screen")
    assert t.flat.count("small answer") == 1


def test_the_editor_and_an_earlier_message(tui: OpenTui, server: FakeServer, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "in the editor\\n"; printf " and more" >> "$1"\n')
    editor.chmod(0o755)
    server.script(turn(message("first answer")), turn(message("second answer")), turn(message("third answer")))
    t = tui(env={"VISUAL": str(editor)}).ready().type("some words").key("ctrl-g")
    t.wait_for(re.compile("^› some words and more$", re.MULTILINE), where="screen").wait_for("in the editor")
    t.key("enter").wait_for("first answer").submit("second words").wait_for("second answer").idle()
    t.key("esc").wait_for("esc again", where="screen").key("esc").wait_for("some words and more", where="screen")
    first_row = re.compile(r"^› 1\. ", re.MULTILINE)
    # What was said stands above with the same mark: the list has to be gone before one types.
    t.wait_for(first_row, where="screen").key("enter").wait_gone(first_row)
    t.wait_for(re.compile("^› second words$", re.MULTILINE), where="screen")
    t.type(", better").key("enter").wait_for("third answer")
    asked = server.turns_asked[2].json["input"]
    assert asked[-1]["content"][-1]["text"] == "second words, better" and "second answer" not in str(asked)


def test_leaving_with_queued_messages_is_asked_about(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(message("never"), delay_s=60))
    t = tui().ready().submit("go").type("for later").key("tab").wait_for("↳ for later", where="screen")
    t.key("ctrl-d").wait_for("would be lost", where="screen").key("esc").wait_gone("would be lost")
    assert t.process.poll() is None
    t.key("ctrl-d").wait_for("would be lost", where="screen").key("2")
    assert t.wait_exit() == 0


def test_choosing_a_thread_can_end_in_a_new_one_or_nowhere(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(message("old answer")), turn(message("new answer")))
    t = tui("old question").wait_for("Worked for")
    t.key("ctrl-d")
    assert t.wait_exit() == 0
    t = tui("resume").wait_for("old question", where="screen")
    assert b"Ask for anything" not in t.raw
    # A key right behind Esc would be Alt and that key.
    t.key("esc").wait_for("Ask for anything", where="screen").ready().submit("new question").wait_for("new answer")
    assert "old question" not in str(server.turns_asked[1].json["input"])
    t = tui("fork").wait_for("new question", where="screen").key("ctrl-c")
    assert t.wait_exit() == 0
    t.assert_sane()
