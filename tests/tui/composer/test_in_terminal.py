"""The composer in the real interface, in a real terminal."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from fake_server import FakeServer, message, turn
from tui.terminals import OpenTui


def sent_texts(server: FakeServer) -> list[str]:
    """What the person said in the last request."""
    items = server.turns_asked[-1].json["input"]
    texts = [part["text"] for item in items if item.get("role") == "user" for part in item["content"] if "text" in part]
    return [text for text in texts if not text.startswith(("<", "# AGENTS.md"))]


def test_writing_recalling_searching_and_pasting(tui: OpenTui, server: FakeServer, home: Path) -> None:
    (home / "history.jsonl").write_text(
        "".join(
            json.dumps({"session_id": "x", "ts": 1, "text": text}) + "\n" for text in ("fix the parser", "run tests")
        )
    )
    server.script(*(turn(message(f"answer {number}")) for number in range(4)))
    pasted = "".join(f"line {number}\t日本 \x1b[31m\n" for number in range(60))
    with tui() as t:
        t.ready().type("first one").key("ctrl-j").type("second\\").key("enter").type("third")
        t.key("ctrl-a", "ctrl-k", "ctrl-y", "enter")
        t.wait_for("answer 0")
        assert sent_texts(server) == ["first one\nsecond\nthird"]

        t.key("up").wait_for("third", where="screen").key("up", "up").wait_for("› fix the parser", where="screen")
        t.key("down", "down", "down").wait_for("› Ask for anything", where="screen")

        t.key("ctrl-r").type("pars").wait_for("search: pars", where="screen")
        t.wait_for("› fix the parser", where="screen").key("enter").wait_gone("search:").key("enter")
        t.wait_for("answer 1")
        assert sent_texts(server)[-1] == "fix the parser"

        t.paste(pasted).wait_for("[Pasted #1: 60 lines]", where="screen").key("enter")
        t.wait_for("answer 2")
        assert sent_texts(server)[-1] == pasted

        t.type("dropped by Ctrl-C").key("ctrl-c").wait_for("› Ask for anything", where="screen")
        t.key("up").wait_for("› dropped by Ctrl-C", where="screen").key("ctrl-_")
        t.key("ctrl-u", "ctrl-d")
        assert t.wait_exit() == 0
        t.assert_sane()
    lines = [json.loads(line) for line in (home / "history.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines[2:]] == ["first one\nsecond\nthird", "fix the parser", pasted]
    assert len({line["session_id"] for line in lines[2:]}) == 1 and lines[2]["session_id"] not in ("", "x")
    assert not list((home / "spindle").glob("drafts/*"))


def test_the_lists_of_commands_and_files(tui: OpenTui, server: FakeServer, workspace: Path) -> None:
    server.script(turn(message("answer 0")), turn(message("answer 1")))
    (workspace / "docs").mkdir()
    (workspace / "docs" / "two words.md").write_text("")
    with tui() as t:
        t.ready().type("/").wait_for("/model", where="screen").type("statu").wait_for("/status", where="screen")
        t.wait_gone("/model").key("esc").wait_gone("/statusline").key("ctrl-u")
        t.type("see @twow").wait_for("docs/two words.md", where="screen").key("tab").type("now").key("enter")
        t.wait_for("answer 0")
        assert sent_texts(server) == ['see "docs/two words.md" now']
        t.type("/usr/bin/env what is it?").key("enter").wait_for("answer 1")
        assert sent_texts(server)[-1] == "/usr/bin/env what is it?"


def test_a_draft_survives_a_kill_and_the_editor_changes_it(
    tui: OpenTui, server: FakeServer, home: Path, workspace: Path, tmp_path: Path
) -> None:
    server.script(turn(message("answer 0")))
    program = tmp_path / "editor"
    program.write_text('#!/bin/sh\nprintf " and more" >> "$1"\n')
    program.chmod(0o755)
    with tui() as t:
        t.ready().type("half a thought")
        t.paste("p\n" * 40).wait_for("[Pasted #1: 40 lines]", where="screen")
        t.until(
            lambda: any("paste" in path.read_text() for path in (home / "spindle").glob("drafts/*.json")), "the file"
        )
        os.kill(t.process.pid, signal.SIGKILL)
        t.process.wait()
    with tui(env={"VISUAL": str(program)}) as t:
        t.wait_for("half a thought[Pasted #1: 40 lines]", where="screen")
        t.key("ctrl-x", "ctrl-e").wait_for("and more", where="screen").key("enter").wait_for("answer 0")
        assert sent_texts(server) == ["half a thought" + "p\n" * 40 + " and more"]
        t.key("ctrl-d")
        assert t.wait_exit() == 0
    assert not list((home / "spindle").glob("drafts/*"))


def test_keys_of_ones_own(tui: OpenTui, server: FakeServer, home: Path) -> None:
    server.script(turn(message("answer 0")))
    with (home / "config.toml").open("a") as file:
        file.write(
            '\n[tui.keymap.composer]\nsubmit = "f2"\ndance = "f1"\n[tui.keymap.editor]\ninsert_newline = "enter"\n'
        )
        file.write('[tui.keymap.pager]\nclose = "x"\n')
    with tui() as t:
        t.ready().wait_for("tui.keymap.composer.dance is not known here")
        t.type("a").key("enter").type("b").key("f2").wait_for("answer 0")
        assert sent_texts(server) == ["a\nb"]
        t.key("ctrl-t").wait_for("Transcript", where="screen").key("x").wait_gone("Transcript")
        t.key("ctrl-d")
        assert t.wait_exit() == 0
