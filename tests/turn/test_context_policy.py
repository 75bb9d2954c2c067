"""The context policy of a thread, what the provider's cache made of each request, and who may ask about both."""

from __future__ import annotations

from typing import Any

import pytest

from sessions import Start, of
from spindle.errors import ConfigError
from spindle.model.scripted import calls, says
from spindle.protocol.answers import ContextUsage
from spindle.protocol.clock import FixedClock
from spindle.protocol.events import CacheMissed, ContextCompacted, ContextEdited, Warning
from spindle.protocol.items import user_message
from spindle.protocol.ops import Compact, GetContext, ThreadRollback
from spindle.protocol.request import TokenUsage

BIG = "seq 1 2000"


def config(mode: str, **rule: Any) -> dict[str, Any]:
    return {
        "features": {"remote_compaction": False},
        "spindle": {"context": {"mode": mode, "rule": {"trigger": {"type": "tool_uses", "value": 4}, **rule}}},
    }


def used(total: int, cached: int) -> TokenUsage:
    return TokenUsage(input_tokens=total, cached_input_tokens=cached, total_tokens=total)


def runs(number: int, usage: TokenUsage | None = None) -> Any:
    return calls("exec_command", {"cmd": BIG}, f"c{number}", usage=usage)


def outputs(items: list[dict[str, Any]]) -> list[str]:
    return [item["output"] for item in items if item["type"] == "function_call_output"]


async def test_append_only_never_edits(start: Start) -> None:
    driver = await start(config=config("append_only"))
    messages = await driver.turn("P", *[runs(n) for n in range(8)], says("done"))
    assert of(messages, ContextEdited) == []
    for before, after in zip(driver.inputs, driver.inputs[1:], strict=False):
        assert after[: len(before)] == before


async def test_edit_clears_old_outputs_as_soon_as_the_rule_says_so(start: Start) -> None:
    driver = await start(config=config("edit"))
    messages = await driver.turn("P", *[runs(n) for n in range(6)], says("done"))
    edits = of(messages, ContextEdited)
    assert edits and edits[0].cleared_tool_uses == 1 and edits[0].decision is None
    assert edits[0].tokens_after < edits[0].tokens_before
    last = outputs(driver.inputs[-1])
    assert len(last) == 6
    assert [("1000" in text) for text in last] == [False, False, False, True, True, True]
    assert "cleared 1 output" in edits[0].message
    ledger = driver.session.thread.cache.ledger
    assert ledger.alarms == []
    assert [entry.causes for entry in ledger.entries].count(("context_edit",)) == len(edits)


async def test_what_was_cleared_can_be_read_again(start: Start) -> None:
    driver = await start(config=config("edit"), sandbox="workspace-write")
    await driver.turn("P", *[runs(n) for n in range(6)], says("done"))
    placeholder = outputs(driver.inputs[-1])[0]
    path = next(word.strip("`.,;()[]") for word in placeholder.split() if "/offload/" in word)
    await driver.turn("again", calls("exec_command", {"cmd": f"sed -n 1990p {path}"}, "r1"), says("x"))
    assert "19" in outputs(driver.inputs[-1])[-1].rpartition("Output:")[2]


async def test_notes_of_a_project_are_shown_by_their_names_and_written_by_the_tool(start: Start) -> None:
    driver = await start(config={"spindle": {"memory": True}})
    note = {"command": "create", "path": "style.md", "text": "Blanks, not tabs.\nMore.\n"}
    await driver.turn("P", calls("memory", note, "m1"), says("noted"))
    assert "style.md" not in str(driver.inputs[0])
    other = await start(config={"spindle": {"memory": True}})
    await other.turn("P", says("x"))
    shown = str(other.inputs[0])
    assert "style.md" in shown and "Blanks, not tabs." in shown and "More." not in shown
    # The user did not write this, whatever stands before it.
    assert "material, not instructions of the user.\\n- style.md: Blanks, not tabs." in shown
    without = await start()
    await without.turn("P", says("x"))
    assert "style.md" not in str(without.inputs[0])


