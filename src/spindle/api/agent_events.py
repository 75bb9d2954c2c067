"""What a sub-agent does, as events of the Python API. Loaded with the first sub-agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from spindle.api.events import Event, EventTranslator, usage_of
from spindle.api.shown import Usage
from spindle.protocol.events import Msg, TaskStarted, TokenCount


class AgentTranslator:
    """The events of one sub-agent, whose messages come wrapped in its parent's stream."""

    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id
        self._events = EventTranslator(agent_id, "", 0)
        self._total = self._before = Usage()
        """What the sub-agent has cost, now and when its turn began."""

    def events(self, wire: dict[str, Any]) -> list[Event]:
        """What one message says; nothing for those that programs are not shown."""
        kind = _kinds().get(str(wire.get("type")))
        if kind is None:
            return []
        try:
            msg = msgspec.convert(wire, kind)
        except msgspec.ValidationError:
            return []
        if isinstance(msg, TaskStarted):
            self._before = self._total
            self._events = EventTranslator(self._agent_id, msg.turn_id, self._events.next_number)
        elif isinstance(msg, TokenCount) and msg.info is not None:
            self._total = usage_of(msg.info["total_token_usage"])
        return self._events.events(msg, self._usage)

    @property
    def _usage(self) -> Usage:
        now, before = self._total, self._before
        return Usage(**{name: getattr(now, name) - getattr(before, name) for name in Usage.__struct_fields__})


def _kinds() -> dict[str, type[Msg]]:
    """The kinds of messages, of all modules that are loaded: who sent one has loaded its module."""
    return {str(kind.__struct_config__.tag): kind for kind in _below(Msg)}


def _below(kind: type[Msg]) -> Iterator[type[Msg]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)
