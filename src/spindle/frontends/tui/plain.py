"""Plain mode: line by line, append only, for screen readers and terminals that can do no more.

Nothing is drawn twice and nothing moves. What is finished is printed once, with a word before it ("You:", "Agent:"); a
question is a numbered list, answered by a line. The terminal's own line editor takes the input, after the prompt `> `.
"""

from __future__ import annotations

import asyncio
import os
import signal
import termios
from collections.abc import Iterable
from typing import Any, TypeVar

from spindle.frontends.terminal import STDIN, STDOUT, terminal_size
from spindle.frontends.tui.commands import running
from spindle.frontends.tui.composer.draft import Draft
from spindle.frontends.tui.input import GUARD_S
from spindle.frontends.tui.interface import Interface
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.launching import Launch
from spindle.frontends.tui.shown import BLANK, Line, plain, texts
from spindle.frontends.tui.text.clean import safe
from spindle.frontends.tui.view import View
from spindle.protocol.events import TERMINAL, Event

T = TypeVar("T")
PROMPT = "> "
AGAIN_S = 2.0
LONGEST_LINE = 1 << 20
VIEW_ROWS, ALL_ROWS = 1000, 1 << 30
_WORDS = {"yes": "y", "no": "n"}
"""Answers that are as good as a letter."""


def run(launch: Launch) -> int:
    async def interface() -> int:
        app = PlainApp(launch)
        try:
            return await app.run()
        finally:
            app.farewell()

    return asyncio.run(interface())


