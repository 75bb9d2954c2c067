"""A run as it is watched: words as they stream, running commands with the end of their output, the time.

The lower rows of the terminal are redrawn in place (`Region`); everything above is only ever appended to, so that it
can be scrolled back and copied. Nothing that streams can move the cursor: it is made printable, cut to the width, and
drawn with wrapping switched off, so a row stays a row even where the terminal counts its cells differently.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from typing import Any

from spindle.frontends.exec.fitted import FittedText
from spindle.frontends.fit import cut, cut_middle, fold, rows_of
from spindle.frontends.plain_text import TITLE, command_text, duration_words, printable
from spindle.frontends.terminal import STDERR, is_dumb, is_in_foreground, terminal_size
from spindle.frontends.transcript import Transcript
from spindle.protocol.clock import Clock
from spindle.protocol.events import (
    AgentMessageContentDelta,
    Error,
    ExecCommandBegin,
    ExecCommandEnd,
    ExecCommandOutputDelta,
    ItemCompleted,
    Msg,
    ReasoningContentDelta,
    StreamError,
    TaskComplete,
    TurnAborted,
)
from spindle.protocol.quote import visible
from spindle.tools.execution import DELTA_BYTES, DELTA_COUNT

FRAME_S = 0.05
TAIL_BYTES = 4096
TAIL_LINES = 3
MAX_SHOWN_COMMANDS = 3
MAX_TEXT_ROWS = 12
WORDS = {
    "collab_waiting_begin": "waiting for agents",
    "patch_apply_begin": "file update",
    "web_search_begin": "web search",
}
TEXT_CHARACTERS = 1 << 14
"""How much of an unfinished paragraph is kept for drawing; more does not fit on a screen."""


Size = tuple[int, int]


class Region:
    """The rows at the bottom that are redrawn in place. Gives the text to write.

    The cursor waits at the beginning of the first row, so that wiping needs no count of rows: a terminal that has been
    made narrower may have broken them or not. Its place is also stored, because a person who presses Enter moves it.
    """

    def __init__(self) -> None:
        self._size: Size | None = None
        """Of the terminal when the region was drawn; None = nothing is drawn."""

    def wipe(self, size: Size) -> str:
        """Back to where the region began, with nothing below."""
        drawn, self._size = self._size, None
        if drawn is None:
            return ""
        # A stored place means nothing on a terminal of another size.
        return ("\x1b8" if drawn == size else "") + "\r\x1b[J"

    def draw(self, rows: list[tuple[str, str]], size: Size) -> str:
        """The rows, each with its style, in place of those that stand there."""
        start = self.wipe(size)
        if not rows:
            return start
        self._size = size
        painted = [f"\x1b[{style}m{row}\x1b[0m" if style else row for row, style in rows]
        body = "\r\n".join(painted)
        up = f"\x1b[{len(rows) - 1}A" if len(rows) > 1 else ""
        return f"{start}\x1b[?7l{body}{up}\r\x1b[?7h\x1b7"


class StreamedText:
    """A text that arrives in pieces: whole lines are given away, the unfinished one is kept."""

    def __init__(self) -> None:
        self._given: list[str] = []
        self._rest: list[str] = []
        self.shown = ""
        """The end of the unfinished line, for drawing."""

    def add(self, piece: str) -> str:
        """The lines that are whole with this piece, up to their last newline."""
        lines, newline, rest = piece.rpartition("\n")
        self.shown = ("" if newline else self.shown) + rest[-TEXT_CHARACTERS:]
        self.shown = self.shown[-TEXT_CHARACTERS:]
        if not newline:
            self._rest.append(rest)
            return ""
        whole = "".join(self._rest) + lines + newline
        self._given.append(whole)
        self._rest = [rest]
        return whole

    @property
    def has_given(self) -> bool:
        return bool(self._given)

    def remainder_of(self, text: str) -> str | None:
        """What of the whole text has not been given away; None when something else was streamed before."""
        given = "".join(self._given)
        return text[len(given) :] if text.startswith(given) else None

    def take_rest(self) -> str:
        rest, self._rest, self.shown = "".join(self._rest), [], ""
        return rest


class Running:
    """Something that was begun: a command, a call to a server, a wait."""

    def __init__(self, label: str, started_s: float) -> None:
        self.label = label
        self.started_s = started_s
        self._tail = b""
        self._bytes = 0
        self._deltas = 0

    def add(self, chunk: bytes) -> None:
        self._tail = (self._tail + chunk[-TAIL_BYTES:])[-TAIL_BYTES:]
        self._bytes += len(chunk)
        self._deltas += 1

    def last_lines(self, most: int) -> list[str]:
        """The end of its output, as a terminal would show it: of a line that was written over, the newest state."""
        if self._bytes >= DELTA_BYTES or self._deltas >= DELTA_COUNT:
            return ["(more output than is followed live)"]
        lines = self._tail.decode("utf-8", "replace").split("\n")
        if self._bytes > len(self._tail) and len(lines) > 1:
            del lines[0]  # its beginning is gone, perhaps in the middle of a control sequence
        newest = [printable(line.rstrip("\r").rpartition("\r")[2]).expandtabs(8) for line in lines]
        return [line for line in newest if line.strip()][-most:]


class Live:
    """Shows a run on a terminal. Where the terminal cannot be drawn on, whole lines are appended as they come."""

    def __init__(
        self,
        transcript: Transcript,
        write: Callable[[str], None],
        clock: Clock,
        env: Mapping[str, str],
        *,
        hides_reasoning: bool,
    ) -> None:
        self._transcript = transcript
        self._write = write
        self._clock = clock
        self._started_s = clock.monotonic()
        self._hides_reasoning = hides_reasoning
        self._color = transcript.look.color
        self._message: StreamedText | None = None
        self._fitted = FittedText(transcript.look.width)
        """The message that streams, as it is laid out."""
        self._has_title = False
        """Whether the last thing above is the message that streams."""
        self._reasoning = StreamedText()
        self._running: dict[str, Running] = {}
        self._is_stopping = False
        self._is_over = False
        self._region = None if is_dumb(env) or env.get("CI") else Region()
        self._loop = asyncio.get_running_loop()
        self._frame: asyncio.TimerHandle | None = None
        self._tick: asyncio.TimerHandle | None = None
        if self._region is not None:
            self._watch_terminal()
            self._tick = self._loop.call_later(1, self._next_second)

    # ---- events ----

    def show(self, msg: Msg) -> None:
        match msg:
            case AgentMessageContentDelta(delta=delta):
                self._message = self._message or StreamedText()
                self._put(self._lines_of_message(self._message.add(delta)))
            case ReasoningContentDelta(delta=delta):
                if not self._hides_reasoning:
                    self._reasoning.add(delta)
                self._draw_soon()
            case ExecCommandOutputDelta(call_id=call_id, chunk=chunk):
                if (running := self._running.get(call_id)) is not None:
                    running.add(chunk)
                self._draw_soon()
            case _:
                self._follow(msg)
                self._put(self._text_of(msg))

    def _text_of(self, msg: Msg) -> str:
        """What is appended for an event, beside what streamed of it before."""
        message = self._message
        match msg:
            case ItemCompleted(item={"type": "AgentMessage", "content": content}):
                self._message = None
                text = "".join(part["text"] for part in content)
                rest = message.remainder_of(text) if message is not None and message.has_given else None
                if rest is None:
                    self._fitted, self._has_title = FittedText(self._transcript.look.width), False
                return self._end_of_message(text if rest is None else rest)
            case StreamError():
                self._message = None  # the answer is asked for again, and comes from its beginning
                self._fitted = FittedText(self._transcript.look.width)
            case Error() | TurnAborted() | TaskComplete() if message is not None:
                self._message = None  # it stays unfinished; what was seen of it stays to be seen
                return self._end_of_message(message.take_rest()) + self._transcript.translate(msg)
            case _:
                pass
        text = self._transcript.translate(msg)
        if text:
            self._has_title = False
        return text

    def _end_of_message(self, rest: str) -> str:
        """The last lines, with a table that the message may end in."""
        lines = self._lines_of_message(rest + "\n" if rest else "", is_end=True)
        self._fitted, self._has_title = FittedText(self._transcript.look.width), False
        return lines

    def _lines_of_message(self, lines: str, *, is_end: bool = False) -> str:
        lines = self._fitted.add(printable(lines)) + (self._fitted.end() if is_end else "")
        if not lines.strip("\n") and not self._has_title:
            return ""
        title = "" if self._has_title else self._transcript.message_title()
        self._has_title = True
        return title + self._transcript.message_text(lines)

    def _follow(self, msg: Msg) -> None:
        """Note what begins and what ends."""
        match msg:
            case ExecCommandBegin(call_id=call_id, command=command):
                self._running[call_id] = Running(" ".join(command_text(command).split()), self._clock.monotonic())
            case ExecCommandEnd(call_id=call_id):
                self._running.pop(call_id, None)
            case ItemCompleted(item={"type": "Reasoning"}):
                self._reasoning = StreamedText()
            case TaskComplete() | TurnAborted():
                self._is_over = True
            case _:
                tag = str(msg.__struct_config__.tag)
                call_id: Any = getattr(msg, "call_id", None)
                if call_id is not None and tag.endswith("_begin"):
                    self._running[call_id] = Running(_label(tag, msg), self._clock.monotonic())
                elif call_id is not None and tag.endswith("_end"):
                    self._running.pop(call_id, None)

    def stopping(self) -> None:
        self._is_stopping = True
        self._draw_now()

    def close(self) -> None:
        """Take the region away, and all that would draw it again."""
        self._is_over = True
        for timer in (self._frame, self._tick):
            if timer is not None:
                timer.cancel()
        if self._region is not None:
            for number in (signal.SIGWINCH, signal.SIGTSTP):
                self._loop.remove_signal_handler(number)
            self._write(self._region.wipe(terminal_size(STDERR)))
            self._region = None

    # ---- drawing ----

    def _put(self, text: str) -> None:
        """Append to what stands above the region."""
        if not text:
            self._draw_soon()
        elif self._region is None:
            self._write(text)
        else:
            self._write(self._region.wipe(terminal_size(STDERR)) + text + self._drawing())

    def _draw_soon(self) -> None:
        """A frame at most every few hundredths of a second, however fast something streams."""
        if self._region is not None and self._frame is None:
            self._frame = self._loop.call_later(FRAME_S, self._draw_now)

    def _draw_now(self) -> None:
        self._frame = None
        if self._region is not None:
            self._write(self._drawing())

    def _next_second(self) -> None:
        self._tick = self._loop.call_later(1, self._next_second)
        self._draw_now()

    def _drawing(self) -> str:
        assert self._region is not None
        size = width, height = terminal_size(STDERR)
        rows: list[tuple[str, str]] = []
        if not self._is_over and height > 2 and is_in_foreground(STDERR):
            rows = [(row, style if self._color else "") for row, style in self._rows(width, height)]
        return self._region.draw(rows, size)

    def _rows(self, width: int, height: int) -> list[tuple[str, str]]:
        """With their styles: the unfinished line of the message, or of what is thought; what runs; how it stands."""
        below = [*self._running_rows(width), self._status(width)]
        if not self._running and self._message is None and self._reasoning.shown:
            words = printable(self._reasoning.shown)
            parts = [row for part in fold(words, width - 3) for row in rows_of(part, max(1, width - 3))]
            below = [*((f"  {row}", "2;3") for row in parts[-TAIL_LINES:]), *below]
        below = below[-(height - 2) :]
        room = min(MAX_TEXT_ROWS, height - 3 - len(below))
        if self._message is None or room <= 0:
            return below
        text = self._fitted.rows(printable(self._message.shown), max(1, width - 1))[-room:]
        title = [("", ""), ("spindle", TITLE)] if text and not self._has_title else []
        return [*title, *((row, "") for row in text), *below]

    def _running_rows(self, width: int) -> list[tuple[str, str]]:
        shown = [*self._running.items()][:MAX_SHOWN_COMMANDS]
        # Under the result of one command, the output of another must not look like more of it.
        rows = [("", "")] if shown and self._transcript.just_began is None else []
        for call_id, running in shown:
            if call_id != self._transcript.just_began or len(self._running) > 1:
                sign = f"{self._transcript.signs['in_progress']} "
                took = f" ({duration_words(self._clock.monotonic() - running.started_s)})"
                rows.append((sign + cut_middle(running.label, max(1, width - 1 - len(sign + took))) + took, "1"))
            lines = running.last_lines(TAIL_LINES if len(shown) == 1 else 1)
            rows += [(cut(f"  {self._transcript.signs['tail']} {line}", width - 1), "2") for line in lines]
        if hidden := len(self._running) - len(shown):
            rows.append((cut(f"and {hidden} more", width - 1), "2"))
        return rows

    def _status(self, width: int) -> tuple[str, str]:
        words = [f"working {duration_words(self._clock.monotonic() - self._started_s)}", self._activity()]
        if not self._is_stopping:
            words.append("Ctrl-C stops")
        signs = self._transcript.signs
        line = f"{signs['pending']} " + f" {signs['between']} ".join(words)
        return cut(line, max(1, width - 1), mark=signs["more"]), "36"

    def _activity(self) -> str:
        if self._is_stopping:
            return "stopping"
        if len(self._running) == 1:
            (only,) = self._running.values()
            return f"running for {duration_words(self._clock.monotonic() - only.started_s)}"
        if self._running:
            return f"{len(self._running)} running"
        if self._message is not None:
            return "writing"
        return "thinking" if self._reasoning.shown else "waiting for the model"

    # ---- the terminal ----

    def _watch_terminal(self) -> None:
        self._loop.add_signal_handler(signal.SIGWINCH, self._draw_now)
        if signal.getsignal(signal.SIGTSTP) != signal.SIG_IGN:
            self._loop.add_signal_handler(signal.SIGTSTP, self._suspend)

    def _suspend(self) -> None:
        """Ctrl-Z: leave a clean terminal to the shell and stop; draw again when the person comes back."""
        if self._region is not None:
            self._write(self._region.wipe(terminal_size(STDERR)))
        self._loop.remove_signal_handler(signal.SIGTSTP)
        signal.raise_signal(signal.SIGTSTP)  # here the process stands still
        self._loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        self._draw_now()


def _label(tag: str, msg: Any) -> str:
    """What a person calls the thing that begins."""
    if tag == "mcp_tool_call_begin":
        return visible(f"mcp: {msg.invocation['server']}/{msg.invocation['tool']}")
    return WORDS.get(tag, "sub-agent")
