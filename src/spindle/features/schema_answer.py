"""Sees to it that an answer fits the schema that was asked for, where the server cannot.

Such a server was only asked in words. An answer that does not fit is asked for once more, with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from spindle.core.feature import Feature
from spindle.protocol.events import Warning
from spindle.protocol.items import decode_foreign, developer_message
from spindle.protocol.origin import defused
from spindle.protocol.quote import visible
from spindle.protocol.schema_check import check

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn

_AGAIN = (
    "Your last answer is not the JSON that was asked for ({problem}). Answer again with the JSON value and nothing "
    "else: no words around it, no code fence."
)


class SchemaAnswer(Feature):
    """Checks the last message of a turn that has an output schema."""

    def __init__(self) -> None:
        self._has_asked = False

    async def begin_turn(self, turn: RunningTurn) -> None:
        self._has_asked = False

    async def before_end(self, turn: RunningTurn) -> bool:
        thread, schema = turn.thread, turn.output_schema
        if schema is None or thread.remote is None:
            return False
        if thread.remote.endpoint.capabilities(thread.traits.slug, thread.traits.facts).json_schema:
            return False
        problem = _problem(turn.last_message or "", schema)
        if problem is None:
            return False
        if self._has_asked:
            turn.emit(Warning(message=f"the answer does not fit the output schema: {problem}"))
            return False
        self._has_asked = True
        thread.history.append_item(developer_message(_AGAIN.format(problem=defused(visible(problem)))))
        return True


def _problem(text: str, schema: dict[str, object]) -> str | None:
    try:
        value = decode_foreign(text)
    except (msgspec.DecodeError, UnicodeError):
        return "it is not JSON"
    return check(value, schema)
