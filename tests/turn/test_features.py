"""Features: each is asked at its moments, in the order of the list, and can do there what its base class says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessions import Driver, Start, of, text
from spindle.api.door import SessionRequest, open_thread
from spindle.config.load import load_config
from spindle.core.feature import Admission, Feature, Handler, Late, RunCall
from spindle.core.running_turn import RunningTurn
from spindle.core.session import Session
from spindle.core.showing import MessageView
from spindle.errors import ConfigError, ModelError, Rejected, SpindleError, ToolError
from spindle.model.scripted import ScriptedModel, calls, fails, says, waits
from spindle.protocol.events import (
    AgentMessage,
    Error,
    ExecApprovalRequest,
    TaskComplete,
    TaskStarted,
    TurnAborted,
    Warning,
)
from spindle.protocol.items import developer_message, user_message
from spindle.protocol.ops import ExecApproval, Interrupt, Op, Submission, UserInput, UserTurn
from spindle.tools.tool import Tool, ToolCall, ToolContext, ToolResult, function_spec


class Greet(Op, frozen=True, kw_only=True, tag="test_greet"):
    """An op that no session knows by itself."""

    name: str


class Lucky:
    name = "lucky_number"
    parallel = True

    def spec(self) -> dict[str, Any]:
        return function_spec(self.name, "A number.", {}, [])

    async def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult:
        return ToolResult(output="seven")


class Diary(Feature):
    """Writes down each of its moments."""

    def __init__(self, name: str, pages: list[str]) -> None:
        self._name = name
        self._pages = pages

    def _note(self, moment: str) -> None:
        self._pages.append(f"{self._name}: {moment}")

    def open(self, session: Session) -> None:
        self._note("open")

    async def begin_turn(self, turn: RunningTurn) -> None:
        self._note("begin_turn")

    async def before_input(self, turn: RunningTurn) -> bool:
        self._note("before_input")
        return True

    async def admit_input(self, turn: RunningTurn, text: str) -> Admission | None:
        self._note(f"admit_input {text}")

    async def before_request(self, turn: RunningTurn) -> None:
        self._note(f"before_request {turn.requests}")

    async def around_call(self, turn: RunningTurn, call: ToolCall, run: RunCall) -> ToolResult:
        self._note(f"before {call.name}")
        result = await run(call)
        self._note(f"after {call.name}")
        return result

    async def before_end(self, turn: RunningTurn) -> bool:
        self._note(f"before_end {turn.last_message}")
        return False

    def end_turn(self, turn: RunningTurn) -> None:
        self._note("end_turn")

    def steered(self) -> None:
        self._note("steered")

    async def interrupt(self) -> None:
        self._note("interrupt")

    def kill(self) -> None:
        self._note("kill")

    async def aclose(self) -> None:
        self._note("aclose")


def outputs(driver: Driver) -> dict[str, Any]:
    """What the calls were answered, by their id."""
    return {item["call_id"]: item["output"] for item in driver.inputs[-1] if item["type"] == "function_call_output"}


async def test_the_moments_of_a_turn_come_in_the_order_of_the_list(start: Start) -> None:
    pages: list[str] = []
    driver = await start(features=(Diary("a", pages), Diary("b", pages)))
    await driver.turn("hi", calls("update_plan", {"plan": []}, "c1"), says("done"))
    await driver.close()
    assert pages == [
        *("a: open", "b: open", "a: begin_turn", "b: begin_turn", "a: before_input", "b: before_input"),
        *("a: admit_input hi", "b: admit_input hi", "a: before_request 0", "b: before_request 0"),
        *("a: before update_plan", "b: before update_plan", "b: after update_plan", "a: after update_plan"),
        *("a: before_request 1", "b: before_request 1", "a: before_end done", "b: before_end done"),
        *("a: end_turn", "b: end_turn"),
        # An ending session is closed once by its op, and once more by whoever ran it.
        *("a: aclose", "b: aclose", "a: aclose", "b: aclose"),
    ]


async def test_a_feature_brings_a_tool_which_stands_last(start: Start) -> None:
    class Bringer(Feature):
        def tools(self) -> Sequence[Tool]:
            return [Lucky()]

    driver = await start(features=(Bringer(),))
    await driver.turn("hi", calls("lucky_number", {}, "c1"), says("done"))
    assert outputs(driver) == {"c1": "seven"}
    plain = await start()
    await plain.turn("hi", says("done"))
    assert driver.model.requests[0].tools == [*plain.model.requests[0].tools, Lucky().spec()]


async def test_a_tool_cannot_take_the_place_of_another(start: Start) -> None:
    class Usurper(Feature):
        def tools(self) -> Sequence[Tool]:
            tool = Lucky()
            tool.name = "exec_command"
            return [tool]

    with pytest.raises(ConfigError, match="there is already a tool with the name 'exec_command'"):
        await start(features=(Usurper(),))


async def test_an_op_goes_to_the_feature_that_takes_it(start: Start) -> None:
    class Greeter(Feature):
        def ops(self) -> Mapping[type[Op], Handler]:
            return {Greet: self._greet}

        async def _greet(self, session: Session, submission: Submission) -> None:
            assert isinstance(submission.op, Greet)
            session.emit(submission.id, Warning(message=f"hello {submission.op.name}"))

    driver = await start(features=(Greeter(),))
    sub_id = driver.submit(Greet(name="you"))
    assert await driver.until(Warning, sub_id=sub_id) == Warning(message="hello you")
    without = await start()
    sub_id = without.submit(Greet(name="you"))
    assert (await without.until(Error, sub_id=sub_id)).message == "a session does not take the op Greet"


async def test_an_op_of_a_feature_may_start_a_turn_of_its_own_kind(start: Start) -> None:
    class Worker(Feature):
        def ops(self) -> Mapping[type[Op], Handler]:
            return {Greet: self._greet}

        async def _greet(self, session: Session, submission: Submission) -> None:
            await session.start_turn(submission, self._work)

        async def _work(self, turn: RunningTurn) -> Any:
            await turn.announce()
            raise SpindleError("not today")

    driver = await start(features=(Worker(),))
    messages = await driver.end_of(driver.submit(Greet(name="you")))
    assert [type(msg) for msg in messages] == [TaskStarted, Error, TaskComplete]
    assert messages[1].message == "not today"
    assert of(await driver.turn("hi", says("still here")), AgentMessage) == [AgentMessage(message="still here")]


async def test_a_feature_that_cannot_begin_ends_the_turn_and_not_the_session(start: Start) -> None:
    class Reluctant(Feature):
        async def begin_turn(self, turn: RunningTurn) -> None:
            if not turn.session.thread.history.user_turn_count:
                raise SpindleError("one moment")

    driver = await start(features=(Reluctant(),))
    messages = await driver.turn("hi", says("never"))
    assert of(messages, Error) == [Error(message="one moment", codex_error_info="other")]
    assert driver.model.requests == []


async def test_what_a_person_said_stays_said_though_there_is_no_room_for_it(start: Start) -> None:
    class Full(Feature):
        async def before_input(self, turn: RunningTurn) -> bool:
            raise SpindleError("no room")

    driver = await start(features=(Full(),))
    assert [error.message for error in of(await driver.turn("remember me"), Error)] == ["no room"]
    assert user_message("remember me") in [entry.item for entry in driver.session.thread.history.entries]


async def test_a_feature_may_end_a_turn_before_its_input_and_refuse_or_add_to_one(start: Start) -> None:
    class Porter(Feature):
        async def before_input(self, turn: RunningTurn) -> bool:
            return turn.submission.id != "closed"

        async def admit_input(self, turn: RunningTurn, text: str) -> Admission | None:
            if "secret" in text:
                return Admission(refusal="that word is not let in")
            return Admission(added=[developer_message("the porter let it in")])

    driver = await start(features=(Porter(),))
    driver.submit(UserTurn(items=text("hi")), "closed")
    assert of(await driver.end_of("closed"), TaskComplete)[0].last_agent_message is None
    messages = await driver.turn("the secret")
    assert of(messages, Warning) == [Warning(message="that word is not let in")]
    assert driver.model.requests == []
    await driver.turn("may I", says("yes"))
    assert driver.inputs[0][-2:] == [user_message("may I"), developer_message("the porter let it in")]
    assert not any("secret" in str(item) for item in driver.inputs[0])


@pytest.mark.parametrize("is_screened", [False, True])
async def test_a_turn_that_is_stopped_before_its_input_records_it_unless_a_feature_might_object(
    start: Start, is_screened: bool
) -> None:
    class Slow(Feature):
        async def before_input(self, turn: RunningTurn) -> bool:
            await asyncio.sleep(60)
            return True

    class Porter(Feature):
        async def admit_input(self, turn: RunningTurn, text: str) -> Admission | None:
            raise AssertionError("nobody is asked in a turn that was stopped")

    driver = await start(features=(Slow(), Porter()) if is_screened else (Slow(),))
    sub_id = driver.begin("remember me")
    await driver.until(TaskStarted)
    driver.submit(Interrupt())
    assert of(await driver.end_of(sub_id), TurnAborted)
    recorded = [entry.item for entry in driver.session.thread.history.entries]
    assert (user_message("remember me") in recorded) is not is_screened


async def test_a_call_can_be_changed_refused_and_its_result_replaced(start: Start) -> None:
    seen: list[str] = []

    class Censor(Feature):
        def tools(self) -> Sequence[Tool]:
            return [Lucky()]

        async def around_call(self, turn: RunningTurn, call: ToolCall, run: RunCall) -> ToolResult:
            seen.append(call.call_id)
            match call.call_id:
                case "refused":
                    raise ToolError("not this one")
                case "changed":
                    call = msgspec.structs.replace(call, arguments='{"cmd": "echo changed"}')
                    return await run(call)
                case _:
                    result = await run(call)
                    return msgspec.structs.replace(result, output=f"{result.output} of nine")

    driver = await start(features=(Censor(),))
    made = [
        calls("lucky_number", {}, "refused"),
        calls("exec_command", {"cmd": "echo first"}, "changed"),
        calls("lucky_number", {}, "other"),
        calls("no_such_tool", {}, "none"),
    ]
    await driver.turn("hi", made, says("done"))
    answers = outputs(driver)
    assert answers["refused"] == "not this one" and answers["other"] == "seven of nine"
    assert answers["changed"].endswith("Output:\nchanged\n")
    assert answers["none"] == "unsupported call: no_such_tool" and sorted(seen) == ["changed", "other", "refused"]


async def test_the_first_feature_with_more_to_do_makes_the_turn_go_on(start: Start) -> None:
    asked: list[str] = []

    class Pusher(Feature):
        def __init__(self, name: str) -> None:
            self._name = name

        async def before_end(self, turn: RunningTurn) -> bool:
            asked.append(f"{self._name} {turn.last_message}")
            if turn.last_message == self._name:
                turn.thread.append_items([user_message(f"more, says {self._name}")])
                return True
            return False

    driver = await start(features=(Pusher("one"), Pusher("two")))
    messages = await driver.turn("hi", says("one"), says("two"), says("three"))
    assert asked == ["one one", "one two", "two two", "one three", "two three"]
    assert [item for item in driver.inputs[-1] if item.get("role") == "user"][-2:] == [
        user_message("more, says one"),
        user_message("more, says two"),
    ]
    assert of(messages, TaskComplete)[0].last_agent_message == "three"


async def test_a_request_that_failed_is_made_again_when_a_feature_has_mended_it(start: Start) -> None:
    class Mender(Feature):
        async def recover(self, turn: RunningTurn, error: ModelError) -> bool:
            assert turn.failure is error
            turn.thread.append_items([developer_message("mended")])
            return str(error) == "broken"

    driver = await start(features=(Mender(),))
    messages = await driver.turn("hi", fails("broken"), says("again"))
    assert of(messages, Error) == [] and driver.inputs[-1][-1] == developer_message("mended")
    messages = await driver.turn("hi", fails("beyond repair"))
    assert [error.message for error in of(messages, Error)] == ["beyond repair"]


@pytest.mark.parametrize("word", ["yes", "no", "ask"])
async def test_a_feature_answers_in_a_persons_place(start: Start, workspace: Path, word: str) -> None:
    class Deputy(Feature):
        async def permit(self, turn: RunningTurn, call_id: str, reason: str | None) -> bool:
            if word == "no":
                raise Rejected("the deputy refuses")
            return word == "yes"

    driver = await start(features=(Deputy(),), approval="untrusted", source="cli")
    driver.model.script(calls("exec_command", {"cmd": "touch made"}, "c1"), says("done"))
    sub_id = driver.begin("go")
    if word == "ask":
        asked = await driver.until(ExecApprovalRequest)
        driver.submit(ExecApproval(id=asked.call_id, decision="denied"))
    messages = await driver.end_of(sub_id)
    assert bool(of(messages, ExecApprovalRequest)) is (word == "ask")
    assert (workspace / "made").exists() is (word == "yes")
    if word == "no":
        assert "the deputy refuses" in outputs(driver)["c1"]


async def test_features_hear_what_happens_beside_the_turn(start: Start) -> None:
    pages: list[str] = []

    class Clerk(Diary):
        def answer(self, kind: str, request_id: str, decision: Any, content: dict[str, Any] | None) -> bool:
            self._note(f"answer {kind} {request_id} {decision}")
            return request_id == "mine"

    driver = await start(features=(Clerk("a", pages),))
    driver.model.script([waits(60), says("never")])
    sub_id = driver.begin("hi")
    await driver.until(TaskStarted)
    driver.submit(UserInput(items=text("and"), mode="steer"))
    driver.submit(ExecApproval(id="mine", decision="approved"))
    stray = driver.submit(ExecApproval(id="nobodys", decision="approved"))
    driver.submit(Interrupt())
    assert of(await driver.end_of(sub_id), TurnAborted)
    warnings = [event.msg for event in driver.events if event.id == stray]
    assert warnings == [Warning(message="no open approval request or question 'nobodys'")]
    driver.submit(Interrupt())
    await driver.session.settle()
    driver.session.kill_processes()
    heard = [page for page in pages if page.split()[1] in ("steered", "answer", "interrupt", "kill", "end_turn")]
    assert heard == [
        *("a: steered", "a: answer exec mine approved", "a: answer exec nobodys approved"),
        *("a: interrupt", "a: interrupt", "a: kill"),
    ]


async def test_a_late_feature_is_made_when_it_is_needed_and_takes_the_place_it_held(start: Start) -> None:
    made: list[str] = []
    pages: list[str] = []

    class Greeter(Diary):
        def ops(self) -> Mapping[type[Op], Handler]:
            return {Greet: self._greet}

        async def _greet(self, session: Session, submission: Submission) -> None:
            self._note("greet")

    def make() -> Feature:
        made.append("greeter")
        return Greeter("late", pages)

    def make_counter() -> Feature:
        made.append("counter")
        return Diary("counter", pages)

    late = Late(make, (Greet,))
    counter = Late(make_counter, is_needed=lambda turn: turn.requests > 0)
    driver = await start(features=(late, counter, Diary("last", pages)))
    await driver.turn("hi", says("x"))
    assert made == [] and {page.split(":")[0] for page in pages} == {"last"}
    for _ in range(2):
        driver.submit(Greet(name="you"))
    await driver.session.settle()
    assert made == ["greeter"] and [page for page in pages if "greet" in page] == ["late: greet", "late: greet"]
    pages.clear()
    await driver.turn("hi", calls("update_plan", {"plan": []}, "c1"), says("x"))
    assert made == ["greeter", "counter"]
    assert [page for page in pages if "before_request" in page] == [
        *("late: before_request 0", "last: before_request 0"),
        *("late: before_request 1", "counter: before_request 1", "last: before_request 1"),
    ]


async def test_a_feature_chooses_how_messages_are_shown(start: Start) -> None:
    class Loud(MessageView):
        def complete(self, item_id: str, text: str, tell: Any) -> str | None:
            return text.upper()

    class Shouting(Feature):
        async def begin_turn(self, turn: RunningTurn) -> None:
            turn.view = Loud(turn)

    driver = await start(features=(Shouting(),))
    messages = await driver.turn("hi", says("quiet"))
    assert of(messages, AgentMessage) == [AgentMessage(message="QUIET")]
    await driver.turn("again", says("x"))
    assert "QUIET" not in str(driver.inputs[-1])  # the model is told what it said


async def test_a_feature_that_fails_to_close_keeps_nothing_else_open(start: Start) -> None:
    pages: list[str] = []

    class Stuck(Feature):
        async def aclose(self) -> None:
            raise ValueError("stuck")

    driver = await start(features=(Stuck(), Diary("b", pages)))
    await driver.turn("hi", says("x"))
    await driver.close()
    assert "b: aclose" in pages
    assert Warning(message="internal error: ValueError: stuck") in await driver.idle()
    writer = driver.session.thread.history.writer
    assert writer is not None
    again = await start(thread=driver.session.thread_id)  # its record can be opened
    assert of(await again.turn("more", says("y")), AgentMessage) == [AgentMessage(message="y")]


async def test_a_session_that_cannot_be_put_together_leaves_nothing_running(tmp_path: Path, workspace: Path) -> None:
    class Slow(ScriptedModel):
        async def warm(self) -> None:
            await asyncio.sleep(60)

    class Usurper(Feature):
        def tools(self) -> Sequence[Tool]:
            return [Lucky(), Lucky()]

    config = load_config(cwd=str(workspace), env={"CODEX_HOME": str(tmp_path), "HOME": str(tmp_path)})
    with pytest.raises(ConfigError, match="there is already a tool with the name 'lucky_number'"):
        await open_thread(
            SessionRequest(config=config, source="exec", originator="test", client=Slow(), features=(Usurper(),))
        )
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_thread_that_never_began_closes_its_features(tmp_path: Path, workspace: Path) -> None:
    pages: list[str] = []
    config = load_config(cwd=str(workspace), env={"CODEX_HOME": str(tmp_path), "HOME": str(tmp_path)})
    diary = Diary("a", pages)
    thread = await open_thread(
        SessionRequest(config=config, source="exec", originator="test", client=ScriptedModel(), features=(diary,))
    )
    await thread.close()
    assert pages == ["a: aclose"]
