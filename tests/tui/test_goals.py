"""`/goal`: the thread works by itself, the person sees it and stays in control."""

from __future__ import annotations

from typing import Any

from fake_server import FakeServer, call, message, turn
from tui.terminals import OpenTui

FREE = ("-s", "danger-full-access", "-a", "never")


def reports(status: str, call_id: str = "g1") -> Any:
    return turn(call("update_goal", {"status": status}, call_id))


def test_a_goal_is_worked_on_until_it_is_reached(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(message("chapter one")), reports("complete"), turn(message("the end")))
    t = tui(*FREE).ready().submit("/goal").wait_for("No goal is set.")
    t.submit("/goal Write the book.").wait_for("Goal working on it: Write the book.")
    t.wait_for("chapter one").wait_for("Goal complete").wait_for("the end")
    assert "codex_internal_context" not in t.flat
    t.until(lambda: len(server.turns_asked) == 3, "three requests")
    t.submit("/goal").wait_for("Goal: complete (330 tokens, ")


def test_esc_pauses_it_and_the_person_is_in_control(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(message("never"), delay_s=60))
    t = tui(*FREE).ready().submit("/goal Write the book.").wait_for("Goal working on it")
    t.until(lambda: len(server.turns_asked) == 1, "a request")
    t.key("esc").wait_for("Goal paused").wait_for("Goal paused", where="screen")
    server.script(turn(message("as you like")))
    t.submit("hello").wait_for("as you like")
    t.submit("/status").wait_for("goal:")
    assert len(server.turns_asked) == 2
    server.script(reports("complete"), turn(message("the end")))
    t.submit("/goal resume").wait_for("the end")


def test_a_message_that_waited_joins_the_next_turn_of_the_goal(tui: OpenTui, server: FakeServer) -> None:
    server.script(
        turn(message("chapter one"), delay_s=2),
        turn(call("exec_command", {"cmd": "sleep 1"}, "c1")),
        reports("complete"),
        turn(message("the end")),
    )
    t = tui(*FREE).ready().submit("/goal Write the book.").wait_for("Goal working on it")
    t.type("no adverbs").key("tab").wait_for("↳ no adverbs", where="screen")
    t.wait_for("the end")
    assert "no adverbs" in str(server.turns_asked[2].json["input"])


def test_a_goal_is_cleared_and_goes_on_after_the_interface_was_left(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(message("never"), delay_s=60))
    t = tui(*FREE).ready().submit("/goal Write the book.")
    t.until(lambda: len(server.turns_asked) == 1, "a request")
    assert t.submit("/quit").wait_exit() == 0
    server.script(reports("blocked"), turn(message("no paper")))
    t = tui("resume", "--last", *FREE).wait_for("Goal working on it: Write the book.").wait_for("Goal blocked")
    t.wait_for("no paper").submit("/goal clear").wait_for("Goal cleared")
    t.submit("/goal pause").wait_for("no goal that could be changed")
