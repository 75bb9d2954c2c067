"""Turns of the Python API: results, events, handles, and every way a turn can end."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from api.homes import FULL, Client, async_client
from spindle import (
    CallbackError,
    ImageInput,
    LocalImageInput,
    MentionInput,
    OutputInvalid,
    SkillInput,
    SpindleError,
    TextInput,
    ThreadBusy,
    ThreadError,
    TurnFailed,
    TurnTimeout,
)
from spindle.errors import ModelError, StreamDropped
from spindle.testing import ScriptedModel, TokenUsage, calls, drops, fails, item_of, patches, says, thinks, waits
from spindle.types import AgentMessage, CommandExecution, ItemCompleted, ItemDelta

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
ENDS = ("turn.completed", "turn.interrupted", "turn.failed")


def run(cmd: str, call_id: str, **more: Any) -> Any:
    return calls("exec_command", {"cmd": cmd, **more}, call_id)


def texts_of(model: ScriptedModel, number: int = -1) -> list[str]:
    """What the user has said so far, by the request."""
    items = model.requests[number].input
    return [part["text"] for item in items if item.get("role") == "user" for part in item["content"] if "text" in part]


# ---- results ---------------------------------------------------------------------------------------


def test_a_result_tells_the_whole_turn(client: Client, workspace: Path) -> None:
    cost = TokenUsage(
        input_tokens=100, cached_input_tokens=40, output_tokens=7, reasoning_output_tokens=2, total_tokens=107
    )
    thread = client([thinks("**Hm**"), run("echo one", "c1")], says("fine", usage=cost), says("again")).thread_start(
        cwd=workspace, **FULL
    )
    first, second = thread.run("go"), thread.run("on")
    assert [item.type for item in first.items] == ["user_message", "reasoning", "command_execution", "agent_message"]
    command = first.items[2]
    assert isinstance(command, CommandExecution)
    assert (command.aggregated_output, command.exit_code, command.status) == ("one\n", 0, "completed")
    assert (first.thread_id, first.id, first.status, first.error) == (thread.id, first.turn_id, "completed", None)
    assert (first.final_response, first.output, first.plan, first.changes) == ("fine", None, None, [])
    assert first.usage.total_tokens == 110 + 107 and second.usage.total_tokens == 110
    assert second.thread_usage.total_tokens == first.thread_usage.total_tokens + 110
    assert first.started_at <= first.completed_at <= second.started_at and first.duration_ms >= 0
    assert first.response_id != second.response_id and first.turn_id != second.turn_id
    ids = [item.id for result in (first, second) for item in result.items]
    assert len(set(ids)) == len(ids)
    assert first.to_dict()["items"][2]["type"] == "command_execution"
    with pytest.raises(AttributeError):
        first.status = "failed"  # pyright: ignore[reportAttributeAccessIssue]


def test_the_answer_is_the_last_message_that_is_no_commentary(client: Client, workspace: Path) -> None:
    thread = client(
        [says("the answer"), says("by the way", phase="commentary")],
        says("only", phase="commentary"),
        thinks("silence"),
    ).thread_start(cwd=workspace)
    assert [thread.run("x").final_response for _ in range(3)] == ["the answer", None, None]


def test_patches_are_changes_net_and_with_absolute_paths(client: Client, workspace: Path, tmp_path: Path) -> None:
    (workspace / "old.txt").write_text("one\n")
    (workspace / "gone.txt").write_text("x\n")
    (workspace / "from.txt").write_text("keep\nme\n")

    def patch(*lines: str) -> str:
        return "\n".join(("*** Begin Patch", *lines, "*** End Patch", ""))

    thread = client(
        patches(patch("*** Add File: new.txt", "+a"), "c1"),
        patches(patch("*** Update File: new.txt", "@@", "-a", "+b"), "c2"),
        patches(patch("*** Update File: old.txt", "@@", " one", "+two", "*** Delete File: gone.txt"), "c3"),
        patches(patch("*** Update File: from.txt", "*** Move to: sub/to.txt", "@@", "-me", "+you"), "c4"),
        patches(patch("*** Add File: brief.txt", "+a"), "c5"),
        patches(patch("*** Delete File: brief.txt"), "c6"),
        patches(patch(f"*** Add File: {tmp_path}/outside.txt", "+o"), "c7"),
        says("done"),
        says("nothing"),
    ).thread_start(cwd=workspace, **FULL)
    changes = {change.path: change for change in thread.run("go").changes}
    assert {path: change.kind for path, change in changes.items()} == {
        f"{workspace}/new.txt": "add",
        f"{workspace}/old.txt": "update",
        f"{workspace}/gone.txt": "delete",
        f"{workspace}/from.txt": "update",
        f"{tmp_path}/outside.txt": "add",
    }
    assert "+b" in (changes[f"{workspace}/new.txt"].diff or "") and "-a" not in (
        changes[f"{workspace}/new.txt"].diff or ""
    )
    assert changes[f"{workspace}/from.txt"].move_path == f"{workspace}/sub/to.txt"
    assert thread.run("on").changes == []


def test_a_failed_turn_raises_what_was_reached_and_the_thread_goes_on(client: Client, workspace: Path) -> None:
    thread = client(
        run("echo one", "c1"), fails(ModelError("no such thing", "bad_request")), says("back")
    ).thread_start(cwd=workspace, **FULL)
    with pytest.raises(TurnFailed, match="no such thing") as caught:
        thread.run("x")
    error = caught.value
    assert isinstance(error, SpindleError) and isinstance(error, RuntimeError)
    assert (error.info, error.is_retryable, error.result.status) == ("bad_request", False, "failed")
    assert error.result.error.to_dict() == {"message": "no such thing", "info": "bad_request"}
    assert [item.type for item in error.result.items] == ["user_message", "command_execution"]
    assert thread.run("y").final_response == "back"


@pytest.mark.parametrize(
    ("info", "is_retryable"),
    [
        ({"http_connection_failed": {"http_status_code": 503}}, True),
        ({"http_connection_failed": {"http_status_code": 404}}, False),
        ({"http_connection_failed": {"http_status_code": None}}, True),
        ({"response_too_many_failed_attempts": {"http_status_code": 429}}, True),
        ("usage_limit_exceeded", False),
        ("internal_server_error", True),
    ],
)
def test_a_failure_says_whether_another_try_may_help(
    client: Client, workspace: Path, info: Any, is_retryable: bool
) -> None:
    thread = client(fails(ModelError("sorry", info))).thread_start(cwd=workspace)
    with pytest.raises(TurnFailed) as caught:
        thread.run("x")
    assert caught.value.is_retryable is is_retryable and isinstance(caught.value.info, str)


def test_what_runs_too_long_is_interrupted_and_the_thread_is_free(client: Client, workspace: Path) -> None:
    thread = client(waits(600), says("never"), says("ok")).thread_start(cwd=workspace)
    with pytest.raises(TurnTimeout, match=r"0\.3 seconds") as caught:
        thread.run("x", timeout=0.3)
    assert isinstance(caught.value, TimeoutError) and isinstance(caught.value, TurnFailed)
    assert caught.value.result.status == "interrupted" and caught.value.info == "timeout"
    model: Any = thread._core._model_client
    model.script(says("ok"))
    assert thread.run("y", timeout=60).status == "completed"


@pytest.mark.parametrize(
    "option",
    [
        {"timeout": 0},
        {"timeout": "long"},
        {"output_schema": "text"},
        {"output_type": 3},
        {"output_type": {"type": "object"}, "output_schema": {}},
        {"output_retries": -1},
        {"sandbox": "none"},
        {"approval_policy": "x"},
        {"cwd": "/no/such"},
        {"mode": "x"},
        {"effort": "x"},
        {"images": "p.png"},
        {"images": ["/no/such.png"]},
        {"images": [b"no picture"]},
        {"images": [3]},
    ],
)
def test_a_bad_option_of_a_turn_changes_nothing(client: Client, workspace: Path, option: dict[str, Any]) -> None:
    model = ScriptedModel(says("a"))
    thread = client(model_client=model).thread_start(cwd=workspace)
    for begin in (thread.run, thread.stream, thread.turn):
        with pytest.raises(ValueError):
            begin("x", **option)
    assert model.requests == [] and thread.run("y").final_response == "a"


@pytest.mark.parametrize("given", ["", "  ", [], [TextInput("")], 3, {"type": "song"}, {"text": "x"}, [None], b"x"])
def test_an_input_that_says_nothing_is_refused(client: Client, workspace: Path, given: Any) -> None:
    with pytest.raises(ValueError):
        client(says("a")).thread_start(cwd=workspace).run(given)


def test_settings_of_a_turn_stay_and_its_mode_does_not(client: Client, workspace: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    model = ScriptedModel(default=says("a"))
    thread = client(model_client=model).thread_start(cwd=workspace)
    thread.run("one", cwd=other, model="gpt-5.1", effort="low", sandbox="workspace-write", mode="plan")
    settings = thread._conversation.door.settings
    assert (thread.cwd, thread.model, settings.effort) == (str(other), "gpt-5.1", "low")
    assert (settings.sandbox.mode, settings.collaboration_mode.mode) == ("workspace-write", "plan")
    thread.run("two")
    settings = thread._conversation.door.settings
    assert (thread.cwd, thread.model, settings.collaboration_mode.mode) == (str(other), "gpt-5.1", "default")
    assert model.requests[-1].model == "gpt-5.1" and model.requests[-1].reasoning["effort"] == "low"


# ---- input -----------------------------------------------------------------------------------------


def test_every_kind_of_input(client: Client, workspace: Path, tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    picture.write_bytes(PIXEL)
    url = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    model = ScriptedModel(default=says("a"))
    thread = client(model_client=model).thread_start(cwd=workspace)

    def sent(given: Any, **options: Any) -> list[str]:
        thread.run(given, **options)
        return [part.get("image_url") or part["text"] for part in model.requests[-1].input[-1]["content"]]

    assert sent("hello") == sent(TextInput("hello")) == sent([{"type": "text", "text": "hello"}]) == ["hello"]
    three = sent("what", images=[picture, str(picture), PIXEL, url])
    assert [part for part in three if part.startswith("data:")] == [url] * 4 and three[-1] == "what"
    for given in (LocalImageInput(picture), {"type": "localImage", "path": str(picture)}, ImageInput(url)):
        assert url in sent([given, "and this"])
    assert sent(["a", SkillInput("s", "/s/SKILL.md"), MentionInput("m", "/m"), "b"]) == ["a", "b"]
    assert thread.run(ImageInput(url)).items[0].to_dict()["images"] == [url]


# ---- events ----------------------------------------------------------------------------------------


def test_a_skill_or_a_mention_alone_is_said_by_its_name(client: Client, workspace: Path, own_home: Path) -> None:
    skill = own_home / "skills" / "greet" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: greet\ndescription: how to greet\n---\nSay good day.\n")
    model = ScriptedModel(says("a"), says("b"))
    thread = client(model_client=model).thread_start(cwd=workspace)
    thread.run(SkillInput("greet", str(skill)))
    thread.run([MentionInput("notes", "app://notes"), {"type": "mention", "name": "other", "path": "app://other"}])
    said = [part["text"] for item in model.requests[-1].input if item.get("role") == "user" for part in item["content"]]
    assert "$greet" in said and "@notes @other" in said
    assert any("Say good day." in text for text in said)


def test_a_stream_shows_everything_in_order_and_ends_once(client: Client, workspace: Path) -> None:
    thread = client(
        [thinks("Let me see"), run("printf out", "c1")], drops("half"), says("a b c d e f"), says("second")
    ).thread_start(cwd=workspace, **FULL)
    stream = thread.stream("go")
    events = list(stream)
    types = [event.type for event in events]
    assert types[:2] == ["thread.started", "turn.started"] and [t for t in types if t in ENDS] == ["turn.completed"]
    assert types[-1] == "turn.completed" and "usage.updated" in types and types.count("error") == 1
    assert {(event.thread_id, event.turn_id) for event in events} == {(thread.id, stream.result.turn_id)}
    assert all(isinstance(event.raw["type"], str) and event.to_dict()["type"] == event.type for event in events)
    done = [event.item for event in events if isinstance(event, ItemCompleted)]
    assert done == stream.result.items
    message = done[-1]
    assert isinstance(message, AgentMessage)
    assert joined(events, message.id, "text") == message.text == "a b c d e f"
    assert joined(events, done[1].id, "reasoning") == "Let me see"
    assert joined(events, done[2].id, "output") == "out"
    assert list(stream) == []
    with pytest.raises(AttributeError):
        events[0].type = "x"  # pyright: ignore[reportAttributeAccessIssue]
    assert list(thread.stream("on"))[0].type == "turn.started"  # noqa: RUF015  to its end


def joined(events: list[Any], item_id: str, kind: str) -> str:
    deltas = [event for event in events if isinstance(event, ItemDelta)]
    return "".join(event.delta for event in deltas if (event.item_id, event.kind) == (item_id, kind))


def test_text_that_never_streamed_comes_as_a_delta_all_the_same(client: Client, workspace: Path) -> None:
    class Mute(ScriptedModel):
        async def stream(self, request: Any, turn_state: Any = None) -> Any:
            async for event in super().stream(request, turn_state):
                if type(event).__name__ not in ("TextDelta", "ItemAdded"):
                    yield event

    thread = client(model_client=Mute(says("whole"))).thread_start(cwd=workspace)
    events = list(thread.stream("x"))
    assert [event.delta for event in events if isinstance(event, ItemDelta)] == ["whole"]


def test_a_failed_stream_ends_with_its_event_and_raises_nothing(client: Client, workspace: Path) -> None:
    stream = client(fails("no")).thread_start(cwd=workspace).stream("x")
    last = list(stream)[-1]
    assert last.to_dict()["error"] == {"message": "no", "info": "other"} and last.type == "turn.failed"
    assert stream.result.status == "failed"


def test_a_stream_that_runs_out_of_time_raises_after_its_last_event(client: Client, workspace: Path) -> None:
    stream = client(waits(600), says("never")).thread_start(cwd=workspace).stream("x", timeout=0.2)
    seen: list[str] = []
    with pytest.raises(TurnTimeout):
        for event in stream:
            seen.append(event.type)
    assert seen[-1] == "turn.interrupted" and stream.result.status == "interrupted"


def test_leaving_the_loop_stops_the_turn_and_waits_for_it(client: Client, workspace: Path) -> None:
    model = ScriptedModel([says("first"), waits(600), says("late")], says("next"))
    thread = client(model_client=model).thread_start(cwd=workspace)
    stream = thread.stream("go")
    for event in stream:
        if event.type == "item.completed" and event.raw["item"]["type"] == "AgentMessage":
            break
    assert stream.result.status == "interrupted" and stream.result.final_response == "first"
    assert thread.run("again").final_response == "next"
    for _ in thread.stream("x", timeout=50):
        break
    model.script(says("free"))
    assert thread.run("y").final_response == "free"


def test_a_stream_can_be_closed_before_and_after_its_end(client: Client, workspace: Path) -> None:
    thread = client([waits(600), says("late")], says("b")).thread_start(cwd=workspace)
    stream = thread.stream("go")
    with pytest.raises(ThreadError, match="not over"):
        _ = stream.result
    stream.close()
    stream.close()
    assert stream.result.status == "interrupted" and list(stream) == []
    with thread.stream("x") as done:
        assert len(list(done)) > 3
    assert done.result.status == "completed"


def test_a_slow_reader_does_not_hold_the_turn_and_misses_nothing(client: Client, workspace: Path) -> None:
    words = " ".join(str(number) for number in range(5_000))
    thread = client(says(words), says("b")).thread_start(cwd=workspace)
    handle = thread.turn("x")
    assert handle.run().final_response == words  # nobody has read an event
    events = list(handle.stream())
    text = "".join(event.delta for event in events if isinstance(event, ItemDelta))
    assert text == words and events[-1].type == "turn.completed"
    assert len(events) < 4_600, "deltas that wait are merged"


# ---- handles ---------------------------------------------------------------------------------------


def test_a_handle_steers_and_gives_the_same_result_each_time(client: Client, workspace: Path) -> None:
    model = ScriptedModel(run("until [ -e gate ]; do sleep 0.01; done", "c1"), says("ok"))
    thread = client(model_client=model).thread_start(cwd=workspace, **FULL)
    handle = thread.turn("go")
    assert not handle.done and handle.thread_id == thread.id
    handle.steer("and quickly")
    (workspace / "gate").touch()
    assert handle.run() is handle.run() and handle.run().turn_id == handle.id and handle.done
    assert texts_of(model)[-1] == "and quickly"
    with pytest.raises(ThreadError, match="over"):
        handle.steer("too late")
    handle.interrupt()


async def test_what_is_steered_in_at_the_last_moment_is_answered_in_the_same_handle(
    own_home: Path, workspace: Path
) -> None:
    async with async_client(own_home, says("one"), says("two")) as client:
        thread = await client.thread_start(cwd=workspace)
        handle = await thread.turn("go")
        turn: Any = handle._turn
        hear = turn.hear

        def at_the_end(event: Any) -> None:
            if type(event.msg).__name__ == "TaskComplete" and not turn._steers:
                turn.hear = hear
                turn.steer([{"type": "text", "text": "wait"}])  # the session no longer looks for input
            hear(event)

        turn.hear = at_the_end
        result = await handle.run()
        types = [event.type async for event in handle.stream()]
        assert (result.status, result.final_response, result.turn_id) == ("completed", "two", handle.id)
        assert types.count("turn.started") == types.count("turn.completed") == 1
        assert [item.to_dict().get("text") for item in result.items] == ["go", "one", "wait", "two"]


def test_an_interrupt_is_a_result_and_the_thread_goes_on(client: Client, workspace: Path) -> None:
    thread = client(run("sleep 300; touch late", "c1"), says("fine")).thread_start(cwd=workspace, **FULL)
    handle = thread.turn("go")
    for event in handle.stream():
        if event.type == "item.started" and event.to_dict()["item"]["type"] == "command_execution":
            handle.interrupt()
            assert handle.done
    assert (handle.run().status, handle.run().error) == ("interrupted", None)
    assert thread.run("more").final_response == "fine" and not (workspace / "late").exists()


def test_a_second_turn_is_refused_and_changes_nothing(client: Client, workspace: Path) -> None:
    model = ScriptedModel([waits(0.5), says("done")], says("later"))
    thread = client(model_client=model).thread_start(cwd=workspace)
    handle = thread.turn("a")
    busy = (lambda: thread.run("b"), lambda: thread.stream("b"), lambda: thread.turn("b"), lambda: thread.rollback(1))
    for ask in (*busy, thread.compact, lambda: thread.pin("x")):
        with pytest.raises(ThreadBusy, match=thread.id):
            ask()
    thread.set_name("while it runs")
    assert handle.run().final_response == "done" and texts_of(model)[-1] == "a"
    assert thread.run("c").final_response == "later" and thread.name == "while it runs"


# ---- what happens between turns --------------------------------------------------------------------


def test_rollback_pin_and_compaction(client: Client, workspace: Path) -> None:
    model = ScriptedModel(says("one"), says("two"), says("SUMMARY"), says("three"))
    thread = client(model_client=model).thread_start(cwd=workspace)
    thread.run("first")
    thread.run("second")
    thread.rollback(1)
    assert len(thread.read(include_turns=True).turns) == 1
    for bad in (0, -1, "x", True):
        with pytest.raises(ValueError, match="rollback"):
            thread.rollback(bad)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="pin"):
        thread.pin(" ")
    thread.pin("THE FACT")
    thread.compact("keep the colours")
    assert "keep the colours" in str(model.requests[2].to_dict())
    thread.run("third")
    sent = str(model.requests[3].input)
    assert "SUMMARY" in sent and "THE FACT" in sent and "'second'" not in sent


def test_a_compaction_that_fails_raises_and_the_thread_goes_on(client: Client, workspace: Path) -> None:
    thread = client(says("one"), fails("no summary today"), says("two")).thread_start(cwd=workspace)
    thread.run("first")
    with pytest.raises(TurnFailed, match="no summary today"):
        thread.compact()
    assert thread.run("on").final_response == "two"


# ---- typed output ----------------------------------------------------------------------------------


class Person(msgspec.Struct):
    name: str
    age: int


@dataclass
class Named:
    name: str


GOOD = '{"name": "Ada", "age": 36}'


def test_an_answer_becomes_an_instance_and_is_asked_for_again(client: Client, workspace: Path) -> None:
    model = ScriptedModel(says(GOOD), says('{"name": "x"}'), says("sorry"), says("no"), says(GOOD), says("[1]"))
    thread = client(model_client=model).thread_start(cwd=workspace)
    first = thread.run("x", output_type=Person)
    assert first.output == Person("Ada", 36) and first.final_response == GOOD
    assert thread.run("x", output_type=Named).output == Named("x")
    with pytest.raises(OutputInvalid) as caught:
        thread.run("x", output_type=Person)
    assert (caught.value.text, caught.value.result.status) == ("sorry", "completed")
    again = thread.run("x", output_type=Person, output_retries=2)
    assert again.output == Person("Ada", 36) and len(model.requests) == 5
    assert [item.type for item in again.items].count("user_message") == 2
    formats = [request.text["format"] for request in model.requests]
    assert all(form["type"] == "json_schema" and form["strict"] is True for form in formats)
    plain = {"type": "array", "items": {"type": "integer"}}
    last = thread.run("x", output_schema=plain)
    assert last.output is None and model.requests[-1].text["format"]["schema"] == plain


def test_a_stream_with_a_type_has_it_in_its_result_or_raises_at_the_end(client: Client, workspace: Path) -> None:
    thread = client(says(GOOD), says("x"), says("y"), says(GOOD)).thread_start(cwd=workspace)
    stream = thread.stream("x", output_type=Person)
    list(stream)
    assert stream.result.output == Person("Ada", 36)
    with pytest.raises(OutputInvalid):
        list(thread.stream("x", output_type=Person))
    retried = thread.stream("x", output_type=Person, output_retries=1)
    types = [event.type for event in retried]
    assert types.count("turn.completed") == 1 and retried.result.output == Person("Ada", 36)


# ---- callbacks and tools ---------------------------------------------------------------------------


def test_a_callback_that_raises_ends_the_turn_and_only_the_turn(client: Client, workspace: Path) -> None:
    def ask(request: Any) -> bool:
        if "a.txt" in request.display:
            raise ZeroDivisionError("oops")
        return True

    thread = client(run("touch a.txt", "c1"), run("touch b.txt", "c2"), says("end")).thread_start(
        cwd=workspace, sandbox="workspace-write", approval_policy="untrusted", on_approval=ask
    )
    with pytest.raises(CallbackError) as caught:
        thread.run("x")
    assert isinstance(caught.value.__cause__, ZeroDivisionError) and caught.value.result.status == "interrupted"
    assert thread.run("y").final_response == "end"
    assert [path.name for path in workspace.glob("*.txt")] == ["b.txt"]


def test_approvals_are_events_too(client: Client, workspace: Path) -> None:
    thread = client(run("touch a.txt", "c1"), says("end")).thread_start(
        cwd=workspace, approval_policy="untrusted", on_approval=lambda request: False
    )
    events = [event.to_dict() for event in thread.stream("x") if event.type.startswith("approval.")]
    assert [(event["type"], event["call_id"]) for event in events] == [
        ("approval.requested", "c1"),
        ("approval.resolved", "c1"),
    ]
    assert events[0]["kind"] == "command" and events[1]["decision"] == "denied"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_exit_out_of_a_tool_leaves_the_turn(client: Client, workspace: Path, kind: type[BaseException]) -> None:
    def leave() -> str:
        "Leave."
        raise kind("now")

    one = client(calls("leave", {}, "c1"), says("on"))
    thread = one.thread_start(cwd=workspace, tools=[leave])
    with pytest.raises(kind, match="now"):
        thread.run("x")
    assert thread.run("y").final_response == "on"


def test_a_tool_may_use_other_threads_and_not_its_own(client: Client, workspace: Path) -> None:
    said: list[Any] = []

    def other() -> str:
        "Ask somebody else."
        try:
            thread.run("me?")
        except ThreadBusy as error:
            said.append(error)
        with one.thread_start(cwd=workspace, model_client=ScriptedModel(says("from the other"))) as inner:
            return inner.run("you?").final_response or ""

    async def own() -> str:
        "On the loop."
        for ask in (lambda: thread.run("me?"), lambda: one.thread_start(cwd=workspace)):
            try:
                ask()
            except (ThreadBusy, RuntimeError) as error:
                said.append(error)
        return "fine"

    model = ScriptedModel([calls("other", {}, "c1"), calls("own", {}, "c2")], says("end"))
    one = client(model_client=model)
    thread = one.thread_start(cwd=workspace, tools=[other, own])
    result = thread.run("x")
    assert {item.to_dict()["result"] for item in result.items if item.type == "python_tool_call"} == {
        "from the other",
        "fine",
    }
    assert sorted(type(error).__name__ for error in said) == ["RuntimeError", "ThreadBusy", "ThreadBusy"]


@pytest.mark.parametrize("before", ["Before\n", "\n", ""])
def test_a_proposed_plan_is_no_part_of_the_answer(client: Client, workspace: Path, before: str) -> None:
    text = f"{before}<proposed_plan>\n- use it\n</proposed_plan>\nAfter"
    thread = client(says(text)).thread_start(cwd=workspace, mode="plan")
    stream = thread.stream("plan it")
    events = list(stream)
    result = stream.result
    assert "use it" in (result.plan or "")
    assert "<proposed_plan>" not in (result.final_response or "") and "After" in (result.final_response or "")
    for item in result.items:
        if item.type in ("agent_message", "plan"):
            kind = "plan" if item.type == "plan" else "text"
            assert joined(events, item.id, kind) == item.to_dict()["text"]


# ---- the same with an event loop -------------------------------------------------------------------


async def test_the_asynchronous_twin(own_home: Path, workspace: Path) -> None:
    async with async_client(own_home, says("one"), run("true", "c1"), says("two"), says("three")) as client:
        async with await client.thread_start(cwd=workspace, **FULL) as thread:
            first = await thread.run("a")
            stream = thread.stream("b")
            types = [event.type async for event in stream]
            handle = await thread.turn("c")
            last = [event async for event in handle.stream()][-1]
            assert (first.final_response, stream.result.final_response) == ("one", "two")
            assert types[-1] == last.type == "turn.completed" and (await handle.run()).final_response == "three"
            fork = await thread.fork(at=1)
            assert len((await fork.read(include_turns=True)).turns) == 1
            await fork.set_name("branch")
            await fork.rollback(1)
        assert [entry.name for entry in (await client.threads.list()).data if entry.id == fork.id] == ["branch"]
        assert [match.thread_id for match in await client.threads.search("three")] == [thread.id]
        assert "## User" in await client.threads.export(thread.id)
        assert (await client.thread_resume(thread.id)).id == thread.id
        await client.thread_archive(thread.id)
        await client.thread_delete(fork.id)
        assert (await client.thread_list(archived=True)).data[0].id == thread.id
        assert await client.models() and (await client.account()).type is None


async def test_a_cancelled_wait_interrupts_the_turn_and_waits_until_that_is_recorded(
    own_home: Path, workspace: Path
) -> None:
    steps = (run("touch begun; sleep 300; touch late", "c1"), says("fine"), [waits(600), says("never")])
    async with async_client(own_home, *steps) as client:
        thread = await client.thread_start(cwd=workspace, **FULL)
        task = asyncio.create_task(thread.run("x"))
        while not (workspace / "begun").exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert thread.path is not None and '"turn_aborted"' in Path(thread.path).read_text()
        assert (await thread.run("y")).final_response == "fine" and not (workspace / "late").exists()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await thread.run("slow")


async def test_leaving_an_asynchronous_loop_stops_the_turn_and_the_next_one_waits(
    own_home: Path, workspace: Path
) -> None:
    async with async_client(own_home, [says("first"), waits(600), says("late")], says("next")) as client:
        thread = await client.thread_start(cwd=workspace)
        async for event in thread.stream("go"):
            if event.type == "item.delta":
                break
        assert (await thread.run("again")).final_response == "next"
        assert [turn.status for turn in (await thread.read(include_turns=True)).turns] == ["interrupted", "completed"]


async def test_a_stream_is_checked_when_it_is_made(own_home: Path, workspace: Path) -> None:
    async with async_client(own_home, [waits(600), says("late")]) as client:
        thread = await client.thread_start(cwd=workspace)
        with pytest.raises(ValueError):
            thread.stream("")
        handle = await thread.turn("x")
        with pytest.raises(ThreadBusy):
            thread.stream("y")
        await handle.interrupt()
        assert handle.done


async def test_a_dropped_stream_is_an_error_event_and_no_failure(own_home: Path, workspace: Path) -> None:
    steps = (fails(StreamDropped("cut", delay_s=0.0)), item_of({"type": "odd", "x": 1}), says("whole"))
    async with async_client(own_home, steps[0], list(steps[1:])) as client:
        stream = (await client.thread_start(cwd=workspace)).stream("x")
        errors = [event async for event in stream if event.type == "error"]
        assert len(errors) == 1 and stream.result.final_response == "whole"


async def test_a_cancelled_reader_interrupts_the_turn_and_waits_for_that(own_home: Path, workspace: Path) -> None:
    async with async_client(own_home, [says("first"), waits(600), says("late")], says("next")) as client:
        thread = await client.thread_start(cwd=workspace)
        begun = asyncio.Event()

        async def read() -> None:
            async for event in thread.stream("go"):
                if event.type == "item.completed" and event.item.type == "agent_message":
                    begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [turn.status for turn in (await thread.read(include_turns=True)).turns] == ["interrupted"]
        assert (await thread.run("on")).final_response == "next"


def test_a_sub_agents_events_are_events_too(client: Client, workspace: Path) -> None:
    model = ScriptedModel(
        calls("spawn_agent", {"message": "look"}, "s1"),
        default=lambda request: (
            says("found it")
            if "look" in str(request.input[-1]) and "spawn_agent" not in str(request.input)
            else says("end")
            if "wait" in str(request.input[-2:])
            else calls("wait", {"ids": [_agent_id(request)]}, "w1")
        ),
    )
    thread = client(model_client=model).thread_start(cwd=workspace, agents=True)
    events = [event for event in thread.stream("go") if event.type == "agent.event"]
    inner = [event.event for event in events]
    assert len({event.agent_id for event in events}) == 1 and events[0].agent_id != thread.id
    assert [event.type for event in inner if event.type.startswith("turn.")] == ["turn.started", "turn.completed"]
    said = [event.item for event in inner if event.type == "item.completed" and event.item.type == "agent_message"]
    assert [item.text for item in said] == ["found it"]
    assert {event.thread_id for event in inner} == {events[0].agent_id} and events[0].to_dict()["event"]["type"]


def _agent_id(request: Any) -> str:
    outputs = [item for item in request.input if item.get("type") == "function_call_output"]
    return msgspec.json.decode(outputs[0]["output"])["agent_id"]


def test_a_function_cannot_take_the_name_of_a_tool_of_this_thread(client: Client, workspace: Path) -> None:
    from spindle import ToolDefinitionError

    def remember(text: str) -> str:
        "Keep it."
        return text

    with pytest.raises(ToolDefinitionError, match="remember"):
        client().thread_start(cwd=workspace, tools=[remember])


def test_threads_of_a_loop_that_has_stopped_are_closed(own_home: Path, workspace: Path) -> None:
    from spindle import ThreadClosed

    client = async_client(own_home, says("a"), says("b"))
    threads: list[Any] = []

    async def first() -> None:
        threads.append(await client.thread_start(cwd=workspace))
        assert (await threads[0].run("x")).final_response == "a"

    async def second() -> None:
        with pytest.raises(ThreadClosed):
            await threads[0].run("y")
        again = await client.thread_resume(threads[0].id)
        assert (await again.run("z")).final_response == "b"
        await client.close()

    asyncio.run(first())
    asyncio.run(second())


def test_a_bug_of_ours_leaves_nobody_waiting(client: Client, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(item: Any) -> Any:
        raise LookupError("a bug")

    thread = client(says("a"), says("b")).thread_start(cwd=workspace)
    monkeypatch.setattr("spindle.api.running.shown_item", broken)
    with pytest.raises(SpindleError, match="internal error: LookupError: a bug"):
        thread.run("x")
    monkeypatch.undo()
    assert thread.run("y").final_response == "b"
