"""Text of others, before it may reach the terminal."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spindle.frontends.tui.shown import STYLES, Line, Span, texts
from spindle.frontends.tui.text.clean import (
    command_output,
    has_hidden,
    mixed_scripts,
    name,
    revealed,
    safe,
    safe_lines,
    title,
)

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
NASTY = st.text(
    st.one_of(
        st.sampled_from(
            "\x00\x07\x08\t\n\r\x1b\x7f\x84\x90\x9b\x9c\x9d\ud800\udc80\u200b\u200d\ufe0f\u2028;:?[]()Pm0123K8ab" + BIDI
        ),
        st.characters(),
    ),
    max_size=80,
)
SEQUENCES = st.lists(
    st.sampled_from(
        [
            *(
                "\x1b[31m",
                "\x1b[8m",
                "\x1b[38;5;200m",
                "\x1b[2J",
                "\x1b[?1049h",
                "\x1b]0;t\x07",
                "\x1b]52;c;eA==\x1b\\",
            ),
            *(
                "\x1bP1$q\x1b\\",
                "\x1b[6n",
                "\x1bc",
                "\x1b[2K",
                "\x1b[10C",
                "\x9b31m",
                "\r",
                "\b",
                "\n",
                "\t",
                "word",
                "漢",
            ),
            *("\x1b", "\x1b[", "\u202e"),
        ]
    )
).map("".join)


def assert_harmless(text: str, allowed: str = "\n\t") -> None:
    wrong = [
        char
        for char in text
        if char not in allowed and (unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or char in BIDI)
    ]
    assert wrong == []


@settings(max_examples=300)
@given(st.one_of(NASTY, SEQUENCES))
@example("\x1b]0;pwned\x07\x9b2J\u202e\ud800")
def test_nothing_that_drives_a_terminal_gets_through(text: str) -> None:
    assert_harmless(safe(text))
    assert_harmless(name(text), "")
    assert_harmless(title(text, 80), "")
    for line in (*command_output(text), *revealed(text, "code")):
        for span in line.spans:
            assert_harmless(span.text, "\t" if not line.is_verbatim else "")
            assert set(span.style.split()) <= {*STYLES}


@given(NASTY)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert safe(safe(text)) == safe(text)


def test_prose_keeps_its_lines_and_shows_what_is_hidden_as_marks() -> None:
    assert safe("a\tb\nc\r\nd") == "a\tb\nc\nd"
    assert safe("a\x1b[31mb\rc\u202ed\x85") == "a⟨U+001B⟩[31mb⟨U+000D⟩c⟨U+202E⟩d⟨U+0085⟩"
    assert safe("invalid \udc80 byte") == "invalid � byte"
    assert (
        safe("naïve 漢字 👩\u200d💻 ❤\ufe0f עברית می\u200cخواهم") == "naïve 漢字 👩\u200d💻 ❤\ufe0f עברית می\u200cخواهم"
    )
    assert safe_lines("") == [] and safe_lines("a\nb") == ["a", "b"]


def test_a_name_stands_in_one_line() -> None:
    assert name("a\nb\tc\xa0d") == "a⟨U+000A⟩b⟨U+0009⟩c⟨U+00A0⟩d"
    assert name("src/größe.py") == "src/größe.py"


def test_a_title_is_one_line_of_limited_width() -> None:
    assert title("  two\n\nlines  ", 80) == "two lines"
    assert title("漢" * 100, 10) == "漢漢漢漢…"
    assert title("x\x1b]0;evil\x07", 80) == "x⟨U+001B⟩]0;evil⟨U+0007⟩"


# ---- what a person is to decide on ----


def test_every_hidden_character_of_a_command_is_shown_in_the_style_hidden() -> None:
    assert revealed("echo a\u200bb \u202ex") == [
        Line((Span("echo a"), Span("⟨U+200B⟩", "hidden"), Span("b "), Span("⟨U+202E⟩", "hidden"), Span("x")))
    ]
    assert texts(revealed("ls\rrm -rf ~\ntwo")) == ["ls\\rrm -rf ~", "two"]


HIDDEN = "\x00\x1b\x7f\x85\xad\u200b\u200c\u200d\u200e\u200f\u202a\u202e\u2060\u2066\u2069\ufe0f\U000e0041"
SPACES = "\xa0\u2003\u3000\u2800\udc80\ufeff\ue000"


@pytest.mark.parametrize("char", [*HIDDEN, *SPACES])
def test_a_character_that_does_not_show_as_itself_is_marked(char: str) -> None:
    text = f"rm a{char}b"
    assert has_hidden(text)
    assert texts(revealed(text)) == [f"rm a⟨U+{ord(char):04X}⟩b"]
    assert [span.style for span in revealed(text)[0].spans] == ["", "hidden", ""]


def test_plain_commands_have_nothing_hidden() -> None:
    for text in ("git commit -m 'größer 漢字 👍'", "cat <<E\n\tindented\nE", "echo ⟨U+202E⟩"):
        assert not has_hidden(text)
        assert all("hidden" not in span.style for line in revealed(text) for span in line.spans)
        assert "\n".join(texts(revealed(text))) == text


def test_words_of_several_alphabets_are_found() -> None:
    assert mixed_scripts("curl https://раypal.com/hоme пример naïve 10µm") == ["раypal", "hоme"]
    assert mixed_scripts("Pythonで書く plain größe Ωμέγα") == []


# ---- what a command printed ----


def test_colours_of_a_command_become_our_styles() -> None:
    shown = command_output("\x1b[1;31mred\x1b[0m plain \x1b[4;92mgreen\x1b[24;39;44mblue\nstill\x1b[m off")
    assert shown == [
        Line(
            (Span("red", "bold fg1"), Span(" plain "), Span("green", "underline fg10"), Span("blue", "bg4")), (), True
        ),
        Line((Span("still", "bg4"), Span(" off")), (), True),
    ]


@pytest.mark.parametrize(
    ("codes", "style"),
    [
        ("38;5;9", "fg9"),
        ("38;5;196", "fg9"),
        ("38;2;0;0;10", "fg0"),
        ("38:2::255:255:255", "fg15"),
        ("48;5;244", "bg8"),
        ("38;5;300", ""),
        ("38;5", ""),
        ("4:3", "underline"),
        ("4:0", ""),
        ("8", ""),
        ("5", ""),
        ("31;41", "fg1"),
        ("7;2;3;9", "dim italic reverse strike"),
        ("1;" * 500, "bold"),
    ],
)
def test_a_colour_is_one_of_sixteen_and_nothing_is_concealed(codes: str, style: str) -> None:
    assert command_output(f"\x1b[{codes}mx") == [Line((Span("x", style),), (), True)]


@pytest.mark.parametrize(
    ("printed", "lines"),
    [
        ("10%\r20%\r100%\n", ["100%"]),
        ("downloading 10%\rdone\x1b[K\n", ["done"]),
        ("abcdef\rxyz\n", ["xyzdef"]),
        ("\x1b[2K\x1b[1Gnpm 1\x1b[2K\x1b[1Gnpm 2", ["npm 2"]),
        ("abc\b\bX", ["aXc"]),
        ("a\tb\n12345678\tc", ["a       b", "12345678        c"]),
        ("one\r\ntwo\r\n", ["one", "two"]),
        ("x\x1b]52;c;AA\nBB\x07y\x1b[?25l\x1b(B\x1bcz\x07", ["xyz"]),
        ("left\x1b[10Cright", ["left          right"]),
        ("\x1b]0;no end", ["0;no end"]),
        ("a\n\nb\n\n", ["a", "", "b", ""]),
        ("", []),
        ("\u202ehidden", ["⟨U+202E⟩hidden"]),
        ("\x1b[999999999Cfar", [" " * 400 + "far"]),
    ],
)
def test_output_shows_what_a_terminal_would_show_in_the_end(printed: str, lines: list[str]) -> None:
    assert texts(command_output(printed)) == lines


@pytest.mark.parametrize(
    "piece", ["x\ra", "\x1b[31mx", "\b", "\x1b[1K\ra", "\x1b]", "\x1b[9C\x1b[2K", "\tx\r", "\x1b[;;;;;m"]
)
def test_a_flood_costs_no_more_than_its_length(piece: str) -> None:
    # Quadratic work on this would outlast the time limit of the test many times.
    text = "x" * 100_000 + piece * 100_000
    assert len(command_output(text)) == 1
    assert safe(text)


def test_words_are_kept_whatever_is_around_them() -> None:
    printed = "".join(f"\x1b[3{n % 8}mword{n}\x1b[0m\n" for n in range(100))
    assert re.findall(r"word\d+", " ".join(texts(command_output(printed)))) == [f"word{n}" for n in range(100)]
