"""Text that a person decides on: every character that does not show as itself becomes a mark like `⟨U+202E⟩`."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from spindle.frontends.tui.shown import Span

_SHOWN_SHORT = {"\r": "\\r", "\t": "\\t"}
_EMOJI_FROM = 0x2000
_BLANKS = "\u2800\u3164\u115f\u1160\uffa0"
"""Letters and signs that look like a blank."""


def revealed(text: str) -> list[tuple[Span, ...]]:
    """The lines of a text, each as spans; what is hidden stands in the style `hidden`."""
    return [tuple(_spans(each)) for each in text.split("\n")]


def has_hidden(text: str) -> bool:
    """Something in it would not show as itself. Line ends and tabs are no secret."""
    return any(_is_hidden(char, before) and char != "\t" for before, char in _pairs(text) if char != "\n")


def mixed_scripts(text: str) -> list[str]:
    """The words that mix letters of scripts that look alike: `pаypal` with a Cyrillic а."""
    if text.isascii():
        return []
    found: dict[str, None] = {}
    word = ""
    for char in text + " ":
        if char.isalnum():
            word += char
        elif word:
            if len({_script(letter) for letter in word if letter.isalpha()} & _ALIKE) > 1:
                found[word] = None
            word = ""
    return list(found)


_ALIKE = {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"}


def _script(letter: str) -> str:
    return "LATIN" if letter.isascii() else unicodedata.name(letter, "").partition(" ")[0]


def _spans(line: str) -> Iterator[Span]:
    if line.isascii() and line.isprintable():
        yield Span(line)
        return
    plain = ""
    for before, char in _pairs(line):
        if not _is_hidden(char, before):
            plain += char
            continue
        if plain:
            yield Span(plain)
            plain = ""
        yield Span(_SHOWN_SHORT.get(char) or f"⟨U+{ord(char):04X}⟩", "hidden")
    if plain:
        yield Span(plain)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    return zip("\0" + text, text, strict=False)


def _is_hidden(char: str, before: str) -> bool:
    if " " <= char <= "~":
        return False
    if "\ufe00" <= char <= "\ufe0f":  # how the sign before it is drawn: only after what has two looks
        return not (ord(before) >= _EMOJI_FROM or before in "0123456789#*©®")
    if char in _BLANKS or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"):
        return True
    # A mark that sits on no letter would change the look of ours.
    return unicodedata.category(char) in ("Mn", "Me") and (before == "\0" or not before.isprintable() or before == " ")
