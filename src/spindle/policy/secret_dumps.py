"""Values in what `xxd`, `hexdump` and `od` print: bytes as numbers or letters, each line with an offset before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_LINE = re.compile(rb"^[ ]?[0-9a-fA-F]{6,16}:?[ \t]+(?P<body>\S[^\r\n]*)", re.MULTILINE)
_FRAMED_COLUMN = re.compile(rb"[ ]+(?:\|.*\||>.*<)[ ]*$")
_TEXT_COLUMN = re.compile(rb"[ ]{2}.*$")
_SPACES = b" \t\r\n"
_NAMED = {b"\\0": 0, b"\\a": 7, b"\\b": 8, b"\\t": 9, b"\\n": 10, b"\\v": 11, b"\\f": 12, b"\\r": 13}

Decoded = tuple[bytes, list[tuple[int, int, int]]]
"""Bytes, and for each line: how many bytes there are up to its end, and where its body stands."""


def dump_spans(data: bytes, values: dict[bytes, str]) -> Iterator[tuple[int, int, str]]:
    """The bodies of lines that show a part of a value, if the lines together show all of it."""
    yield from _spaced(data, values)
    lines = list(_LINE.finditer(data))
    if not lines:
        return
    for block in _blocks(lines, data):
        for read in _READERS:
            decoded = _decoded(block, read)
            if decoded is None:
                continue
            shown, places = decoded
            for value, name in values.items():
                at = shown.find(value)
                while at >= 0:
                    before = 0
                    for upto, start, end in places:
                        if before < at + len(value) and upto > at:
                            yield start, end, name
                        before = upto
                    at = shown.find(value, at + 1)


def _spaced(data: bytes, values: dict[bytes, str]) -> Iterator[tuple[int, int, str]]:
    """Hexadecimal numbers with blanks between them, without an offset."""
    bare = data.translate(None, _SPACES).lower()
    for value, name in values.items():
        digits = value.hex().encode()
        if digits in bare:
            pattern = rb"[ \t\r\n]*".join(digits[at : at + 1] for at in range(len(digits)))
            yield from ((m.start(), m.end(), name) for m in re.finditer(pattern, data, re.IGNORECASE))


def _blocks(lines: list[re.Match[bytes]], data: bytes) -> Iterator[list[re.Match[bytes]]]:
    """Lines that follow each other."""
    block = [lines[0]]
    for line in lines[1:]:
        if data[block[-1].end() : line.start()].strip(b"\r\n"):
            yield block
            block = []
        block.append(line)
    yield block


def _decoded(block: list[re.Match[bytes]], read: Callable[[bytes], bytes | None]) -> Decoded | None:
    parts: list[bytes] = []
    places: list[tuple[int, int, int]] = []
    size = 0
    for line in block:
        found = read(line["body"])
        if found is None:
            return None
        parts.append(found)
        size += len(found)
        places.append((size, line.start("body"), line.end("body")))
    return b"".join(parts), places


def _numbers(body: bytes, *, base: int, size: int, is_little: bool) -> bytes | None:
    """Words of one size, up to the column that shows them as text."""
    width = size * (2 if base == 16 else 3)
    out: list[bytes] = []
    framed = _FRAMED_COLUMN.sub(b"", body)
    for word in (_TEXT_COLUMN.sub(b"", body) if framed == body else framed).split():
        # The last word of a file may be shorter.
        if base == 8 and len(word) != width and not (size == 2 and len(word) == 6):
            return None
        if base == 16 and (len(word) > width or len(word) % 2):
            return None
        try:
            number = int(word, base)
            out.append(number.to_bytes(len(word) // 2 if base == 16 else size, "little" if is_little else "big"))
        except (ValueError, OverflowError):
            return None
    return b"".join(out)


def _letters(body: bytes) -> bytes | None:
    """`od -c`: a letter every four columns."""
    out = bytearray()
    for word in body.split():
        if len(word) == 1:
            out += word
        elif word in _NAMED:
            out.append(_NAMED[word])
        elif len(word) == 3 and word.isdigit():
            out.append(int(word, 8) & 0xFF)
        else:
            return None
    return bytes(out)


_READERS: tuple[Callable[[bytes], bytes | None], ...] = (
    lambda body: _numbers(body, base=16, size=1, is_little=False),
    lambda body: _numbers(body, base=16, size=2, is_little=False),
    lambda body: _numbers(body, base=16, size=2, is_little=True),
    lambda body: _numbers(body, base=16, size=4, is_little=False),
    lambda body: _numbers(body, base=16, size=4, is_little=True),
    lambda body: _numbers(body, base=8, size=1, is_little=False),
    lambda body: _numbers(body, base=8, size=2, is_little=True),
    _letters,
)
