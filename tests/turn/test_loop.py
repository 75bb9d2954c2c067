"""The loop, from the outside: a scripted model in, events and requests out."""

from __future__ import annotations

import itertools
from pathlib import Path

from sessions import Start, only, outputs, run
from spindle.errors import ImageRejected, ModelError
from spindle.model.scripted import calls, drops, fails, item_of, patches, says, thinks
from spindle.protocol.events import (
    AgentMessage,
    Error,
    ExecCommandBegin,
    ExecCommandEnd,
    Msg,
    StreamError,
    TaskComplete,
    TaskStarted,
    TokenCount,
    Warning,
)
from spindle.protocol.request import TokenUsage

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


def messages(msgs: list[Msg]) -> list[str]:
    return [msg.message for msg in msgs if isinstance(msg, AgentMessage)]


async def test_a_turn_without_calls_is_one_request_and_one_message(start: Start) -> None:
    driver = await start()
    msgs = await driver.turn("hi", says("Hello"))
    assert len(driver.model.requests) == 1
    assert messages(msgs) == ["Hello"]
    assert isinstance(msgs[0], TaskStarted)
    assert msgs[-1] == TaskComplete(turn_id="s1", last_agent_message="Hello", response_id="resp-1")


async def test_a_call_is_run_and_its_output_goes_back_under_its_id(start: Start, workspace: Path) -> None:
    driver = await start()
    msgs = await driver.turn("go", run("echo marker-$((40+2)) | tee made.txt", "c1"), says("done"))
    assert (workspace / "made.txt").read_text() == "marker-42\n"
    assert outputs(driver.inputs[1])["c1"].endswith("Output:\nmarker-42\n")
    assert messages(msgs) == ["done"]


async def test_every_input_begins_with_the_one_before(start: Start) -> None:
    driver = await start()
    await driver.turn("one", [thinks("hm"), says("step"), run("echo 1", "a")], run("false", "b"), says("first"))
    await driver.turn("two", says("second"))
    requests = [asked.raw for asked in driver.model.requests]
    for before, after in itertools.pairwise(requests):
        assert after.input[: len(before.input)] == before.input
        assert (after.tools, after.instructions) == (before.tools, before.instructions)


async def test_outputs_come_in_the_order_of_the_calls_though_the_commands_end_in_another(start: Start) -> None:
    driver = await start()
    slow_first = [run(f"sleep 0.{9 - n}; echo {n}", f"c{n}") for n in range(3)]
    await driver.turn("go", slow_first, says("x"))
    answered = [item["call_id"] for item in driver.inputs[1] if item["type"] == "function_call_output"]
    assert answered == ["c0", "c1", "c2"]
    assert [outputs(driver.inputs[1])[f"c{n}"].strip()[-1] for n in range(3)] == ["0", "1", "2"]


async def test_an_exclusive_call_waits_for_those_before_it_and_holds_up_those_after(
    start: Start, workspace: Path
) -> None:
    driver = await start()
    patch = "*** Begin Patch\n*** Add File: n.txt\n+x\n*** End Patch\n"
    await driver.turn(
        "go",
        [run("sleep 0.3; test ! -e n.txt && echo early", "a"), patches(patch, "p"), run("cat n.txt", "b")],
        says("x"),
    )
    answers = outputs(driver.inputs[1])
    assert answers["a"].endswith("early\n") and answers["b"].endswith("x\n")


async def test_two_hundred_calls_in_one_turn(start: Start) -> None:
    driver = await start()
    steps = [calls("update_plan", {"plan": [{"step": str(n), "status": "pending"}]}, f"c{n}") for n in range(200)]
    msgs = await driver.turn("go", *steps, says("finished"))
    assert messages(msgs) == ["finished"] and len(driver.model.requests) == 201


async def test_a_dropped_stream_is_asked_again_with_the_same_input_and_shows_nothing_twice(start: Start) -> None:
    driver = await start()
    msgs = await driver.turn("hi", drops("half of"), says("whole"))
    assert driver.model.requests[0].encode() == driver.model.requests[1].encode()
    assert messages(msgs) == ["whole"]
    assert only(msgs, StreamError).message.startswith("Reconnecting... 1/5 (stream disconnected")


