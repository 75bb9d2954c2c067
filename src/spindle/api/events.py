"""Events of a turn, as the Python API shows them: protocol v1 → frozen records with a `type`.

The last one of a turn is exactly one of `turn.completed`, `turn.interrupted` and `turn.failed`.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from spindle.api.shown import Item, Shown, TurnError, Usage, shown_item
from spindle.api.thread_items import ThreadItems
from spindle.errors import kind_of
from spindle.protocol import events as v1
from spindle.protocol.events import Msg

if TYPE_CHECKING:
    from spindle.api.agent_events import AgentTranslator


class BaseEvent(Shown, frozen=True, kw_only=True):
    """Base of all events."""

    type: str
    thread_id: str
    turn_id: str
    raw: dict[str, Any]
    """The message of protocol v1 behind it."""


class ThreadStarted(BaseEvent, frozen=True, kw_only=True):
    """The thread is open. Once, in the first turn of a thread that was opened here."""

    type: Literal["thread.started"] = "thread.started"


class TurnStarted(BaseEvent, frozen=True, kw_only=True):
    """The turn began."""

    type: Literal["turn.started"] = "turn.started"


class ItemEvent(BaseEvent, frozen=True, kw_only=True):
    """Base of the events about an item."""

    item: Item


class ItemStarted(ItemEvent, frozen=True, kw_only=True):
    """An item appeared."""

    type: Literal["item.started"] = "item.started"


class ItemUpdated(ItemEvent, frozen=True, kw_only=True):
    """An item changed."""

    type: Literal["item.updated"] = "item.updated"


class ItemCompleted(ItemEvent, frozen=True, kw_only=True):
    """An item is final."""

    type: Literal["item.completed"] = "item.completed"


class ItemDelta(BaseEvent, frozen=True, kw_only=True):
    """A piece of an item, while it streams. Joined, the pieces of a text are the item's text."""

    type: Literal["item.delta"] = "item.delta"
    item_id: str
    kind: Literal["text", "reasoning", "plan", "output"]
    delta: str


class UsageUpdated(BaseEvent, frozen=True, kw_only=True):
    """A response was counted."""

    type: Literal["usage.updated"] = "usage.updated"
    usage: Usage
    """What this response cost."""
    thread_usage: Usage
    """What the thread has cost so far."""


class DiffUpdated(BaseEvent, frozen=True, kw_only=True):
    """What the turn's patches changed so far."""

    type: Literal["diff.updated"] = "diff.updated"
    diff: str
    """Git-style, over all files."""


class ApprovalRequested(BaseEvent, frozen=True, kw_only=True):
    """`on_approval` is being asked."""

    type: Literal["approval.requested"] = "approval.requested"
    call_id: str
    kind: Literal["command", "patch", "tool", "mcp"]


class ApprovalResolved(BaseEvent, frozen=True, kw_only=True):
    """`on_approval` has answered."""

    type: Literal["approval.resolved"] = "approval.resolved"
    call_id: str
    decision: str


class QuestionRequested(BaseEvent, frozen=True, kw_only=True):
    """`on_question` is being asked."""

    type: Literal["question.requested"] = "question.requested"
    call_id: str
    questions: list[dict[str, Any]]


class AgentEvent(BaseEvent, frozen=True, kw_only=True):
    """Something a sub-agent did."""

    type: Literal["agent.event"] = "agent.event"
    agent_id: str
    """The sub-agent's thread."""
    event: Event
    """What it did: an event of its own thread and turn."""


class WarningEvent(BaseEvent, frozen=True, kw_only=True):
    """Something a person should know; the work goes on."""

    type: Literal["warning"] = "warning"
    message: str


class ErrorEvent(BaseEvent, frozen=True, kw_only=True):
    """The model's answer broke off and is asked for again."""

    type: Literal["error"] = "error"
    message: str
    info: str


class TurnCompleted(BaseEvent, frozen=True, kw_only=True):
    """The turn ended well."""

    type: Literal["turn.completed"] = "turn.completed"
    usage: Usage
    """What the turn cost."""


