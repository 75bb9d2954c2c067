"""What each key does, in words: for `?`, `/help` and `/keymap`. Keys are those of the person's keymap."""

from __future__ import annotations

from collections.abc import Sequence

from spindle.frontends.fit import cells
from spindle.frontends.tui.composer.keymap import Keymap
from spindle.frontends.tui.shown import BLANK, Line, Span, line

GROUPS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Talking",
        (
            ("submit", "send; while a turn runs: say it to the running turn"),
            ("queue", "while a turn runs: send after it; else complete or send"),
            ("insert_newline", "new line (\\ then Enter, too)"),
            ("interrupt_turn", "close a list, else interrupt the turn; twice when idle: edit an earlier message"),
            ("cancel", "clear the draft, else interrupt, else quit (twice)"),
            ("edit_queued_message", "take the last queued message back"),
            ("next_mode", "next mode: default, plan, auto-edit"),
            ("decrease_reasoning_effort", "less reasoning"),
            ("increase_reasoning_effort", "more reasoning"),
            ("open_models", "models"),
        ),
    ),
    (
        "Looking",
        (
            ("open_transcript", "the whole transcript, unfolded; / finds, q closes"),
            ("clear_terminal", "redraw, the old screen pushed up"),
            ("toggle_raw_output", "answers as they were written, on or off"),
            ("open_warnings", "warnings"),
            ("toggle_shortcuts", "these keys (in an empty composer)"),
            ("suspend", "suspend; `fg` comes back"),
        ),
    ),
    (
        "Writing",
        (
            ("history_search_previous", "search earlier messages"),
            ("history_search_next", "the same, forward"),
            ("open_external_editor", "write in your editor"),
            ("paste_image", "paste a picture"),
            ("expand_paste", "unfold a paste"),
            ("undo", "undo"),
            ("yank", "bring back what was cut"),
            ("kill_line_end", "cut to the end of the line"),
            ("kill_line_start", "cut to its beginning"),
            ("delete_backward_word", "delete the word before"),
            ("delete_forward_word", "delete the word after"),
            ("move_word_left", "a word to the left"),
            ("move_word_right", "a word to the right"),
            ("move_line_start", "beginning of the line"),
            ("move_line_end", "end of the line"),
        ),
    ),
)
"""Actions of the keymap and what they do."""
ALWAYS = (
    ("/", "commands"),
    ("@", "files"),
    ("$", "skills"),
    ("!", "a shell command of yours"),
    ("Up Down", "earlier messages"),
    ("Ctrl-D", "quit, in an empty composer"),
)
"""What does not depend on the keymap."""


def key_words(key: str) -> str:
    """`ctrl-a` as people write it: `Ctrl-A`."""
    return " ".join("-".join(_part(part) for part in _parts(each)) for each in key.split())


def _parts(key: str) -> list[str]:
    *modifiers, last = key.split("-") if not key.endswith("-") else [*key[:-1].rstrip("-").split("-"), "-"]
    return [*(part for part in modifiers if part), last]


def _part(part: str) -> str:
    return part.upper() if len(part) == 1 else part.capitalize()


def pairs(keymap: Keymap, actions: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Keys and what they do; actions without a key are left out."""
    found = [(", ".join(key_words(key) for key in keymap.keys_of(action)[:3]), words) for action, words in actions]
    return [(keys, words) for keys, words in found if keys]


def key_lines(keymap: Keymap) -> list[Line]:
    """The whole list, by group."""
    made: list[Line] = []
    for title, actions in (("Anywhere", ()), *GROUPS):
        rows = pairs(keymap, actions) if actions else list(ALWAYS)
        width = max((cells(keys) for keys, _ in rows), default=0) + 4
        made += [BLANK, line(Span(title, "bold"))]
        for keys, words in rows:
            start = "  " + keys + " " * (width - cells(keys) - 2)
            made.append(Line((Span(start, "accent"), Span(words)), (Span(" " * width),)))
    return made[1:]
