"""Takes back what turns did to files, and puts it there again. Runs beside the event loop; the thread itself is not
touched here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import msgspec

from spindle.features.checkpoints.choosing import Ancestor, Nothing, choose, with_ancestors
from spindle.features.checkpoints.exchange import OneStep
from spindle.features.checkpoints.images import Change, Image
from spindle.features.checkpoints.journal import State, Step, TurnKey, undo_line
from spindle.features.checkpoints.journal import Undo as Undone
from spindle.features.checkpoints.plan import IN_THE_WAY, NOT_EMPTY, Plan, add_conflict, make_plan
from spindle.features.checkpoints.present import image_at, image_like
from spindle.features.checkpoints.recorder import Recorder
from spindle.features.checkpoints.restore import EXCHANGED, STAGING, Intent, Restoration, unfinished
from spindle.features.checkpoints.shown import record_change
from spindle.features.checkpoints.store import Store, save_beside
from spindle.features.checkpoints.talk import TalkTurn, mark_of
from spindle.patch.diff import TurnDiffTracker
from spindle.policy.sandbox import is_inside
from spindle.protocol.ops import Undo
from spindle.protocol.undo import Conflict, Skipped, UndoReport


class Prepared(msgspec.Struct, kw_only=True):
    """An undo that is ready to be done."""

    op: Undo
    undone: Undone
    plan: Plan
    chosen: list[TalkTurn]
    """What the conversation goes back over; empty for a redo."""
    is_redo: bool = False

    @property
    def is_refused(self) -> bool:
        return bool(self.plan.conflicts) and not self.op.keep_mine

    @property
    def does_nothing(self) -> bool:
        """It is about files alone, and there are none to put back."""
        plan = self.plan
        is_empty = not plan.actions and not plan.conflicts and not plan.skipped
        return is_empty and not (self.undone.mark if self.is_redo else self.op.conversation)


class Undoer:
    """For one thread, whose journal the recorder writes."""

    def __init__(
        self,
        recorder: Recorder,
        new_id: Callable[[], str],
        protected: Sequence[str],
        on_step: Callable[[str], None] = lambda step: None,
        names: OneStep | None = None,
    ) -> None:
        self._recorder = recorder
        self._new_id = new_id
        self._protected = protected
        self._on_step = on_step
        """Called before each change of the disk."""
        self._names = names

    @property
    def _store(self) -> Store:
        return self._recorder.store

    # ---- finding out ---------------------------------------------------------------------------

    def prepare(self, op: Undo, turns: list[TalkTurn], ancestors: Sequence[Ancestor]) -> Prepared:
        """What has to be done. Raises Nothing."""
        state = with_ancestors(self._recorder.home, self._recorder.settle(), ancestors)
        return self._redo(op, state, len(turns)) if op.redo else self._undo(op, state, turns)

    def _undo(self, op: Undo, state: State, turns: list[TalkTurn]) -> Prepared:
        chosen = choose(turns, state, op)
        steps = state.in_effect(chosen[0].number) if op.files else []
        plan = self._plan(steps)
        undo_id = self._new_id()
        undone = Undone(
            id=undo_id,
            turns=sorted({step.turn.number for step in steps}),
            told=[turn.id for turn in chosen],
            changes=[],
            mark=mark_of(undo_id),
            after=len(turns),
            is_incomplete=any(step.is_incomplete for step in steps),
        )
        for turn in chosen if op.files else ():
            plan.skipped += [Skipped(path=root, reason=why) for root, why in state.gaps.get(turn.number, ())]
        talk = [turn for turn in chosen if not turn.is_dropped] if op.conversation else []
        return Prepared(op=op, undone=undone, plan=plan, chosen=talk)

    def _redo(self, op: Undo, state: State, turn_count: int) -> Prepared:
        if not state.undos:
            raise Nothing("there is nothing to redo: nothing was undone")
        undone = state.undos[-1]
        if undone.after != turn_count:
            raise Nothing("there is nothing to redo: another turn has been started since the undo")
        step = Step(turn=TurnKey(0, ""), at=0.0, changes=undone.changes)
        return Prepared(op=op, undone=undone, plan=self._plan([step]), chosen=[], is_redo=True)

    def _plan(self, steps: Sequence[Step]) -> Plan:
        plan = make_plan(steps, image_like, self._is_protected)
        leaving = {action.path for action in plan.actions if action.target.kind in ("absent", "folder")}
        leaving |= {action.path for action in plan.actions if action.expected.kind == "folder"}
        for action in [one for one in plan.actions if one.expected.kind == "folder" and one.target.kind != "absent"]:
            if any(path not in leaving for path in _below(action.path)):
                add_conflict(plan, action, NOT_EMPTY)
        for action in [one for one in plan.actions if one.target.kind != "absent"]:
            if _is_blocked(action.path, {one.path for one in plan.actions if one.target.kind in ("absent", "folder")}):
                add_conflict(plan, action, IN_THE_WAY)
        return plan

    def _is_protected(self, path: str) -> bool:
        return is_inside(path, self._protected)

    # ---- doing it ------------------------------------------------------------------------------

    def restore(self, prepared: Prepared) -> Restoration:
        """Put the files back; the restoration is to be finished when the conversation has gone back too.

        Raises NotRestored, and then nothing was changed.
        """
        plan, undone = prepared.plan, prepared.undone
        if prepared.op.keep_mine:
            plan.conflicts = [self._save_older(conflict, plan.older[conflict.path]) for conflict in plan.conflicts]
        if prepared.is_redo:
            line = {"t": "redo", "id": undone.id, "mark": undone.mark}
        else:
            changes = [Change(action.path, action.expected, action.target) for action in plan.actions]
            line = undo_line(msgspec.structs.replace(undone, changes=changes))
            # The first turn that the conversation goes back over, for whoever finishes this if we cannot.
            line["back_to"] = prepared.chosen[0].number if prepared.chosen else 0
            line["tells"] = prepared.op.files and not prepared.op.conversation
        for action in plan.actions:
            if action.expected.kind == "file":
                image_like(action.path, action.expected, keep_in=self._store)  # what is there now can be put back again
        self._store.commit(durable=True)
        intent = Intent(self._new_id(), self._recorder.thread_id, plan.actions, line)
        restoration = Restoration(self._recorder.home, self._store, intent, self._on_step, self._names)
        restoration.run(lambda: self._recorder.journal.append(line, durable=True))
        return restoration

    def _save_older(self, conflict: Conflict, image: Image) -> Conflict:
        data = self._store.get(image.digest) if image.kind == "file" else None
        if data is None:
            return conflict
        path = save_beside(self._store.folder, os.path.basename(conflict.path), data)
        return msgspec.structs.replace(conflict, saved_as=path)

    def finish_others(self) -> list[tuple[Intent, list[str] | None]]:
        """Finish or take back what killed processes have left; each with the paths that others changed meanwhile,
        None for one that had not begun to exchange files."""
        found: list[tuple[Intent, list[str] | None]] = []
        for intent, path in unfinished(self._recorder.home):
            restoration = Restoration(self._recorder.home, self._store, intent, self._on_step, self._names)
            if intent.phase == STAGING:
                restoration.abandon()
                found.append((intent, None))
                continue
            # Done once: what stands at a path after that is nobody's business but the person's.
            changed = intent.left if intent.phase == EXCHANGED else restoration.resume()
            changed = [*changed, *(f"{kept} (saved before the undo)" for kept in restoration.kept)]
            if intent.thread_id != self._recorder.thread_id:
                if intent.phase != EXCHANGED:
                    restoration.leave_to_thread(changed)
                continue
            if not self._is_in_journal(intent):
                self._recorder.journal.append(intent.line, durable=True)
            os.unlink(path)
            found.append((intent, changed))
        return found

    def _is_in_journal(self, intent: Intent) -> bool:
        undos = {undo.id for undo in self._recorder.journal.read().undos}
        return (intent.line["id"] in undos) == (intent.line["t"] == "undo")

    # ---- telling -------------------------------------------------------------------------------

    def report(self, prepared: Prepared, *, is_done: bool) -> UndoReport:
        plan, undone = prepared.plan, prepared.undone
        if prepared.is_refused:
            status = "conflict"
        elif not is_done:
            status = "dry_run"
        else:
            status = "redone" if prepared.is_redo else "undone"
        return UndoReport(
            status=status,
            thread_id=self._recorder.thread_id,
            turns=undone.told,
            restored=[msgspec.structs.replace(one, path=shown(one.path)) for one in plan.restored],
            conflicts=[msgspec.structs.replace(one, path=shown(one.path)) for one in plan.conflicts],
            skipped=[msgspec.structs.replace(one, path=shown(one.path)) for one in plan.skipped],
            incomplete=undone.is_incomplete,
        )

    def diff(self, plan: Plan, root: str) -> str:
        """What would change, as a git-style diff."""
        tracker = TurnDiffTracker()
        for action in plan.actions:
            record_change(tracker, self._store, Change(action.path, action.expected, action.target))
        return tracker.render(root)


def shown(path: str) -> str:
    """A path as people and JSON can read it."""
    return os.fsencode(path).decode("utf-8", "replace")


def _is_blocked(path: str, clearing: set[str]) -> bool:
    """Is a file or a link on the way to a path, and stays there?"""
    folder = os.path.dirname(path)
    while folder != "/":
        kind = image_at(folder, 0).kind
        if kind not in ("folder", "absent") and folder not in clearing:
            return True
        if kind == "folder":
            return False
        folder = os.path.dirname(folder)
    return False


def _below(folder: str) -> Iterator[str]:
    for base, folders, files in os.walk(folder):
        yield from (f"{base}/{name}" for name in (*folders, *files))
