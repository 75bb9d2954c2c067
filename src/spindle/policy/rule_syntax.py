"""The language of `.rules` files, read and never run: calls whose arguments are strings and lists of strings.

It is the part of Starlark that rules are written in. Names, operators, functions and loads of Starlark are errors here,
as is all that this reader is not sure of. What the calls mean is `rules.py`'s business.
"""

from __future__ import annotations

import re

import msgspec

from spindle.errors import RulesError

MAX_TEXT = 256 * 1024
MAX_DEPTH = 4
MAX_CALLS = 10_000
MAX_ERRORS = 50

Value = str | list["Value"]

_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\n": ""}
_ESCAPES |= {"\\": "\\", "'": "'", '"': '"'}
_CODES = {"x": 2, "u": 4, "U": 8}
_CALL_AT_LINE_START = r"^[ \t]*prefix_rule[ \t]*\("


class Call(msgspec.Struct, frozen=True):
    """One statement: a name and its keyword arguments, and where it stands in the text."""

    name: str
    arguments: dict[str, Value]
    start: int
    end: int
    line: int


class Reading(msgspec.Struct):
    """What could be read of a file, in order, and what could not."""

    calls: list[Call]
    errors: list[RulesError]


def read_calls(text: str, file_name: str) -> Reading:
    """Every call of the file. After an error reading goes on at the next line that looks like a call.

    With an error in it, nothing that grants something may be taken from the file; what forbids still counts.
    """
    reading = Reading([], [])
    if len(text) > MAX_TEXT:
        reading.errors.append(RulesError(f"{file_name}:1: the file is longer than {MAX_TEXT // 1024} KB"))
        return reading
    reader = _Reader(text, file_name)
    while len(reading.errors) < MAX_ERRORS:
        try:
            reader.skip_to_statement()
            call = reader.next_call()
        except RulesError as error:
            reading.errors.append(error)
            reader.recover()
            continue
        if call is not None:
            reading.calls.append(call)
        elif reader.is_at_end:
            break
        if len(reading.calls) > MAX_CALLS:
            reading.errors.append(reader.error(f"there are more than {MAX_CALLS} statements in this file"))
            break
    return reading


