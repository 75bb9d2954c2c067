"""Threads that outlive their process: resume, fork, and what a second process sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessions import Start, texts
from spindle.errors import ThreadError, ThreadLocked
from spindle.model.scripted import calls, says, thinks
from spindle.protocol.request import TokenUsage


async def recorded(start: Start, **options: Any) -> tuple[str, Any]:
    driver = await start(**options)
    await driver.turn("P1", [thinks("hm"), calls("exec_command", {"cmd": "echo 1"}, "c1")], says("first"))
    await driver.close()
    return driver.session.thread_id, driver.model.requests[-1].raw


async def test_a_resumed_thread_sends_the_old_input_byte_for_byte(start: Start) -> None:
    thread_id, before = await recorded(start)
    driver = await start(thread=thread_id)
    await driver.turn("P2", says("second"))
    (after,) = (asked.raw for asked in driver.model.requests)
    assert after.input[: len(before.input)] == before.input
    assert texts(driver.inputs[0][len(before.input) :]) == ["first", "P2"]
    assert (after.tools, after.instructions, after.prompt_cache_key) == (
        before.tools,
        before.instructions,
        before.prompt_cache_key,
    )


async def test_another_policy_on_resume_is_appended(start: Start) -> None:
    thread_id, before = await recorded(start)
    driver = await start(thread=thread_id, sandbox="workspace-write")
    await driver.turn("P2", says("second"))
    added = driver.inputs[0][len(before.input) :]
    assert [item["role"] for item in added] == ["assistant", "developer", "user"]


async def test_changed_documents_are_told_on_resume_and_unchanged_ones_are_not(start: Start, workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("OLD\n")
    thread_id, before = await recorded(start)
    (workspace / "AGENTS.md").write_text("NEW\n")
    driver = await start(thread=thread_id)
    await driver.turn("P2", says("second"))
    added = texts(driver.inputs[0][len(before.input) :])
    assert len(added) == 3 and "NEW" in added[1]
    await driver.close()
    again = await start(thread=thread_id)
    await again.turn("P3", says("third"))
    assert texts(again.inputs[0])[-2:] == ["second", "P3"]


async def test_the_newest_thread_of_the_folder_is_found(start: Start, tmp_path: Path) -> None:
    thread_id, _ = await recorded(start)
    other = tmp_path / "elsewhere"
    other.mkdir()
    await recorded(start, cwd=other)
    driver = await start(newest=True)
    assert driver.session.thread_id == thread_id


async def test_a_fork_has_its_own_id_and_the_same_history(start: Start) -> None:
    thread_id, before = await recorded(start)
    driver = await start(thread=thread_id, fork=True)
    await driver.turn("P2", says("branch"))
    (after,) = (asked.raw for asked in driver.model.requests)
    assert after.input[: len(before.input)] == before.input
    assert after.prompt_cache_key == driver.session.thread_id != thread_id
    original = await start(thread=thread_id)
    await original.turn("P3", says("x"))
    assert "branch" not in texts(original.inputs[0])


async def test_a_fork_can_begin_after_any_response(start: Start) -> None:
    driver = await start()
    await driver.turn("Q1", says("A1"))
    await driver.turn("Q2", says("A2"))
    await driver.close()
    branch = await start(thread=driver.session.thread_id, fork=True, fork_at="resp-1")
    await branch.turn("Q3", says("A3"))
    assert texts(branch.inputs[0])[-3:] == ["Q1", "A1", "Q3"]


async def test_a_bookmark_of_another_recorded_thread_is_found(start: Start) -> None:
    driver = await start()
    await driver.turn("Q1", says("A1"))
    await driver.turn("Q2", says("A2"))
    await driver.close()
    other = await start()
    await other.turn("Q3", says("A3"), last_response_id="resp-1")
    assert texts(other.inputs[0])[-3:] == ["Q1", "A1", "Q3"]


async def test_usage_goes_on_after_resume(start: Start) -> None:
    cost = TokenUsage(input_tokens=10, output_tokens=1, total_tokens=11)
    driver = await start()
    await driver.turn("P1", says("x", usage=cost))
    await driver.close()
    again = await start(thread=driver.session.thread_id)
    await again.turn("P2", says("y", usage=cost))
    assert again.session.thread.total_usage.input_tokens == 20


async def test_a_second_writer_is_refused(start: Start) -> None:
    driver = await start()
    await driver.turn("P1", says("x"))
    with pytest.raises(ThreadLocked):
        await start(thread=driver.session.thread_id)


async def test_an_unknown_thread_is_named(start: Start) -> None:
    missing = "00000000-0000-0000-0000-000000000000"
    with pytest.raises(ThreadError, match=f"no rollout found for thread id {missing}"):
        await start(thread=missing)


async def test_an_ephemeral_thread_leaves_no_file(start: Start, tmp_path: Path) -> None:
    driver = await start(ephemeral=True)
    await driver.turn("P1", says("x"))
    assert list((tmp_path / "codex-home").rglob("rollout-*")) == []


async def test_the_record_of_a_turn_is_in_the_order_readers_expect(start: Start, tmp_path: Path) -> None:
    await recorded(start)
    (path,) = (tmp_path / "codex-home").rglob("rollout-*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    shown = [
        row["payload"].get("type") if row["type"] in ("response_item", "event_msg") else row["type"] for row in rows
    ]
    assert shown == [
        "session_meta",
        "message",
        "message",
        "task_started",
        "message",
        "user_message",
        "turn_context",
        "spindle_terms",
        "spindle_request",
        "agent_reasoning",
        "reasoning",
        "function_call",
        "function_call_output",
        "spindle_bookmark",
        "token_count",
        "spindle_request",
        "agent_message",
        "message",
        "spindle_bookmark",
        "token_count",
        "task_complete",
    ]
    assert path.stat().st_mode & 0o777 == 0o600


async def test_another_model_of_the_same_family_on_resume_brings_no_new_base_text(start: Start) -> None:
    thread_id, before = await recorded(start)
    driver = await start(thread=thread_id, model="gpt-5.1-codex")
    await driver.turn("P2", says("second"))
    assert texts(driver.inputs[0][len(before.input) :]) == ["first", "P2"]
