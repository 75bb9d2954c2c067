"""A command that the person runs themselves, in the middle of a thread; the model is told with the next input."""

from __future__ import annotations

from spindle.core.live_thread import LiveThread
from spindle.errors import ToolError
from spindle.process.command import Command
from spindle.prompt.aborted import user_command_message
from spindle.tools.execution import Execution, cut_for_model
from spindle.tools.one_shot import run_once
from spindle.tools.tool import ToolContext

TIME_LIMIT_S = 60 * 60.0


async def run_user_command(thread: LiveThread, ctx: ToolContext, script: str) -> None:
    """Run it in the person's shell, with their own rights: nobody is asked, and there is no sandbox around it."""
    cwd = ctx.settings.cwd
    shown = Execution(ctx, ctx.processes.shell_argv(script), cwd, source="user_shell")
    try:
        done = await run_once(shown, Command(argv=shown.argv, cwd=cwd, boundary=None), TIME_LIMIT_S, ctx)
    except ToolError as error:
        thread.history.append_item(user_command_message(script, -1, 0.0, str(error)))
        return
    text, _ = cut_for_model(done.output.peek(), ctx.output.truncation.mode, ctx.output.truncation.limit)
    thread.history.append_item(user_command_message(script, done.exit_code, done.duration_s, text))
