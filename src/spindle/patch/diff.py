"""Differences as people read them: short ones for events, and one git-style diff over a whole turn.

Nothing here is read back by the program.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

_NO_BLOB = "0" * 40
_MAX_CANDIDATE_PAIRS = 2_000_000
"""Above this many pairs of equal lines the search for a small diff would stall the session."""

_Opcode = tuple[str, int, int, int, int]


def unified_diff(old: str, new: str, *, context: int = 1) -> str:
    """The hunks that lead from `old` to `new`, without file header lines; empty when they are equal."""
    old_lines, new_lines = _split(old), _split(new)
    parts: list[str] = []
    for group in _groups(old_lines, new_lines, context):
        first, last = group[0], group[-1]
        parts.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n")
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                parts += [_line(" ", line) for line in old_lines[old_start:old_end]]
                continue
            parts += [_line("-", line) for line in old_lines[old_start:old_end]]
            parts += [_line("+", line) for line in new_lines[new_start:new_end]]
    return "".join(parts)


def _split(text: str) -> list[str]:
    """Lines with their newline; only "\\n" ends a line."""
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _line(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


def _range(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _groups(old: list[str], new: list[str], context: int) -> Iterator[list[_Opcode]]:
    """Runs of opcodes that belong into one hunk, with `context` equal lines around each change."""
    group: list[_Opcode] = []
    for code in _opcodes(old, new):
        tag, old_start, old_end, new_start, _ = code
        if tag != "equal":
            group.append(code)
            continue
        if group and old_end - old_start > 2 * context:
            group.append((tag, old_start, old_start + context, new_start, new_start + context))
            yield _trimmed(group, context)
            group = []
        group.append(code)
    if any(code[0] != "equal" for code in group):
        yield _trimmed(group, context)


def _trimmed(group: list[_Opcode], context: int) -> list[_Opcode]:
    tag, old_start, old_end, new_start, new_end = group[0]
    if tag == "equal":
        keep = min(context, old_end - old_start)
        group[0] = (tag, old_end - keep, old_end, new_end - keep, new_end)
    tag, old_start, old_end, new_start, new_end = group[-1]
    if tag == "equal":
        keep = min(context, old_end - old_start)
        group[-1] = (tag, old_start, old_start + keep, new_start, new_start + keep)
    return [code for code in group if code[0] != "equal" or code[1] < code[2]]


def _opcodes(old: list[str], new: list[str]) -> Iterator[_Opcode]:
    head, shorter = 0, min(len(old), len(new))
    while head < shorter and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_end, new_end = len(old) - tail, len(new) - tail
    if head:
        yield "equal", 0, head, 0, head
    for tag, a, b, c, d in _middle_opcodes(old[head:old_end], new[head:new_end]):
        yield tag, a + head, b + head, c + head, d + head
    if tail:
        yield "equal", old_end, len(old), new_end, len(new)


def _middle_opcodes(old: list[str], new: list[str]) -> list[_Opcode]:
    if not old and not new:
        return []
    counts: dict[str, int] = {}
    for line in new:
        counts[line] = counts.get(line, 0) + 1
    pairs = sum(counts.get(line, 0) for line in old)
    if pairs == 0 or pairs > _MAX_CANDIDATE_PAIRS:
        return [("replace", 0, len(old), 0, len(new))]
    from difflib import SequenceMatcher  # slow to import, and few changes need it

    return list(SequenceMatcher(None, old, new).get_opcodes())


class _Tracked(msgspec.Struct):
    before: bytes | None
    now: bytes | None
    before_mode: int
    mode: int
    rendered: tuple[str, str] | None = None
    """The shown name and the diff under it, until the file changes again."""

    @property
    def is_changed(self) -> bool:
        return self.before != self.now or (self.now is not None and _git_mode(self.before_mode) != _git_mode(self.mode))


class TurnDiffTracker:
    """What the patches of one turn changed, from before the first to after the last."""

    def __init__(self) -> None:
        self._files: dict[str, _Tracked] = {}

    def record(
        self, path: str, old: bytes | None, new: bytes | None, *, mode: int = 0o644, before_mode: int | None = None
    ) -> None:
        """`path` (absolute) held `old` and holds `new`; None means there is no file. `mode` is its permission bits.

        The content of a link is where it points to, and its mode says that it is one (0o120000).
        """
        known = self._files.get(path)
        if known is None:
            self._files[path] = _Tracked(old, new, mode if before_mode is None else before_mode, mode)
        else:
            known.now, known.mode, known.rendered = new, mode, None

    def render(self, git_root: str) -> str:
        """One git-style diff, sorted by path, with paths relative to `git_root`; empty when nothing is different."""
        parts: list[str] = []
        for path in sorted(self._files):
            file = self._files[path]
            if not file.is_changed:
                continue
            name = _name(path, git_root)
            if file.rendered is None or file.rendered[0] != name:
                file.rendered = (name, _render(name, file))
            parts.append(file.rendered[1])
        return "".join(parts)


def _name(path: str, git_root: str) -> str:
    prefix = git_root.rstrip(os.sep) + os.sep
    return path[len(prefix) :] if path.startswith(prefix) else path.lstrip(os.sep)


def _render(name: str, file: _Tracked) -> str:
    old_name, new_name = _quoted(f"a/{name}"), _quoted(f"b/{name}")
    parts = [f"diff --git {old_name} {new_name}\n"]
    if file.before is None:
        old_name = "/dev/null"
        parts.append(f"new file mode {_git_mode(file.mode)}\n")
    elif file.now is None:
        new_name = "/dev/null"
        parts.append(f"deleted file mode {_git_mode(file.before_mode)}\n")
    elif (old_mode := _git_mode(file.before_mode)) != (new_mode := _git_mode(file.mode)):
        parts.append(f"old mode {old_mode}\nnew mode {new_mode}\n")
        if file.before == file.now:
            return "".join(parts)
    parts.append(f"index {_blob_id(file.before)}..{_blob_id(file.now)}")
    parts.append(f" {_git_mode(file.mode)}\n" if file.before is not None and file.now is not None else "\n")
    old, new = _text(file.before), _text(file.now)
    if old is None or new is None:
        parts.append(f"Binary files {old_name} and {new_name} differ\n")
    elif hunks := unified_diff(old, new, context=3):
        parts.append(f"--- {old_name}\n+++ {new_name}\n{hunks}")
    return "".join(parts)


def _git_mode(mode: int) -> str:
    if mode & 0o170000 == 0o120000:
        return "120000"
    return "100755" if mode & 0o100 else "100644"


def _quoted(name: str) -> str:
    """Git's form of a name that would break the header line."""
    if not any(letter in '"\\' or letter < " " for letter in name):
        return name
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
    return '"' + "".join(escapes.get(c, f"\\{ord(c):03o}" if c < " " else c) for c in name) + '"'


def _blob_id(content: bytes | None) -> str:
    if content is None:
        return _NO_BLOB
    from hashlib import sha1  # slow to import, and only diffs with blob ids need it

    return sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _text(content: bytes | None) -> str | None:
    """None for what git would call binary."""
    if content is None:
        return ""
    if b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
