"""What a reviewer does, told as part of the turn that wants the review."""

from __future__ import annotations

import asyncio

import msgspec

from spindle.core.running_turn import RunningTurn
from spindle.protocol.events import (
    AgentMessage,
    AgentMessageContentDelta,
    Error,
    Event,
    ItemCompleted,
    ItemStarted,
    Msg,
    SessionConfigured,
    ShutdownComplete,
    TaskComplete,
    TaskStarted,
    TokenCount,
    TurnAborted,
    TurnDiff,
    UserMessage,
    Warning,
    usage_info,
)

_ITS_OWN = (
    *(SessionConfigured, ShutdownComplete, TaskStarted, TaskComplete, TurnAborted, TurnDiff),
    *(UserMessage, AgentMessage, AgentMessageContentDelta, Error),
)
"""What belongs to the reviewer's thread alone. What it says is read first, and told as the report."""
_SAID = ("UserMessage", "AgentMessage")


class Relay:
    """Hears every event of a reviewer, and passes on what people are to see."""

    def __init__(self, turn: RunningTurn, *, has_other_model: bool) -> None:
        self._turn = turn
        self._has_other_model = has_other_model
        self._has_begun = False
        self.usage_before = turn.thread.total_usage
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Its turn is over."""
        self.last_message: str | None = None
        self.failure: Error | None = None

    def hear(self, event: Event) -> None:
        msg = event.msg
        match msg:
            case TaskStarted():
                self._has_begun = True
            case Error():
                self.failure = msg
            case TaskComplete(last_agent_message=text):
                self.last_message = text
                self._end()
            case TurnAborted():
                self.failure = self.failure or Error(message="the review was stopped")
                self._end()
            case TokenCount():
                self._count()
                return
            case Warning() if not self._has_begun and not self._has_other_model:
                return  # the thread above has the same to say, and has said it
            case _:
                pass
        if not isinstance(msg, _ITS_OWN) and not _is_said(msg):
            self._turn.emit(self._as_ours(msg))

    def _end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _count(self) -> None:
        """What the thread has cost by now; the record is told once, at the end."""
        thread = self._turn.thread
        info = usage_info(thread.total_usage, thread.last_usage, thread.window_tokens)
        self._turn.emit(TokenCount(info=info, rate_limits=thread.rate_limits))

    def _as_ours(self, msg: Msg) -> Msg:
        """The same event of the thread above and of its turn."""
        names = msg.__struct_fields__
        ours = {"thread_id": self._turn.thread.thread_id, "turn_id": self._turn.turn_id}
        known = {name: ours[name] for name in ours if name in names and isinstance(getattr(msg, name), str)}
        return msgspec.structs.replace(msg, **known) if known else msg


def _is_said(msg: Msg) -> bool:
    return isinstance(msg, ItemStarted | ItemCompleted) and msg.item.get("type") in _SAID
