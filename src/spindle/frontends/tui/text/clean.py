"""The one place that text of others passes before it may reach the terminal.

Models, commands, files, servers: none of them may drive the terminal or show something else than is there. What comes
out has no control character but line feed and tab, no escape sequence and no change of direction; what such characters
were is shown as a mark, `⟨U+202E⟩`. Which characters these are is decided in `protocol/quote.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from spindle.frontends import fit
from spindle.frontends.tui.shown import Line, Span
from spindle.frontends.tui.text.layout import TAB
from spindle.frontends.tui.text.pen import Pen, number
from spindle.protocol.quote import readable, terminal_codes, visible

_SURROGATES = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"
_PRINTED = bytes(range(0x20, 0x7F)) + b"\n"
_SHOWN = _PRINTED + b"\t"
_HIDDEN_PART = re.compile("(⟨U\\+[0-9A-F]{4,6}⟩|[\r\u200c\u200d])")
_REVEALED = {"\r": "\\r", "\u200c": "⟨U+200C⟩", "\u200d": "⟨U+200D⟩"}
_FARTHEST = 400
"""How far to the right of the text a command may write."""
_TITLE_LOOK = 4
"""How much longer than it may be a title is read: white space in it is joined."""


def safe(text: str) -> str:
    """Prose and the like, of one line or many: line feeds and tabs stay, all else that is not seen becomes a mark."""
    if _is_plain(text, _SHOWN):
        return text
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", mark("\r"))
    return readable(without_surrogates(text), mark=mark)


def _is_plain(text: str, plain: bytes) -> bool:
    """Whether a text has no characters but these. The quickest way there is, for what is nearly always so."""
    return text.isascii() and not text.encode("ascii").translate(None, plain)


def safe_lines(text: str) -> list[str]:
    """The same, line by line; nothing at all for no text."""
    return safe(text).split("\n") if text else []


def name(text: str) -> str:
    """What must stand in one line and be told from its like: file names, servers, tools, branches."""
    if text.isascii() and text.isprintable():
        return text
    return visible(text, mark=mark)


def title(text: str, most: int) -> str:
    """For the title of the window and for notifications: one line of at most so many cells."""
    shown = " ".join(text[: most * _TITLE_LOOK + 1].split())
    return fit.cut(name(shown), most)


def mark(char: str) -> str:
    """What is shown in the place of a character that cannot be seen."""
    return f"⟨U+{ord(char):04X}⟩"


def without_surrogates(text: str) -> str:
    """Halves of characters, and bytes that were no UTF-8, cannot be written to a terminal."""
    return text if text.isascii() else _SURROGATES.sub(_REPLACEMENT, text)


# ---- what a command printed ---------------------------------------------------------------------


def command_output(text: str) -> list[Line]:
    """What a command printed, as the terminal would show it in the end; the line end at its very end is no line.

    Colours become our own styles; lines that were written over, as progress bars do, show their last state. No sequence
    of the command is passed on: those that move within a line are carried out here, the others are left out.
    The work is in proportion to the text.
    """
    text = text.replace("\r\n", "\n").removesuffix("\n")
    if not text:
        return []
    if _is_plain(text, _PRINTED):
        return [Line((Span(line),) if line else (), (), True) for line in text.split("\n")]
    # First those that may reach over several lines, such as titles and what is meant for the clipboard.
    text = terminal_codes().sub(lambda found: found[0] if _control().fullmatch(found[0]) else "", text)
    pen = Pen()
    return [_shown_line(line, pen) for line in text.split("\n")]


def _shown_line(line: str, pen: Pen) -> Line:
    if not _output_parts().search(line):
        text = safe(line)
        return Line((Span(text, pen.style),) if text else (), (), True)
    row = _Row()
    for place, piece in enumerate(_output_parts().split(line)):
        if not piece or piece in "\a\x0e\x0f":  # bells and changes of the character set show nothing
            continue
        if place % 2 and len(piece) > 1:
            _obey(piece, row, pen)
        elif piece == "\r":
            row.column = 0
        elif piece == "\b":
            row.column = max(0, row.column - 1)
        elif piece == "\t":
            row.column += TAB - row.column % TAB
        else:
            row.write(safe(piece), pen.style)
    return row.line()


def _obey(sequence: str, row: _Row, pen: Pen) -> None:
    """Do what a sequence asks for, if it keeps within the line."""
    parameters, what = sequence[1 if sequence[0] == "\x9b" else 2 : -1], sequence[-1]
    count = number(parameters)
    if what == "m":
        pen.take(parameters)
    elif what == "K":
        row.erase(count)
    elif what in "G`":
        row.column = max(0, count - 1)
    elif what == "C":
        row.column += max(1, count)
    elif what == "D":
        row.column = max(0, row.column - max(1, count))


class _Row:
    """One line that is being written: a character and a style for each column. Wide characters count as one here;
    who writes over them writes over the whole."""

    def __init__(self) -> None:
        self.column = 0
        self._chars: list[str] = []
        self._styles: list[str] = []

    def write(self, text: str, style: str) -> None:
        gap = self.column - len(self._chars)
        if gap > 0:
            gap = min(gap, _FARTHEST)
            self._chars += " " * gap
            self._styles += [""] * gap
            self.column = len(self._chars)
        end = self.column + len(text)
        self._chars[self.column : end] = text
        self._styles[self.column : end] = [style] * len(text)
        self.column = end

    def erase(self, what: int) -> None:
        """To the end of the line, or all of it. To its beginning is not done: the cost would grow with the line."""
        start = self.column if what == 0 else 0
        if what in (0, 2):
            del self._chars[start:]
            del self._styles[start:]

    def line(self) -> Line:
        spans: list[Span] = []
        start = 0
        for place in range(1, len(self._chars) + 1):
            if place == len(self._chars) or self._styles[place] != self._styles[start]:
                spans.append(Span("".join(self._chars[start:place]), self._styles[start]))
                start = place
        return Line(tuple(spans), (), True)


@cache
def _output_parts() -> re.Pattern[str]:
    return re.compile(f"({_control().pattern}|[\a\b\t\r\x0e\x0f])")


@cache
def _control() -> re.Pattern[str]:
    return re.compile("(?:\x1b\\[|\x9b)[0-9;:]*[@-~]")


# ---- what a person is to decide on -------------------------------------------------------------


def revealed(text: str, style: str = "") -> list[Line]:
    r"""A command or an argument exactly as it is, with every hidden character as a mark in the style `hidden`.

    Joiners are marked too, whatever they join: nothing is decided on by its looks here. A carriage return is `\r`.
    """
    return [Line(_revealed_line(line, style)) for line in text.split("\n")]


def _revealed_line(line: str, style: str) -> tuple[Span, ...]:
    if line.isascii() and line.isprintable():
        return (Span(line, style),) if line else ()
    return tuple(Span(part, f"{style} hidden".strip() if is_hidden else style) for part, is_hidden in _parts(line))


def _parts(line: str) -> Iterator[tuple[str, bool]]:
    """The line in pieces, each with whether it stands for a hidden character."""
    # A mark that the text itself spells is text: the bracket it begins with is passed by.
    for place, piece in enumerate(line.split("⟨")):
        if place:
            yield "⟨", False
        for part in _HIDDEN_PART.split(visible(piece, keep="\t\r", mark=mark)):
            if part in _REVEALED:
                yield _REVEALED[part], True
            elif part:
                yield part, part[0] == "⟨"


def has_hidden(text: str) -> bool:
    """Whether something in it does not show as itself: then a person should look twice."""
    if _is_plain(text, _SHOWN):
        return False
    return any(is_hidden for line in text.split("\n") for _, is_hidden in _parts(line))


def mixed_scripts(text: str) -> list[str]:
    """The words whose letters are of several alphabets, as in an address that imitates another."""
    if text.isascii():
        return []
    return [word for word in dict.fromkeys(_words().findall(text)) if not word.isascii() and _is_mixed(word)]


_WRITTEN_WITH_LATIN = frozenset(
    ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "HALFWIDTH", "THAI")
)
"""Scripts without blanks between words: a Latin word in them is no trick."""
_NO_LETTERS = frozenset(
    ("COMBINING", "MODIFIER", "MICRO", "OHM", "KELVIN", "ANGSTROM", "FEMININE", "MASCULINE", "VARIATION")
)


def _is_mixed(word: str) -> bool:
    import unicodedata  # only where there is more than ASCII

    scripts = {unicodedata.name(char, "").partition(" ")[0] for char in word}
    return len(scripts - _WRITTEN_WITH_LATIN - _NO_LETTERS - {""}) > 1


@cache
def _words() -> re.Pattern[str]:
    return re.compile(r"[^\W\d_]+")
