"""Patches to files whose secrets the model has only seen masked: a mask never gets into a file.

Where it is certain which value a mask stands for, the value is put back before the patch is applied: it stays where it
was, and the model never learns it. Where it is not, the patch is refused with a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from spindle.errors import ToolError
from spindle.patch.parse import AddFile, Chunk, DeleteFile, Hunk, UpdateFile
from spindle.policy.secrets import MARK_PATTERN, Secrets, mark


def with_secrets(hunks: Sequence[Hunk], read: Callable[[str], bytes], secrets: Secrets) -> list[Hunk]:
    """The same hunks with values for masks. `read` gives the file that a hunk names. Raises ToolError."""
    return [_restored(hunk, read, secrets) for hunk in hunks]


def _restored(hunk: Hunk, read: Callable[[str], bytes], secrets: Secrets) -> Hunk:
    match hunk:
        case AddFile() if found := re.search(MARK_PATTERN, hunk.content):
            raise _refusal(found[0], hunk.path)
        case UpdateFile() if any(re.search(MARK_PATTERN, text) for chunk in hunk.chunks for _, text in chunk.lines):
            try:
                content = read(hunk.path).decode("utf-8", "surrogateescape")
            except OSError:
                return hunk  # who applies it meets the same error, and can say what it means
            return msgspec.structs.replace(hunk, chunks=_File(hunk.path, content, secrets).restored(hunk.chunks))
        case AddFile() | UpdateFile() | DeleteFile():
            return hunk


class _File:
    """A file as it is, and as the model knows it."""

    def __init__(self, path: str, content: str, secrets: Secrets) -> None:
        self._path = path
        self._content = content
        self._lines: dict[str, set[str]] = {}
        """A masked line → the lines that look like it."""
        self._values: dict[str, set[str]] = {}
        """A mask → the values it stands for here."""
        forms = secrets.forms()
        for line in dict.fromkeys(line.removesuffix("\r") for line in content.split("\n")):
            data = line.encode("utf-8", "surrogateescape")
            spans = forms.spans(data)
            if not spans:
                continue
            self._lines.setdefault(secrets.mask_bytes(data).decode("utf-8", "surrogateescape").rstrip(), set()).add(
                line
            )
            for start, end, name in spans:
                value = data[start:end].decode("utf-8", "surrogateescape")
                self._values.setdefault(mark(name), set()).add(value)

    def restored(self, chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
        return tuple(
            msgspec.structs.replace(chunk, lines=tuple((sign, self._line(sign, text)) for sign, text in chunk.lines))
            for chunk in chunks
        )

    def _line(self, sign: str, text: str) -> str:
        marks = [found for found in re.findall(MARK_PATTERN, text) if found not in self._content]
        if not marks:
            return text  # no mask, or words that the file has itself
        if sign != "+":
            lines = self._lines.get(text.rstrip(), set())
            if len(lines) == 1:
                return next(iter(lines))
            raise _refusal(marks[0], self._path)
        for found in marks:
            values = self._values.get(found, set())
            if len(values) != 1:
                raise _refusal(found, self._path)
            text = text.replace(found, next(iter(values)))
        return text


def _refusal(found: str, path: str) -> ToolError:
    return ToolError(
        f"apply_patch verification failed: {found} in the patch to {path} stands for a secret that was masked, and it "
        "is not certain which one; nothing was changed. Leave such lines out of the patch, or change them by a command."
    )
