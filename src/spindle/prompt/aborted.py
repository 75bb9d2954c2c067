"""Messages that record what the user did outside the model's sight: stopping a turn, running a command."""

from __future__ import annotations

from spindle.prompt.bundled import text
from spindle.protocol.items import Item, user_message
from spindle.protocol.origin import block, defused_parts


def aborted_marker() -> Item:
    """Appended after the last item of a turn that was stopped."""
    return user_message(block("turn_aborted", text("turn_aborted")))


def user_command_message(command: str, exit_code: int, duration_s: float, output: str) -> Item:
    """A `!command` the user ran."""
    command, output = (defused_parts(text, "command", "result") for text in (command, output))
    told = (
        f"<command>\n{command}\n</command>\n<result>\nExit code: {exit_code}\n"
        f"Duration: {duration_s:.4f} seconds\nOutput:\n{output}\n</result>"
    )
    return user_message(block("user_shell_command", told))
