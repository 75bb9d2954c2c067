"""Lines as rows."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spindle.frontends.fit import cells
from spindle.frontends.tui.shown import Line, Span, line
from spindle.frontends.tui.text.layout import cut, expanded, fit_rows, height, row_width, rows

WORDS = st.lists(st.text(st.sampled_from("ab-.漢字。「」e\u0301👍é"), min_size=1, max_size=12), max_size=20)


def shown(text: str | Line, width: int, hang: str = "") -> list[str]:
    given_line = text if isinstance(text, Line) else line(text, hang=hang)
    return ["".join(span.text for span in row) for row in rows(given_line, width)]


def test_a_line_is_broken_at_blanks_and_hangs() -> None:
    assert shown("one two three four", 9) == ["one two", "three", "four"]
    assert shown("• one two three", 9, hang="  ") == ["• one two", "  three"]
    assert shown("    indented text", 10) == ["    indented", "text"]
    assert shown("a  b   c", 5) == ["a  b", "c"]
    assert shown("", 5) == [""] and shown("fits   ", 10) == ["fits   "]


def test_a_word_that_is_wider_than_the_window_is_left_to_the_terminal() -> None:
    url = "https://example.org/" + "x" * 50
    assert shown(f"see {url} for more", 20) == ["see", url, "for more"]
    assert shown(f"• {url}", 20, hang="  ") == [f"• {url}"]
    assert shown("看 https://example.org/漢字漢字漢字漢字漢字 了", 20) == [
        "看",
        "https://example.org/漢字漢字漢字漢字漢字",
        "了",
    ]
    assert height((Span("x" * 50),), 20) == 3 and height((Span("x" * 20),), 20) == 1 and height((), 20) == 1


def test_verbatim_lines_are_never_broken() -> None:
    code = Line((Span("if  x:  return  y"),), (), True)
    assert shown(code, 5) == ["if  x:  return  y"]


def test_text_without_blanks_is_broken_between_ideographs() -> None:
    assert shown("漢字漢字漢字", 5) == ["漢字", "漢字", "漢字"]
    assert shown("漢字漢。字", 6) == ["漢字", "漢。字"]
    assert shown("漢字「字」字", 6) == ["漢字", "「字」", "字"]
    assert shown("漢字 word漢字", 8) == ["漢字", "word漢字"]


def test_styles_stay_with_their_words() -> None:
    spans = (Span("one "), Span("bo", "bold"), Span("ld two", "italic"))
    assert rows(Line(spans), 8) == [(Span("one "), Span("bo", "bold"), Span("ld", "italic")), (Span("two", "italic"),)]


def test_a_character_of_two_cells_never_stands_half_in_a_row() -> None:
    assert height((Span("漢" * 5),), 3) == 5
    assert height((Span("漢" * 4),), 4) == 2


def test_a_hang_that_leaves_no_room_is_cut() -> None:
    assert shown("a bb cc", 4, hang=" " * 30) == ["a bb", "  cc"]
    assert shown("a bb cc", 1, hang=" " * 30) == ["a", "bb", "cc"]


def test_tabs_lead_to_the_next_stop() -> None:
    assert shown("a\tb\t\tc", 80) == ["a       b               c"]
    assert expanded((Span("ab"), Span("\tc", "code")), 4) == (Span("ab"), Span("  c", "code"))
    assert expanded((Span("漢\tx"),)) == (Span("漢      x"),)


def test_a_row_is_cut_with_a_mark() -> None:
    assert cut((Span("abc"), Span("def", "bold")), 6) == (Span("abc"), Span("def", "bold"))
    assert cut((Span("abc"), Span("def", "bold")), 5) == (Span("abc"), Span("d…", "bold"))
    assert cut((Span("ab "), Span("def", "bold")), 4) == (Span("ab "), Span("…", "bold"))
    assert cut((Span("漢字"),), 3) == (Span("漢…"),)
    assert cut((Span("abc"),), 0) == ()


@given(WORDS, st.integers(1, 30), st.sampled_from(["", "  ", "│ "]))
@example(words=["a", "bbb"], width=4, hang="  ")
def test_no_word_is_lost_or_too_wide(words: list[str], width: int, hang: str) -> None:
    text = " ".join(words)
    found = shown(text, width, hang)
    joined = "".join(row.removeprefix(hang) if number else row for number, row in enumerate(found))
    if len(hang) < width // 2:
        assert joined.replace(" ", "") == text.replace(" ", "")
    # Too wide is only what cannot be broken: before its last word stands no more than would stand there in a new row.
    assert all(cells(row) <= width or cells(row[: row.rfind(" ") + 1]) <= cells(hang) for row in found)


@given(
    st.text(st.sampled_from("aab  -"), max_size=60),
    st.integers(1, 20),
    st.sampled_from(["", "  ", "- "]),
    st.integers(0, 60),
)
def test_letters_beyond_ascii_change_nothing_in_the_layout(text: str, width: int, hang: str, place: int) -> None:
    """Plain text goes a quicker way, to the same result."""

    def laid_out(letter: str) -> list[tuple[Span, ...]]:
        changed = text.replace("a", letter)
        return rows(Line((Span(changed[:place]), Span(changed[place:], "bold")), (Span(hang),) if hang else ()), width)

    quick = [tuple(span for span in row if span.text) for row in laid_out("a")]
    assert [
        tuple(Span(span.text.replace("é", "a"), span.style) for span in row if span.text) for row in laid_out("é")
    ] == quick


@given(st.text(st.sampled_from("ab 漢👍e\u0301"), max_size=40), st.integers(0, 30))
def test_a_cut_row_is_never_too_wide(text: str, width: int) -> None:
    assert row_width(cut((Span(text[:7]), Span(text[7:], "bold")), width)) <= width


@pytest.mark.parametrize("text", ["word " * 100_000, "x" * 500_000, "漢" * 100_000, "漢 " * 100_000, " " * 500_000])
def test_long_lines_take_time_in_proportion(text: str) -> None:
    found = fit_rows([line(text)], 80)
    assert "".join(span.text for row in found for span in row).count("漢") == text.count("漢")
    assert sum(height(row, 80) for row in found) >= len(text.replace(" ", "")) // 80
