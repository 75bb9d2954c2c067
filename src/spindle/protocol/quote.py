"""How an argument list is shown as one line of shell."""

from __future__ import annotations

from collections.abc import Iterable

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")


def shell_quote(word: str) -> str:
    """The word as a POSIX shell would need it typed."""
    if word and _PLAIN.issuperset(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def shell_join(words: Iterable[str]) -> str:
    return " ".join(map(shell_quote, words))
