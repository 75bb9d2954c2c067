"""Records what the turns of one thread do to files. Everything here may take a while: it runs beside the event loop.

A window is open while commands run that may write. When it opens, the state of the covered folders is safe in the
store; when it closes, what has changed since is written down as the turn's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from spindle.features.checkpoints.images import ABSENT, Change, Image, net_of
from spindle.features.checkpoints.journal import Journal, State, Step, TurnKey
from spindle.features.checkpoints.present import image_at, missing_folders
from spindle.features.checkpoints.store import Store
from spindle.features.checkpoints.tree import MOST_FILES, Limits, TooLarge, Tree
from spindle.policy.sandbox import is_below
from spindle.protocol.clock import Clock
from spindle.thread.private_files import unlink_if_possible


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`[spindle.checkpoints]`."""

    enabled: bool = True
    max_bytes: int = 1 << 30
    max_age_days: float = 30
    max_file_bytes: int = 16 << 20


class Recorder:
    """Owned by one session; at most one of its methods runs at a time."""

    def __init__(self, home: str, thread_id: str, options: Options, clock: Clock) -> None:
        self.home = home
        self.thread_id = thread_id
        self.options = options
        self._clock = clock
        self.journal = Journal(home, thread_id)
        self._store: Store | None = None
        self._trees: dict[str, Tree | None] = {}
        """By root; None for one that cannot be covered."""
        self._saved: dict[str, str] = {}
        """By root, the manifest that was saved last."""
        self._window: str | None = None
        self._window_roots: list[str] = []
        self._patch: tuple[str, list[tuple[str, Image]], Sequence[str]] | None = None
        """The patch that is being written: its name in the journal, what was there before, and all that it changes."""
        self._safe_turn = -1
        """The turn whose first lines are known to be on the disk."""
        self._is_settled = False
        self._told: set[str] = set()
        self.gaps: list[str] = []
        """What could not be kept since somebody last asked, as sentences."""

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = Store(self.home)
        return self._store

    @property
    def has_store(self) -> bool:
        """Something was looked up or kept."""
        return self._store is not None

    @property
    def is_open(self) -> bool:
        return self._window is not None

    def close(self) -> None:
        for tree in self._trees.values():
            if tree is not None:
                tree.close()
        self._trees.clear()
        self.journal.close()
        if self._store is not None:
            self._store.close()
            self._store = None

    def forget(self) -> None:
        """The thread leaves no record: what was kept for it goes, when the store is next tidied up."""
        unlink_if_possible(self.journal.path)

    # ---- windows -------------------------------------------------------------------------------

    def is_quiet(self, turn: TurnKey, roots: Sequence[str]) -> bool:
        """A window can be opened or closed at once: nothing has changed, and the turn's beginning is safe."""
        if turn.number != self._safe_turn or self._patch is not None:
            return False
        trees = [self._trees.get(root) for root in roots]
        return all(tree is not None and tree.is_quiet() for tree in trees)

    def open_window(self, turn: TurnKey, roots: Sequence[str]) -> None:
        """From now on, what changes is the turn's."""
        self._settle_killed()
        covered = [root for root in roots if self._refresh(root, turn)]
        is_first = turn.number != self._safe_turn
        self.store.commit(durable=is_first)
        self._window, self._window_roots = self._clock.uuid7(), covered
        self._write_open(turn, is_first=is_first)

    def reopen_window(self, turn: TurnKey, roots: Sequence[str]) -> None:
        """The same where `is_quiet` has just said that nothing has changed. Takes no time."""
        self._window, self._window_roots = self._clock.uuid7(), [root for root in roots if root in self._saved]
        self._write_open(turn, is_first=False)

    def _write_open(self, turn: TurnKey, *, is_first: bool) -> None:
        line = {
            "t": "open",
            "w": self._window,
            "turn": turn.id,
            "n": turn.number,
            "at": self._clock.now(),
            "roots": [[root, self._saved[root]] for root in self._window_roots],
        }
        self.journal.append(line, durable=is_first)
        self._safe_turn = turn.number

    def close_window(self, turn: TurnKey) -> list[Change]:
        """What has changed since the window was opened, net."""
        patch = self._patch
        # A patch that is being written leaves some of its files to the window: it ends here, and begins anew behind it.
        self.after_files()
        changes: list[Change] = []
        for root in self._window_roots:
            tree = self._trees.get(root)
            if tree is None:
                continue
            try:
                changes += tree.refresh()
            except TooLarge:
                self._give_up(root, turn)
        found = net_of(changes)
        self.store.commit()
        self._write_close(self._window, found)
        self._window, self._window_roots = None, []
        if patch is not None:
            self.before_files(turn, patch[2])
        return found

    def close_unchanged(self) -> None:
        """The same where `is_quiet` has just said that nothing has changed. Takes no time."""
        self._write_close(self._window, [])
        self._window, self._window_roots = None, []

    def _write_close(self, window: str | None, changes: list[Change], *, is_incomplete: bool = False) -> None:
        line = {"t": "close", "w": window, "changes": [change.to_json() for change in changes]}
        self.journal.append(line | ({"incomplete": True} if is_incomplete else {}))

    def _refresh(self, root: str, turn: TurnKey) -> bool:
        """Bring what is known of a root up to date and save it; false when it cannot be covered."""
        if root not in self._trees:
            self._trees[root] = self._new_tree(root)
        tree = self._trees[root]
        if tree is None:
            self._note_gap(turn, root, _too_large(root))
            return False
        try:
            if root in self._saved and self.store.baseline(root) != self._saved[root]:
                tree.reread_lost()  # another process works here too, and may have tidied up
            tree.refresh(is_beginning=True)
        except TooLarge:
            self._give_up(root, turn)
            return False
        self._saved[root] = tree.save(self._clock.now())
        return True

    def _new_tree(self, root: str) -> Tree | None:
        if root in ("/", os.path.realpath(os.path.expanduser("~"))):
            return None
        tree = Tree(root, self.store, self._limits, now=self._clock.now, left_out=(os.path.realpath(self.home),))
        known = self.store.baseline(root)
        if known is not None and tree.load(known):
            tree.reread_lost()
        return tree

    @property
    def _limits(self) -> Limits:
        options = self.options
        return Limits(max_file_bytes=options.max_file_bytes, max_new_bytes=options.max_bytes // 2)

    def _give_up(self, root: str, turn: TurnKey) -> None:
        tree = self._trees[root]
        if tree is not None:
            tree.close()
        self._trees[root] = None
        self._note_gap(turn, root, _too_large(root))

    def _note_gap(self, turn: TurnKey, root: str, why: str) -> None:
        """What commands change there cannot be undone; a person hears of it once."""
        self.journal.append({"t": "gap", "turn": turn.id, "n": turn.number, "root": root, "why": why})
        if root not in self._told:
            self._told.add(root)
            self.gaps.append(f"what commands change in {root} cannot be undone: {why}")

    # ---- patches -------------------------------------------------------------------------------

    def before_files(self, turn: TurnKey, paths: Sequence[str]) -> list[Change]:
        """A file tool is about to change these paths; gives what commands that still run have done to them."""
        self._settle_killed()
        # Commands of an open window may change the same files before and after the tool: of those, the window tells.
        own = [path for path in dict.fromkeys(paths) if not self._is_of_window(path)]
        folders = dict.fromkeys(folder for path in own for folder in missing_folders(path))
        before = [(folder, ABSENT) for folder in folders]
        before += [(path, image_at(path, self.options.max_file_bytes, self.store)) for path in own]
        is_first = turn.number != self._safe_turn
        self.store.commit(durable=is_first)
        name = self._clock.uuid7()
        line = {
            "t": "files",
            "w": name,
            "turn": turn.id,
            "n": turn.number,
            "at": self._clock.now(),
            "before": [[path, image.to_json()] for path, image in before],
        }
        self.journal.append(line, durable=is_first)
        self._safe_turn = turn.number
        self._patch = (name, before, paths)
        trees = [self._trees.get(root) for root in self._window_roots]
        seen = net_of(change for tree in trees if tree is not None for change in tree.held)
        return [change for change in seen if change.path in paths]

    def after_files(self) -> list[Change]:
        """It has changed them, or failed to."""
        if self._patch is None:
            return []
        (name, before, paths), self._patch = self._patch, None
        most = self.options.max_file_bytes
        changes = net_of(Change(path, image, image_at(path, most, self.store)) for path, image in before)
        told = {path for path in {*paths, *(path for path, _ in before)} if self._is_of_window(path)}
        changes = [change for change in changes if change.path not in told]
        self.store.commit()
        self._write_close(name, changes)
        return changes

    def _is_of_window(self, path: str) -> bool:
        """Look at a path now. Will the end of the window that is open tell of it?"""
        for root in self._window_roots:
            tree = self._trees.get(root)
            if tree is not None and is_below(path, root):
                return tree.notice(path)
        return False

    # ---- killed turns --------------------------------------------------------------------------

    def settle(self) -> State:
        """What the journal says, with an end for every turn that was killed."""
        self._settle_killed()
        return self.journal.read()

    def _settle_killed(self) -> None:
        """Give the parts of turns that were killed an end: what is there now counts as what they left."""
        if self._is_settled:
            return
        self._is_settled = True
        state = self.journal.read()
        killed = [(name, step) for name, step in state.windows.items() if step.is_open]
        told = set[str]()
        for name, step in sorted(killed, key=lambda one: not one[1].roots):
            # A patch that was cut short while a window was open: what the window tells is not told twice.
            changes = [change for change in self._found_after(step) if change.path not in told]
            told.update(change.path for change in changes)
            self._write_close(name, changes, is_incomplete=True)
        if killed:
            self.store.commit()

    def _found_after(self, step: Step) -> list[Change]:
        changes = [
            Change(path, image, image_at(path, self.options.max_file_bytes, self.store)) for path, image in step.before
        ]
        for root, manifest in step.roots:
            tree = Tree(root, self.store, self._limits, now=self._clock.now, left_out=(os.path.realpath(self.home),))
            try:
                if tree.load(manifest):
                    changes += tree.refresh()
                else:
                    self._note_gap(step.turn, root, "its state before the turn is no longer in the store")
            except TooLarge:
                self._note_gap(step.turn, root, _too_large(root))
            finally:
                tree.close()
        return net_of(changes)


def _too_large(root: str) -> str:
    if root == "/" or root == os.path.realpath(os.path.expanduser("~")):
        return "the whole of it is too much to keep an eye on"
    return f"it has more than {MOST_FILES:,} files"
