"""Nothing a person is shown can hide a part of itself."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from spindle.protocol.quote import readable, reveal, shell_join, visible, without_terminal_codes


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb\x00", "a\\u{1B}[2Jb\\u{0}"),
        ("one\ntwo\rthree\t", "one\\u{A}two\\u{D}three\\u{9}"),
        ("\x9b31m\x7f", "\\u{9B}31m\\u{7F}"),
        ("\u202egnp.exe\u2066\u200f\u061c", "\\u{202E}gnp.exe\\u{2066}\\u{200F}\\u{61C}"),
        ("r\u200bm \u200d-\u2060rf\ufeff", "r\\u{200B}m \\u{200D}-\\u{2060}rf\\u{FEFF}"),
        ("\U000e0068\U000e0069", "\\u{E0068}\\u{E0069}"),
        ("a\xa0b\u2003c\u3000d\u2028e", "a\\u{A0}b\\u{2003}c\\u{3000}d\\u{2028}e"),
        ("\ue000\u0378\udc80", "\\u{E000}\\u{378}\\u{DC80}"),
        ("x\u3164y\u115f\uffa0\u2800\xad", "x\\u{3164}y\\u{115F}\\u{FFA0}\\u{2800}\\u{AD}"),
        ("a\ufe00\ufe0f", "a\\u{FE00}\\u{FE0F}"),
    ],
)
def test_what_cannot_be_seen_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("plain ~ text", "é ß ø", "Ωмега", "שלום", "العربية", "می\u200cخواهم", "हिन्दी", "ශ්\u200dරී", "ไทย", "한국어"),
        *("漢字かな交じり", "葛\U000e0100", "👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "1\ufe0f\u20e3", "🇩🇪", "✓ → — …"),
    ],
)
def test_what_people_write_in_any_script_stays_as_it_is(text: str) -> None:
    assert visible(text) == text == readable(text)


def test_a_row_of_selectors_after_one_letter_is_a_message_in_disguise() -> None:
    assert visible("❤\ufe0f\ufe0f\ufe01") == "❤\ufe0f\\u{FE0F}\\u{FE01}"
    assert visible("葛\U000e0100\U000e0101") == "葛\U000e0100\\u{E0101}"
    assert visible("م\u200c\u200d") == "م\u200c\\u{200D}"


@pytest.mark.slow
def test_no_code_point_alone_comes_through_unseen() -> None:
    unseen = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")
    through = [
        code
        for code in range(1, sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in unseen and visible(chr(code)) == chr(code)
    ]
    assert through == [ord(" ")]


def test_line_ends_stay_where_the_caller_wants_them() -> None:
    assert visible("for x\n\tdo\r", keep="\n\t") == "for x\n\tdo\\u{D}"
    assert visible(shell_join(["echo", "a\nb"])) == "echo 'a\\u{A}b'"


def test_prose_keeps_its_lines_and_typographic_spaces() -> None:
    assert readable("Voilà\xa0!\r\n\t日本\u3000語 \ue0b0") == "Voilà\xa0!\n\t日本\u3000語 \ue0b0"
    assert readable("a\u202eb\u200b\x0c\u2028") == "a\\u{202E}b\\u{200B}\\u{C}\\u{2028}"


def test_a_document_is_changed_only_where_something_is_hidden() -> None:
    clean = "\ufeff# Rules\r\n\tBonjour\xa0! می\u200cخواهم ❤\ufe0f\r\n"
    assert reveal(clean) == (clean, [])
    assert reveal("one\r\ntw\u200bo\n\nthr\u202eee\ufeff") == ("one\r\ntw\\u{200B}o\n\nthr\\u{202E}ee\\u{FEFF}", [2, 4])


def test_a_long_hidden_message_does_not_fill_the_page() -> None:
    assert reveal("hi" + "\U000e0041" * 30_000 + "!\n") == ("hi" + "\\u{E0041}" * 16 + "…!\n", [1])


@pytest.mark.parametrize(
    ("printed", "left"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x\x1b]8;;http://e.example\x1b\\link", "xlink"),
        ("\x1bP1$r0m\x1b\\a\x1b(Bb\x1bc\x9b2Jc\x9d0;t\x9cd", "abcd"),
        ("an unfinished \x1b]0;title", "an unfinished 0;title"),
        ("no codes\x07 é", "no codes\x07 é"),
    ],
)
def test_terminal_codes_are_taken_out_of_what_a_program_printed(printed: str, left: str) -> None:
    assert without_terminal_codes(printed) == left
