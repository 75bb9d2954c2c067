"""Shell scripts that are nothing but plain words, split into those words.

`split_script` understands only what it can be sure of. Whatever a shell could expand, redirect or run in another way
makes it answer None, and the script then counts as one opaque command.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

SHELLS = ("bash", "zsh", "sh")
MAX_PARTS = 200

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-*?[]~^!")
_KEYWORDS = frozenset(
    (
        *("if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in"),
        *("function", "select", "time", "coproc", "{", "}", "!", "[[", "]]"),
    )
)


def script_of(argv: Sequence[str]) -> str | None:
    """The script of `[bash|zsh|sh, -c|-lc, SCRIPT]`, else None."""
    if len(argv) == 3 and os.path.basename(argv[0]) in SHELLS and argv[1] in ("-c", "-lc"):
        return argv[2]
    return None


def split_script(script: str) -> list[tuple[str, list[str]]] | None:
    """The plain commands of a script, each with the operator before it ("" for the first); None when it is opaque."""
    parts: list[tuple[str, list[str]]] = []
    operator, words = "", []
    at, text = 0, script.strip(" \t\n")
    while at < len(text):
        character = text[at]
        if character in " \t":
            at += 1
            continue
        if found := _operator_at(text, at):
            if not words:
                return None
            parts.append((operator, words))
            if len(parts) > MAX_PARTS:
                return None
            operator, words = found, []
            at += len(found)
            continue
        read = _read_word(text, at)
        if read is None:
            return None
        word, at, quoted = read
        if not words and not quoted and (word in _KEYWORDS or "=" in word):
            return None
        words.append(word)
    if words:
        parts.append((operator, words))
    elif operator != ";":
        return None
    return parts if parts and len(parts) <= MAX_PARTS else None


def _operator_at(text: str, at: int) -> str:
    for operator in ("&&", "||"):
        if text.startswith(operator, at):
            return operator
    if text[at] == ";" and not text.startswith(";;", at):
        return ";"
    if text[at] == "|" and not text.startswith("|&", at):
        return "|"
    return ""


def _read_word(text: str, at: int) -> tuple[str, int, bool] | None:
    """One word made of plain characters and quoted pieces: the word, where it ends, whether it was quoted."""
    pieces: list[str] = []
    quoted = False
    while at < len(text):
        character = text[at]
        if character in "'\"":
            end = text.find(character, at + 1)
            inside = text[at + 1 : end]
            if end < 0 or not inside.isprintable():
                return None
            if character == '"' and any(special in inside for special in "$`\\"):
                return None
            pieces.append(inside)
            quoted, at = True, end + 1
        elif character in " \t;|&":
            break
        elif character in _PLAIN or (ord(character) > 127 and character.isprintable()):
            pieces.append(character)
            at += 1
        else:
            return None
    return ("".join(pieces), at, quoted) if pieces else None
