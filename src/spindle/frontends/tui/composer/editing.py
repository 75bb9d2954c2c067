"""The text under the person's hands. Editing is prompt_toolkit's: its buffer, its emacs and vi keys, its undo.

The application made here is never run and never paints; it only gives the key bindings the surroundings they expect. It
has no timers: whether an Esc stands alone is known before it comes here, and an Alt comes with its letter.

This module is the one that imports prompt_toolkit. It is loaded with the first key, after the first paint.
"""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.clipboard import InMemoryClipboard
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import DummyInput
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, Layout, Window
from prompt_toolkit.output import DummyOutput

from spindle.frontends.tui.composer.clusters import end_after, start_before, word_end_after, word_start_before
from spindle.frontends.tui.keys import Key

_UNDO_CHARACTERS = 8_000_000
"""What the states that undo goes back to may hold together."""

_SPECIAL = {
    "esc": Keys.Escape,
    "tab": Keys.Tab,
    "shift-tab": Keys.BackTab,
    "backspace": Keys.Backspace,
    "delete": Keys.Delete,
    "insert": Keys.Insert,
    "up": Keys.Up,
    "down": Keys.Down,
    "left": Keys.Left,
    "right": Keys.Right,
    "home": Keys.Home,
    "end": Keys.End,
    "ctrl-left": Keys.ControlLeft,
    "ctrl-right": Keys.ControlRight,
    "ctrl-delete": Keys.ControlDelete,
    "ctrl-space": Keys.ControlAt,
    "ctrl-@": Keys.ControlAt,
    "ctrl-_": Keys.ControlUnderscore,
    "ctrl-]": Keys.ControlSquareClose,
    "ctrl-^": Keys.ControlCircumflex,
    "ctrl-\\": Keys.ControlBackslash,
}
_ALT_COMMANDS = frozenset("cltuw\\")
"""With Alt: change case, transpose, copy, tidy blanks. Other letters with Alt write nothing."""


