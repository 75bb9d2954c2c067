"""Plain mode: lines in, lines out, for screen readers and terminals that can do no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fake_server import FakeServer, call, message, turn
from tui.terminals import OpenTui

ASK = ("-s", "read-only", "-a", "on-request")


def test_a_talk_in_plain_lines(tui: OpenTui, server: FakeServer) -> None:
    server.script(
        turn(call("exec_command", {"cmd": "echo out; exit 3"}, "c1")), turn(message("**Bold** words\x1b[2J", deltas=4))
    )
    t = tui("--plain").wait_for("> ")
    t.send("first question\n").wait_for("You: first question").wait_for("Agent: Bold words")
    assert re.search(r"Command \(exit 3[,)]", t.scrollback)
    t.until(lambda: t.screen.rstrip().endswith(">"), "the prompt")
    t.send("/status\n").wait_for("session:")
    t.send("/nosuch\n").wait_for("unknown command /nosuch")
    t.send("/quit\n")
    assert t.wait_exit() == 0 and "spindle resume" in t.scrollback
    assert b"\x1b" not in t.raw and len(server.turns_asked) == 2
    t.assert_sane()


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"SPINDLE_A11Y": "1"}], ids=["dumb", "hint"])
def test_a_terminal_that_can_do_no_more_gets_no_sequence(tui: OpenTui, env: dict[str, str]) -> None:
    t = tui(env=env).wait_for("> ")
    t.send("\x04")
    assert t.wait_exit() == 0 and b"\x1b" not in t.raw


def test_questions_are_numbered_and_answered_by_a_line(tui: OpenTui, server: FakeServer, workspace: Path) -> None:
    def wanted(name: str) -> dict[str, str]:
        return {"cmd": f"touch {workspace}/{name}", "sandbox_permissions": "require_escalated", "justification": "why"}

    server.script(
        turn(call("exec_command", wanted("one"), "c1")),
        turn(call("exec_command", wanted("two"), "c2")),
        turn(message("after both")),
    )
    t = tui("--plain", *ASK).wait_for("> ").send("go\n")
    t.wait_for(re.compile(r"Run this command\?[\s\S]*1\. Yes, once \(y\)[\s\S]*>\s*$"))
    assert "Enter a number or a letter; Ctrl-C stops the turn." in t.screen and "Esc" not in t.screen
    t.send("y\n")
    t.wait_for(re.compile(r"/two[\s\S]*1\. Yes, once \(y\)[\s\S]*>\s*$")).send("d\n")
    t.wait_for("after both")
    assert (workspace / "one").exists() and not (workspace / "two").exists()


def test_ctrl_c_stops_the_turn_and_pressed_twice_quits(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(message("never"), delay_s=60))
    t = tui("--plain").wait_for("> ").send("go\n").wait_for("You: go").key("ctrl-c").wait_for("interrupted")
    t.until(lambda: t.screen.rstrip().endswith(">"), "the prompt")
    t.key("ctrl-c").wait_for("again to quit").key("ctrl-c")
    assert t.wait_exit() == 0
    t.assert_sane()


def test_words_are_no_yes(tui: OpenTui, server: FakeServer, workspace: Path) -> None:
    wanted = {"cmd": f"touch {workspace}/made", "sandbox_permissions": "require_escalated", "justification": "why"}
    server.script(turn(call("exec_command", wanted, "c1")), turn(message("after it")))
    t = tui("--plain", *ASK).wait_for("> ").send("go\n").wait_for(re.compile(r"1\. Yes, once \(y\)[\s\S]*>\s*$"))
    for number, words in enumerate(("please do not do that", "77", "nope"), 1):
        t.send(f"{words}\n")
        t.until(lambda n=number: t.flat.count("No answer to this: ") == n, "the question again")
        t.until(lambda: t.screen.rstrip().endswith(">"), "the prompt")
    assert not (workspace / "made").exists()
    t.send("no\n").wait_for("interrupted")
    assert not (workspace / "made").exists()


def test_the_prompt_comes_when_the_whole_answer_is_there(tui: OpenTui, server: FakeServer) -> None:
    blocks = [f"block {n}\n\n```\ncode {n}\n```" for n in range(30)]
    server.script(*(turn(message("\n\n".join(blocks))) for _ in range(3)))
    t = tui("--plain").wait_for("> ")
    for number in range(1, 4):
        t.send(f"question {number}\n")
        t.until(lambda n=number: t.flat.count("Turn: Worked") == n and t.flat.endswith(">"), "the end of the turn")
    prompted = [line for line in t.scrollback.splitlines() if line.startswith(">")]
    assert prompted[:3] == ["> question 1", "> question 2", "> question 3"]
