"""While a turn runs: messages that go in, wait or come back; questions that pop up; and what calls for the person."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fake_server import FakeServer, call, message, refuses, turn
from tui.terminals import OpenTui, Tui

FREE = ("-s", "danger-full-access", "-a", "never")
ASK = ("-s", "read-only", "-a", "on-request")


def said(server: FakeServer) -> list[str]:
    return [request.json["input"][-1]["content"][-1]["text"] for request in server.turns_asked]


def composer(t: Tui) -> str:
    """What stands in the composer: its first row, and those below that are indented like it."""
    found = re.findall(r"^[›!] .*(?:\n  \S.*)*", t.screen, re.MULTILINE)
    return found[-1] if found else ""


def escalated(command: str, call_id: str = "c1") -> Any:
    wanted = {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "because"}
    return call("exec_command", wanted, call_id)


def test_what_a_stopped_turn_did_not_take_in_comes_back_in_order_before_the_draft(
    tui: OpenTui, server: FakeServer
) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo up > up; sleep 1000"}, "c1")), turn(message("all of it")))
    t = tui(*FREE).ready().submit("go").wait_for("Running", where="screen")
    t.submit("steered one").wait_for("› steered one")
    t.type("queued two").key("tab").wait_for("queued two")
    t.type("queued three").key("tab").wait_for("↳ queued three", where="screen")
    t.key("alt-up").wait_for(re.compile(r"^› queued three", re.MULTILINE), where="screen")
    t.key("esc").wait_for("interrupted")
    t.until(lambda: " ".join(composer(t).split()) == "› steered one queued two queued three", "all three")
    assert "dropped" not in t.flat
    t.key("enter")
    t.until(lambda: len(server.turns_asked) == 2, "the second request")
    assert said(server)[1] == "steered one\nqueued two\nqueued three"


def test_a_failed_turn_gives_queued_messages_back(tui: OpenTui, server: FakeServer) -> None:
    server.script(refuses(400, {"error": {"message": "no such thing"}}, delay_s=4))
    t = tui().ready().submit("go")
    t.type("for later").key("tab").wait_for("↳ for later", where="screen")
    t.wait_for("no such thing")
    t.until(lambda: composer(t) == "› for later", "the queued message")
    assert len(server.turns_asked) == 1


def test_a_queued_command_runs_when_the_turn_has_ended(tui: OpenTui, server: FakeServer, workspace: Path) -> None:
    server.script(turn(message("slow answer"), delay_s=1))
    t = tui().ready().submit("go")
    t.submit("!echo by-hand > made").wait_for("slow answer")
    t.until(lambda: (workspace / "made").exists(), "the file")
    t.submit("/compact")
    t.wait_for(re.compile(r"compact", re.IGNORECASE))


def test_a_queued_command_that_starts_no_turn_holds_nothing_up(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(message("slow answer"), delay_s=2), turn(message("last answer")))
    t = tui().ready().submit("go")
    for words in ("/pwd ", "!echo by-hand", "last words"):
        t.type(words).key("tab").wait_for(f"↳ {words}".rstrip(), where="screen")
    t.wait_for("last answer").wait_gone("↳")
    assert said(server) == ["go", "last words"] and "You ran echo by-hand" in t.flat


def test_letters_typed_as_a_question_appears_are_for_the_draft_and_approve_nothing(
    tui: OpenTui, server: FakeServer, workspace: Path
) -> None:
    server.script(turn(escalated(f"touch {workspace}/made"), delay_s=1), turn(message("it is done")))
    t = tui(*ASK).ready().submit("go")
    typed = ""
    while "(y)" not in t.screen:
        t.type("y", gap_s=0.1)
        typed += "y"
        assert len(typed) < 200, t.brief()
    t.type("yes", gap_s=0.1).key("enter", gap_s=0.1)
    assert "(y)" in t.screen and not (workspace / "made").exists()
    t.idle(0.6).key("y").wait_for("it is done")
    assert (workspace / "made").exists()
    t.until(lambda: composer(t) == f"› {typed}yes", "the draft")
    assert len(server.turns_asked) == 2


def test_a_transcript_that_is_open_grows_and_tells_of_a_question_behind_it(
    tui: OpenTui, server: FakeServer, workspace: Path
) -> None:
    wanted = escalated(f"touch {workspace}/made")
    server.script(turn(message("a long answer that comes late", deltas=4), wanted, event_delay_s=0.3))
    t = tui(*ASK).ready().submit("go").key("ctrl-t").wait_for("Transcript", where="screen")
    t.wait_for("that comes late", where="screen").wait_for("a question waits for you", where="screen").key("y", "q")
    t.wait_for("Yes, once (y)", where="screen")
    assert not (workspace / "made").exists()


def test_several_questions_are_asked_one_by_one_and_a_no_brings_the_composer(
    tui: OpenTui, server: FakeServer, workspace: Path
) -> None:
    first, second = escalated(f"touch {workspace}/one", "c1"), escalated(f"touch {workspace}/two", "c2")
    server.script(turn(first, second), turn(message("next answer")))
    t = tui(*ASK).ready().submit("go").wait_for("/one", where="screen").wait_for("1 more waiting", where="screen")
    t.idle(0.6).key("y").wait_gone("1 more waiting").wait_for("/two", where="screen")
    t.key("y").idle(0.6)  # too early: it was meant for the first
    assert not (workspace / "two").exists()
    t.key("n").wait_for("interrupted").ready()
    assert (workspace / "one").exists() and not (workspace / "two").exists()
    t.submit("do this instead").wait_for("next answer")


def test_a_plan_can_be_carried_out_in_a_fresh_thread(tui: OpenTui, server: FakeServer) -> None:
    plan = "<proposed_plan>\n- paint it blue\n</proposed_plan>"
    server.script(turn(message(plan)), turn(message("painted")))
    t = tui().ready().key("shift-tab").wait_for("Plan mode", where="screen")
    t.submit("secret-of-the-old-thread").wait_for("Implement this plan?", where="screen")
    t.idle(0.6).key("2").wait_for("painted")
    asked = server.turns_asked[1].json
    assert "paint it blue" in said(server)[1] and "implement" in said(server)[1].lower()
    assert "secret-of-the-old-thread" not in str(asked["input"])
    assert asked["prompt_cache_key"] != server.turns_asked[0].json["prompt_cache_key"]
    t.wait_gone("Plan mode")


def test_a_person_who_looks_elsewhere_is_called(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(message("seen answer")), turn(message("answer\x1b]0;x\x07 for you"), delay_s=0.5))
    t = tui(env={"TERM_PROGRAM": "WezTerm"}).ready().submit("one").wait_for("seen answer").idle()
    assert not [each for each in t.events("osc") if each.startswith("9;")]
    t.submit("two").send("\x1b[O")
    note = t.until(lambda: next((each for each in t.events("osc") if each.startswith("9;")), ""), "the notification")
    assert "for you" in note and "\x1b" not in note and len(note) <= 82


def test_a_server_that_is_down_is_told_and_esc_gives_the_composer_back(
    tui: OpenTui, server: FakeServer, home: Path
) -> None:
    text = (home / "config.toml").read_text()
    (home / "config.toml").write_text(re.sub(r"(?m)^request_max_retries.*\n|^stream_max_retries.*\n", "", text))
    server.otherwise(refuses(503))
    t = tui().ready().submit("go").wait_for(re.compile(r"Reconnecting \d/\d|trying again|retry", re.I), where="screen")
    t.key("esc").wait_for("interrupted")
    t.wait_gone("esc to interrupt").ready()


def test_a_question_that_comes_while_the_transcript_is_read_waits_and_the_title_tells(
    tui: OpenTui, server: FakeServer, workspace: Path
) -> None:
    server.script(turn(escalated(f"touch {workspace}/made"), delay_s=1.5), turn(message("it is done")))
    t = tui(*ASK).ready().submit("go")
    t.key("ctrl-t").wait_for("Transcript", where="screen")
    t.until(lambda: t.title.startswith("▲"), "the mark of a question")
    assert "(y)" not in t.screen
    t.key("q").wait_for("(y)", where="screen").idle(0.6).key("y").wait_for("it is done")
    assert (workspace / "made").exists()
