"""Server-sent events, cut anywhere."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.model.sse import BadUtf8, EventTooLarge, SseDecoder

LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
DATA_LINES = st.lists(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from(["\u2028", "a\u2029b", "\x85", "\x0b\x0c", " two blanks", ""]),
    min_size=1,
    max_size=3,
)
NOISE = st.sampled_from([b"", b": keep-alive", b":", b"event: x", b"id: 1", b"retry: 5", b"unknown", b"dat: x"])


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """Bytes of a stream, and the data of its events."""
    parts: list[bytes] = [draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))]
    events: list[bytes] = []
    for lines in draw(st.lists(DATA_LINES, max_size=5)):
        end = b""
        for line in lines:
            if noise := draw(NOISE):
                parts += [noise, draw(LINE_ENDS)]
            blank = b" " if line.startswith(" ") else draw(st.sampled_from([b"", b" "]))
            end = draw(LINE_ENDS)
            parts += [b"data:", blank, line.encode(), end]
        # After a CR, a bare LF would be the second half of a CRLF and no blank line.
        parts.append(b"\r\n" if end == b"\r" else draw(LINE_ENDS))
        events.append("\n".join(lines).encode())
    return b"".join(parts), events


def decode(chunks: list[bytes]) -> list[bytes]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    borders = sorted({place % (len(stream) + 1) for place in places} | {0, len(stream)})
    return [stream[a:b] for a, b in pairwise(borders)]


@settings(max_examples=150, deadline=None)
@given(streams(), st.lists(st.integers(0, 10_000), max_size=8))
def test_events_are_the_same_wherever_the_bytes_are_cut(made: tuple[bytes, list[bytes]], places: list[int]) -> None:
    stream, events = made
    assert decode([stream]) == events
    assert decode(cut(stream, places)) == events
    assert decode([stream[i : i + 1] for i in range(len(stream))]) == events


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_only_cr_and_lf_end_a_line(sign: str) -> None:
    text = f"one{sign}two".encode()
    assert decode([b"data: " + text + b"\n\n"]) == [text]


def test_comments_and_other_fields_are_skipped() -> None:
    assert decode([b": hi\n\nevent: x\ndata: 1\nid: 7\nretry: 1\n\n:\n\ndata\n\n"]) == [b"1", b""]


def test_a_last_event_without_its_blank_line_still_counts() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\n\ndata: b") == [b"a"]
    assert decoder.finish() == [b"b"]
    assert decoder.finish() == []


@pytest.mark.parametrize(
    ("chunk", "is_progress"),
    [
        (b": keep-alive\n\n", False),
        (b": keep-al", False),
        (b"\n\n\n", False),
        (b"event: ping\n\n", False),
        (b"data: {}\n\n", True),
        (b"data: {\n", True),
        (b'data: {"type', True),
    ],
)
def test_only_event_data_is_progress(chunk: bytes, is_progress: bool) -> None:
    decoder = SseDecoder()
    decoder.feed(b"data: pending\n")
    decoder.feed(chunk)
    assert decoder.made_progress is is_progress


def test_an_endless_comment_takes_no_memory_and_is_no_progress() -> None:
    decoder = SseDecoder(event_max_bytes=1000)
    decoder.feed(b": ")
    for _ in range(100):
        assert decoder.feed(b"x" * 1000) == []
        assert not decoder.made_progress
    assert decoder.feed(b"\ndata: 1\n\n") == [b"1"]


@pytest.mark.parametrize("line", [b"data: ", b"data: x\ndata: "])
def test_an_event_above_the_limit_is_refused(line: bytes) -> None:
    decoder = SseDecoder(event_max_bytes=5000)
    with pytest.raises(EventTooLarge, match=r"larger than 5000 bytes"):
        for chunk in [line, *[b"x" * 500] * 12]:
            decoder.feed(chunk)


def test_many_lines_of_one_event_count_together() -> None:
    decoder = SseDecoder(event_max_bytes=5000)
    with pytest.raises(EventTooLarge):
        for _ in range(12):
            decoder.feed(b"data: " + b"x" * 500 + b"\n")


def test_the_limit_is_for_one_event_not_for_the_stream() -> None:
    decoder = SseDecoder(event_max_bytes=5000)
    for _ in range(20):
        assert len(decoder.feed(b"data: " + b"x" * 4000 + b"\n\n")) == 1


@pytest.mark.parametrize("bad", [b"data: \xff\n\n", b"data: \xe2\x82\n\n", b": \xc3(\n", b"data: \xed\xa0\x80\n\n"])
def test_what_is_not_utf8_is_refused(bad: bytes) -> None:
    for chunks in ([bad], [bad[i : i + 1] for i in range(len(bad))]):
        decoder = SseDecoder()
        with pytest.raises(BadUtf8):
            for chunk in chunks:
                decoder.feed(chunk)


def test_a_thirty_megabyte_event_is_read_in_linear_time() -> None:
    event = b"x" * 30_000_000
    stream = b"data: " + event + b"\n\n"
    started = time.process_time()
    decoder = SseDecoder()
    events = [e for i in range(0, len(stream), 2048) for e in decoder.feed(stream[i : i + 2048])]
    assert events == [event]
    assert time.process_time() - started < 5
