"""What `.gitignore`, `.ignore` and `.rgignore` say about the files below a folder.

The files may be hostile: only regular ones of a sane size are read, links are not followed, and no pattern takes more
than linear time. Needs nothing but the standard library, because the search without ripgrep runs on its own.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence

_FILE_BYTES = 1 << 18
_OF_A_REPOSITORY = ".gitignore"
IGNORE_FILES = (_OF_A_REPOSITORY, ".ignore", ".rgignore")
"""Later ones have the last word. The first counts only inside a repository, as it does for git."""
_NOTHING = r"(?!)"


class _Pattern:
    """One line of an ignore file."""

    __slots__ = ("_is_anchored", "_segments", "is_negated", "only_folders")

    def __init__(self, line: str) -> None:
        self.is_negated = line.startswith("!")
        line = line[1:] if self.is_negated else line
        self.only_folders = line.endswith("/")
        line = line.removesuffix("/")
        self._is_anchored = "/" in line
        parts = line.removeprefix("/").split("/")
        self._segments = [_compiled(part) for part in parts] if all(parts) else []

    def matches(self, parts: Sequence[str], is_folder: bool) -> bool:
        if not self._segments or (self.only_folders and not is_folder):
            return False
        return _match(self._segments, parts if self._is_anchored else parts[-1:])


def _match(segments: Sequence[re.Pattern[str] | None], parts: Sequence[str]) -> bool:
    """Do the segments cover all parts? None stands for any number of parts; the usual greedy match of wild cards."""
    at = segment = 0
    star, resume = -1, 0
    while at < len(parts):
        current = segments[segment] if segment < len(segments) else False
        if current is None:
            star, resume = segment, at
            segment += 1
        elif current and current.match(parts[at]):
            at += 1
            segment += 1
        elif star >= 0:
            resume += 1
            at, segment = resume, star + 1
        else:
            return False
    # A `**` that is left over has nothing to cover: `a/**` is about what is in `a`, not about `a`.
    return segment == len(segments)


def _compiled(part: str) -> re.Pattern[str] | None:
    if part == "**":
        return None
    try:
        return re.compile(_translated(part), re.DOTALL)
    except re.error:
        return re.compile(_NOTHING)  # such as a range that runs backwards


def _translated(part: str) -> str:
    """A glob of one component as an expression. Each star takes as little as it can and never reconsiders, but for the
    last one: enough to find every match, and linear."""
    pieces = [""]
    at = 0
    while at < len(part):
        char = part[at]
        at += 1
        if char == "*":
            pieces.append("")
        elif char == "?":
            pieces[-1] += "."
        elif char == "[":
            found, at = _bracket(part, at)
            if not found:
                return _NOTHING
            pieces[-1] += found
        else:
            if char == "\\" and at < len(part):
                char, at = part[at], at + 1
            pieces[-1] += re.escape(char)
    first, *rest = pieces
    if not rest:
        return first + r"\Z"
    return first + "".join(f"(?>.*?{piece})" for piece in rest[:-1]) + f".*{rest[-1]}\\Z"


def _bracket(part: str, at: int) -> tuple[str, int]:
    """The set of characters whose first one is at `at`, and where it ends; "" when it does not."""
    is_negated = part[at : at + 1] in ("!", "^")
    at += is_negated
    inside = ""
    while at < len(part):
        char = part[at]
        at += 1
        if char == "]" and inside:
            return f"[{'^' if is_negated else ''}{inside}]", at
        if char == "\\" and at < len(part):
            char, at = part[at], at + 1
            inside += re.escape(char)
        else:
            inside += char if char == "-" else re.escape(char)
    return "", at


class IgnoreFile:
    """The patterns of one file."""

    def __init__(self, text: str) -> None:
        lines = (_without_trailing_blanks(line.rstrip("\r")) for line in text.removeprefix("\ufeff").split("\n"))
        self._patterns = [_Pattern(line) for line in lines if line and not line.startswith("#")]

    def verdict(self, parts: Sequence[str], is_folder: bool) -> bool | None:
        """True: ignored. False: explicitly wanted. None: the file does not say. The last word counts.

        `parts` are the components of the path below the folder the file is in.
        """
        for pattern in reversed(self._patterns):
            if pattern.matches(parts, is_folder):
                return not pattern.is_negated
        return None


class Globs:
    """Which files an `include` glob lets through, in ripgrep's sense."""

    def __init__(self, glob: str) -> None:
        self._excludes = glob.startswith("!")
        self._patterns = [_Pattern(one) for one in _expand_braces(glob.removeprefix("!"))]

    def verdict(self, parts: Sequence[str]) -> bool | None:
        """May a file be looked at? None: as the ignore files say."""
        found = any(pattern.matches(parts, False) for pattern in self._patterns)
        return (False if found else None) if self._excludes else found

    def excludes_folder(self, parts: Sequence[str]) -> bool:
        return self._excludes and any(pattern.matches(parts, True) for pattern in self._patterns)


class Ignores:
    """What holds for the entries of one folder: its own files first, then those of the folders above."""

    def __init__(self, above: Ignores | None, parts: tuple[str, ...], folder: int, in_repository: bool) -> None:
        self._above = above
        self._parts = parts
        """The folder, from the top."""
        self._in_repository = in_repository or _exists(".git", folder)
        found = [_read(name, folder) for name in IGNORE_FILES if name != _OF_A_REPOSITORY or self._in_repository]
        self._files = [file for file in reversed(found) if file is not None]

    @classmethod
    def at(cls, path: str) -> Ignores:
        """What holds in the folder `path`, including what its repository says in the folders above it."""
        parts = tuple(part for part in path.split("/") if part)
        root = next((end for end in range(len(parts), -1, -1) if _exists_at(parts[:end], ".git")), len(parts))
        found: Ignores | None = None
        for end in range(root, len(parts) + 1):
            fd = os.open("/" + "/".join(parts[:end]), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                found = cls(found, parts[:end], fd, found is not None and found._in_repository)
            finally:
                os.close(fd)
        assert found is not None
        return found

    def below(self, name: str, folder: int) -> Ignores:
        """What holds in the folder `name` of this one, which is open as `folder`."""
        return Ignores(self, (*self._parts, name), folder, self._in_repository)

    def hides(self, name: str, is_folder: bool) -> bool:
        parts = (*self._parts, name)
        level: Ignores | None = self
        while level is not None:
            below = parts[len(level._parts) :]
            for file in level._files:
                verdict = file.verdict(below, is_folder)
                if verdict is not None:
                    return verdict
            level = level._above
        return False


def _exists_at(parts: Sequence[str], name: str) -> bool:
    return os.path.lexists("/" + "/".join((*parts, name)))


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _read(name: str, folder: int) -> IgnoreFile | None:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return IgnoreFile(os.read(fd, _FILE_BYTES).decode("utf-8", "replace"))
    except OSError:
        return None
    finally:
        os.close(fd)


def _without_trailing_blanks(line: str) -> str:
    stripped = line.rstrip(" ")
    return stripped + " " if stripped.endswith("\\") and stripped != line else stripped


def _expand_braces(glob: str, most: int = 256) -> list[str]:
    """`*.{ts,tsx}` as two globs."""
    waiting, done = [glob], []
    while waiting and len(waiting) + len(done) < most:
        one = waiting.pop()
        found = re.search(r"\{([^{}]*)\}", one)
        if found is None:
            done.append(one)
        else:
            waiting += [one[: found.start()] + choice + one[found.end() :] for choice in found[1].split(",")]
    return done + waiting
