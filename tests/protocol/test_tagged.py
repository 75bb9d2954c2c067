"""Blocks between tags, whichever way the text is cut into pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spindle.protocol.tagged import Piece, TagParser

TAGS = {"plan": ("<plan>", "</plan>")}


def parse(*texts: str) -> list[Piece]:
    parser = TagParser(TAGS)
    return [piece for text in texts for piece in parser.feed(text)] + parser.finish()


def text(value: str) -> Piece:
    return Piece("text", value)


def inner(value: str) -> Piece:
    return Piece("inner", value, "plan")


START, END = Piece("start", name="plan"), Piece("end", name="plan")


@pytest.mark.parametrize(
    ("whole", "pieces"),
    [
        ("a\n<plan>\n- b\n</plan>\nc\n", [text("a\n"), START, inner("- b\n"), END, text("c\n")]),
        ("  <plan>  \nx\n\t</plan>", [START, inner("x\n"), END]),
        ("<plan>\nleft open", [START, inner("left open"), END]),
        ("<plan>", [START, END]),
        ("say <plan>\nno\n", [text("say <plan>\nno\n")]),
        ("<plan> no\n", [text("<plan> no\n")]),
        ("</plan>\n", [text("</plan>\n")]),
        ("<plan>\n<plan>\n</plan>\n", [START, inner("<plan>\n"), END]),
        ("<pla\nn>\n", [text("<pla\nn>\n")]),
        ("", []),
    ],
)
def test_a_tag_counts_only_alone_on_its_line_and_where_it_fits(whole: str, pieces: list[Piece]) -> None:
    assert parse(whole) == pieces


def test_only_what_may_become_a_tag_is_held_back() -> None:
    parser = TagParser(TAGS)
    assert parser.feed("a <plan") == [text("a <plan")]
    assert parser.feed("\n <pl") == [text("\n")]
    assert parser.feed("um") == [text(" <plum")]
    assert parser.feed("b") == [text("b")]


LINES = st.lists(st.sampled_from(["<plan>", "</plan>", " <plan> ", "<pl", "text", "", "x <plan>"]), max_size=8)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LINES, st.lists(st.integers(0, 60), max_size=10))
def test_where_the_text_is_cut_makes_no_difference(lines: list[str], cuts: list[int]) -> None:
    whole = "\n".join(lines)
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    parts = [whole[a:b] for a, b in pairwise(edges)]

    def joined(pieces: list[Piece]) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for piece in pieces:
            if found and piece.text and found[-1][0] == piece.kind:
                found[-1] = (piece.kind, found[-1][1] + piece.text)
            else:
                found.append((piece.kind, piece.text))
        return found

    assert joined(parse(*parts)) == joined(parse(whole))
