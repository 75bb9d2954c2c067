"""What is seen: lines that are printed once, the live area below them, a pager in front of it all, the title."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from spindle.frontends.tui.picture import FRAMES_A_SECOND, Pane, activity_row, compose, waiting_lines
from spindle.frontends.tui.printing import Printing
from spindle.frontends.tui.shown import Line, Span, line
from spindle.frontends.tui.status_line import StatusFacts, items_from, status_line, title_items_from, title_text
from spindle.frontends.tui.text.clean import safe

if TYPE_CHECKING:
    from spindle.frontends.tui.app import App
    from spindle.frontends.tui.screen.pager import Pager

FLASH_S = 2.0
CALM_S, CALM_AGAIN_S, LONGEST_STORM_S = 0.12, 0.35, 4.0
"""A window that changes is painted when it has not changed for a while, or when that lasts too long. The while is
longer after a second change, since a third may have been made already: tmux tells of it a quarter of a second late."""
OUT_OF_REACH_S = 1.0
"""And so long it may stay too low for the live area, whose top is then in the scrollback and only comes back with a
higher window."""
WARY_S = 0.6
"""And for so long after that, the terminal is asked before each frame: tmux tells of a change a quarter of a second
after it was made."""
ANSWER_S, LONGEST_ANSWER_S = 0.1, 1.5
"""How long a terminal takes to say where its cursor is, and how long it may take."""


class Showing:
    """Puts the parts of the interface on the screen."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.pager: Pager | None = None
        self.hint = ""
        """What a person should know for a moment; in the place of the status line."""
        self._loop = asyncio.get_running_loop()
        self._title = ""
        self._flash: asyncio.TimerHandle | None = None
        self._printing = Printing()
        self._painted_size = app.size
        self._storm_since: float | None = None
        self._calm: asyncio.TimerHandle | None = None
        self._asked_at: float | None = None
        self._wary_until = 0.0
        app.terminal.on_drained = self._drained
        self.is_over = False
        """Nothing is painted any more: the terminal is no longer ours."""

    # ---- painting ------------------------------------------------------------------------------

    def paint(self) -> None:
        if self.is_over:
            return
        if self._app.terminal.is_behind:
            return  # a slow terminal gets fewer frames; the next one comes when it has taken this one
        if self.pager is not None:
            self.pager.is_awaited = self._app.view is not None
            self.pager.paint()
            self._show_title(self._app.folder.now())  # it tells that a question waits
        elif not self._is_stormy():
            self._paint_live()

    def _is_stormy(self) -> bool:
        """Whether the window is changing. What is painted meanwhile would be drawn in another window than it was made
        for: so it waits."""
        size, now = self._app.size, self._loop.time()
        if size != self._painted_size:
            self._painted_size, self._asked_at = size, None
            self._app.painter.window_changes()
            calm = CALM_S if self._storm_since is None else CALM_AGAIN_S
            self._storm_since = now if self._storm_since is None else self._storm_since
            if self._calm is not None:
                self._calm.cancel()
            at = min(now + calm, max(now, self._storm_since + LONGEST_STORM_S))
            self._calm = self._loop.call_at(at, self._calmed, now + OUT_OF_REACH_S)
        if self._calm is not None:
            self._app.painter.seek(size)
        return self._calm is not None

    def _calmed(self, patient_until: float) -> None:
        if self._app.painter.is_out_of_reach and self._loop.time() < patient_until:
            self._calm = self._loop.call_at(patient_until, self._calmed, patient_until)
            return
        self._calm = self._storm_since = None
        self._wary_until = self._loop.time() + WARY_S
        self._app.frames.now()

    def _paint_live(self) -> None:
        app = self._app
        width, height = app.size
        self._printing.add(app.conversation.take_finished(width))
        facts = app.folder.now()
        picture = compose(
            width,
            height,
            pane=self._pane(width, height),
            cells=lambda room: app.conversation.live(width, room),
            activity=self._activity(width),
            waiting=waiting_lines(
                [safe(draft.shown) for draft in app.turns.waiting],
                [safe(draft.shown) for draft in app.turns.queued],
                width,
            ),
            status=self._status(facts, width),
        )
        now = self._loop.time()
        is_painted = app.painter.frame(
            self._printing.portion(),
            picture.lines,
            picture.cursor,
            (width, height),
            pending=picture.pending,
            may_wait=self._asked_at is None or now < self._asked_at + LONGEST_ANSWER_S,
            is_wary=now < self._wary_until,
        )
        if not is_painted:
            # The window has changed, and the terminal was asked where the live area is; mostly it answers at once.
            self._asked_at = now if self._asked_at is None else self._asked_at
            self._loop.call_later(ANSWER_S, app.redraw)
        else:
            self._asked_at = None
            if not app.terminal.is_behind:
                if not self._printing.is_done:
                    self._loop.call_soon(app.frames.now)  # after the keys that have come meanwhile
                if app.view is not None:
                    app.keyboard.view_seen(app.view)
        self._show_title(facts)
        app.frames.beat(self._beat())

    def _drained(self) -> None:
        """A slow terminal has taken the last frame."""
        if self._printing.is_done:
            self._app.redraw()
        else:
            self._app.frames.now()

    def print_rest(self) -> None:
        """The end: all that is finished is printed, also what waited behind a pager."""
        app = self._app
        if self.pager is not None:
            self.pager.close()
        self._printing.add(app.conversation.take_finished(app.size[0]))
        rest = self._printing.rest()
        if rest and not app.painter.frame(rest, [], None, app.size):
            app.painter.frame([], [], None, app.size)  # no time to wait for what the terminal would answer

    def _pane(self, width: int, height: int) -> Pane:
        app = self._app
        if (view := app.view) is not None:
            lines = view.lines(width, max(1, height - 2 if height > 6 else height))
            return Pane(lines, view.cursor())
        if app.opening.is_asking_first:
            return Pane([], None)
        lines = app.composer.lines(width, height)
        return Pane(lines, app.composer.cursor())

    def _activity(self, width: int) -> Line | None:
        app = self._app
        if not app.is_working:
            return None
        activity = app.conversation.activity
        if app.view is not None and activity is not None:
            return None  # the question says what is waited for
        now = app.clock.monotonic()
        words, elapsed = "Working", None
        if app.thread is None:
            words = "Starting"
        elif app.turns.is_stopping:
            words = "Stopping"
        elif activity is not None:
            words, elapsed = activity.retry or activity.what, now - activity.since_s
        frame = int(now * FRAMES_A_SECOND) if app.config.tui.animations else None
        return activity_row(width, words, elapsed_s=elapsed, hint="esc to interrupt", frame=frame)

    def _beat(self) -> float | None:
        app = self._app
        if not app.is_working or app.view is not None or self.pager is not None:
            return None
        return 1 / FRAMES_A_SECOND if app.config.tui.animations else 1.0

    def _status(self, facts: StatusFacts, width: int) -> Line:
        if self.hint:
            return line("  ", Span(self.hint[: max(0, width - 2)], "dim"))
        return status_line(facts, width, items_from(self._app.config.tui.status_line))

    def use_settings(self) -> None:
        """Another theme: what is painted from now on has its colours."""
        from spindle.frontends.tui.text.theme import choose  # seldom

        self._app.painter.looks = choose(self._app.config.tui.theme, os.environ)

    def flash(self, words: str) -> None:
        """Say something for a moment, in the place of the status line."""
        self.hint = words
        if self._flash is not None:
            self._flash.cancel()
        self._flash = self._loop.call_later(FLASH_S, self._end_flash, words)
        self._app.redraw()

    def _end_flash(self, words: str) -> None:
        self._flash = None
        if self.hint == words:
            self.hint = ""
            self._app.redraw()

    def _show_title(self, facts: StatusFacts) -> None:
        items = title_items_from(self._app.config.tui.terminal_title)
        title = title_text(facts, items) if items else ""
        if title and title != self._title:
            self._title = title
            self._app.terminal.set_title(title)

    def leave_pager(self) -> None:
        """The screen goes to another program; with the next picture the pager takes its own again."""
        if self.pager is not None:
            self.pager.leave_screen()

    # ---- the screen as a whole -------------------------------------------------------------------

    async def page(self, title: str, lines: Iterable[Line]) -> None:
        """Show lines in the pager until the person closes it; a text in blocks, the transcript, from its end."""
        from spindle.frontends.tui.screen.pager import Pager  # with the first long text

        if self.pager is not None:
            return
        app = self._app
        inline = app.opening.is_inline
        self.pager = Pager(app.terminal, app.painter, title, lines, inline=inline)
        try:
            self.paint()
            await self.pager.closed
        finally:
            self.pager.close()
            self.pager = None
            if not self.is_over:
                self.paint()
