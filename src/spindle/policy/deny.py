"""Files nobody may read: the globs of `deny_read`, matched and found.

`*` and `?` stay within one component, `**` crosses any number of them. Whatever lies below a match is denied with it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from spindle.errors import SandboxUnavailable

MAX_FOLDERS = 20_000
"""How many folders one look for matches may enter. Beyond, the sandbox refuses rather than miss one."""
MAX_INNER_FOLDERS = 2000
"""How many denied folders are looked through for files that have another name outside of them."""


def absolute_patterns(patterns: Sequence[str], folders: Sequence[str]) -> tuple[str, ...]:
    """Each pattern as an absolute one; a relative one holds below each of `folders`.

    A pattern that begins at a link holds where the link is, and where it leads to.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        for start in ("",) if pattern.startswith("/") else folders:
            whole = os.path.normpath(f"{escape(start)}/{pattern.lstrip('/')}")
            found[whole] = None
            fixed, rest = _fixed_part(whole)
            found[os.path.normpath(f"{escape(os.path.realpath(fixed)).rstrip('/')}/{rest}")] = None
    return tuple(found)


Planted = Callable[[str, Sequence[str]], bool]


def is_glob(pattern: str) -> bool:
    return any(character in pattern for character in "*?[")


def escape(path: str) -> str:
    """A pattern that means this path and no other, whatever characters are in it."""
    return re.sub(r"([*?[])", r"[\1]", path) if is_glob(path) else path


def only_path(pattern: str) -> str | None:
    """The one path that a pattern means; None when it has wild cards."""
    if not is_glob(pattern):
        return pattern
    return None if is_glob(re.sub(r"\[[*?[]\]", "", pattern)) else re.sub(r"\[([*?[])\]", r"\1", pattern)


def matches(pattern: str, path: str) -> bool:
    """Does the pattern name this very path? `path` must be resolved."""
    return _compiled(pattern).fullmatch(path) is not None


def is_denied(path: str, patterns: Sequence[str]) -> bool:
    """Does a pattern match `path` or a folder it is in? `path` must be resolved."""
    if not patterns:
        return False
    tests = [_compiled(pattern) for pattern in patterns]
    while True:
        if any(test.fullmatch(path) for test in tests):
            return True
        parent = os.path.dirname(path)
        if parent == path:
            return False
        path = parent


def find_denied(patterns: Sequence[str]) -> list[str]:
    """What exists now and matches, as resolved paths; nothing below a match. Raises when there is too much."""
    found: dict[str, None] = {}
    folders_left = MAX_FOLDERS
    for pattern in patterns:
        fixed, rest = _fixed_part(pattern)
        if not rest:
            if os.path.lexists(fixed):
                found[os.path.realpath(fixed)] = None
            continue
        test = _compiled(pattern)
        deepest = len(pattern.split("/")) if "**" not in rest else 0
        for path, is_match in _walk(fixed, test, deepest):
            if is_match:
                found[os.path.realpath(path)] = None
            folders_left -= 1
            if folders_left < 0:
                raise SandboxUnavailable(
                    f"the deny_read pattern {pattern} would have to look into more than {MAX_FOLDERS} folders, so "
                    "nothing was run; name the folder more exactly"
                )
    return sorted(found)


def find_below(folder: str, patterns: Sequence[str]) -> list[str]:
    """What exists below a folder and matches, also inside of what matches itself. Raises when there is too much."""
    tests = [_compiled(pattern) for pattern in patterns]
    found: list[str] = []
    folders_left = MAX_FOLDERS
    for path, folders, files in os.walk(folder):
        folders_left -= 1
        if folders_left < 0:
            raise SandboxUnavailable(
                f"looking for denied files below {folder} takes more than {MAX_FOLDERS} folders, so nothing was run; "
                "allow less than the whole folder"
            )
        found += [name for name in (f"{path}/{name}" for name in (*folders, *files)) if _is_match(name, tests)]
    return found


def _is_match(path: str, tests: Sequence[re.Pattern[str]]) -> bool:
    return any(test.fullmatch(path) for test in tests)