async def test_what_a_dropped_stream_had_finished_is_kept_and_no_call_runs_twice(start: Start, workspace: Path) -> None:
    driver = await start()
    msgs = await driver.turn("hi", [run("echo x >> log", "c1"), drops("and th")], says("end"))
    assert messages(msgs) == ["end"] and len(driver.model.requests) == 2
    assert (workspace / "log").read_text() == "x\n"
    kinds = [item["type"] for item in driver.inputs[1][len(driver.inputs[0]) :]]
    assert kinds == ["function_call", "function_call_output"]


async def test_retries_used_up_fail_the_turn_and_leave_a_thread_that_works(start: Start) -> None:
    driver = await start(
        config={
            "model_providers": {"p": {"name": "p", "base_url": "http://x", "stream_max_retries": 1}},
            "model_provider": "p",
        }
    )
    msgs = await driver.turn("one", drops(), drops())
    assert only(msgs, Error).message == (
        "stream disconnected before completion: stream closed before response.completed (gave up after 1 retry)"
    )
    assert msgs[-1] == TaskComplete(turn_id="s1", last_agent_message=None)
    assert messages(await driver.turn("two", says("fine"))) == ["fine"]
    assert driver.inputs[2][: len(driver.inputs[0])] == driver.inputs[0]


async def test_a_refusal_of_the_server_is_not_repeated(start: Start) -> None:
    driver = await start()
    msgs = await driver.turn("hi", fails("field-xyz is wrong"))
    assert len(driver.model.requests) == 1 and only(msgs, Error).message == "field-xyz is wrong"


async def test_a_refused_picture_is_taken_out_once_and_the_turn_goes_on(start: Start, workspace: Path) -> None:
    (workspace / "a.png").write_bytes(PNG)
    driver = await start()
    msgs = await driver.turn(
        "look", calls("view_image", {"path": "a.png"}, "v1"), fails(ImageRejected("bad image data")), says("went on")
    )
    assert messages(msgs) == ["went on"] and only(msgs, Warning)
    assert outputs(driver.inputs[1])["v1"][0]["type"] == "input_image"
    assert (
        outputs(driver.inputs[2])["v1"]
        == "The model server refused this picture; it was taken out of the conversation."
    )
    msgs = await driver.turn("again", fails(ImageRejected("bad image data")))
    assert only(msgs, Error).message == "bad image data"


async def test_a_refusal_waits_for_the_calls_that_run_and_keeps_their_outputs(start: Start, workspace: Path) -> None:
    driver = await start()
    await driver.turn("hi", [run("sleep 0.3; echo x > log", "c1"), fails("no")])
    assert (workspace / "log").read_text() == "x\n"
    await driver.turn("again", says("fine"))
    assert outputs(driver.inputs[1])["c1"].startswith("Chunk ID: ")


async def test_a_model_that_says_it_has_not_finished_is_asked_again(start: Start) -> None:
    driver = await start()
    msgs = await driver.turn("hi", says("thinking aloud", end_turn=False), says("done"))
    assert messages(msgs) == ["thinking aloud", "done"] and len(driver.model.requests) == 2


async def test_bad_calls_are_answers_to_the_model(start: Start) -> None:
    driver = await start()
    await driver.turn(
        "hi",
        [
            calls("no_such_tool", {"a": 1}, "c1"),
            calls("exec_command", "{bad", "c2"),
            calls("exec_command", {}, "c3"),
            item_of({"type": "custom_tool_call", "name": "magic", "call_id": "c4", "input": "x"}),
        ],
        says("ok"),
    )
    answers = outputs(driver.inputs[1])
    assert answers["c1"] == "unsupported call: no_such_tool"
    assert answers["c2"].startswith("failed to parse function arguments: ")
    assert answers["c3"] == "failed to parse function arguments: missing field `cmd`"
    assert answers["c4"] == "unsupported custom tool call: magic"


async def test_unknown_items_are_recorded_but_not_sent(start: Start) -> None:
    driver = await start()
    await driver.turn("hi", [item_of({"type": "hologram_call", "id": "h"}), says("fine")])
    await driver.turn("again", says("still fine"))
    assert "hologram_call" not in [item["type"] for item in driver.inputs[1]]
    recorded = [entry.item["type"] for entry in driver.session.thread.history.entries]
    assert "hologram_call" in recorded


