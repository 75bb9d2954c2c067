"""The drawn interface: a live area at the bottom of the terminal, keys that are answered at once.

Keys come from `input.py` and end in the composer, a view or `deeds.py`; `frames.py` says when `showing.py` paints. What
is not about the screen is in `interface.py`. Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from spindle.api.door import OpenThread
from spindle.api.hearing import Hearing
from spindle.frontends.tui.commands.table import COMMANDS
from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.composer.draft import Draft
from spindle.frontends.tui.composer.making import furnish
from spindle.frontends.tui.composer.popup import Skill
from spindle.frontends.tui.composer.saved import left_behind
from spindle.frontends.tui.deeds import Deeds
from spindle.frontends.tui.first_paint import Stage
from spindle.frontends.tui.frames import Frames
from spindle.frontends.tui.input import Keyboard
from spindle.frontends.tui.interface import Interface
from spindle.frontends.tui.keys import Reply
from spindle.frontends.tui.launching import Launch
from spindle.frontends.tui.showing import Showing
from spindle.frontends.tui.shown import Line
from spindle.frontends.tui.view import View

T = TypeVar("T")


class App(Interface):
    def __init__(self, launch: Launch, stage: Stage) -> None:
        self.terminal = stage.terminal
        self.painter = stage.painter
        super().__init__(launch, self._notify)
        self._skills: Sequence[Skill] = ()
        self.composer: Composer = stage.composer
        furnish(self.composer, self.config, self, self.clock, commands=lambda: COMMANDS, skills=lambda: self._skills)
        self.showing = Showing(self)
        self.frames = Frames(self.showing.paint)
        self.deeds = Deeds(self)
        self.keyboard = Keyboard(self, stage.decoder)
        self._entered = (stage.early, stage.entered_s)
        self._views: list[View[Any]] = []
        """The first is shown, the others wait."""

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        loop.add_signal_handler(signal.SIGTSTP, self.suspend)
        self.keyboard.listen(*self._entered)

    def stop_listening(self) -> None:
        if self.was_left:
            self.composer.close()
        else:
            self.composer.save_now()  # cut short: the draft is taken up again at the next start
        self.keyboard.stop()
        self.frames.stop()
        with contextlib.suppress(Exception):  # painting may be what has failed; the thread must be closed all the same
            self.showing.print_rest()

    # ---- showing things ------------------------------------------------------------------------

    @property
    def size(self) -> tuple[int, int]:
        return self.terminal.size

    def redraw(self) -> None:
        self.frames.soon()

    async def ask(self, view: View[T]) -> T:
        self._views.append(view)
        self._show_first()
        try:
            return await view.answer
        finally:
            self._views.remove(view)
            self._show_first()

    def _show_first(self) -> None:
        shown = self._views[0] if self._views else None
        if shown is not self.view:
            self.view = shown
            if shown is not None:
                self.keyboard.view_appeared(shown)
        for number, view in enumerate(self._views):
            view.waiting = len(self._views) - number - 1
        self.redraw()

    async def page(self, title: str, lines: Iterable[Line]) -> None:
        await self.showing.page(title, lines)

    def clear_screen(self) -> None:
        self.painter.push_up(self.size)
        self.frames.now()

    def copy(self, text: str) -> None:
        self.terminal.copy(text)

    def ready(self) -> None:
        """Time for what was put off: the editor, a draft that was left behind, the skills."""
        self.composer.load()
        self.keyboard.composer_appeared()
        for sentence in self.composer.keymap.warnings:
            self.warn(sentence)
        self._take_up_draft()
        self.spawn(self._list_skills())

    def _take_up_draft(self) -> None:
        """What was written and not recorded when an interface was killed in this folder is in the composer again."""
        if not self.composer.is_empty:
            return
        for saved in left_behind(self.config.home, self.config.cwd)[:1]:
            self.composer.restore(saved)
            self.say("What you had written when a session was cut short is in the composer again; Ctrl-C clears it.")

    async def _list_skills(self) -> None:
        from spindle.frontends.tui.skills import skills_here  # with the thread, not before

        self._skills = await skills_here(self)

    def opened(self, thread: OpenThread, hearing: Hearing) -> None:
        self.composer.session_id = thread.id
        super().opened(thread, hearing)

    def settings_changed(self) -> None:
        self.showing.use_settings()
        self.redraw()

    # ---- the draft -----------------------------------------------------------------------------

    @property
    def under_way(self) -> list[Draft]:
        return self.turns.under_way

    def messages_changed(self) -> None:
        self.composer.save_soon()

    def set_draft(self, text: str) -> None:
        self.composer.discard()  # Up brings back what stood there
        self.composer.set_text(text)
        self.redraw()

    def begin_draft(self, text: str) -> None:
        self.composer.put_in_front(text)
        self.redraw()

    def suggest(self, text: str) -> None:
        if self.composer.is_empty:
            self.set_draft(text)

    def give_back(self, drafts: list[Draft]) -> None:
        """Before what stands in the composer."""
        for draft in reversed(drafts):
            self.composer.put_back(draft)
        self.redraw()

    # ---- the terminal ----------------------------------------------------------------------------

    def _resized(self) -> None:
        self.terminal.measure()
        self.frames.now()

    def suspend(self) -> None:
        """Ctrl-Z: give the terminal to the shell until `fg`."""
        if not self.terminal.is_ours:
            return  # the editor has it, and was stopped, too
        self.frames.pause()
        self.showing.leave_pager()
        self.painter.clear_live()
        self.keyboard.typed_early(self.terminal.suspend())
        self.frames.go_on()

    def end_by(self, number: int) -> None:
        if number == signal.SIGINT and not self.terminal.is_ours:
            return  # Ctrl-C in the editor: it is the editor's
        super().end_by(number)

    def lend_terminal(self) -> None:
        """Another program has the terminal now: the editor."""
        self.keyboard.stop()
        self.frames.pause()
        self.painter.clear_live()
        self.terminal.leave()

    def take_terminal(self) -> None:
        """It is ours again, unless we are leaving."""
        if self.is_leaving:
            return
        self.keyboard.listen(self.terminal.enter())
        self.frames.go_on()

    def _notify(self, text: str) -> None:
        self.terminal.notify(text, self.config.tui.notification_method)

    def terminal_said(self, reply: Reply) -> None:
        """An answer to a question of ours. What waits for it is painted after the keys that came with it."""
        self.painter.take_reply(self.terminal.take_reply(reply))
