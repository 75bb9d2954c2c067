"""What a person sees of a run: progress on stderr, the final message on stdout."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from spindle import __version__
from spindle.errors import SpindleError
from spindle.frontends.exec.printer import Printer, write_out
from spindle.frontends.plain_text import Look, printable, sandbox_line
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
from spindle.protocol.quote import shell_join, visible
from spindle.protocol.settings import SANDBOX_MODES, SandboxPolicy

if TYPE_CHECKING:
    from spindle.api.door import OpenThread, SessionRequest
    from spindle.frontends.exec.live import Live

FEWEST_OUTPUT_LINES, MOST_OUTPUT_LINES = 8, 20


class TextPrinter(Printer):
    """Progress on stderr, the final message on stdout; once, when both are the same terminal."""

    def __init__(self, thread: OpenThread, request: SessionRequest, color: str) -> None:
        config, clock = request.config, request.clock
        started_s = clock.monotonic()
        self._is_lost = False
        """Nobody sees what is written to stderr."""
        self._said: str | None = None
        """The agent's last message that stands on stderr."""
        self._transcript = Transcript(
            Look(
                color=wants_color(color, STDERR, os.environ),
                plain_ascii=wants_ascii(os.environ),
                hide_reasoning=config.hide_agent_reasoning,
                max_output_lines=_output_lines(),
                width=lambda: columns_of(STDERR),
            ),
            version=__version__,
            summary=thread.settings.summary,
            elapsed_s=lambda: clock.monotonic() - started_s,
            notes=notes_on_settings(thread, request),
            way_back=lambda thread_id: way_back(thread_id, request),
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
        text = printable(last_message) if is_terminal(STDOUT) else last_message
        write_out(text.encode("utf-8", "replace") + b"\n")

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


def way_back(thread_id: str, request: SessionRequest) -> str:
    """The command that goes on with the thread, in the sandbox that was asked for on the command line."""
    mode = request.config.sandbox.mode
    is_asked_for = request.config.origins.get("sandbox_mode") == "command line" and mode == "workspace-write"
    return shell_join(["spindle", "exec", "resume", *(["-s", mode] if is_asked_for else []), thread_id])


def notes_on_settings(thread: OpenThread, request: SessionRequest) -> dict[str, str]:
    """For a thread that ran before with other settings: where today's come from, and how to keep those it had.

    `exec` never takes them over by itself: a thread that once had the run of the machine must not get it unasked.
    """
    before = thread.recorded_settings
    if before is None:
        return {}
    notes: dict[str, str] = {}
    if flags := _sandbox_flags(recorded := before.get("sandbox_policy"), thread.settings.sandbox):
        had = SandboxPolicy.from_wire(recorded)
        words = sandbox_line(had) if had.writable_roots or had.network_access else had.mode
        notes["sandbox"] = _note("sandbox_mode", words, flags, request)
    effort, now = before.get("effort"), thread.effort
    if isinstance(effort, str) and effort != now:
        notes["reasoning effort"] = _note(
            "model_reasoning_effort", effort, ["-c", f"model_reasoning_effort={effort}"], request
        )
    return {name: note for name, note in notes.items() if note}


def _note(key: str, before: str, flags: list[str], request: SessionRequest) -> str:
    origin = request.config.origins.get(key)
    if origin in ("command line", "-c"):
        return ""  # the person has just said so
    reason = f"from {origin}" if origin else "exec's default"
    return f"{reason}; the thread ran with {visible(before)}: add {visible(shell_join(flags))} to keep it"


def _sandbox_flags(recorded: Any, now: SandboxPolicy) -> list[str]:
    """The options that give a thread what it had before; none when it has that, or when no option gives it."""
    try:
        before = SandboxPolicy.from_wire(recorded)
    except SpindleError:
        return []
    if before.mode not in SANDBOX_MODES:
        return []
    flags = ["-s", before.mode] if before.mode != now.mode else []
    if before.mode == "workspace-write":
        for root in before.writable_roots:
            flags += ["--add-dir", root] if root not in now.writable_roots else []
        if before.network_access and not now.network_access:
            flags += ["-c", "sandbox_workspace_write.network_access=true"]
    return flags
