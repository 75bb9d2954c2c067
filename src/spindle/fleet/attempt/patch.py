"""What an agent has changed: the difference from `base` to the work tree, as a patch that applies to `base`.

Looked at with a git folder and an index of ours: whatever became of the `.git` in the work tree, its head, its
settings, its list of ignored files, has no say. Files that are not tracked count, ignored ones do not.

A path that is as `setup` left it is left out. A file of `setup` that the agent has changed is in the patch as a whole,
because `base` does not have it. Left out, and named, are nested repositories and what is too large.
"""

from __future__ import annotations

import asyncio
import hashlib
import os

import msgspec

from spindle.fleet.attempt.checkout import OurGit
from spindle.fleet.attempt.git import Git, GitFailed, Repository, names
from spindle.fleet.attempt.places import open_up
from spindle.fleet.exchange import FILE_BYTES, PatchFacts

_LINK = b"160000"
_OTHER = b"? "
"""What `ls-files -t` puts before a path that is not tracked."""
_LARGEST = 32 << 20
"""A binary file takes up to one and a third times its size in a patch."""
_TOGETHER = 40 << 20
_DIFF = ("diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all")

Entry = tuple[bytes, bytes]
"""Mode and object of a path."""


class Change(msgspec.Struct, frozen=True):
    """A path that is different in another tree; None: it is not there."""

    path: bytes
    old: Entry | None
    new: Entry | None


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """A patch that was written to a file."""

    facts: PatchFacts | None
    """None when nothing was changed."""
    tree: str
    """`base` with the patch."""
    changes: list[Change]