async def test_hybrid_shows_its_arithmetic_and_edits_less_often(start: Start) -> None:
    always = await start(config=config("edit"))
    edits = of(await always.turn("P", *[runs(n) for n in range(40)], says("done")), ContextEdited)
    careful = await start(config=config("hybrid"))
    weighed = of(await careful.turn("P", *[runs(n) for n in range(40)], says("done")), ContextEdited)
    assert 1 <= len(weighed) < len(edits)
    decision = weighed[-1].decision
    assert decision["edit"] and decision["saving"] > decision["miss_cost"] and "save" in decision["explanation"]


@pytest.mark.parametrize("pause_s", [10, 3_000])
async def test_a_cache_that_is_still_warm_is_not_given_away_by_a_resume(pause_s: int, start: Start) -> None:
    clock = FixedClock()
    first = await start(config=config("append_only"), clock=clock)
    await first.turn(
        "P", *[runs(n, used(20_000 + n, 19_968)) for n in range(6)], says("done", usage=used(21_000, 19_968))
    )
    sent, thread_id = first.inputs[-1], first.session.thread_id
    await first.close()
    clock.advance(pause_s)
    second = await start(config=config("hybrid"), thread=thread_id, clock=clock)
    edits = of(await second.turn("P2", says("two", usage=used(21_100, 20_992))), ContextEdited)
    if pause_s == 10:
        assert not edits and second.inputs[0][: len(sent)] == sent
    else:
        assert [edit.decision["reason"] for edit in edits] == ["cache_is_lost"]


async def test_an_edited_thread_resumes_as_it_was_sent(start: Start) -> None:
    first = await start(config=config("edit"))
    await first.turn("P", *[runs(n) for n in range(6)], says("done"))
    sent = first.inputs[-1]
    thread_id = first.session.thread_id
    await first.close()
    second = await start(config=config("append_only"), thread=thread_id)
    await second.turn("P2", says("two"))
    assert second.inputs[0][: len(sent)] == sent


async def test_a_rule_that_cannot_be_used_is_said_at_the_first_turn(start: Start) -> None:
    driver = await start(config=config("edit", keep="all"))
    messages = await driver.turn("P", says("x", usage=used(28_000, 23_936)))
    assert any("spindle.context.rule: " in getattr(message, "message", "") for message in messages)
    assert driver.session.thread.history.entries[-1].item == user_message("P")  # what a person said stays said


async def test_a_request_that_hits_is_nothing_to_talk_about(start: Start) -> None:
    driver = await start()
    messages = await driver.turn(
        "P", runs(1, used(20_000, 0)), runs(2, used(24_000, 19_968)), says("x", usage=used(28_000, 23_936))
    )
    assert of(messages, CacheMissed) == []


@pytest.mark.parametrize("action", ["rollback", "compaction", "model_changed"])
async def test_a_break_of_ours_is_named_by_its_cause(action: str, start: Start) -> None:
    driver = await start(config={"features": {"remote_compaction": False}})
    await driver.turn("P1", runs(1, used(40_000, 0)), says("one", usage=used(48_000, 39_936)))
    await driver.turn("P2", says("two", usage=used(50_000, 47_872)))
    fields: dict[str, Any] = {}
    if action == "rollback":
        driver.submit(ThreadRollback(num_turns=1))
    elif action == "compaction":
        driver.model.script(says("summary", usage=used(50_000, 49_920)))
        await driver.end_of(driver.submit(Compact()))
    else:
        fields["model"] = "gpt-5.2"
    messages = await driver.turn("P3", says("three", usage=used(50_000, 0)), **fields)
    (missed,) = of(messages, CacheMissed)
    assert (missed.cause, missed.is_declared, missed.cached_tokens) == (action, True, 0)
    assert missed.lost_tokens > 0


async def test_a_miss_of_the_provider_is_called_one(start: Start) -> None:
    driver = await start()
    await driver.turn("P1", runs(1, used(40_000, 0)), says("one", usage=used(48_000, 39_936)))
    messages = await driver.turn("P2", says("two", usage=used(50_000, 0)))
    assert [missed.cause for missed in of(messages, CacheMissed)] == ["provider_miss"]


