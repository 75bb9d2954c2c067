"""What a repository's settings name in its working tree that git runs or obeys: a folder of hooks, more settings."""

from __future__ import annotations

import os
import re

_LINE = re.compile(r"\s*(?:\[\s*([\w.-]+)[^\]]*\]\s*)?(?:([A-Za-z][\w-]*)\s*=\s*(.*))?")
_NAMED = {("core", "hookspath"), ("include", "path"), ("includeif", "path")}


def named_paths(text: str, *, settings: str, tree: str) -> list[str]:
    """Absolute paths that the text of a `config` file names; `settings` is its folder, `tree` the working tree."""
    found: list[str] = []
    section = ""
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        section = (match[1] or section).lower()
        key, value = (match[2] or "").lower(), _value(match[3] or "")
        if (section, key) not in _NAMED or not value or value.startswith(("~", "%")):
            continue
        folder = tree if section == "core" else settings
        path = os.path.normpath(value if value.startswith("/") else f"{folder}/{value}")
        # Nothing can stand for settings that do not exist: git would try to read it, and fail.
        if section == "core" or os.path.isfile(path):
            found.append(path)
    return found


def _value(text: str) -> str:
    """A value without its quotes and what is said about it."""
    quoted = re.match(r'"((?:[^"\\]|\\.)*)"', text)
    plain = quoted[1].replace('\\"', '"').replace("\\\\", "\\") if quoted else re.split(r"[;#]", text, maxsplit=1)[0]
    return plain.strip()
