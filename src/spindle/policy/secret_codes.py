"""Values whose letters are written apart, as escapes or as numbers: `5a:6b:32`, `\\u005a\\u006b`, `Z k 2`, `[90, 107]`.

One look at the text without all that stands between tells whether a value is there; only then it is looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

MIN_LENGTH = 12
"""Of fewer letters nobody can tell whether they only happen to follow each other."""

_APART = b" \t\r\n\0.,;:'\"+-_|\\"
_AROUND_NUMBERS = _APART + b"[](){}<>"
_UNSEEN = rb"\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xaf]|\xc2[\xa0\xad]|\xcd\x8f|\xef\xbb\xbf|\xef\xb8[\x80-\x8f]"
"""Characters that are not seen, in UTF-8."""
_GAP = rb"(?:[" + re.escape(_APART) + rb"]|" + _UNSEEN + rb")*"
_NUMBER_GAP = rb"(?:[" + re.escape(_AROUND_NUMBERS) + rb"]|0x|\\x)*"
_ESCAPE = re.compile(
    rb"\\u00([0-9a-f]{2})|\\u\{0*([0-9a-f]{2})\}|\\x([0-9a-f]{2})|%(?:25)*([0-9a-f]{2})"
    rb"|&#x0*([0-9a-f]{2});|&#0*([0-9]{2,3});|\\([0-7]{3})"
)
_SIGNS = (b"\\u", b"\\x", b"%", b"&#", b"\\0", b"\\1")
_DIGITS = bytes(byte if byte in b"0123456789" else 0x20 for byte in range(256))


class Coded:
    """The values of one session, ready to be looked for."""

    def __init__(self, values: Mapping[bytes, str]) -> None:
        self._values = [
            (value, name, value.lower().translate(None, _APART), value.hex().encode(), _decimals(value))
            for value, name in values.items()
            if len(value.translate(None, _APART)) >= MIN_LENGTH and any(digit in value for digit in b"0123456789")
        ]

    def are_in(self, data: bytes) -> bool:
        """Whether some value may be there in such a form. Also true of one that stands there as it is."""
        return any(True for _ in self._found(data))

    def spans(self, data: bytes) -> Iterator[tuple[int, int, str]]:
        """Where they stand."""
        for pattern, name in self._found(data):
            yield from ((m.start(), m.end(), name) for m in re.finditer(pattern, data, re.IGNORECASE))

    def _found(self, data: bytes) -> Iterator[tuple[bytes, str]]:
        if not self._values:
            return
        lower = data.lower()
        letters = _ESCAPE.sub(_meant, lower) if any(sign in lower for sign in _SIGNS) else lower
        letters = letters if letters.isascii() else re.sub(_UNSEEN, b"", letters)
        letters = letters.translate(None, _APART)
        numbers = lower.replace(b"\\x", b"") if b"\\x" in lower else lower
        numbers = numbers.replace(b"0x", b"") if b"0x" in lower else numbers
        numbers = numbers.translate(None, _AROUND_NUMBERS)
        decimals = b" ".join(data.translate(_DIGITS).split())
        for value, name, bare, digits, counted in self._values:
            if bare in letters:
                yield _GAP.join(_written(byte) for byte in value if byte not in _APART), name
            if digits in numbers:
                yield _NUMBER_GAP.join(digits[at : at + 1] for at in range(len(digits))), name
            if counted in decimals:
                yield rb"[^0-9]+".join(counted.split()), name


def _decimals(value: bytes) -> bytes:
    return b" ".join(b"%d" % byte for byte in value)


def _meant(found: re.Match[bytes]) -> bytes:
    code = int(found[found.lastindex or 0], {6: 10, 7: 8}.get(found.lastindex or 0, 16))
    return bytes((code,)).lower() if code < 0x80 else found[0]


def _written(byte: int) -> bytes:
    """One letter, in every way it may be written."""
    code = b"%02x" % byte
    escapes = (rb"\\u00%s", rb"\\u\{0*%s\}", rb"\\x%s", rb"%%(?:25)*%s", rb"&#x0*%s;")
    written = [re.escape(bytes((byte,))), *(escape % code for escape in escapes), rb"&#0*%d;" % byte, rb"\\%03o" % byte]
    return b"(?:" + b"|".join(written) + b")"