class _Reader:
    def __init__(self, text: str, file_name: str) -> None:
        self._text = text
        self._file = file_name
        self.at = 0
        self._statement = 0
        self._counted_to = 0
        self._line = 1
        self._call_start = re.compile(_CALL_AT_LINE_START, re.MULTILINE)

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self._text)

    def error(self, sentence: str, at: int | None = None) -> RulesError:
        return RulesError(f"{self._file}:{self._line_of(self.at if at is None else at)}: {sentence}")

    def skip_to_statement(self) -> None:
        """Stand at the first character of the next statement, or at the end."""
        blank_lines = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*(?:[ \t]*(?:#[^\n]*)?\Z)?").match(self._text, self.at)
        self.at = blank_lines.end() if blank_lines else self.at
        self._statement = self.at
        if self._peek() in (" ", "\t"):
            raise self.error("this line is indented, and no statement is open")

    def next_call(self) -> Call | None:
        """The statement here; None for a string alone, a description of the file, and at the end."""
        if self.at < len(self._text) and self._is_string_start():
            self._string()
            self._end_of_statement()
            return None
        return self._call() if self.at < len(self._text) else None

    def recover(self) -> None:
        """Go on behind the blanks of an indented line, else at the next line that looks like a call."""
        if self._text[self._statement : self._statement + 1] in (" ", "\t"):
            self.at = self._statement
            while self._peek() in (" ", "\t"):
                self.at += 1
            return
        end = self._text.find("\n", self._statement)
        found = self._call_start.search(self._text, end + 1) if end >= 0 else None
        self.at = found.start() if found else len(self._text)

    def _call(self) -> Call:
        start = self.at
        line = self._line_of(start)
        name = self._identifier("a rule such as prefix_rule(...)")
        self._skip_blanks(inside=False)
        if self._peek() != "(":
            raise self.error(f"only calls like prefix_rule(...) are understood here, not `{name}` alone", start)
        self.at += 1
        arguments: dict[str, Value] = {}
        while True:
            self._skip_blanks(inside=True)
            if self._peek() == ")":
                self.at += 1
                break
            key = self._identifier("the name of an argument (arguments are given as name = value)")
            self._skip_blanks(inside=True)
            self._expect("=", f"a `=` behind `{key}`")
            self._skip_blanks(inside=True)
            if key in arguments:
                raise self.error(f"`{key}` is given twice")
            arguments[key] = self._value(0)
            self._skip_blanks(inside=True)
            if self._peek() != ")":
                self._expect(",", "a comma or the closing `)`")
        self._end_of_statement()
        return Call(name, arguments, start, self.at, line)

    def _value(self, depth: int) -> Value:
        if self._is_string_start():
            return self._string()
        if self._peek() != "[":
            raise self.error("a string or a list of strings is wanted here")
        if depth >= MAX_DEPTH:
            raise self.error("the lists are nested too deep")
        self.at += 1
        found: list[Value] = []
        while True:
            self._skip_blanks(inside=True)
            if self._peek() == "]":
                self.at += 1
                return found
            found.append(self._value(depth + 1))
            self._skip_blanks(inside=True)
            if self._peek() != "]":
                self._expect(",", "a comma or the closing `]`")

    def _is_string_start(self) -> bool:
        return self._peek() in ("'", '"') or self._text[self.at : self.at + 2] in ("r'", 'r"')

    def _string(self) -> str:
        start = self.at
        raw = self._peek() == "r"
        self.at += raw
        quote = self._peek()
        if self._text.startswith(quote * 3, self.at):
            quote *= 3
        self.at += len(quote)
        pieces: list[str] = []
        while True:
            if self.at >= len(self._text):
                raise self.error("this string has no end", start)
            if self._text.startswith(quote, self.at):
                self.at += len(quote)
                return "".join(pieces)
            character = self._text[self.at]
            if character == "\n" and len(quote) == 1:
                raise self.error("this string has no end on its line", start)
            if character == "\\":
                pieces.append(self._escape(raw))
                continue
            plain = re.compile(r"[^\\\n'\"]+|.", re.DOTALL).match(self._text, self.at)
            pieces.append(plain[0] if plain else "")
            self.at += len(pieces[-1])

    def _escape(self, raw: bool) -> str:
        following = self._text[self.at + 1 : self.at + 2]
        if raw:
            self.at += 2
            return "\\" + following
        if following in _ESCAPES and following:
            self.at += 2
            return _ESCAPES[following]
        if octal := re.compile(r"[0-7]{1,3}").match(self._text, self.at + 1):
            self.at = octal.end()
            return chr(int(octal[0], 8))
        if following in _CODES and following:
            length = _CODES[following]
            digits = self._text[self.at + 2 : self.at + 2 + length]
            if re.fullmatch(rf"[0-9A-Fa-f]{{{length}}}", digits):
                code = int(digits, 16)
                if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
                    self.at += 2 + length
                    return chr(code)
            raise self.error(f"`\\{following}{digits}` is not a character")
        # As in Starlark, a backslash before any other character is a backslash.
        self.at += 1
        return "\\"

    def _identifier(self, wanted: str) -> str:
        found = re.compile(r"[A-Za-z_]\w*", re.ASCII).match(self._text, self.at)
        if found is None:
            raise self.error(f"{wanted} is wanted here")
        self.at = found.end()
        return found[0]

    def _expect(self, character: str, wanted: str) -> None:
        if self._peek() != character:
            raise self.error(f"{wanted} is wanted here")
        self.at += 1

    def _end_of_statement(self) -> None:
        """Nothing but a comment may follow on the line, or a `;` and another statement."""
        self._skip_blanks(inside=False)
        if self._peek() == ";":
            self.at += 1
            self._skip_blanks(inside=False)
        elif self._peek() not in ("", "\n"):
            raise self.error("a statement must end with its line")

    def _skip_blanks(self, *, inside: bool) -> None:
        """Blanks and comments; line ends too where brackets are open."""
        blanks = re.compile(r"(?:[ \t\n]|#[^\n]*)*" if inside else r"[ \t]*(?:#[^\n]*)?").match(self._text, self.at)
        self.at = blanks.end() if blanks else self.at

    def _peek(self) -> str:
        return self._text[self.at : self.at + 1]

    def _line_of(self, at: int) -> int:
        if at < self._counted_to:
            self._counted_to, self._line = 0, 1
        self._line += self._text.count("\n", self._counted_to, at)
        self._counted_to = at
        return self._line
