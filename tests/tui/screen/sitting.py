"""A small program with the real terminal, decoder and painter, for tests of these: it echoes keys into its live area.

`sitting.py [crash|half|alternate]`: what happens when `!` is pressed. `q` leaves, Ctrl-Z stops.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from spindle.frontends.tui.keys import Key, Paste, Reply
from spindle.frontends.tui.screen.decoder import Decoder
from spindle.frontends.tui.screen.painter import Painter
from spindle.frontends.tui.screen.terminal import Terminal
from spindle.frontends.tui.shown import Line, line
from spindle.frontends.tui.text.theme import theme


class Sitting:
    def __init__(self, at_bang: str) -> None:
        self.terminal = Terminal(os.environ)
        self.painter = Painter(self.terminal.write, theme("default"))
        self.terminal.on_leave = self.painter.farewell
        self.decoder = Decoder(paste_burst=False)
        self.at_bang = at_bang
        self.text = ""
        self.done = asyncio.get_running_loop().create_future()

    def resized(self) -> None:
        self.terminal.measure()
        self.paint()

    def paint(self, *finished: Line) -> None:
        live = [line(f"> {self.text}"), line("below the composer")]
        if not self.painter.frame(finished, live, (0, 2 + len(self.text)), self.terminal.size):
            asyncio.get_running_loop().call_later(0.05, self.paint)

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        early = self.terminal.enter()
        self.terminal.set_title("sitting\x1b]0;bad\x07")
        loop.add_reader(0, self.read)
        loop.add_signal_handler(signal.SIGWINCH, self.resized)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.add_signal_handler(number, self.end, 128 + number)
        self.paint(line(f"typed before: {early}"))

    def end(self, code: int) -> None:
        if not self.done.done():
            self.done.set_result(code)

    def read(self) -> None:
        now = asyncio.get_running_loop().time()
        for got in self.decoder.feed(os.read(0, 65536), now):
            match got:
                case Reply():
                    self.painter.take_reply(self.terminal.take_reply(got))
                case Key(name="q"):
                    self.end(0)
                case Key(name="ctrl-z"):
                    self.painter.clear_live()
                    self.terminal.suspend()
                case Key(name="enter"):
                    self.paint(line(f"said {self.text}"))
                    self.text = ""
                case Key(name="!"):
                    self.bang()
                case Key(text=text) | Paste(text=text):
                    self.text += text
                case _:
                    pass
        self.paint()

    def bang(self) -> None:
        if self.at_bang == "crash":
            self.done.set_exception(RuntimeError("on purpose"))
        elif self.at_bang == "half":
            self.terminal.write(b"\x1b[?2026h\x1b[?25l\x1b[31mhalf a frame")
            self.end(1)
        elif self.at_bang == "alternate":
            self.terminal.alternate_screen(True)
            self.end(1)


async def main() -> int:
    sitting = Sitting(sys.argv[1] if len(sys.argv) > 1 else "")
    sitting.start()
    try:
        return await sitting.done
    finally:
        sitting.terminal.leave()
        sitting.terminal.leave()


sys.exit(asyncio.run(main()))
