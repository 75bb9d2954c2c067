"""Something a session can do beyond asking a model: one base class, whose methods are named after their moments.

A session has a list of features and knows none of their names. At each moment it calls them in the order of the list,
which is fixed in `assembly`. A feature overrides the methods it needs and holds its own state; it reaches the session
through the arguments it gets. If a method raises, that counts as raised by the turn, the call or the op it was called
for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.protocol.events import Warning
from spindle.protocol.items import Item

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn
    from spindle.core.session import Session
    from spindle.errors import ModelError
    from spindle.protocol.ops import Op, Submission
    from spindle.tools.tool import Tool, ToolCall, ToolResult

Handler = Callable[["Session", "Submission"], Awaitable[None]]
"""Deals with one op. The session handles ops one by one, so what takes time is started here and not waited for."""
RunCall = Callable[["ToolCall"], Awaitable["ToolResult"]]
"""Runs a call: the next feature around it, and at last the tool."""


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """What a feature says to an input."""

    refusal: str | None = None
    """Why the model must not see it, as a sentence for the person; None lets it in."""
    added: list[Item] = []
    """What the model is told with it."""


class Feature:
    """Something a session can do beyond asking a model. Every method does nothing unless it is overridden."""

    # ---- the session ---------------------------------------------------------------------------

    def tools(self) -> Sequence[Tool]:
        """The tools it brings. Asked once, before the session is open; the list keeps its bytes from then on."""
        return ()

    def notes(self) -> str | None:
        """Notes of models that a thread begins with, told as such; asked when the documents of a folder are read."""
        return None

    def ops(self) -> Mapping[type[Op], Handler]:
        """The ops it takes, beside those of the session itself."""
        return {}

    def open(self, session: Session) -> None:
        """The session begins to handle ops. The first of a feature's moments."""

    def answer(self, kind: str, request_id: str, decision: Any, content: dict[str, Any] | None) -> bool:
        """A person's answer to a question that the session itself did not put; true when it was put here."""
        return False

    def steered(self) -> None:
        """A person said something to the running turn, which its next request will tell the model."""

    async def interrupt(self) -> None:
        """The turn was stopped, or a person wants everything stopped: end what goes on beside the turn."""

    def kill(self) -> None:
        """Kill its programs without waiting for anything: the process must end this instant."""

    async def aclose(self) -> None:
        """The session ends. Called also when it never began, and perhaps twice."""

    # ---- a turn --------------------------------------------------------------------------------

    async def begin_turn(self, turn: RunningTurn) -> None:
        """A turn of any kind was announced; nothing has been asked. A SpindleError ends it."""

    async def before_input(self, turn: RunningTurn) -> bool:
        """Before the input of a turn is recorded; false ends the turn without it.

        After a SpindleError the input is recorded all the same, and the turn ends.
        """
        return True

    async def admit_input(self, turn: RunningTurn, text: str) -> Admission | None:
        """Before any input is recorded, also one that joins a running turn; None lets it in as it is."""

    @property
    def screens_input(self) -> bool:
        """It may refuse an input, so none is recorded without asking it."""
        return type(self).admit_input is not Feature.admit_input

    async def before_request(self, turn: RunningTurn) -> None:
        """Before each request of a turn, and before input that joined it is recorded. `turn.requests` is how many
        were answered so far."""

    async def recover(self, turn: RunningTurn, error: ModelError) -> bool:
        """A request failed for good; true when the reason is gone, and it should be made again."""
        return False

    async def around_call(self, turn: RunningTurn, call: ToolCall, run: RunCall) -> ToolResult:
        """In place of a call to a tool that there is: what this returns is its result.

        `await run(call)` runs it, with other arguments where the feature changed them. A ToolError tells the model.
        """
        return await run(call)

    @property
    def surrounds_calls(self) -> bool:
        """It has something to do around a call, so it is asked."""
        return type(self).around_call is not Feature.around_call

    async def permit(self, turn: RunningTurn, call_id: str, reason: str | None) -> bool:
        """Before a person is asked about a call: true gives the permission, Rejected refuses it, false asks."""
        return False

    async def before_compaction(self, turn: RunningTurn, trigger: str) -> None:
        """Before the thread is replaced by a summary of it. A SpindleError ends the turn and leaves the thread."""

    async def after_compaction(self, turn: RunningTurn, trigger: str) -> None:
        """The thread is replaced."""

    async def before_end(self, turn: RunningTurn) -> bool:
        """The model is done (`turn.last_message`); true when it was given more to do. The first true one counts."""
        return False

    def end_turn(self, turn: RunningTurn) -> None:
        """The turn completed: it was not stopped, and did not fail. Its terminal event comes after this."""

    async def leave_turn(self, turn: RunningTurn) -> None:
        """The turn is over, however it ended: completed, stopped (`turn.is_stopping`) or failed (`turn.error`). Its
        terminal event comes after this."""

    def after_turn(self, turn: RunningTurn) -> None:
        """The terminal event is out and no input waits, so nothing runs now. To start a turn, hand in an op."""


async def leave_turn(turn: RunningTurn) -> None:
    """Let every feature put away what it has of a turn. Nobody cancels this: a turn is stopped once at most."""
    for feature in turn.session.features:
        try:
            await feature.leave_turn(turn)
        except Exception as error:  # our bug: the turn ends all the same
            turn.emit(Warning(message=f"internal error: {type(error).__name__}: {error}"))


class Late(Feature):
    """Takes the place of a feature that is loaded only when it is needed: when one of its ops comes, or when
    `is_needed` says so at the beginning of a turn, before a request or after one that failed."""

    def __init__(
        self,
        make: Callable[[], Feature],
        ops: tuple[type[Op], ...] = (),
        is_needed: Callable[[RunningTurn], bool] = lambda turn: False,
    ) -> None:
        self._make = make
        self._ops = ops
        self._is_needed = is_needed

    def ops(self) -> Mapping[type[Op], Handler]:
        return dict.fromkeys(self._ops, self._handle)

    async def _handle(self, session: Session, submission: Submission) -> None:
        await self._made(session).ops()[type(submission.op)](session, submission)

    def _made(self, session: Session) -> Feature:
        made = self._make()
        session.replace_feature(self, made)
        return made

    async def begin_turn(self, turn: RunningTurn) -> None:
        if self._is_needed(turn):
            await self._made(turn.session).begin_turn(turn)

    async def before_input(self, turn: RunningTurn) -> bool:
        return not self._is_needed(turn) or await self._made(turn.session).before_input(turn)

    async def before_request(self, turn: RunningTurn) -> None:
        if self._is_needed(turn):
            await self._made(turn.session).before_request(turn)

    async def recover(self, turn: RunningTurn, error: ModelError) -> bool:
        return self._is_needed(turn) and await self._made(turn.session).recover(turn, error)
