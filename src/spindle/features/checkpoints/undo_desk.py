"""Takes turns back, or puts them back, when a person asks: files and conversation. Loaded with the first `undo`."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from spindle.core.session import Session
from spindle.errors import SpindleError
from spindle.features.checkpoints.answer import back_note, sentence
from spindle.features.checkpoints.choosing import Nothing, ancestors_of
from spindle.features.checkpoints.reach import roots_of
from spindle.features.checkpoints.recorder import Recorder
from spindle.features.checkpoints.restore import ChangedMeanwhile, Intent
from spindle.features.checkpoints.store import folder_of
from spindle.features.checkpoints.talk import come_back, go_back, has_gone_back, turns_of
from spindle.features.checkpoints.undoing import Prepared, Undoer
from spindle.policy.sandbox import protected_paths
from spindle.protocol.clock import Clock
from spindle.protocol.events import Warning
from spindle.protocol.ops import Undo
from spindle.protocol.undo import UndoCompleted, UndoReport, UndoStarted
from spindle.workspace.git import find_repository

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
Beside = Callable[..., Coroutine[Any, Any, Any]]
"""Runs a function beside the event loop."""


class UndoDesk:
    """Of one session; whoever asks it sees to it that nothing else happens meanwhile."""

    def __init__(
        self, session: Session, recorder: Recorder, clock: Clock, fence: tuple[str, ...], beside: Beside
    ) -> None:
        self._session = session
        self._recorder = recorder
        self._clock = clock
        self._fence = fence
        self._beside = beside

    def check(self, op: Undo) -> None:
        """Raises SpindleError for what cannot be meant."""
        if op.turns is not None and op.turns < 1:
            raise SpindleError("`turns` is a number of turns, 1 or more")
        if op.turns is not None and op.to is not None:
            raise SpindleError("`turns` and `to` cannot be given together")
        if not op.files and not op.conversation:
            raise SpindleError("with neither files nor conversation there is nothing to undo")
        if op.redo and (op.turns is not None or op.to is not None):
            raise SpindleError("`redo` puts back what the last undo took; it takes neither `turns` nor `to`")

    def begun(self, op: Undo) -> UndoStarted:
        return UndoStarted(message="redo" if op.redo else "undo")

    def finish_others(self) -> UndoReport | None:
        """Finish what killed processes had begun. What goes wrong with it is said, and stops nobody."""
        try:
            return self._note_finished(self._undoer().finish_others())
        except (SpindleError, OSError, sqlite3.Error) as error:
            self._session.tell(Warning(message=f"an undo that was cut short cannot be finished: {error}"))
            return None

    async def carry_out(self, op: Undo, finished: UndoReport | None) -> UndoCompleted:
        """Do it; `finished` is what the last session had begun, and was finished with the opening of this one."""
        try:
            report, diff = await self._carry_out(op, finished)
        except sqlite3.Error as error:
            folder = folder_of(self._recorder.home)
            advice = f"move {folder} away, and a new one is made"
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                advice = f"see that {folder} can be written and its disk has room, then undo again"
            raise SpindleError(f"the store of checkpoints cannot be used: {error}; {advice}") from error
        success = report.status in ("undone", "redone", "dry_run")
        return UndoCompleted(success=success, message=report.message, report=msgspec.to_builtins(report), diff=diff)

    async def _carry_out(self, op: Undo, finished: UndoReport | None) -> tuple[UndoReport, str | None]:
        session = self._session
        thread = session.thread
        undoer = self._undoer()
        finished = self._note_finished(await self._beside(undoer.finish_others)) or finished
        if finished is not None:
            return finished, None
        turns = turns_of(thread.history)
        ancestors = await self._beside(ancestors_of, session.store, thread.history.meta)
        for is_last in (False, True):
            try:
                prepared: Prepared = await self._beside(undoer.prepare, op, turns, ancestors)
            except Nothing as nothing:
                return UndoReport(status="nothing", thread_id=thread.thread_id, message=str(nothing)), None
            if prepared.does_nothing:
                text = "there is nothing to put back: the files are as they were before"
                return UndoReport(status="nothing", thread_id=thread.thread_id, message=text), None
            is_done = not prepared.is_refused and not op.dry_run
            try:
                if is_done:
                    await self._do(undoer, prepared)
                break
            except ChangedMeanwhile:
                if is_last:
                    raise  # somebody writes the file all the time
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
        restoration = await self._beside(undoer.restore, prepared)
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
        roots = {*roots_of(self._session, settings), os.path.realpath(settings.cwd)}
        protected = [path for root in sorted(roots) for path in protected_paths(root, self._fence)]
        return Undoer(self._recorder, self._clock.uuid7, [*protected, os.path.realpath(self._recorder.home)])