class Tracker:
    """Follows a work tree from its checkout on."""

    def __init__(self, git: Git, ours: OurGit, work_tree: str) -> None:
        self._git = git
        self._ours = ours
        self._work_tree = work_tree
        self._commit = ours.base.commit
        self._of_setup: list[Change] = []
        self._skipped: dict[bytes, None] = {}
        self._is_as_base = True
        """The index has nothing but `base`."""
        self._has_modules = os.path.lexists(f"{work_tree}/.gitmodules")

    @property
    def _here(self) -> Repository:
        return self._ours.repository(self._work_tree, "index")

    async def note_setup(self) -> None:
        """`setup` is over: what is different now is its work."""
        self._of_setup = await self._changes()
        self._skipped.clear()

    async def write_patch(self, path: str) -> Patch:
        """Write what was changed since; there is no file when that is nothing."""
        changes = await self._changes()
        await self._skip_modules()
        kept = await self._without_large(self._without_setup(changes))
        if not kept and not self._skipped:
            return Patch(facts=None, tree=self._commit, changes=[])
        tree = await self._with_only(kept)
        facts = await self._write(path, tree)
        return Patch(facts=facts, tree=tree, changes=kept)

    # ---- looking ---------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Bring the index up to the work tree as it is now."""
        try:
            await self._take_all()
        except GitFailed:
            # A file or folder that cannot be read, or attributes that its content does not fit.
            await asyncio.to_thread(open_up, self._work_tree)
            try:
                await self._take_all()
            except GitFailed:
                self._ours.follow_no_attributes()
                await self._take_all()

    async def _take_all(self) -> None:
        git = self._git
        words = ("ls-files", "-z", "-t", "--others", "--modified", "--deleted", "--exclude-standard")
        told = names(await git.run(self._here, *words, strict=True))
        if not told:
            return  # most often there is nothing, and then one process is enough
        self._is_as_base = False
        self._ours.take_objects()
        here = self._here
        listed = [name.removeprefix(_OTHER) for name in told if name.startswith(_OTHER)]
        nested = [name.rstrip(b"/") for name in listed if name.endswith(b"/")]
        others = [name for name in listed if not name.endswith(b"/")]
        self._skipped |= dict.fromkeys(nested)
        large = [name for name in others if self._size(name) > FILE_BYTES]
        self._skipped |= dict.fromkeys(large)
        await git.run(here, "add", "-u", "--", ".")
        if wanted := [name for name in others if name not in self._skipped]:
            given = b"".join(name + b"\0" for name in wanted)
            await git.run(here, "update-index", "--add", "--replace", "-z", "--stdin", given=given)

    def _size(self, name: bytes) -> int:
        try:
            return os.lstat(os.fsencode(self._work_tree) + b"/" + name).st_size
        except OSError:
            return 0

    async def _changes(self) -> list[Change]:
        """From `base` to the work tree as it is now."""
        await self._look()
        if self._is_as_base:
            return []
        words = ("diff-index", "--cached", "--raw", "--no-renames", "--no-abbrev", "-z", self._commit)
        fields = names(await self._git.run(self._here, *words))
        found: list[Change] = []
        for about, path in zip(fields[::2], fields[1::2], strict=True):
            old_mode, new_mode, old, new, _ = about.removeprefix(b":").split(b" ")
            found.append(
                Change(
                    path,
                    None if old_mode == b"000000" else (old_mode, old),
                    None if new_mode == b"000000" else (new_mode, new),
                )
            )
        return found

    # ---- choosing --------------------------------------------------------------------------------

    def _without_setup(self, changes: list[Change]) -> list[Change]:
        of_setup = {change.path: change.new for change in self._of_setup}
        kept = {
            change.path: change
            for change in changes
            if change.path not in of_setup or of_setup[change.path] != change.new
        }
        added = {path for path, change in kept.items() if change.new is not None}
        # Where `setup` put a folder in the place of a file and the agent works in there, the file has to go.
        for change in changes:
            if change.path not in kept and change.new is None and _has_below(change.path, added):
                kept[change.path] = change
        return [kept[path] for path in sorted(kept)]

    async def _without_large(self, changes: list[Change]) -> list[Change]:
        """Without what does not fit into a patch, and without repositories inside of the repository."""
        kept: list[Change] = []
        for change in changes:
            if _LINK in ((change.old or _NOTHING)[0], (change.new or _NOTHING)[0]):
                self._skipped[change.path] = None
            else:
                kept.append(change)
        objects = [entry[1] for change in kept for entry in (change.old, change.new) if entry is not None]
        sizes = await self._sizes(objects)

        def size(change: Change) -> int:
            return sum(sizes.get(entry[1], 0) for entry in (change.old, change.new) if entry is not None)

        total = sum(map(size, kept))
        for change in sorted(kept, key=size, reverse=True):
            if total <= _TOGETHER and size(change) <= _LARGEST:
                break
            total -= size(change)
            kept.remove(change)
            self._skipped[change.path] = None
        return kept

    async def _skip_modules(self) -> None:
        """The folder of a submodule is empty, because none is fetched. What was put there is not lost silently."""
        if not self._has_modules:
            return
        listed = names(await self._git.run(self._here, "ls-tree", "-r", "-z", self._commit))
        root = os.fsencode(self._work_tree)
        for path in (entry.partition(b"\t")[2] for entry in listed if entry.startswith(_LINK)):
            try:
                if os.listdir(root + b"/" + path):
                    self._skipped[path] = None
            except OSError:
                continue

    async def _sizes(self, objects: list[bytes]) -> dict[bytes, int]:
        if not objects:
            return {}
        given = b"".join(name + b"\n" for name in objects)
        told = await self._git.run(self._here, "cat-file", "--batch-check=%(objectname) %(objectsize)", given=given)
        found = (line.split(b" ") for line in told.splitlines())
        return {words[0]: int(words[1]) for words in found if words[1].isdigit()}

    async def _with_only(self, changes: list[Change]) -> str:
        """`base` with these changes, as an object; made in an index of its own."""
        self._ours.take_objects()
        here = self._ours.repository(None, "patch-index")
        await self._git.run(here, "read-tree", self._commit)
        gone = [change for change in changes if change.new is None]
        there = [change for change in changes if change.new is not None]
        nothing = b"0" * len(self._commit)
        given = b"".join(b"0 %s\t%s\0" % (nothing, change.path) for change in gone)
        given += b"".join(b"%s %s\t%s\0" % (*change.new, change.path) for change in there if change.new is not None)
        if given:
            await self._git.run(here, "update-index", "--add", "--replace", "-z", "--index-info", given=given)
        return (await self._git.run(here, "write-tree")).decode().strip()

    # ---- writing ---------------------------------------------------------------------------------

    async def _write(self, path: str, tree: str) -> PatchFacts:
        counted = names(await self._git.run(self._here, *_DIFF, "--numstat", "-z", self._commit, tree))
        skipped = [name.decode("utf-8", "backslashreplace") for name in sorted(self._skipped)]
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            prefixes = ("--src-prefix=a/", "--dst-prefix=b/")
            shape = ("-p", "--binary", "--full-index", "--unified=3", *prefixes)
            await self._git.run(self._here, *_DIFF, *shape, self._commit, tree, into=descriptor)
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        lines = [entry.split(b"\t")[:2] for entry in counted]
        return PatchFacts(
            sha256=await asyncio.to_thread(_digest, path),
            bytes=size,
            files=len(counted),
            added=sum(int(added) for added, _ in lines if added.isdigit()),
            removed=sum(int(removed) for _, removed in lines if removed.isdigit()),
            skipped=skipped,
        )


_NOTHING: Entry = (b"", b"")


def _has_below(path: bytes, others: set[bytes]) -> bool:
    return any(other.startswith(path + b"/") for other in others)


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
