"""The turns of one session: at most one runs, each ends with exactly one terminal event.

Runs each turn to its end, steers and stops it; the session begins it. `turn.py` is what a turn does; `running_turn.py`
is what it works with.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from spindle.core.feature import leave_turn
from spindle.core.permission.approvals import Approvals
from spindle.core.running_turn import CONTEXT_FULL, Emit, RunningTurn
from spindle.errors import BudgetReached, ModelError, SpindleError
from spindle.protocol.events import Error, Msg, TaskComplete, TurnAborted, Warning
from spindle.protocol.ops import Interrupt, Submission
from spindle.protocol.settings import ThreadSettings

if TYPE_CHECKING:
    from spindle.core.session import Session

WARM_AFTER_S = 0.05
"""When a turn is still waiting after this long, the time is used to get ready for its first command."""


class Turns:
    """Owned by a session. Nothing else appends to the thread while a turn runs."""

    def __init__(self, session: Session) -> None:
        thread, workbench = session.thread, session.workbench
        self._session = session
        self._thread = thread
        self.running: RunningTurn | None = None
        self._said_lost = False
        self.approvals = Approvals(
            workbench.sandbox_problem,
            lambda: session.submit(Submission("", Interrupt())),
            workbench.rules,
            mask=thread.secrets.mask,
            environment=workbench.environment,
            note=lambda what, is_granted: thread.notes.approval(what, is_granted=is_granted),
            new_id=thread.clock.uuid7,
        )

    @property
    def is_running(self) -> bool:
        return self.running is not None

    def steer(self, submission: Submission) -> None:
        """Feed the running turn; the input is appended before its next request."""
        assert self.running is not None
        self.running.steered.append(submission)

    async def stop(self, reason: str) -> None:
        """End the running turn and wait until its terminal event is out."""
        self._drop_steered()
        while (running := self.running) is not None and running.task is not None:
            if not running.has_begun:
                # A task that is cancelled before its first step runs nothing at all, not even what tells of its end.
                await asyncio.sleep(0)
            elif not running.is_stopping:
                running.is_stopping = True
                running.reason = reason
                running.task.cancel()
            else:
                # Cancelled once: a second time would cut short what is done for a whole record.
                await asyncio.wait([running.task])

    def _drop_steered(self) -> None:
        """Input that waits for a turn that is stopped is dropped with it; its sender is told."""
        if self.running is None:
            return
        steered, self.running.steered = self.running.steered, []
        for submission in steered:
            text = "the turn was stopped before this input reached the model; it was dropped"
            self._session.emit(submission.id, Warning(message=text))

    # ---- one turn ------------------------------------------------------------------------------

    async def run(self, turn: RunningTurn) -> None:
        """One turn from its first event to its terminal one. Whatever happens in it, a terminal event is emitted."""
        turn.has_begun = True
        limits = self._session.limits
        warming = asyncio.ensure_future(self._warm_up(turn.settings))
        terminal: Msg = TaskComplete(turn_id=turn.turn_id, last_agent_message=None)
        failure: Error | None = None
        try:
            async with asyncio.timeout(limits.turn_s or None):
                done = await turn.work(turn)
            terminal = msgspec.structs.replace(
                terminal, last_agent_message=done.last_message, response_id=done.response_id
            )
        except TimeoutError:
            text = f"stopped after {limits.turn_s:g} seconds (spindle.limits.turn_timeout_sec)"
            failure = Error(message=text, codex_error_info="other")
        except asyncio.CancelledError:
            # Swallowed on purpose: this task has one more thing to say, and its owner only waits for its end.
            from spindle.prompt.aborted import aborted_marker  # few turns are stopped

            self._thread.history.append_item(aborted_marker())
            if limits.legacy_interrupt_error and turn.reason == "interrupted":
                turn.emit(Error(message="interrupted"))
            terminal = TurnAborted(turn_id=turn.turn_id, reason=turn.reason)
        except SpindleError as error:
            info = error.info if isinstance(error, ModelError) else "other"
            if info == CONTEXT_FULL:
                self._thread.note_window_full(turn.emit)
            budget = error.budget if isinstance(error, BudgetReached) else msgspec.UNSET
            failure = Error(message=str(error), codex_error_info=info, budget=budget)
        except Exception as error:  # our bug: the turn fails, the session and the record live on
            text = f"internal error: {type(error).__name__}: {error}"
            failure = Error(message=text, codex_error_info="other")
        warming.cancel()
        turn.error = failure
        await leave_turn(turn)
        if failure is not None:
            turn.emit(failure)
        self._end(turn, terminal, failure)

    def _end(self, turn: RunningTurn, terminal: Msg, failure: Error | None) -> None:
        """Record that the turn is over, then tell it. Nothing here waits: a second interrupt finds no turn to stop."""
        record = msgspec.to_builtins(terminal)
        if failure is not None:
            record["error"] = {"message": failure.message, "codex_error_info": failure.codex_error_info}
        self._thread.history.append_event(record)
        self.running = None
        self._session.workbench.processes.let_go()
        self.report_lost_record(turn.emit)
        turn.emit(terminal)
        # Input that was steered into a turn which then failed, or ended, starts a turn of its own.
        if turn.steered:
            first, *others = turn.steered
            tier = self._session.settings.service_tier  # the turn that ended may have had one for itself alone
            settings = msgspec.structs.replace(turn.settings, service_tier=tier)
            self._session.begin_turn(first, settings).steered = others
            return
        for feature in self._session.features:
            feature.after_turn(turn)

    async def _warm_up(self, settings: ThreadSettings) -> None:
        """Load what runs tools, and try the sandbox, while the model thinks. A profile must not run without need."""
        await asyncio.sleep(WARM_AFTER_S)
        from spindle.core.permission import asking, person  # noqa: F401  kept out of the way of the first request
        from spindle.tools import exec_command  # noqa: F401  likewise

        if not settings.sandbox.is_full_access:
            await self._session.workbench.sandbox_problem()

    def report_lost_record(self, emit: Emit) -> None:
        """Say once that the thread is no longer being recorded."""
        writer = self._thread.history.writer
        if writer is not None and writer.failed and not self._said_lost:
            self._said_lost = True
            emit(Warning(message=f"this thread is not being recorded: {writer.failed}"))
