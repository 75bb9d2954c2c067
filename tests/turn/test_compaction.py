"""A thread that outgrows its window goes on from a shorter one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from sessions import Start, of, texts
from spindle.context.tokens import estimate_tokens
from spindle.context.wording import NO_SUMMARY, SUMMARY_PREAMBLE, SUMMARY_PROMPT
from spindle.errors import ModelError, WindowFull
from spindle.model.scripted import calls, drops, fails, item_of, says, thinks, waits
from spindle.protocol.events import (
    ContextCompacted,
    Error,
    ItemCompleted,
    ItemStarted,
    TaskComplete,
    TaskStarted,
    ThreadRolledBack,
    TokenCount,
    TurnAborted,
    UserMessage,
    Warning,
)
from spindle.protocol.ops import Compact, Interrupt, ThreadRollback
from spindle.protocol.request import TokenUsage

LIMIT = 20_000
FULL = TokenUsage(input_tokens=LIMIT, total_tokens=LIMIT)
LOCAL: dict[str, Any] = {"model_auto_compact_token_limit": LIMIT, "features": {"remote_compaction": False}}
REMOTE: dict[str, Any] = {"model_auto_compact_token_limit": LIMIT}


def runs(call_id: str, usage: TokenUsage | None = None, command: str = "echo out") -> Any:
    return calls("exec_command", {"cmd": f"{command}-{call_id}"}, call_id, usage=usage)


def overflows() -> Any:
    return fails(ModelError("too long", "context_window_exceeded"))


def kinds(items: list[dict[str, Any]]) -> set[str]:
    return {item["type"] for item in items}


async def test_a_full_thread_goes_on_from_a_summary_in_the_middle_of_a_turn(start: Start, workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("RULE-X\n")
    driver = await start(config=LOCAL)
    messages = await driver.turn("PROMPT-X", thinks("t"), runs("c1", FULL), says("SUMMARY-X"), says("done"))
    first, asked, after = driver.inputs
    assert asked[: len(first)] == first
    assert texts(asked)[-1] == SUMMARY_PROMPT
    assert any("out-c1" in item.get("output", "") for item in asked)
    assert kinds(after) == {"message"}
    said = texts(after)
    assert said[-1] == f"{SUMMARY_PREAMBLE}\nSUMMARY-X" and said[-2] == "PROMPT-X"
    context = [text for text in said[:-2] if not text.startswith("<work_ledger>")]
    assert texts(first)[:-1] == context, "the context is told again, word for word"
    assert messages[-1].last_agent_message == "done"
    (compacted,) = of(messages, ContextCompacted)
    assert compacted.tokens_before >= LIMIT > compacted.tokens_after
    shown = [type(m) for m in messages if getattr(m, "item", {}).get("type") == "ContextCompaction"]
    assert shown == [ItemStarted, ItemCompleted]
    assert of(messages, TokenCount)[-2].info["last_token_usage"]["total_tokens"] == compacted.tokens_after
    assert [m for m in of(messages, Warning) if "compacted" in m.message]


async def test_a_full_thread_is_compacted_before_the_next_input_which_comes_after_the_summary(start: Start) -> None:
    driver = await start(config=LOCAL)
    await driver.turn("P1", says("one", usage=FULL))
    messages = await driver.turn("P2", says("SUMMARY"), says("two"))
    assert isinstance(messages[0], TaskStarted)
    assert texts(driver.inputs[-1])[-3:] == ["P1", f"{SUMMARY_PREAMBLE}\nSUMMARY", "P2"]


async def test_below_the_limit_nothing_happens(start: Start) -> None:
    driver = await start(config=LOCAL)
    almost = TokenUsage(total_tokens=LIMIT - 200)
    await driver.turn("P1", runs("c1", almost), says("one", usage=almost))
    await driver.turn("P2", says("two"))
    assert len(driver.model.requests) == 3


async def test_what_came_after_the_servers_count_counts_too(start: Start) -> None:
    driver = await start(config=LOCAL)
    almost = TokenUsage(total_tokens=LIMIT - 200)
    await driver.turn("P", runs("c1", almost, "seq 1 1000; echo"), says("SUMMARY"), says("done"))
    assert texts(driver.inputs[1])[-1] == SUMMARY_PROMPT


async def test_a_server_that_can_do_it_is_asked_and_its_items_are_kept_as_they_are(start: Start) -> None:
    driver = await start(config=REMOTE)
    sealed = {"type": "compaction", "encrypted_content": "OPAQUE"}
    kept = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "KEPT"}]}
    stale = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "old permissions"}]}
    driver.model.compactions.append([stale, kept, sealed])
    messages = await driver.turn("P", runs("c1", FULL), runs("c2"), says("done"))
    assert len(driver.model.requests) == 4
    after = driver.inputs[2]
    assert after[-2:] == [kept, sealed]
    assert "old permissions" not in texts(after)
    assert driver.inputs[3][: len(after)] == after
    assert messages[-1].last_agent_message == "done"


async def test_a_server_that_cannot_is_replaced_by_a_summary(start: Start) -> None:
    driver = await start(config=REMOTE)
    messages = await driver.turn("P", runs("c1", FULL), says("SUMMARY"), says("done"))
    assert texts(driver.inputs[-1])[-1].endswith("SUMMARY")
    assert any("could not compact" in m.message for m in of(messages, Warning))


async def test_a_person_can_ask_for_it_and_say_what_to_keep(start: Start) -> None:
    driver = await start(config=LOCAL)
    await driver.turn("P1", runs("c1"), says("one"))
    driver.model.script(says("a summary without it"))
    messages = await driver.end_of(driver.submit(Compact(instructions="keep the port 4711")))
    assert isinstance(messages[0], TaskStarted) and isinstance(messages[-1], TaskComplete)
    assert "keep the port 4711" in texts(driver.inputs[-1])[-1]
    await driver.turn("P2", says("two"))
    said = texts(driver.inputs[-1])
    assert said[-1] == "P2" and said[-3] == "P1"
    assert "a summary without it" in said[-2] and said[-2].endswith("- keep the port 4711")


async def test_an_empty_thread_has_nothing_to_compact(start: Start) -> None:
    driver = await start(config=LOCAL)
    messages = await driver.end_of(driver.submit(Compact()))
    assert [type(m) for m in messages] == [TaskStarted, Warning, TaskComplete]
    assert driver.model.requests == []


async def test_facts_the_user_configured_survive_every_summary(start: Start, workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("# Us\n\n## Keep on compaction\n- never touch core/\n\n## Other\nx\n")
    driver = await start(config={**LOCAL, "spindle": {"compact_keep": ["the port is 4711"]}})
    for number in range(5):
        await driver.turn(f"P{number}", runs(f"c{number}", FULL), says("vague"), says("done"))
        said = texts(driver.inputs[-1])[-1]
        assert "the port is 4711" in said and "never touch core/" in said


async def test_only_lines_of_the_documents_are_rules(start: Start, workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "codex-home").mkdir(exist_ok=True)
    (tmp_path / "codex-home" / "AGENTS.md").write_text("## Keep on compaction\n- tell nobody\n")
    (workspace / "AGENTS.md").write_text("Be quick.\n## Keep on compaction\n- never touch core/\n")
    driver = await start(config=LOCAL)
    await driver.turn("P", runs("c1", FULL), says("vague"), says("done"))
    rules = "## Standing rules\n- tell nobody\n- never touch core/"
    assert texts(driver.inputs[-1])[-1] == f"{SUMMARY_PREAMBLE}\nvague\n\n{rules}"


async def test_facts_the_user_configured_survive_what_only_the_server_can_read(start: Start) -> None:
    driver = await start(config={**REMOTE, "spindle": {"compact_keep": ["the port is 4711"]}})
    for number in range(2):
        driver.model.compactions.append([{"type": "compaction", "encrypted_content": "OPAQUE"}])
        await driver.turn(f"P{number}", runs(f"c{number}", FULL), says("done"))
        (ledger,) = [text for text in texts(driver.inputs[-1]) if text.startswith("<work_ledger>")]
        assert ledger.count("- the port is 4711\n") == 1
    assert not driver.session.thread.notes.pins


async def test_the_prompt_can_be_replaced(start: Start) -> None:
    driver = await start(config={**LOCAL, "compact_prompt": "KEEP: all"})
    await driver.turn("P", runs("c1", FULL), says("S"), says("done"))
    assert texts(driver.inputs[1])[-1] == "KEEP: all"


@pytest.mark.parametrize("keeps", [True, False])
async def test_tools_stay_in_the_request_where_the_provider_takes_that(keeps: bool, start: Start) -> None:
    driver = await start(config={**LOCAL, "spindle": {"compact_keep_tools": keeps}})
    await driver.turn("P", runs("c1", FULL), says("S"), says("done"))
    normal, summary, after = (asked.raw for asked in driver.model.requests)
    assert (summary.tools == normal.tools, summary.tool_choice) == ((True, "none") if keeps else (False, "auto"))
    assert not summary.parallel_tool_calls
    assert (after.tools, after.tool_choice) == (normal.tools, "auto")


async def test_a_summary_that_does_not_fit_is_asked_for_with_less(start: Start) -> None:
    driver = await start(config=LOCAL)
    await driver.turn("P1", *[runs(f"c{n}") for n in range(6)], says("one"))
    messages = await driver.turn(
        "P2", runs("c9", FULL), overflows(), overflows(), overflows(), says("SUMMARY"), says("done")
    )
    sizes = [len(items) for items in driver.inputs[-5:-1]]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < sizes[0]
    assert messages[-1].last_agent_message == "done"


async def test_a_compaction_that_can_never_fit_ends_the_turn_and_changes_nothing(start: Start) -> None:
    driver = await start(config=LOCAL)
    driver.model._default = overflows()
    messages = await driver.turn("P", runs("c1", FULL))
    assert [m.codex_error_info for m in of(messages, Error)] == ["context_window_exceeded"]
    assert len(driver.model.requests) < 20
    driver.model._default = None
    items = [entry.item["type"] for entry in driver.session.thread.history.entries]
    assert "function_call_output" in items


async def test_a_window_that_the_server_names_counts_from_then_on(start: Start) -> None:
    driver = await start(config={"features": {"remote_compaction": False}})
    names_it = fails(WindowFull("too long", 100_000))
    await driver.turn("P1", runs("c1"), names_it, says("S1"), says("one", usage=used(91_000)))
    assert driver.session.thread.window_tokens == 95_000
    messages = await driver.turn("P2", says("S2"), says("two"))
    assert messages[-1].last_agent_message == "two" and len(of(messages, ContextCompacted)) == 1


@pytest.mark.parametrize(
    ("config", "named", "window"),
    [({"model_context_window": 200_000}, 100_000, 190_000), ({}, 2_000, 258_400), ({}, 400_000, 258_400)],
)
async def test_a_window_is_not_believed_that_the_user_contradicts_or_that_makes_no_sense(
    start: Start, config: dict[str, Any], named: int, window: int
) -> None:
    driver = await start(config={"features": {"remote_compaction": False}, **config})
    messages = await driver.turn("P1", runs("c1"), fails(WindowFull("too long", named)), says("S1"), says("one"))
    assert messages[-1].last_agent_message == "one" and driver.session.thread.window_tokens == window


def soft_limit_warnings(messages: list[Any]) -> list[Any]:
    return [m for m in of(messages, Warning) if "model_auto_compact_token_limit" in m.message]


def used(tokens: int) -> TokenUsage:
    return TokenUsage(input_tokens=tokens, total_tokens=tokens)


async def test_a_limit_that_no_compaction_reaches_stops_no_turn_while_the_window_has_room(start: Start) -> None:
    driver = await start(config=LOCAL)
    steps = [runs("c0", FULL), says("S"), *(runs(f"c{n}", FULL) for n in range(1, 6))]
    messages = await driver.turn("P", *steps, says("done", usage=FULL))
    assert messages[-1].last_agent_message == "done" and not of(messages, Error)
    assert len(of(messages, ContextCompacted)) == 1
    (warning,) = soft_limit_warnings(messages)
    assert str(LIMIT) in warning.message


async def test_a_thread_over_its_limit_is_compacted_again_when_it_has_grown_by_half(start: Start) -> None:
    driver = await start(config=LOCAL)
    first = [runs("c0", used(LIMIT)), says("S0"), runs("c1", used(22_000)), runs("c2", used(32_000))]
    again = [runs("c3", used(33_500)), says("S1"), runs("c4", used(24_000)), runs("c5", used(35_000))]
    messages = await driver.turn("P", *first, *again, says("done", usage=used(35_000)))
    assert messages[-1].last_agent_message == "done" and not of(messages, Error)
    assert len(of(messages, ContextCompacted)) == 2
    assert len(soft_limit_warnings(messages)) == 1


async def test_later_turns_and_resumed_threads_know_that_compacting_again_is_in_vain(start: Start) -> None:
    driver = await start(config=LOCAL)
    await driver.turn("P0", runs("c0", FULL), says("S"), says("one", usage=FULL))
    messages = await driver.turn("P1", runs("c1", FULL), says("two", usage=FULL))
    assert messages[-1].last_agent_message == "two" and not of(messages, ContextCompacted)
    await driver.close()
    again = await start(config=LOCAL, thread=driver.session.thread_id)
    messages = await again.turn("P2", runs("c2", FULL), says("three", usage=FULL))
    assert messages[-1].last_agent_message == "three" and not of(messages, ContextCompacted)
    assert len(soft_limit_warnings(messages)) == 1, "who resumes it is told once too"
    messages = await again.turn("P3", runs("c3", used(2 * LIMIT)), says("S"), says("four", usage=FULL))
    assert len(of(messages, ContextCompacted)) == 1


async def test_a_limit_below_what_every_request_holds_stops_nothing(start: Start) -> None:
    driver = await start(config={**LOCAL, "model_auto_compact_token_limit": 1})
    nothing = TokenUsage()  # a server that counts nothing
    messages = await driver.turn("P", runs("c0", nothing), says("S"), runs("c1", nothing), says("done", usage=nothing))
    assert messages[-1].last_agent_message == "done" and not of(messages, Error)
    assert len(of(messages, ContextCompacted)) == len(soft_limit_warnings(messages)) == 1


async def test_a_server_that_shortens_threads_too_little_stops_no_turn_either(start: Start) -> None:
    driver = await start(config=REMOTE)
    driver.model.compactions += [[{"type": "compaction", "encrypted_content": "X" * 400_000}]] * 3
    steps = [runs("c0", FULL), *(runs(f"c{n}", FULL) for n in range(1, 4))]
    messages = await driver.turn("P", *steps, says("done", usage=FULL))
    assert messages[-1].last_agent_message == "done" and not of(messages, Error)
    assert len(of(messages, ContextCompacted)) == 1 and len(driver.model.compactions) == 2


async def test_a_rollback_to_before_the_compaction_forgets_that_it_was_in_vain(start: Start) -> None:
    driver = await start(config=LOCAL)
    await driver.turn("P0", says("zero", usage=used(100)))
    await driver.turn("P1", runs("c0", FULL), says("S"), says("one", usage=FULL))
    driver.submit(ThreadRollback(num_turns=2))
    await driver.until(ThreadRolledBack)
    messages = await driver.turn("P2", runs("c1", FULL), says("S"), says("two", usage=used(100)))
    assert len(of(messages, ContextCompacted)) == 1 and not soft_limit_warnings(messages)


@pytest.mark.parametrize("mode", ["edit", "hybrid"])
async def test_threads_that_are_edited_by_rule_go_on_too(mode: str, start: Start) -> None:
    driver = await start(config={**LOCAL, "spindle": {"context": {"mode": mode}}})
    steps = [runs("c0", FULL), says("S"), *(runs(f"c{n}", FULL) for n in range(1, 4))]
    messages = await driver.turn("P", *steps, says("done", usage=FULL))
    assert messages[-1].last_agent_message == "done" and not of(messages, Error)
    assert len(of(messages, ContextCompacted)) == 1


SMALL = {**LOCAL, "model_context_window": 40_000}
"""Its window is full at 38,000 tokens, and about to be from 36,000 on."""


async def test_a_window_that_is_full_after_a_compaction_ends_the_turn(start: Start) -> None:
    driver = await start(config=SMALL)
    messages = await driver.turn("P", runs("c0", used(37_000)), says("S"), runs("c1", used(39_000)))
    assert [m.codex_error_info for m in of(messages, Error)] == ["context_window_exceeded"]
    assert "still too long" in of(messages, Error)[0].message
    assert len(driver.model.requests) == 3
    assert isinstance(messages[-1], TaskComplete)
    messages = await driver.turn("P2", says("S2"), says("done"))
    assert messages[-1].last_agent_message == "done" and not of(messages, Error), "what is said next is tried anew"


async def test_a_window_that_is_nearly_full_after_a_compaction_is_used_to_its_end(start: Start) -> None:
    driver = await start(config=SMALL)
    steps = [runs("c0", used(37_000)), says("S"), runs("c1", used(36_500)), runs("c2", used(37_500))]
    messages = await driver.turn("P", *steps, says("done", usage=used(37_600)))
    assert messages[-1].last_agent_message == "done" and len(of(messages, ContextCompacted)) == 1


async def test_a_thread_that_every_call_fills_again_is_compacted_every_time(start: Start) -> None:
    driver = await start(config=LOCAL)
    seen = TokenUsage(input_tokens=LIMIT // 2, total_tokens=LIMIT - 10)  # with its output the thread is full
    steps = [step for n in range(5) for step in (runs(f"c{n}", seen), says(f"S{n}"))]
    messages = await driver.turn("P", *steps, says("done"))
    assert messages[-1].last_agent_message == "done" and not of(messages, Error)
    assert len(of(messages, ContextCompacted)) == 5


async def test_what_no_server_counts_is_estimated_as_it_stands(start: Start) -> None:
    driver = await start(config={"features": {"remote_compaction": False}})
    thread, nothing = driver.session.thread, TokenUsage()

    def estimate() -> int:
        return thread.fixed_tokens + sum(estimate_tokens(entry.raw) for entry in thread.history.entries)

    for number in range(3):
        await driver.turn(f"P{number}", runs(f"c{number}", nothing), says("done", usage=nothing))
        assert thread.tokens_in_context == estimate()
    driver.model.script(says("SUMMARY"))
    await driver.end_of(driver.submit(Compact()))
    assert thread.tokens_in_context == estimate()
    await driver.turn("P3", runs("c3", nothing, "seq 1 999; echo"), says("done", usage=nothing))
    assert thread.tokens_in_context == estimate()


async def test_compactions_in_a_row_become_fewer(start: Start) -> None:
    driver = await start(config=LOCAL)
    seen = TokenUsage(input_tokens=LIMIT // 2, total_tokens=LIMIT - 10)
    steps = [step for n in range(10) for step in (runs(f"c{n}", seen), says(f"S{n}"))]
    steps += [runs(f"d{n}", seen) for n in range(10)]
    messages = await driver.turn("P", *steps, says("done", usage=seen))
    assert messages[-1].last_agent_message == "done" and not of(messages, Error)
    assert len(of(messages, ContextCompacted)) == 10
    assert len(soft_limit_warnings(messages)) == 1


async def test_compactions_in_a_row_of_a_full_window_come_to_an_end(start: Start) -> None:
    driver = await start(config={**SMALL, "model_auto_compact_token_limit": 36_000})
    seen = TokenUsage(input_tokens=LIMIT // 2, total_tokens=37_990)
    steps = [step for n in range(50) for step in (runs(f"c{n}", seen), says(f"S{n}"))]
    messages = await driver.turn("P", *steps)
    assert "still too long" in of(messages, Error)[0].message
    assert len(of(messages, ContextCompacted)) == 10


async def test_a_summary_is_asked_for_with_what_fits_beside_the_base_text(start: Start) -> None:
    driver = await start(config={**LOCAL, "model_context_window": 10_000, "model_auto_compact_token_limit": 9_000})
    lines = "for n in 1 2 3 4; do seq 1 500; done; echo"
    usage = TokenUsage(total_tokens=100)
    calls_ = [runs(f"c{n}", usage, lines) for n in range(5)]
    await driver.turn("P", calls_, says("SUMMARY"), says("done"))
    asked = driver.model.requests[1]
    assert sum(map(len, (asked.raw.instructions, *asked.raw.input))) / 4 <= 9_500


@pytest.mark.parametrize(("window", "kept"), [(None, 80_000), (16_000, 15_200)])
async def test_what_is_kept_leaves_room_in_a_small_window(window: int | None, kept: int, start: Start) -> None:
    driver = await start(config={"model_context_window": window or 272_000, "features": {"remote_compaction": False}})
    full = TokenUsage(input_tokens=270_000, total_tokens=270_000)
    await driver.turn("P" * 100_000, runs("c1", full), says("SUMMARY"), says("done"))
    (said,) = [text for text in texts(driver.inputs[-1]) if text.startswith("PPP")]
    assert said.count("P") == kept and "truncated" in said


async def test_when_the_server_says_too_long_the_thread_is_compacted_once_and_asked_again(start: Start) -> None:
    driver = await start(config=LOCAL)
    await driver.turn("P1", runs("c1"), says("one"))
    messages = await driver.turn("P2", overflows(), says("SUMMARY"), says("two"))
    assert messages[-1].last_agent_message == "two" and not of(messages, Error)
    assert texts(driver.inputs[-1])[-1].endswith("SUMMARY") and "P2" in texts(driver.inputs[-1])
    messages = await driver.turn("P3", overflows(), says("SUMMARY"), overflows())
    assert len(of(messages, Error)) == 1


async def test_a_first_input_that_does_not_fit_is_an_error_at_once(start: Start) -> None:
    driver = await start(config=LOCAL)
    messages = await driver.turn("P1", overflows())
    assert len(of(messages, Error)) == 1 and len(driver.model.requests) == 1


async def test_a_dropped_stream_is_tried_again(start: Start) -> None:
    driver = await start(config=LOCAL)
    messages = await driver.turn("P", runs("c1", FULL), drops("half a sum", retry_after_s=0.0), says("S"), says("done"))
    assert messages[-1].last_agent_message == "done"


async def test_an_interrupt_leaves_the_thread_as_it_was(start: Start) -> None:
    driver = await start(config=LOCAL)
    await driver.turn("P1", runs("c1"), says("one"))
    driver.model.script(waits(30), says("never"))
    before = [entry.raw for entry in driver.session.thread.history.entries]
    sub_id = driver.submit(Compact())
    await driver.until(ItemStarted, sub_id=sub_id)
    await asyncio.sleep(0.05)
    driver.submit(Interrupt())
    assert isinstance((await driver.end_of(sub_id))[-1], TurnAborted)
    after = [entry.raw for entry in driver.session.thread.history.entries]
    assert after[: len(before)] == before and len(after) == len(before) + 1


async def test_what_was_said_stays_said_when_there_was_no_room_for_it(start: Start) -> None:
    driver = await start(config=LOCAL)
    await driver.turn("P1", runs("c1"), says("one", usage=FULL))
    messages = await driver.turn("P2", fails(ModelError("refused", "bad_request")))
    assert [m.message for m in of(messages, Error)] == ["the thread could not be compacted: refused"]
    assert of(messages, UserMessage)[0].message == "P2"
    driver.model.script(waits(30))
    sub_id = driver.begin("P3")
    await driver.until(ItemStarted, sub_id=sub_id)
    driver.submit(Interrupt())
    assert isinstance((await driver.end_of(sub_id))[-1], TurnAborted)
    await driver.turn("P4", says("SUMMARY"), says("done"))
    said = texts(driver.inputs[-1])
    assert [text for text in said if text[:1] == "P"] == ["P1", "P2", "P3", "P4"]
    assert said[said.index("P3") + 1].startswith("<turn_aborted>")


async def test_an_empty_summary_is_named_as_such(start: Start) -> None:
    driver = await start(config=LOCAL)
    await driver.turn("P", runs("c1", FULL), says(""), says("done"))
    assert texts(driver.inputs[-1])[-1] == f"{SUMMARY_PREAMBLE}\n{NO_SUMMARY}"


async def test_a_switch_to_a_smaller_window_is_prepared_by_the_model_that_knows_the_thread(
    start: Start, tmp_path: Path
) -> None:
    catalog = {
        "models": [
            {"slug": "large", "context_window": 500_000, "visibility": "list"},
            {"slug": "small", "context_window": 30_000, "visibility": "list"},
        ]
    }
    (tmp_path / "catalog.json").write_text(json.dumps(catalog))
    driver = await start(
        config={"model_catalog_json": str(tmp_path / "catalog.json"), "features": {"remote_compaction": False}},
        model="large",
    )
    await driver.turn("P1", runs("c1"), says("one", usage=TokenUsage(total_tokens=100_000)))
    await driver.turn("P2", says("SUMMARY"), says("two"), model="small")
    assert [request.model for request in driver.model.requests] == ["large", "large", "large", "small"]
    assert texts(driver.inputs[-1])[-2:] == [f"{SUMMARY_PREAMBLE}\nSUMMARY", "P2"]


async def test_a_compacted_thread_resumes_from_its_replacement_and_counts_on(start: Start) -> None:
    first = await start(config=LOCAL)
    await first.turn("P1", runs("c1", FULL), says("S1"), says("one"))
    sent = first.inputs[-1]
    thread_id = first.session.thread_id
    await first.close()
    second = await start(config=LOCAL, thread=thread_id)
    for number in (2, 3):
        messages = await second.turn(f"P{number}", runs(f"c{number}", FULL), says(f"S{number}"), says("more"))
    assert second.inputs[0][: len(sent)] == sent
    warnings = [m.message for m in of(messages, Warning)]
    assert any("3 times" in text for text in warnings)


async def test_reasoning_of_earlier_turns_counts_though_the_server_does_not_count_it(start: Start) -> None:
    driver = await start(config=LOCAL)
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": "x" * 60_000}
    counted = TokenUsage(total_tokens=LIMIT - 8_000)
    await driver.turn("P1", [item_of(sealed), says("one", usage=counted)])
    await driver.turn("P2", says("two", usage=counted))
    assert len(driver.model.requests) == 2
    await driver.turn("P3", says("SUMMARY"), says("three"))
    assert texts(driver.inputs[2])[-1] == SUMMARY_PROMPT


async def test_a_resumed_thread_trusts_the_servers_last_count(start: Start) -> None:
    small = {**LOCAL, "model_auto_compact_token_limit": 2_000}  # less than base text and tools would be estimated at
    first = await start(config=small)
    await first.turn("P1", says("one", usage=TokenUsage(total_tokens=900)))
    thread_id = first.session.thread_id
    await first.close()
    second = await start(config=small, thread=thread_id)
    await second.turn("P2", says("two", usage=TokenUsage(total_tokens=950)))
    assert texts(second.inputs[0])[-2:] == ["one", "P2"]
