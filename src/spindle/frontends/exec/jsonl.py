"""Events → the JSON lines that today's Codex SDKs parse. Pure: no I/O, no clock.

What items look like is decided in `api/items`.
"""

from __future__ import annotations

from typing import Any

from spindle.api.items import ItemTranslator
from spindle.protocol.events import Error, Msg, SessionConfigured, StreamError, TaskComplete, TaskStarted, TokenCount
from spindle.protocol.items import encode_payload

USAGE_KEYS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
)

Line = dict[str, Any]


class JsonlTranslator:
    """Keeps what one process has shown so far: the items, the usage, and whether the turn has failed."""

    def __init__(self, *, hide_reasoning: bool = False) -> None:
        self._items = ItemTranslator(hide_reasoning=hide_reasoning)
        self._usage = dict.fromkeys(USAGE_KEYS, 0)
        self._failure: dict[str, Any] | None = None
        self._shown_goal: tuple[str, str] | None = None
        """Objective and status."""

    def translate(self, msg: Msg) -> list[Line]:
        """The lines for one event; most events have none."""
        match msg:
            case SessionConfigured(session_id=thread_id):
                return [{"type": "thread.started", "thread_id": thread_id}]
            case TaskStarted():
                return [{"type": "turn.started"}]
            case StreamError(message=message):
                return [{"type": "error", "message": message}]
            case Error(message=message, budget=budget):
                spent = {"code": msg.codex_error_info, "budget": budget} if isinstance(budget, dict) else {}
                self._failure = {"message": message, **spent}
                return [{"type": "error", "message": message}]
            case TokenCount(info=info) if info is not None:
                self.set_usage(info["total_token_usage"])
                return []
            case _ if msg.__struct_config__.tag == "thread_goal_updated":
                return self._goal(msg)
            case _:
                lines = [{"type": event, "item": item} for event, item in self._items.steps(msg)]
                return [*lines, self._end()] if isinstance(msg, TaskComplete) else lines

    def set_usage(self, total: dict[str, int]) -> None:
        """The thread's total so far; a resumed thread starts with what it cost before."""
        self._usage = {key: total.get(key, 0) for key in USAGE_KEYS}

    def _goal(self, msg: Msg) -> list[Line]:
        """A line when the goal or its status is another one; what it has used so far is in the last."""
        from spindle.protocol.goal import ThreadGoalUpdated  # with the event

        assert isinstance(msg, ThreadGoalUpdated)
        goal = msg.goal
        shown = None if goal is None else (goal["objective"], goal["status"])
        if shown == self._shown_goal and (goal is None or goal["status"] == "active"):
            return []
        self._shown_goal = shown
        return [{"type": "goal.updated", "goal": goal}]

    def _end(self) -> Line:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            return {"type": "turn.failed", "error": failure}
        return {"type": "turn.completed", "usage": self._usage}


def encode_line(line: Line) -> bytes:
    """One line with its newline. U+2028 and U+2029 are escaped: some readers take them for line ends."""
    data = encode_payload(line)
    if b"\xe2\x80\xa8" in data or b"\xe2\x80\xa9" in data:
        data = data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return data + b"\n"
