"""The stage: the terminal made ours and the first picture on it, before anything heavy is loaded.

Leaving it gives the terminal back as it was, whatever happened in between, and says the last words.
"""

from __future__ import annotations

import os
import signal
import time
from types import FrameType, TracebackType
from typing import Self

from spindle import __version__
from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.composer.keymap import Keymap
from spindle.frontends.tui.launching import Launch, clean_up
from spindle.frontends.tui.screen.decoder import Decoder
from spindle.frontends.tui.screen.painter import Painter
from spindle.frontends.tui.screen.terminal import Terminal
from spindle.frontends.tui.shown import BLANK, Line, Span
from spindle.frontends.tui.status_line import StatusFacts, folder_words, items_from, status_line
from spindle.frontends.tui.text.theme import choose
from spindle.protocol.quote import visible

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
"""The signals that end the interface."""
ROOMY = 12


class Stage:
    """What every picture needs: the terminal, what paints on it, what reads it, and the composer."""

    def __init__(self, launch: Launch) -> None:
        config = launch.config
        self._launch = launch
        self.terminal = Terminal(os.environ)
        self.painter = Painter(self.terminal.write, choose(config.tui.theme, os.environ))
        self.terminal.on_leave = self.painter.farewell
        self.decoder = Decoder(paste_burst=not config.disable_paste_burst)
        keymap = Keymap(config.tui.keys, config.tui.keymap)
        keymap.is_vi = keymap.is_vi or config.tui.vim_mode_default
        self.composer = Composer(keymap)
        self.early = 0
        """How many bytes were typed before the terminal was ours."""
        self.entered_s = 0.0
        """Since when it is ours."""
        self.last_words: list[str] = []

    def __enter__(self) -> Self:
        for number in ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._end_at_once)
        self.early, self.entered_s = self.terminal.enter(), time.monotonic()
        self._paint()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.terminal.leave()
        for words in self.last_words:
            self.terminal.say(visible(words), is_error=words.startswith("error:"))

    def _end_at_once(self, number: int, frame: FrameType | None) -> None:
        """A signal before the event loop takes care of signals: nothing was said yet, so nothing is lost."""
        self.terminal.leave()
        clean_up()
        os._exit(128 + number)

    def _paint(self) -> None:
        """The header for good, and the empty composer, unless something else is to be asked first."""
        width, height = self.terminal.size
        live: list[Line] = []
        cursor = None
        if not self._launch.asks_first:
            gap = [BLANK] if height >= ROOMY else []
            pane = self.composer.lines(width, height)
            row, column = self.composer.cursor() or (0, 0)
            cursor = (len(gap) + row, column)
            config = self._launch.config
            facts = StatusFacts(
                model=config.model or "", effort=config.model_reasoning_effort, cwd=config.cwd, home=_home()
            )
            live = [*gap, *pane, *gap, status_line(facts, width, items_from(config.tui.status_line))]
        self.painter.frame([header(self._launch)], live, cursor, (width, height))


def header(launch: Launch) -> Line:
    """Name, version, folder, model."""
    config = launch.config
    rest = " · ".join(part for part in (folder_words(config.cwd, _home()), visible(config.model or "")) if part)
    return Line((Span("Spindle", "bold"), Span(f" {__version__} · {rest}", "dim")), (Span("  "),))


def _home() -> str:
    return os.path.expanduser("~")
