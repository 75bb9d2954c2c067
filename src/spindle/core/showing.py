"""How people see what a model says and calls: when it begins, pieces of its text, and the event once it is complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.protocol.events import (
    AgentMessage,
    AgentReasoning,
    AgentReasoningRawContent,
    ItemCompleted,
    ItemStarted,
    Msg,
    WebSearchBegin,
    WebSearchEnd,
)
from spindle.protocol.items import Item, item_text

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn


class MessageView:
    """How the messages of a turn are shown: as they come, each one whole."""

    def __init__(self, turn: RunningTurn) -> None:
        self.turn = turn

    def announce(self, item_id: str, shown: dict[str, Any]) -> None:
        """A message begins."""
        turn = self.turn
        turn.emit(ItemStarted(thread_id=turn.thread.thread_id, turn_id=turn.turn_id, item=shown))

    def show(self, msg: Msg) -> None:
        """Emit a message of the stream, a piece of a text for example."""
        self.turn.emit(msg)

    def finish(self, item_id: str) -> None:
        """A message has ended: nothing of it may be held back any longer."""

    def complete(self, item_id: str, text: str, tell: Callable[[Msg], None]) -> str | None:
        """The whole message has come: what people are shown of it, None when there is nothing.

        `tell` takes what else they are to see of it, once the message itself is recorded.
        """
        return text


class Told(msgspec.Struct):
    """What is told of a finished item."""

    said: str | None = None
    """What people are shown of a message."""
    lines: list[dict[str, Any]] = []
    """Its event lines in the record, before the item itself."""
    msgs: list[Msg] = []
    """What the front ends are told, after it."""


def announce_item(turn: RunningTurn, item: Item, item_id: str) -> None:
    """An item begins to stream: show it, record nothing."""
    if item.get("type") == "web_search_call":
        turn.emit(WebSearchBegin(call_id=item_id))
    elif (shown := shown_item(item, item_id)) is None:
        return
    elif shown["type"] == "AgentMessage":
        turn.view.announce(item_id, shown)
    else:
        turn.emit(ItemStarted(thread_id=turn.thread.thread_id, turn_id=turn.turn_id, item=shown))


def told_of(turn: RunningTurn, item: Item, item_id: str) -> Told:
    """What is to be recorded and told of a finished item beside the item."""
    kind, shown, told = item.get("type"), shown_item(item, item_id), Told()
    if kind == "message":
        told.said = said = turn.view.complete(item_id, item_text(item), told.msgs.append)
        if said is None:
            return told  # nothing of it is shown as a message
        shown = {**(shown or {}), "content": [{"type": "Text", "text": said}]}
        told.lines.append({"type": "agent_message", "message": said})
        told.msgs.append(AgentMessage(message=said))
    elif kind == "reasoning" and shown is not None:
        for text in shown["summary_text"]:
            told.lines.append({"type": "agent_reasoning", "text": text})
            told.msgs.append(AgentReasoning(text=text))
        if turn.thread.show_raw_reasoning:
            for text in shown["raw_content"]:
                told.lines.append({"type": "agent_reasoning_raw_content", "text": text})
                told.msgs.append(AgentReasoningRawContent(text=text))
    elif kind == "web_search_call":
        action = item.get("action") or {}
        query = action.get("query") or action.get("url") or ""
        told.msgs.append(WebSearchEnd(call_id=item_id, query=query, action=action))
    if shown is not None:
        told.msgs.append(ItemCompleted(thread_id=turn.thread.thread_id, turn_id=turn.turn_id, item=shown))
    return told


def shown_item(item: Item, item_id: str) -> dict[str, Any] | None:
    """The item as people see it, or None for those that tools show by events of their own."""
    match item.get("type"):
        case "message":
            content = [{"type": "Text", "text": item_text(item)}]
            return {"type": "AgentMessage", "id": item_id, "content": content, "phase": item.get("phase")}
        case "reasoning":
            summary = [part.get("text", "") for part in item.get("summary") or ()]
            raw = [part.get("text", "") for part in item.get("content") or ()]
            return {"type": "Reasoning", "id": item_id, "summary_text": summary, "raw_content": raw}
        case _:
            return None


class CallEvents:
    """What people see of one call. That it is over is held back until its answer is recorded."""

    def __init__(self, emit: Callable[[Msg], None]) -> None:
        self._emit = emit
        self._held: list[Msg] = []
        self._is_recorded = False
        self._is_seen = False

    def emit(self, msg: Msg) -> None:
        self._is_seen = True
        if msg.ends_call and not self._is_recorded:
            self._held.append(msg)
            return
        # It goes on after all: a command is to be run again, say, and a person is asked about it.
        self._let_go()
        self._emit(msg)

    def failed(self, call_id: str, tool: str, reason: str) -> None:
        """The model is told why. If nothing of the call was shown, a person would wonder at its next step."""
        if not self._is_seen:
            from spindle.protocol.failed_calls import ToolCallFailed  # with the first call that fails

            self.emit(ToolCallFailed(call_id=call_id, tool=tool, message=reason))

    def recorded(self) -> None:
        """The answer is recorded. From now on, what the call still says (a command may outlive it) is shown at once."""
        self._is_recorded = True
        self._let_go()

    def _let_go(self) -> None:
        held, self._held = self._held, []
        for msg in held:
            self._emit(msg)
