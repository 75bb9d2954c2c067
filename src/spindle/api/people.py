"""The people in the loop: calls `on_approval` and `on_question` of the embedding program, and passes the answers on.

    people = People(thread, on_approval, on_question)     # a thread without callbacks needs none
    people.hear(msg)                                      # each message of the thread, as it comes; never waits
    failure = people.end_turn()                           # after a terminal message: what `run` raises, or None
    people.close()

A callback is a function or a coroutine function. A plain function runs in a thread of its own and may block. Calls to
one callback do not overlap, though several requests may be open: the later ones wait. Threads of conversation share
nothing here, so none waits for the callback of another. All of it lives on the loop of the thread.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from spindle.api.requests import (
    ApprovalRequest,
    Decision,
    Denied,
    Question,
    answer_op,
    approval_op,
    approval_request,
    questions_of,
    read_answers,
    read_decision,
)
from spindle.api.workers import Outcome, outcome_in_thread, outcome_on_loop
from spindle.errors import CallbackError
from spindle.protocol.events import Msg
from spindle.protocol.ops import Interrupt, Op
from spindle.protocol.questions import RequestUserInput
from spindle.protocol.settings import ThreadSettings
from spindle.protocol.tool_servers import ElicitationRequest

ApprovalAnswer = bool | str | Denied | None
OnApproval = Callable[[ApprovalRequest], ApprovalAnswer | Awaitable[ApprovalAnswer]]
QuestionAnswers = Mapping[str, str | Sequence[str]]
OnQuestion = Callable[[list[Question]], QuestionAnswers | Awaitable[QuestionAnswers]]
Resolved = Callable[[str, str], None]
"""Hears how a request ended: its call id, and the word."""


class LiveThread(Protocol):
    """What is needed of the thread: an `OpenThread` of `door` has it."""

    @property
    def id(self) -> str: ...

    @property
    def settings(self) -> ThreadSettings: ...

    def submit(self, op: Op) -> Any: ...


class People:
    """The callbacks of one thread."""

    def __init__(
        self,
        thread: LiveThread,
        on_approval: OnApproval | None = None,
        on_question: OnQuestion | None = None,
        *,
        resolved: Resolved = lambda call_id, word: None,
    ) -> None:
        self._thread = thread
        self._on_approval = None if on_approval is None else _Callback("on_approval", on_approval)
        self._on_question = None if on_question is None else _Callback("on_question", on_question)
        self._resolved = resolved
        self._turn: set[asyncio.Task[None]] = set()
        """What is open in the present turn."""
        self._failure: BaseException | None = None

    def hear(self, msg: Msg) -> None:
        """Take up a message if it asks something; it is answered when the callback has answered."""
        match msg:
            case RequestUserInput():
                self._begin(self._put_questions(msg))
            case ElicitationRequest(requested_schema=dict(schema)) if schema.get("properties"):
                self._begin(self._put_form(msg))
            case _:
                request = approval_request(msg, thread_id=self._thread.id, cwd=self._thread.settings.cwd)
                if request is not None:
                    self._begin(self._put_approval(msg, request))

    def end_turn(self) -> BaseException | None:
        """The turn is over: nobody waits for what is open. Gives what `run` must raise: a `CallbackError`, or an
        exit (`KeyboardInterrupt`, `SystemExit`) that came out of a callback."""
        open_now, self._turn = self._turn, set()
        for task in open_now:
            task.cancel()
        failure, self._failure = self._failure, None
        return failure

    def close(self) -> None:
        """The thread is closed; what a callback still says is dropped."""
        self.end_turn()

    # ---- one request ---------------------------------------------------------------------------

    def _begin(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._turn.add(task)
        task.add_done_callback(self._turn.discard)

    async def _put_approval(self, msg: Msg, request: ApprovalRequest) -> None:
        if self._on_approval is None:
            self._answer(request, msg, Decision("denied"))
            return
        outcome = await self._on_approval.call(request, read_decision)
        if outcome.error is None:
            self._answer(request, msg, outcome.value)
            return
        self._fail("on_approval", outcome.error)
        self._resolved(request.call_id, "abort")

    def _answer(self, request: ApprovalRequest, msg: Msg, decision: Decision) -> None:
        self._thread.submit(approval_op(msg, decision))
        self._resolved(request.call_id, decision.word)

    async def _put_questions(self, msg: RequestUserInput) -> None:
        questions = questions_of(msg)
        if self._on_question is None:
            self._thread.submit(answer_op(msg, {}))
            return
        await self._ask(questions, lambda answers: answer_op(msg, answers))

    async def _put_form(self, msg: ElicitationRequest) -> None:
        from spindle.api.forms import form_op, form_questions  # few servers ask

        if self._on_question is None:
            self._thread.submit(form_op(msg, {}))
            return
        await self._ask(form_questions(msg), lambda answers: form_op(msg, answers))

    async def _ask(self, questions: list[Question], make_op: Callable[[dict[str, list[str]]], Op]) -> None:
        assert self._on_question is not None
        outcome = await self._on_question.call(questions, lambda given: make_op(read_answers(given, questions)))
        if outcome.error is None:
            self._thread.submit(outcome.value)
        else:
            self._fail("on_question", outcome.error)

    def _fail(self, name: str, error: BaseException) -> None:
        """Nothing is answered, so that the model is not asked again: with the turn the request ends too, as a no.

        The first failure counts: what comes after it is a consequence.
        """
        if self._failure is None:
            self._failure = error if isinstance(error, KeyboardInterrupt | SystemExit) else _callback_error(name, error)
        self._thread.submit(Interrupt())


class _Callback:
    """One function of the program. Its calls do not overlap, not even with one whose answer nobody wants any more."""

    def __init__(self, name: str, function: Callable[[Any], Any]) -> None:
        self._name = name
        self._function = function
        self._is_coroutine = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  an object with an `async def __call__`
        )
        self._turn = asyncio.Lock()

    async def call(self, asked: Any, read: Callable[[Any], Any]) -> Outcome:
        """The answer, read; or what went wrong with it."""
        # A function that blocks in its thread cannot be stopped: the next call waits for it, whoever is cancelled here.
        await self._turn.acquire()
        work = asyncio.ensure_future(self._outcome(asked))
        work.add_done_callback(lambda _: self._turn.release())
        try:
            outcome = await asyncio.shield(work)
        except asyncio.CancelledError:
            if self._is_coroutine:
                work.cancel()
            raise
        if outcome.error is not None:
            return outcome
        try:
            return Outcome(read(outcome.value))
        except (TypeError, ValueError) as error:
            return Outcome(error=error)

    async def _outcome(self, asked: Any) -> Outcome:
        if self._is_coroutine:
            return await outcome_on_loop(lambda: self._function(asked))
        outcome = await outcome_in_thread(lambda: self._function(asked), self._name)
        if outcome.error is None and inspect.isawaitable(outcome.value):
            awaitable = outcome.value
            return await outcome_on_loop(lambda: awaitable)
        return outcome


def _callback_error(name: str, error: BaseException) -> CallbackError:
    text = str(error)
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    # What an answer cannot be read for is a sentence of ours already.
    found = CallbackError(text if text.startswith(f"{name} ") else f"{name} failed: {said}")
    found.__cause__ = error
    return found
