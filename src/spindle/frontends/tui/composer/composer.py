"""The composer: keys and pastes go in, rows come out, and in the end a draft is taken.

It does what belongs to writing. Everything else a key means is for the interface: `key` says False then, and `wanted`
names the action of the keymap (`submit`, `queue`, `interrupt_turn`, …).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spindle.frontends.tui.composer.draft import DRAFT_CHARACTERS, MARKS, Draft, Folds, is_long, unix_lines
from spindle.frontends.tui.composer.keymap import EDITOR_ACTIONS, Keymap
from spindle.frontends.tui.composer.rows import Layout
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import Line, Span

if TYPE_CHECKING:
    from spindle.frontends.tui.composer.editing import Editor

PLACEHOLDER = "Ask for anything, / for commands, @ for files"
MARK, SHELL_MARK = "› ", "! "


class Composer:
    def __init__(self, keymap: Keymap | None = None, *, changed: Callable[[], None] | None = None) -> None:
        self.keymap = keymap or Keymap()
        self.wanted = ""
        """What the last key meant, where `key` said False; empty if nothing."""
        self._changed = changed or (lambda: None)
        self._folds = Folds()
        self._layout = Layout(self._folds)
        self._editor: Editor | None = None
        self._is_vi = self.keymap.is_vi
        self._chord = ""
        self._top = 0
        self._wanted_column: int | None = None
        self._cursor_cell: tuple[int, int] | None = (0, len(MARK))

    # ---- what there is -------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The draft as it would be sent."""
        return self._folds.draft(self._raw).text if self._raw else ""

    @property
    def is_empty(self) -> bool:
        return not self._raw

    @property
    def is_shell(self) -> bool:
        return self._raw.startswith("!")

    @property
    def vi_mode(self) -> str:
        """`insert`, `normal`, `replace` or `visual` with the keys of vi; else empty."""
        return self._editor.mode if self._editor is not None else "insert" if self._is_vi else ""

    @property
    def _raw(self) -> str:
        return self._editor.text if self._editor is not None else ""

    def load(self) -> Editor:
        """The editor; its library is loaded with the first key, or beforehand when there is time."""
        if self._editor is None:
            from spindle.frontends.tui.composer.editing import Editor  # heavy: not before the first paint

            self._editor = Editor(is_vi=self._is_vi, changed=self._text_changed)
        return self._editor

    def toggle_vi(self) -> bool:
        """Switch the keys of vi on or off; says whether they are on now."""
        self._is_vi = not self._is_vi
        if self._editor is not None:
            self._editor.is_vi = self._is_vi
        return self._is_vi

    # ---- what a person does --------------------------------------------------------------------

    def key(self, key: Key) -> bool:
        """Take a key. False: it is not for the composer, and `wanted` says what it means."""
        name = f"{self._chord}+{key.name}" if self._chord else key.name
        action = self.keymap.action(name)
        if not action and (self._begins_chord(name) or self._chord):
            # The first of several keys; or a later one that leads nowhere, which must not be written.
            self._chord, self.wanted = (name if self._begins_chord(name) else ""), ""
            return True
        self._chord = ""
        if self._is_writing(key, action):
            action = ""
        elif key.name == "ctrl-d" and action == "delete_forward" and self.is_empty:
            action = "quit"
        self.wanted = ""
        if self._act(action, key):
            if action not in ("move_up", "move_down"):
                self._wanted_column = None
            return True
        self.wanted = action
        return False

    def _begins_chord(self, name: str) -> bool:
        return any(key.startswith(f"{name}+") for key in self.keymap.conversation)

    def _is_writing(self, key: Key, action: str) -> bool:
        """A character's action (`?`) is for an empty composer only; in vi's normal mode, vi's keys come first."""
        if self._is_normal and key.name == "ctrl-r":
            return True
        return bool(key.text) and len(key.name) == 1 and bool(action) and (not self.is_empty or self._is_normal)

    @property
    def _is_normal(self) -> bool:
        return self.vi_mode in ("normal", "visual")

    def _act(self, action: str, key: Key) -> bool:
        match action:
            case "":
                return self._type(key)
            case "submit":
                return self._continue_line()
            case "move_up" | "move_down":
                return self._move_row(-1 if action == "move_up" else 1)
            case "interrupt_turn" if key.name == "esc" and self.vi_mode not in ("", "normal"):
                self.load().key(key)
                return True
            case "expand_paste":
                return self._expand()
            case _:
                return self.load().act(action) if action in _WRITING else False

    def _type(self, key: Key) -> bool:
        editor = self.load()
        if self._is_normal and key.name in ("k", "j") and not editor.is_waiting:
            return self._move_row(-1 if key.name == "k" else 1)
        if not key.text and not key.name.startswith(("ctrl-", "alt-")) and not self.is_vi_key(key):
            return False
        if not self._is_normal and MARKS.search(key.text):
            editor.insert(self._folds.fit(key.text))
        else:
            editor.key(key)
        return True

    def is_vi_key(self, key: Key) -> bool:
        return self._is_normal and key.name in ("home", "end", "left", "right", "backspace", "delete")

    def _continue_line(self) -> bool:
        """A backslash before the cursor and Enter: the line goes on in the next one."""
        if self._editor is None or self._is_normal:
            return False
        place = self._editor.cursor
        if place and self._raw[place - 1] == "\\":
            self._editor.replace(place - 1, place, "\n")
            return True
        return False

    def paste(self, text: str) -> None:
        """Pasted text is text, whatever is in it. Much of it is folded."""
        text = unix_lines(text)
        if not text:
            return
        self._wanted_column = None
        if not is_long(text):
            self.load().insert(self._folds.fit(text))
            return
        self.load().insert(self._folds.paste(text))

    def _expand(self) -> bool:
        """Unfold the paste before the cursor, or the last one there is; images stay."""
        editor = self.load()
        text, cursor = editor.text, editor.cursor
        places = [
            place
            for place, char in enumerate(text)
            if (fold := self._folds.get(char)) and not fold.image and self._folds.fit(fold.text) == fold.text
        ]
        if not places:
            return True
        place = max((place for place in places if place < cursor), default=places[0])
        editor.replace(place, place + 1, self._folds[text[place]].text)
        return True

    # ---- moving between rows -------------------------------------------------------------------

    def _move_row(self, step: int) -> bool:
        editor = self.load()
        row = self._layout.find(editor.cursor)
        if not 0 <= row + step < len(self._layout.rows):
            return self._beyond(step)
        if self._wanted_column is None:
            self._wanted_column = self._layout.column(editor.cursor)
        editor.cursor = self._layout.place(row + step, self._wanted_column)
        return True

    def _beyond(self, step: int) -> bool:
        editor = self.load()
        editor.cursor = 0 if step < 0 else len(editor.text)
        return True

    # ---- the draft -----------------------------------------------------------------------------

    def set_text(self, text: str) -> None:
        """Put a text into the composer in place of the draft."""
        text = unix_lines(text)
        if len(text) > DRAFT_CHARACTERS:
            self.load().set(self._folds.paste(text))
        elif text or self._editor is not None:
            self.load().set(self._folds.fit(text))

    def attach_image(self, path: str) -> None:
        self.load().insert(self._folds.image(path) + " ")

    def take(self) -> Draft:
        """The draft, as it is sent; the composer is empty then."""
        draft = self._folds.draft(self._raw)
        if self._editor is not None:
            self._editor.clear()
            self._text_changed()
        self._folds.start_over()
        self._top = 0
        return draft

    def _text_changed(self) -> None:
        self._changed()

    # ---- what is seen --------------------------------------------------------------------------

    def lines(self, width: int, height: int) -> list[Line]:
        """The composer's rows in a window of this size; at most a third of its height for the text."""
        if self.is_empty:
            self._cursor_cell = (0, len(MARK))
            room = max(0, width - len(MARK) - 1)
            return [Line((Span(MARK, "bold"), Span(PLACEHOLDER[:room], "dim")), is_verbatim=True)]
        editor = self.load()
        # One cell is left free at the right, for the cursor behind a full row.
        self._layout.update(editor.text, max(1, width - len(MARK) - 1))
        rows = self._layout.rows
        room = max(1, height // 3)
        row = self._layout.find(editor.cursor)
        self._top = max(0, min(self._top, row, len(rows) - room))
        self._top = max(self._top, row - room + 1)
        self._cursor_cell = (row - self._top, len(MARK) + self._layout.column(editor.cursor))
        mark = SHELL_MARK if self.is_shell else MARK
        shown: list[Line] = []
        for number in range(self._top, min(len(rows), self._top + room)):
            prefix = Span(mark, "bold") if number == 0 else Span(" " * len(mark))
            shown.append(Line((prefix, *self._layout.spans(number, editor.selection)), is_verbatim=True))
        return shown

    def cursor(self) -> tuple[int, int] | None:
        """Row and column of the cursor within what `lines` gave last."""
        return self._cursor_cell


_WRITING = frozenset(EDITOR_ACTIONS) - {"move_up", "move_down"}
"""What the editor does by itself."""
