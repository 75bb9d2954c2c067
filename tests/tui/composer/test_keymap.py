"""The table of keys: defaults, presets, and `[tui.keymap]`."""

from __future__ import annotations

import pytest

from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.composer.keymap import Keymap, normal_key
from spindle.frontends.tui.keys import Key
from tui.composer.writing import press, write


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        ("ctrl-a", "ctrl-a"),
        ("Ctrl-A", "ctrl-a"),
        ("control-shift-left", "ctrl-shift-left"),
        ("alt-ctrl-x", "ctrl-alt-x"),
        ("option-enter", "alt-enter"),
        ("page-up", "pgup"),
        ("PageDown", "pgdn"),
        ("escape", "esc"),
        ("return", "enter"),
        ("shift-a", "A"),
        ("shift-?", "?"),
        ("A", "A"),
        ("alt-,", "alt-,"),
        ("ctrl--", "ctrl--"),
        ("minus", "-"),
        ("f12", "f12"),
        ("backtab", "shift-tab"),
        ("ctrl-x ctrl-s", "ctrl-x+ctrl-s"),
        ("ctrl-", None),
        ("hyper-x", None),
        ("f99", None),
        ("", None),
        ("ctrl-x nokey", None),
    ],
)
def test_keys_as_the_configuration_spells_them(spec: str, key: str | None):
    assert normal_key(spec) == key


def test_no_key_has_two_meanings_by_default():
    for preset in ("codex", "claude", "pi", "vim"):
        keymap = Keymap(preset)
        bindings = [
            key
            for (context, _), keys in keymap._keys.items()
            if context in ("global", "chat", "composer", "editor")
            for key in keys
        ]
        assert sorted(bindings) == sorted(set(bindings))
        assert keymap.warnings == []


def test_a_key_of_ones_own_replaces_those_of_the_action_and_the_keys_former_meaning():
    keymap = Keymap(
        tables={"composer": {"submit": "ctrl-s"}, "editor": {"insert_newline": ["enter", "ctrl-j"], "yank": []}}
    )
    assert (keymap.action("ctrl-s"), keymap.action("enter"), keymap.action("ctrl-j")) == (
        "submit",
        "insert_newline",
        "insert_newline",
    )
    assert (keymap.action("shift-enter"), keymap.action("ctrl-y")) == ("", "")
    composer = Composer(keymap)
    write(composer, "a")
    press(composer, "enter")
    write(composer, "b")
    assert composer.text == "a\nb"
    assert not press(composer, "ctrl-s") and composer.wanted == "submit"


def test_global_is_the_fallback_of_the_composer():
    keymap = Keymap(tables={"global": {"submit": "ctrl-q", "queue": "ctrl-w"}, "composer": {"queue": "f5"}})
    assert (keymap.action("ctrl-q"), keymap.action("f5"), keymap.action("ctrl-w")) == (
        "submit",
        "queue",
        "delete_backward_word",
    )


def test_elsewhere_keys_of_ones_own_are_added_to_the_usual_ones():
    keymap = Keymap(tables={"pager": {"close": "x"}, "list": {"accept": "f4"}, "approval": {"approve": ["ctrl-y"]}})
    assert keymap.translated(Key("x", "x"), "pager") == Key("q", "q")
    assert keymap.translated(Key("x", "x"), "list") == Key("x", "x")
    assert keymap.translated(Key("f4"), "approval", "list") == Key("enter")
    assert keymap.translated(Key("ctrl-y"), "approval", "list") == Key("y", "y")
    assert keymap.translated(Key("ctrl-y"), "list") == Key("ctrl-y") and keymap.action("ctrl-y") == "yank"
    assert keymap.translated(Key("y", "y"), "approval", "list") == Key("y", "y")


def test_what_is_not_known_is_named_once_and_the_rest_holds():
    tables = {
        "composer": {"submit": "ctrl-q", "dance": "f1", "queue": 5, "toggle_shortcuts": "nokey"},
        "kitchen": {"cook": "x"},
        "chat": "x",
        "vim_normal": {"move_left": "h"},
        "global": {"toggle_fast_mode": "f9"},
    }
    keymap = Keymap(tables=tables)
    assert keymap.warnings == [
        "tui.keymap.composer.dance is not known here; it is ignored",
        'tui.keymap.composer.queue must be a key such as "ctrl-a", or a list of keys; it is ignored',
        "tui.keymap.composer.toggle_shortcuts: there is no key 'nokey'; use names such as ctrl-a, shift-enter or f5",
        "tui.keymap.kitchen is not a table of keys that is known here; it is ignored",
        "tui.keymap.chat is not a table of keys that is known here; it is ignored",
    ]
    assert (keymap.action("ctrl-q"), keymap.action("tab"), keymap.action("?")) == (
        "submit",
        "queue",
        "toggle_shortcuts",
    )


def test_the_habits_of_other_programs():
    assert Keymap("pi").action("alt-enter") == "queue" and Keymap("codex").action("alt-enter") == "insert_newline"
    assert Keymap("claude").action("alt-m") == "next_mode"
    assert Keymap("vim").is_vi and not Keymap("codex").is_vi


def test_pasting_the_same_again_unfolds_it_for_users_of_claude_code():
    composer = Composer(Keymap("claude"))
    composer.paste("x\n" * 30)
    composer.paste("x\n" * 30)
    assert composer.text == "x\n" * 30 and "Pasted" not in composer.draft.shown


def test_the_keys_of_an_action_for_the_list_of_keys():
    keymap = Keymap()
    assert keymap.keys_of("open_external_editor") == ["ctrl-g", "ctrl-x ctrl-e"]
    assert keymap.keys_of("submit") == ["enter"] and keymap.keys_of("nothing") == []
