"""What a repository's settings name in its working tree that git runs or obeys: hooks, more settings, submodules."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

_LINE = re.compile(r"\s*(?:\[\s*([\w.-]+)[^\]]*\]\s*)?(?:([A-Za-z][\w-]*)\s*=\s*(.*))?")
_NAMED = {("core", "hookspath"), ("include", "path"), ("includeif", "path")}
_LIMIT = 1 << 16
_MOST_SUBMODULES = 100


def named_paths(text: str, *, settings: str, tree: str) -> list[str]:
    """Absolute paths that the text of a `config` file names; `settings` is its folder, `tree` the working tree."""
    found: list[str] = []
    for section, key, value in _entries(text):
        if (section, key) not in _NAMED or not value or value.startswith(("~", "%")):
            continue
        path = _path(value, tree if section == "core" else settings)
        # Nothing can stand for settings that do not exist: git would try to read it, and fail.
        if section == "core" or os.path.isfile(path):
            found.append(path)
    return found


def submodule_pointers(repository: str) -> list[str]:
    """The `.git` files of submodules: git looks into those when it is asked for the state of the whole tree, and runs
    what the settings say that they lead to."""
    found: list[str] = []
    for folder, below, files in os.walk(f"{repository}/modules"):
        if "config" not in files:
            continue
        below[:] = [name for name in below if name == "modules"]
        try:
            with open(f"{folder}/config", encoding="utf-8", errors="surrogateescape") as file:
                text = file.read(_LIMIT)
        except OSError:
            continue
        trees = [value for section, key, value in _entries(text) if (section, key) == ("core", "worktree") and value]
        found += [path for tree in trees if os.path.isfile(path := f"{_path(tree, folder)}/.git")]
        if len(found) >= _MOST_SUBMODULES:
            break
    return found


def _entries(text: str) -> Iterator[tuple[str, str, str]]:
    section = ""
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is not None:
            section = (match[1] or section).lower()
            yield section, (match[2] or "").lower(), _value(match[3] or "")


def _path(value: str, folder: str) -> str:
    return os.path.normpath(value if value.startswith("/") else f"{folder}/{value}")


def _value(text: str) -> str:
    """A value without its quotes and what is said about it."""
    quoted = re.match(r'"((?:[^"\\]|\\.)*)"', text)
    plain = quoted[1].replace('\\"', '"').replace("\\\\", "\\") if quoted else re.split(r"[;#]", text, maxsplit=1)[0]
    return plain.strip()
