"""What a turn did to files, net: the git-style diff over the whole turn, file by file."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from spindle.api.shown import Change
from spindle.policy.sandbox import is_inside
from spindle.workspace.git import find_repository

_SECTION = re.compile(r"^diff --git ", re.MULTILINE)
_HEADER = re.compile(r'(?P<old>"(?:[^"\\]|\\.)*"|a/.*) (?P<new>"(?:[^"\\]|\\.)*"|b/.*)')
_ESCAPED = re.compile(r"\\(?:([0-7]{3})|(.))")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


def net_changes(diff: str, touched: Mapping[str, str | None], cwd: str, extra: Sequence[str] = ()) -> list[Change]:
    """One change for each file that is not as it was; `touched` are the paths that patches named, and new paths.

    `extra` are folders outside of the work tree that commands may write too.
    """
    root = find_repository(cwd) or os.path.realpath(cwd)
    paths = {path for pair in touched.items() for path in pair if path is not None}
    beyond = [os.path.realpath(folder) for folder in extra]
    changes = (_change(part, root, paths, beyond) for part in _sections(diff))
    found = {change.path: change for change in changes if change is not None}
    for old, new in touched.items():
        if new is None:
            continue
        gone, come = found.get(old), found.get(new)
        if gone is not None and come is not None and (gone.kind, come.kind) == ("delete", "add"):
            del found[new]
            text = (gone.diff or "") + (come.diff or "")
            found[old] = Change(path=old, kind="update", diff=text, move_path=new)
    return list(found.values())


def _sections(diff: str) -> list[str]:
    starts = [match.start() for match in _SECTION.finditer(diff)]
    ends = [*starts[1:], len(diff)] if starts else []  # what was changed and changed back leaves an empty diff
    return [diff[start:end] for start, end in zip(starts, ends, strict=True)]


def _change(section: str, root: str, paths: Collection[str], beyond: Sequence[str]) -> Change | None:
    first, _, rest = section.partition("\n")
    name = _name(first.removeprefix("diff --git "))
    if name is None:
        return None
    kind: Literal["add", "update", "delete"] = "update"
    if rest.startswith("new file mode"):
        kind = "add"
    elif rest.startswith("deleted file mode"):
        kind = "delete"
    inside, outside = f"{root}/{name}", f"/{name}"
    # A path outside of the repository is written without its first slash.
    is_outside = inside not in paths and (outside in paths or is_inside(outside, beyond))
    return Change(path=outside if is_outside else inside, kind=kind, diff=section)


def _name(header: str) -> str | None:
    """The name in a header line; both sides have the same one."""
    if header.startswith('"'):
        match = _HEADER.fullmatch(header)
        if match is None:
            return None
        return _ESCAPED.sub(_unescaped, match["new"][1:-1])[2:]
    middle = len(header) // 2
    return header[middle + 3 :] if header[:middle][2:] == header[middle + 3 :] else None


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 8)) if match[1] else _ESCAPES.get(match[2], match[2])
