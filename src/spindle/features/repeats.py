"""Stops a model that goes round in circles: the same call again and again, with the same result.

Small models do that, and those nobody knows may be small; the others never do it for no reason, and are left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from spindle.core.feature import Feature, RunCall
from spindle.errors import ModelError, SpindleError
from spindle.protocol.items import Part
from spindle.tools.tool import ToolResult

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn
    from spindle.tools.tool import ToolCall

WARNED, STOPPED = 3, 6
"""The how-manieth equal call gets a warning in its output, and which one ends the turn."""
WARNING = (
    "[Warning: a repeated call. You have made this very call {count} times with the same result. Making it again will "
    "not help: do something else, or say what is missing.]"
)


class _Made(msgspec.Struct):
    """A call that was made before."""

    result: str | list[Part]
    count: int


class RepeatGuard(Feature):
    """Counts equal calls with equal results within a turn."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], _Made] = {}
        self._reason = ""
        """Why the turn must end."""

    async def begin_turn(self, turn: RunningTurn) -> None:
        self._made, self._reason = {}, ""

    async def before_request(self, turn: RunningTurn) -> None:
        if self._reason:
            raise ModelError(self._reason)

    async def around_call(self, turn: RunningTurn, call: ToolCall, run: RunCall) -> ToolResult:
        if not turn.thread.traits.facts.is_unproven:
            return await run(call)
        try:
            result = await run(call)
        except SpindleError as error:
            # A call that fails in the same way each time is as much of a circle as one that does not.
            warning = self._warning(call, str(error))
            if not warning:
                raise
            return ToolResult(output=f"{error}\n\n{warning}")
        if result.session_id is not None:
            return result  # the command still runs, and to wait for it is no circle
        warning = self._warning(call, result.output if result.plain is None else result.plain)
        if not warning:
            return result
        return msgspec.structs.replace(result, output=_with(result.output, warning))

    def _warning(self, call: ToolCall, result: str | list[Part]) -> str:
        """Count the call; what the model is told of it, "" for nothing."""
        key = (call.name, call.arguments)
        made = self._made.get(key)
        if made is None or made.result != result:
            self._made[key] = _Made(result, 1)
            return ""
        made.count += 1
        if made.count >= STOPPED:
            self._reason = (
                f"Stopped: the model repeats itself. It called {call.name} {made.count} times with the same arguments "
                "and got the same result each time. Work so far is saved; tell it what to do differently, or ask "
                "another model."
            )
        return WARNING.format(count=made.count) if made.count >= WARNED else ""


def _with(output: str | list[Part], warning: str) -> str | list[Part]:
    if isinstance(output, str):
        return f"{output}\n\n{warning}"
    return [*output, {"type": "input_text", "text": warning}]
