"""What the interface does for a key that is not the composer's, and for a message that was entered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from spindle.frontends.tui.commands import running
from spindle.frontends.tui.keys import Key

if TYPE_CHECKING:
    from spindle.frontends.tui.app import App

AGAIN_S = 2.0
"""Within this time a second Ctrl-C quits, and a second Esc goes back to an earlier message."""
QUIT_HINT = "press ctrl-c again to quit"
REWIND_HINT = "press esc again to edit an earlier message"


class Deeds:
    def __init__(self, app: App) -> None:
        self._app = app
        self._loop = asyncio.get_running_loop()
        self._armed = ""
        """The hint that is shown: what the same key does if it is pressed again now."""
        self._disarm: asyncio.TimerHandle | None = None
        self._changing_effort = asyncio.Lock()
        """One step after the other, however quickly the keys come: each starts from where the last one led."""

    # ---- messages ------------------------------------------------------------------------------

    def submit_draft(self) -> None:
        """Enter. What cannot be used stays in the composer."""
        app = self._app
        text = app.composer.text
        if not text.strip():
            return
        if (problem := running.problem_with(text, is_working=app.is_working)) is not None:
            app.fail(problem)
            return
        app.enter(app.composer.take(is_message=running.read(text) is None))

    def queue_draft(self) -> None:
        """Tab: behind the running turn, or at once when there is none."""
        app = self._app
        if not app.composer.text.strip():
            return
        if app.is_working:
            app.turns.queue(app.composer.take())
        else:
            self.submit_draft()

    def edit_queued(self) -> None:
        """Take the message that was queued last back into the composer, before what stands there."""
        if (draft := self._app.turns.take_back()) is not None:
            self._app.give_back([draft])

    # ---- on the way out, step by step ------------------------------------------------------------

    def escape(self) -> None:
        app = self._app
        if app.turns.interrupt():
            self.forget()
        elif app.composer.is_empty and not app.is_working and self._is_second(REWIND_HINT):
            app.run_slash("/rewind")

    def cancel(self) -> None:
        """Ctrl-C, when there is no draft for the composer to clear: the turn, else the interface."""
        app = self._app
        if app.turns.interrupt():
            self.forget()
        elif self._is_second(QUIT_HINT):
            app.quit()

    def quit(self) -> None:
        """Ctrl-D; messages that wait for the end of the turn are asked about first."""
        if self._app.queued:
            self._app.run_slash("/quit")
        else:
            self._app.quit()

    def _is_second(self, hint: str) -> bool:
        """Whether the key was pressed just before; else its hint is shown for a while."""
        if self._armed == hint:
            self.forget()
            return True
        self.forget()
        self._armed = hint
        self._app.showing.hint = hint
        self._disarm = self._loop.call_later(AGAIN_S, self._expired)
        return False

    def forget(self) -> None:
        """Another key came, or something happened: the next press is a first one."""
        if self._armed and self._app.showing.hint == self._armed:
            self._app.showing.hint = ""
        self._armed = ""
        if self._disarm is not None:
            self._disarm.cancel()
            self._disarm = None

    def _expired(self) -> None:
        self.forget()
        self._app.redraw()

    # ---- the rest ------------------------------------------------------------------------------

    def next_mode(self) -> None:
        self._app.set_mode(self._app.modes.next())

    def change_effort(self, step: int) -> None:
        """Less or more reasoning, among those that the model has."""
        from spindle.frontends.tui.commands.model import step_effort  # seldom

        async def change() -> None:
            async with self._changing_effort:
                effort = await step_effort(self._app, step)
            if effort is not None:
                self._app.showing.flash(f"reasoning: {effort}")

        self._app.spawn(change())

    def open_transcript(self) -> None:
        app = self._app
        app.spawn(app.page("Transcript", app.conversation.transcript(app.size[0])))

    def show_keys(self) -> None:
        self._app.spawn(self._show_keys())

    async def _show_keys(self) -> None:
        from spindle.frontends.tui.shortcuts import ShortcutsView  # seldom

        composer = self._app.composer

        def write(key: Key) -> None:
            composer.key(key)

        await self._app.ask(ShortcutsView(composer.keymap, write))

    def open_editor(self) -> None:
        self._app.spawn(self._edit_outside())

    async def _edit_outside(self) -> None:
        from spindle.frontends.tui.composer.editor import edit  # seldom

        app = self._app
        text = await edit(app.composer.text, app.lend_terminal, app.take_terminal)
        app.composer.set_edited(text)
        app.redraw()
