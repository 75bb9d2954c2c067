"""Programs in colour."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.frontends.tui.shown import Line, Span, texts
from spindle.frontends.tui.text.highlight import MOST_LINES, Highlighter, code, language_of, lexer_for


def styled(text: str, language: str) -> list[list[tuple[str, str]]]:
    return [[(span.text, span.style) for span in line.spans] for line in code(text, language)]


def test_words_of_a_program_have_their_styles() -> None:
    assert code("return  x  # two  blanks", "python") == [
        Line((Span("return  ", "keyword"), Span("x  "), Span("# two  blanks", "comment")), (), True)
    ]


def test_what_spans_several_lines_is_coloured_as_a_whole() -> None:
    assert styled('x = """a\nb"""\ny', "py")[1] == [('b"""', "string")]
    assert styled("a(); /* one\ntwo */ return 1;", "js")[1][0] == ("two */ ", "comment")
    assert styled('s = "/* no";\nint x;', "c")[1][0] == ("int ", "type")
    assert styled("x = `a\nb`; /* c\nd */ f()", "ts")[2] == [("d */ ", "comment"), ("f()", "")]


@pytest.mark.parametrize(
    "language", ["", "no such language", "text", "PYTHON", "c++", "html", "console", "diff", "php", "jsx"]
)
def test_every_character_is_kept_in_any_language(language: str) -> None:
    text = '<p class="x">\n  $ echo "a  b" # c\n\n\tdef f(x):  return {x}\n- a\n+ b\n?>'
    assert texts(code(text, language)) == text.replace("\t", "    ").split("\n")


@settings(max_examples=60, deadline=None)
@given(
    st.text(st.sampled_from("ab1 \t\"'`/*#{}()<>$\\=:;-\n"), max_size=60),
    st.sampled_from(["py", "js", "rust", "sh", "html", "c", "yaml", "md"]),
)
def test_no_program_loses_a_character_or_raises(text: str, language: str) -> None:
    shown = code(text, language)
    assert [line.replace(" ", "") for line in texts(shown)] == [
        line.replace("\t", "").replace(" ", "") for line in text.removesuffix("\n").split("\n")
    ]


def test_control_characters_in_a_program_are_marked() -> None:
    assert texts(code("x = '\x1b[31m\u202e'", "python")) == ["x = '⟨U+001B⟩[31m⟨U+202E⟩'"]


def test_a_line_does_not_depend_on_what_follows() -> None:
    lines = ["def f():", '    """one', '    two"""', "    return 1"]
    whole = code("\n".join(lines), "python")
    one_by_one = Highlighter("python")
    for number, line in enumerate(lines):
        assert one_by_one.copy().line(line) == one_by_one.line(line) == whole[number].spans


def test_very_much_code_is_plain_after_a_while() -> None:
    shown = code("return 1\n" * (MOST_LINES + 2), "python")
    assert shown[MOST_LINES - 1].spans != shown[MOST_LINES].spans == (Span("return 1"),)
    assert code("return " + "x" * 1000, "python")[0].spans == (Span("return " + "x" * 1000),)


@pytest.mark.parametrize(
    "text", ["(" * 20_000, "{\n" * 5_000, '"""\n' * 5_000, "/*\n*/" * 5_000, "\\\n" * 5_000, "a" * 499 + "\n"]
)
def test_code_that_is_made_to_be_slow_is_not(text: str) -> None:
    for language in ("python", "js", "html", "rust", "perl", "bash"):
        assert code(text, language)


def test_the_state_that_is_carried_does_not_grow_without_end() -> None:
    highlighter = Highlighter("bash")
    for _ in range(50):
        assert "".join(span.text for span in highlighter.line("$(" * 100)) == "$(" * 100
    assert len(highlighter._stack) <= 300


def test_a_file_is_known_by_its_name() -> None:
    named = {
        "a/b.py": "Python",
        "x.rs": "Rust",
        "y.tsx": "TSX",
        "Makefile": "Makefile",
        "z.h": "C",
        "LICENSE": None,
        ".gitignore": None,
    }
    found = {path: lexer_for(language_of(path)) for path in named}
    assert {path: lexer and lexer.name for path, lexer in found.items()} == named
