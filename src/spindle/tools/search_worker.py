"""A search without ripgrep: a program of its own, so that an expression that takes forever can be ended.

    python search_worker.py PATTERN INCLUDE ROOT

Prints the path of every file that holds PATTERN, each followed by a null byte, as ripgrep does: ignore files are
honoured, hidden and binary files skipped, links not followed; INCLUDE, if not empty, overrides all that. Exit code 0
with matches, 1 without, 2 when the pattern is wrong.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator

sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from spindle.tools.ignore_rules import Globs, Ignores
from spindle.tools.patterns import with_portable_groups

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HEAD = 65_536
_WHOLE_BYTES = 64 << 20
"""Of a larger file the rest is not searched."""


def main(pattern: str, include: str, root: str) -> int:
    try:
        test = re.compile(_in_python(pattern), re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        sys.stderr.write(f"the regular expression cannot be used: {error}\n")
        return 2
    globs = Globs(include) if include else None
    found = False
    for path, folder, name in files_below(root, globs):
        if has_match(test, name, folder):
            found = True
            sys.stdout.buffer.write(os.fsencode(path) + b"\0")
    sys.stdout.flush()
    return 0 if found else 1


def files_below(root: str, globs: Globs | None) -> Iterator[tuple[str, int, str]]:
    """Path, opened folder and name of every file to look at."""
    if not os.path.isdir(root):
        folder = os.open(os.path.dirname(root), _FOLDER)
        yield root, folder, os.path.basename(root)
        os.close(folder)
        return
    top = os.open(root, _FOLDER)
    try:
        yield from _walk(top, root, (), Ignores.at(root), globs, os.fstat(top).st_dev if root == "/" else None)
    finally:
        os.close(top)


def _walk(
    folder: int, path: str, parts: tuple[str, ...], ignores: Ignores, globs: Globs | None, device: int | None
) -> Iterator[tuple[str, int, str]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        name = entry.name
        whole, inner_parts = f"{path.rstrip('/')}/{name}", (*parts, name)
        if entry.is_dir(follow_symlinks=False):
            if name.startswith(".") or ignores.hides(name, True) or (globs and globs.excludes_folder(inner_parts)):
                continue
            try:
                inner = os.open(name, _FOLDER, dir_fd=folder)
            except OSError:
                continue
            try:
                if device is None or os.fstat(inner).st_dev == device:
                    yield from _walk(inner, whole, inner_parts, ignores.below(name, inner), globs, device)
            except OSError:
                pass
            finally:
                os.close(inner)
        elif entry.is_file(follow_symlinks=False):
            wanted = globs.verdict(inner_parts) if globs is not None else None
            if wanted is None:
                wanted = not name.startswith(".") and not ignores.hides(name, False)
            if wanted:
                yield whole, folder, name


def has_match(test: re.Pattern[str], name: str, folder: int) -> bool:
    try:
        fd = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return False
        data = os.read(fd, _HEAD)
        if b"\0" in data:
            return False
        if len(data) == _HEAD:
            with open(fd, "rb", closefd=False) as file:
                data += file.read(_WHOLE_BYTES)
    except OSError:
        return False
    finally:
        os.close(fd)
    text = data.decode("utf-8", "replace")
    found = test.search(text)
    if found is None:
        return False
    # A match is one within a line; only such that span lines need a second look.
    return "\n" not in found[0] or any(test.search(line) for line in text.split("\n"))


def _in_python(pattern: str) -> str:
    r"""Named groups and the end of the text are written otherwise here: `(?<name>…)` and `\z`."""
    return re.sub(r"(?<!\\)\\z", r"\\Z", with_portable_groups(pattern))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
