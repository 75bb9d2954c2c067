"""The composer: keys and pastes go in, rows come out, and in the end a draft is taken.

It does what belongs to writing. Everything else a key means is for the interface: `key` says False then, and `wanted`
names the action of the keymap (`submit`, `queue`, `interrupt_turn`, …).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from spindle.frontends.tui.composer.draft import DRAFT_CHARACTERS, MARKS, Draft, Folds, is_long, joined, unix_lines
from spindle.frontends.tui.composer.keymap import EDITOR_ACTIONS, Keymap
from spindle.frontends.tui.composer.picture import Picture
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import Line

if TYPE_CHECKING:
    from spindle.frontends.tui.composer.editing import Editor
    from spindle.frontends.tui.composer.files import FileSearch
    from spindle.frontends.tui.composer.past_messages import PastMessages, Recall
    from spindle.frontends.tui.composer.popup import Command, Popup, Skill
    from spindle.frontends.tui.composer.saved import DraftFile, Saved
    from spindle.frontends.tui.composer.search import Search

_WRITING = frozenset(EDITOR_ACTIONS) - {"move_up", "move_down"}
"""What the editor does by itself."""


class Host(Protocol):
    """What the composer needs of the interface; `Desk` has it."""

    @property
    def under_way(self) -> Sequence[Draft]:
        """Messages that were taken and are not recorded yet: they are kept with the draft."""
        ...

    def redraw(self) -> None: ...
    def warn(self, sentence: str) -> None: ...
    def spawn(self, work: Coroutine[Any, Any, None]) -> None: ...


class Composer:
    """One for each interface. It can be painted and written in at once; `furnish` gives it what is around it."""

    def __init__(self, keymap: Keymap | None = None) -> None:
        self.keymap = keymap or Keymap()
        self.wanted = ""
        """What the last key meant, where `key` said False; empty if nothing."""
        self.session_id = ""
        """Written into the history with each message; set when a thread is open."""
        self._host: Host | None = None
        self._cwd = "."
        self._past: PastMessages | None = None
        self._draft_file: DraftFile | None = None
        self._commands: Callable[[], Sequence[Command]] = tuple
        self._skills: Callable[[], Sequence[Skill]] = tuple
        self._make_files: Callable[[Callable[[], None]], FileSearch] | None = None
        self._folds = Folds()
        self._picture = Picture(self._folds)
        self._editor: Editor | None = None
        self._recall: Recall | None = None
        self._popup: Popup | None = None
        self._search: Search | None = None
        self._is_vi = self.keymap.is_vi
        self._chord = ""
        self._wanted_column: int | None = None
        self._cursor_cell: tuple[int, int] = self._picture.cursor

    def furnish(
        self,
        host: Host | None = None,
        *,
        cwd: str = ".",
        past: PastMessages | None = None,
        draft_file: DraftFile | None = None,
        commands: Callable[[], Sequence[Command]] = tuple,
        skills: Callable[[], Sequence[Skill]] = tuple,
        files: Callable[[Callable[[], None]], FileSearch] | None = None,
    ) -> None:
        """What is around the composer. What was typed before stays; `commands` and `skills` are asked as needed."""
        self._host, self._cwd, self._past, self._draft_file = host, cwd, past, draft_file
        self._commands, self._skills, self._make_files = commands, skills, files
        if self._raw:
            self.save_soon()

    def load(self) -> Editor:
        """The editor; its library is loaded with the first key, or beforehand when there is time."""
        if self._editor is None:
            # Heavy, and not needed for the first paint.
            from spindle.frontends.tui.composer.editing import Editor  # see above
            from spindle.frontends.tui.composer.past_messages import Recall  # see above
            from spindle.frontends.tui.composer.popup import Popup  # see above

            self._recall = Recall(lambda: self._past, self._fitted)
            self._popup = Popup(lambda: self._commands(), lambda: self._skills(), self._files)
            self._editor = Editor(is_vi=self._is_vi, changed=self.save_soon)
        return self._editor

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
        return self._is_listing or self._search is not None

    @property
    def vi_mode(self) -> str:
        """`insert`, `normal`, `replace` or `visual` with the keys of vi; else empty."""
        return self._editor.mode if self._editor is not None else "insert" if self._is_vi else ""

    @property
    def _raw(self) -> str:
        return self._editor.text if self._editor is not None else ""

    @property
    def _is_listing(self) -> bool:
        return self._popup is not None and self._popup.is_open

    @property
    def _is_normal(self) -> bool:
        return self.vi_mode in ("normal", "visual")

    @property
    def _is_vi_busy(self) -> bool:
        """Esc is for vi: it ends writing or selecting, or a command that is not complete."""
        is_waiting = self._editor is not None and self._editor.is_waiting
        return self.vi_mode not in ("", "normal") or (self.vi_mode == "normal" and is_waiting)

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
        if self._popup is not None and self._popup.is_open and self._popup_key(self._popup, key, action):
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
            case "interrupt_turn" if key.name == "esc" and self._is_vi_busy:
                self.load().key(key)
            case "cancel":
                return self.discard()
            case "expand_paste":
                self._expand()
            case "history_search_previous" | "history_search_next":
                self._begin_search()
            case "paste_image":
                self._paste_image()
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

    def discard(self) -> bool:
        """Clear the draft; it goes into the history, from where Up brings it back. False if there is none."""
        if self._recall is None or self.is_empty:
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
        place = self._folds.nearest_paste(editor.text, editor.cursor)
        if place is not None:
            editor.replace(place, place + 1, self._folds[editor.text[place]].text)

    # ---- images --------------------------------------------------------------------------------

    def attach_images(self, paths: Sequence[str]) -> None:
        """Put images into the draft, each as `[Image #1]` (also those of `-i`)."""
        self.load().insert("".join(f"{self._folds.image(path)} " for path in paths))

    def _paste_image(self) -> None:
        from spindle.frontends.tui.composer.beside import paste_image  # only when it is asked for

        if self._host is not None:
            self._host.spawn(paste_image(self, self._host))

    # ---- moving between rows, and into the history ---------------------------------------------

    def _move_row(self, step: int) -> bool:
        editor = self.load()
        assert self._recall is not None
        is_within = not (self._recall.is_at(editor.text) and editor.cursor in (0, len(editor.text)))
        layout = self._picture.layout_of(editor.text)
        row = layout.find(editor.cursor)
        if is_within and 0 <= row + step < len(layout.rows):
            if self._wanted_column is None:
                self._wanted_column = layout.column(editor.cursor)
            editor.cursor = layout.place(row + step, self._wanted_column)
            return True
        self._go_back(-step)
        return True

    def _go_back(self, step: int) -> None:
        """Bring an earlier message (1) or a later one (-1); without one, go to the end of the text."""
        editor = self.load()
        assert self._recall is not None
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
        self._close_list()

    def _close_list(self) -> None:
        """No list for the word at the cursor, until it is another one."""
        if self._popup is not None:
            self._popup.close_for(self.load())

    # ---- searching the history -----------------------------------------------------------------

    def _begin_search(self) -> None:
        from spindle.frontends.tui.composer.search import Search  # seldom

        self.load()
        assert self._recall is not None
        self._search = Search(self._recall, self._folds.exact)

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
        if search.is_looking and self._host is not None:
            from spindle.frontends.tui.composer.beside import keep_looking  # only in a long history

            self._host.spawn(keep_looking(search, self._host, lambda: self._search is search))

    # ---- lists ---------------------------------------------------------------------------------

    def _follow(self) -> None:
        if self._editor is None or self._popup is None:
            return
        if not self._is_normal and self._search is None:
            self._popup.follow(self._editor.text, self._editor.cursor)

    def _popup_key(self, popup: Popup, key: Key, action: str) -> bool:
        """A key while a list is open; False when the list does not take it."""
        if action in ("submit", "queue") and popup.choice is not None:
            if popup.choose(self.load(), is_run=action == "submit"):
                self.wanted = "submit"
            return True
        return popup.key(key, action)

    def _files(self) -> FileSearch | None:
        return self._make_files(self._files_found) if self._make_files is not None else None

    def _files_found(self) -> None:
        if self._popup is not None:
            self._popup.files_found()
        self._redraw()

    # ---- the draft -----------------------------------------------------------------------------

    def _fitted(self, text: str) -> str:
        """Text of a message as it stands in the editor."""
        text = unix_lines(text)
        return self._folds.whole(text) if len(text) > DRAFT_CHARACTERS else self._folds.fit(text)

    def set_text(self, text: str) -> None:
        """Put a text into the composer in place of the draft."""
        if text or self._editor is not None:
            self.load().set(self._fitted(text))
            self._follow()

    def put_in_front(self, text: str) -> None:
        """Put a text into the composer, and go on behind what was typed meanwhile."""
        self.load().set(self._fitted(text) + self._raw)
        self._close_list()

    def set_edited(self, text: str) -> None:
        """Put in what an external editor made of `text`; images that are still named in it stay images."""
        text = unix_lines(text)
        is_huge = len(text) > DRAFT_CHARACTERS
        self.load().set(self._folds.whole(text) if is_huge else self._folds.put_images_back(text, self._raw))
        self._close_list()

    def put_back(self, draft: Draft) -> None:
        """A draft that was taken is in the composer again, before what has been written since."""
        self._put_before(draft.raw or self._folds.rebuilt(draft))

    def restore(self, saved: Saved) -> None:
        """Put in a draft that an earlier interface left behind; from now on it is ours to keep."""
        self._put_before(saved.raw(self._folds))
        self.save_now()
        saved.forget()

    def _put_before(self, raw: str) -> None:
        self.load().set("\n".join(text for text in (raw, self._raw) if text))
        self._close_list()

    def take(self, *, is_message: bool = True) -> Draft:
        """The draft, as it is sent; the composer is empty then. `is_message`: write it into the history file too."""
        draft = self.draft
        if draft.is_blank or self._recall is None:
            return draft
        self._recall.remember(draft.raw)
        if is_message and self._past is not None and self._host is not None:
            from spindle.frontends.tui.composer.beside import record  # not before there is something to send

            self._host.spawn(record(self._past, draft.text, self.session_id, self._host))
        self._start_over()
        return draft

    def _start_over(self) -> None:
        if self._editor is not None:
            self._editor.clear()
            self.save_soon()
        self._folds.start_over()
        self._picture.scroll_up()
        self._wanted_column = None
        self._follow()

    def save_now(self) -> None:
        """Write the draft to disk at once: the interface is interrupted, or about to end."""
        if self._draft_file is not None:
            self._draft_file.save_now()

    def close(self) -> None:
        """The interface ends in good order; the draft's file goes."""
        if self._popup is not None:
            self._popup.close()
        if self._draft_file is not None:
            self._draft_file.close()

    def save_soon(self) -> None:
        """The draft, or what is kept with it, has changed."""
        if self._draft_file is not None:
            self._draft_file.changed(self._unrecorded)

    def _unrecorded(self) -> list[dict[str, str]]:
        """What a kill must not cost, as it would stand in the composer."""
        messages = [self._folds.parts_of(draft) for draft in (self._host.under_way if self._host is not None else ())]
        return joined([*messages, self._folds.parts(self._raw)])

    def _redraw(self) -> None:
        if self._host is not None:
            self._host.redraw()

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
        return shown + (self._popup.lines(width, height - len(shown) - 2) if self._popup is not None else [])

    def cursor(self) -> tuple[int, int] | None:
        """Row and column of the cursor within what `lines` gave last."""
        return self._cursor_cell
