"""Server-sent events out of a stream of bytes, cut anywhere. Knows nothing of JSON or of models.

Only the `data` field matters to us; names, ids and comments are skipped. Work is linear in the bytes fed, however
they are cut and however large one event is.
"""

from __future__ import annotations

from codecs import utf_8_decode
from typing import NoReturn

from spindle.errors import SpindleError

EVENT_MAX_BYTES = 64 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"


class BadUtf8(SpindleError):
    """The stream is not UTF-8. Does not leave `model/`."""


class EventTooLarge(SpindleError):
    """One event is larger than the limit. Does not leave `model/`."""


class SseDecoder:
    """Feed it bytes; it gives back the data of each event that became whole."""

    def __init__(self, event_max_bytes: int = EVENT_MAX_BYTES) -> None:
        self._max = event_max_bytes
        self._data: list[bytes] = []
        """Data lines of the event being read."""
        self._line: list[bytes] = []
        """Pieces of the line being read."""
        self._data_bytes = 0
        self._line_bytes = 0
        self._is_start = True
        self._skip_lf = False
        self._half_char = b""
        self.made_progress = False
        """The last `feed` brought event data; comments and blank lines alone are no progress."""

    def feed(self, chunk: bytes) -> list[bytes]:
        self._check_utf8(chunk)
        self.made_progress = False
        if self._skip_lf and chunk:
            # The CR that ended the last chunk was one half of a CRLF.
            self._skip_lf = False
            if chunk[0] == 0x0A:
                chunk = chunk[1:]
        if not chunk:
            return []
        self._skip_lf = chunk.endswith(b"\r")
        # On bytes, splitlines knows CR, LF and CRLF only, exactly as the format wants; on str it would know more.
        lines = chunk.splitlines()
        if self._line:
            self._line.append(lines[0])
            lines[0] = b""
        rest = b"" if chunk[-1] in b"\r\n" else lines.pop()
        if self._line and lines:
            lines[0] = b"".join(self._line)
            self._line.clear()
            self._line_bytes = 0
        events = self._take_lines(lines)
        if rest:
            self._line.append(rest)
        if self._line:
            self._watch_partial_line(len(chunk) if not lines else len(rest))
        return events

    def finish(self) -> list[bytes]:
        """The bytes ended. A last event whose blank line is missing still counts; a cut one does no harm as JSON."""
        lines = [b"".join(self._line)] if self._line else []
        self._line.clear()
        return self._take_lines([*lines, b""])

    def _take_lines(self, lines: list[bytes]) -> list[bytes]:
        if lines and self._is_start:
            self._is_start = False
            lines[0] = lines[0].removeprefix(_BOM)
        events: list[bytes] = []
        data, size, progress = self._data, self._data_bytes, False
        for line in lines:
            if not line:
                if data:
                    events.append(data[0] if len(data) == 1 else b"\n".join(data))
                    data.clear()
                    size = 0
            elif line[:5] == b"data:":
                data.append(line[6:] if line[5:6] == b" " else line[5:])
                size += len(line)
                if size > self._max:
                    self._refuse()
                progress = True
            elif line == b"data":
                data.append(b"")
        self._data_bytes = size
        self.made_progress = progress
        return events

    def _watch_partial_line(self, new_bytes: int) -> None:
        if self._line[0].startswith(b":"):
            # Nobody will read a comment: keep what marks it as one, so that an endless one costs no memory.
            self._line[:] = [b":"]
            return
        self._line_bytes += new_bytes
        if self._data_bytes + self._line_bytes > self._max:
            self._refuse()
        self.made_progress = True

    def _refuse(self) -> NoReturn:
        raise EventTooLarge(f"the server sent an event larger than {self._max} bytes")

    def _check_utf8(self, chunk: bytes) -> None:
        if not self._half_char and chunk.isascii():
            return
        whole = self._half_char + chunk
        try:
            _, used = utf_8_decode(whole, "strict", False)
        except UnicodeDecodeError as error:
            raise BadUtf8("the stream is not valid UTF-8") from error
        self._half_char = whole[used:]