class TurnInterrupted(BaseEvent, frozen=True, kw_only=True):
    """The turn was stopped."""

    type: Literal["turn.interrupted"] = "turn.interrupted"


class TurnFailedEvent(BaseEvent, frozen=True, kw_only=True):
    """The turn failed."""

    type: Literal["turn.failed"] = "turn.failed"
    error: TurnError


Event = (
    ThreadStarted
    | TurnStarted
    | ItemStarted
    | ItemUpdated
    | ItemCompleted
    | ItemDelta
    | UsageUpdated
    | DiffUpdated
    | ApprovalRequested
    | ApprovalResolved
    | QuestionRequested
    | AgentEvent
    | WarningEvent
    | ErrorEvent
    | TurnCompleted
    | TurnInterrupted
    | TurnFailedEvent
)
"""Something that happened. A program skips the types it does not know: new ones may come with any release."""

_ITEM_EVENTS: dict[str, type[ItemStarted | ItemUpdated | ItemCompleted]] = {
    "item.started": ItemStarted,
    "item.updated": ItemUpdated,
    "item.completed": ItemCompleted,
}
TERMINAL = (TurnCompleted, TurnInterrupted, TurnFailedEvent)


def usage_of(counts: dict[str, Any]) -> Usage:
    return Usage(**{name: int(counts.get(name) or 0) for name in Usage.__struct_fields__})


