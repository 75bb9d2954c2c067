"""What a person sees of a run: progress on stderr, the final message on stdout."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from spindle import __version__
from spindle.frontends.exec.printer import Printer, write_out
from spindle.frontends.launch import way_back
from spindle.frontends.plain_text import Look, printable
from spindle.frontends.terminal import (
    STDERR,
    STDOUT,
    columns_of,
    is_one_terminal,
    is_terminal,
    terminal_size,
    wants_ascii,
    wants_color,
)
from spindle.frontends.transcript import Transcript
from spindle.protocol.events import ItemCompleted, Msg

if TYPE_CHECKING:
    from spindle.api.door import OpenThread, SessionRequest
    from spindle.frontends.exec.live import Live
    from spindle.frontends.options import Parsed

FEWEST_OUTPUT_LINES, MOST_OUTPUT_LINES = 8, 20


class TextPrinter(Printer):
    """Progress on stderr, the final message on stdout; once, when both are the same terminal."""

    def __init__(self, thread: OpenThread, request: SessionRequest, options: Parsed) -> None:
        config, clock = request.config, request.clock
        started_s = clock.monotonic()
        self._is_lost = False
        """Nobody sees what is written to stderr."""
        self._said: str | None = None
        """The agent's last message that stands on stderr."""
        self._transcript = Transcript(
            Look(
                color=wants_color(options.value("color") or "auto", STDERR, os.environ),
                plain_ascii=wants_ascii(os.environ),
                hide_reasoning=config.hide_agent_reasoning,
                max_output_lines=_output_lines(),
                width=lambda: columns_of(STDERR),
            ),
            version=__version__,
            summary=thread.settings.summary,
            elapsed_s=lambda: clock.monotonic() - started_s,
            notes=_notes(thread, request),
            way_back=lambda thread_id: way_back(thread_id, config, options),
        )
        self._transcript.set_usage(thread.usage.to_dict())
        self._live: Live | None = None
        if is_terminal(STDERR):
            from spindle.frontends.exec.live import Live  # only a person who watches needs it

            hides = config.hide_agent_reasoning
            self._live = Live(self._transcript, self._write, clock, os.environ, hides_reasoning=hides)
            self.wants_deltas = True

    def show(self, msg: Msg) -> None:
        if self._live is not None:
            self._live.show(msg)
        elif text := self._transcript.translate(msg):
            self._write(text)
        match msg:
            case ItemCompleted(item={"type": "AgentMessage", "content": content}):
                self._said = "".join(part["text"] for part in content)
            case _:
                pass

    def stopping(self) -> None:
        self._transcript.is_stopping = True
        if self._live is not None:
            self._live.stopping()

    def abandon(self) -> None:
        """The last words of a run that does not wait for its turn to end."""
        self.close()
        self._write(self._transcript.ending(is_counted=False))

    def finish(self, last_message: str | None) -> None:
        is_seen = last_message == self._said and not self._is_lost
        if last_message is None or (is_seen and is_one_terminal(STDOUT, STDERR)):
            return
        # A program gets the exact text, a terminal nothing that would drive it.
        if is_terminal(STDOUT):
            from spindle.frontends.exec.fitted import fit_text  # only a person has use for it

            last_message = fit_text(printable(last_message), columns_of(STDOUT))
        write_out(last_message.encode("utf-8", "replace") + b"\n")

    def close(self) -> None:
        """Leave the terminal as any program leaves it."""
        if self._live is not None:
            self._live.close()

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except BrokenPipeError:
            raise
        except OSError:
            # A full disk under a log of the progress is no reason to stop the work.
            sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
            self._is_lost = True


def _output_lines() -> int | None:
    """How many lines of a command's output are shown: on a terminal about half of it, in a file all."""
    if not is_terminal(STDERR):
        return None
    return max(FEWEST_OUTPUT_LINES, min(MOST_OUTPUT_LINES, terminal_size(STDERR)[1] // 2))


def _notes(thread: OpenThread, request: SessionRequest) -> dict[str, str]:
    if thread.recorded_settings is None:
        return {}
    from spindle.frontends.exec.other_settings import notes_on_settings  # only a thread that ran before has any

    return notes_on_settings(thread.recorded_settings, thread, request)
