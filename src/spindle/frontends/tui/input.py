"""Who gets a key: the pager, the view that is open, the composer, and what is left, the interface itself."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from spindle.frontends.tui.keys import Focus, Input, Key, Paste, Reply
from spindle.frontends.tui.polling import nobody_read_since, waited_s
from spindle.frontends.tui.view import View

if TYPE_CHECKING:
    from spindle.frontends.tui.app import App
    from spindle.frontends.tui.screen.decoder import Decoder
    from spindle.frontends.tui.screen.pager import Pager

GUARD_S = 0.4
"""A view that appears by itself takes letters and Enter only when no key has come for so long."""
AT_ONCE = 65536


class Keyboard:
    """Reads the terminal, and hands what was typed to whoever it is for."""

    def __init__(self, app: App, decoder: Decoder, *, descriptor: int = 0) -> None:
        self._app = app
        self._decoder = decoder
        self._descriptor = descriptor
        self._early = 0
        """How many bytes were typed before the terminal was ours: there, Enter is a line feed."""
        self._held: list[Key | Paste] = []
        """Typed before there was anything to type into: the list that is asked first, or the composer, is to come."""
        self._loop = asyncio.get_running_loop()
        self._rest: asyncio.TimerHandle | None = None
        self._guarded: View[object] | None = None
        self._is_guarded_seen = False
        self._waits_for_quiet = False
        """Somebody is typing, so that the view takes letters only after a pause."""
        self._quiet_since = 0.0
        self._actions = _actions(app)

    def listen(self, early: int = 0, since_s: float | None = None) -> None:
        """Read keys. So many bytes were typed before the terminal was ours, which it is since then (default: now)."""
        self.typed_early(early)
        if since_s is not None:
            nobody_read_since(self._loop, since_s)
        self._loop.add_reader(self._descriptor, self._readable)

    def typed_early(self, count: int) -> None:
        self._early = count

    def stop(self) -> None:
        self._loop.remove_reader(self._descriptor)
        if self._rest is not None:
            self._rest.cancel()

    def view_appeared(self, view: View[object]) -> None:
        """A view has come up: maybe the person is in the middle of a word."""
        self._guarded = view if view.guards_typing or view.guards_typed_ahead else None
        self._is_guarded_seen = False
        self._waits_for_quiet = view.guards_typing or self._is_typed_ahead
        self._deliver_soon()

    def composer_appeared(self) -> None:
        """Nothing more is asked first."""
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        if self._held:
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        held, self._held = self._held, []
        self._take_all([*held])

    def view_seen(self, view: View[object]) -> None:
        """The terminal has taken a picture of it: behind a pager, or while the terminal is slow, nobody has seen it."""
        if view is self._guarded and not self._is_guarded_seen:
            self._is_guarded_seen = True
            self._waits_for_quiet = self._waits_for_quiet or self._is_typed_ahead
            self._quiet_since = self._loop.time()

    @property
    def _is_typed_ahead(self) -> bool:
        """Whether something was typed that nobody has got yet."""
        return bool(self._held) or self._decoder.holds_text

    # ---- reading -------------------------------------------------------------------------------

    def _readable(self) -> None:
        try:
            data = os.read(self._descriptor, AT_ONCE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:  # the terminal is gone
            self.stop()
            self._app.end_by(signal.SIGHUP)
            return
        now = self._loop.time()
        inputs: list[Input] = []
        if self._early:
            typed, data = data[: self._early], data[self._early :]
            self._early -= len(typed)
            inputs = self._decoder.early(typed)
        if data:
            inputs += self._decoder.feed(data, now, waited_s(self._loop))
        self._take_all(inputs)
        self._wait_for_rest()

    def _wait_for_rest(self) -> None:
        """Some bytes are understood only when nothing follows them: a lone Esc, a paste without brackets."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        if (at := self._decoder.flush_at) is not None:
            self._rest = self._loop.call_at(at, self._flush)

    def _flush(self) -> None:
        self._rest = None
        self._take_all(self._decoder.flush(max(self._loop.time(), self._decoder.flush_at or 0.0)))
        self._wait_for_rest()

    def _take_all(self, inputs: list[Input]) -> None:
        if not inputs:
            return
        for each in inputs:
            try:
                self._take(each)
            except Exception as error:  # our bug: the key is lost, the interface and the draft live on
                self._app.fail(f"internal error: {type(error).__name__}: {error}")
        # Most answers only confirm what we thought.
        if self._app.painter.is_waiting or not all(isinstance(each, Reply) for each in inputs):
            self._app.frames.now()

    def _take(self, got: Input) -> None:
        match got:
            case Key() | Paste() if self._has_nobody:
                self._held.append(got)
            case Key():
                self._key(got)
            case Paste(text=text):
                self._paste(text)
            case Focus(is_gained=is_gained):
                self._app.attention.has_focus = is_gained
            case Reply():
                self._app.terminal_said(got)

    # ---- whose it is ---------------------------------------------------------------------------

    @property
    def _has_nobody(self) -> bool:
        """Neither the first question nor the composer is there yet. Ctrl-C and Ctrl-D wait like all other keys."""
        return self._view is None and self._app.opening.is_asking_first

    @property
    def _pager(self) -> Pager | None:
        """The pager, unless a key that came just before has closed it."""
        pager = self._app.showing.pager
        return None if pager is None or pager.closed.done() else pager

    @property
    def _view(self) -> View[object] | None:
        """The question that is shown, unless a key that came just before has answered it."""
        view = self._app.view
        return None if view is None or view.answer.done() else view

    def _key(self, key: Key) -> None:
        app = self._app
        if (pager := self._pager) is not None and key.name == "ctrl-z":
            app.suspend()
        elif pager is not None:
            pager.key(key if pager.is_typing else app.composer.keymap.translated(key, "pager"))
        elif (view := self._view) is not None:
            self._key_for_view(view, key)
        elif app.composer.key(key):
            app.deeds.forget()
        elif (act := self._actions.get(app.composer.wanted)) is not None:
            act()

    def _key_for_view(self, view: View[object], key: Key) -> None:
        if key.name == "ctrl-z":
            self._app.suspend()
        elif key.name == "ctrl-l":
            self._app.clear_screen()
        elif not self._is_meant_for_draft(view, key):
            is_written = bool(key.text) and view.cursor() is not None
            view.key(key if is_written else self._app.composer.keymap.translated(key, *view.key_contexts))
        elif key.name not in ("enter", "tab"):
            self._app.composer.key(key)
        elif key.name == "enter" and self._app.thread is None:
            # Asked before the session is open, to somebody who has begun to talk: the message is sent when it is.
            self._app.deeds.submit_draft()

    def _is_meant_for_draft(self, view: View[object], key: Key) -> bool:
        """Whether a person was still typing when the view came up, so that a letter is no answer."""
        if self._guarded is not view:
            return False
        now = self._loop.time()
        if self._is_guarded_seen and (not self._waits_for_quiet or now - self._quiet_since >= GUARD_S):
            self._guarded = None
            return False
        self._waits_for_quiet, self._quiet_since = True, now
        return bool(key.text) or key.name in ("enter", "tab", "space", "backspace", "delete")

    def _paste(self, text: str) -> None:
        app = self._app
        if self._pager is not None:
            return
        if (view := self._view) is None or self._is_meant_for_draft(view, Key("paste", text)):
            app.composer.paste(text)
        else:
            view.paste(text)


def _actions(app: App) -> dict[str, Callable[[], None]]:
    """What the interface does for the actions of the keymap that are not the composer's."""
    return {
        "submit": app.deeds.submit_draft,
        "queue": app.deeds.queue_draft,
        "interrupt_turn": app.deeds.escape,
        "cancel": app.deeds.cancel,
        "quit": app.deeds.quit,
        "suspend": app.suspend,
        "clear_terminal": app.clear_screen,
        "next_mode": app.deeds.next_mode,
        "edit_queued_message": app.deeds.edit_queued,
        "open_transcript": app.deeds.open_transcript,
        "open_external_editor": app.deeds.open_editor,
        "toggle_shortcuts": app.deeds.show_keys,
        "increase_reasoning_effort": lambda: app.deeds.change_effort(1),
        "decrease_reasoning_effort": lambda: app.deeds.change_effort(-1),
        "toggle_vim_mode": lambda: app.run_slash("/vim"),
        "toggle_raw_output": lambda: app.run_slash("/raw"),
        "copy": lambda: app.run_slash("/copy"),
        "open_models": lambda: app.run_slash("/model"),
        "open_warnings": lambda: app.run_slash("/warnings"),
    }