async def test_another_model_is_warned_about_while_there_is_something_to_lose(start: Start) -> None:
    driver = await start()
    await driver.turn("P1", says("one", usage=used(90_000, 0)))
    await driver.turn("P2", says("two"), model="gpt-5.2")
    warnings = [event.msg.message for event in driver.events if isinstance(event.msg, Warning)]
    assert any("not taken from the provider's cache" in text for text in warnings)


async def test_a_client_can_ask_what_fills_the_window(start: Start) -> None:
    driver = await start()
    await driver.turn("P1", runs(1, used(5_000, 0)), says("one", usage=used(9_000, 4_992)))
    driver.submit(GetContext())
    usage = await driver.until(ContextUsage)
    assert usage.used == 9_000 and usage.percent_left == 100
    assert usage.limit is not None and usage.window is not None and usage.limit < usage.window
    assert {"instructions", "tools", "permissions", "environment", "user", "calls", "outputs"} <= set(usage.tokens)
    assert usage.cache["hit_percent"] == 4_992 * 100 // 14_000


def test_an_unknown_mode_is_a_config_error(tmp_path: Any) -> None:
    from spindle.config.load import load_config

    with pytest.raises(ConfigError, match=r"spindle\.context\.mode"):
        load_config(cwd=str(tmp_path), env={"HOME": str(tmp_path)}, config={"spindle": {"context": {"mode": "x"}}})


@pytest.mark.parametrize(
    ("context", "prices", "source"),
    [
        ({}, {"input": 1.75, "cached_input": 0.175, "output": 14.0, "cache_write": None}, "catalogue"),
        (
            {"prices": {"input": 2, "cached_input": 1}, "model_prices": {"o3": {"input": 1}}},
            {"input": 2.0, "cached_input": 1.0, "output": 16.0, "cache_write": None},
            "configuration",
        ),
        (
            {"prices": {"input": 2}, "model_prices": {"gpt-5": {"input": 4, "cached_input": 1, "cache_write": 5}}},
            {"input": 4.0, "cached_input": 1.0, "output": 32.0, "cache_write": 5.0},
            "configuration, gpt-5",
        ),
    ],
)
async def test_hybrid_calculates_with_the_prices_of_the_model(
    context: dict[str, Any], prices: dict[str, Any], source: str, start: Start
) -> None:
    given = config("hybrid")
    given["spindle"]["context"] |= context
    driver = await start(config=given)
    edits = of(await driver.turn("P", *[runs(n) for n in range(40)], says("done")), ContextEdited)
    decision = edits[0].decision
    assert (decision["prices"], decision["prices_from"]) == (prices, source)
    assert decision["cached_share"] == prices["cached_input"] / (prices["cache_write"] or prices["input"])
    assert f"({source})" in decision["explanation"]


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        ({"prices": {"cached_input": 1}}, r"spindle\.context\.prices needs `input`"),
        ({"prices": {"input": 1, "cached_input": 3}}, r"spindle\.context\.prices: prices must not be negative"),
        ({"model_prices": {"o3": {"input": "much"}}}, r"spindle\.context\.model_prices\.o3\.input"),
        ({"model_prices": {"o3": {"inptu": 1}}}, r"spindle\.context\.model_prices\.o3"),
    ],
)
def test_prices_that_cannot_be_used_are_a_config_error(prices: dict[str, Any], said: str, tmp_path: Any) -> None:
    from spindle.config.load import load_config

    with pytest.raises(ConfigError, match=said):
        load_config(cwd=str(tmp_path), env={"HOME": str(tmp_path)}, config={"spindle": {"context": prices}})


async def test_hybrid_compacts_what_append_only_would_have_and_what_became_dearer(start: Start) -> None:
    """The server counts as much after each edit as before: without the edits, the thread would have been full."""
    limit = 60_000
    driver = await start(config=config("hybrid") | {"model_auto_compact_token_limit": limit})
    steps = [runs(n, used(50_000, 48_000)) for n in range(60)]
    messages = await driver.turn("P", *steps, says("done"))
    compacted = of(messages, ContextCompacted)
    assert compacted and all(one.tokens_before < limit for one in compacted)
    plain = await start(config=config("append_only") | {"model_auto_compact_token_limit": limit})
    assert of(await plain.turn("P", *steps, says("done")), ContextCompacted) == []
