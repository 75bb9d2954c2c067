"""A command that the user runs in the middle of a thread; the model learns of it with the next input."""

from __future__ import annotations

from spindle.core.running_turn import RunningTurn, TurnOutcome
from spindle.core.showing import CallEvents
from spindle.errors import ToolError
from spindle.process.command import Command
from spindle.prompt.aborted import user_command_message
from spindle.protocol.items import Item
from spindle.protocol.ops import RunUserShellCommand
from spindle.tools.execution import Execution
from spindle.tools.shell import run_once
from spindle.tools.shown_output import cut_for_model
from spindle.tools.tool import ToolContext

TIME_LIMIT_S = 60 * 60.0


async def run_user_command(turn: RunningTurn) -> TurnOutcome:
    """The work of a turn: run a command in the person's shell, and record what it printed."""
    op = turn.submission.op
    assert isinstance(op, RunUserShellCommand)
    await turn.announce()
    events = CallEvents(turn.emit)
    try:
        done = await _run(turn.make_context(turn.thread.clock.uuid7(), events.emit), op.command)
        turn.thread.history.append_item(done)
    finally:
        events.recorded()
    return TurnOutcome()


async def _run(ctx: ToolContext, script: str) -> Item:
    """Run it with the person's own rights: nobody is asked, and there is no sandbox around it."""
    cwd = ctx.settings.cwd
    shown = Execution(ctx, ctx.processes.shell_argv(script), cwd, source="user_shell")
    try:
        done = await run_once(shown, Command(argv=shown.argv, cwd=cwd, boundary=None), TIME_LIMIT_S, ctx)
    except ToolError as error:
        return user_command_message(script, -1, 0.0, str(error))
    text, _ = cut_for_model(done.output.peek(), ctx.output.truncation.mode, ctx.output.truncation.limit)
    return user_command_message(script, done.exit_code, done.duration_s, text)
