"""Checkpoints of a session: keeps what files were before its turns change them, and takes turns back.

Loaded with the first command that may write, the first patch, or the first `undo`. All that takes time runs beside the
event loop, one thing at a time.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from spindle.core.feature import Feature, Handler, RunCall
from spindle.errors import SpindleError
from spindle.features.checkpoints.answer import back_note, sentence
from spindle.features.checkpoints.choosing import Nothing, ancestors_of
from spindle.features.checkpoints.images import Change
from spindle.features.checkpoints.journal import TurnKey
from spindle.features.checkpoints.pruning import is_due, prune
from spindle.features.checkpoints.reach import covered_roots
from spindle.features.checkpoints.recorder import Options, Recorder
from spindle.features.checkpoints.restore import Intent, has_unfinished
from spindle.features.checkpoints.talk import come_back, go_back, has_gone_back, turn_count, turns_of
from spindle.features.checkpoints.undoing import Prepared, Undoer, record_change
from spindle.policy.sandbox import protected_paths
from spindle.protocol.clock import Clock
from spindle.protocol.events import TurnDiff, Warning
from spindle.protocol.ops import Submission, Undo
from spindle.protocol.undo import UndoCompleted, UndoReport, UndoStarted
from spindle.workspace.git import find_repository

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn
    from spindle.core.session import Session
    from spindle.process.spawn import Running
    from spindle.protocol.settings import ThreadSettings
from spindle.tools.tool import ToolCall, ToolResult

_TIDY_AFTER_BYTES = 32 << 20
_MOST_SHOWN, _MOST_SHOWN_BYTES = 1_000, 8 << 20
Result = TypeVar("Result")


class Checkpoints(Feature):
    """Of one session, and of its sub-agents: what they do is the turn's too."""

    def __init__(self, home: str, thread_id: str, options: Options, clock: Clock, fence: tuple[str, ...]) -> None:
        self._recorder = Recorder(home, thread_id, options, clock)
        self._home = home
        self._options = options
        self._clock = clock
        self._fence = fence
        self._session: Session
        self._turn: TurnKey | None = None
        self._roots: list[str] = []
        self._active = 0
        """Commands that run and may write."""
        self._lock = asyncio.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._finished: UndoReport | None = None
        """What a killed process had begun and was finished when the session was opened."""
        self._is_diff_due = False
        """The turn's diff has changed since people were told it."""
        self._is_failed = False

    def open(self, session: Session) -> None:
        self._session = session
        if has_unfinished(self._home):
            # Seldom: a process was killed in the middle. Whoever asks for the same again gets this as the answer.
            try:
                self._finished = self._note_finished(self._undoer().finish_others())
            except (OSError, sqlite3.Error) as error:
                session.tell(Warning(message=f"an undo that was cut short cannot be finished: {error}"))

    def ops(self) -> Mapping[type[Any], Handler]:
        return {Undo: self._undo}

    async def aclose(self) -> None:
        async with self._lock:
            if self._recorder.is_open:
                await self._close_window()
            await self._work(self._tidy)
            await self._work(self._recorder.close)
            if self._session.thread.history.writer is None:
                self._recorder.forget()
            if self._thread is not None:
                self._thread.shutdown()
                self._thread = None

    # ---- commands ------------------------------------------------------------------------------

    async def around(self, start: Coroutine[Any, Any, Running]) -> Running:
        """Start a command that may write; what is there now is safe when it starts."""
        try:
            await self._begin()
        except BaseException:
            start.close()
            raise
        self._active += 1
        try:
            running = await start
        except BaseException:
            self._active -= 1
            raise
        running.finished.add_done_callback(self._ended)
        return running

    def _ended(self, _: object) -> None:
        self._active -= 1

    async def _begin(self) -> None:
        async with self._lock:
            if not self._recorder.is_open:
                turn, roots = self._now()
                if self._recorder.is_quiet(turn, roots):
                    self._recorder.reopen_window(turn, roots)
                else:
                    await self._work(self._recorder.open_window, turn, roots)
                self._tell_gaps()

    async def around_call(self, turn: RunningTurn, call: ToolCall, run: RunCall) -> ToolResult:
        try:
            return await run(call)
        finally:
            await self.close_if_idle()

    async def close_if_idle(self) -> None:
        """No command that may write runs any more: what has changed is known now."""
        if self._active or not self._recorder.is_open:
            return
        async with self._lock:
            if not self._active and self._recorder.is_open:
                await self._close_window()

    async def leave_turn(self, turn: RunningTurn) -> None:
        """What commands in the background change after this is no longer the turn's."""
        if self._recorder.is_open:
            async with self._lock:
                await self._close_window()
        await self._tell_diff(turn)
        if not self._lock.locked() and self._recorder.has_store and self._recorder.store.added > _TIDY_AFTER_BYTES:
            async with self._lock:
                await self._work(self._tidy)  # a session may be open for days

    async def _close_window(self) -> None:
        assert self._turn is not None
        if self._recorder.is_quiet(self._turn, self._roots):
            self._recorder.close_unchanged()
            return
        changes = await self._work(self._recorder.close_window, self._turn)
        self._tell_gaps()
        if shown := [change for change in changes or () if not change.is_about_folder]:
            await self._show(shown)

    def _now(self) -> tuple[TurnKey, list[str]]:
        """The turn that runs, or the last one, and the folders that are covered."""
        session = self._session
        running = session.turns.running
        settings = session.settings if running is None else running.settings
        turn = TurnKey(turn_count(session.thread.history), "" if running is None else running.turn_id)
        if running is None and self._turn is not None:
            turn = self._turn
        self._turn, self._roots = turn, self._covered(settings)
        return turn, self._roots

    def _covered(self, settings: ThreadSettings) -> list[str]:
        more = self._session.turns.approvals.widening()
        return covered_roots(
            settings.cwd, [*settings.sandbox.writable_roots, *(more.write if more is not None else ())]
        )

    async def _show(self, changes: Sequence[Change]) -> None:
        """The turn's diff has what commands changed, too."""
        running = self._session.turns.running
        if running is None:
            return
        await self._work(self._record, self._session.workbench.turn_diff(), changes)
        self._is_diff_due = True

    async def begin_turn(self, turn: RunningTurn) -> None:
        self._finished = None

    async def before_request(self, turn: RunningTurn) -> None:
        """By now people have seen that the commands are over."""
        await self._tell_diff(turn)

    async def _tell_diff(self, turn: RunningTurn) -> None:
        if self._is_diff_due:
            self._is_diff_due = False
            cwd = turn.settings.cwd
            root = find_repository(cwd) or os.path.realpath(cwd)
            diff = await self._beside(self._session.workbench.turn_diff().render, root)
            turn.emit(TurnDiff(unified_diff=diff))

    def _record(self, tracker: Any, changes: Sequence[Change]) -> None:
        room = _MOST_SHOWN_BYTES
        for number, change in enumerate(changes):
            room -= change.before.size + change.after.size
            if number >= _MOST_SHOWN or room < 0:
                change = msgspec.structs.replace(change, before=_unshown(change.before), after=_unshown(change.after))
            record_change(tracker, self._recorder.store, change)

    # ---- patches -------------------------------------------------------------------------------

    async def before(self, paths: Sequence[str]) -> None:
        async with self._lock:
            turn, _ = self._now()
            await self._work(self._recorder.before_files, turn, paths)

    async def after(self) -> None:
        async with self._lock:
            await self._work(self._recorder.after_files)

    # ---- undo ----------------------------------------------------------------------------------

    async def _undo(self, session: Session, submission: Submission) -> None:
        op = submission.op
        assert isinstance(op, Undo)
        _check(op)
        if session.is_running:
            raise SpindleError("a turn is running; interrupt it first, then undo")
        session.emit(submission.id, UndoStarted(message="redo" if op.redo else "undo"))
        async with self._lock:
            report, diff = await self._carry_out(op)
        success = report.status in ("undone", "redone", "dry_run")
        told = UndoCompleted(success=success, message=report.message, report=msgspec.to_builtins(report), diff=diff)
        session.emit(submission.id, told)

    async def _carry_out(self, op: Undo) -> tuple[UndoReport, str | None]:
        session = self._session
        thread = session.thread
        undoer = self._undoer()
        finished, self._finished = self._finished, None
        finished = self._note_finished(await self._beside(undoer.finish_others)) or finished
        if finished is not None:
            return finished, None
        turns = turns_of(thread.history)
        ancestors = await self._beside(ancestors_of, session.store, thread.history.meta)
        try:
            prepared: Prepared = await self._beside(undoer.prepare, op, turns, ancestors)
        except Nothing as nothing:
            return UndoReport(status="nothing", thread_id=thread.thread_id, message=str(nothing)), None
        except sqlite3.Error as error:
            raise SpindleError(f"the store of checkpoints cannot be used: {error}") from error
        if prepared.does_nothing:
            text = "there is nothing to put back: the files are as they were before"
            return UndoReport(status="nothing", thread_id=thread.thread_id, message=text), None
        is_done = not prepared.is_refused and not op.dry_run
        if is_done:
            await self._do(undoer, prepared)
        diff = None
        if op.dry_run:
            cwd = session.settings.cwd
            root = find_repository(cwd) or os.path.realpath(cwd)
            diff = await self._beside(undoer.diff, prepared.plan, root)
        report = undoer.report(prepared, is_done=is_done)
        said = sentence(report, op, keeps_files=self._recorder.options.enabled)
        return msgspec.structs.replace(report, message=said), diff

    async def _do(self, undoer: Undoer, prepared: Prepared) -> None:
        thread, undone = self._session.thread, prepared.undone
        if not prepared.is_redo:
            thread.history.append_undo_mark(undone.mark, "undo")
        try:
            restoration = await self._beside(undoer.restore, prepared)
        except sqlite3.Error as error:
            raise SpindleError(f"nothing was changed: the store of checkpoints cannot be used: {error}") from error
        self._change_talk(prepared)
        await self._beside(restoration.finish)

    def _change_talk(self, prepared: Prepared) -> None:
        """What the model is shown follows what was done to the files."""
        session, undone = self._session, prepared.undone
        if prepared.is_redo:
            if undone.mark and session.thread.history.has_bookmark(undone.mark):
                come_back(session.thread, session.briefing, undone.mark)
        elif prepared.chosen:
            go_back(session.thread, session.briefing, prepared.chosen[0])
        elif not prepared.op.conversation and prepared.plan.actions:
            session.thread.history.append_item(back_note(prepared.plan.restored, undone.told))

    def _note_finished(self, found: list[tuple[Intent, list[str] | None]]) -> UndoReport | None:
        """What killed processes had left is done now: say so; the last one counts as the answer to an undo."""
        report = None
        for intent, changed in found:
            what = "redo" if intent.line["t"] == "redo" else "undo"
            if changed is None:
                text = f"an {what} was cut short before it changed any file; nothing of it is left"
                self._session.tell(Warning(message=text.replace("an redo", "a redo")))
                continue
            report = self._bring_up_to_date(intent, changed)
            self._session.tell(Warning(message=report.message))
        return report

    def _bring_up_to_date(self, intent: Intent, changed: list[str]) -> UndoReport:
        """The conversation follows, too."""
        session, line = self._session, intent.line
        history, mark = session.thread.history, str(line.get("mark", ""))
        restored = [told for action in intent.actions if (told := action.told()) is not None]
        is_redo = line["t"] == "redo"
        if is_redo:
            if mark and history.has_bookmark(mark):
                come_back(session.thread, session.briefing, mark)
        elif not has_gone_back(history, mark):
            turn = next((one for one in turns_of(history) if one.number == line.get("back_to")), None)
            if turn is not None:
                go_back(session.thread, session.briefing, turn)
            elif line.get("tells"):
                history.append_item(back_note(restored, line["told"]))
        left = f"; left alone, because somebody changed them since: {', '.join(changed)}" if changed else ""
        return UndoReport(
            status="redone" if is_redo else "undone",
            thread_id=session.thread_id,
            turns=list(line.get("told", ())),
            restored=restored,
            message=f"{'a redo' if is_redo else 'an undo'} that was cut short has been finished{left}",
        )

    def _undoer(self) -> Undoer:
        settings = self._session.settings
        roots = {*self._covered(settings), os.path.realpath(settings.cwd)}
        protected = [path for root in sorted(roots) for path in protected_paths(root, self._fence)]
        return Undoer(self._recorder, self._clock.uuid7, [*protected, os.path.realpath(self._home)])

    # ---- beside the loop -----------------------------------------------------------------------

    async def _beside(self, run: Callable[..., Result], *args: Any) -> Result:
        """In the one thread that the checkpoints have; it ends with the session."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="spindle-checkpoints")
        return await asyncio.get_running_loop().run_in_executor(self._thread, run, *args)

    async def _work(self, run: Callable[..., Result], *args: Any) -> Result | None:
        """Run what takes time. What goes wrong with it must not stop a turn: it is said once."""
        working = asyncio.ensure_future(self._beside(run, *args))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            await asyncio.wait([working])  # nobody else may use the recorder before it is done
            raise
        except Exception as error:
            if not self._is_failed:
                self._is_failed = True
                reason = (error.strerror if isinstance(error, OSError) else None) or error or type(error).__name__
                self._session.tell(Warning(message=f"what turns change cannot be kept for undo: {reason}"))
            return None

    def _tell_gaps(self) -> None:
        gaps, self._recorder.gaps = self._recorder.gaps, []
        for why in gaps:
            self._session.tell(Warning(message=why))

    def _tidy(self) -> None:
        """Keep the store within its limits, where something was added to it."""
        if not self._recorder.has_store or not (store := self._recorder.store).added:
            return
        now = self._clock.now()
        if is_due(store, self._options, now):
            prune(store, self._home, self._options, now, in_use=self._roots)
        store.added = 0


def _check(op: Undo) -> None:
    if op.turns is not None and op.turns < 1:
        raise SpindleError("`turns` is a number of turns, 1 or more")
    if op.turns is not None and op.to is not None:
        raise SpindleError("`turns` and `to` cannot be given together")
    if not op.files and not op.conversation:
        raise SpindleError("with neither files nor conversation there is nothing to undo")
    if op.redo and (op.turns is not None or op.to is not None):
        raise SpindleError("`redo` puts back what the last undo took; it takes neither `turns` nor `to`")


def _unshown(image: Any) -> Any:
    return msgspec.structs.replace(image, digest="") if image.kind == "file" else image
