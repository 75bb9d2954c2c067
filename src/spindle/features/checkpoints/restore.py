"""Puts files back, all of them or none.

First every new content is written beside its place, under a name that is listed in a file of our own. Then that file
is told that the exchange begins, and the names are exchanged one by one; what was there goes to a name beside it until
all is done. A failure puts every name back, and so does a file that somebody has changed while this went on. A process
that is killed before the exchange has changed nothing; one that is killed during it has its work finished by whoever
comes next (`unfinished`). What a person saved is never removed: it goes back to its place, or gets a name beside it.
Links are never followed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import msgspec

from spindle.errors import SpindleError
from spindle.features.checkpoints.exchange import OneStep, one_step
from spindle.features.checkpoints.images import EXECUTABLE, Image, absolute
from spindle.features.checkpoints.plan import Action
from spindle.features.checkpoints.present import image_at, image_like
from spindle.features.checkpoints.store import Store, intents_folder
from spindle.thread.private_files import make_private_folders, open_private, try_lock, write_all
from spindle.tools.safe_files import open_parent

STAGING, EXCHANGING, EXCHANGED = "staging", "exchanging", "exchanged"
_BESIDE = ".spindle-undo-"
_NOT_EMPTY = (errno.ENOTEMPTY, errno.EEXIST)


class NotRestored(SpindleError):
    """A file could not be put back; everything is as it was."""

    kept: Sequence[str] = ()
    """What a person saved in between, and stands beside its place because something newer is there."""


class ChangedMeanwhile(NotRestored):
    """Somebody has changed a file since it was compared; everything is as it was."""


class Intent(msgspec.Struct):
    """What a restoration is about, as it stands in its own file while it goes on."""

    id: str
    thread_id: str
    actions: list[Action]
    line: dict[str, Any]
    """What the thread's journal says of it once it is done."""
    phase: str = STAGING
    left: list[str] = []
    """Where another process has finished it: the paths that somebody had changed meanwhile."""

    def to_json(self) -> bytes:
        actions = [
            [one.path, one.expected.to_json(), one.target.to_json(), one.temporary, one.backup] for one in self.actions
        ]
        return json.dumps([self.id, self.thread_id, self.phase, actions, self.line, self.left]).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Intent:
        id, thread_id, phase, actions, line, *left = json.loads(data)
        read = [_action(*one) for one in actions]
        if not (isinstance(line["id"], str) and line["t"] in ("undo", "redo") and isinstance(phase, str)):
            raise ValueError("not an intent")
        return cls(id, thread_id, read, line, phase, *left)


def _action(path: Any, expected: Any, target: Any, *beside: Any) -> Action:
    """Raises ValueError or TypeError for what no restoration has written: it must not lead to any other file."""
    for name in filter(None, beside):
        if not absolute(name).rpartition("/")[2].startswith(_BESIDE):
            raise ValueError("not a name that Spindle uses")
    return Action(absolute(path), Image.from_json(expected), Image.from_json(target), *beside)


