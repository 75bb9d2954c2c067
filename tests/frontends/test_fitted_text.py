"""What the agent says, in the width of the terminal: its tables, and lines that end between words."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.frontends.exec.fitted import MOST_CHARACTERS, MOST_LINES, FittedText, fit_text
from spindle.frontends.fit import cells

TABLE = """Before.

| Name | What | N |
|---|:---:|---:|
| `a|b` | 日本語 🎉 | 1 |
| x \\| y | [a link](https://example.com) | 12,345 |

After | it.
"""


def test_a_table_that_fits_gets_aligned_columns_and_stays_markdown() -> None:
    assert (
        fit_text(TABLE, 80)
        == """Before.

| Name   |             What              |      N |
| ------ | :---------------------------: | -----: |
| `a|b`  |           日本語 🎉           |      1 |
| x \\| y | [a link](https://example.com) | 12,345 |

After | it.
"""
    )


def test_cells_that_do_not_fit_go_over_several_lines() -> None:
    table = "| Name | What it does |\n|---|---|\n| one | reads the head of a file |\n| two | writes it |\n"
    assert (
        fit_text(table, 26)
        == """| Name | What it does    |
| ---- | --------------- |
| one  | reads the head  |
|      | of a file       |
| ---- | --------------- |
| two  | writes it       |
"""
    )


def test_where_columns_have_no_room_each_row_is_a_block() -> None:
    table = "| Name | Path |\n|--|--|\n| one | a/very/long/path |\n| two | another/long/path |"
    assert fit_text(table, 20) == (
        "Name: one\nPath:\n    a/very/long/path\n\nName: two\nPath:\n    another/long/pat\n    h"
    )


@pytest.mark.parametrize(
    "text",
    [
        "```\n| a | b |\n|---|---|\n| long long long long | x |\n```\n",
        "~~~~sh\n| a | b |\n```\n|---|---|\n| 1 | 2 |\n~~~~\n",
        "| a line that begins with a bar\nand goes on\n",
        "| a | b |\n| c | d |\n",
        "| a | b |\n|---|\n| c | d |\n",
        "no table || at all",
        "| written | meaning |\n|---|---|\n| a || b | one of both |\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | " + "long " * 1000 + "|\n| 5 | 6 |\n",
        "| a | b |",
    ],
)
def test_what_is_no_table_stays_as_it_is(text: str) -> None:
    assert fit_text(text, 20) == text and fit_text(TABLE, None) == TABLE


def test_prose_ends_its_rows_between_words_and_entries_hang_below_their_sign() -> None:
    text = "A line of several words.\n- one entry of a list\n    1. an entry in an entry\nshort\n"
    assert fit_text(text, 20).splitlines() == [
        *("A line of several", "words.", "- one entry of a", "  list", "    1. an entry in", "       an entry", "short")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nmake one two three four five six\n```\n",
        "    make one two three four five six\n",
        "\tmake one two three four five six\n",
        "https://example.com/a/long/address/that/is/copied\n",
    ],
)
def test_code_and_addresses_are_left_to_the_terminal_to_break(text: str) -> None:
    assert fit_text(text, 20) == text


def test_empty_lines_at_the_ends_are_left_out() -> None:
    fitted = FittedText(lambda: 20)
    assert fitted.add("\n\na\n\n") + fitted.add("\nb\n\n| c |\n|---|\n") == "a\n\n\nb\n\n"
    assert fitted.add("\n\n") + fitted.end() == "| c   |\n| --- |\n"


def test_what_streams_is_broken_as_it_will_stand() -> None:
    fitted = FittedText(lambda: 20)
    assert fitted.rows("A line of several wor", 19) == ["A line of several", "wor"]
    assert fitted.add("a\n\n") == "a\n" and fitted.rows("b", 19) == ["", "b"] and fitted.rows("", 19) == []
    assert fitted.add("b\u2028\n") == "\nb\u2028\n"
    assert fitted.rows("x" * 20, 19) == ["x" * 19, "x"] and fitted.rows("", 19) == []
    assert fitted.add("| a | b |\n") == "" and fitted.rows("|---|", 19) == ["| a | b |", "|---|"]


def test_a_table_without_an_end_is_not_waited_for() -> None:
    tables = FittedText(lambda: 30)
    assert tables.add("| a | b |\n|---|---|\n") == "" and tables.held == "| a | b |\n|---|---|\n"
    row = "| 1 | 2 |\n"
    assert tables.add(row * MOST_LINES).startswith("| a | b |\n|---|---|\n| 1 | 2 |\n")


def test_what_looks_like_a_table_takes_no_longer_for_its_form() -> None:
    """Lines that a pattern would try in all ways, or that would be written many times over."""
    ticks, blanks = "`" * (MOST_CHARACTERS - 20), " " * (MOST_CHARACTERS - 20)
    odd = [f"| a |\n|---|\n| {ticks} a |\n", f"| a |\n|-{blanks}x\n| b |\n", f"| {ticks} a |\n|---|\n| b |\n"]
    heads = [" a |" * 900, " a |" * 90_000, " " + "a" * 900_000 + " |"]
    odd += [f"|{head}\n|{'---|' * head.count('|')}\n{'| b |' * 300}\n" for head in heads]
    begun = time.process_time()
    for text in odd:
        for width in (8, 300):
            assert len(fit_text(text * 2, width)) < 3_000_000
    assert time.process_time() - begun < 5


CELLS = st.text(st.sampled_from("ab |`\\日é🎉*"), max_size=30).filter(lambda text: "\n" not in text)


@given(st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=1, max_size=5), st.integers(8, 60))
def test_no_row_is_wider_than_the_terminal_and_no_letter_is_lost(rows: list[list[str]], width: int) -> None:
    count = len(rows[0])
    table = [f"| {' | '.join(row)} |" for row in rows]
    table.insert(1, "|" + "---|" * count)
    text = "".join(f"{line}\n" for line in table)
    shown = fit_text(text, width)
    if shown != text:
        assert [line for line in shown.splitlines() if cells(line) > width] == []
        letters = [char for row in rows[1:] for cell in row for char in cell if char in "ab`日é🎉"]
        assert [shown.count(char) >= letters.count(char) for char in set(letters)] == [True] * len(set(letters))
