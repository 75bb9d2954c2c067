"""What a script means; the contract itself is checked in test_contract."""

from __future__ import annotations

import asyncio
import time

import pytest

from spindle.errors import ModelError, StreamDropped
from spindle.model.client import Completed, ItemDone, TextDelta, TurnState
from spindle.model.scripted import ScriptedModel, calls, drops, fails, item_of, says, thinks, waits


async def kinds(model: ScriptedModel, question) -> list[str]:
    return [event.item["type"] async for event in model.stream(question) if isinstance(event, ItemDone)]


async def test_each_step_is_a_response_and_a_list_is_one_with_several_items(question) -> None:
    model = ScriptedModel(says("a"), [says("b"), calls("t", {}, "c")], calls("t", {}, "d"))
    assert [await kinds(model, question) for _ in range(3)] == [
        ["message"],
        ["message", "function_call"],
        ["function_call"],
    ]
    assert model.is_exhausted


async def test_thinking_and_waiting_belong_to_the_step_that_follows(question) -> None:
    model = ScriptedModel(thinks("hm"), waits(0), says("a"), thinks("so"))
    assert [await kinds(model, question) for _ in range(2)] == [["reasoning", "message"], ["reasoning"]]


async def test_a_step_may_be_a_function_of_the_request(question) -> None:
    model = ScriptedModel(lambda request: [says(request.model), lambda _: calls("t", {}, "c")])
    events = [event async for event in model.stream(question)]
    assert [event.item.get("call_id") for event in events if isinstance(event, ItemDone)] == [None, "c"]
    assert "".join(event.delta for event in events if isinstance(event, TextDelta)) == question.model


async def test_every_request_is_kept_with_its_turn_state(question) -> None:
    model = ScriptedModel(says("a"), fails("no"))
    await kinds(model, question)
    with pytest.raises(ModelError, match=r"^no$"):
        await kinds(model, question)
    assert [asked.raw for asked in model.requests] == [question, question]
    model.script(says("b"))
    _ = [event async for event in model.stream(question, TurnState("s"))]
    assert model.turn_states == [None, None, "s"]


async def test_a_request_beyond_the_script_is_an_error_unless_there_is_a_default(question) -> None:
    with pytest.raises(ModelError, match=r"no answer to request 1"):
        await kinds(ScriptedModel(), question)
    model = ScriptedModel(default=says("again"))
    assert [await kinds(model, question) for _ in range(2)] == [["message"], ["message"]]


async def test_an_error_may_be_given_and_is_fresh_each_time(question) -> None:
    model = ScriptedModel(
        default=fails(StreamDropped("busy", delay_s=3, info="internal_server_error", final="gave up"))
    )
    errors = []
    for _ in range(2):
        with pytest.raises(StreamDropped, match=r"^busy$") as caught:
            await kinds(model, question)
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    assert [(error.delay_s, error.info, error.final) for error in errors] == [
        (3, "internal_server_error", "gave up")
    ] * 2


async def test_a_drop_may_name_a_delay(question) -> None:
    with pytest.raises(StreamDropped) as caught:
        await kinds(ScriptedModel(drops(retry_after_s=2)), question)
    assert caught.value.delay_s == 2


async def test_an_item_may_be_given_verbatim(question) -> None:
    item = {"type": "hologram_call", "data": 1}
    events = [event async for event in ScriptedModel(item_of(item)).stream(question)]
    assert [event.item for event in events if isinstance(event, ItemDone)] == [item]
    assert isinstance(events[-1], Completed)


async def test_steps_and_pieces_may_take_their_time(question) -> None:
    started = time.monotonic()
    await kinds(ScriptedModel(says("a b c", delay_s=0.05, pace_s=0.05)), question)
    assert time.monotonic() - started >= 0.14  # once before, and twice between


async def test_closing_is_seen() -> None:
    model = ScriptedModel()
    await asyncio.gather(model.warm(), model.aclose())
    assert model.is_closed
