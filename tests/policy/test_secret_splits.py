"""However a stream is cut, a known value shows not one character, and nothing is held back that can begin none."""

from __future__ import annotations

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from spindle.policy.secrets import Secrets

VALUES = ("test-key-0123456789", "tetete-0123456789", "é-schlüssel-ß12345", "plain-token-12345", "tt0123456789tt0123")


def made() -> Secrets:
    secrets = Secrets()
    for number, value in enumerate(VALUES):
        secrets.add(value, f"KEY{number}")
    return secrets


SECRETS = made()
beginnings = st.sampled_from([value[:length] for value in VALUES for length in range(1, len(value) + 1)])
texts = st.lists(beginnings | st.text(st.sampled_from("tes é-\n"), max_size=4), max_size=8).map("".join)


def held(text: str) -> int:
    """How much at the end of `text` may be the beginning of a value."""
    longest = max(map(len, VALUES))
    ends = [text[-length:] for length in range(1, longest) if length <= len(text)]
    return max((len(end) for end in ends if any(v.startswith(end) and v != end for v in VALUES)), default=0)


def is_short(text: str) -> bool:
    """The text does not break off in a value of which it has 8 bytes or more: so much is masked all the same."""
    return len(text[len(text) - held(text) :].encode()) < 8


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({min(place, len(text)) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in itertools.pairwise(ends)]


@given(texts, st.lists(st.integers(0, 100), max_size=12))
@example("test-key-0123456789", [3])
@example("ttest-key-0123456789t", [1, 2, 3])
@example("é-schlü", [])
def test_the_words_of_a_model_are_masked_like_the_whole_however_they_are_cut(text: str, places: list[int]) -> None:
    masker, shown, fed = SECRETS.text_stream(), "", ""
    for piece in cut(text, places):
        shown += masker.feed(piece)
        fed += piece
        sure = SECRETS.mask_known(fed[: len(fed) - held(fed)])
        assert sure.startswith(shown), "no more than can be told already"
        # A value that ends like one begins is waited for as a whole; else nothing is held back without need.
        assert shown == sure or any(value in fed for value in VALUES)
    rest = masker.finish()
    if is_short(text):
        assert shown + rest == SECRETS.mask_known(text)


@given(texts, st.lists(st.integers(0, 200), max_size=12))
@example("test-key-0123456789", [3])
def test_the_output_of_a_command_is_masked_like_the_whole_however_it_is_cut(text: str, places: list[int]) -> None:
    data = text.encode()
    masker, shown = SECRETS.output_stream(), b""
    ends = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    for start, end in itertools.pairwise(ends):
        shown += masker.feed(data[start:end])
        assert SECRETS.mask(data.decode()).encode().startswith(shown)
    rest = masker.finish()
    if is_short(text):
        assert shown + rest == SECRETS.mask(text).encode()


def test_every_cut_of_every_value_shows_none_of_it() -> None:
    for number, value in enumerate(VALUES):
        for first in range(len(value) + 1):
            for second in range(first, len(value) + 1):
                masker = SECRETS.text_stream()
                pieces = (value[:first], value[first:second], value[second:])
                out = "".join(map(masker.feed, pieces)) + masker.finish()
                assert out == f"[secret: KEY{number}]"


def test_pieces_in_which_no_value_can_begin_come_through_as_they_are() -> None:
    masker = SECRETS.text_stream()
    for piece in ("A word", " and ", "\n", "another one.", "x"):
        assert masker.feed(piece) == piece
    assert masker.finish() == ""
