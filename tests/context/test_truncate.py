"""Cutting output: head and tail stay, whole characters only, and the marker tells the truth."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.context.truncate import recorded_limit, truncate_output, truncate_output_parts, truncate_text


@pytest.mark.parametrize(
    ("text", "mode", "limit", "expected"),
    [
        ("", "bytes", 0, ""),
        ("abcdef", "bytes", 6, "abcdef"),
        ("abcdef", "bytes", 5, "ab…1 chars truncated…def"),
        ("abcdefgh", "bytes", 4, "ab…4 chars truncated…gh"),
        ("abcdefgh", "tokens", 2, "abcdefgh"),
        ("abcdefghi", "tokens", 2, "abcd…1 tokens truncated…fghi"),
        ("a" * 100, "tokens", 10, "a" * 20 + "…15 tokens truncated…" + "a" * 20),
        ("abc", "bytes", 0, "…3 chars truncated…"),
        ("abcde", "tokens", 0, "…2 tokens truncated…"),
        ("ééé", "bytes", 3, "…2 chars truncated…é"),
        ("a🙂b🙂c", "bytes", 6, "a…3 chars truncated…c"),
        ("line\nline\nline\n", "bytes", 8, "line…7 chars truncated…ine\n"),
    ],
)
def test_a_text_is_cut_in_the_middle(text, mode, limit, expected):
    assert truncate_text(text, mode, limit) == (expected, text != expected)


@given(st.text(max_size=300), st.sampled_from(["bytes", "tokens"]), st.integers(0, 120))
def test_head_and_tail_are_whole_characters_within_the_limit(text, mode, limit):
    budget = limit * (4 if mode == "tokens" else 1)
    cut, truncated = truncate_text(text, mode, limit)
    size = len(text.encode())
    assert truncated == (size > budget)
    if not truncated:
        assert cut == text
        return
    unit = "tokens" if mode == "tokens" else "chars"
    candidates = [
        (cut[: m.start()], int(m[1]), cut[m.start() + len(m[0]) :])
        for m in re.finditer(f"(?=…([0-9]+) {unit} truncated…)", cut)
        for m in [re.compile(f"…([0-9]+) {unit} truncated…").match(cut, m.start())]
        if m
    ]
    assert any(
        text.startswith(head)
        and text.endswith(tail)
        and budget // 2 - 3 <= len(head.encode()) <= budget // 2
        and budget - budget // 2 - 3 <= len(tail.encode()) <= budget - budget // 2
        and n == (-(-(size - budget) // 4) if mode == "tokens" else len(text) - len(head) - len(tail))
        for head, n, tail in candidates
    )


def part(text: str) -> dict:
    return {"type": "input_text", "text": text}


IMAGE = {"type": "input_image", "image_url": "data:" + "x" * 500}


def test_parts_share_one_budget_and_pictures_are_never_cut():
    parts, cut = truncate_output_parts([part("aaaa"), IMAGE, part("bbbbbbbb"), part("c"), IMAGE, part("d")], "bytes", 8)
    assert cut
    assert parts == [
        part("aaaa"),
        IMAGE,
        part("bb…4 chars truncated…bb"),
        IMAGE,
        part("[omitted 2 text items ...]"),
    ]


def test_parts_within_the_budget_stay_as_they_are():
    given_parts = [part("a" * 8), IMAGE, part("b" * 8)]
    assert truncate_output_parts(given_parts, "tokens", 4) == (given_parts, False)
    assert truncate_output(given_parts, "tokens", 4) is given_parts


def test_outputs_of_both_kinds_are_cut():
    assert truncate_output("abcdef", "bytes", 4) == "ab…2 chars truncated…ef"
    assert truncate_output([part("abcdef"), part("x")], "bytes", 4) == [
        part("ab…2 chars truncated…ef"),
        part("[omitted 1 text items ...]"),
    ]


def test_the_record_takes_a_fifth_more_than_the_model_is_shown():
    assert [recorded_limit(limit) for limit in (10_000, 1, 0)] == [12_000, 2, 0]
