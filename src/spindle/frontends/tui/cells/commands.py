"""Commands: while they run with the end of their output, and when they are over with what came of them."""

from __future__ import annotations

import signal
from typing import Any

from spindle.frontends.plain_text import SHELLS
from spindle.frontends.tui.cells.cell import (
    FOLDED_LINES,
    LONGEST_LINE,
    UNFOLDED_LINE,
    Look,
    Running,
    below,
    clipped,
    elapsed,
    folded,
    kept,
    more_lines,
    one_line,
    seconds_words,
    short,
)
from spindle.frontends.tui.shown import Line, Span, line
from spindle.frontends.tui.text.clean import command_output, safe
from spindle.protocol.events import ExecCommandBegin, ExecCommandEnd
from spindle.protocol.quote import shell_join

COMMAND_LINES = 5
"""How many lines are shown of the command itself."""
USER_LINES = 50
"""How many lines are shown of what the person's own command printed: they ran it to see that."""
LIVE_LINES = 3
TAIL_BYTES = 4096
FLOOD = 1_000_000
"""Of an output that is as long as this, the middle may be missing: the engine keeps no more."""
NEVER_RAN = -1
TIMED_OUT = 124
_FLOOD_S = 0.2
"""How often the end of a flood of output is shown anew."""


def script_of(command: list[str]) -> str:
    """What is run, as a person would type it: a script without the shell that reads it."""
    if len(command) == 3 and command[0].rpartition("/")[2] in SHELLS and command[1] in ("-c", "-lc"):
        return command[2].strip("\n")
    return shell_join(command)


def verdict(exit_code: int) -> str:
    """How a command ended, in words; "" when it ended well."""
    if exit_code == 0:
        return ""
    if exit_code == TIMED_OUT:
        return f"timed out, exit {TIMED_OUT}"
    if exit_code > 128:
        try:
            return f"killed by {signal.Signals(exit_code - 128).name}, exit {exit_code}"
        except ValueError:
            pass
    return f"exit {exit_code}"


class OutputTail:
    """The end of what a command prints while it runs. Costs the same for each piece, however much there was before."""

    __slots__ = ("_held", "_is_stale", "_line_ends", "_lines", "_made_s", "_size")

    def __init__(self) -> None:
        self._held = b""
        self._line_ends = 0
        self._size = 0
        self._lines: list[Line] = []
        self._is_stale = False
        self._made_s = 0.0

    def add(self, chunk: bytes) -> None:
        self._held = (self._held + chunk[-TAIL_BYTES:])[-TAIL_BYTES:]
        self._size += len(chunk)
        self._line_ends += chunk.count(b"\n")
        self._is_stale = True

    @property
    def count(self) -> int:
        """How many lines were printed so far."""
        return self._line_ends + (not self._held.endswith(b"\n") and bool(self._held))

    def lines(self, now_s: float) -> list[Line]:
        """The last lines with something in them. Those of a flood change a few times a second, not with every frame."""
        if self._is_stale and (self._size <= TAIL_BYTES or now_s - self._made_s >= _FLOOD_S):
            self._made_s, self._is_stale = now_s, False
            text = self._held.decode("utf-8", "replace")
            if self._size > len(self._held):
                text = text.partition("\n")[2] or text  # its first line has lost its beginning
            shown = [each for each in command_output(text) if any(span.text.strip() for span in each.spans)]
            self._lines = shown[-LIVE_LINES:]
        return self._lines


