"""Whether looking at a repository would run a program: git's own settings may name some, under names of their choice.

Cloning brings no settings along, but an unpacked archive does, and so does a repository that lies in the files of
another. No environment switches drivers off whose names are free, hence the files are read; what `safe_environment` can
switch off is left to it. Whatever is unclear counts as a yes; a person is then asked.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence

from spindle.policy.sandbox import absolute

_RUNS = re.compile(
    rb"(?i)\[\s*include|\b(external|textconv|clean|smudge|process|command|alternaterefscommand|submodule)\s*="
)
_LAZY = re.compile(rb"(?i)\b(promisor|partialclone)\s*=")
_FETCH_RUNS = re.compile(rb"(?i)\b(uploadpack|vcs|sshcommand|gitproxy)\s*=|\bext::")
"""Looking fetches what is missing from a partial clone. Not every git can be told not to."""
_WORKTREE = re.compile(rb"(?i)\bworktree\s*=")
_SUBMODULE_MODE = b"\x00\x00\xe0\x00"
_MODE_AT, _FLAGS_AT, _NAME_AT = 24, 60, 62
_MOST_SETTINGS = 1 << 20
_MOST_INDEX = 256 << 20
_MOST_REPOSITORIES = 200
_MOST_FOLDERS = 50


def git_may_run_programs(commands: Sequence[Sequence[str]], cwd: str) -> bool:
    """Could git start a program that a repository names, in any folder these commands may be in when it looks?"""
    folders = [cwd]
    for words in commands:
        if os.path.basename(words[0]) == "cd":
            target = words[2:] if words[1:2] == ["--"] else words[1:]
            if len(target) != 1 or not target[0] or target[0][0] in "-~" or any(sign in target[0] for sign in "*?["):
                return True
            # Whether it gets there is not known, so it may also be where it was.
            folders = list(dict.fromkeys([*folders, *(absolute(target[0], folder) for folder in folders)]))
            if len(folders) > _MOST_FOLDERS:
                return True
    seen: set[str] = set()
    try:
        return any(_is_wild(tree, seen) for folder in folders for tree in _upwards(os.path.realpath(folder)))
    except (OSError, ValueError):
        return True


def _upwards(folder: str) -> Iterator[str]:
    """The folder and all above it. Git uses the nearest repository that is in order, and only git knows which one that
    is."""
    yield folder
    while (parent := os.path.dirname(folder)) != folder:
        yield parent
        folder = parent


def _is_wild(tree: str, seen: set[str]) -> bool:
    """Is `tree` a working tree whose repository, or that of a submodule, names a program? Or a bare repository?"""
    if tree in seen:
        return False
    seen.add(tree)
    if len(seen) > _MOST_REPOSITORIES:
        return True
    if all(os.path.lexists(f"{tree}/{name}") for name in ("HEAD", "objects", "refs")):
        return True
    if not os.path.lexists(f"{tree}/.git"):
        return False
    folder = _repository(tree)
    common = _line(f"{folder}/commondir")
    places = [folder, absolute(common, folder)] if common else [folder]
    settings = [
        _content(f"{place}/{name}", _MOST_SETTINGS) for place in places for name in ("config", "config.worktree")
    ]
    if any(_RUNS.search(text) for text in settings):
        return True
    if any(_LAZY.search(text) for text in settings) and any(_FETCH_RUNS.search(text) for text in settings):
        return True
    submodules = _submodules(folder)
    if (submodules or os.path.isdir(f"{tree}/.git")) and any(_WORKTREE.search(text) for text in settings):
        return True  # the files are elsewhere; those of a submodule always say where they are
    return any(_is_wild(os.path.realpath(f"{tree}/{path}"), seen) for path in submodules)


def _repository(tree: str) -> str:
    path = f"{tree}/.git"
    if os.path.isdir(path):
        return path
    line = _line(path)
    if not line.startswith("gitdir:"):
        raise ValueError(f"{path} leads nowhere")
    return absolute(line.removeprefix("gitdir:").strip(), tree)


def _submodules(folder: str) -> list[str]:
    """The paths of other repositories that the index has; ValueError when they cannot be told."""
    found: list[str] = []
    names = os.listdir(folder)
    for name in ["index", *(name for name in names if name.startswith("sharedindex."))]:
        index = _content(f"{folder}/{name}", _MOST_INDEX)
        at = index.find(_SUBMODULE_MODE)
        while at >= 0:
            if index[4:8] not in (b"\0\0\0\2", b"\0\0\0\3") or _has_long_ids(folder):
                raise ValueError("an index of a kind that is not read here")
            entry = at - _MODE_AT
            if entry >= 0:
                start = entry + _NAME_AT + (2 if index[entry + _FLAGS_AT] & 0x40 else 0)
                found.append(os.fsdecode(index[start : index.find(b"\0", start)]))
            at = index.find(_SUBMODULE_MODE, at + 1)
    return [path for path in found if path and len(path) < 4096]


def _has_long_ids(folder: str) -> bool:
    return re.search(rb"(?i)\bobjectformat\s*=", _content(f"{folder}/config", _MOST_SETTINGS)) is not None


def _line(path: str) -> str:
    return os.fsdecode(_content(path, _MOST_SETTINGS).split(b"\n", 1)[0]).strip()


def _content(path: str, most: int) -> bytes:
    """The bytes of a regular file; none if there is no file. Raises OSError or ValueError when it cannot be read to its
    end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            raise ValueError(f"{path} is not an ordinary file, or it is too large")
        return file.read(most)
