"""The drawn interface: a live area at the bottom of the terminal, keys that are answered at once.

Keys come from `input.py` and end in the composer, a view or `deeds.py`; `frames.py` says when `showing.py` paints. What
is not about the screen is in `interface.py`. Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.composer.draft import Draft
from spindle.frontends.tui.deeds import Deeds
from spindle.frontends.tui.first_paint import Stage
from spindle.frontends.tui.frames import Frames
from spindle.frontends.tui.input import Keyboard
from spindle.frontends.tui.interface import Interface
from spindle.frontends.tui.keys import Reply
from spindle.frontends.tui.launching import Launch
from spindle.frontends.tui.shown import Line
from spindle.frontends.tui.showing import Showing
from spindle.frontends.tui.view import View

T = TypeVar("T")


class App(Interface):
    def __init__(self, launch: Launch, stage: Stage) -> None:
        self.terminal = stage.terminal
        self.painter = stage.painter
        self.composer: Composer = stage.composer
        super().__init__(launch, self.terminal.notify)
        self.showing = Showing(self)
        self.frames = Frames(self.showing.paint)
        self.deeds = Deeds(self)
        self.keyboard = Keyboard(self, stage.decoder, early=stage.early)
        self._views: list[View[Any]] = []
        """The first is shown, the others wait."""

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        loop.add_signal_handler(signal.SIGTSTP, self.suspend)
        self.keyboard.listen()

    def stop_listening(self) -> None:
        self.keyboard.stop()
        self.frames.stop()

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
        self.composer.load()

    def settings_changed(self) -> None:
        self.showing.use_settings()
        self.redraw()

    # ---- the draft -----------------------------------------------------------------------------

    def set_draft(self, text: str) -> None:
        self.composer.set_text(text)
        self.redraw()

    def give_back(self, drafts: list[Draft]) -> None:
        """Before what stands in the composer."""
        self.composer.restore(drafts)
        self.redraw()

    # ---- the terminal ----------------------------------------------------------------------------

    def _resized(self) -> None:
        self.terminal.measure()
        self.frames.now()

    def suspend(self) -> None:
        """Ctrl-Z: give the terminal to the shell until `fg`."""
        self.frames.pause()
        self.painter.clear_live()
        self.terminal.suspend()
        self.frames.go_on()

    @asynccontextmanager
    async def lent_terminal(self) -> AsyncIterator[None]:
        """Another program has the terminal meanwhile: the editor."""
        self.keyboard.stop()
        self.frames.pause()
        self.painter.clear_live()
        self.terminal.leave()
        try:
            yield
        finally:
            self.terminal.enter()
            self.keyboard.listen()
            self.frames.go_on()

    def terminal_said(self, reply: Reply) -> None:
        self.terminal.take_reply(reply)
