"""The people in the loop: calls `on_approval` and `on_question` of the embedding program, and passes the answers on.

    people = People(thread, on_approval, on_question, stop=…)     # a thread without callbacks needs none
    people.asked(event)                      # every event of the thread, when it is emitted; never waits
    people.close()

A callback is a function or a coroutine function. A plain function runs in a thread of its own and may block. Calls to
one callback do not overlap, though several requests may be open: the later ones wait. Threads of conversation share
nothing here, so none waits for the callback of another. All of it lives on the loop of the thread.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
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
from spindle.protocol.events import Event, Msg, TaskComplete, TurnAborted
from spindle.protocol.ops import Op
from spindle.protocol.questions import RequestUserInput
from spindle.protocol.settings import ThreadSettings
from spindle.protocol.tool_servers import ElicitationRequest

ApprovalAnswer = bool | str | Denied | None
OnApproval = Callable[[ApprovalRequest], ApprovalAnswer | Awaitable[ApprovalAnswer]]
QuestionAnswers = Mapping[str, str | Sequence[str]]
OnQuestion = Callable[[list[Question]], QuestionAnswers | Awaitable[QuestionAnswers]]


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
        stop: Callable[[BaseException], None],
        resolved: Callable[[str, str], None] = lambda call_id, word: None,
    ) -> None:
        self._thread = thread
        self._on_approval = None if on_approval is None else _Callback("on_approval", on_approval)
        self._on_question = None if on_question is None else _Callback("on_question", on_question)
        self._stop = stop
        """Interrupts the turn; `run` raises what it is given: a `CallbackError`, or an exit out of a callback."""
        self._resolved = resolved
        """Hears how a request for approval ended: its call id, and the word."""
        self._open: dict[asyncio.Task[None], str] = {}
        """What is being asked, and which thread asks."""

    def asked(self, event: Event) -> None:
        """Take up an event if it asks something; it is answered when the callback has answered."""
        match event.msg:
            case RequestUserInput() as msg:
                self._begin(self._thread.id, self._put_questions(msg))
            case ElicitationRequest(requested_schema=dict(schema)) as msg if schema.get("properties"):
                self._begin(msg.thread_id or self._thread.id, self._put_form(msg))
            case TaskComplete():
                self._withdraw(lambda asker: asker == self._thread.id)  # sub-agents may work on
            case TurnAborted():
                self._withdraw(lambda asker: True)  # what a callback still says is dropped
            case msg:
                request = approval_request(msg, thread_id=self._thread.id, cwd=self._thread.settings.cwd)
                if request is not None:
                    self._begin(request.thread_id, self._put_approval(msg, request))

    def close(self) -> None:
        """The thread is closed: nobody is asked any more, and nothing waits for a callback that has not returned."""
        self._withdraw(lambda asker: True)
        for callback in (self._on_approval, self._on_question):
            if callback is not None:
                callback.close()

    def _withdraw(self, is_over: Callable[[str], bool]) -> None:
        this = asyncio.current_task()  # which may be the one that ends the others
        for task, asker in self._open.items():
            if task is not this and is_over(asker):
                task.cancel()

    # ---- one request ---------------------------------------------------------------------------

    def _begin(self, asker: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._open[task] = asker
        task.add_done_callback(self._open.pop)

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
        if decision.word == "abort":
            self._withdraw(lambda asker: asker == request.thread_id)  # whoever said that wants no more questions

    async def _put_questions(self, msg: RequestUserInput) -> None:
        questions = questions_of(msg)
        if self._on_question is None:
            self._thread.submit(answer_op(msg, None))
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
        """Nothing is answered, so that the model is not asked again: with the turn the request ends too, as a no."""
        is_exit = isinstance(error, KeyboardInterrupt | SystemExit)
        self._withdraw(lambda asker: True)
        self._stop(error if is_exit else _callback_error(name, error))


class _Callback:
    """One function of the program. Its calls do not overlap, not even with one whose answer nobody wants any more."""

    def __init__(self, name: str, function: Callable[[Any], Any]) -> None:
        self._name = name
        self._function = function
        self._is_coroutine = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  an object with an `async def __call__`
        )
        self._turn = asyncio.Lock()
        self._work: asyncio.Future[Outcome] | None = None

    def close(self) -> None:
        """Wait no longer for what runs; a plain function goes on in its thread, and nobody hears what it says."""
        if self._work is not None:
            self._work.cancel()

    async def call(self, asked: Any, read: Callable[[Any], Any]) -> Outcome:
        """The answer, read; or what went wrong with it."""
        # A function that blocks in its thread cannot be stopped: the next call waits for it, whoever is cancelled here.
        await self._turn.acquire()
        work = self._work = asyncio.ensure_future(self._outcome(asked))
        # Not at once: whoever waits for this answer may withdraw the next question because of it.
        work.add_done_callback(lambda _: asyncio.get_running_loop().call_soon(self._turn.release))
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
