"""Bytes from the terminal, as keys, pastes, changes of focus, and answers to our queries.

Works on pieces of any size: a sequence or a character may be split anywhere. What has no meaning is dropped; plain text
never is. Some bytes can be understood only when nothing follows (a lone Escape, a paste without brackets): `flush_at`
is the time to call `flush`.
"""

from __future__ import annotations

import codecs
import re

from spindle.frontends.tui.keys import Input, Key, Paste
from spindle.frontends.tui.screen import sequences
from spindle.frontends.tui.screen.bursts import Bursts, keys_of, with_line_feeds

_ESCAPE_S = 0.02
"""A sequence follows its Escape at once, even over a slow line; a person's next key does not."""
_STRING_S = 0.3
"""An answer of many bytes may come in pieces."""
_PASTE_S = 5.0
"""A paste whose end never comes (the terminal died, a wire was cut) must not swallow every key for good."""
_LONGEST_STRING = 8192
_PASTE_ENDS = b"\x1b[201~"

_PLAIN = re.compile(rb"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
_CSI = re.compile(rb"\x1b\[([0-?]*)([ -/]*)([@-~])")
_CSI_PART = re.compile(rb"\x1b\[[0-?]*[ -/]*")
_RXVT_KEY = re.compile(rb"\x1b\[([0-9;]+)(\$)")
_CONSOLE_KEY = re.compile(rb"\x1b\[\[([A-E])")
_SS3 = re.compile(rb"\x1bO([0-9;]*)([A-Za-z])")
_SS3_PART = re.compile(rb"\x1bO[0-9;]*")
_STRING = re.compile(rb"\x1b([\]P_^X])([^\x07\x1b\x18\x1a]*)(?:\x07|\x1b\\|[\x18\x1a])")
_STRING_PART = re.compile(rb"\x1b[\]P_^X][^\x07\x1b\x18\x1a]*\x1b?")


class Decoder:
    def __init__(self, *, paste_burst: bool = True) -> None:
        """`paste_burst`: text that comes too fast to be typed is a paste (`disable_paste_burst` of the user)."""
        self._bursts = Bursts(is_on=paste_burst)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = b""
        self._pasted: list[bytes] | None = None
        self._came_s = 0.0

    @property
    def needs_flush(self) -> bool:
        return self.flush_at is not None

    @property
    def flush_at(self) -> float | None:
        """When `flush` has something to say, unless more bytes come; None = never."""
        if self._pasted is not None:
            return self._came_s + _PASTE_S
        if self._rest:
            return self._came_s + (_STRING_S if self._is_string else _ESCAPE_S)
        return self._bursts.ends_s

    @property
    def holds_text(self) -> bool:
        """A paste has begun, with brackets or without, and is handed on when it ends."""
        return self._pasted is not None or self._bursts.ends_s is not None

    @property
    def _is_string(self) -> bool:
        return len(self._rest) > 3 and self._rest[1:2] in (b"]", b"P", b"_", b"^", b"X")

    def early(self, data: bytes) -> list[Input]:
        """What was typed before the terminal was ours: it made line feeds of Enter then, and nobody timed the keys."""
        out: list[Input] = []
        for number, line in enumerate(data.replace(b"\r", b"\n").split(b"\n")):
            out += [Key("enter")] if number else []
            untimed = Decoder(paste_burst=False)
            out += untimed.feed(line, 0.0) + untimed.flush(_PASTE_S)
        return out

    def feed(self, data: bytes, now_s: float, waited_s: float = 0.0) -> list[Input]:
        """`waited_s`: for how long the bytes may have waited, since we were busy with something else."""
        out = self.flush(now_s - waited_s)
        self._came_s = now_s
        if self._pasted is None:
            self._parse(self._rest + data, now_s, waited_s, out)
        else:
            self._paste(data, now_s, waited_s, out)
        return out

    def flush(self, now_s: float) -> list[Input]:
        """What was held back and is complete by now."""
        due = self.flush_at
        if due is None or now_s < due:
            return []
        if self._pasted is not None:
            data = b"".join([*self._pasted, self._rest])
            self._pasted, self._rest = None, b""
            return [Paste(_pasted_text(data))]
        out = self._bursts.end()
        rest, self._rest = self._rest, b""
        if rest in (b"\x1b", b"\x1b\x1b"):
            out += [Key("esc")] * len(rest)
        elif len(rest) == 2:
            out.append(Key(f"alt-{chr(rest[1])}"))
        elif rest.startswith(b"\x1b\x1b"):
            out.append(Key("esc"))
        return out

    # ---- the parts of the stream -----------------------------------------------------------------

    def _parse(self, data: bytes, now_s: float, waited_s: float, out: list[Input]) -> None:
        at = 0
        self._rest = b""
        while at < len(data):
            if (plain := _PLAIN.match(data, at)) is not None:
                out += self._bursts.take(self._utf8.decode(plain.group()), now_s, waited_s)
                at = plain.end()
                continue
            out += self._bursts.end()
            if broken := self._utf8.decode(b"", final=True):
                out += keys_of(broken)
            if data[at] != 27:
                out += _known(sequences.control(data[at], alt=False))
                at += 1
                continue
            end = self._escape(data, at, out)
            if end is None:
                self._rest = data[at:]
                return
            at = end
            if self._pasted is not None:
                self._paste(data[at:], now_s, waited_s, out)
                return

    def _escape(self, data: bytes, at: int, out: list[Input]) -> int | None:
        """The sequence that begins here goes to `out`; gives where it ends, or None when it is not all there."""
        following = data[at + 1 : at + 2]
        if not following:
            return None
        if following == b"\x1b":
            return self._second_escape(data, at, out)
        if following == b"[":
            return self._csi(data, at, out, alt=False)
        if following == b"O":
            return _ss3(data, at, out)
        if following in (b"]", b"P", b"_", b"^", b"X"):
            return _string(data, at, out)
        if following[0] < 32 or following[0] == 127:
            out += _known(sequences.control(following[0], alt=True))
            return at + 2
        length = _utf8_length(following[0])
        if len(data) < at + 1 + length:
            return None
        char = data[at + 1 : at + 1 + length].decode("utf-8", "replace")
        out.append(Key("alt-space" if char == " " else f"alt-{char[0]}"))
        return at + 1 + (length if len(char) == 1 else 1)

    def _second_escape(self, data: bytes, at: int, out: list[Input]) -> int | None:
        """Escape twice: two keys, or Alt with a key that sends a sequence."""
        if len(data) == at + 2:
            return None
        if data[at + 2 : at + 3] == b"[":
            return self._csi(data, at + 1, out, alt=True)
        out.append(Key("esc"))
        return at + 1

    def _csi(self, data: bytes, at: int, out: list[Input], *, alt: bool) -> int | None:
        if (console := _CONSOLE_KEY.match(data, at)) is not None:
            out.append(Key(f"f{console.group(1)[0] - 64}"))
            return console.end()
        if data[at + 2 :] == b"[":
            return None
        found = _CSI.match(data, at) or _RXVT_KEY.match(data, at)
        if found is None:
            part = _CSI_PART.match(data, at)
            is_open = part is not None and part.end() == len(data) and part.end() - at < _LONGEST_STRING
            return None if is_open else at + 2 if part is None else part.end()
        given, final = found.group(1).decode(), found.groups()[-1].decode()
        if final == "~" and given == "200":
            self._pasted = []
        elif final == "$" or not found.group(2) or found.group(2) == b"$":
            out += _known(sequences.csi(given, final, alt=alt))
        return found.end()

    def _paste(self, data: bytes, now_s: float, waited_s: float, out: list[Input]) -> None:
        """Inside brackets everything is text, up to the end mark, which may be split."""
        assert self._pasted is not None
        data = self._rest + data
        end = data.find(_PASTE_ENDS)
        if end < 0:
            kept = next((n for n in range(len(_PASTE_ENDS) - 1, 0, -1) if data.endswith(_PASTE_ENDS[:n])), 0)
            self._pasted.append(data[: len(data) - kept])
            self._rest = data[len(data) - kept :]
            return
        whole = b"".join([*self._pasted, data[:end]])
        self._pasted = None
        out.append(Paste(_pasted_text(whole)))
        self._parse(data[end + len(_PASTE_ENDS) :], now_s, waited_s, out)


def _ss3(data: bytes, at: int, out: list[Input]) -> int | None:
    found = _SS3.match(data, at)
    if found is not None:
        out += _known(sequences.ss3(found.group(1).decode(), found.group(2).decode()))
        return found.end()
    part = _SS3_PART.match(data, at)
    assert part is not None
    if part.end() == len(data):
        return None
    out.append(Key("alt-O"))
    return at + 2


def _string(data: bytes, at: int, out: list[Input]) -> int | None:
    """OSC, DCS and their like: answers of the terminal."""
    found = _STRING.match(data, at)
    if found is not None:
        if found.group(1) == b"]":
            out += _known(sequences.osc(found.group(2).decode("utf-8", "replace")))
        return found.end()
    part = _STRING_PART.match(data, at)
    assert part is not None
    if part.end() == len(data) and part.end() - at < _LONGEST_STRING:
        return None
    return part.end() - data[at : part.end()].endswith(b"\x1b")


def _known(found: Input | None) -> list[Input]:
    return [] if found is None else [found]


def _pasted_text(data: bytes) -> str:
    return with_line_feeds(data.decode("utf-8", "replace"))


def _utf8_length(first: int) -> int:
    return 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
