"""What stands at a path at one moment: content by its digest, executable bits, the target of a link, or nothing.

An image holds no content; the store has that, under the digest. Folders have images too, so that those which a turn
made go with it and those it removed come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

Kind = Literal["file", "link", "folder", "absent", "other"]
_LETTERS: dict[str, Kind] = {"f": "file", "l": "link", "d": "folder", "a": "absent", "o": "other"}
_OF_KIND = {kind: letter for letter, kind in _LETTERS.items()}
EXECUTABLE = 0o111
_FIELD_TYPES = [str, str, int, str, int, str]


class Image(msgspec.Struct, frozen=True):
    """What stands at a path. `other` is what cannot be kept: a socket, a pipe, a device."""

    kind: Kind
    digest: str = ""
    """Of a file's content; empty when the content is not kept."""
    mode: int = 0
    """Permission bits of a file or a folder."""
    target: str = ""
    """Where a link points."""
    size: int = 0
    why: str = ""
    """Why the content of a file is not kept."""

    @property
    def is_kept(self) -> bool:
        """It can be put back."""
        return self.kind != "other" and (self.kind != "file" or bool(self.digest))

    def is_same(self, other: Image) -> bool:
        """Equal for a person: the same content, link, folder or absence; of the mode only what makes it run."""
        if self.kind != other.kind:
            return False
        if self.kind == "file":
            same_bits = self.mode & EXECUTABLE == other.mode & EXECUTABLE
            return bool(self.digest) and self.digest == other.digest and same_bits
        return self.target == other.target if self.kind == "link" else self.kind != "other"

    def to_json(self) -> list[Any]:
        fields: list[Any] = [_OF_KIND[self.kind], self.digest, self.mode, self.target, self.size, self.why]
        while len(fields) > 1 and not fields[-1]:
            fields.pop()
        return fields

    @classmethod
    def from_json(cls, fields: Any) -> Image:
        """Raises TypeError or LookupError for what `to_json` does not give: a file of ours may be damaged."""
        if not isinstance(fields, list) or [type(field) for field in fields] != _FIELD_TYPES[: len(fields)]:
            raise TypeError("not the fields of an image")
        return cls(_LETTERS[fields[0]], *fields[1:])


ABSENT = Image("absent")


class Change(msgspec.Struct, frozen=True):
    """One path, before and after a turn or a part of it."""

    path: str
    """Absolute."""
    before: Image
    after: Image

    @property
    def is_about_folder(self) -> bool:
        """Nothing but a folder came or went."""
        return {self.before.kind, self.after.kind} == {"folder", "absent"}

    @property
    def kind(self) -> Literal["add", "update", "delete"]:
        """For people, who count files and links."""
        was_there = self.before.kind not in ("absent", "folder")
        is_there = self.after.kind not in ("absent", "folder")
        return "update" if was_there and is_there else "add" if is_there else "delete"

    def to_json(self) -> list[Any]:
        return [self.path, self.before.to_json(), self.after.to_json()]

    @classmethod
    def from_json(cls, fields: Sequence[Any]) -> Change:
        return cls(absolute(fields[0]), Image.from_json(fields[1]), Image.from_json(fields[2]))


def absolute(path: Any) -> str:
    """A path from a file of ours, which may be damaged. Raises ValueError for what is none."""
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        raise ValueError("not an absolute path")
    return path


def net_of(changes: Iterable[Change]) -> list[Change]:
    """One change for each path that is not as it was."""
    first: dict[str, Change] = {}
    for change in changes:
        known = first.get(change.path)
        first[change.path] = change if known is None else Change(change.path, known.before, change.after)
    return [change for change in first.values() if not is_unchanged(change.before, change.after)]


def is_unchanged(before: Image, after: Image) -> bool:
    """The same, as far as anybody can tell."""
    return before.is_same(after) and before.is_kept