async def test_commands_are_shown_with_begin_and_end(start: Start, workspace: Path) -> None:
    driver = await start()
    msgs = await driver.turn("go", run("echo out; echo err >&2; exit 7", "c1"), says("x"))
    begin, end = only(msgs, ExecCommandBegin), only(msgs, ExecCommandEnd)
    assert (begin.call_id, begin.cwd, end.call_id, end.exit_code) == ("c1", str(workspace), "c1", 7)
    assert sorted(end.aggregated_output.split()) == ["err", "out"]
    assert begin.command[1:] == ["-lc", "echo out; echo err >&2; exit 7"]


async def test_usage_adds_up_over_the_thread(start: Start) -> None:
    driver = await start()
    cost = TokenUsage(input_tokens=120, cached_input_tokens=40, output_tokens=17, total_tokens=137)
    await driver.turn("one", says("x", usage=cost))
    msgs = await driver.turn("two", says("y", usage=cost))
    info = only(msgs, TokenCount).info
    assert info["total_token_usage"]["cached_input_tokens"] == 80
    assert info["last_token_usage"]["total_tokens"] == 137
    assert info["model_context_window"] == 258_400


async def test_an_unknown_model_works_and_is_mentioned_once(start: Start) -> None:
    driver = await start(model="unheard-of")
    await driver.turn("hi", says("ok"))
    warnings = [event.msg.message for event in driver.events if isinstance(event.msg, Warning)]
    assert len(warnings) == 1 and "unheard-of" in warnings[0]


async def test_a_limit_on_requests_ends_a_turn_that_goes_on_and_on(start: Start) -> None:
    driver = await start(config={"spindle": {"limits": {"max_steps": 3}}})
    msgs = await driver.turn("go", *[run("true", f"c{n}") for n in range(9)])
    assert len(driver.model.requests) == 3 and "max_steps" in only(msgs, Error).message


async def test_a_limit_on_time_ends_a_turn_and_the_next_one_works(start: Start) -> None:
    driver = await start(config={"spindle": {"limits": {"turn_timeout_sec": 1}}})
    msgs = await driver.turn("go", run("sleep 60", "c1"))
    assert only(msgs, Error).message == "stopped after 1 seconds (spindle.limits.turn_timeout_sec)"
    await driver.turn("again", says("fine"))
    assert outputs(driver.inputs[1])["c1"].startswith("aborted by user after ")


async def test_without_permission_no_command_gets_a_login_shell(start: Start) -> None:
    driver = await start(config={"allow_login_shell": False})
    msgs = await driver.turn("go", run("echo hi", "c1", login=True), says("x"))
    assert only(msgs, ExecCommandBegin).command[1:] == ["-c", "echo hi"]


async def test_the_last_words_count_also_when_the_turn_ends_without_new_ones(start: Start) -> None:
    driver = await start()
    msgs = await driver.turn("hi", [says("looking"), run("true", "c1")], thinks("nothing more to say"))
    assert msgs[-1] == TaskComplete(turn_id="s1", last_agent_message="looking", response_id="resp-2")


async def test_a_picture_as_a_message_stands_behind_all_outputs(start: Start, workspace: Path) -> None:
    (workspace / "a.png").write_bytes(PNG)
    driver = await start(config={"spindle": {"image_tool_output": "message"}})
    await driver.turn("look", [calls("view_image", {"path": "a.png"}, "v1"), run("true", "c1")], says("x"))
    kinds = [item["type"] for item in driver.inputs[1][-3:]]
    assert kinds == ["function_call_output", "function_call_output", "message"]
    assert any(part["type"] == "input_image" for part in driver.inputs[1][-1]["content"])


async def test_a_full_window_is_reported_as_full(start: Start) -> None:
    driver = await start()
    msgs = await driver.turn("hi", fails(ModelError("no room", "context_window_exceeded")))
    assert only(msgs, TokenCount).info["last_token_usage"]["total_tokens"] == 258_400
    assert only(msgs, Error).codex_error_info == "context_window_exceeded"


async def test_web_search_is_live_under_full_access_and_cached_otherwise(start: Start) -> None:
    for sandbox, live in (("danger-full-access", True), ("read-only", False)):
        driver = await start(sandbox=sandbox)
        await driver.turn("hi", says("x"))
        tools = driver.model.requests[0].tools
        (search,) = [tool for tool in tools if tool["type"] == "web_search"]
        assert search["external_web_access"] is live