class Command(Running):
    """One command of the model or of the person."""

    __slots__ = (
        *("begun_s", "call_id", "cwd", "duration_s", "exit_code", "explores", "is_background", "is_cut", "is_stopped"),
        *("line_count", "output", "process_id", "script", "source", "tail", "turn_id"),
    )

    def __init__(self, msg: ExecCommandBegin | ExecCommandEnd, begun_s: float) -> None:
        self.call_id = msg.call_id
        self.turn_id = msg.turn_id
        self.script = script_of(msg.command)
        self.cwd = msg.cwd
        self.source = msg.source
        self.process_id = msg.process_id
        self.explores = [] if self.is_users else explorations(msg.parsed_cmd)
        self.begun_s = begun_s
        self.tail: OutputTail | None = OutputTail()
        self.is_background = False
        """The model goes on while it runs."""
        self.is_stopped = False
        self.exit_code: int | None = None
        self.output = ""
        self.line_count = 0
        """How many lines it printed; of a flood not all are kept."""
        self.is_cut = False
        """There were more than we were told."""
        self.duration_s = 0.0
        if isinstance(msg, ExecCommandEnd):
            self.end(msg)

    @property
    def is_users(self) -> bool:
        return self.source == "user_shell"

    @property
    def is_over(self) -> bool:
        return self.exit_code is not None or self.is_stopped

    def add_output(self, chunk: bytes) -> None:
        if self.tail is not None:
            self.tail.add(chunk)

    def end(self, msg: ExecCommandEnd) -> None:
        self.exit_code = msg.exit_code
        self.output = kept(msg.aggregated_output)
        told = msg.aggregated_output.strip("\n").count("\n") + 1
        self.line_count = max(told, 0 if self.tail is None else self.tail.count)
        self.is_cut = len(msg.aggregated_output) >= FLOOD
        self.duration_s = msg.duration.secs + msg.duration.nanos / 1e9
        self.tail = None

    def stop(self, now_s: float) -> None:
        """Its turn has ended, and nothing was heard of it any more."""
        self.is_stopped = True
        self.duration_s = max(0.0, now_s - self.begun_s)
        self.tail = None

    def last_line(self, now_s: float) -> str:
        """What it printed last, as far as that is known."""
        lines = [] if self.tail is None else self.tail.lines(now_s)
        return "".join(span.text for span in lines[-1].spans) if lines else ""

    # ---- while it runs -------------------------------------------------------------------------

    def live(self, look: Look, now_s: float) -> list[Line]:
        word = "You run" if self.is_users else "Running in the background" if self.is_background else "Running"
        since = Span(elapsed(now_s - self.begun_s), "dim")
        room = max(12, look.width - len(word) - len(since.text) - 4)
        script = Span(short(self.script, room))
        head = look.head(Span("•", "running"), "Command", Span(word, "bold"), " ", script, since)
        if self.is_background or self.tail is None:
            return [head]
        return [head, *below([clipped(each, max(8, look.width - 6)) for each in self.tail.lines(now_s)], look)]

    # ---- when it is over -----------------------------------------------------------------------

    @property
    def how_it_ended(self) -> str:
        if self.is_stopped:
            return "stopped with the turn"
        return verdict(self.exit_code or 0)

    def lines(self, look: Look) -> list[Line]:
        if self.exit_code == NEVER_RAN:
            return self._not_run(look)
        ended = self.how_it_ended
        took = seconds_words(self.duration_s)
        sign = Span("✗", "error") if ended else Span("•", "ok")
        word = f"Command ({ended or 'exit 0'}, {took})"
        said = "" if look.words else "You ran " if self.is_users else "Ran "
        shown = self._script_lines(look, sign, word, said)
        if not look.words:
            notes = ", ".join(filter(None, (ended, took)))
            where = f" in {look.place(self.cwd)}" if look.cwd and self.cwd != look.cwd else ""
            note = Span(f"{where} ({notes})", "bold error" if ended else "dim")
            shown[-1] = Line((*shown[-1].spans, note), shown[-1].hang)
        return [*shown, *below(self._output_lines(look), look)]

    def _script_lines(self, look: Look, sign: Span, word: str, said: str) -> list[Line]:
        rows = safe(self.script).split("\n")
        shown_rows = rows if look.is_whole else rows[:COMMAND_LINES]
        first = look.head(sign, word, Span(said, "bold"), shown_rows[0])
        bar = Span("  │ ", "dim") if not look.words else Span("    ")
        shown = [Line(first.spans, (bar,)), *(Line((bar, Span(row)), (bar,)) for row in shown_rows[1:])]
        if len(shown_rows) < len(rows):
            shown.append(Line((bar, *more_lines(len(rows) - len(shown_rows)).spans)))
        return [clipped(each, UNFOLDED_LINE if look.is_whole else LONGEST_LINE) for each in shown]

    def _output_lines(self, look: Look) -> list[Line]:
        if not self.output.strip():
            return [line(Span("(no output)", "dim"))]
        most = UNFOLDED_LINE if look.is_whole else LONGEST_LINE
        if look.is_whole:
            return [clipped(each, most) for each in command_output(self.output.strip("\n"))]
        count = USER_LINES if self.is_users else FOLDED_LINES
        shown = folded_output(self.output, count, self.line_count, is_cut=self.is_cut)
        return [clipped(each, most) for each in shown]

    def _not_run(self, look: Look) -> list[Line]:
        """A command that was refused or could not be started, and why."""
        script = self.script if look.is_whole else short(self.script, 400)
        head = look.head(Span("✗", "error"), "Command", Span("Not run: ", "bold error"), one_line(script))
        reason = [
            line(Span(row)) for row in safe(self.output.strip()).split("\n")[: None if look.is_whole else 5] if row
        ]
        return [head, *below(reason, look)]


