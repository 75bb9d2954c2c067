"""The files below one folder as they were at the last look, and what has changed since.

`refresh` looks again: at the folders in which something happened where the kernel tells which, else at all of them. It
reads what is new by its stamps (size, times, inode) and keeps the content in the store, so that the state before a
command is there when the command has changed it. Links are never followed, and no folder is entered by a name that
could lead elsewhere by now.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby

import msgspec

from spindle.features.checkpoints.coverage import Coverage
from spindle.features.checkpoints.images import Change
from spindle.features.checkpoints.listing import (
    UNREADABLE,
    Entry,
    Listing,
    entry_kind,
    image_of,
    pack,
    pack_manifest,
    stamped,
    unpack,
    unpack_manifest,
)
from spindle.features.checkpoints.reading import GONE, ignore_file, link_target, read_entry
from spindle.features.checkpoints.store import Store
from spindle.workspace.folder_watch import FolderWatch, LostTrack, make_watch

MOST_FILES = 300_000
_YOUNG_NS = 60_000_000
"""A file that was changed so shortly before a look may be changed again without a new time stamp."""
_PATH = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TO_BE_READ = Entry("f", 0, UNREADABLE)


class TooLarge(Exception):
    """There are more files below a folder than can be looked at for every command."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of files."""

    max_file_bytes: int
    """Of a larger file no content is kept."""
    max_new_bytes: int
    """How much one look may add to the store; the smallest files come first."""
    max_files: int = MOST_FILES
    """How many files one look may come by."""


class _Unread(msgspec.Struct):
    """A file whose content has to be read, and what was at its place."""

    size: int
    folder: str
    name: str
    former: Entry | None


