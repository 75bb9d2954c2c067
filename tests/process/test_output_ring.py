"""Output of any length in constant memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.policy.secrets import Secrets
from spindle.process.output import SMALL_PIECE, OutputRing


@given(chunks=st.lists(st.binary(max_size=40)), cap=st.integers(2, 30).map(lambda half: 2 * half))
@settings(max_examples=200)
def test_head_and_tail_are_exact_and_the_rest_is_counted(chunks: list[bytes], cap: int) -> None:
    ring = OutputRing(cap)
    for chunk in chunks:
        ring.add(chunk)
    whole, half = b"".join(chunks), cap // 2
    assert ring.head == whole[:half]
    assert ring.tail == (whole[half:] if len(whole) <= cap else whole[-half:])
    assert ring.total == len(whole)
    assert ring.dropped == max(0, len(whole) - cap)
    assert ring.lines == len(whole.split(b"\n")) - whole.endswith(b"\n") - (not whole)


@given(text=st.text(min_size=1), cut=st.integers(0, 20))
@settings(max_examples=200)
def test_a_character_is_never_torn_between_two_looks(text: str, cut: int) -> None:
    data = text.encode()
    ring = OutputRing()
    ring.add(data[:cut])
    first = ring.take(hold_partial=True).text()
    ring.add(data[cut:])
    assert first + ring.take().text() == text


def test_memory_stays_flat_over_small_and_large_writes() -> None:
    ring = OutputRing(100_000)
    for size in [1] * 20_000 + [99] * 10_000 + [70_000] * 20 + [99] * 2_000:
        ring.add(b"x" * size)
        held = len(ring._head) + sum(map(len, ring._pieces))
        assert held <= 100_000 + max(size, SMALL_PIECE, 70_000)
        assert len(ring._pieces) <= 100_000 // SMALL_PIECE + 2
    assert ring.total == 20_000 + 990_000 + 1_400_000 + 198_000


def test_rings_of_one_stream_share_its_chunks() -> None:
    chunk = b"y" * 8192
    one, two = OutputRing(1000), OutputRing(1000)
    for ring in (one, two):
        ring.add(b"x" * 500)
        ring.add(chunk)
    assert one._pieces[0] is two._pieces[0] is chunk


SECRETS = Secrets(own=lambda: [("KEY", "one-quiet-value-0123")])
VALUE = b"one-quiet-value-0123"


def test_a_secret_is_masked_also_when_the_reader_looks_in_the_middle_of_it() -> None:
    ring = OutputRing(secrets=SECRETS)
    ring.add(b"one " + VALUE[:9])
    assert ring.take(hold_partial=True).text() == "one "
    ring.add(VALUE[9:] + b" six")
    assert ring.take(hold_partial=True).text() == "[secret: KEY] six"


def test_not_one_letter_of_a_secret_is_shown_before_it_is_known_to_be_none() -> None:
    ring = OutputRing(secrets=SECRETS)
    ring.add(b"one " + VALUE[:1])
    assert ring.take(hold_partial=True).text() == "one "
    ring.add(VALUE[1:] + b" two")
    assert ring.take().text() == "[secret: KEY] two"


@pytest.mark.parametrize("shift", range(0, 40, 3))
@pytest.mark.parametrize("most", [None, 5_000])
def test_a_secret_that_the_gap_cuts_in_two_shows_on_neither_side(shift: int, most: int | None) -> None:
    ring = OutputRing(40_000, secrets=SECRETS)
    ring.add(b"a" * shift + (b"x" * 30 + VALUE) * 4_000 + b"z" * shift)
    taken = ring.take(most=most)
    text = (taken.head + b"|" + taken.tail).decode()
    assert taken.dropped and taken.total == 4_000 * 50 + 2 * shift
    assert not any(VALUE[at : at + 5] in text.encode() for at in range(len(VALUE) - 4))


def test_looking_twice_is_the_same_and_takes_nothing() -> None:
    ring = OutputRing(secrets=SECRETS)
    ring.add(b"a " + VALUE)
    assert ring.peek().text() == ring.peek().text() == "a [secret: KEY]"
    ring.add(b" more")
    assert ring.peek().text() == ring.take().text() == "a [secret: KEY] more"
