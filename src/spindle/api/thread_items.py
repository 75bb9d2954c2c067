"""All items of a turn, also those that `exec --json` does not print: messages while they stream, input, plans. Pure."""

from __future__ import annotations

from typing import Any

from spindle.api.items import Item, ItemTranslator, Step
from spindle.protocol.events import ItemCompleted, ItemStarted, Msg, ReasoningContentDelta, TurnAborted
from spindle.protocol.items import name_of_external

_STREAMED = {"AgentMessage": "agent_message", "Plan": "plan"}


class ThreadItems(ItemTranslator):
    """Shows an item from its beginning, so that the pieces of its text have something to belong to."""

    def __init__(self, first_number: int = 0) -> None:
        super().__init__(first_number=first_number)
        self._streaming: dict[str, str] = {}
        """The number of each message that has begun, by the id that the model server gave it."""
        self._functions: dict[str, Item] = {}
        """Calls of Python functions that run."""

    def steps(self, msg: Msg) -> list[Step]:
        """What an event says about items; many events say nothing."""
        match msg:
            case ItemStarted(item={"type": kind} as shown) if kind in _STREAMED:
                return [self._begin(str(shown.get("id")), _STREAMED[kind])]
            case ItemStarted(item={"type": "Reasoning"} as shown):
                # Shown with its first words: much reasoning has no summary.
                self._streaming.pop(str(shown.get("id")), None)
                return []
            case ReasoningContentDelta(item_id=item_id) if item_id not in self._streaming:
                return [self._begin(item_id, "reasoning")]
            case ItemCompleted(item={"type": "AgentMessage", "phase": str(phase)}):
                return [(step, {**item, "phase": phase}) for step, item in super().steps(msg)]
            case ItemCompleted(item={"type": "Plan", "text": text} as shown):
                return [("item.completed", {"id": self._id_of_shown(shown), "type": "plan", "text": text})]
            case ItemCompleted(item={"type": "UserMessage", "content": content}):
                return [("item.completed", user_message(self.new_id(), content))]
            case ItemCompleted(item={"type": "FunctionCallOutput", "name": str()} as shown):
                return [("item.completed", external_message(self.new_id(), shown))]
            case TurnAborted():
                return self.close_open()
            case _:
                return super().steps(msg) or self._of_functions(msg)

    def _of_functions(self, msg: Msg) -> list[Step]:
        """Calls of Python functions, whose events are loaded with them."""
        if not str(msg.__struct_config__.tag).startswith("python_tool_call_"):
            return []
        from spindle.api.tool_items import function_call_step  # with the first call

        return [function_call_step(msg, self._id, self._functions)]

    def _begin(self, item_id: str, kind: str) -> Step:
        """A server may use an id twice, as when an answer broke off and came again: each beginning is a new item."""
        number = self._streaming[item_id] = self.new_id()
        return "item.started", {"id": number, "type": kind, "text": ""}

    def number_of(self, item_id: str) -> str:
        """The number of a message that streams."""
        return self._streaming.get(item_id) or self._id(item_id)

    def number_of_call(self, call_id: str) -> str:
        return self._id(call_id)

    def _id_of_shown(self, shown: dict[str, Any]) -> str:
        return self._streaming.pop(str(shown.get("id")), None) or self.new_id()


def external_message(number: str, shown: dict[str, Any]) -> Item:
    """The item of what a program brought."""
    from spindle.context.external import shown_text  # few threads have one

    return {"id": number, "type": "external_message", "tool": name_of_external(shown), "text": shown_text(shown)}


def user_message(number: str, content: list[dict[str, Any]]) -> Item:
    """The item of an input."""
    texts = [part["text"] for part in content if part.get("type") == "text" and isinstance(part.get("text"), str)]
    images = [
        str(part.get("image_url") or part.get("url") or part.get("path"))
        for part in content
        if part.get("type") in ("image", "local_image")
    ]
    return {"id": number, "type": "user_message", "text": "\n".join(texts), "images": images}
