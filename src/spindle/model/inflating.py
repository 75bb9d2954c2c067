"""Bodies that are compressed. Loaded only for servers that compress although we ask them not to."""

from __future__ import annotations

import zlib

from spindle.model.connection import BadResponse, Connection
from spindle.model.http import Response

INFLATE_STEP_BYTES = 1024 * 1024


class _Inflater:
    """Undoes gzip and deflate, in steps of bounded size."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise BadResponse(f"the server's answer is encoded as {encoding}, which is not supported")
        self._raw = zlib.decompressobj(-zlib.MAX_WBITS)
        self._inner = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._is_first = encoding == "deflate"
        self._input = b""

    def feed(self, data: bytes) -> None:
        self._input = data if not self._input else self._input + data

    def more(self) -> bytes:
        """Some output, or b"" when more input is needed."""
        if not self._input:
            return b""
        try:
            output = self._inner.decompress(self._input, INFLATE_STEP_BYTES)
        except zlib.error as error:
            if not self._is_first:
                raise BadResponse("the server's answer is not compressed as it says") from error
            # "deflate" means zlib's format, but some servers send the bare one.
            self._inner, self._is_first = self._raw, False
            return self.more()
        self._is_first = False
        self._input = self._inner.unconsumed_tail
        return output


class InflatedResponse(Response):
    """An answer whose body is compressed."""

    def __init__(self, connection: Connection, encoding: str) -> None:
        super().__init__(connection)
        self._inflater = _Inflater(encoding)

    async def chunk(self, deadline: float) -> bytes:
        while not self._is_over:
            if data := self._inflater.more():
                return data
            if data := await super().chunk(deadline):
                self._inflater.feed(data)
        return b""