class PlainApp(Interface):
    speaks_plainly = True

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch, lambda text: None)
        self._loop = asyncio.get_running_loop()
        self._typed = b""
        self._is_prompted = False
        """The prompt is the last thing on the screen."""
        self._views: list[View[Any]] = []
        self._printing: asyncio.Handle | None = None
        self._before_secret: list[Any] | None = None
        """How the terminal was set before it was told to hide what is typed."""
        self._interrupted_at = float("-inf")
        self._put_at = float("-inf")
        """When the question was put: an Enter that comes right then was meant for something else."""

    # ---- reading -------------------------------------------------------------------------------

    def listen(self) -> None:
        self._loop.add_reader(STDIN, self._readable)
        if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            self._loop.add_signal_handler(signal.SIGINT, self._interrupted)

    def stop_listening(self) -> None:
        self._loop.remove_reader(STDIN)
        self._set_echo(True)
        if self._printing is not None:
            self._printing.cancel()
        self._print_finished()

    def _readable(self) -> None:
        try:
            data = os.read(STDIN, LONGEST_LINE)
        except OSError:
            self._loop.remove_reader(STDIN)
            self.end_by(signal.SIGHUP)
            return
        if not data:  # Ctrl-D in an empty line
            self._say_end()
            self.quit()
            return
        self._typed += data
        *lines, self._typed = self._typed.split(b"\n")
        for line in lines:
            self._is_prompted = False
            self._line(line.decode("utf-8", "replace").rstrip("\r"))

    def _say_end(self) -> None:
        if self._is_prompted:
            self._write("\n")
            self._is_prompted = False

    def _line(self, text: str) -> None:
        """A line that was entered: an answer, a command or a message."""
        if self.view is not None:
            self._answer(self.view, text)
        elif (problem := running.problem_with(text, is_working=self.is_working)) is not None:
            self.fail(problem)
        else:
            self.enter(Draft(text=text, shown=text))
        self.redraw()

    def _interrupted(self) -> None:
        """Ctrl-C: the turn, else, pressed twice, the interface."""
        self._typed = b""
        now = self._loop.time()
        if self.view is not None:
            self.view.key(Key("ctrl-c"))
        elif self.turns.interrupt():
            pass
        elif now - self._interrupted_at <= AGAIN_S:
            self._say_end()
            self.quit()
            return
        else:
            self._interrupted_at = now
            self._write("\nPress Ctrl-C again to quit.\n")
        self._is_prompted = False
        self.redraw()

    # ---- questions -----------------------------------------------------------------------------

    async def ask(self, view: View[T]) -> T:
        self._views.append(view)
        self._put_first()
        try:
            return await view.answer
        finally:
            self._views.remove(view)
            self._put_first()

    def _put_first(self) -> None:
        shown = self._views[0] if self._views else None
        if shown is not self.view:
            self.view = shown
            self._put_at = self._loop.time()
            if shown is not None:
                self._print_view(shown)
        self.redraw()

    def _print_view(self, view: View[Any]) -> None:
        self._print_finished()
        rows = ALL_ROWS if view.is_shown_whole else VIEW_ROWS
        self._print([*texts(_without_keys(view.lines(self.size[0], rows))), _how_to_answer(view)])

    def _answer(self, view: View[Any], text: str) -> None:
        """A number or a letter chooses, other words are written into the field that there is; Enter ends it."""
        said = text.strip()
        is_number = said.isascii() and said.isdigit() and len(said) < 6
        if not is_number or not view.choose_number(int(said)):
            self._write_into(view, said)
        if not view.answer.done():
            self._print_view(view)

    def _write_into(self, view: View[Any], said: str) -> None:
        if len(said) == 1:
            view.key(Key(said, said))
        elif said and view.takes_words:
            view.paste(said)
            view.key(Key("enter"))
        elif said.lower() in _WORDS:
            letter = _WORDS[said.lower()]
            view.key(Key(letter, letter))
        elif said:
            # Whatever it means, it is no yes; maybe it was written before the question came.
            self._print([f"No answer to this: {safe(said)}. Enter the number or the letter of one."])
        elif not view.guards_typing or self._loop.time() - self._put_at >= GUARD_S:
            view.key(Key("enter"))

    # ---- printing ------------------------------------------------------------------------------

    @property
    def size(self) -> tuple[int, int]:
        return terminal_size(STDOUT)

    def redraw(self) -> None:
        if self._printing is None:
            self._printing = self._loop.call_soon(self._due)

    def _due(self) -> None:
        self._printing = None
        self._print_finished()
        is_free = self.view is not None or (self.thread is not None and self.turns.is_over)
        if is_free and not self._is_prompted and not self._end.done():
            self._set_echo(self.view is None or not self.view.is_secret)
            self._write(PROMPT)
            self._is_prompted = True

    def _set_echo(self, is_on: bool) -> None:
        """Whether the terminal shows what is typed; of a secret it shows the end of the line only."""
        if is_on == (self._before_secret is None):
            return
        try:
            attributes = self._before_secret or termios.tcgetattr(STDIN)
            self._before_secret = None if is_on else [*attributes]
            if not is_on:
                attributes[3] = attributes[3] & ~termios.ECHO | termios.ECHONL
            termios.tcsetattr(STDIN, termios.TCSADRAIN, attributes)
        except termios.error:
            pass  # it is no terminal any more

    def _print_finished(self) -> None:
        self._print(texts(self.conversation.take_finished(self.size[0])))

    def _print(self, lines: list[str]) -> None:
        if not lines:
            return
        start = "\n" if self._is_prompted else ""
        self._is_prompted = False
        self._write(start + "".join(f"{line.rstrip()}\n" for line in lines))

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(STDOUT, data) :]
        except OSError:
            self.end_by(signal.SIGHUP)

    async def page(self, title: str, lines: Iterable[Line]) -> None:
        self._print_finished()
        self._print([title, *(plain(line) for line in lines)])
        self.redraw()

    def clear_screen(self) -> None:
        """Nothing is ever taken away."""

    def copy(self, text: str) -> None:
        self._print(text.split("\n"))

    def set_draft(self, text: str) -> None:
        self._print([f"To edit and send: {text}"])

    def give_back(self, drafts: list[Draft]) -> None:
        for draft in drafts:
            self._print([f"Not sent: {draft.text}"])

    def hear(self, event: Event) -> None:
        super().hear(event)
        if isinstance(event.msg, TERMINAL):
            self.redraw()

    def farewell(self) -> None:
        self._print(self.last_words)


def _without_keys(lines: list[Line]) -> list[Line]:
    """A view without the row at its end that names keys: here a line answers it."""
    names_keys = len(lines) > 2 and lines[-2] == BLANK and all(span.style == "dim" for span in lines[-1].spans)
    return lines[:-2] if names_keys else lines


def _how_to_answer(view: View[Any]) -> str:
    if view.is_secret:
        return "Enter it here, it is not shown; Ctrl-C goes back."
    what = "Enter a number, or your own words" if view.takes_words else "Enter a number or a letter"
    return f"{what}; Ctrl-C {'stops the turn' if view.guards_typing else 'leaves'}."