class Tree:
    """The covered files below one root. Folders are named from the root, which is "" itself."""

    def __init__(
        self, root: str, store: Store, limits: Limits, *, now: Callable[[], float], left_out: tuple[str, ...] = ()
    ) -> None:
        """`now` gives Unix seconds, as the stamps of files do."""
        self.root = root
        self._now = now
        self._store = store
        self._limits = limits
        self._coverage = Coverage(root, left_out)
        self._listings: dict[str, bytes] = {}
        self._manifest: dict[str, str] = {}
        self._unsaved: set[str] = set()
        """Folders whose listing has changed since the state was saved."""
        self._young: set[tuple[str, str]] = set()
        """Files that must be read again whatever their stamps say: folder and name."""
        self._shared: set[str] = set()
        """Folders with files that have several names: a change through another name is not told."""
        self._links: set[int] = set()
        """The inodes of such files; all folders with names of theirs are known."""
        self._new_links: set[int] = set()
        """Those that were met in this look: a folder that was not looked at may have another name of theirs."""
        self._late: set[str] = set()
        """Folders to look at next time, whatever the kernel tells."""
        self.held: list[Change] = []
        """What was seen when a path was noticed; told with the next look."""
        self._watch: FolderWatch | None = None
        self._can_watch = True
        self._is_first = True

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    # ---- the known state -----------------------------------------------------------------------

    def load(self, manifest: str) -> bool:
        """Take over a state that was saved; false when it is not all there any more."""
        data = self._store.get(manifest)
        if data is None:
            return False
        digests = unpack_manifest(data)
        found = {folder: self._store.get(digest) for folder, digest in digests.items()}
        listings = {folder: listing for folder, listing in found.items() if listing is not None}
        if len(listings) != len(digests):
            return False
        self._listings, self._manifest = listings, digests
        return True

    def reread_lost(self) -> None:
        """What the store no longer has must be read again."""
        kept = self._store.digests()
        for folder, data in self._listings.items():
            for name, entry in unpack(data).items():
                if entry.kind == "f" and not entry.content.startswith("!") and entry.content not in kept:
                    self._young.add((folder, name))

    def save(self, now: float) -> str:
        """Put the state into the store; gives its manifest."""
        for folder in self._unsaved:
            data = self._listings.get(folder)
            if data is None:
                self._manifest.pop(folder, None)
            else:
                self._manifest[folder] = self._store.put(self._distrustful(folder, data))
        self._unsaved.clear()
        manifest = self._store.put(pack_manifest(dict(sorted(self._manifest.items()))))
        if self._store.baseline(self.root) != manifest:
            self._store.set_baseline(self.root, manifest, now)
        return manifest

    def _distrustful(self, folder: str, data: bytes) -> bytes:
        """The listing without the stamps of files that must be read again."""
        young = [name for where, name in self._young if where == folder]
        if not young:
            return data
        listing = unpack(data)
        for name in young:
            if name in listing:
                listing[name] = msgspec.structs.replace(listing[name], mtime=0)
        return pack(listing)

    # ---- looking -------------------------------------------------------------------------------

    def is_quiet(self) -> bool:
        """Certainly nothing has changed since the last look. Costs next to nothing."""
        if self._watch is None or self._young or self._shared or self._late or self.held:
            return False
        try:
            self._late |= self._watch.touched()
        except LostTrack:
            self.close()
        return self._watch is not None and not self._late

    def refresh(self, *, is_beginning: bool = False) -> list[Change]:
        """Look again: what has changed since the last look. `is_beginning`: git is asked anew what it tracks.

        Raises TooLarge, OSError and sqlite3.Error.
        """
        folders = self._touched()
        is_first, self._is_first = self._is_first, False
        changes, self.held = self.held, []
        if folders is None:
            self._watch = make_watch() if self._can_watch else None
            changes += self._look({""}, everywhere=True)
            self._settle_links()
        else:
            changes += self._look(folders)
            if self._new_links:
                changes += self._look(self._other_names() - folders)
        if is_first or is_beginning:
            changes += self._look(self._coverage.find_tracked() & self._listings.keys())
        return changes

    def _other_names(self) -> set[str]:
        """The folders that knew files under one name which were found to have another: neither the second name nor
        what happens through it is told there."""
        found = {
            folder
            for folder, data in self._listings.items()
            if any(entry.kind == "f" and entry.inode in self._new_links for entry in unpack(data).values())
        }
        self._settle_links()
        return found

    def _settle_links(self) -> None:
        self._links |= self._new_links
        self._new_links = set()

    def _touched(self) -> set[str] | None:
        """The folders to look at; None = all."""
        late, self._late = self._late, set()
        if self._is_first or self._watch is None:
            return None
        try:
            touched = self._watch.touched()
        except LostTrack:
            self.close()
            return None
        return late | touched | self._shared | {folder for folder, _ in self._young}

    def notice(self, path: str) -> bool:
        """Look at one path: a file tool is about to change it, or has just done so. True when what happened to it is
        among what the next look tells, whoever did it."""
        folder, name = os.path.split(path.removeprefix(self.root).lstrip("/"))
        nearest = folder
        while nearest and nearest not in self._listings:
            nearest = os.path.dirname(nearest)
        self.held += self._look({nearest})
        if self._new_links:
            self.held += self._look(self._other_names() - {nearest})
        listing = self._listings.get(folder)
        is_known = listing is not None and name in unpack(listing)
        return is_known or any(change.path == path for change in self.held)

    def _look(self, folders: set[str], *, everywhere: bool = False) -> list[Change]:
        """Look at folders, and at all that is new below them."""
        changes: list[Change] = []
        unread: list[_Unread] = []
        waiting = sorted(folders, reverse=True)
        files, seen = 0, set[str]()
        while waiting:
            folder = waiting.pop()
            if folder in seen:
                continue  # touched, and new under its name: once is enough
            seen.add(folder)
            with self._opened(folder) as fd:
                if fd is None:
                    continue
                listing, below = self._look_into(folder, fd, changes, unread)
            files += len(listing)
            if files > self._limits.max_files:
                raise TooLarge
            waiting += below if everywhere else [path for path in below if self._is_new(path)]
        self._read(unread, changes)
        self._coverage.settle()
        return changes

    def _is_new(self, folder: str) -> bool:
        """A folder that nobody has looked at yet, or another one under a known name."""
        return folder not in self._listings or (self._watch is not None and not self._watch.has(folder))

    @contextmanager
    def _opened(self, folder: str) -> Iterator[int | None]:
        """The folder, open; None when it is gone, or cannot be looked into."""
        opened: list[int] = []
        try:
            steps = folder.split("/") if folder else []
            fd = os.open(self.root, _PATH if steps else _FOLDER & ~os.O_NOFOLLOW)
            opened.append(fd)
            for number, step in enumerate(steps, 1):
                fd = os.open(step, _FOLDER if number == len(steps) else _PATH, dir_fd=fd)
                opened.append(fd)
        except OSError as error:
            if error.errno in GONE and folder:
                self._late.add(os.path.dirname(folder))
            fd = None
        try:
            yield fd
        finally:
            for one in opened:
                os.close(one)

    def _look_into(
        self, folder: str, fd: int, changes: list[Change], unread: list[_Unread]
    ) -> tuple[Listing, list[str]]:
        """Compare one folder with what it held; gives its listing and the folders in it."""
        packed = self._listings.get(folder)
        former = {} if packed is None else unpack(packed)
        self._begin_folder(folder, fd, is_new=packed is None)
        listing: Listing = {}
        below: list[str] = []
        is_shared = False
        with os.scandir(fd) as found:
            for item in found:
                name, old = item.name, former.get(item.name)
                try:
                    status = item.stat(follow_symlinks=False)
                except OSError:
                    continue
                kind = entry_kind(status.st_mode)
                if old is None and self._coverage.hides(folder, name, is_folder=kind == "d"):
                    continue
                if kind == "d":
                    listing[name] = Entry("d", status.st_mode & 0o777, inode=status.st_ino)
                    path = f"{folder}/{name}" if folder else name
                    below.append(path)
                    if old is not None and old.inode != status.st_ino and self._watch is not None:
                        self._watch.remove(path)  # another folder has its name now
                elif kind == "f":
                    if status.st_nlink > 1:
                        is_shared = True
                        if status.st_ino not in self._links:
                            self._new_links.add(status.st_ino)
                    elif self._links:
                        self._links.discard(status.st_ino)
                    is_young = (folder, name) in self._young
                    if old is not None and old.kind == "f" and not is_young and old.is_untouched(status):
                        listing[name] = old
                        continue
                    unread.append(_Unread(status.st_size, folder, name, old))
                    listing[name] = _TO_BE_READ
                    continue
                else:
                    listing[name] = stamped(kind, link_target(name, fd) if kind == "l" else "", status)
                if not image_of(old).is_same(listing[name].image):
                    changes.append(self._change(folder, name, old, listing[name]))
        self._leave_folder(folder, former, listing, changes)
        (self._shared.add if is_shared else self._shared.discard)(folder)
        if packed is None or listing != former:
            self._listings[folder] = pack(listing)
            self._unsaved.add(folder)
        return listing, below

    def _begin_folder(self, folder: str, fd: int, *, is_new: bool) -> None:
        """Watch it before it is read, and learn what it hides."""
        if self._watch is not None:
            try:
                self._watch.add(folder, fd)
            except LostTrack:
                self._can_watch = False
                self.close()
        if self._coverage.in_repository and self._coverage.enter(folder, ignore_file(fd)) and not is_new:
            below = f"{folder}/" if folder else ""
            self._late.update(known for known in self._listings if known == folder or known.startswith(below))

    def _leave_folder(self, folder: str, former: Listing, listing: Listing, changes: list[Change]) -> None:
        """What is no longer there, or was a folder and is none."""
        for name, old in former.items():
            new = listing.get(name)
            if new is None:
                changes.append(self._change(folder, name, old, None))
            if old.kind == "d" and (new is None or new.kind != "d"):
                self._forget(f"{folder}/{name}" if folder else name, changes)

    def _forget(self, folder: str, changes: list[Change]) -> None:
        """A folder is gone, with everything that was known to be in it."""
        below = f"{folder}/"
        for known in [known for known in self._listings if known == folder or known.startswith(below)]:
            for name, old in unpack(self._listings.pop(known)).items():
                changes.append(self._change(known, name, old, None))
            self._unsaved.add(known)
            self._shared.discard(known)
            if self._watch is not None:
                self._watch.remove(known)

    def _change(self, folder: str, name: str, old: Entry | None, new: Entry | None) -> Change:
        return Change(f"{self.root.rstrip('/')}/{folder}{'/' if folder else ''}{name}", image_of(old), image_of(new))

    # ---- contents ------------------------------------------------------------------------------

    def _read(self, unread: list[_Unread], changes: list[Change]) -> None:
        """Read what has to be read, the smallest files first, and put it into the listings."""
        most = self._store.added + self._limits.max_new_bytes
        if sum(file.size for file in unread) > self._limits.max_new_bytes:
            unread = sorted(unread, key=lambda file: file.size)
        read: dict[str, dict[str, Entry | None]] = {}
        for folder, files in groupby(unread, key=lambda file: file.folder):
            with self._opened(folder) as fd:
                for file in files:
                    is_full = self._store.added + min(file.size, self._limits.max_file_bytes) > most
                    entry = None if fd is None else self._read_file(file.name, fd, is_full=is_full)
                    read.setdefault(folder, {})[file.name] = entry
                    self._note_age(file, entry)
                    if _is_changed(file.former, entry):
                        changes.append(self._change(folder, file.name, file.former, entry))
        for folder, entries in read.items():
            listing = unpack(self._listings[folder])
            listing |= {name: entry for name, entry in entries.items() if entry is not None}
            for name in [name for name, entry in entries.items() if entry is None]:
                listing.pop(name, None)
                self._late.add(folder)
            self._listings[folder] = pack(listing)
            self._unsaved.add(folder)

    def _read_file(self, name: str, folder: int, *, is_full: bool) -> Entry | None:
        return read_entry(name, folder, None if is_full else self._store, self._limits.max_file_bytes)

    def _note_age(self, file: _Unread, entry: Entry | None) -> None:
        self._young.discard((file.folder, file.name))
        if entry is not None and entry.kind == "f":
            newest = max(entry.mtime, entry.ctime)
            if newest > self._now() * 1e9 - _YOUNG_NS:
                self._young.add((file.folder, file.name))


def _is_changed(former: Entry | None, now: Entry | None) -> bool:
    """Of what is not kept, only the stamps can tell."""
    both = [entry for entry in (former, now) if entry is not None and entry.kind == "f"]
    if len(both) == 2 and any(entry.content.startswith("!") for entry in both):
        stamps = {(entry.size, entry.mtime, entry.inode) for entry in both}
        return len(stamps) > 1
    return not image_of(former).is_same(image_of(now))
