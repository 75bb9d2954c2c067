"""Markdown as lines, all at once and while it arrives."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spindle.frontends.tui.shown import Line, Span, texts
from spindle.frontends.tui.text.layout import fit_rows, row_width
from spindle.frontends.tui.text.markdown import Correction, Markdown, render

WIDTH = 60


def shown(text: str, width: int = WIDTH) -> list[str]:
    return texts(render(text, width))


def streamed(pieces: list[str], final: str | None = None, width: int = WIDTH) -> list[Line]:
    """All lines of a text that comes in these pieces, each looked at as it arrives."""
    answer = Markdown()
    lines: list[Line] = []
    for piece in pieces:
        answer.feed(piece)
        lines += answer.take_finished(width)
        answer.tail(width)
    rest = answer.finish("".join(pieces) if final is None else final, width)
    assert isinstance(rest, list)
    return lines + rest


# ---- what it looks like ----


def test_paragraphs_and_headings() -> None:
    assert render("# Top\n\nSome *emph* and **bold** and `code`.\n", WIDTH) == [
        Line((Span("Top", "heading underline"),)),
        Line(),
        Line(
            (
                Span("Some "),
                Span("emph", "italic"),
                Span(" and "),
                Span("bold", "bold"),
                Span(" and "),
                Span("code", "code"),
                Span("."),
            )
        ),
    ]
    assert shown("one\ntwo  \nthree\\\nfour\n\n\n\nfive") == ["one", "two", "three", "four", "", "five"]
    assert shown("Setext\n===\nother\n---\n### closed ###\ntext") == ["Setext", "", "other", "", "closed", "text"]
    assert shown("a ~~gone~~ b \\* c &amp; &copy; <b>html</b>") == ["a gone b * c & © <b>html</b>"]


def test_links_and_images_show_their_address() -> None:
    assert shown('[text](https://example.org/p) [t](u "title") ![alt](i.png) [](x)') == [
        'text (https://example.org/p) t (u "title") alt (i.png) x'
    ]
    assert shown("<https://auto.link> <a@b.org> [https://a.b](https://a.b)") == [
        "https://auto.link a@b.org https://a.b"
    ]
    assert shown("[日本](https://ja.example/日本?a=b%20c) [js](javascript:x)") == [
        "日本 (https://ja.example/日本?a=b%20c) js (javascript:x)"
    ]
    assert shown("[no link](a b)") == ["[no link](a b)"]
    (line,) = render("see https://example.org/a_b_c*d/__init__.py.", WIDTH)
    assert line.spans == (Span("see "), Span("https://example.org/a_b_c*d/__init__.py", "link"), Span("."))
    assert shown("src/__init__.py and x.__name__ and __main__()") == ["src/__init__.py and x.__name__ and __main__()"]


def test_references_are_resolved_when_they_are_known_and_shown_always() -> None:
    text = '[before][ref]\n\n[ref]: https://example.org "T"\n[b]: <x y>\n\n[after][REF] and [b]'
    assert shown(text) == [
        "[before][ref]",
        "",
        '[ref]: https://example.org "T"',
        "[b]: <x y>",
        "",
        'after (https://example.org "T") and b (x y)',
    ]


def test_lists_are_nested_and_numbered() -> None:
    text = "1. one\n1. two\n   - nested\n     more\n\n     paragraph\n   - [x] done\n7. three\n\n"
    text += "3) other\n* star\n  1. deep"
    assert shown(text) == [
        *("1. one", "2. two", "   ◦ nested", "     more", "", "     paragraph", "   ◦ [x] done", "3. three", ""),
        *("3) other", "• star", "  1. deep"),
    ]
    assert shown("- a\n\n- b\n- c") == ["• a", "", "• b", "• c"]
    assert shown("-\n- \n- x\n-") == ["•", "•", "• x", "•"]
    assert shown("1. a\n\ntext\n\n2. b") == ["1. a", "", "text", "", "2. b"]
    assert shown("The year\n1986. A year") == ["The year", "1986. A year"]
    assert shown("- a\n\n\tcode\n-\ttab") == ["• a", "", "  code", "• tab"]


def test_a_long_item_hangs_below_its_text() -> None:
    rows = fit_rows(render("- one two three\n  > four five six seven", 12), 12)
    assert ["".join(span.text for span in row) for row in rows] == [
        "• one two",
        "  three",
        "  │ four",
        "  │ five six",
        "  │ seven",
    ]


def test_quotes() -> None:
    assert shown("> one\nlazy\n> > two\n>\n> three\n\nfour") == [
        "│ one",
        "│ lazy",
        "│ │ two",
        "│",
        "│ three",
        "",
        "four",
    ]
    assert shown("> ```\n> code\nafter") == ["│ code", "", "after"]


def test_code_keeps_its_blanks() -> None:
    text = "before\n```python\ndef f(x):\n    return  x  # two  blanks\n\n\n\tend\n```\nafter"
    assert shown(text) == [
        "before",
        "",
        "python",
        "def f(x):",
        "    return  x  # two  blanks",
        "",
        "",
        "    end",
        "",
        "after",
    ]
    assert all(line.is_verbatim for line in render(text, WIDTH)[3:8])
    assert shown("~~~\n```\n~~~~") == ["```"]
    assert shown("- x\n  ```\n    a\n   b\n  ```") == ["• x", "", "    a", "   b"]
    assert shown("para\n\n    code\n\n     more\n\n\nend") == ["para", "", "code", "", " more", "", "end"]
    assert shown("```\nnever closed") == ["never closed"]
    assert shown("``` a`b\nx") == ["``` a`b", "x"]


def test_html_is_text() -> None:
    assert shown("<div>\n *x*\n</div>\n\n<!-- a\n\nb -->\n*c*") == [
        "<div>",
        " *x*",
        "</div>",
        "",
        "<!-- a",
        "",
        "b -->",
        "c",
    ]
    assert shown("a <script>alert(1)</script>") == ["a <script>alert(1)</script>"]


def test_rules_stand_apart() -> None:
    assert shown("a\n\n***\nb", 10) == ["a", "", "─" * 10, "", "b"]


TABLE = "| Name | Value |\n|:--|--:|\n| alpha | 10 |\n| `b` \\| c | 200 | more |\n| d |\n\nend"


def test_tables_are_fitted_to_the_width() -> None:
    assert shown(TABLE) == [
        "Name  │ Value │ ",
        "──────┼───────┼─────",
        "alpha │    10 │ ",
        "b | c │   200 │ more",
        "d     │       │ ",
        "",
        "end",
    ]
    wide = "| A | B |\n|--|--|\n| one two three four five six | seven eight nine ten |"
    assert [line.rstrip() for line in shown(wide, 24)] == [
        *("A          │ B", "───────────┼────────────"),
        *("one two    │ seven eight", "three four │ nine ten", "five six   │"),
    ]
    assert shown(wide, 8) == ["A: one two three four five six", "B: seven eight nine ten"]
    assert [row_width(row) <= 24 for row in fit_rows(render(wide, 24), 24)] == [True] * 5


def test_a_table_never_breaks_an_address() -> None:
    url = "https://example.org/" + "a" * 40
    assert shown(f"| U | V |\n|-|-|\n| {url} | v |", 30) == [f"U: {url}", "V: v"]


def test_what_looks_like_a_table_and_is_none() -> None:
    assert shown("a | b\nc | d") == ["a | b", "c | d"]
    assert shown("| a\tb | c |\n|---|---|") == ["a b │ c", "────┼──"]
    assert shown("a | b\n--") == ["a | b"]
    assert shown("intro\n| a |\n|---|\n| b |\ntext") == ["intro", "", "a", "─", "b", "", "text"]


def test_hostile_text_is_marked_wherever_it_stands() -> None:
    text = "\x1b[2J *\u202e* `\x9b` &#27;&#x202e; [a](\x1b]0;b)\n\n```\x1b\n\x1b[31m\n```\n\n"
    text += "| \x07 |\n|--|\n| \x00 |\n\n<b \x1b>\n\n- \x1b\n\n[x]: \x1b"
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", "".join(shown(text)))
    assert "⟨U+001B⟩[2J" in shown(text)[0] and "⟨U+202E⟩" in shown(text)[0]


def test_what_is_nested_very_deep_is_text() -> None:
    assert shown("> " * 20 + "x") == ["│ " * 16 + "> > > > x"]
    assert shown("- " * 20 + "x") == ["• ◦ ▪ " * 5 + "• " + "- - - - x"]


# ---- while it arrives ----

LINE = st.sampled_from(
    [
        *(
            "",
            "",
            "word",
            "*em* **b",
            "# head",
            "- item",
            "  - nested",
            "1. one",
            "2. two",
            "   text",
            "> quote",
            ">",
            "```",
            "```py",
            "~~~",
        ),
        *(
            "    code",
            "\tcode",
            "| a | b |",
            "|---|---|",
            "| c |",
            "---",
            "===",
            "***",
            "<div>",
            "</div>",
            "<!--",
            "-->",
            "[r]: u",
            "[x][r]",
        ),
        *(
            "-",
            "漢字 👍",
            "[ ] t",
            "`a",
            "def f(): '''",
            "x  ",
            "y\\",
            "&amp; <b>",
            "_a_ ~~s~~",
            "https://a.b/c_d",
            "> - > x",
            "     deep",
        ),
    ]
)
TEXT = st.lists(LINE, max_size=14).map("\n".join)


@st.composite
def cut_up(draw: st.DrawFn) -> list[str]:
    text = draw(st.one_of(TEXT, st.text(st.sampled_from("ab `*_[]()<>#|-+1.~\n\r\t\\&;:!'\"="), max_size=60)))
    places = sorted(draw(st.sets(st.integers(0, max(0, len(text))), max_size=12)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@settings(max_examples=400, deadline=None)
@given(cut_up(), st.integers(1, 40))
@example(["```py\nx = '''", "a\nb = 1\n```"], 20)
@example(["a\r", "\nb\r"], 20)
@example(["- a\n", "\n  b"], 20)
@example(["[r]: u\n\n[x][r]\n\n"], 20)
def test_a_text_in_pieces_is_shown_like_the_whole(pieces: list[str], width: int) -> None:
    assert streamed(pieces, width=width) == render("".join(pieces), width)


@settings(max_examples=200, deadline=None)
@given(TEXT, st.integers(8, 60))
def test_every_word_is_kept(text: str, width: int) -> None:
    def words(source: str) -> list[str]:
        return sorted(re.findall(r"[^\W\d_]{2,}", source.replace("amp", "").replace("py", "")))

    found = words(" ".join(shown(text, width)))
    assert not [word for word in set(words(text)) if found.count(word) < words(text).count(word)]


@settings(max_examples=100, deadline=None)
@given(cut_up(), st.lists(st.integers(5, 80), min_size=1, max_size=13))
def test_another_width_in_the_middle_loses_and_doubles_nothing(pieces: list[str], widths: list[int]) -> None:
    answer = Markdown()
    lines: list[Line] = []
    for number, piece in enumerate(pieces):
        answer.feed(piece)
        lines += answer.take_finished(widths[number % len(widths)])
    rest = answer.finish("".join(pieces), widths[0])
    assert isinstance(rest, list)
    blanks = re.compile(r"[\s│─┼]+")
    if "|" not in "".join(pieces):  # a table may be upright in one width and in columns in another
        whole = "".join(shown("".join(pieces), widths[0]))
        assert blanks.sub("", "".join(texts([*lines, *rest]))) == blanks.sub("", whole)


def finished_after(text: str) -> list[str]:
    answer = Markdown()
    answer.feed(text)
    return texts(answer.take_finished(WIDTH))


def test_a_block_is_finished_as_soon_as_nothing_can_change_it() -> None:
    assert finished_after("one\n") == [] and finished_after("one\n\n") == ["one"]
    assert finished_after("# head\n") == ["head"]
    assert finished_after("- a\n") == [] and finished_after("- a\n- b\n") == ["• a"]
    assert finished_after("- a\n  - b\n  - c\n") == ["• a", "  ◦ b"]
    assert finished_after("```py\nx\ny") == ["py", "x"] and finished_after("1. a\n   ```\n   x\n") == [
        "1. a",
        "",
        "   x",
    ]
    assert finished_after("| a |\n|--|\n| b |\n") == [] and finished_after("| a |\n|--|\n| b |\n\n") == ["a", "─", "b"]
    assert finished_after("> a\n\n") == ["│ a"]


def test_the_tail_is_the_unfinished_rest() -> None:
    answer = Markdown()
    answer.feed("done\n\nnot **yet")
    assert texts(answer.take_finished(WIDTH)) == ["done"]
    assert texts(answer.tail(WIDTH)) == ["", "not **yet"]
    answer.feed("** here\n-")
    assert answer.take_finished(WIDTH) == []
    # One dash may become an underline or a bullet: it is not shown before that is clear.
    assert answer.tail(WIDTH) == [Line(), Line((Span("not "), Span("yet", "bold"), Span(" here")))]
    answer.feed(" item")
    assert texts(answer.tail(WIDTH)) == ["", "not yet here", "• item"]
    assert answer.tail(WIDTH) is answer.tail(WIDTH)
    rest = answer.finish("done\n\nnot **yet** here\n- item", WIDTH)
    assert isinstance(rest, list) and texts(rest) == ["", "not yet here", "• item"]


def test_a_final_text_that_contradicts_what_was_taken_is_a_correction() -> None:
    assert streamed(["one\n\ntw"], final="one\n\ntwo\n\nthree") == render("one\n\ntwo\n\nthree", WIDTH)
    assert streamed(["one\n\ntwo\n"], final="one\n\nelse") == render("one\n\nelse", WIDTH)
    assert streamed(["one\n\ntwo"], final="one\n\ntwo\n\n") == render("one\n\ntwo", WIDTH)
    answer = Markdown()
    answer.feed("one\n\ntwo")
    assert not answer.is_taken_from
    answer.take_finished(WIDTH)
    assert answer.is_taken_from
    assert answer.finish("other\n\ntwo", WIDTH) == Correction(render("other\n\ntwo", WIDTH))
    shorter = Markdown()
    shorter.feed("one\n\n")
    shorter.take_finished(WIDTH)
    assert shorter.finish("", WIDTH) == Correction([])


def test_libraries_are_loaded_with_the_first_text_that_needs_them() -> None:
    program = """
