"""Work trees at a base commit, and what belongs to them.

The git folder in a work tree is what `git clone --shared --no-checkout` makes, written by hand: the objects are the
mirror's, the branches its branches. The agent may do anything to it. We look at work trees with `OurGit` alone.

To make a folder or a file costs as much as anything that an attempt does, so none is made before it is needed.
"""

from __future__ import annotations

import os
import shutil

from spindle.fleet.attempt.git import Git, Repository
from spindle.fleet.attempt.mirror import Base

_HEADS, _TAGS = b"refs/heads/", b"refs/tags/"


_PLAIN = "* !text !eol !crlf !ident !filter !working-tree-encoding\n"
"""Files as they are, for a work tree whose attributes cannot be followed."""


class OurGit:
    """What we look at the work trees of an attempt with: the git folder of the mirror, indexes and objects of ours."""

    def __init__(self, base: Base, folder: str) -> None:
        """`folder` is the attempt's, and out of its commands' sight."""
        self.base = base
        self._folder = folder
        self._git_dir = base.mirror
        self._objects: str | None = None

    def repository(self, work_tree: str | None, index: str) -> Repository:
        return Repository(
            git_dir=self._git_dir, work_tree=work_tree, index=f"{self._folder}/{index}", objects=self._objects
        )

    def take_objects(self) -> None:
        """From now on git may write objects: to a folder of the attempt, never into the mirror."""
        if self._objects is None:
            objects = f"{self._folder}/objects"
            _write_objects(objects, self.base)
            self._objects = objects

    def follow_no_attributes(self) -> None:
        """Take files as they are from now on. Only the git folder itself has a say above the work tree's attributes."""
        plain = f"{self._folder}/plain.git"
        _write_git_folder(plain, self.base)
        os.mkdir(f"{plain}/info", 0o700)
        _write(f"{plain}/info/attributes", _PLAIN.encode())
        self.take_objects()
        self._git_dir = plain


async def check_out(git: Git, ours: OurGit, work: str, *, index: str = "index") -> None:
    """Fill an empty folder with the files of the base commit."""
    here = ours.repository(work, index)
    assert here.index is not None
    await git.run(here, "read-tree", "--reset", "-u", ours.base.commit)
    _date_later(here.index)
    _write_git_folder(f"{work}/.git", ours.base)
    # What it knows of the files holds for both.
    shutil.copyfile(here.index, f"{work}/.git/index")


def _date_later(index: str) -> None:
    """Git looks anew into files that are as young as its index: then one whose line ends do not fit its attributes
    would count as changed. Nobody has touched them yet, so it need not, unless the clock of the file system is coarse.
    """
    at = os.stat(index).st_mtime_ns
    if at % 1_000_000_000:
        os.utime(index, ns=(at, at + 1_000_000_000))


def _write_git_folder(folder: str, base: Base) -> None:
    for name in ("", "/refs"):  # git makes the others when it needs them
        os.mkdir(folder + name, 0o700)
    _write_objects(f"{folder}/objects", base)
    is_long = len(base.commit) == 64
    config = [
        "[core]",
        f"\trepositoryformatversion = {int(is_long)}",
        "\tfilemode = true",
        "\tbare = false",
        "\tlogallrefupdates = true",
        *(["[extensions]", "\tobjectformat = sha256"] if is_long else []),
    ]
    if base.url is not None:
        config += ['[remote "origin"]', f"\turl = {_quoted(base.url)}", "\tfetch = +refs/heads/*:refs/remotes/origin/*"]
    _write(f"{folder}/config", "\n".join(config).encode("utf-8", "surrogateescape") + b"\n")
    _write(f"{folder}/packed-refs", _refs(f"{base.mirror}/packed-refs"))
    _write(f"{folder}/HEAD", f"{base.commit}\n".encode())
    if os.path.exists(shallow := f"{base.mirror}/shallow"):
        shutil.copyfile(shallow, f"{folder}/shallow")


def _write_objects(folder: str, base: Base) -> None:
    """A store of objects that has those of the mirror."""
    for name in ("", "/info"):
        os.mkdir(folder + name, 0o700)
    _write(f"{folder}/info/alternates", f"{base.mirror}/objects\n".encode("utf-8", "surrogateescape"))


def _refs(packed: str) -> bytes:
    """The branches of a mirror as those of `origin`, and its tags."""
    try:
        with open(packed, "rb") as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return b""
    found: list[bytes] = []
    is_taken = False
    for line in lines:
        commit, _, name = line.partition(b" ")
        if line.startswith(b"^"):
            if is_taken:
                found.append(line)
            continue
        is_taken = True
        if name.startswith(_HEADS):
            found.append(commit + b" refs/remotes/origin/" + name.removeprefix(_HEADS))
        elif name.startswith(_TAGS):
            found.append(line)
        else:
            is_taken = False
    return b"# pack-refs with: peeled fully-peeled \n" + b"\n".join(found) + b"\n" if found else b""


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
