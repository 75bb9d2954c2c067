"""The composer: keys and pastes go in, rows come out, and in the end a draft is taken.

It does what belongs to writing. Everything else a key means is for the interface: `key` says False then, and `wanted`
names the action of the keymap (`submit`, `queue`, `interrupt_turn`, …).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from spindle.errors import SpindleError
from spindle.frontends.tui.composer.draft import DRAFT_CHARACTERS, MARKS, Draft, Folds, is_long, unix_lines
from spindle.frontends.tui.composer.history import History, Recall
from spindle.frontends.tui.composer.keymap import EDITOR_ACTIONS, Keymap
from spindle.frontends.tui.composer.picture import Picture
from spindle.frontends.tui.composer.popup import Command, Popup, Skill
from spindle.frontends.tui.composer.saved import DraftFile, Saved, parts_of
from spindle.frontends.tui.composer.search import Search
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import Line

if TYPE_CHECKING:
    from spindle.frontends.tui.composer.editing import Editor
    from spindle.frontends.tui.composer.files import FileSearch

_WRITING = frozenset(EDITOR_ACTIONS) - {"move_up", "move_down"}
"""What the editor does by itself."""


class Host(Protocol):
    """What the composer needs of the interface; `Desk` has it."""

    def redraw(self) -> None: ...
    def warn(self, sentence: str) -> None: ...
    def spawn(self, work: Coroutine[Any, Any, None]) -> None: ...


class Composer:
    """One for each interface. `session_id` is written into the history, once a thread is open."""

    def __init__(
        self,
        keymap: Keymap | None = None,
        *,
        host: Host | None = None,
        cwd: str = ".",
        history: History | None = None,
        draft_file: DraftFile | None = None,
        commands: Callable[[], Sequence[Command]] = tuple,
        skills: Callable[[], Sequence[Skill]] = tuple,
        files: Callable[[Callable[[], None]], FileSearch] | None = None,
    ) -> None:
        self.keymap = keymap or Keymap()
        self.wanted = ""
        """What the last key meant, where `key` said False; empty if nothing."""
        self.session_id = ""
        self._host = host
        self._cwd = cwd
        self._history = history
        self._draft_file = draft_file
        self._folds = Folds()
        self._recall = Recall(history, self._fitted)
        self._search: Search | None = None
        self._popup = Popup(commands, skills, lambda: files(self._files_found) if files is not None else None)
        self._picture = Picture(self._folds)
        self._editor: Editor | None = None
        self._is_vi = self.keymap.is_vi
        self._chord = ""
        self._wanted_column: int | None = None
        self._cursor_cell: tuple[int, int] | None = self._picture.cursor

    # ---- what there is -------------------------------------------------------------------------

    @property
    def draft(self) -> Draft:
        """What would be sent, without taking it."""
        return self._folds.draft(self._raw)

    @property
    def text(self) -> str:
        """The text that would be sent."""
        return self.draft.text

    @property
    def is_empty(self) -> bool:
        return not self._raw

    @property
    def is_shell(self) -> bool:
        return self._raw.startswith("!")

    @property
    def is_busy(self) -> bool:
        """A list or a search is open: Esc closes it first."""
        return self._popup.is_open or self._search is not None

    @property
    def vi_mode(self) -> str:
        """`insert`, `normal`, `replace` or `visual` with the keys of vi; else empty."""
        return self._editor.mode if self._editor is not None else "insert" if self._is_vi else ""

    @property
    def _raw(self) -> str:
        return self._editor.text if self._editor is not None else ""

    @property
    def _is_normal(self) -> bool:
        return self.vi_mode in ("normal", "visual")

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
        self.wanted = ""
        name = f"{self._chord}+{key.name}" if self._chord else key.name
        action = self.keymap.action(name)
        if not action and (self._begins_chord(name) or self._chord) and not self._is_normal:
            # The first of several keys; or a later one that leads nowhere, which must not be written.
            self._chord = name if self._begins_chord(name) else ""
            return True
        self._chord = ""
        action = self._action_now(key, action)
        if self._search is not None and self._search_key(key, action):
            return True
        if self._popup.is_open and self._popup_key(key, action):
            return not self.wanted
        is_taken = self._act(action, key)
        if not is_taken:
            self.wanted = action
        elif action not in ("move_up", "move_down"):
            self._wanted_column = None
        self._follow()
        return is_taken

    def _begins_chord(self, name: str) -> bool:
        return any(key.startswith(f"{name}+") for key in self.keymap.conversation)

    def _action_now(self, key: Key, action: str) -> str:
        """What a key means here: a character's action (`?`) is for an empty composer only, vi's own keys come first."""
        is_character = bool(key.text) and len(key.name) == 1
        if is_character and (not self.is_empty or self._is_normal):
            return ""
        if self._is_normal and key.name == "ctrl-r":
            return ""
        if action == "delete_forward" and key.name == "ctrl-d" and self.is_empty:
            return "quit"
        return action

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
            case "cancel":
                return self._clear()
            case "expand_paste":
                self._expand()
            case "history_search_previous" | "history_search_next":
                self._search = Search(self._recall, self._folds.exact)
            case "paste_image":
                self._spawn(self._paste_image())
            case _:
                return self.load().act(action) if action in _WRITING else False
        return True

    def _type(self, key: Key) -> bool:
        editor = self.load()
        if self._is_normal and key.name in ("k", "j") and not editor.is_waiting:
            return self._move_row(-1 if key.name == "k" else 1)
        if not key.text and not key.name.startswith(("ctrl-", "alt-")):
            return False
        if not self._is_normal and MARKS.search(key.text):
            editor.insert(self._folds.fit(key.text))
        else:
            editor.key(key)
        return True

    def _continue_line(self) -> bool:
        """A backslash before the cursor and Enter: the line goes on in the next one."""
        if self._editor is None or self._is_normal:
            return False
        place = self._editor.cursor
        if place and self._raw[place - 1] == "\\":
            self._editor.replace(place - 1, place, "\n")
            return True
        return False

    def _clear(self) -> bool:
        """Ctrl-C on a draft: it goes into the history, from where Up brings it back."""
        if self.is_empty:
            return False
        self._recall.remember(self._raw)
        self._start_over()
        return True

    def paste(self, text: str) -> None:
        """Pasted text is text, whatever is in it. Much of it is folded; the path of an image is that image."""
        text = unix_lines(text)
        if not text:
            return
        self._wanted_column = None
        if self._search is not None:
            self._search.type(self._search.query + text.partition("\n")[0])
            self._keep_looking(self._search)
            return
        editor = self.load()
        if not is_long(text):
            from spindle.frontends.tui.composer.images import dropped_images  # only with a first paste

            if images := dropped_images(text, self._cwd):
                self.attach_images(images)
                return
            editor.insert(self._folds.fit(text))
        elif self.keymap.preset == "claude" and self._is_pasted_again(text):
            self._expand()
        else:
            editor.insert(self._folds.paste(text))
        self._follow()

    def _is_pasted_again(self, text: str) -> bool:
        editor = self.load()
        fold = self._folds.get(editor.text[editor.cursor - 1]) if editor.cursor else None
        return fold is not None and fold.is_paste and fold.text == text

    def _expand(self) -> None:
        """Unfold the paste before the cursor, else the first one; images stay."""
        editor = self.load()
        text, cursor = editor.text, editor.cursor
        places = [
            place
            for place, char in enumerate(text)
            if (fold := self._folds.get(char)) and fold.is_paste and not MARKS.search(fold.text)
        ]
        if places:
            place = max((place for place in places if place < cursor), default=places[0])
            editor.replace(place, place + 1, self._folds[text[place]].text)

    # ---- images --------------------------------------------------------------------------------

    def attach_images(self, paths: Sequence[str]) -> None:
        """Put images into the draft, each as `[Image #1]` (also those of `-i`)."""
        self.load().insert("".join(f"{self._folds.image(path)} " for path in paths))

    async def _paste_image(self) -> None:
        from spindle.frontends.tui.composer.images import clipboard_image  # only when it is asked for

        try:
            self.attach_images([await clipboard_image()])
        except SpindleError as error:
            if self._host is not None:
                self._host.warn(str(error))
        self._redraw()

    # ---- moving between rows, and into the history ---------------------------------------------

    def _move_row(self, step: int) -> bool:
        editor = self.load()
        is_within = not (self._recall.is_at(editor.text) and editor.cursor in (0, len(editor.text)))
        row = self._picture.layout.find(editor.cursor)
        if is_within and 0 <= row + step < len(self._picture.layout.rows) and editor.text:
            if self._wanted_column is None:
                self._wanted_column = self._picture.layout.column(editor.cursor)
            editor.cursor = self._picture.layout.place(row + step, self._wanted_column)
            return True
        self._go_back(-step)
        return True

    def _go_back(self, step: int) -> None:
        """Bring an earlier message (1) or a later one (-1); without one, go to the end of the text."""
        editor = self.load()
        if not self._recall.is_at(editor.text):
            if step < 0:
                editor.cursor = len(editor.text)
                return
            self._recall.leave()
        text = self._recall.step(step, editor.text)
        if text is None:
            editor.cursor = 0 if step > 0 else len(editor.text)
            return
        self._bring(text)

    def _bring(self, text: str) -> None:
        """An earlier message in the composer. It opens no list: Up and Down are to go on through the history."""
        editor = self.load()
        editor.set(text)
        self._picture.scroll_up()
        self._popup.follow(text, editor.cursor)
        self._popup.dismiss()

    # ---- searching the history -----------------------------------------------------------------

    def _search_key(self, key: Key, action: str) -> bool:
        """A key during a search; False when it ends the search and means something beyond it."""
        search = self._search
        assert search is not None
        outcome = search.key(key, action)
        if outcome == "goes on":
            self._keep_looking(search)
            return True
        self._search = None
        if outcome != "given up" and search.found is not None:
            self._bring(search.found)
        return outcome != "taken, and the key is still to be done"

    def _keep_looking(self, search: Search) -> None:
        """A long history is looked through in slices, so that no key has to wait for it."""
        if not search.is_looking or self._host is None:
            return

        async def look() -> None:
            query = search.query
            while self._search is search and search.is_looking and search.query == query:
                await asyncio.sleep(0)
                search.look()
            self._redraw()

        self._host.spawn(look())

    # ---- lists ---------------------------------------------------------------------------------

    def _follow(self) -> None:
        if self._editor is not None and not self._is_normal and self._search is None:
            self._popup.follow(self._editor.text, self._editor.cursor)

    def _popup_key(self, key: Key, action: str) -> bool:
        """A key while a list is open; False when the list does not take it."""
        if action in ("move_up", "move_down"):
            self._popup.move(-1 if action == "move_up" else 1)
        elif key.name == "esc":
            self._popup.dismiss()
        elif action in ("submit", "queue") and self._popup.choice is not None:
            self._choose(action)
        else:
            return False
        return True

    def _choose(self, action: str) -> None:
        """Take what is chosen in the list. Enter on a command also runs it."""
        choice, token = self._popup.choice, self._popup.token
        assert choice is not None and token is not None
        editor = self.load()
        is_run = token.kind == "command" and action == "submit"
        rest = editor.text[token.end :]
        gap = "" if is_run or rest[:1] in (" ", "\n") else " "
        editor.replace(token.start, token.end, choice.inserted + gap)
        if not gap and not is_run:
            editor.act("move_right")
        self._popup.follow(editor.text, editor.cursor)
        self._popup.dismiss()
        if is_run:
            self.wanted = "submit"

    def _files_found(self) -> None:
        self._popup.files_found()
        self._redraw()

    # ---- the draft -----------------------------------------------------------------------------

    def _fitted(self, text: str) -> str:
        """Text of a message as it stands in the editor."""
        text = unix_lines(text)
        return self._folds.paste(text) if len(text) > DRAFT_CHARACTERS else self._folds.fit(text)

    def set_text(self, text: str) -> None:
        """Put a text into the composer in place of the draft."""
        if text or self._editor is not None:
            self.load().set(self._fitted(text))
            self._follow()

    def set_edited(self, text: str) -> None:
        """Put in what an external editor made of `text`; images that are still named in it stay images."""
        text = unix_lines(text)
        if len(text) > DRAFT_CHARACTERS:
            self.set_text(text)
        else:
            self.load().set(self._folds.put_images_back(text, self._raw))

    def put_back(self, draft: Draft) -> None:
        """A draft that was taken is in the composer again, above what has been written since."""
        self.load().set(f"{draft.raw}\n{self._raw}" if self._raw else draft.raw)

    def restore(self, saved: Saved) -> None:
        """Put in a draft that an earlier interface left behind; from now on it is ours to keep."""
        self.load().set(saved.raw(self._folds))
        if self._draft_file is not None:
            self._draft_file.save_now()
        saved.forget()

    def take(self, *, is_message: bool = True) -> Draft:
        """The draft, as it is sent; the composer is empty then. `is_message`: write it into the history file too."""
        draft = self.draft
        if draft.is_blank:
            return draft
        self._recall.remember(draft.raw)
        if is_message and self._history is not None:
            self._spawn(self._record(self._history, draft.text))
        self._start_over()
        return draft

    async def _record(self, history: History, text: str) -> None:
        try:
            await asyncio.to_thread(history.add, text, self.session_id)
        except OSError as error:
            if self._host is not None:
                self._host.warn(f"The message could not be added to history.jsonl: {error.strerror}.")

    def _start_over(self) -> None:
        if self._editor is not None:
            self._editor.clear()
            self._text_changed()
        self._folds.start_over()
        self._picture.scroll_up()
        self._wanted_column = None
        self._popup.follow("", 0)

    def save_now(self) -> None:
        """Write the draft to disk at once: the interface is interrupted, or about to end."""
        if self._draft_file is not None:
            self._draft_file.save_now()

    def close(self) -> None:
        """The interface ends in good order; the draft's file goes."""
        if self._draft_file is not None:
            self._draft_file.close()

    def _text_changed(self) -> None:
        if self._draft_file is not None:
            self._draft_file.changed(lambda: parts_of(self._raw, self._folds))

    def _redraw(self) -> None:
        if self._host is not None:
            self._host.redraw()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._host is not None:
            self._host.spawn(work)
        else:
            work.close()

    # ---- what is seen --------------------------------------------------------------------------

    def lines(self, width: int, height: int) -> list[Line]:
        """The composer's rows in a window of this size, with the list that is open: the text takes a third at most."""
        raw, place, selected = self._raw, len(self._raw), None
        if self._search is not None and self._search.found is not None:
            raw, selected = self._search.found, self._search.selected()
            place = selected[0] if selected is not None else 0
        elif self._editor is not None:
            place, selected = self._editor.cursor, self._editor.selection
        shown = self._picture.lines(raw, place, selected, (width, height))
        self._cursor_cell = self._picture.cursor
        if self._search is not None:
            line, column = self._search.line(width)
            self._cursor_cell = (len(shown), column)
            shown.append(line)
        return shown + self._popup.lines(width, height - len(shown) - 2)

    def cursor(self) -> tuple[int, int] | None:
        """Row and column of the cursor within what `lines` gave last."""
        return self._cursor_cell
