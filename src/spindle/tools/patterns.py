"""Regular expressions in words that every engine knows.

Needs nothing but the standard library, because the search without ripgrep runs on its own.
"""

from __future__ import annotations

import re

_PIECE = re.compile(r"\\.|\[\^?\]?|\]|\(\?<(?![=!])|.", re.DOTALL)
"""An escaped character, the begin of a class (with the `]` that may be its first member), its end, a named group."""


def with_portable_groups(pattern: str) -> str:
    """`(?<name>…)` as `(?P<name>…)`, the only spelling that ripgrep before version 14 and Python understand."""
    pieces: list[str] = []
    depth = 0  # classes may lie within classes
    for piece in _PIECE.findall(pattern):
        if piece.startswith("["):
            depth += 1
        elif piece == "]":
            depth = max(0, depth - 1)
        elif piece == "(?<" and not depth:
            piece = "(?P<"
        pieces.append(piece)
    return "".join(pieces)