import sys
from spindle.frontends.tui.text.markdown import render
from spindle.frontends.tui.text.clean import safe
loaded = lambda: sorted({"markdown_it", "pygments", "unicodedata"} & sys.modules.keys())
render("# Head\\n\\nPlain words.\\n\\n- a\\n- b\\n\\n```\\ncode\\n```", 80)
first = loaded()
render("*emphasis*", 80)
second = loaded()
render("```python\\nx = 1", 80)
print(first, second, loaded())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[] ['markdown_it', 'unicodedata'] ['markdown_it', 'pygments', 'unicodedata']\n"


# ---- how long it takes: quadratic work on these would outlast the time limit of the test ----


def test_work_is_in_proportion_to_the_text() -> None:
    paragraphs = "\n\n".join(f"Paragraph {number:03d} *stands* here" for number in range(500))
    assert len(streamed([paragraphs[start : start + 9] for start in range(0, len(paragraphs), 9)])) == 999
    code = "```\n" + "x = 1  # a line of code\n" * 40_000 + "```"
    assert len(streamed([code[start : start + 400] for start in range(0, len(code), 400)])) == 40_000


@pytest.mark.parametrize(
    "text", ["word *a* " * 50_000, "a *b* [c](d)\n" * 20_000, "- a\n  b\n" * 3_000, "| a | b |\n" * 3_000]
)
def test_one_block_without_end_costs_no_more_than_its_length(text: str) -> None:
    head = "| a | b |\n|---|---|\n" if text.startswith("|") else ""
    assert streamed([head, *(text[start : start + 100] for start in range(0, len(text), 100))]) == render(
        head + text, WIDTH
    )


@pytest.mark.parametrize(
    "sign",
    [
        ">",
        "> ",
        "[",
        "*",
        "**a ",
        "_",
        "`",
        "``a",
        "~~",
        "<",
        "![",
        "[a](",
        "- ",
        "1. ",
        "#",
        "|",
        "\\",
        "&",
        "](",
        "<a",
        "[a]: b\n",
    ],
)
def test_signs_by_the_thousand_are_text(sign: str) -> None:
    for count in (1_000, 3_000):
        text = sign * count + "x"
        assert "".join(shown(text)).endswith("x")
        assert streamed([text[: count // 2], text[count // 2 :]], width=20) == render(text, 20)
    assert sys.getrecursionlimit() <= 1_000


def test_a_table_of_very_many_columns_is_text() -> None:
    row = "|x" * 300
    shown = texts(render(f"{row}\n{'|-' * 300}\n{row}", 80))
    assert shown[0] == row and not any("─" in each for each in shown)
