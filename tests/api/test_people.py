"""The people in the loop: what callbacks are asked, what their answers do, and every way they can go wrong."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from spindle.api.door import OpenThread, SessionRequest, open_thread
from spindle.api.events import EventTranslator
from spindle.api.forms import form_op, form_questions
from spindle.api.people import People
from spindle.api.requests import ApprovalRequest, Denied, Question, QuestionOption, approval_op, approval_request
from spindle.api.requests import Decision as Said
from spindle.api.shown import Usage
from spindle.config.load import load_config
from spindle.errors import CallbackError
from spindle.model.scripted import AnyStep, ScriptedModel, calls, patches, says
from spindle.protocol.events import TERMINAL, Event, ExecApprovalRequest, Msg, TaskComplete, TurnAborted
from spindle.protocol.ops import Interrupt, ResolveElicitation, UserTurn
from spindle.protocol.tool_servers import ElicitationRequest

ADD = "*** Begin Patch\n*** Add File: n.txt\n+x\n*** End Patch\n"
WORDS = ["approved", "approved_for_session", "denied", "abort"]


def run(script: str, call_id: str) -> Any:
    return calls("exec_command", {"cmd": script}, call_id)


def made_in(workspace: Path) -> list[str]:
    return [path.name for path in workspace.iterdir() if path.name != ".git"]


class Conversation:
    """A thread, its model, and the callbacks that are asked."""

    def __init__(self, thread: OpenThread, model: ScriptedModel, **callbacks: Any) -> None:
        self.thread = thread
        self.model = model
        self.resolved: list[tuple[str, str]] = []
        self.failure: BaseException | None = None
        self.people = People(thread, **callbacks, stop=self._stop, resolved=self._resolved)
        self.events = thread.subscribe()
        self.on_msg: Callable[[Msg], None] = lambda msg: None
        thread.begin()

    def _resolved(self, call_id: str, word: str) -> None:
        self.resolved.append((call_id, word))

    def _stop(self, error: BaseException) -> None:
        self.failure = error
        self.thread.submit(Interrupt())

    async def turn(self, **fields: Any) -> tuple[Msg, BaseException | None]:
        """One turn: its terminal message, and what `run` would raise."""
        self.thread.submit(UserTurn(items=[{"type": "text", "text": "go"}], **fields))

        async def read() -> Msg:
            async for event in self.events:
                self.people.asked(event)
                self.on_msg(event.msg)
                if isinstance(event.msg, TERMINAL):
                    return event.msg
            raise AssertionError("the stream ended")

        self.failure = None
        return await asyncio.wait_for(read(), 20), self.failure

    @property
    def outputs(self) -> dict[str, str]:
        items = self.model.requests[-1].input
        return {item["call_id"]: item["output"] for item in items if "output" in item}


@pytest.fixture
async def conversation(tmp_path: Path, workspace: Path) -> AsyncIterator[Callable[..., Any]]:
    (tmp_path / "codex-home").mkdir()
    opened: list[Conversation] = []

    async def start(*steps: AnyStep, **callbacks: Any) -> Conversation:
        config = load_config(
            cwd=str(workspace),
            env={"CODEX_HOME": str(tmp_path / "codex-home"), "HOME": str(tmp_path)},
            flags={"model": "gpt-5.2-codex", "approval_policy": "untrusted", "sandbox_mode": "workspace-write"},
        )
        model = ScriptedModel(*steps)
        request = SessionRequest(config=config, source="vscode", originator="test", client=model, ephemeral=True)
        opened.append(Conversation(await open_thread(request), model, **callbacks))
        return opened[-1]

    yield start
    for one in opened:
        one.people.close()
        await one.thread.close()


# ---- approvals -------------------------------------------------------------------------------------


async def test_a_request_says_what_is_asked_and_the_answer_decides(conversation: Any, workspace: Path) -> None:
    asked: list[ApprovalRequest] = []

    def ask(request: ApprovalRequest) -> Any:
        asked.append(request)
        return "yes" in request.display or (Denied("not on a Monday") if "why" in request.display else None)

    steps = [run("touch yes", "c1"), run("touch no", "c2"), run("touch why", "c3"), patches(ADD, "p1"), says("end")]
    talk = await conversation(*steps, on_approval=ask)
    terminal, failure = await talk.turn()
    assert isinstance(terminal, TaskComplete) and failure is None
    assert made_in(workspace) == ["yes"]
    assert talk.outputs["c2"] == "exec command rejected by user"
    assert talk.outputs["c3"] == "exec command rejected by user: not on a Monday"
    assert talk.outputs["p1"] == "patch rejected by user"
    command, patch = asked[0], asked[3]
    assert (command.kind, command.command, command.call_id) == ("command", [ANY, "-lc", "touch yes"], "c1")
    assert (command.cwd, command.thread_id, command.turn_id) == (str(workspace), talk.thread.id, terminal.turn_id)
    assert command.decisions == WORDS and "sandbox" in command.if_approved and command.changes is None
    assert patch.changes is not None and patch.command is None
    assert (patch.kind, patch.cwd, patch.decisions) == ("patch", str(workspace), WORDS)
    assert [(change.path, change.kind) for change in patch.changes] == [(str(workspace / "n.txt"), "add")]
    assert talk.resolved == [("c1", "approved"), ("c2", "denied"), ("c3", "denied"), ("p1", "denied")]


@pytest.mark.parametrize(
    ("answer", "asked", "ran"),
    [
        (True, 2, True),
        ("approved", 2, True),
        ("accept", 2, True),
        ("approved_for_session", 1, True),
        ("acceptForSession", 1, True),
        (False, 2, False),
        (None, 2, False),
        ("denied", 2, False),
        ("decline", 2, False),
        (Denied(), 2, False),
    ],
)
async def test_answers_of_both_vocabularies(
    conversation: Any, workspace: Path, answer: Any, asked: int, ran: bool
) -> None:
    seen: list[ApprovalRequest] = []

    async def ask(request: ApprovalRequest) -> Any:
        await asyncio.sleep(0)
        seen.append(request)
        return answer

    talk = await conversation(run("touch f", "c1"), run("touch f", "c2"), says("end"), on_approval=ask)
    terminal, failure = await talk.turn()
    assert (len(seen), (workspace / "f").exists()) == (asked, ran)
    assert isinstance(terminal, TaskComplete) and failure is None


@pytest.mark.parametrize("answer", ["abort", "cancel"])
async def test_an_abort_interrupts_the_turn_and_is_no_failure(conversation: Any, workspace: Path, answer: str) -> None:
    talk = await conversation(run("touch f", "c1"), says("never"), on_approval=lambda request: answer)
    terminal, failure = await talk.turn()
    assert isinstance(terminal, TurnAborted) and failure is None and len(talk.model.requests) == 1
    assert not (workspace / "f").exists()


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_callback_that_raises_ends_the_turn_and_the_thread_goes_on(
    conversation: Any, workspace: Path, is_async: bool
) -> None:
    def ask(request: ApprovalRequest) -> bool:
        if "bad" in request.display:
            raise ZeroDivisionError("oops")
        return True

    async def ask_later(request: ApprovalRequest) -> bool:
        return ask(request)

    steps = [run("touch bad", "c1"), run("touch good", "c2"), says("end")]
    talk = await conversation(*steps, on_approval=ask_later if is_async else ask)
    terminal, failure = await talk.turn()
    assert isinstance(terminal, TurnAborted) and len(talk.model.requests) == 1
    assert isinstance(failure, CallbackError) and isinstance(failure.__cause__, ZeroDivisionError)
    assert str(failure) == "on_approval failed: ZeroDivisionError: oops"
    assert talk.resolved == [("c1", "abort")]
    again, failure = await talk.turn()
    assert isinstance(again, TaskComplete) and failure is None
    assert made_in(workspace) == ["good"]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (1, "on_approval returned 1; it returns True, False, None, a word or Denied('why')"),
        (
            "yes",
            "on_approval returned 'yes'; the words are approved, accept, approved_for_session, acceptForSession, "
            "denied, decline, abort, cancel",
        ),
    ],
)
async def test_a_wrong_answer_is_a_failure_in_one_sentence(
    conversation: Any, workspace: Path, answer: Any, sentence: str
) -> None:
    talk = await conversation(run("touch f", "c1"), says("never"), on_approval=lambda request: answer)
    terminal, failure = await talk.turn()
    assert isinstance(terminal, TurnAborted) and isinstance(failure, CallbackError) and str(failure) == sentence
    assert isinstance(failure.__cause__, TypeError | ValueError) and not (workspace / "f").exists()


@pytest.mark.parametrize("exit_", [KeyboardInterrupt(), SystemExit(3)])
async def test_an_exit_out_of_a_callback_is_raised_as_it_is(conversation: Any, exit_: BaseException) -> None:
    def ask(request: ApprovalRequest) -> bool:
        raise exit_

    talk = await conversation(run("touch f", "c1"), says("never"), on_approval=ask)
    terminal, failure = await talk.turn()
    assert isinstance(terminal, TurnAborted) and failure is exit_


async def test_requests_are_open_together_and_calls_to_the_callback_do_not_overlap(conversation: Any) -> None:
    both_open, running, most, opened = threading.Event(), 0, 0, 0

    def ask(request: ApprovalRequest) -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        assert both_open.wait(20)
        running -= 1
        return True

    def count(msg: Msg) -> None:
        nonlocal opened
        opened += isinstance(msg, ExecApprovalRequest)
        if opened == 2:
            # Late enough for a second call to have come in, if nothing held it back.
            asyncio.get_running_loop().call_later(0.1, both_open.set)

    talk = await conversation([run("touch a", "c1"), run("touch b", "c2")], says("end"), on_approval=ask)
    talk.on_msg = count
    terminal, failure = await talk.turn()
    assert isinstance(terminal, TaskComplete) and failure is None and (opened, most) == (2, 1)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("answer", ["abort", "raises"])
async def test_after_the_end_of_the_turn_was_asked_for_nothing_else_is_asked(
    conversation: Any, answer: str, is_async: bool
) -> None:
    both_open, asked, opened = threading.Event(), [], 0

    def ask(request: ApprovalRequest) -> str:
        asked.append(request.call_id)
        assert both_open.wait(20)
        if answer == "raises":
            raise ZeroDivisionError
        return answer

    async def ask_later(request: ApprovalRequest) -> str:
        return await asyncio.to_thread(ask, request)

    def count(msg: Msg) -> None:
        nonlocal opened
        opened += isinstance(msg, ExecApprovalRequest)
        if opened == 2:
            both_open.set()

    steps = [run("touch a", "c1"), run("touch b", "c2")], says("end")
    talk = await conversation(*steps, on_approval=ask_later if is_async else ask)
    talk.on_msg = count
    terminal, _ = await talk.turn()
    assert isinstance(terminal, TurnAborted)
    assert isinstance((await talk.turn())[0], TaskComplete) and asked == ["c1"]


async def test_a_call_waits_for_one_of_an_interrupted_turn_that_still_blocks(conversation: Any) -> None:
    """Its answer is dropped, but two calls would both read from the terminal."""
    first_is_in, first_may_end, log = threading.Event(), threading.Event(), []

    def ask(request: ApprovalRequest) -> bool:
        log.append(f"in {request.call_id}")
        first_is_in.set()
        assert first_may_end.wait(20)
        log.append(f"out {request.call_id}")
        return True

    talk = await conversation(run("touch a", "c1"), run("touch b", "c2"), says("end"), on_approval=ask)

    def let_go(msg: Msg) -> None:
        if isinstance(msg, ExecApprovalRequest):
            assert log == ["in c1"]
            first_may_end.set()

    reading = asyncio.ensure_future(talk.turn())
    await asyncio.to_thread(first_is_in.wait, 20)
    talk.thread.submit(Interrupt())
    assert isinstance((await reading)[0], TurnAborted)
    talk.on_msg = let_go
    terminal, failure = await talk.turn()
    assert isinstance(terminal, TaskComplete) and failure is None
    assert log == ["in c1", "out c1", "in c2", "out c2"]


async def test_many_callbacks_block_at_once_and_nobody_waits_for_another(conversation: Any) -> None:
    count = 40  # more than the loop's own pool of threads has
    together = threading.Barrier(count)

    def ask(request: ApprovalRequest) -> bool:
        together.wait(30)
        return False

    talks = [await conversation(run("touch f", "c1"), says("end"), on_approval=ask) for _ in range(count)]
    ends = await asyncio.gather(*(talk.turn() for talk in talks))
    assert all(isinstance(terminal, TaskComplete) and failure is None for terminal, failure in ends)


# ---- questions -------------------------------------------------------------------------------------

ASKED = {
    "questions": [
        {
            "id": "db",
            "header": "Store",
            "question": "Which one?",
            "options": [{"label": "SQLite", "description": "small"}],
        },
        {"id": "why", "question": "Why?"},
    ]
}
PLAN = {"collaboration_mode": {"mode": "plan", "settings": {"model": "gpt-5.2-codex"}}}


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"db": "SQLite"}, {"db": {"answers": ["SQLite"]}}),
        (
            {"db": ["SQLite", "Files"], "why": "so"},
            {"db": {"answers": ["SQLite", "Files"]}, "why": {"answers": ["so"]}},
        ),
        ({}, {}),
    ],
)
async def test_questions_of_the_model_reach_the_callback_and_its_answers_the_model(
    conversation: Any, answers: Any, told: Any
) -> None:
    seen: list[Question] = []

    def answer(questions: list[Question]) -> Any:
        seen.extend(questions)
        return answers

    talk = await conversation(calls("request_user_input", ASKED, "c1"), says("end"), on_question=answer)
    terminal, failure = await talk.turn(**PLAN)
    assert isinstance(terminal, TaskComplete) and failure is None
    option = QuestionOption(label="SQLite", description="small")
    assert seen == [
        Question(id="db", header="Store", question="Which one?", options=[option]),
        Question(id="why", question="Why?"),
    ]
    assert json.loads(talk.outputs["c1"]) == {"answers": told}


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (None, "on_question returned None; it returns a dict of answers by the id of the question"),
        ({"dbs": "x"}, "on_question answered 'dbs'; the questions were 'db', 'why'"),
        ({"db": 7}, "on_question answered 'db' with 7; an answer is a text or a list of them"),
    ],
)
async def test_answers_that_answer_nothing_are_a_failure(conversation: Any, answers: Any, sentence: str) -> None:
    talk = await conversation(
        calls("request_user_input", ASKED, "c1"), says("never"), on_question=lambda questions: answers
    )
    terminal, failure = await talk.turn(**PLAN)
    assert isinstance(terminal, TurnAborted) and isinstance(failure, CallbackError) and str(failure) == sentence
    assert len(talk.model.requests) == 1


# ---- MCP servers and functions ---------------------------------------------------------------------


def elicitation(**fields: Any) -> ElicitationRequest:
    return ElicitationRequest(**{"server_name": "box", "id": "r1", "message": "Ready?", "call_id": "c1", **fields})


class Heard:
    """Stands for a thread: what it was told."""

    id = "t1"
    settings: Any = type("Settings", (), {"cwd": "/w"})()

    def __init__(self) -> None:
        self.ops: list[Any] = []

    def submit(self, op: Any) -> None:
        self.ops.append(op)

    def stop(self, error: BaseException) -> None:
        raise AssertionError(error)


async def ops_after(people: People, heard: Heard, msg: Msg) -> list[Any]:
    people.asked(Event("", msg))
    async with asyncio.timeout(20):
        while not heard.ops:
            await asyncio.sleep(0.005)
    return heard.ops


def resolve(decision: Any, content: Any = None) -> ResolveElicitation:
    return ResolveElicitation(server_name="box", request_id="r1", decision=decision, content=content)


@pytest.mark.parametrize(
    ("answer", "decision"),
    [(True, "accept"), ("approved_for_session", "accept"), (None, "decline"), ("abort", "cancel")],
)
async def test_a_yes_that_a_server_wants_is_asked_for_as_an_approval(answer: Any, decision: str) -> None:
    heard, seen = Heard(), []

    def ask(request: ApprovalRequest) -> Any:
        seen.append(request)
        return answer

    msg = elicitation(available_decisions=["accept", "decline", "cancel"])
    assert await ops_after(People(heard, ask, stop=heard.stop), heard, msg) == [resolve(decision)]
    (request,) = seen
    assert (request.kind, request.server, request.tool, request.display) == ("mcp", "box", None, "Ready?")
    assert request.decisions == ["approved", "denied", "abort"] and request.thread_id == "t1"


@pytest.mark.parametrize(
    ("fields", "call_id"), [({}, "c1"), ({"call_id": ""}, "r1"), ({"thread_id": "of an agent"}, "r1")]
)
def test_a_request_always_has_an_id_of_its_own(fields: dict[str, str], call_id: str) -> None:
    request = approval_request(elicitation(**fields), thread_id="t1", cwd="/w")
    assert request is not None and request.call_id == call_id
    (event,) = EventTranslator("t1", "u1", 0).events(elicitation(**fields), Usage())
    assert event.type == "approval.requested" and event.call_id == call_id


async def test_a_tool_of_a_server_and_a_function_are_told_apart_and_a_reason_travels() -> None:
    invocation = {"server": "box", "tool": "put", "arguments": {"n": 1}}
    msg = elicitation(kind="tool_approval", invocation=invocation, available_decisions=WORDS, if_approved="it does it")
    request = approval_request(msg, thread_id="t1", cwd="/w")
    assert request is not None
    assert (request.kind, request.server, request.tool, request.arguments) == ("mcp", "box", "put", {"n": 1})
    assert (request.decisions, request.if_approved) == (WORDS, "it does it")
    of_function = elicitation(server_name="", kind="tool_approval", invocation={**invocation, "server": ""})
    function = approval_request(of_function, thread_id="t1", cwd="/w")
    assert function is not None
    assert (function.kind, function.server, function.tool, function.display) == ("tool", None, "put", 'put({"n":1})')
    assert approval_op(msg, Said("denied", "why")) == resolve({"denied": {"reason": "why"}})


FORM = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "count": {"type": "integer", "description": "How many?"},
        "share": {"type": "number"},
        "sure": {"type": "boolean"},
        "size": {"type": "string", "enum": ["S", "M"]},
        "key": {"type": "string", "format": "password"},
    },
}


async def test_a_form_of_a_server_becomes_questions_and_its_answers_get_their_types() -> None:
    heard, seen = Heard(), []

    def answer(questions: list[Question]) -> Any:
        seen.extend(questions)
        return {"name": "Ada", "count": "3", "share": "0.5", "sure": "yes", "size": "M"}

    ops = await ops_after(People(heard, None, answer, stop=heard.stop), heard, elicitation(requested_schema=FORM))
    assert ops == [resolve("accept", {"name": "Ada", "count": 3, "share": 0.5, "sure": True, "size": "M"})]
    assert [(one.id, one.question, [option.label for option in one.options], one.is_secret) for one in seen] == [
        ("name", "Your name", [], False),
        ("count", "How many?", [], False),
        ("share", "share", [], False),
        ("sure", "sure", ["yes", "no"], False),
        ("size", "size", ["S", "M"], False),
        ("key", "key", [], True),
    ]
    assert {one.header for one in seen} == {"Ready?"}


@pytest.mark.parametrize("answers", [{}, {"count": ["3"]}])
def test_a_form_that_lacks_what_the_server_needs_is_declined(answers: Any) -> None:
    assert form_op(elicitation(requested_schema=FORM), answers) == resolve("decline")


def test_a_form_with_a_word_where_a_number_belongs_says_so() -> None:
    with pytest.raises(ValueError, match="on_question answered 'count' with 'few', which is not a valid integer"):
        form_op(elicitation(requested_schema=FORM), {"name": ["x"], "count": ["few"]})


def test_a_form_without_sense_asks_nothing() -> None:
    schema = {"properties": {"a": 7, "b": {"type": "string", "enum": [1, "x"], "title": 3}}}
    assert [one.id for one in form_questions(elicitation(requested_schema=schema))] == ["b"]


@pytest.mark.parametrize("schema", [None, FORM])
async def test_without_callbacks_everything_is_declined(schema: Any) -> None:
    heard = Heard()
    assert await ops_after(People(heard, stop=heard.stop), heard, elicitation(requested_schema=schema)) == [
        resolve("decline")
    ]