class Restoration:
    """One restoration, from its first file to its end. `on_step` is called before each change of the disk."""

    def __init__(
        self,
        home: str,
        store: Store,
        intent: Intent,
        on_step: Callable[[str], None] = lambda step: None,
        names: OneStep | None = None,
    ) -> None:
        self._home = home
        self._store = store
        self.intent = intent
        self._step = on_step
        self._names = names or one_step()
        self.kept: list[str] = []
        """What a person had saved and something newer has the place of: beside it, under these names."""
        self._undoing: list[Callable[[], object]] = []
        """How to take back what was exchanged so far."""
        self._fd: int | None = None

    # ---- from the beginning --------------------------------------------------------------------

    def run(self, note: Callable[[], None]) -> None:
        """Put everything back; `note` writes down that it is done. Raises NotRestored when that cannot be, and
        sqlite3.Error when the store cannot be read; then nothing was changed."""
        self._place_names()
        try:
            self._write_intent()
            self._stage()
            self.intent.phase = EXCHANGING
            self._write_intent()
            self._exchange()
            self._compare_again()
            self._step("journal")
            note()
        except (ChangedMeanwhile, sqlite3.Error) as error:
            self._give_up()
            if isinstance(error, ChangedMeanwhile):
                error.kept = self.kept
            raise
        except OSError as error:
            self._give_up()
            where = f" {error.filename}" if isinstance(error.filename, str) else ""
            failure = NotRestored(
                f"nothing was changed, because{where or ' a file'} could not be restored: {error.strerror or error}"
            )
            failure.kept = self.kept
            raise failure from error
        self._clean_up()

    def finish(self) -> None:
        """The journal and the conversation know of it: the intent is done with."""
        self._step("finish")
        for path in (self._path, f"{self._path}.new"):
            with contextlib.suppress(OSError):
                os.unlink(path)
        self._let_go()

    def leave_to_thread(self, left: list[str]) -> None:
        """The files of another thread's restoration are done; its conversation follows when that thread is opened."""
        self.intent.phase, self.intent.left = EXCHANGED, left
        self._write_intent()
        self._let_go()

    def _let_go(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _give_up(self) -> None:
        self._take_back()
        self._clean_up()
        self.finish()

    def abandon(self) -> None:
        """Take away what another process had staged; it had exchanged nothing."""
        self._clean_up()
        self.finish()

    def resume(self) -> list[str]:
        """Finish what another process has begun to exchange; gives the paths that somebody has changed meanwhile."""
        actions = self.intent.actions
        changed = [action.path for action in actions if self._gave_back(action)]
        left = [action for action in actions if action.path not in changed]
        done = [action.path for action in left if image_like(action.path, action.target).is_same(action.target)]
        changed += [action.path for action in left if action.path not in done and not self._can_go_on(action)]
        self._exchange(without=(*done, *changed))
        changed += [action.path for action in left if action.path not in changed and self._gave_back(action)]
        self._clean_up()
        return changed

    def _gave_back(self, action: Action) -> bool:
        """Was something put away that a person had saved in the instant before? Then that goes back to its place,
        unless the person has put something else there by now."""
        for name in (action.temporary, action.backup) if action.backup else ():  # else nothing was put away
            if not name or self._is_ours(name, action):
                continue
            now = image_like(action.path, action.target)
            if now.kind == "absent":
                self._make_folders_above(action.path)
                self._moved(name, action.path)
            elif action.temporary and now.is_same(action.target) and not self._swap_in(name, action):
                spare = action.backup if name == action.temporary else action.temporary
                if self._moved(action.path, spare):
                    # Whatever that was by now: only the older content makes room.
                    self._moved(name if self._is_ours(spare, action) else spare, action.path)
            return True
        return False

    def _swap_in(self, name: str, action: Action) -> bool:
        """Exchange what is at `name` with the older content; false where the system has no such step."""
        done = self._names.swapped(name, action.path)
        if done and not self._is_ours(name, action):
            self._names.swapped(name, action.path)  # not what it was a moment ago: that stays
        return done is not None

    def _is_ours(self, name: str, action: Action) -> bool:
        """Nothing is lost with what stands at a name of ours: it is one of the contents that are in the store."""
        now = image_like(name, action.expected, action.target)
        return now.kind == "absent" or now.is_same(action.expected) or now.is_same(action.target)

    def _can_go_on(self, action: Action) -> bool:
        now = image_like(action.path, action.expected)
        if now.is_same(action.expected):
            return True
        # Taken away, and its successor has not come yet.
        return now.kind == "absent" and (action.expected.kind == "folder" or os.path.lexists(action.backup))

    # ---- the file that tells of it ---------------------------------------------------------------

    @property
    def _path(self) -> str:
        return f"{intents_folder(self._home)}/{self.intent.id}.json"

    def _write_intent(self) -> None:
        """Written beside and renamed, so it is never half there; the lock shows that its owner lives."""
        self._step("intent")
        make_private_folders(intents_folder(self._home), f"{self._home.rstrip('/')}/spindle")
        former = self._fd
        self._fd = open_private(f"{self._path}.new", os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW)
        if former is not None:
            os.close(former)
        try_lock(self._fd)
        write_all(self._fd, self.intent.to_json())
        os.fsync(self._fd)
        os.replace(f"{self._path}.new", self._path)

    # ---- before the exchange -----------------------------------------------------------------------

    def _place_names(self) -> None:
        """Choose the names beside the files: in a folder that is there now and stays."""
        leaving = {one.path for one in self.intent.actions if one.expected.kind == "folder"}
        for number, action in enumerate(self.intent.actions):
            folder = os.path.dirname(action.path)
            while folder != "/" and (folder in leaving or image_at(folder, 0).kind != "folder"):
                folder = os.path.dirname(folder)
            beside = f"{folder.rstrip('/')}/{_BESIDE}{self.intent.id[-12:]}-{number}"
            if action.target.kind in ("file", "link") and not action.is_mode_only:
                action.temporary = f"{beside}.new"
            if action.expected.kind in ("file", "link") and not action.is_mode_only:
                action.backup = f"{beside}.old"

    def _stage(self) -> None:
        for action in self.intent.actions:
            if not action.temporary:
                continue
            self._step("stage")
            with open_parent(action.temporary) as (folder, name):
                if action.target.kind == "link":
                    os.symlink(action.target.target, name, dir_fd=folder)
                    continue
                data = self._store.get(action.target.digest)
                if data is None:
                    raise OSError(errno.EIO, "its older content is no longer in the store", action.path)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                fd = os.open(name, flags, 0o600, dir_fd=folder)
                try:
                    write_all(fd, data)
                    _keep_owner(fd, action.path)
                    os.fchmod(fd, self._mode(action))
                    os.fsync(fd)
                finally:
                    os.close(fd)

    def _mode(self, action: Action) -> int:
        """A file that is there keeps its rights but for being executable; one that comes back has those it had."""
        if action.expected.kind != "file":
            return action.target.mode
        return (action.expected.mode & ~EXECUTABLE) | (action.target.mode & EXECUTABLE)

    # ---- the exchange ------------------------------------------------------------------------------

    def _exchange(self, without: Sequence[str] = ()) -> None:
        """What goes, from the inside out; then what comes, from the outside in."""
        actions = sorted((one for one in self.intent.actions if one.path not in without), key=lambda one: one.path)
        for action in reversed(actions):
            if action.expected.kind == "folder":
                self._remove_folder(action)
            elif action.target.kind in ("absent", "folder") and action.expected.kind != "absent":
                self._put_away(action.path, action.backup)
        for action in actions:
            if action.target.kind == "folder":
                self._make_folder(action.path, action.target.mode)
            elif action.is_mode_only:
                self._change_mode(action.path, self._mode(action))
            elif action.temporary and os.path.lexists(action.temporary):
                self._make_folders_above(action.path)
                if not (action.backup and action.expected.kind in ("file", "link") and self._swap(action)):
                    self._bring(action)

    def _put_away(self, path: str, backup: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # the process that began this has done it
            self._move(path, backup)

    def _move(self, old: str, new: str) -> None:
        self._step("move")
        _rename(old, new)
        self._undoing.append(lambda: self._moved(new, old))

    def _swap(self, action: Action) -> bool:
        """Exchange both names in one step, so that whatever stood at the path is not overwritten but put away. False:
        nothing stands there, or not any more, because the system has no such step."""
        self._step("swap")
        done = self._names.swapped(action.temporary, action.path)
        if done is None:
            self._put_away(action.path, action.backup)
        if not done:
            return False
        self._undoing.append(lambda: self._swap_back(action))
        self._move(action.temporary, action.backup)
        return True

    def _swap_back(self, action: Action) -> None:
        if not self._names.swapped(action.temporary, action.path):
            self._moved(action.temporary, action.path)  # what was brought is gone by now
        elif not image_like(action.temporary, action.target).is_same(action.target):
            self._names.swapped(action.temporary, action.path)  # a person has saved something there, and that stays

    def _bring(self, action: Action) -> None:
        """Put it where nothing stands: what somebody has put there by now is not overwritten."""
        self._step("move")
        if not self._moved(action.temporary, action.path):
            raise _changed(action.path)
        self._undoing.append(lambda: self._take_away(action))

    def _moved(self, old: str, new: str) -> bool:
        """Give what is at `old` another name, unless something has that already."""
        done = self._names.moved(old, new)
        if done is not None:
            return done
        with open_parent(old) as (from_folder, from_name), open_parent(new) as (to_folder, to_name):
            try:
                os.link(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder, follow_symlinks=False)
            except FileExistsError:
                return False
            except OSError:
                # No second names on this disk.
                if os.path.lexists(new):
                    return False
                os.rename(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)
            else:
                os.unlink(from_name, dir_fd=from_folder)
        return True

    def _take_away(self, action: Action) -> None:
        if image_like(action.path, action.target).is_same(action.target):
            _rename(action.path, action.temporary)

    def _compare_again(self) -> None:
        """What was put away must be what it was taken for: a person may have saved a file at any moment until now."""
        for action in self.intent.actions:
            if action.backup and not image_like(action.backup, action.expected).is_same(action.expected):
                raise _changed(action.path)

    def _remove_folder(self, action: Action) -> None:
        self._step("rmdir")
        try:
            with open_parent(action.path) as (folder, name):
                os.rmdir(name, dir_fd=folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            # Somebody else's files are in it: it stays, unless something must come into its place.
            if error.errno in _NOT_EMPTY and action.target.kind == "absent":
                return
            raise
        self._undoing.append(lambda: _mkdir(action.path, action.expected.mode))

    def _make_folder(self, path: str, mode: int) -> None:
        if image_at(path, 0).kind == "folder":
            return
        self._make_folders_above(path)
        self._step("mkdir")
        _mkdir(path, mode)
        self._undoing.append(lambda: _rmdir(path))

    def _make_folders_above(self, path: str) -> None:
        missing: list[str] = []
        folder = os.path.dirname(path)
        while folder != "/" and image_at(folder, 0).kind == "absent":
            missing.append(folder)
            folder = os.path.dirname(folder)
        for one in reversed(missing):
            self._step("mkdir")
            _mkdir(one, 0o777)
            self._undoing.append(lambda one=one: _rmdir(one))

    def _change_mode(self, path: str, mode: int) -> None:
        self._step("chmod")
        with open_parent(path) as (folder, name):
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
            try:
                former = os.fstat(fd).st_mode & 0o777
                os.fchmod(fd, mode)
            finally:
                os.close(fd)
        self._undoing.append(lambda: self._change_mode(path, former))

    def _take_back(self) -> None:
        """Put back every name that was exchanged, the last one first."""
        undoing, self._undoing = self._undoing, []
        for undo in reversed(undoing):
            with contextlib.suppress(OSError):
                undo()

    def _clean_up(self) -> None:
        """Nothing of ours stays beside the files, and nothing of a person's goes."""
        has_begun = self.intent.phase != STAGING
        for action in self.intent.actions:
            for path in filter(None, (action.temporary, action.backup)):
                self._step("clean")
                with contextlib.suppress(OSError), open_parent(path) as (folder, name):
                    if has_begun and not self._is_ours(path, action):
                        self._keep(path, action)
                    else:
                        os.unlink(name, dir_fd=folder)

    def _keep(self, path: str, action: Action) -> None:
        """Let what a person has saved stand beside its place, under a name that says what it is."""
        wanted = f"{os.path.dirname(path)}/{os.path.basename(action.path)}.saved"
        names = (wanted if not number else f"{wanted}-{number}" for number in count())
        self.kept.append(next(name for name in names if self._moved(path, name)))


def unfinished(home: str) -> Iterator[tuple[Intent, str]]:
    """Restorations whose process has ended in the middle, and the files that tell of them."""
    folder = intents_folder(home)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        path = f"{folder}/{name}"
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            if not try_lock(fd):
                continue
            if not name.endswith(".json"):
                os.unlink(path)  # never came into effect
                continue
            with open(fd, "rb", closefd=False) as file:
                yield Intent.from_json(file.read()), path
        except (ValueError, LookupError, TypeError, OSError):
            continue
        finally:
            os.close(fd)


def _changed(path: str) -> ChangedMeanwhile:
    return ChangedMeanwhile(f"nothing was changed, because somebody has changed {path} at this very moment")


def _keep_owner(fd: int, path: str) -> None:
    """A file that takes the place of another gets the same owner, where we may give it away."""
    with contextlib.suppress(OSError):
        now = os.lstat(path)
        if (now.st_uid, now.st_gid) != (os.fstat(fd).st_uid, os.fstat(fd).st_gid):
            os.fchown(fd, now.st_uid, now.st_gid)


def _rename(old: str, new: str) -> None:
    with open_parent(old) as (from_folder, from_name), open_parent(new) as (to_folder, to_name):
        os.rename(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)


def _mkdir(path: str, mode: int) -> None:
    with open_parent(path) as (folder, name), contextlib.suppress(FileExistsError):
        os.mkdir(name, mode or 0o777, dir_fd=folder)


def _rmdir(path: str) -> None:
    with open_parent(path) as (folder, name):
        os.rmdir(name, dir_fd=folder)
