"""Starting over from what is known: a fresh context, and a way back to the old one."""

from __future__ import annotations

import json
from pathlib import Path

from sessions import Start, texts
from spindle.context.swap import FRESH_START
from spindle.model.scripted import calls, says
from spindle.protocol.events import ContextCompacted, TaskComplete, Warning
from spindle.protocol.ops import Pin, StartOver
from spindle.protocol.request import TokenUsage


async def test_a_thread_goes_on_from_what_is_known_without_asking_a_model(start: Start, workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("RULE-X\n")
    driver = await start(config={"spindle": {"compact_keep": ["KEPT-X"]}})
    plan = {"plan": [{"step": "STEP-X", "status": "in_progress"}]}
    await driver.turn(
        "PROMPT-X",
        calls("exec_command", {"cmd": "echo SEEN-X"}, "c1"),
        calls("update_plan", plan, "c2"),
        says("SAID-X", usage=TokenUsage(input_tokens=49_000, total_tokens=50_000)),
    )
    driver.submit(Pin(text="PINNED-X"))
    (workspace / "AGENTS.md").write_text("RULE-Y\n")
    asked = len(driver.model.requests)
    messages = await driver.end_of(driver.submit(StartOver()))
    assert len(driver.model.requests) == asked
    assert isinstance(messages[-1], TaskComplete)
    (compacted,) = [msg for msg in messages if isinstance(msg, ContextCompacted)]
    assert 0 < compacted.tokens_after < compacted.tokens_before
    assert not [msg for msg in messages if isinstance(msg, Warning)]
    await driver.turn("NEXT-X", says("ok"))
    first, after = driver.inputs[0], driver.inputs[-1]
    said = texts(after)
    assert {item["type"] for item in after} == {"message"}
    told = [text.replace("RULE-X", "RULE-Y") for text in texts(first)[:-1]]
    assert said[: len(told)] == told and len(said) == len(told) + 3  # the surroundings, told anew and once
    assert driver.session.thread.cache.ledger.entries[-1].causes == ("compaction",)
    assert said[-3] == "PROMPT-X" and said[-1] == "NEXT-X"
    assert FRESH_START in said[-2]
    assert all(known in said[-2] for known in ("STEP-X", "PINNED-X", "KEPT-X", "echo SEEN-X"))
    assert "SAID-X" not in str(after)


async def test_what_stood_before_is_in_the_record_and_can_be_gone_back_to(start: Start) -> None:
    driver = await start()
    (*_, done) = await driver.turn("ONE", says("FIRST"))
    await driver.end_of(driver.submit(StartOver()))
    await driver.turn("TWO", says("SECOND"))
    path = Path(driver.session.thread.history.writer.path)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    (marker,) = [record["payload"] for record in records if record["type"] == "compacted"]
    assert FRESH_START in marker["message"] and "FIRST" in path.read_text()
    assert marker["spindle_cause"] == "start_over"
    assert [record["payload"].get("type") for record in records].count("context_compacted") == 1
    await driver.turn("THREE", says("THIRD"), last_response_id=done.response_id)
    said = texts(driver.inputs[-1])
    assert said[-3:] == ["ONE", "FIRST", "THREE"] and "TWO" not in said


async def test_a_resumed_thread_begins_where_it_started_over(start: Start) -> None:
    driver = await start()
    await driver.turn("ONE", says("FIRST"))
    await driver.end_of(driver.submit(StartOver()))
    await driver.turn("TWO", says("SECOND"))
    before = driver.inputs[-1]
    await driver.close()
    again = await start(thread=driver.session.thread_id)
    await again.turn("THREE", says("THIRD"))
    assert again.inputs[-1][: len(before)] == before


async def test_a_small_window_bounds_what_is_kept(start: Start) -> None:
    driver = await start(config={"model_context_window": 4_000, "spindle": {"compact_keep": ["K" * 8_000]}})
    await driver.turn("ONE", says("FIRST"))
    await driver.end_of(driver.submit(StartOver()))
    await driver.turn("TWO", says("SECOND"))
    kept = next(text for text in texts(driver.inputs[-1]) if FRESH_START in text)
    assert len(kept) < 4_000
