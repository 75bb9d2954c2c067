"""Looks after output schemas where the model server does not: the answer is checked, and asked for once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from spindle.core.feature import Feature
from spindle.protocol.events import Warning
from spindle.protocol.items import decode_foreign, developer_message
from spindle.protocol.schema_check import check

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn


class OutputSchema(Feature):
    """Checks the final answer of a turn that has a schema."""

    def __init__(self) -> None:
        self._has_asked = False

    async def begin_turn(self, turn: RunningTurn) -> None:
        self._has_asked = False

    async def before_end(self, turn: RunningTurn) -> bool:
        schema = turn.output_schema
        if schema is None or _is_kept_by_server(turn):
            return False
        problem = _problem(turn.last_message, schema)
        if problem is None:
            return False
        if self._has_asked:
            turn.emit(Warning(message=f"the answer does not fit the output schema: {problem}"))
            return False
        self._has_asked = True
        text = f"Your answer cannot be used: {problem}. Answer again, with nothing but JSON that fits the schema."
        turn.thread.append_items([developer_message(text)])
        return True


def _is_kept_by_server(turn: RunningTurn) -> bool:
    """Whether the server holds the model to a schema, as far as is known by now."""
    thread = turn.thread
    if thread.remote is None:
        return True  # a model of the embedding program, which has its own ways
    endpoint, known = thread.remote.endpoint, thread.traits.facts.capabilities
    return endpoint.memory.of(endpoint.provider, endpoint.wire.name, thread.traits.slug, known).json_schema


def _problem(answer: str | None, schema: dict[str, Any]) -> str | None:
    """Why the answer cannot be used, as one line; None if it can."""
    try:
        return check(decode_foreign(answer or ""), schema)
    except (msgspec.DecodeError, UnicodeError) as error:
        return f"it is not JSON ({error})"
