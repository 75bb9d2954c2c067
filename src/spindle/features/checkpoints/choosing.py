"""Which turns an undo is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from spindle.errors import SpindleError, ThreadError
from spindle.features.checkpoints.images import Change, net_of
from spindle.features.checkpoints.journal import State, journal_path, read_state
from spindle.features.checkpoints.talk import TalkTurn
from spindle.protocol.ops import Undo
from spindle.thread.store import ThreadStore

_DEEPEST_FORK = 64


class Nothing(SpindleError):
    """There is nothing to undo; the message says why."""


def choose(turns: list[TalkTurn], state: State, op: Undo) -> list[TalkTurn]:
    """The turns that are to be undone, oldest first. Raises Nothing."""
    changed = {step.turn.number for step in state.in_effect(0) if step.changes or step.is_open}
    candidates = [turn for turn in turns if _counts(turn, changed, op)]
    if op.to is not None:
        found = [at for at, turn in enumerate(candidates) if turn.id == op.to]
        if not found:
            raise Nothing(f"there is no turn {op.to!r} to undo in this thread; `spindle undo --list` names them")
        chosen = candidates[found[-1] :]
    else:
        count = 1 if op.turns is None else op.turns
        if not candidates:
            raise Nothing(_why_nothing(op))
        if count > len(candidates):
            there_are = f"are only {len(candidates)} turns" if len(candidates) > 1 else "is only one turn"
            raise Nothing(f"there {there_are} to undo, not {count}")
        chosen = candidates[-count:]
    if op.files:
        _check_age(chosen, state)
    return chosen


def _counts(turn: TalkTurn, changed: set[int], op: Undo) -> bool:
    is_said = not turn.is_dropped and bool(turn.prompt or turn.has_input)
    if not op.conversation:
        return turn.number in changed
    return is_said if not op.files else is_said or turn.number in changed


def _why_nothing(op: Undo) -> str:
    if not op.conversation:
        return "there is nothing to undo: no turn of this thread has changed files that are not undone already"
    return "there is nothing to undo: the thread has no turn"


def _check_age(chosen: list[TalkTurn], state: State) -> None:
    undone = state.undone
    for turn in chosen:
        if turn.number in state.forgotten and turn.number not in undone:
            raise Nothing(
                f"the files of turn {turn.id} can no longer be put back: {state.forgotten[turn.number]}; "
                "the conversation alone can be undone (--conversation)"
            )


class Ancestor(msgspec.Struct, frozen=True):
    """A thread that another one was forked from, and when."""

    thread_id: str
    forked_at: float


def with_ancestors(home: str, state: State, ancestors: Sequence[Ancestor]) -> State:
    """A fork begins with turns of other threads: what they did to files is in the journals of those."""
    for ancestor in ancestors:
        above = read_state(journal_path(home, ancestor.thread_id))
        known, gone = {step.turn.number for step in state.steps}, above.undone
        inherited = [
            step
            for step in above.steps
            if step.at <= ancestor.forked_at
            and not step.is_open
            and step.turn.number not in gone
            and step.turn.number not in known
        ]
        state.steps = inherited + state.steps
        state.forgotten = above.forgotten | state.forgotten
    return state


def ancestors_of(store: ThreadStore, meta: Mapping[str, Any]) -> list[Ancestor]:
    """Nearest first, as far as their records are there."""
    found: list[Ancestor] = []
    while isinstance(parent := meta.get("forked_from_id"), str) and len(found) < _DEEPEST_FORK:
        ref = store.find(parent)
        if ref is None:
            break
        found.append(Ancestor(ref.id, _unix_time(meta.get("timestamp"))))
        try:
            meta = store.read(ref).meta
        except ThreadError:
            break
    return found


def _unix_time(text: Any) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0


def changes_of(state: State, number: int) -> list[Change]:
    """What a turn did to files, net; folders that came or went are not told."""
    changes = net_of(change for step in state.steps if step.turn.number == number for change in step.changes)
    return sorted((change for change in changes if not change.is_about_folder), key=lambda change: change.path)
