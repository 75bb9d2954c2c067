"""Checkpoints of a session: keeps what files were before its turns change them, and takes turns back.

Loaded with the first command that may write, the first patch, or the first `undo`. All that takes time runs beside the
event loop, one thing at a time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from spindle.core.feature import Feature, Handler, RunCall
from spindle.errors import SpindleError
from spindle.features.checkpoints.images import Change
from spindle.features.checkpoints.journal import TurnKey
from spindle.features.checkpoints.reach import roots_of
from spindle.features.checkpoints.recorder import Options, Recorder
from spindle.features.checkpoints.store import has_unfinished
from spindle.features.checkpoints.talk import TurnCount
from spindle.protocol.clock import Clock
from spindle.protocol.events import TurnDiff, Warning
from spindle.protocol.ops import Submission, Undo
from spindle.workspace.git import find_repository

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn
    from spindle.core.session import Session
    from spindle.features.checkpoints.undo_desk import UndoDesk
    from spindle.process.running import Running
    from spindle.protocol.undo import UndoReport
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
        self._turn_count = TurnCount()
        self._roots: list[str] = []
        self._active = 0
        """Commands that run and may write."""
        self._lock = asyncio.Lock()
        self._patching = asyncio.Lock()
        """Held while a patch is written: patches of parallel calls, or of several agents, come one after the other."""
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
            self._finished = self._desk().finish_others()

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
        turn = TurnKey(self._turn_count.of(session.thread.history), "" if running is None else running.turn_id)
        if running is None and self._turn is not None:
            turn = self._turn
        self._turn, self._roots = turn, roots_of(session, settings)
        return turn, self._roots

    async def _show(self, changes: Sequence[Change]) -> None:
        """The turn's diff has what commands changed, too."""
        running = self._session.turns.running
        if running is None:
            return
        await self._work(self._record, self._session.workbench.turn_diff(), changes)
        self._is_diff_due = True

    async def begin_turn(self, turn: RunningTurn) -> None:
        self._finished = None
        if self._active:
            # Of an earlier turn, such as a shell that the model types into: what it changes from now on is this turn's.
            await self._begin()

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
        from spindle.features.checkpoints.shown import record_change  # only where a command has changed something

        room = _MOST_SHOWN_BYTES
        for number, change in enumerate(changes):
            room -= change.before.size + change.after.size
            if number >= _MOST_SHOWN or room < 0:
                change = msgspec.structs.replace(change, before=_unshown(change.before), after=_unshown(change.after))
            record_change(tracker, self._recorder.store, change)

    # ---- patches -------------------------------------------------------------------------------

    async def before(self, paths: Sequence[str]) -> None:
        await self._patching.acquire()
        try:
            async with self._lock:
                turn, _ = self._now()
                changes = await self._work(self._recorder.before_files, turn, paths)
                if changes:
                    await self._show(changes)  # the diff of the turn begins with what was there before the commands
        except BaseException:
            self._patching.release()
            raise

    async def after(self) -> None:
        try:
            async with self._lock:
                await self._work(self._recorder.after_files)
        finally:
            self._patching.release()

    # ---- undo ----------------------------------------------------------------------------------

    async def _undo(self, session: Session, submission: Submission) -> None:
        op, desk = submission.op, self._desk()
        assert isinstance(op, Undo)
        desk.check(op)
        if session.is_running:
            raise SpindleError("a turn is running; interrupt it first, then undo")
        session.emit(submission.id, desk.begun(op))
        async with self._lock:
            finished, self._finished = self._finished, None
            told = await desk.carry_out(op, finished)
        session.emit(submission.id, told)

    def _desk(self) -> UndoDesk:
        from spindle.features.checkpoints.undo_desk import UndoDesk  # few ever undo anything

        return UndoDesk(self._session, self._recorder, self._clock, self._fence, self._beside)

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
        from spindle.features.checkpoints.pruning import is_due, prune  # only where something was added

        now = self._clock.now()
        if is_due(store, self._options, now):
            prune(store, self._home, self._options, now, in_use=self._roots)
        store.added = 0


def _unshown(image: Any) -> Any:
    return msgspec.structs.replace(image, digest="") if image.kind == "file" else image
