"""What a person sees of a thread: events in, lines for the screen out. Read this first, then `reducer.py`.

    conversation = Conversation(Options(clock=clock, cwd=cwd))
    conversation.take(event)                 # for every event
    conversation.take_finished(width)        # lines for the scrollback, each once
    conversation.live(width, height)         # what streams and runs, drawn anew with every frame
    conversation.activity                    # the status row
    conversation.transcript(width)           # everything, unfolded
    conversation.replay(thread.records)      # a thread that is taken up again

Pure: no terminal, and no clock but the one it is given. What it costs does not grow with the thread: cells that are
done are kept as data and made into lines only when they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.frontends.tui.cells import notes
from spindle.frontends.tui.cells.activity import Activity
from spindle.frontends.tui.cells.cell import short
from spindle.frontends.tui.cells.commands import script_of
from spindle.frontends.tui.cells.notes import Printed
from spindle.frontends.tui.cells.reducer import Options, Reducer
from spindle.frontends.tui.cells.transcript import Transcript
from spindle.frontends.tui.shown import BLANK, Line
from spindle.frontends.tui.text.clean import name
from spindle.protocol import events as v1
from spindle.protocol.clock import FixedClock
from spindle.protocol.events import Msg

if TYPE_CHECKING:
    from spindle.frontends.tui.cells.replay import Reprinted
    from spindle.frontends.tui.desk import BackgroundCommand
    from spindle.thread.entry import Record

__all__ = ["Conversation", "Options"]
_LOOK = 3000
"""So much of a command is read to name it."""


class Conversation(Reducer):
    """One thread, as the other parts of the interface know it."""

    # ---- what is to be seen --------------------------------------------------------------------

    def take_finished(self, width: int) -> list[Line]:
        """Lines for the scrollback, in order, each once."""
        return self.stage.take_finished(self.look(width))

    def live(self, width: int, height: int) -> list[Line]:
        """What streams and what runs: the last `height` lines of it."""
        look = self.look(width)
        shown = self.stage.live(look, self.now_s())
        if self.doing.is_working:
            shown += self.commands.live_background(look)
        if self._agents is not None:
            shown += self._agents.live(look)
        return shown[-height:] if height > 0 else []

    @property
    def activity(self) -> Activity | None:
        """What the status row says; None when nothing goes on."""
        return self.doing.now(self.now_s())

    def transcript(self, width: int) -> Transcript:
        """Everything, unfolded, and what is said from now on. Made into lines where it is looked at."""
        return Transcript(self.stage.cells, self.look(width, is_whole=True))

    # ---- a thread that is taken up again -------------------------------------------------------

    def replay(self, records: Iterable[Record]) -> None:
        """Show what was said before: the next `take_finished` gives it, the end of a long thread only."""
        from spindle.frontends.tui.cells.replay import Reprinted, turns_of  # only threads that are taken up again

        def begin(clock: FixedClock) -> Conversation:
            # No money: what was paid then is not what the model in use costs today.
            turn = Conversation(msgspec.structs.replace(self.options, clock=clock, cwd=self.cwd, cost=None))
            turn.is_raw = self.is_raw
            return turn

        turns = turns_of(records, begin)
        self.stage.cells += turns
        self._reprinted = Reprinted(turns)
        self.stage.queue(self._reprinted)
        if turns:
            self.spending.count(turns[-1].last_info, None)
            self.mode = turns[-1].mode
        self.last_answer = next((answer for turn in reversed(turns) if (answer := turn.last_answer)), "")

    def prepare(self, width: int) -> Iterator[None]:
        """Make the lines of `replay` in small steps, so that keys are read meanwhile. Need not be called."""
        if self._reprinted is not None:
            yield from self._reprinted.prepare(self.look(width))

    _reprinted: Reprinted | None = None

    # ---- what the other parts tell -------------------------------------------------------------

    def note_answer(self, request: Msg, decision: str | dict[str, Any]) -> None:
        """The person has answered a request for approval."""
        self.doing.waiting.discard(_id_of(request))
        kind = decision if isinstance(decision, str) else next(iter(decision), "")
        undone = "not applied" if isinstance(request, v1.ApplyPatchApprovalRequest) else "not run"
        self.show(notes.answer(kind, self._matter(request), undone))

    def say(self, lines: Iterable[Line]) -> None:
        """Lines of another part of the interface, in order with everything else."""
        # Cells are set apart already.
        self.show(Printed(list(dropwhile(lambda each: each == BLANK, lines))))

    def fail(self, sentence: str) -> None:
        self.show(notes.error(sentence))

    def _matter(self, request: Msg) -> str:
        """What was asked, in a line."""
        match request:
            case v1.ExecApprovalRequest(command=command):
                # In one line, but not so that two commands look like one.
                return short(name(" ⏎ ".join(script_of(command)[:_LOOK].strip("\n").split("\n"))), 300)
            case v1.ApplyPatchApprovalRequest(changes=changes):
                from spindle.frontends.tui.cells.patches import patch_title  # with the first patch

                return patch_title(changes, self.look(80))
            case _:
                called = getattr(request, "invocation", None) or {}
                title = f"{called.get('server')}.{called.get('tool')}" if called else getattr(request, "message", "")
                return short(str(title), 300)

    # ---- what the other parts ask --------------------------------------------------------------

    @property
    def background(self) -> Sequence[BackgroundCommand]:
        """Commands that run while the model goes on, or the person."""
        from spindle.frontends.tui.desk import BackgroundCommand  # for lists; the module knows the whole interface

        return [
            BackgroundCommand(
                process_id=command.process_id or "",
                command=command.script,
                seconds=self.now_s() - command.begun_s,
                last_line=command.last_line(self.now_s()),
            )
            for command in self.commands.background.values()
        ]


def _id_of(request: Msg) -> str:
    return str(getattr(request, "call_id", "") or getattr(request, "id", ""))
