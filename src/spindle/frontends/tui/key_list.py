"""What each key does, in words: for `?` (on one screen), `/help` and `/keymap`. Keys are those of the person."""

from __future__ import annotations

from spindle.frontends.fit import cells
from spindle.frontends.tui.composer.keymap import Keymap
from spindle.frontends.tui.shown import BLANK, Line, Span, line

SIGNS = (
    ("/", "commands"),
    ("@", "files"),
    ("$", "skills"),
    ("!", "run your own command"),
    ("up, down", "earlier messages"),
    ("ctrl-d", "quit, when nothing is written"),
)
"""What does not depend on the keymap."""
MAIN = (
    ("submit", "send; while a turn runs, it goes in with the next request"),
    ("queue", "while a turn runs: send after it"),
    ("insert_newline", "new line"),
    ("interrupt_turn", "close a list, stop the turn; twice: edit an earlier message"),
    ("cancel", "clear the draft, stop the turn, quit (twice)"),
    ("next_mode", "next mode: default, plan, auto-edit"),
    ("edit_queued_message", "take the last queued message back"),
    ("history_search_previous", "search earlier messages"),
    ("open_transcript", "everything that was said, in full"),
    ("open_external_editor", "write in your editor"),
    ("paste_image", "attach an image"),
    ("decrease_reasoning_effort", "less reasoning"),
    ("increase_reasoning_effort", "more reasoning"),
    ("open_models", "choose a model"),
    ("open_warnings", "warnings"),
    ("clear_terminal", "redraw on a clear screen"),
    ("suspend", "suspend; fg comes back"),
)
"""Actions of the keymap that everybody should know, and what they do."""
EDITING = (
    ("history_search_next", "search forward"),
    ("expand_paste", "unfold a paste"),
    ("toggle_raw_output", "answers as they were written, on or off"),
    ("move_word_left", "a word to the left"),
    ("move_word_right", "a word to the right"),
    ("move_line_start", "beginning of the line"),
    ("move_line_end", "end of the line"),
    ("delete_backward_word", "delete the word before"),
    ("delete_forward_word", "delete the word after"),
    ("kill_line_start", "cut to the beginning of the line"),
    ("kill_line_end", "cut to its end"),
    ("yank", "bring back what was cut"),
    ("undo", "undo"),
)
"""Those for writing, which most hands know from elsewhere."""


def rows(keymap: Keymap, actions: tuple[tuple[str, str], ...] = MAIN) -> list[tuple[str, str]]:
    """Keys and what they do; actions without a key are left out."""
    return [(", ".join(keys[:3]), told) for action, told in actions if (keys := keymap.keys_of(action))]


def key_lines(keymap: Keymap) -> list[Line]:
    """The whole list."""
    listed = [*SIGNS, *rows(keymap), ("", ""), *rows(keymap, EDITING)]
    width = max(cells(keys) for keys, _ in listed) + 4
    made = [line(Span("Keys", "bold"))]
    for keys, words in listed:
        start = "  " + keys + " " * (width - cells(keys) - 2)
        made.append(Line((Span(start, "accent"), Span(words)), (Span(" " * width),)) if keys else BLANK)
    return made
