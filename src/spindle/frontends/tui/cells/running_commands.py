"""The commands that run: those the model waits for, those in the background, and groups of those that only look."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from spindle.frontends.tui.cells.cell import Cell, Look, kept, short
from spindle.frontends.tui.cells.commands import NEVER_RAN, Command, Explored
from spindle.frontends.tui.cells.notes import Note
from spindle.frontends.tui.cells.stage import Stage
from spindle.frontends.tui.shown import Line
from spindle.protocol.events import ExecCommandBegin, ExecCommandEnd

KEPT_OUTPUTS = 32_000_000
"""Characters of output that all commands of a thread keep together: of the oldest only the ends remain."""
SHRUNK_OUTPUT = 2000
MOST_BACKGROUND = 3
"""How many commands in the background the live area shows while a turn runs."""


class RunningCommands:
    """Follows commands from their beginning to their end, and puts their cells where they belong."""

    def __init__(self, stage: Stage, show: Callable[[Cell], None], now_s: Callable[[], float]) -> None:
        self._stage = stage
        self._show = show
        self._now_s = now_s
        self.waited_for: dict[str, Command] = {}
        """By call: the model goes on when they are over."""
        self.background: dict[str, Command] = {}
        """By call: the model goes on while they run."""
        self._kept: deque[Command] = deque()
        """Those whose output is kept as it was, the oldest first."""
        self._kept_size = 0
        self._open_group: Explored | None = None
        """The group that the next command which only looks will join."""

    def begin(self, msg: ExecCommandBegin) -> Command:
        command = self.waited_for[msg.call_id] = Command(msg, self._now_s())
        if not command.explores:
            self.close_group()
            self._stage.begin(command)
            return command
        if self._open_group is None:
            self._open_group = Explored()
            self._stage.begin(self._open_group)
        self._open_group.commands.append(command)
        return command

    def output(self, call_id: str, chunk: bytes) -> None:
        command = self.waited_for.get(call_id) or self.background.get(call_id)
        if command is not None:
            command.add_output(chunk)

    def end(self, msg: ExecCommandEnd) -> None:
        command = self.waited_for.pop(msg.call_id, None) or self.background.pop(msg.call_id, None)
        if command is None:
            command = Command(msg, self._now_s())
        else:
            command.end(msg)
        self._keep(command)
        group = self._group_of(command)
        if group is None:
            self._stage.withdraw(command)
            self._show(command)
        elif msg.exit_code == NEVER_RAN:
            self._take_out(command, group)  # it looked at nothing: a cell of its own says why
            self._show(command)
        elif group is not self._open_group and group.is_over:
            self._stage.finish(group)

    def _keep(self, command: Command) -> None:
        """A day of work must not fill the memory."""
        self._kept.append(command)
        self._kept_size += len(command.output)
        while self._kept_size > KEPT_OUTPUTS:
            oldest = self._kept.popleft()
            self._kept_size -= len(oldest.output)
            oldest.output = kept(oldest.output, SHRUNK_OUTPUT)

    def typed(self, call_id: str, text: str) -> None:
        """The model typed something into a command."""
        command = self.background.get(call_id) or self.waited_for.get(call_id)
        where = f" into {short(command.script, 60)}" if command is not None else ""
        self._show(Note(f"Typed{where}: {short(text.strip()) or 'Enter'}", word="Command", style="dim"))

    def let_run(self) -> None:
        """The model was answered while these commands still run: they run in the background from now on."""
        for call_id, command in list(self.waited_for.items()):
            if command.process_id is None:
                continue
            del self.waited_for[call_id]
            self.background[call_id] = command
            command.is_background = True
            group = self._group_of(command)
            if group is None:
                self._stage.withdraw(command)
            else:
                self._take_out(command, group)
            self._show(Note(f"Runs in the background: {short(command.script)}", word="Background"))

    def settle(self) -> None:
        """The turn is over: what is not in the background was stopped with it."""
        self.let_run()
        self.close_group()
        for command in self.waited_for.values():
            command.stop(self._now_s())
            group = self._group_of(command)
            if group is None:
                self._stage.finish(command)
            elif group.is_over:
                self._stage.finish(group)
        self.waited_for.clear()

    def close_group(self) -> None:
        """Something else comes: nothing joins the group any more."""
        group, self._open_group = self._open_group, None
        if group is not None and group.is_over:
            self._stage.finish(group)

    def live_background(self, look: Look) -> list[Line]:
        newest = list(self.background.values())[-MOST_BACKGROUND:]
        return [line for command in newest for line in command.live(look, self._now_s())]

    def _group_of(self, command: Command) -> Explored | None:
        for cell in self._stage.running:
            if isinstance(cell, Explored) and command in cell.commands:
                return cell
        return None

    def _take_out(self, command: Command, group: Explored) -> None:
        group.commands.remove(command)
        if not group.commands:
            self._stage.withdraw(group)
            if group is self._open_group:
                self._open_group = None
