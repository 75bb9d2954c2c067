"""Blocks between tags that stand alone on their lines, found while the text streams. Generic over the tags.

At the start of a line characters are held back while they may still become a tag; the rest of a line streams freely.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Kind = Literal["text", "start", "inner", "end"]


class Piece(msgspec.Struct, frozen=True):
    """A part of the text: outside of any block, inside of one, or where one begins or ends."""

    kind: Kind
    text: str = ""
    name: str = ""
    """Which block; empty outside."""


class TagParser:
    """`tags` are the opening and the closing tag by name. Blocks do not nest."""

    def __init__(self, tags: Mapping[str, tuple[str, str]]) -> None:
        self._tags = tags
        self._every_tag = [tag for pair in tags.values() for tag in pair]
        self._held = ""
        """The beginning of a line that may become a tag."""
        self._is_at_start = True
        self._name = ""
        """The block that is open."""

    def feed(self, text: str) -> list[Piece]:
        """What is certain after one more piece of text."""
        pieces: list[Piece] = []
        while text:
            line, newline, text = text.partition("\n")
            part = line + newline
            if not self._is_at_start:
                pieces.append(self._plain(part))
                self._is_at_start = bool(newline)
                continue
            self._held += part
            if newline:
                pieces.append(self._line())
            elif not self._may_become_a_tag():
                pieces.append(self._plain(self._held))
                self._held = ""
                self._is_at_start = False
        return _merged(pieces)

    def finish(self) -> list[Piece]:
        """The text has ended: what was held back, and the end of a block that was left open."""
        pieces = [self._line()] if self._held else []
        if self._name:
            pieces.append(Piece("end", name=self._name))
            self._name = ""
        self._is_at_start = True
        return _merged(pieces)

    def _may_become_a_tag(self) -> bool:
        begun = self._held.lstrip()
        return any(tag.startswith(begun) or tag == begun.rstrip() for tag in self._every_tag)

    def _line(self) -> Piece:
        """The held line as what it is. A tag that does not fit is text."""
        line, self._held = self._held, ""
        word = line.strip()
        if self._name:
            if word == self._tags[self._name][1]:
                name, self._name = self._name, ""
                return Piece("end", name=name)
        else:
            for name, (opening, _) in self._tags.items():
                if word == opening:
                    self._name = name
                    return Piece("start", name=name)
        return self._plain(line)

    def _plain(self, text: str) -> Piece:
        return Piece("inner", text, self._name) if self._name else Piece("text", text)


def _merged(pieces: list[Piece]) -> list[Piece]:
    merged: list[Piece] = []
    for piece in pieces:
        if merged and piece.text and (merged[-1].kind, merged[-1].name) == (piece.kind, piece.name):
            merged[-1] = Piece(piece.kind, merged[-1].text + piece.text, piece.name)
        else:
            merged.append(piece)
    return merged
