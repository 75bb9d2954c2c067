"""Keeps the store within its limits: first what nobody refers to goes, then what is too old, then the oldest turns."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable

import msgspec

from spindle.features.checkpoints.images import Change, Image
from spindle.features.checkpoints.journal import Step, forget, journal_path, journals, read_state
from spindle.features.checkpoints.listing import unpack, unpack_manifest
from spindle.features.checkpoints.recorder import Options
from spindle.features.checkpoints.store import Store, folder_of
from spindle.thread.private_files import unlink_if_possible

_DAY_S = 86_400.0
TOO_OLD = "it is older than spindle.checkpoints.max_age_days"
NO_ROOM = "it had to make room for newer ones (spindle.checkpoints.max_bytes)"


class _Turn(msgspec.Struct):
    """One turn of any thread, and what it refers to."""

    at: float
    number: int
    journal: str
    digests: set[str]


def prune(store: Store, home: str, options: Options, now: float, *, in_use: Iterable[str] = ()) -> None:
    """Remove what is too much. `in_use` are roots whose state a running session needs."""
    turns = sorted(_all_turns(store, home), key=lambda turn: turn.at)
    old = [turn for turn in turns if turn.at < now - options.max_age_days * _DAY_S]
    _forget(old, TOO_OLD)
    turns = turns[len(old) :]
    sizes = store.digests()
    baselines = {root: _state_digests(store, manifest) for root, manifest, _ in store.baselines()}
    _drop_old_journals(home, now - options.max_age_days * _DAY_S)

    def live() -> set[str]:
        found = [*(turn.digests for turn in turns), *baselines.values()]
        return set().union(*found) if found else set()

    def is_too_much() -> bool:
        return sum(sizes.get(digest, 0) for digest in live()) > options.max_bytes * 9 // 10

    for root, _, _ in store.baselines():
        if not is_too_much():
            break
        if root not in in_use:
            store.forget_baseline(root)
            del baselines[root]
    dropped: list[_Turn] = []
    while len(turns) > 1 and is_too_much():
        dropped.append(turns.pop(0))
    _forget(dropped, NO_ROOM)
    kept = live()
    store.remove([digest for digest in sizes if digest not in kept])
    store.shrink()


def forget_thread(home: str, thread_id: str) -> None:
    """A thread was deleted: its share of the store goes too."""
    path = journal_path(home, thread_id)
    if not os.path.exists(path):
        return
    try:
        of_thread = set().union(*(turn.digests for turn in _turns_of(None, path)), set())
        unlink_if_possible(path)
        store = Store(home)
    except (OSError, sqlite3.Error):
        return
    try:
        others = [turn.digests for turn in _all_turns(store, home)]
        others += [_state_digests(store, manifest) for _, manifest, _ in store.baselines()]
        store.remove(sorted(of_thread.difference(*others)))
        store.shrink()
    except sqlite3.Error:
        pass  # what is left is removed when the store is next tidied up
    finally:
        store.close()


def is_there(home: str) -> bool:
    return os.path.isdir(folder_of(home))


def _all_turns(store: Store, home: str) -> Iterable[_Turn]:
    for _, path in journals(home):
        yield from _turns_of(store, path)


def _turns_of(store: Store | None, path: str) -> list[_Turn]:
    """The turns of one journal that can still be undone."""
    state = read_state(path)
    found: dict[int, _Turn] = {}
    for step in state.steps:
        if step.turn.number not in state.forgotten:
            turn = found.setdefault(step.turn.number, _Turn(step.at, step.turn.number, path, set()))
            turn.digests |= _step_digests(store, step)
    for undo in state.undos:
        for number in undo.turns:
            if number in found:
                found[number].digests |= _digests(undo.changes)
    return list(found.values())


def _step_digests(store: Store | None, step: Step) -> set[str]:
    digests = _digests(step.changes) | {image.digest for _, image in step.before if image.digest}
    if step.is_open and store is not None:
        for _, manifest in step.roots:
            digests |= _state_digests(store, manifest)
    return digests


def _digests(changes: Iterable[Change]) -> set[str]:
    images: list[Image] = [image for change in changes for image in (change.before, change.after)]
    return {image.digest for image in images if image.digest}


def _state_digests(store: Store, manifest: str) -> set[str]:
    """All that belongs to a saved state of a folder."""
    digests = {manifest}
    data = store.get(manifest)
    for listing in unpack_manifest(data).values() if data is not None else ():
        digests.add(listing)
        packed = store.get(listing)
        if packed is not None:
            digests |= {entry.content for entry in unpack(packed).values() if entry.kind == "f"}
    return digests


def _forget(turns: Iterable[_Turn], why: str) -> None:
    by_journal: dict[str, list[int]] = {}
    for turn in turns:
        by_journal.setdefault(turn.journal, []).append(turn.number)
    for path, numbers in by_journal.items():
        try:
            forget(path, numbers, why)
        except OSError:
            continue


def _drop_old_journals(home: str, before: float) -> None:
    for _, path in journals(home):
        try:
            if os.stat(path).st_mtime < before:
                os.unlink(path)
        except OSError:
            continue
