"""The lines of a thread as a process holds them.

Most of what a thread holds are lines that nobody reads again. A thread that rests (`core/resting.py`) therefore has
its older lines packed in chunks, which stay packed when it wakes: reading the lines unpacks one chunk at a
time. So the cost of a rest depends on what is new, not on how long the thread is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, overload

import msgspec

from spindle.thread.entry import Record

CHUNK = 64
"""How many lines are packed together."""

PIECE_BYTES = 1 << 18
"""How much is compressed in one go."""


class Records(Sequence[Record]):
    """Lines in their order. It can be appended to, and no line ever changes."""

    __slots__ = ("_chunks", "_open")

    def __init__(self, lines: list[Record] | None = None, chunks: Sequence[bytes] = ()) -> None:
        self._chunks = chunks
        """The first lines, `CHUNK` in each."""
        self._open = [] if lines is None else lines
        """The lines behind them."""

    def append(self, record: Record) -> None:
        self._open.append(record)

    def packing(self) -> Generator[int, None, Records]:
        """The same lines, with as many of them packed as fill whole chunks. Whoever holds this object may go on.

        Gives how many bytes were packed in each go; it may be left after any of them. Lines that are appended meanwhile
        are taken along.
        """
        chunks = list(self._chunks)
        start = 0
        while start + CHUNK <= len(self._open):
            chunks.append((yield from _pack(self._open[start : start + CHUNK])))
            start += CHUNK
        return Records(self._open[start:], chunks) if start else self

    def __len__(self) -> int:
        return len(self._chunks) * CHUNK + len(self._open)

    def __iter__(self) -> Iterator[Record]:
        for chunk in self._chunks:
            yield from _unpack(chunk)
        yield from self._open

    def __reversed__(self) -> Iterator[Record]:
        yield from reversed(self._open)
        for chunk in reversed(self._chunks):
            yield from reversed(_unpack(chunk))

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> list[Record]: ...
    def __getitem__(self, place: int | slice) -> Record | list[Record]:
        packed = len(self._chunks) * CHUNK
        if isinstance(place, int):
            at = place + len(self) if place < 0 else place
            if not 0 <= at < len(self):
                raise IndexError(place)
            return self._open[at - packed] if at >= packed else _unpack(self._chunks[at // CHUNK])[at % CHUNK]
        start, stop, step = place.indices(len(self))
        if step == 1 and start >= packed:  # what is new: the usual case
            return self._open[start - packed : max(start, stop) - packed]
        return list(self)[place]

    def __reduce__(self) -> tuple[Any, ...]:
        """The chunks are handed over beside what is pickled: they are as small as they get."""
        from pickle import PickleBuffer  # only for threads that rest

        return _again, (self._open, [PickleBuffer(chunk) for chunk in self._chunks])

    def __repr__(self) -> str:
        return f"Records({len(self)} lines)"


def _again(lines: list[Record], chunks: list[bytes]) -> Records:
    return Records(lines, chunks)


def squeeze(data: bytes, compress: Callable[[bytes | memoryview], bytes]) -> Generator[int, None, bytes]:
    """Feed a compressor piece by piece. Gives how many bytes it was fed in each go; in the end, what came of them."""
    view = memoryview(data)
    squeezed: list[bytes] = []
    for start in range(0, len(data), PIECE_BYTES):
        piece = view[start : start + PIECE_BYTES]
        squeezed.append(compress(piece))
        yield len(piece)
    return b"".join(squeezed)


def _pack(lines: list[Record]) -> Generator[int, None, bytes]:
    import zlib  # only for threads that rest

    # As text: a file of others may hold a number that is larger than those that are packed.
    ordinals = ["" if line.ordinal is None else str(line.ordinal) for line in lines]
    fields = [
        (line.kind, line.raw, line.timestamp, ordinal, line.beside)
        for line, ordinal in zip(lines, ordinals, strict=True)
    ]
    packer = zlib.compressobj()
    packed = yield from squeeze(msgspec.msgpack.encode(fields), packer.compress)
    return packed + packer.flush()


def _unpack(chunk: bytes) -> list[Record]:
    import zlib  # only for threads that have rested

    return [
        Record(kind, raw, timestamp, int(ordinal) if ordinal else None, beside)
        for kind, raw, timestamp, ordinal, beside in _read(zlib.decompress(chunk))
    ]


_read = msgspec.msgpack.Decoder(list[tuple[str, bytes, str, str, bytes]]).decode