def with_several_names(paths: Sequence[str]) -> set[tuple[int, int]]:
    """Device and inode of the files at `paths`, and in those that are folders, which have other names somewhere.

    Folders are looked through as far as `MAX_INNER_FOLDERS` goes.
    """
    wanted: set[tuple[int, int]] = set()
    folders_left = MAX_INNER_FOLDERS
    for path in paths:
        _note_names(path, wanted)
        for folder, _, names in os.walk(path):
            folders_left -= 1
            if folders_left < 0:
                return wanted
            for name in names:
                _note_names(f"{folder}/{name}", wanted)
    return wanted


def _note_names(path: str, wanted: set[tuple[int, int]]) -> None:
    try:
        status = os.lstat(path)
    except OSError:
        return
    if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        wanted.add((status.st_dev, status.st_ino))


def other_names(paths: Sequence[str], folders: Sequence[str]) -> list[str]:
    """Further names, below `folders`, of files with several names that are denied: `paths`, and what is in them."""
    wanted = with_several_names(paths)
    if not wanted:
        return []
    found: list[str] = []
    folders_left = MAX_FOLDERS
    for folder in folders:
        for path, below, names in os.walk(folder):
            below[:] = [name for name in below if f"{path}/{name}" not in paths]
            folders_left -= 1
            if folders_left < 0:
                raise SandboxUnavailable(
                    f"a file that deny_read names has several names, and looking for them below {folder} takes more "
                    f"than {MAX_FOLDERS} folders, so nothing was run; remove some of those, or the file's other names"
                )
            for name in names:
                try:
                    status = os.lstat(f"{path}/{name}")
                except OSError:
                    continue  # it went away meanwhile
                if (status.st_dev, status.st_ino) in wanted and f"{path}/{name}" not in paths:
                    found.append(f"{path}/{name}")
    return found


def absent(patterns: Sequence[str]) -> list[str]:
    """Patterns that name one path which does not exist."""
    paths = [path for pattern in patterns if (path := only_path(pattern)) is not None]
    return [path for path in paths if not os.path.lexists(path)]


def _walk(folder: str, test: re.Pattern[str], deepest: int) -> Iterator[tuple[str, bool]]:
    """Every match below `folder`, and every folder that had to be entered; links are not followed.

    A folder of ours that cannot be listed counts as a match: whoever closed it can open it again.
    """
    try:
        entries = list(os.scandir(folder))
    except PermissionError:
        if _may_be_ours(folder):
            yield folder, True
        return
    except OSError:
        return
    for entry in entries:
        if test.fullmatch(entry.path):
            yield entry.path, True
        elif entry.is_dir(follow_symlinks=False) and (not deepest or entry.path.count("/") < deepest - 1):
            yield entry.path, False
            yield from _walk(entry.path, test, deepest)


def _may_be_ours(folder: str) -> bool:
    try:
        return os.lstat(folder).st_uid == os.getuid()
    except OSError:
        return True


def _fixed_part(pattern: str) -> tuple[str, str]:
    """The leading components without a wild card, and the rest."""
    parts = pattern.split("/")
    fixed: list[str] = []
    for at, part in enumerate(parts):
        if (name := only_path(part)) is None:
            return "/".join(fixed) or "/", "/".join(parts[at:])
        fixed.append(name)
    return "/".join(fixed) or "/", ""


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern, re.escape, _in_class))


def _in_class(text: str) -> str:
    return text.replace("\\", "\\\\").replace("[", "\\[")


def translate(pattern: str, literal: Callable[[str], str], in_class: Callable[[str], str]) -> str:
    """A glob as an extended regular expression.

    `literal` and `in_class` write a character, and the inside of brackets, as the dialect at hand wants them.
    """
    result = ""
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            result += "([^/]+/)*"
            at += 3
        elif pattern.startswith("**", at):
            result += "([^/]|/)*"
            at += 2
        elif pattern[at] == "*":
            result += "[^/]*"
            at += 1
        elif pattern[at] == "?":
            result += "[^/]"
            at += 1
        elif pattern[at] == "[" and (end := pattern.find("]", at + 2)) > 0:
            inside = in_class(pattern[at + 1 : end])
            result += f"[^{inside[1:]}]" if inside[:1] in ("!", "^") else f"[{inside}]"
            at = end + 1
        else:
            result += literal(pattern[at])
            at += 1
    return result