class _BoundedBuffer(Buffer):
    """A buffer whose undo goes back word by word, and not without end: each state is a copy of the whole draft."""

    is_within_word = False

    def save_to_undo_stack(self, clear_redo_stack: bool = True) -> None:
        if self.is_within_word:
            return
        super().save_to_undo_stack(clear_redo_stack)
        while len(self._undo_stack) > 1 and len(self._undo_stack) * len(self.text) > _UNDO_CHARACTERS:
            del self._undo_stack[: len(self._undo_stack) // 2]


class _KillRing(InMemoryClipboard):
    def drop(self) -> str:
        """Take the newest piece out."""
        return self._ring.popleft().text if self._ring else ""


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end


_KILLS: dict[str, Callable[[str, int], tuple[int, int]]] = {
    "delete_backward_word": lambda text, place: (word_start_before(text, place), place),
    "delete_forward_word": lambda text, place: (place, word_end_after(text, place)),
    # At the very start or end of a line, the line end goes: pressed again and again, they empty the draft.
    "kill_line_start": lambda text, place: (min(_line_start(text, place), max(0, place - 1)), place),
    "kill_line_end": lambda text, place: (place, max(_line_end(text, place), min(len(text), place + 1))),
    "kill_whole_line": lambda text, place: (_line_start(text, place), min(len(text), _line_end(text, place) + 1)),
}
"""What is deleted by actions whose piece can be yanked: from, up to."""


class Editor:
    """A text and a cursor, changed by keys and actions."""

    def __init__(self, *, is_vi: bool = False, changed: Callable[[], None] | None = None) -> None:
        self._buffer = _BoundedBuffer(multiline=True)
        self._ring = _KillRing()
        self._yanked_from = 0
        self._last_action = ""
        if changed is not None:
            self._buffer.on_text_changed.add_handler(lambda _: changed())
        self._app: Application[None] = Application(
            layout=Layout(Window(BufferControl(self._buffer))),
            editing_mode=EditingMode.VI if is_vi else EditingMode.EMACS,
            clipboard=self._ring,
            input=DummyInput(),
            output=DummyOutput(),
        )
        self._app.timeoutlen = None  # pyright: ignore[reportAttributeAccessIssue]  # no timer; it is allowed

    # ---- what there is -------------------------------------------------------------------------

    @property
    def text(self) -> str:
        return self._buffer.text

    @property
    def cursor(self) -> int:
        return self._buffer.cursor_position

    @cursor.setter
    def cursor(self, place: int) -> None:
        self._buffer.cursor_position = place

    @property
    def selection(self) -> tuple[int, int] | None:
        """What is selected: with Ctrl-Space, or in vi's visual mode."""
        if self._buffer.selection_state is None:
            return None
        start, end = self._buffer.document.selection_range()
        return start, end + (self.is_vi and 1)

    @property
    def is_vi(self) -> bool:
        return self._app.editing_mode == EditingMode.VI

    @is_vi.setter
    def is_vi(self, value: bool) -> None:
        self._app.editing_mode = EditingMode.VI if value else EditingMode.EMACS
        self._app.vi_state.reset()

    @property
    def mode(self) -> str:
        """The mode of vi: `insert`, `normal`, `replace` or `visual`; empty with the other keys."""
        if not self.is_vi:
            return ""
        if self._buffer.selection_state is not None:
            return "visual"
        names = {InputMode.INSERT: "insert", InputMode.INSERT_MULTIPLE: "insert", InputMode.NAVIGATION: "normal"}
        return names.get(self._app.vi_state.input_mode, "replace")

    @property
    def is_waiting(self) -> bool:
        """A key sequence or a command of vi has begun and is not complete."""
        state = self._app.vi_state
        is_within = state.operator_func is not None or state.waiting_for_digraph
        return bool(self._app.key_processor.key_buffer) or is_within or self._app.key_processor.arg is not None

    # ---- changes -------------------------------------------------------------------------------

    def set(self, text: str, cursor: int | None = None) -> None:
        """Another text. Undo brings the old one back."""
        with self._one_change():
            self._buffer.exit_selection()
            self._buffer.document = Document(text, len(text) if cursor is None else cursor)

    def clear(self) -> None:
        """An empty text that remembers nothing but what was killed."""
        self._buffer.reset()
        self._app.vi_state.reset()
        self._last_action = ""

    def insert(self, text: str) -> None:
        with self._one_change():
            self._buffer.insert_text(text)

    def replace(self, start: int, end: int, text: str) -> None:
        """Another piece of text; the cursor is behind it."""
        whole = self.text
        self.set(whole[:start] + text + whole[end:], start + len(text))

    def key(self, key: Key) -> None:
        presses = _presses(key)
        last, self._last_action = self._last_action, "type" if key.text and not key.text.isspace() else ""
        if not presses:
            return
        self._buffer.is_within_word = last == self._last_action == "type" and self.mode in ("", "insert")
        with set_app(self._app):
            processor = self._app.key_processor
            for press in presses:
                processor.feed(press)
            processor.process_keys()
        self._buffer.is_within_word = False

    def act(self, action: str) -> bool:
        """Do an action of the keymap's editor table; False if it is none that is done here."""
        text, place = self.text, self.cursor
        last, self._last_action = self._last_action, action
        match action:
            case "move_left":
                self.cursor = start_before(text, place)
            case "move_right":
                self.cursor = end_after(text, place)
            case "move_word_left":
                self.cursor = word_start_before(text, place)
            case "move_word_right":
                self.cursor = word_end_after(text, place)
            case "move_line_start":
                self.cursor = _line_start(text, place)
            case "move_line_end":
                self.cursor = _line_end(text, place)
            case "move_text_start":
                self.cursor = 0
            case "move_text_end":
                self.cursor = len(text)
            case "delete_backward":
                self._delete(start_before(text, place), place)
            case "delete_forward":
                self._delete(place, end_after(text, place))
            case "insert_newline":
                self.insert("\n")
            case "undo":
                self._buffer.undo()
            case "yank":
                self._yank()
            case "yank_pop" if last in ("yank", "yank_pop"):
                self._yank_older()
            case "yank_pop":
                pass
            case _ if action in _KILLS:
                self._kill(*_KILLS[action](text, place), is_more=last in _KILLS)
            case _:
                return False
        return True

    def _delete(self, start: int, end: int) -> None:
        if self._buffer.selection_state is not None:
            start, end = self._buffer.document.selection_range()
            self._buffer.exit_selection()
        if start != end:
            self.replace(start, end, "")

    def _kill(self, start: int, end: int, *, is_more: bool) -> None:
        """Delete a piece so that it can be yanked; pieces killed one after another become one."""
        if start == end:
            return
        text, place = self.text, self.cursor
        piece = text[start:end]
        if is_more:
            before = self._ring.drop()
            piece = piece + before if start < place else before + piece
        self._ring.set_text(piece)
        self.replace(start, end, "")

    def _yank(self) -> None:
        self._yanked_from = self.cursor
        self.insert(self._ring.get_data().text)

    def _yank_older(self) -> None:
        self._ring.rotate()
        self.replace(self._yanked_from, self.cursor, self._ring.get_data().text)

    def _one_change(self) -> _OneChange:
        return _OneChange(self._buffer)


class _OneChange:
    """A change that undo takes back by itself, apart from what was typed before and after it."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer

    def __enter__(self) -> None:
        self._buffer.save_to_undo_stack()

    def __exit__(self, *_: object) -> None:
        self._buffer.save_to_undo_stack()


def _presses(key: Key) -> list[KeyPress]:
    """A key in prompt_toolkit's words; Alt is an Esc before it, as terminals send it."""
    name = key.name
    if name.startswith("alt-"):
        return [KeyPress(Keys.Escape, ""), KeyPress(name[4:])] if name[4:] in _ALT_COMMANDS else []
    if name in _SPECIAL:
        return [KeyPress(_SPECIAL[name])]
    if name.startswith("ctrl-") and len(name) == 6 and name[5].isalpha():
        return [KeyPress(Keys(f"c-{name[5].lower()}"))]
    if key.text:
        return [KeyPress(char) for char in key.text]
    if len(name) == 1:
        return [KeyPress(name)]
    return []
