"""What the terminal sends, in every encoding there is, becomes the one name of a key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.frontends.tui.keys import Focus, Input, Key, Paste, Reply
from spindle.frontends.tui.screen.decoder import Decoder

KEYS = {
    "enter": [b"\r", b"\x1b[13u", b"\x1bOM", b"\x1b[57414u", b"\x1b[109;5u"],
    "shift-enter": [b"\x1b[27;2;13~", b"\x1b[13;2u", b"\x1b[13;2:1u", b"\x1b[57414;2u"],
    "alt-enter": [b"\x1b\r", b"\x1b[13;3u", b"\x1b[27;3;13~"],
    "ctrl-enter": [b"\x1b[13;5u", b"\x1b[27;5;13~"],
    "esc": [b"\x1b", b"\x1b[27u", b"\x1b[27;1u", b"\x1b[91;5u"],
    "tab": [b"\t", b"\x1b[9u", b"\x1b[105;5u"],
    "shift-tab": [b"\x1b[Z", b"\x1b[9;2u", b"\x1b[1;2Z", b"\x1b[27;2;9~"],
    "backspace": [b"\x7f", b"\x1b[127u"],
    "alt-backspace": [b"\x1b\x7f", b"\x1b[127;3u"],
    "ctrl-backspace": [b"\x1b[127;5u"],
    "ctrl-h": [b"\x08", b"\x1b[104;5u"],
    "delete": [b"\x1b[3~", b"\x1b[57426u"],
    "shift-delete": [b"\x1b[3;2~", b"\x1b[3$"],
    "ctrl-delete": [b"\x1b[3;5~", b"\x1b[3^"],
    "insert": [b"\x1b[2~"],
    "up": [b"\x1b[A", b"\x1bOA", b"\x1b[1;1A", b"\x1b[57419u"],
    "down": [b"\x1b[B", b"\x1bOB"],
    "right": [b"\x1b[C", b"\x1bOC", b"\x1b[1;129C"],
    "left": [b"\x1b[D", b"\x1bOD"],
    "alt-up": [b"\x1b[1;3A", b"\x1b\x1b[A", b"\x1b[1;3:2A", b"\x1b[1;33A"],
    "shift-left": [b"\x1b[1;2D", b"\x1b[d"],
    "ctrl-left": [b"\x1b[1;5D", b"\x1bOd", b"\x1bO5D", b"\x1bO1;5D"],
    "ctrl-right": [b"\x1b[1;5C", b"\x1bOc"],
    "ctrl-alt-shift-up": [b"\x1b[1;8A"],
    "home": [b"\x1b[H", b"\x1bOH", b"\x1b[1~", b"\x1b[7~", b"\x1b[57423u"],
    "end": [b"\x1b[F", b"\x1bOF", b"\x1b[4~", b"\x1b[8~"],
    "pgup": [b"\x1b[5~"],
    "pgdn": [b"\x1b[6~"],
    "f1": [b"\x1bOP", b"\x1b[11~", b"\x1b[[A", b"\x1b[P", b"\x1b[57364u"],
    "f2": [b"\x1bOQ", b"\x1b[12~", b"\x1b[[B"],
    "f3": [b"\x1bOR", b"\x1b[13~", b"\x1b[R"],
    "f5": [b"\x1b[15~", b"\x1b[[E"],
    "f12": [b"\x1b[24~"],
    "ctrl-f5": [b"\x1b[15;5~"],
    "ctrl-_": [b"\x1f", b"\x1b[47;5u", b"\x1b[95;6u", b"\x1b[45:95;6u", b"\x1b[45;5u", b"\x1b[27;5;47~"],
    "ctrl-space": [b"\x00", b"\x1b[32;5u"],
    "ctrl-a": [b"\x01", b"\x1b[97;5u", b"\x1b[97:65;6u", b"\x1b[27;5;97~"],
    "ctrl-c": [b"\x03", b"\x1b[99;5u", b"\x1b[1089::99;5u"],
    "ctrl-j": [b"\n", b"\x1b[106;5u"],
    "ctrl-alt-x": [b"\x1b\x18", b"\x1b[120;7u"],
    "alt-b": [b"\x1bb", b"\x1b[98;3u", b"\x1b[1080::98;3u", b"\x1b[27;3;98~"],
    "alt-B": [b"\x1bB", b"\x1b[98:66;4u", b"\x1b[98;4u"],
    "alt-,": [b"\x1b,", b"\x1b[44;3u"],
    "alt-.": [b"\x1b.", b"\x1b[46;3u"],
    "alt-[": [b"\x1b["],
    "alt-]": [b"\x1b]"],
    "alt-O": [b"\x1bO"],
    "alt-é": ["\x1bé".encode(), b"\x1b[233;3u"],
    "alt-space": [b"\x1b "],
}
WRITTEN = {
    "a": [b"a", b"\x1b[97u", b"\x1b[97;1u", b"\x1b[97;1;97u"],
    "A": [b"A", b"\x1b[97:65;2u", b"\x1b[97;2;65u", b"\x1b[27;2;65~"],
    "é": ["é".encode(), b"\x1b[233u"],
    "漢": ["漢".encode()],
    "?": [b"?", b"\x1b[47:63;2u"],
    "5": [b"\x1b[57404u", b"\x1bOu"],
    "+": [b"\x1b[57413u", b"\x1bOk"],
}
NOTHING = [
    *(b"\x1b[97;1:3u", b"\x1b[13;2:3u", b"\x1b[1;5:3D"),  # keys that are let go
    *(b"\x1b[57441u", b"\x1b[57358u", b"\x1b[99;9u"),  # Shift itself, Caps Lock, a key of the window manager
    *(b"\x1b[201~", b"\x1b[3n", b"\x1b[<0;3;4M", b"\x1b[99~", b"\x1b[?1;2$z", b"\x1b[1;2;3y", b"\x1b[999999999999u"),
    *(
        b"\x1bP>|XTerm(367)\x1b\\",
        b"\x1b]52;c;aGk=\x07",
        b"\x1b_Gi=1;OK\x1b\\",
        b"\x1b]11;nonsense\x07",
        b"\x1b]4;1;rgb:0/0/0\x07",
    ),
]
ANSWERS: dict[bytes, Input] = {
    b"\x1b[I": Focus(is_gained=True),
    b"\x1b[O": Focus(is_gained=False),
    b"\x1b[12;40R": Reply("cursor", (12, 40)),
    b"\x1b[1;5R": Reply("cursor", (1, 5)),
    b"\x1b[8;24;80t": Reply("size", (24, 80)),
    b"\x1b[0n": Reply("status"),
    b"\x1b[?5u": Reply("kitty", (5,)),
    b"\x1b[?62;22c": Reply("attributes", (62, 22)),
    b"\x1b[>41;367;0c": Reply("terminal", (41, 367, 0)),
    b"\x1b[?2026;2$y": Reply("mode", (2026, 2)),
    b"\x1b]11;rgb:1111/8080/ffff\x1b\\": Reply("background", (17, 128, 255)),
    b"\x1b]10;rgb:f/0/8\x07": Reply("foreground", (255, 0, 136)),
}


def read(data: bytes, *, at_once: bool = True) -> list[Input]:
    """What comes of it, in one piece or byte by byte, and after a silence."""
    decoder = Decoder()
    now = 1.0
    out: list[Input] = []
    for piece in [data] if at_once else [data[n : n + 1] for n in range(len(data))]:
        out += decoder.feed(piece, now)
    while decoder.needs_flush:
        now += 0.01
        out += decoder.flush(now)
    return out


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "byte by byte"])
def test_every_encoding_of_a_key_has_one_name(at_once: bool) -> None:
    for name, encodings in KEYS.items():
        for encoding in encodings:
            assert read(encoding, at_once=at_once) == [Key(name)], encoding
    for char, encodings in WRITTEN.items():
        for encoding in encodings:
            assert read(encoding, at_once=at_once) == [Key(char, char)], encoding
    assert read(b" ") == [Key("space", " ")]


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "byte by byte"])
def test_what_means_nothing_is_dropped_and_what_follows_is_not(at_once: bool) -> None:
    for sequence in NOTHING:
        assert read(sequence + b"x", at_once=at_once) == [Key("x", "x")], sequence


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "byte by byte"])
def test_answers_of_the_terminal_are_no_keys(at_once: bool) -> None:
    for sequence, answer in ANSWERS.items():
        assert read(sequence, at_once=at_once) == [answer]


def test_escape_twice_is_two_keys() -> None:
    assert read(b"\x1b\x1b") == [Key("esc"), Key("esc")]
    assert read(b"\x1b\x1b\x1b") == [Key("esc")] * 3
    decoder = Decoder()
    assert decoder.feed(b"\x1b", 1.0) == [] and decoder.flush(1.01) == []
    assert decoder.flush_at == pytest.approx(1.02)
    assert decoder.feed(b"x", 1.05) == [Key("esc"), Key("x", "x")], "late, even though nobody called flush"
    decoder.feed(b"\x1b", 2.0)
    assert decoder.feed(b"[A", 2.05, waited_s=0.045) == [Key("up")], "it came in time, but we were busy"


# ---- pastes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "byte by byte"])
def test_a_paste_is_text_and_never_keys(at_once: bool) -> None:
    body = "one\r\ntwo\rthree\tfour \x1b[A \x03 é 漢 [201~"
    pasted = Paste("one\ntwo\nthree\tfour \x1b[A \x03 é 漢 [201~")
    got = read(b"\x1b[200~" + body.encode() + b"\x1b[201~\r", at_once=at_once)
    assert got == [pasted, Key("enter")]
    assert read(b"\x1b[200~\x1b[201~") == [Paste("")]


def test_a_paste_of_a_megabyte_in_small_pieces() -> None:
    body = ("x" * 99 + "\r") * 10_000
    data = b"\x1b[200~" + body.encode() + b"\x1b[201~"
    decoder = Decoder()
    out = [each for n in range(0, len(data), 1021) for each in decoder.feed(data[n : n + 1021], n / 1e6)]
    assert out == [Paste(body.replace("\r", "\n"))]


def test_a_paste_without_an_end_does_not_swallow_the_keyboard_for_ever() -> None:
    decoder = Decoder()
    assert decoder.feed(b"\x1b[200~half", 1.0) == []
    assert decoder.feed(b" of it", 5.0) == []
    assert decoder.feed(b"x", 60.0) == [Paste("half of it"), Key("x", "x")]


def typed(text: bytes, gap_s: float, *, burst: bool = True) -> list[Input]:
    """Key by key, so far apart; then silence."""
    decoder = Decoder(paste_burst=burst)
    now = 1.0
    out: list[Input] = []
    for byte in text:
        out += decoder.feed(bytes([byte]), now)
        now += gap_s
    return out + decoder.flush(now + 1)


def test_a_burst_without_brackets_is_a_paste_and_its_line_ends_send_nothing() -> None:
    assert read(b"first line\rsecond line\r") == [Paste("first line\nsecond line\n")]
    assert typed(b"abcd\ref\r", 0.001) == [Key("a", "a"), Key("b", "b"), Paste("cd\nef\n")]
    assert typed(b"abc\td\r", 0.007)[-1] == Paste("c\td\n")
    decoder = Decoder()
    assert decoder.feed(b"abc\r", 1.0) == [] and decoder.flush_at == pytest.approx(1.008)
    assert decoder.feed(b"def", 1.005) == []
    assert decoder.feed(b"\r", 1.05) == [Paste("abc\ndef"), Key("enter")], "Enter after a pause sends"


def test_a_long_burst_may_come_in_pieces() -> None:
    decoder = Decoder()
    piece = b"x" * 1000 + b"\r"
    assert decoder.feed(piece, 1.0) == [] and decoder.feed(piece, 1.04) == []
    assert decoder.flush(2.0) == [Paste(("x" * 1000 + "\n") * 2)]


def test_a_fast_typist_is_not_taken_for_a_paste() -> None:
    text = b"a quick message\r"
    keys = [Key("space" if chr(c) == " " else chr(c), chr(c)) for c in text[:-1]] + [Key("enter")]
    assert typed(text, 0.012) == keys
    assert typed(text, 0.001, burst=False) == keys
    decoder = Decoder()
    assert decoder.feed(text, 1.0, waited_s=0.012 * len(text)) == keys, "we were busy while it was typed"


def test_a_few_letters_at_once_are_keys() -> None:
    """Such as from an input method, or typed while we were busy: they must work in a list, too."""
    assert read("漢字入力".encode()) == [Key(char, char) for char in "漢字入力"]
    assert read(b"hi\r") == [Key("h", "h"), Key("i", "i"), Key("enter")]


def test_what_was_typed_before_the_terminal_was_ours() -> None:
    assert Decoder().early(b"hi\nyou\n") == [
        *(Key("h", "h"), Key("i", "i"), Key("enter")),
        *(Key("y", "y"), Key("o", "o"), Key("u", "u"), Key("enter")),
    ]


# ---- anything at all -----------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40), max_size=8), st.sampled_from([0.0, 0.001, 0.05]))
def test_whatever_comes_nothing_fails_and_the_text_behind_it_arrives(pieces: list[bytes], gap_s: float) -> None:
    decoder = Decoder()
    now = 1.0
    for piece in pieces:
        decoder.feed(piece, now)
        now += gap_s
    decoder.flush(now + 10)
    got = decoder.feed(b"hello", now + 20) + decoder.flush(now + 30)
    assert "".join(each.text for each in got if isinstance(each, Key | Paste)).endswith("hello")
    assert not decoder.needs_flush


@given(st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=60), st.integers(1, 7))
def test_plain_text_arrives_whole_however_it_is_cut(text: str, size: int) -> None:
    decoder = Decoder()
    data = text.encode()
    out = [each for n in range(0, len(data), size) for each in decoder.feed(data[n : n + size], n * 0.002)]
    out += decoder.flush(99.0)
    assert "".join(each.text for each in out if isinstance(each, Key | Paste)) == text
