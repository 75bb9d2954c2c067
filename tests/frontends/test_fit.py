"""Text that fits a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wcwidth import wcwidth

from spindle.frontends.fit import cells, cut, cut_middle, fit_rule, fold, hang, head_and_tail, rows_of, table, wrap

LINES = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=60)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        *(("plain", 5), ("größer", 6), ("日本語", 6), ("e\u0301", 1), ("👍", 2), ("👩\u200d💻", 4), ("", 0)),
        # Shown as emoji they take two cells; what takes two already does not grow, and letters are no emoji.
        *(("❤\ufe0f", 2), ("❤", 1), ("👍\ufe0f", 2), ("☎\ufe0fx", 3), ("a\ufe0f", 1)),
        # The letters of a Korean syllable are drawn into one place; emoji younger than this Python are wide.
        *(("\u1112\u1161\u11ab", 2), ("\U0001faea", 2), ("\U0001fae8", 2)),
    ],
)
def test_text_is_measured_in_cells(text: str, count: int) -> None:
    assert cells(text) == count


def test_characters_are_as_wide_as_terminals_take_them_for() -> None:
    """All of them, against a table that terminals and their libraries share."""
    different: dict[tuple[str, int, int], list[str]] = {}
    for number in range(0x110000):
        char = chr(number)
        kind = unicodedata.category(char)
        if kind in ("Cc", "Cs", "Co", "Cn") or cells(char) == wcwidth(char):
            continue
        different.setdefault((kind, cells(char), wcwidth(char)), []).append(char)
    # Vowel signs: some terminals give them a cell, so we do. Flags are two signs, which take two cells together.
    # The fillers are never shown as they are.
    assert {kind for kind, _, _ in different} <= {"Mc", "So", "Lo"}
    assert set(different.pop(("So", 1, 2), [])) <= {chr(number) for number in range(0x1F1E6, 0x1F200)}
    assert {char for (kind, _, _), chars in different.items() if kind == "Lo" for char in chars} <= {"\u3164", "\uffa0"}
    assert all(ours > theirs for _, ours, theirs in different)


def test_a_cut_line_shows_that_there_was_more() -> None:
    assert (cut("abcdef", 6), cut("abcdef", 5), cut("日本語", 5), cut("abc", 1)) == ("abcdef", "abcd…", "日本…", "a")
    assert cut_middle("cargo test --workspace --all-features -- one", 30) == "cargo test --works … es -- one"


@given(LINES, st.integers(1, 40))
@example("漢" * 60, 40)
def test_nothing_is_wider_than_it_may_be(text: str, width: int) -> None:
    assert cells(cut(text, width)) <= width and cells(cut_middle(text, width)) <= width
    narrow = [line for line in (*rows_of(text, width), *wrap(text, width)) if cells(line) > width]
    # A wide character does not fit into one cell; the marks on it stay with it.
    assert all(width == 1 for _ in narrow)


@given(LINES, st.integers(2, 40))
def test_wrapping_and_breaking_lose_nothing(text: str, width: int) -> None:
    assert "".join(rows_of(text, width)) == text
    assert "".join(wrap(text, width)).replace(" ", "") == text.replace(" ", "")


def test_folded_rows_end_between_words_and_hang_below_their_beginning() -> None:
    assert fold("a few words that go on", 12) == ["a few words", "that go on"]
    assert fold("  ✓ a few words that go on", 16) == ["  ✓ a few words", "    that go on"]
    assert fold("+    return one or two", 16) == ["+    return one", "     or two"]
    assert fold("a     b", 3) == ["a", "b"] and fold("a\tfew words", 4) == ["a\tfew words"]
    assert fold("few words that", 12, taken=4) == ["few", "words that"]
    # What fits into no row begins where it stands, and what follows knows where the terminal has broken it.
    assert fold("at https://example.com/path now and then", 12) == ["at https://example.com/path now and", "then"]


@given(LINES, st.integers(2, 40))
def test_folding_loses_nothing_and_breaks_no_word(text: str, width: int) -> None:
    rows = fold(text, width)
    assert [word for row in rows for word in row.split(" ") if word] == [word for word in text.split(" ") if word]
    assert all(cells(row) <= width or any(2 * cells(word) > width for word in row.split(" ")) for row in rows)


def test_rules_around_a_heading_are_shortened_to_the_width() -> None:
    assert fit_rule("=" * 8 + " 1 failed " + "=" * 8, 20) == "===== 1 failed ====="
    assert fit_rule("-- heading " + "-" * 20, 20) == "-- heading ---------"
    assert fit_rule("_" * 30, 20) == "_" * 20 and fit_rule("=" * 20, 20) == "=" * 20
    whole = "======== a heading that has no room itself ========"
    assert fit_rule(whole, 20) == whole and fit_rule("no rule, but long enough", 20) == "no rule, but long enough"


class Unmeasured(str):
    """A line whose characters nobody may go through; what is cut from it is a plain one."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("it is measured to its end")


def test_a_very_long_line_is_not_measured_to_its_end() -> None:
    line = Unmeasured("日" * 10_000)
    assert cut(line, 10) == "日日日日…"
    assert cut_middle(line, 30) == "日" * 9 + " … " + "日" * 4


def test_a_column_moves_below_where_there_is_no_room_beside() -> None:
    assert hang("name: ", "some more words here", 80) == "name: some more words here"
    assert hang("name: ", "some more words that go on", 30) == "name: some more words that go\n      on"
    assert hang("  a long name: ", "some more words here", 20) == "  a long name:\n    some more words\n    here"


def test_a_table_takes_what_is_missing_from_its_widest_columns() -> None:
    rows = [["Name", "Command", "Status"], ["a-server", "a-very-long-command-line", "enabled"]]
    assert table(rows, None).splitlines()[1] == "a-server  a-very-long-command-line  enabled"
    assert table(rows, 30).splitlines() == ["Name      Command      Status", "a-server  a-very-lon…  enabled"]
    assert table(rows, 20) == "a-server\n  Command:\n    a-very-long-comm\n    and-line\n  Status: enabled"


def test_head_and_tail_keep_what_was_asked_for() -> None:
    lines = [str(n) for n in range(1000)]
    shown = head_and_tail(lines, 10)
    assert shown == ["0", "1", "2", "3", "… 990 lines omitted …", "994", "995", "996", "997", "998", "999"]
    assert head_and_tail(lines, None) == lines


def test_letters_that_take_two_cells_are_counted_as_two() -> None:
    assert [cut(text, 6) for text in ("abcdef", "abcdefg", "漢字漢", "漢字漢字", "漢字漢a", "e\u0301" * 6)] == [
        *("abcdef", "abcde…", "漢字漢", "漢字…", "漢字…", "e\u0301" * 6)
    ]
