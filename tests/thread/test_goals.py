"""Which goal a record says a thread has, whoever wrote the record, and however it was damaged."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from spindle.protocol.goal import Goal
from spindle.protocol.items import encode_json
from spindle.thread.codex_goals import present_goal
from spindle.thread.entry import Record
from spindle.thread.goals import CLEARED, OURS, goal_line, recorded_goal

GOAL = Goal(thread_id="t", objective="Count.", tokens_used=7, created_at=1, updated_at=1)


def event(payload: Any) -> Record:
    return Record("event_msg", encode_json(payload))


def item(**fields: Any) -> Record:
    return Record("response_item", encode_json(fields))


def counted(fresh: int, cached: int = 0) -> Record:
    usage = {"input_tokens": fresh + cached, "cached_input_tokens": cached, "output_tokens": 0}
    return event({"type": "token_count", "info": {"total_token_usage": usage}})


def of(*records: Record, thread_id: str = "t") -> Goal | None:
    return recorded_goal(records, thread_id)


def test_the_last_line_counts() -> None:
    other = Goal(thread_id="t", objective="Sing.", status="paused")
    assert of() is None
    assert of(event(goal_line(GOAL, None)), event(goal_line(other, "turn"))) == other
    assert of(event(goal_line(GOAL, None)), Record(CLEARED, b"{}")) is None


def test_the_goal_of_another_thread_is_not_this_ones() -> None:
    assert of(event(goal_line(GOAL, None)), thread_id="fork") is None


def test_what_was_used_after_the_last_line_is_added() -> None:
    goal = of(counted(100), event(goal_line(GOAL, None)), counted(130, cached=500), counted(160, cached=900))
    assert goal is not None and goal.tokens_used == 7 + 60
    done = Goal(thread_id="t", objective="Count.", status="complete", tokens_used=7)
    assert of(event(goal_line(done, None)), counted(100)) == done


def test_what_a_model_told_codex_counts_though_codex_writes_no_line() -> None:
    call = item(type="function_call", name="update_goal", call_id="c", arguments='{"status":"complete"}')
    told = encode_json({"goal": {**GOAL.to_record(), "status": "complete"}, "remainingTokens": None}).decode()
    goal = of(event(goal_line(GOAL, None)), call, item(type="function_call_output", call_id="c", output=told))
    assert goal is not None and goal.status == "complete"
    # What another tool prints is no word about the goal.
    stranger = item(type="function_call", name="exec_command", call_id="c", arguments="{}")
    assert (
        of(event(goal_line(GOAL, None)), stranger, item(type="function_call_output", call_id="c", output=told)) == GOAL
    )


@pytest.mark.parametrize(
    "goal",
    [
        None,
        [],
        {"objective": "x"},
        {**GOAL.to_record(), "status": "odd"},
        {**GOAL.to_record(), "objective": " "},
        {**GOAL.to_record(), "objective": "x" * 4001},
        {**GOAL.to_record(), "tokensUsed": "many"},
    ],
)
def test_a_line_that_cannot_be_read_changes_nothing(goal: Any) -> None:
    line = event({"type": "thread_goal_updated", "threadId": "t", "goal": goal})
    assert of(line) is None and of(event(goal_line(GOAL, None)), line) == GOAL
    broken = item(type="function_call_output", call_id="c", output="not JSON")
    call = item(type="function_call", name="update_goal", call_id="c", arguments="{}")
    assert of(event(goal_line(GOAL, None)), call, broken, counted(0)) == GOAL
    assert of(event({"type": "token_count", "info": [1]}), event(goal_line(GOAL, None))) == GOAL


@pytest.mark.parametrize(
    ("table", "rows", "is_ours", "is_there"),
    [
        (None, [], False, True),
        ("thread_goals", ["t"], False, True),
        ("thread_goals", ["other"], False, False),
        ("thread_goals", ["other"], True, True),
        ("elsewhere", [], False, True),
    ],
)
def test_a_goal_that_codex_wrote_down_and_no_longer_has_was_cleared_there(
    tmp_path: Path, table: str | None, rows: list[str], is_ours: bool, is_there: bool
) -> None:
    if table is not None:
        (tmp_path / "goals_1.sqlite").write_bytes(b"an older one, which nobody reads")
        with sqlite3.connect(tmp_path / "goals_12.sqlite") as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(f"CREATE TABLE {table} (thread_id TEXT PRIMARY KEY)")
            database.executemany(f"INSERT INTO {table} VALUES (?)", [(row,) for row in rows])
        database.close()
    line = event(goal_line(GOAL, None))
    line.beside = OURS if is_ours else b""
    assert (present_goal([line], "t", str(tmp_path)) is not None) == is_there


def test_a_database_that_is_none_says_nothing_of_goals(tmp_path: Path) -> None:
    (tmp_path / "goals_1.sqlite").write_bytes(b"x" * 5000)
    assert present_goal([event(goal_line(GOAL, None))], "t", str(tmp_path)) == GOAL
