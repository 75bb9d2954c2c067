"""`[tui]`, `[spindle.tui]` and `[history]`: what the terminal interface is told by the configuration."""

from __future__ import annotations

import pytest

from config.throwaway import Setup
from spindle.config.schema import TuiSettings
from spindle.errors import ConfigError


def test_without_a_word_the_defaults_hold(setup: Setup):
    setup.user("")
    assert setup.load().tui == TuiSettings()


def test_the_tables_become_one_record(setup: Setup):
    setup.user(
        """
disable_paste_burst = true
[tui]
animations = false
alternate_screen = "never"
theme = "dark"
status_line = ["model", "context"]
terminal_title = []
notifications = ["agent-turn-complete"]
notification_method = "bel"
vim_mode_default = true
show_tooltips = false
[tui.keymap.composer]
submit = ["enter", "ctrl-m"]
[spindle.tui]
plain = true
keys = "claude"
cycle_permissions = false
"""
    )
    config = setup.load()
    assert config.warnings == []
    assert config.disable_paste_burst
    assert config.tui == TuiSettings(
        animations=False,
        alternate_screen="never",
        theme="dark",
        status_line=("model", "context"),
        terminal_title=(),
        notifications=("agent-turn-complete",),
        notification_method="bel",
        vim_mode_default=True,
        keymap={"composer": {"submit": ["enter", "ctrl-m"]}},
        plain=True,
        keys="claude",
        cycle_permissions=False,
    )


def test_the_key_about_bursts_also_counts_in_the_table(setup: Setup):
    setup.user("[tui]\ndisable_paste_burst = true\n")
    assert setup.load().disable_paste_burst


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[tui]\nalternate_screen = "sometimes"\n', r"config.toml:2: tui.alternate_screen .*auto, always, never"),
        ("[tui]\nnotifications = [1]\n", "tui.notifications must be"),
        ('[spindle.tui]\nkeys = "nano"\n', r"spindle.tui.keys .*codex, claude, pi, vim"),
        ('tui = "x"\n', "tui must be a table"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_may_be(setup: Setup, text: str, message: str):
    setup.user(text)
    with pytest.raises(ConfigError, match=message):
        setup.load()


@pytest.mark.parametrize("text", ['[tui.keymap.approval]\napprove = "enter"\n', '[spindle.tui]\nkeys = "vim"\n'])
def test_a_folder_cannot_change_the_keys_of_a_person(setup: Setup, text: str):
    setup.user(setup.trust())
    setup.write("repo/.codex/config.toml", text)
    config = setup.load()
    assert config.tui == TuiSettings() and "is ignored: a project file cannot" in config.warnings[0]
