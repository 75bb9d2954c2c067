"""Pasted text: folded when there is much of it, always sent byte for byte."""

from __future__ import annotations

import pytest

from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.composer.draft import Draft
from tui.composer.writing import press, rows, write


def test_much_text_is_folded_and_sent_whole():
    text = "".join(f"line {number}\twith a tab \n" for number in range(300))
    composer = Composer()
    write(composer, "look: ")
    composer.paste(text)
    write(composer, " ok")
    assert rows(composer) == ["› look: [Pasted #1: 300 lines] ok"]
    assert composer.take().text == f"look: {text} ok"


@pytest.mark.parametrize(
    ("text", "label"), [("x" * 1001, "[Pasted #1: 1,001 characters]"), ("\n" * 21, "[Pasted #1: 21 lines]")]
)
def test_the_limits_of_folding(text: str, label: str):
    composer = Composer()
    composer.paste(text)
    assert rows(composer) == [f"› {label}"]
    composer.take()
    composer.paste(text[:-1])
    assert label not in rows(composer)[0]


def test_line_ends_become_line_feeds_and_nothing_else_changes():
    composer = Composer()
    composer.paste("a\r\nb\rc\td \x1b[31m \u202e e")
    assert composer.take().text == "a\nb\nc\td \x1b[31m \u202e e"


def test_no_pasted_character_reaches_the_terminal_as_a_control():
    composer = Composer()
    composer.paste("a\x1b]0;t\x07\u202eb\x9b\u200b")
    shown = "".join(rows(composer))
    assert shown == "› a⟨U+001B⟩]0;t⟨U+0007⟩⟨U+202E⟩b⟨U+009B⟩⟨U+200B⟩"


def test_a_folded_paste_is_deleted_by_one_backspace_and_comes_back_by_undo():
    composer = Composer()
    composer.paste("y\n" * 50)
    press(composer, "backspace")
    assert composer.is_empty
    press(composer, "ctrl-_")
    assert composer.text == "y\n" * 50


def test_a_folded_paste_can_be_unfolded():
    composer = Composer()
    composer.paste("z\n" * 30)
    composer.paste("q\n" * 40)
    press(composer, "ctrl-x", "ctrl-p")
    assert rows(composer, height=300)[:2] == ["› [Pasted #1: 30 lines]q", "  q"]
    assert composer.text == "z\n" * 30 + "q\n" * 40


def test_pastes_of_a_draft_are_counted_from_one():
    composer = Composer()
    composer.paste("a\n" * 30)
    composer.paste("b\n" * 30)
    assert rows(composer) == ["› [Pasted #1: 30 lines][Pasted #2: 30 lines]"]
    composer.take()
    composer.paste("c\n" * 30)
    assert rows(composer) == ["› [Pasted #1: 30 lines]"]


def test_characters_that_stand_for_folds_are_never_mistaken_for_one():
    composer = Composer()
    composer.paste("secret\n" * 30)
    composer.paste("\U00100000\U00100001")
    write(composer, "\U00100000")
    assert composer.take().text == "secret\n" * 30 + "\U00100000\U00100001\U00100000"


def test_a_label_that_does_not_fit_is_cut():
    composer = Composer()
    composer.paste("a\n" * 30)
    assert rows(composer, width=12) == ["› [Pasted…"]


def test_a_draft_that_comes_back_is_put_before_what_was_written_since():
    composer = Composer()
    composer.paste("a\n" * 30)
    taken = composer.take()
    write(composer, "since")
    composer.put_back(Draft(text="[Image #1] and text", images=("/x.png",)))
    composer.put_back(taken)
    assert rows(composer) == ["› [Pasted #1: 30 lines]", "  [Image #1] and text", "  since"]
    draft = composer.take()
    assert draft.text == "a\n" * 30 + "\n[Image #1] and text\nsince" and draft.images == ("/x.png",)


def test_blank_drafts_are_not_taken():
    composer = Composer()
    write(composer, "  ")
    assert composer.take().is_blank and composer.text == "  "
