"""Work trees at a base commit, and the git folders that belong to them.

A git folder here is what `git clone --shared --no-checkout` makes, written by hand: the objects are the mirror's, the
branches its branches. Each work tree has two: its own, which the agent may do anything to, and one of ours, which is
all that we look at it with.
"""

from __future__ import annotations

import os
import shutil

from spindle.fleet.attempt.git import Git, Repository
from spindle.fleet.attempt.mirror import Base

_HEADS, _TAGS = b"refs/heads/", b"refs/tags/"


async def check_out(git: Git, base: Base, work: str, ours: str, *, index: str = "index") -> Repository:
    """Fill an empty folder with the files of a commit; gives the repository to look at it with."""
    if not os.path.isdir(ours):
        _write_git_folder(ours, base)
    here = Repository(git_dir=ours, work_tree=work, index=f"{ours}/{index}")
    await git.run(here, "read-tree", "--reset", "-u", base.commit)
    _date_later(f"{ours}/{index}")
    _write_git_folder(f"{work}/.git", base)
    # What it knows of the files holds for both.
    shutil.copyfile(f"{ours}/{index}", f"{work}/.git/index")
    return here


def _date_later(index: str) -> None:
    """Git looks anew into files that are as young as its index: then one whose line ends do not fit its attributes
    would count as changed. Nobody has touched them yet, so it need not, unless the clock of the file system is coarse.
    """
    at = os.stat(index).st_mtime_ns
    if at % 1_000_000_000:
        os.utime(index, ns=(at, at + 1_000_000_000))


def _write_git_folder(folder: str, base: Base) -> None:
    for name in ("", "/objects", "/objects/info", "/refs", "/info"):  # git makes the others when it needs them
        os.mkdir(folder + name, 0o700)
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
    _write(f"{folder}/objects/info/alternates", f"{base.mirror}/objects\n".encode("utf-8", "surrogateescape"))
    _write(f"{folder}/packed-refs", _refs(f"{base.mirror}/packed-refs"))
    _write(f"{folder}/HEAD", f"{base.commit}\n".encode())


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
