"""The lines of a thread, some of them packed: nobody notices but who counts bytes."""

from __future__ import annotations

import pickle

import pytest

from spindle.thread.entry import Record
from spindle.thread.records import CHUNK, Records


def line(number: int) -> Record:
    ordinal = (number, None, 10**30)[number % 3]  # a file may hold any number
    return Record("event_msg", b'{"n":%d}' % number, f"t{number}", ordinal, b"b" * (number % 3))


def told(lines: list[Record]) -> list[tuple[object, ...]]:
    return [(line.kind, line.raw, line.timestamp, line.ordinal, line.beside) for line in lines]


def packed_and_plain(count: int) -> tuple[Records, list[Record]]:
    """Packed three times while it grew."""
    plain, records = [line(number) for number in range(count)], Records()
    for number, record in enumerate(plain):
        records.append(record)
        if number in (count // 3, count // 2, count - 2):
            records = records.packed()
    return records, plain


@pytest.mark.parametrize("count", [0, 1, CHUNK - 1, CHUNK + 1, 3 * CHUNK + 7, 10 * CHUNK])
def test_packed_lines_are_the_lines(count: int) -> None:
    records, plain = packed_and_plain(count)
    assert len(records) == count and bool(records) == bool(plain)
    assert told(list(records)) == told(plain)
    assert told(list(reversed(records))) == told(plain[::-1])
    places = {0, 1, CHUNK - 1, CHUNK, count // 2, count - 2, count - 1, count, -1, -2, -CHUNK, -count, -count - 1}
    for place in places:
        if -count <= place < count:
            assert told([records[place]]) == told([plain[place]])
        else:
            with pytest.raises(IndexError):
                records[place]
    for start in {*places, None}:
        for stop in {*places, None}:
            for step in (None, 1, 2, -1):
                assert told(records[start:stop:step]) == told(plain[start:stop:step])


def test_who_goes_through_the_lines_is_not_disturbed_when_they_are_packed() -> None:
    records = Records([line(number) for number in range(3 * CHUNK)])
    going = iter(records)
    first = [next(going) for _ in range(CHUNK + 1)]
    assert len(records.packed()) == len(records)
    assert told(first + list(going)) == told(list(records))


def test_only_whole_chunks_are_packed_and_only_once() -> None:
    records = Records([line(number) for number in range(2 * CHUNK + 5)]).packed()
    assert records.packed() is records
    assert (len(records._chunks), len(records._open)) == (2, 5)
    for number in range(CHUNK):
        records.append(line(number))
    again = records.packed()
    assert [id(chunk) for chunk in again._chunks[:2]] == [id(chunk) for chunk in records._chunks]
    assert (len(again._chunks), len(again._open)) == (3, 5)


def test_chunks_are_pickled_beside_the_rest_and_not_copied() -> None:
    records, plain = packed_and_plain(3 * CHUNK + 7)
    beside: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(records, 5, buffer_callback=beside.append)
    again = pickle.loads(pickled, buffers=[buffer.raw().obj for buffer in beside])
    assert told(list(again)) == told(plain)
    assert [id(chunk) for chunk in again._chunks] == [id(chunk) for chunk in records._chunks]
