"""Typing, moving, deleting, undo and the kill ring."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.composer.keymap import Keymap
from tui.composer.writing import marked, press, rows, write


def test_an_empty_composer_is_painted_without_the_editor():
    code = (
        "import sys\n"
        "from spindle.frontends.tui.composer.composer import Composer\n"
        "composer = Composer()\n"
        "shown = ''.join(span.text for span in composer.lines(80, 24)[0].spans)\n"
        "print(shown, composer.cursor(), composer.take().text)\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] in ('prompt_toolkit', 'asyncio')))\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == ["› Ask for anything, / for commands, @ for files (0, 2) ", "[]"]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["ctrl-a"], "|one two"),
        (["home", "ctrl-e"], "one two|"),
        (["home", "end"], "one two|"),
        (["ctrl-b", "left"], "one t|wo"),
        (["home", "ctrl-f", "right"], "on|e two"),
        (["alt-b"], "one |two"),
        (["ctrl-left", "ctrl-left"], "|one two"),
        (["home", "alt-f"], "one| two"),
        (["home", "ctrl-right", "alt-right"], "one two|"),
        (["backspace"], "one tw|"),
        (["ctrl-h"], "one tw|"),
        (["home", "delete"], "|ne two"),
        (["home", "ctrl-d"], "|ne two"),
        (["ctrl-w"], "one |"),
        (["alt-backspace", "alt-backspace"], "|"),
        (["home", "alt-d"], "| two"),
        (["ctrl-u"], "|"),
        (["alt-b", "ctrl-k"], "one |"),
        (["ctrl-u", "ctrl-y"], "one two|"),
        (["ctrl-w", "ctrl-w", "ctrl-y"], "one two|"),
        (["ctrl-w", "left", "ctrl-u", "end", "ctrl-y", "alt-y"], " two|"),
        (["ctrl-w", "ctrl-_"], "one two|"),
        (["ctrl-x", "ctrl-u"], "one |"),
        (["ctrl-j"], "one two\n|"),
        (["shift-enter"], "one two\n|"),
        (["alt-enter"], "one two\n|"),
        (["ctrl-x", "q"], "one two|"),
        (["alt-q", "alt-x", "ctrl-alt-k", "f7"], "one two|"),
        (["alt-b", "alt-u"], "one TWO|"),
        (["alt-<"], "|one two"),
        (["ctrl-home", "alt->"], "one two|"),
    ],
)
def test_the_keys_of_every_shell_edit_the_draft(keys: list[str], expected: str):
    composer = Composer()
    write(composer, "one two")
    press(composer, *keys)
    assert marked(composer) in (expected, "|Ask for anything, / for commands, @ for files" if expected == "|" else "")


def test_undo_goes_back_change_by_change():
    composer = Composer()
    write(composer, "first")
    press(composer, "ctrl-j")
    write(composer, "second")
    composer.paste("pasted")
    seen = [composer.text]
    for _ in range(4):
        press(composer, "ctrl-_")
        seen.append(composer.text)
    assert seen == ["first\nsecondpasted", "first\nsecond", "first\n", "first", ""]


@pytest.mark.parametrize("cluster", ["é", "e\u0301", "日", "👩\u200d💻", "👍🏽", "🇩🇪", "❤\ufe0f"])
def test_what_looks_like_one_character_is_one(cluster: str):
    composer = Composer()
    composer.paste(f"a{cluster}{cluster}")
    press(composer, "backspace")
    assert composer.text == f"a{cluster}"
    press(composer, "left", "x", "right", "y")
    assert composer.text == f"ax{cluster}y"


def test_a_backslash_before_enter_makes_a_new_line():
    composer = Composer()
    write(composer, "one\\")
    assert press(composer, "enter")
    write(composer, "two")
    assert composer.text == "one\ntwo"
    assert not press(composer, "enter") and composer.wanted == "submit"
    assert composer.take().text == "one\ntwo" and composer.is_empty


def test_what_is_not_writing_is_left_to_the_interface():
    composer = Composer()
    wanted = {}
    for key in (
        "enter",
        "tab",
        "esc",
        "shift-tab",
        "ctrl-t",
        "ctrl-o",
        "ctrl-l",
        "ctrl-z",
        "ctrl-d",
        "?",
        "alt-p",
        "ctrl-c",
    ):
        assert not press(composer, key), key
        wanted[key] = composer.wanted
    assert wanted == {
        "enter": "submit",
        "tab": "queue",
        "esc": "interrupt_turn",
        "shift-tab": "next_mode",
        "ctrl-t": "open_transcript",
        "ctrl-o": "open_transcript",
        "ctrl-l": "clear_terminal",
        "ctrl-z": "suspend",
        "ctrl-d": "quit",
        "?": "toggle_shortcuts",
        "alt-p": "open_models",
        "ctrl-c": "cancel",
    }
    assert not press(composer, "ctrl-x", "ctrl-e") and composer.wanted == "open_external_editor"
    assert composer.is_empty
    write(composer, "why?")
    assert composer.text == "why?"


def test_the_keys_of_vi():
    composer = Composer(Keymap("vim"))
    assert composer.vi_mode == "insert"
    write(composer, "one two")
    assert press(composer, "esc") and composer.vi_mode == "normal"
    write(composer, "0dwx")
    assert composer.text == "wo"
    write(composer, "u")
    assert composer.text == "two"
    write(composer, "d")
    assert press(composer, "esc") and composer.vi_mode == "normal"
    write(composer, "w")
    assert composer.text == "two"
    assert not press(composer, "esc") and composer.wanted == "interrupt_turn"
    write(composer, "?")
    write(composer, "A!")
    assert composer.text == "two!" and composer.vi_mode == "insert"
    assert not press(composer, "enter") and composer.wanted == "submit"


def test_vi_can_be_switched_on_and_off_without_touching_the_draft():
    composer = Composer()
    write(composer, "text")
    assert composer.toggle_vi() and press(composer, "esc") and composer.vi_mode == "normal"
    assert not composer.toggle_vi() and composer.vi_mode == ""
    write(composer, "x")
    assert composer.text == "texxt"


def test_a_selection_is_shown_and_deleted_as_one():
    composer = Composer()
    write(composer, "one two")
    press(composer, "ctrl-space", "alt-b")
    assert [span for span in composer.lines(60, 24)[0].spans if span.style == "reverse"] == [("two", "reverse")]
    press(composer, "backspace")
    assert rows(composer) == ["› one "]
