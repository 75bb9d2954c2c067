"""How text that others wrote is shown to a person: argument lists as shell, and nothing hidden in any of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

_LONG_ROW = r"((?:\\u\{[0-9A-F]+\}){16})(?:\\u\{[0-9A-F]+\})+"
_ALWAYS_ESCAPED = "\\x00-\\x08\\x0b\\x0e-\\x1f\\x7f\u200b\u2060-\u206f\U000e0000-\U000e00ff"
"""Hidden characters that no spelling needs. Rows of them are shortened first: a file may have millions."""
_LONG_HIDDEN_ROW = f"([{_ALWAYS_ESCAPED}]{{17}})[{_ALWAYS_ESCAPED}]+"

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")


def shell_quote(word: str) -> str:
    """The word as a POSIX shell would need it typed."""
    if word and _PLAIN.issuperset(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def shell_join(words: Iterable[str]) -> str:
    return " ".join(map(shell_quote, words))


def escape(char: str) -> str:
    return f"\\u{{{ord(char):X}}}"


def visible(text: str, *, keep: str = "", mark: Callable[[str], str] = escape) -> str:
    r"""The text with everything a person could not see, or would see in the wrong place, as an escape like `\u{202E}`.

    For what a person decides on: command lines, paths, names. Controls, direction changes, zero-width and tag
    characters, every space but the plain one, private, unassigned and surrogate code points are escaped, line ends too
    unless they are in `keep`. Letters of every script stay, with the joiners their spelling needs. `mark` makes
    another sign than the escape, of characters that can be seen.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _hidden().sub(lambda found: found[0] if found[0] in keep or _belongs(found) else mark(found[0]), text)
    return "".join(char if _is_plain(char) or char in keep else mark(char) for char in text)


def readable(text: str, *, mark: Callable[[str], str] = escape) -> str:
    """The same for prose and for what a program printed: lines, tabs, typographic spaces and icons stay as they are.

    Carriage returns go, because on a terminal they let one text cover another.
    """
    if text.isascii() and text.isprintable():
        return text
    return _hidden().sub(lambda found: found[0] if _belongs(found) else mark(found[0]), text.replace("\r", ""))


def reveal(document: str) -> tuple[str, list[int]]:
    """A document with its hidden characters as escapes, and the numbers of the lines that had some.

    A document without any comes back as it is: its line ends, and a mark at its very beginning, are no tricks. Of a
    long row of them only the beginning is written out, or a hidden message would grow to many times its size.
    """
    if document.isascii() and document.isprintable():
        return document, []
    mark, rest = ("\ufeff", document[1:]) if document.startswith("\ufeff") else ("", document)
    lines = rest.split("\n")
    if not _hidden().search(rest.replace("\r", "").replace("\f", "")):
        return document, []
    shown = [re.sub(_LONG_HIDDEN_ROW, r"\1", line) for line in lines]
    shown = [
        _hidden().sub(lambda found: found[0] if found[0] in "\r\f" or _belongs(found) else escape(found[0]), line)
        for line in shown
    ]
    shown = [re.sub(_LONG_ROW, r"\1…", line) for line in shown]
    changed = [number for number, (old, new) in enumerate(zip(lines, shown, strict=True), 1) if old != new]
    return (mark + "\n".join(shown) if changed else document), changed


def without_terminal_codes(text: str) -> str:
    """What a program printed without the sequences that colour, move or rename things in a terminal."""
    return text if text.isascii() and "\x1b" not in text else terminal_codes().sub("", text)


def _belongs(found: re.Match[str]) -> bool:
    """Whether the spelling around a hidden character needs it."""
    char, text, at = found[0], found.string, found.start()
    before = ord(text[at - 1]) if at else 0
    after = text[at + 1] if at + 1 < len(text) else ""
    if char in "\u200c\u200d":  # joiners: part of the spelling of many scripts, and of composed emoji
        belongs = 0x590 <= before < 0x2000 or (
            (before >= 0x2190 and char == "\u200d") and after >= "\u2190" and not _hidden().match(after)
        )
    elif char in "\ufe0e\ufe0f":  # text or emoji style
        belongs = before >= 0x2000 or chr(before) in "0123456789#*\xa9\xae"
    elif "\u180b" <= char <= "\u180f":
        belongs = 0x1820 <= before < 0x18B0 and char != "\u180e"
    elif char >= "\U000e0100":  # variants of ideographs
        belongs = 0x3400 <= before < 0xA000 or 0x20000 <= before < 0x40000
    else:
        belongs = False
    # Only directly after something that can be seen: a row of such characters is a message in disguise.
    follows = chr(before)
    seen = not _hidden().match(follows) or (follows == "\ufe0f" and char == "\u200d")
    return belongs and seen


def _is_plain(char: str) -> bool:
    # Those that came through `_hidden` untouched belong where they are; the braille blank looks like a space.
    return (char.isprintable() and char != "\u2800") or char in "\u200c\u200d"


@cache
def _hidden() -> re.Pattern[str]:
    """Characters that show nothing, or change how what is around them is shown; not spaces, tabs and line feeds."""
    return re.compile(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
        "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d159"
        "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    )


@cache
def terminal_codes() -> re.Pattern[str]:
    """Control sequences (CSI), strings with their terminator (OSC, DCS and the like), and short escapes."""
    return re.compile(
        "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"
        "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9b-\x9f]*(?:\x07|\x1b\\\\|\x9c)"
        "|\x1b[ -/]*[0-~]"
    )
