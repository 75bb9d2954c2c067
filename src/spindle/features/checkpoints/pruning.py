"""Keeps the store within its limits: first what nobody refers to goes, then what is too old, then the oldest turns."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter, deque
from collections.abc import Iterable

import msgspec

from spindle.features.checkpoints.images import Change, Image
from spindle.features.checkpoints.journal import Step, forget, journal_path, journals, read_state
from spindle.features.checkpoints.listing import unpack, unpack_manifest
from spindle.features.checkpoints.recorder import Options
from spindle.features.checkpoints.store import Store
from spindle.thread.private_files import open_private, unlink_if_possible

_DAY_S, _ROW_BYTES = 86_400.0, 200
_STAMP = "tidied"
TOO_OLD = "it is older than spindle.checkpoints.max_age_days"
NO_ROOM = "it had to make room for newer ones (spindle.checkpoints.max_bytes)"


class _Turn(msgspec.Struct):
    """One turn of any thread, and what it refers to."""

    at: float
    number: int
    journal: str
    digests: set[str]


class _Held:
    """Which contents are held, by how many, and how much room they take together."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self._sizes = sizes
        self.holders: Counter[str] = Counter()
        self.total = 0

    def add(self, digests: Iterable[str]) -> None:
        for digest in digests:
            self.holders[digest] += 1
            if self.holders[digest] == 1:
                self.total += self._sizes.get(digest, 0) + _ROW_BYTES

    def drop(self, digests: Iterable[str]) -> None:
        for digest in digests:
            self.holders[digest] -= 1
            if not self.holders[digest]:
                del self.holders[digest]
                self.total -= self._sizes.get(digest, 0) + _ROW_BYTES


def is_due(store: Store, options: Options, now: float) -> bool:
    """Is there too much, or was it not looked after for a day?"""
    if store.size > options.max_bytes * 9 // 10:
        return True
    try:
        return os.stat(f"{store.folder}/{_STAMP}").st_mtime < now - _DAY_S
    except OSError:
        os.close(open_private(f"{store.folder}/{_STAMP}", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW))
        return False


def prune(store: Store, home: str, options: Options, now: float, *, in_use: Iterable[str] = ()) -> None:
    """Remove what is too much. `in_use` are roots whose state a running session needs."""
    turns = deque(sorted(_all_turns(store, home), key=lambda turn: turn.at))
    oldest = now - options.max_age_days * _DAY_S
    dropped: list[_Turn] = []
    while turns and turns[0].at < oldest:
        dropped.append(turns.popleft())
    _forget(dropped, TOO_OLD)
    sizes = store.digests()
    held = _Held(sizes)
    baselines = {root: _state_digests(store, manifest) for root, manifest, _ in store.baselines()}
    for digests in (*baselines.values(), *(turn.digests for turn in turns)):
        held.add(digests)
    # A database takes a little more than what is in it.
    most = options.max_bytes * 3 // 4
    for root, digests in baselines.items():
        if held.total > most and root not in in_use:
            store.forget_baseline(root)
            held.drop(digests)
    dropped = []
    while len(turns) > 1 and held.total > most:
        dropped.append(turns.popleft())
        held.drop(dropped[-1].digests)
    _forget(dropped, NO_ROOM)
    store.remove([digest for digest in sizes if digest not in held.holders])
    store.shrink()
    os.close(open_private(f"{store.folder}/{_STAMP}", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW))
    os.utime(f"{store.folder}/{_STAMP}")


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
            continue  # it is gone, with its thread
