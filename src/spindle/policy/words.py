"""Shell scripts that are nothing but plain words, split into those words.

`split_script` understands only what it can be sure of. Whatever a shell could expand, redirect or run in another way
makes it answer None, and the script then counts as one opaque command. Two readers must agree: a strict one of the raw
characters, here, and the parse tree of `shell_tree.py`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from spindle.policy.shell_tree import plain_commands

SHELLS = ("bash", "zsh", "sh")
MAX_PARTS = 200
MAX_PLAIN = 64 * 1024

_GLOB = frozenset("*?[]~")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-^!") | _GLOB
_KEYWORDS = frozenset(
    (
        *("if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "in"),
        *("function", "select", "time", "coproc", "{", "}", "!", "[[", "]]"),
        *("repeat", "foreach", "end", "nocorrect", "noglob", "-", "always"),  # zsh
    )
)
_EVALUATING = """
[ autoload bind break builtin caller chdir command compgen complete compopt continue declare dirs disown emulate
enable eval exec exit export fc float functions getln getopts hash history integer jobs let limit local mapfile popd
print printf private pushd pushln r read readarray readonly return sched set setopt shift shopt source suspend test
trap ttyctl typeset ulimit umask unalias unfunction unhash unlimit unset unsetopt vared wait whence where zcompile
zformat zle zmodload zparseopts zprof zpty zregexparse zsocket zstyle zsystem ztcp
"""
EVALUATING = frozenset(_EVALUATING.split())
"""Builtins that may take a word for more than text, quoted or not: `test -v 'a[$(x)]'` runs x."""


class Part(msgspec.Struct, frozen=True):
    """One plain command, and the operator before it ("" for the first)."""

    operator: str
    words: list[str]
    patterns: frozenset[int] = frozenset()
    """Places of the words that a shell replaces by file names; they may become several, and look like options."""


def script_of(argv: Sequence[str]) -> str | None:
    """The script of `[bash|zsh|sh, -c|-lc, SCRIPT]`, else None."""
    if len(argv) == 3 and os.path.basename(argv[0]) in SHELLS and argv[1] in ("-c", "-lc"):
        return argv[2]
    return None


def split_script(script: str) -> list[tuple[str, list[str]]] | None:
    """The plain commands of a script, each with the operator before it; None when it is opaque."""
    parts = plain_parts(script)
    return None if parts is None else [(part.operator, part.words) for part in parts]


def plain_parts(script: str) -> list[Part] | None:
    """Like `split_script`, with what is known of each word."""
    parts = _agreed_parts(script)
    # Copies: what a caller does to its words must not change what the next one is told.
    return None if parts is None else [Part(part.operator, [*part.words], part.patterns) for part in parts]


@lru_cache(maxsize=16)
def _agreed_parts(script: str) -> tuple[Part, ...] | None:
    """What both readers make of a script. A command is looked at from several sides, each of which wants its parts."""
    parts = _read_strictly(script)
    if parts is None:
        return None
    # The cheap reader goes first: most scripts that are opaque never reach the parser.
    seen = plain_commands(script)
    return tuple(parts) if seen == [(part.operator, part.words) for part in parts] else None


def _read_strictly(script: str) -> list[Part] | None:
    parts: list[Part] = []
    operator, words, patterns = "", list[str](), set[int]()
    at, text = 0, script.strip(" \t\n")
    if len(text) > MAX_PLAIN:
        return None
    while at < len(text):
        character = text[at]
        if character in " \t":
            at += 1
            continue
        if found := _operator_at(text, at):
            if not words:
                return None
            parts.append(Part(operator, words, frozenset(patterns)))
            if len(parts) > MAX_PARTS or evaluates(words):
                return None
            operator, words, patterns = found, [], set()
            at += len(found)
            continue
        read = _read_word(text, at)
        if read is None:
            return None
        word, at, quoted, expands = read
        if not words and not quoted and (word in _KEYWORDS or "=" in word):
            return None
        if expands:
            patterns.add(len(words))
        words.append(word)
    if words:
        parts.append(Part(operator, words, frozenset(patterns)))
        if evaluates(words):
            return None
    elif operator != ";":
        return None
    return parts if parts and len(parts) <= MAX_PARTS else None


def evaluates(words: Sequence[str]) -> list[str]:
    """The words that a builtin may run something from, although they are quoted."""
    if not words or words[0] not in EVALUATING:
        return []
    return [word for word in words[1:] if "$" in word or "`" in word]


def _operator_at(text: str, at: int) -> str:
    for operator in ("&&", "||"):
        if text.startswith(operator, at):
            return operator
    if text[at] == ";" and not text.startswith((";;", ";|", ";&"), at):
        return ";"
    if text[at] == "|" and not text.startswith("|&", at):
        return "|"
    return ""


def _read_word(text: str, at: int) -> tuple[str, int, bool, bool] | None:
    """One word made of plain characters and quoted pieces: the word, its end, whether it is quoted, and a pattern."""
    pieces: list[str] = []
    quoted = expands = False
    while at < len(text):
        character = text[at]
        if character in "'\"":
            end = text.find(character, at + 1)
            inside = text[at + 1 : end]
            if end < 0 or not inside.replace("\n", "").replace("\t", "").isprintable():
                return None
            if character == '"' and any(special in inside for special in "$`\\"):
                return None
            pieces.append(inside)
            quoted, at = True, end + 1
        elif character in " \t;|&":
            break
        elif character in _PLAIN or (character == "#" and pieces) or (ord(character) > 127 and character.isprintable()):
            expands = expands or character in _GLOB
            pieces.append(character)
            at += 1
        else:
            return None
    return ("".join(pieces), at, quoted, expands) if pieces else None
