"""A recorded thread is shown again as it was shown when it happened."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sessions import Driver, Start, run
from spindle.frontends.tui.cells.conversation import Conversation, Options
from spindle.frontends.tui.cells.replay import MOST_ROWS
from spindle.frontends.tui.shown import texts
from spindle.frontends.tui.text.layout import fit_rows
from spindle.model.scripted import calls, drops, fails, patches, says, thinks
from spindle.protocol.clock import FixedClock
from spindle.protocol.events import Event, ExecCommandBegin, TurnAborted
from spindle.protocol.items import encode_json
from spindle.protocol.ops import Interrupt, RunUserShellCommand, UserInputAnswer
from spindle.protocol.questions import RequestUserInput
from spindle.thread.entry import Record
from tui.cells.told import said

PATCH = "*** Begin Patch\n*** Update File: f.txt\n@@\n one\n-two\n+zwei\n*** Add File: g.txt\n+fresh\n*** End Patch\n"


def conversation(cwd: Path | str = "/w", **options: Any) -> Conversation:
    return Conversation(Options(clock=FixedClock(), cwd=str(cwd), **options))


def shown(told: Conversation, width: int = 80) -> list[str]:
    """What is printed, without times, which a record knows less exactly, and the numbers of lines in files."""
    rows = [text for text in texts(told.take_finished(width)) if text.strip()]
    rows = [re.sub(r" ?\(?\b[\d.]+(ms|s)\)?", "", row) for row in rows]
    return [re.sub(r"^    \d+(?= )", "    ", row).rstrip() for row in rows]


async def both(driver: Driver, workspace: Path) -> tuple[list[str], list[str]]:
    """The thread as its events tell it, and as its record does."""
    live, again = conversation(workspace), conversation(workspace)
    for event in driver.events:
        live.take(event)
    again.replay(driver.session.thread.history.records)
    return shown(live), shown(again)


async def test_a_resumed_thread_looks_as_it_did(start: Start, workspace: Path) -> None:
    (workspace / "f.txt").write_text("one\ntwo\n")
    driver = await start()
    plan = {"plan": [{"step": "Look", "status": "completed"}, {"step": "Mend", "status": "pending"}]}
    await driver.turn(
        "do it",
        thinks("**Hm** so"),
        run("cat f.txt"),
        run("printf 'out\\n'; exit 3", "c2"),
        calls("update_plan", plan, "c3"),
        patches(PATCH, "c4"),
        says("All **done**.\n\n- one\n- two"),
    )
    await driver.turn("again", run("seq 20", "c5"), drops("half an"), says("Yes."))
    await driver.end_of(driver.submit(RunUserShellCommand(command="echo mine; exit 4")))
    await driver.turn("last", says("Bye."))
    live, again = await both(driver, workspace)
    assert live == again
    assert "• Explored" in live
    assert "✗ You ran echo mine; exit 4 (exit 4," in live
    assert "  ✔ Look" in live
    assert "     - two" in live


async def test_a_folder_whose_name_speaks_of_endless_time_is_shown_as_it_was(start: Start, workspace: Path) -> None:
    driver = await start()
    odd = "/x\nWall time: " + "9" * 330 + " seconds\n"
    await driver.turn("go", calls("exec_command", {"cmd": "true", "workdir": odd}, "c1"), says("done"))
    live, again = await both(driver, workspace)
    assert live == again and any("does not exist" in row for row in again)


async def test_an_interrupted_and_a_failed_turn_look_as_they_did(start: Start, workspace: Path) -> None:
    driver = await start(run("echo begun; sleep 60", "c1"))
    sub_id = driver.begin("go")
    await driver.until(ExecCommandBegin)
    driver.submit(Interrupt())
    await driver.until(TurnAborted, sub_id=sub_id)
    await driver.turn("more", fails("the model is gone"))
    await driver.idle()
    live, again = await both(driver, workspace)
    assert [row for row in again if row.startswith(("›", "■"))] == [row for row in live if row.startswith(("›", "■"))]
    assert any("interrupted" in row for row in live)


async def test_plan_mode_and_questions_look_as_they_did(start: Start, workspace: Path) -> None:
    asked = {"questions": [{"id": "q1", "header": "Colour", "question": "Which colour then?", "options": []}]}
    plan = says("Here:\n<proposed_plan>\n# Paint\n</proposed_plan>\n")
    driver = await start(calls("request_user_input", asked, "c1"), plan, source="cli")
    sub_id = driver.begin("plan it", collaboration_mode={"mode": "plan", "settings": {"model": "gpt-5.2-codex"}})
    await driver.until(RequestUserInput)
    answers = {"answers": {"q1": {"answers": ["Red", "user_note: dark"]}}}
    driver.submit(UserInputAnswer(id=sub_id, response=answers))
    await driver.end_of(sub_id)
    live, again = await both(driver, workspace)
    assert [row for row in again if not row.startswith(("?", "  ✔"))] == live
    assert again[:4] == ["• Mode changed to plan", "› plan it", "? Which colour then?", "  ✔ Red: dark"]
    assert again[4:7] == ["• Here:", "• Proposed plan", "  Paint"]


async def test_lines_of_a_recorded_patch_have_no_numbers_because_nobody_knows_them(
    start: Start, workspace: Path
) -> None:
    (workspace / "f.txt").write_text("zero\none\ntwo\n")
    driver = await start()
    await driver.turn("do it", patches(PATCH, "c4"), says("ok"))
    again = conversation(workspace)
    again.replay(driver.session.thread.history.records)
    rows = texts(again.take_finished(80))
    assert "     - two" in rows
    assert "     + zwei" in rows
    assert "    1 + fresh" in rows, "a new file begins with its first line"


async def test_reasoning_is_in_the_transcript_of_a_resumed_thread(start: Start, workspace: Path) -> None:
    driver = await start()
    await driver.turn("do it", thinks("**Hm** so"), run("seq 50"), says("ok"))
    again = conversation(workspace)
    again.replay(driver.session.thread.history.records)
    whole = texts(again.transcript(80))
    assert "• Hm so" in whole
    assert "    37" in whole
    assert "    37" not in shown(again)


def record(kind: str, payload: dict[str, Any]) -> Record:
    return Record(kind, encode_json(payload), "2026-11-15T18:16:43.951Z")


def long_thread(turns: int, paragraphs: int) -> list[Record]:
    records: list[Record] = []
    for number in range(turns):
        answer = "\n\n".join(f"Answer {number}, paragraph {part}." for part in range(paragraphs))
        for payload in (
            {"type": "task_started", "turn_id": f"t{number}"},
            {"type": "user_message", "message": f"question {number}"},
            {"type": "agent_message", "message": answer},
            {"type": "task_complete", "turn_id": f"t{number}"},
        ):
            records.append(record("event_msg", payload))
    return records


def test_all_of_a_thread_is_printed_once_and_in_order() -> None:
    told = conversation()
    told.replay(long_thread(500, 1))
    rows = shown(told)
    assert [row for row in rows if row.startswith("›")] == [f"› question {number}" for number in range(500)]
    assert [row for row in rows if row.startswith("•")] == [f"• Answer {number}, paragraph 0." for number in range(500)]
    assert told.take_finished(80) == []
    assert told.last_answer == "Answer 499, paragraph 0."


def test_of_a_very_long_thread_the_end_is_printed_and_a_line_says_so() -> None:
    told = conversation()
    told.replay(long_thread(1000, 5))
    lines = told.take_finished(80)
    rows = [text for text in texts(lines) if text.strip()]
    assert MOST_ROWS - 20 < len(fit_rows(lines, 80)) <= MOST_ROWS
    assert "earlier turns" in rows[0]
    assert "  Answer 999, paragraph 4." in rows
    assert "  Answer 0, paragraph 4." in texts(told.transcript(80)), "the transcript has it all"


def test_a_change_of_mode_is_told_where_it_happened() -> None:
    modes = ("plan", "plan", "default")
    records = [
        record("event_msg", payload)
        for number, mode in enumerate(modes)
        for payload in (
            {"type": "task_started", "turn_id": f"t{number}", "collaboration_mode_kind": mode},
            {"type": "user_message", "message": f"question {number}"},
            {"type": "task_complete", "turn_id": f"t{number}"},
        )
    ]
    told = conversation()
    told.replay(records)
    assert [row for row in shown(told) if "Worked" not in row] == [
        *("• Mode changed to plan", "› question 0", "› question 1"),
        *("• Mode changed to default", "› question 2"),
    ]


def test_answers_of_before_are_shown_as_they_were_written_too() -> None:
    told = conversation()
    told.is_raw = True
    told.replay([record("event_msg", {"type": "agent_message", "message": "# Title\n\n**bold**"})])
    assert shown(told) == ["# Title", "**bold**"]


def test_a_last_turn_that_is_too_long_alone_is_printed_from_its_end() -> None:
    told = conversation()
    told.replay(long_thread(1, 6000))
    rows = [text for text in texts(told.take_finished(80)) if text.strip()]
    assert "earlier turn " in rows[0]
    assert "  Answer 0, paragraph 5999." in rows
    assert "  Answer 0, paragraph 10." not in rows


def test_the_lines_can_be_made_in_small_steps() -> None:
    told = conversation()
    told.replay(long_thread(100, 1))
    assert sum(1 for _ in told.prepare(80)) == 100
    assert len([row for row in shown(told) if row.startswith("›")]) == 100


def test_new_events_follow_what_was_replayed() -> None:
    told = conversation()
    told.replay(long_thread(2, 1))
    told.take(Event("t9", said("And on.")))
    assert shown(told)[-1] == "• And on."


def test_a_record_with_rubbish_in_it_is_shown_as_far_as_it_can_be_read() -> None:
    told = conversation()
    rubbish = [
        record("event_msg", {"type": "user_message", "message": "hello"}),
        record("event_msg", {"type": "item_completed", "item": {"type": "CommandExecution", "command": "x", "cwd": 3}}),
        record("event_msg", {"type": "token_count", "info": {"total_token_usage": "many"}}),
        record("event_msg", {"type": "item_completed", "item": {"type": "FileChange", "changes": [1, 2]}}),
        record(
            "response_item", {"type": "function_call", "name": "exec_command", "arguments": "no json", "call_id": "x"}
        ),
        record(
            "response_item",
            {"type": "function_call", "name": "update_plan", "arguments": '{"plan":[1]}', "call_id": "y"},
        ),
        record(
            "response_item", {"type": "custom_tool_call", "name": "apply_patch", "input": "no patch", "call_id": "z"}
        ),
        Record("event_msg", b"{no json", "when?"),
        record("event_msg", {"type": "agent_message", "message": "bye"}),
    ]
    told.replay(rubbish)
    rows = shown(told)
    assert rows[0] == "› hello"
    assert rows[-1] == "• bye"


def test_replay_of_nothing_is_nothing() -> None:
    told = conversation()
    told.replay([])
    assert told.take_finished(80) == []