class EventTranslator:
    """The events of one turn, in the order in which they are read. Keeps what has streamed so far."""

    def __init__(self, thread_id: str, turn_id: str, first_number: int) -> None:
        self._ids = {"thread_id": thread_id, "turn_id": turn_id}
        self._items = ThreadItems(first_number)
        self._streamed: dict[str, list[str]] = {}
        """The pieces of each message so far, by its number."""
        self._has_begun = False
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}
        """Output comes in pieces of bytes, which may end within a character."""
        self._failure: TurnError | None = None
        self._agents: dict[str, AgentTranslator] = {}

    def events(self, msg: Msg, usage: Usage) -> list[Event]:
        """What one message says; `usage` is what the turn has cost so far."""
        here: dict[str, Any] = {**self._ids, "raw": msgspec.to_builtins(msg)}
        if here["raw"]["type"] == "collab_agent_event":
            return self._of_agent(here)
        found: list[Event] = []
        for step, item in self._items.steps(msg):
            if step == "item.completed" and item["type"] in ("agent_message", "plan"):
                found += self._rest_of_text(item, here)
            found.append(_ITEM_EVENTS[step](item=shown_item(item), **here))
        if (event := self._delta(msg, here) or self._other(msg, here, usage)) is not None:
            found.append(event)
        return found

    def _delta(self, msg: Msg, here: dict[str, Any]) -> ItemDelta | None:
        match msg:
            case v1.AgentMessageContentDelta(item_id=item_id, delta=delta):
                return self._text_delta(self._items.number_of(item_id), "text", delta, here)
            case v1.ReasoningContentDelta(item_id=item_id, delta=delta):
                return ItemDelta(item_id=self._items.number_of(item_id), kind="reasoning", delta=delta, **here)
            case v1.ExecCommandOutputDelta(call_id=call_id, chunk=chunk):
                if call_id not in self._decoders:
                    self._decoders[call_id] = codecs.getincrementaldecoder("utf-8")("replace")
                text = self._decoders[call_id].decode(chunk)
                number = self._items.number_of_call(call_id)
                return ItemDelta(item_id=number, kind="output", delta=text, **here) if text else None
            case _ if msg.__struct_config__.tag == "plan_delta":
                number = self._items.number_of(str(here["raw"]["item_id"]))
                return self._text_delta(number, "plan", str(here["raw"]["delta"]), here)
            case _:
                return None

    def _text_delta(self, number: str, kind: Literal["text", "plan"], delta: str, here: dict[str, Any]) -> ItemDelta:
        self._streamed.setdefault(number, []).append(delta)
        return ItemDelta(item_id=number, kind=kind, delta=delta, **here)

    def _rest_of_text(self, item: dict[str, Any], here: dict[str, Any]) -> list[ItemDelta]:
        """What never streamed: a server may send only finished messages."""
        text, streamed = item["text"], "".join(self._streamed.pop(item["id"], ()))
        if text == streamed or not text.startswith(streamed):
            return []
        kind: Literal["text", "plan"] = "plan" if item["type"] == "plan" else "text"
        return [ItemDelta(item_id=item["id"], kind=kind, delta=text[len(streamed) :], **here)]

    def _other(self, msg: Msg, here: dict[str, Any], usage: Usage) -> Event | None:
        match msg:
            case v1.SessionConfigured():
                return ThreadStarted(**here)
            case v1.TaskStarted():
                # What was steered in at the last moment goes on in a turn of its own; to the reader it is the same one.
                is_first, self._has_begun = not self._has_begun, True
                return TurnStarted(**here) if is_first else None
            case v1.TokenCount(info=dict(info)):
                return UsageUpdated(
                    usage=usage_of(info["last_token_usage"]), thread_usage=usage_of(info["total_token_usage"]), **here
                )
            case v1.TurnDiff(unified_diff=diff):
                return DiffUpdated(diff=diff, **here)
            case v1.ExecApprovalRequest(call_id=call_id):
                return ApprovalRequested(call_id=call_id, kind="command", **here)
            case v1.ApplyPatchApprovalRequest(call_id=call_id):
                return ApprovalRequested(call_id=call_id, kind="patch", **here)
            case v1.Warning(message=message):
                return WarningEvent(message=message, **here)
            case v1.HookCompleted(run=run):
                texts = [entry["text"] for entry in run["entries"] if entry["kind"] in ("warning", "error")]
                what = f"{run['event_name']} hook {run['source_path']}"
                return WarningEvent(message=f"{what}: {'; '.join(texts)}", **here) if texts else None
            case v1.StreamError(message=message, codex_error_info=info):
                return ErrorEvent(message=message, info=kind_of(info), **here)
            case v1.Error(message=message, codex_error_info=info, budget=budget):
                spent = budget if isinstance(budget, dict) else None
                self._failure = TurnError(message=message, info=kind_of(info), budget=spent)
                return None
            case v1.TaskComplete() if self._failure is not None:
                return TurnFailedEvent(error=self._failure, **here)
            case v1.TaskComplete():
                return TurnCompleted(usage=usage, **here)
            case v1.TurnAborted():
                return TurnInterrupted(**here)
            case _:
                return self._of_others(here)

    def _of_agent(self, here: dict[str, Any]) -> list[Event]:
        from spindle.api.agent_events import AgentTranslator  # with the first sub-agent

        agent_id = here["raw"]["thread_id"]
        if agent_id not in self._agents:
            self._agents[agent_id] = AgentTranslator(agent_id)
        inner = self._agents[agent_id].events(here["raw"]["msg"])
        return [AgentEvent(agent_id=agent_id, event=event, **here) for event in inner]

    @property
    def next_number(self) -> int:
        """Of the next item."""
        return self._items.next_number

    def _of_others(self, here: dict[str, Any]) -> Event | None:
        """Messages whose modules are loaded only where there is a use for them."""
        match here["raw"]:
            case {"type": "request_user_input", "call_id": str(call_id), "questions": list(questions)}:
                return QuestionRequested(call_id=call_id, questions=questions, **here)
            case {"type": "elicitation_request", "call_id": str(call_id), "server_name": str(server)} as raw:
                call_id = (call_id if raw.get("thread_id") is None else None) or raw["id"]  # as in `requests`
                return ApprovalRequested(call_id=call_id, kind="mcp" if server else "tool", **here)
            case {"type": "approval_resolved", "call_id": str(call_id), "decision": str(decision)}:
                return ApprovalResolved(call_id=call_id, decision=decision, **here)
            case _:
                return None