def folded_output(output: str, most: int, printed: int = 0, *, is_cut: bool = False) -> list[Line]:
    """The first and the last lines of an output. What is between them is only counted: to clean it all takes long.
    `printed` lines there were, or more (`is_cut`), if not all of them were kept."""
    text = output.strip("\n")
    count = text.count("\n") + 1
    if count <= most:
        return command_output("\n".join(map(_bounded, text.split("\n"))))
    head = (most - 1) // 2
    tail = most - 1 - head
    first = "\n".join(map(_bounded, text.split("\n", head)[:head]))
    last = "\n".join(map(_bounded, text.rsplit("\n", tail)[-tail:]))
    between = more_lines(max(count, printed) - head - tail, or_more=is_cut)
    return [*command_output(first), between, *command_output(last)]


def _bounded(row: str) -> str:
    """A row of output that is not longer than can be shown; of one that was written over, its last state."""
    return row if len(row) <= UNFOLDED_LINE else row.rstrip("\r").rpartition("\r")[2][:UNFOLDED_LINE]


class Explored(Running):
    """Commands that only look, one after the other, as one cell: what was read, listed and searched."""

    __slots__ = ("commands",)

    def __init__(self) -> None:
        self.commands: list[Command] = []

    @property
    def is_over(self) -> bool:
        return all(command.is_over for command in self.commands)

    def live(self, look: Look, now_s: float) -> list[Line]:
        shown = self._shown(look, "Explored" if self.is_over else "Exploring", Span("•", "running"))
        return [*shown[:1], *folded(shown[1:])]

    def lines(self, look: Look) -> list[Line]:
        if look.is_whole:
            return [each for command in self.commands for each in command.lines(look)]
        return self._shown(look, "Explored", Span("•", "ok"))

    def _shown(self, look: Look, word: str, sign: Span) -> list[Line]:
        done: list[tuple[str, list[str]]] = []
        for command in self.commands:
            failed = _failure(command)
            for verb, what in command.explores:
                if verb == "Read" and done and done[-1][0] == "Read" and not failed:
                    if what not in done[-1][1]:
                        done[-1][1].append(what)
                else:
                    done.append((verb, [what]))
            if failed:
                done[-1] = (done[-1][0], [*done[-1][1][:-1], f"{done[-1][1][-1]} ({failed})"])
        rows = [line(Span(verb, "accent"), f" {short(', '.join(things), 400)}") for verb, things in done]
        return [look.title(sign, word), *below(rows, look)]


def _failure(command: Command) -> str:
    """What went wrong with a command that only looks; a search that finds nothing is no failure."""
    ended = command.how_it_ended if command.is_over else ""
    if command.exit_code == NEVER_RAN:
        return f"not run: {short(command.output, 120)}"
    if command.exit_code == 1 and command.explores[-1][0] == "Search" and not command.output.strip():
        return "nothing found"
    first = command.output.strip().partition("\n")[0] if ended else ""
    return f"{ended}: {short(first, 120)}" if first else ended


def explorations(parsed: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What a command reads, lists and searches; nothing when any part of it does something else."""
    found: list[tuple[str, str]] = []
    for part in parsed:
        cmd = str(part.get("cmd") or "")
        match part.get("type"):
            case "read":
                found.append(("Read", str(part.get("name") or part.get("path") or cmd)))
            case "list_files":
                found.append(("List", str(part.get("path") or ".")))
            case "search":
                query, path = part.get("query"), part.get("path")
                where = f" in {path}" if path else ""
                found.append(("Search", f"{query}{where}" if query else cmd))
            case _:
                return []
    return found
