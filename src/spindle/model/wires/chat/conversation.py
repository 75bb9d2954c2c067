"""Items of a thread as the messages of a Chat Completions body, item by item.

What a model said in one answer is one message, with its calls; the results follow directly, in the order of the calls.
A message is closed when nothing that comes later can change it, and closed messages never change: so the conversation
of a request begins with that of the request before, byte for byte.
"""

from __future__ import annotations

from typing import Any

from spindle.context.visible import ABORTED
from spindle.model.call_ids import SentIds
from spindle.model.wires.item_parts import (
    CONTINUE,
    CONTINUED,
    NO_OUTPUT,
    call_arguments,
    call_name,
    developer_block,
    picture_url,
    pictures_of,
    reasoning_text,
    texts_of,
)
from spindle.protocol.items import Item, Part, call_id_of, encode_payload, is_call, is_output

PICTURE_BELOW = "(picture below)"
REASONING_LOST = "(not available)"
"""What a server that insists on its reasoning gets with calls that another model made."""


def user_message(content: str | list[Part]) -> bytes:
    return encode_payload({"role": "user", "content": content})


class Conversation:
    """The messages behind the system text, as far as the thread has come."""

    def __init__(self, *, replays_reasoning: bool = False) -> None:
        self.lead: list[str] = []
        """What the developer said before the first person did: it belongs to the system text."""
        self._closed: list[bytes] = []
        self._replays_reasoning = replays_reasoning
        self._ids = SentIds()
        self._answer = _Answer()
        self._has_led = False
        """A person has spoken, or was meant to."""
        self._has_user = False
        """There is a message in a person's role."""

    @property
    def messages(self) -> list[bytes]:
        """All of them, as a request needs them now: a person's last, and every call answered."""
        unfinished = self._answer.messages(self._replays_reasoning)
        if unfinished and not self._answer.calls:
            unfinished.append(user_message(CONTINUE))
        elif not self._has_user:
            return [user_message(CONTINUED), *self._closed, *unfinished]
        return [*self._closed, *unfinished]

    def take(self, item: Item) -> None:
        """The next item of the thread. Kinds that this wire has no place for are passed over."""
        if item.get("type") == "message":
            self._take_message(item)
        elif is_call(item):
            self._answer.call(item, self._ids.of_call(call_id_of(item)))
        elif is_output(item):
            if self._answer.answer(self._ids.of_output(call_id_of(item)), item.get("output")):
                self._close()
        elif item.get("type") == "reasoning" and (thought := reasoning_text(item)):
            self._answer.reasoning.append(thought)

    def _take_message(self, item: Item) -> None:
        texts = texts_of(item.get("content"))
        match item.get("role"):
            case "assistant":
                self._answer.texts += texts
            case "developer" if not self._has_led:
                self.lead += texts
            case "developer":
                self._say(developer_block("\n\n".join(texts)) if texts else "")
            case _:
                self._has_led = True
                pictures = pictures_of(item.get("content"))
                self._say(_mixed(item["content"]) if pictures else "\n\n".join(texts))

    def _say(self, content: str | list[Part]) -> None:
        """A message in a person's role; none if there is nothing to say."""
        if content:
            self._close()
            self._closed.append(user_message(content))
            self._has_user = True

    def _close(self) -> None:
        self._closed += self._answer.messages(self._replays_reasoning)
        self._answer = _Answer()


class _Answer:
    """What a model said in one answer, and what its calls gave."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self._outputs: dict[str, Any] = {}
        self._waiting: set[str] = set()

    def call(self, item: Item, call_id: str) -> None:
        function = {"name": call_name(item), "arguments": call_arguments(item)}
        self.calls.append({"id": call_id, "type": "function", "function": function})
        self._waiting.add(call_id)

    def answer(self, call_id: str, output: Any) -> bool:
        """What a call gave. True when it was the last that waited: what comes next is another answer."""
        if call_id not in self._waiting:
            return False  # nobody asked, or it comes too late
        self._waiting.remove(call_id)
        self._outputs[call_id] = output
        return not self._waiting

    def messages(self, replays_reasoning: bool) -> list[bytes]:
        """One message of the model's, one for each result, and one with the pictures that results held."""
        if not self.texts and not self.calls:
            return []
        said: dict[str, Any] = {"role": "assistant", "content": "\n\n".join(self.texts) or None}
        if replays_reasoning and (self.reasoning or self.calls):
            said["reasoning_content"] = "\n\n".join(self.reasoning) or REASONING_LOST
        if self.calls:
            said["tool_calls"] = self.calls
        results = [(call["id"], self._outputs.get(call["id"], ABORTED)) for call in self.calls]
        told = [{"role": "tool", "tool_call_id": call_id, "content": _result(output)} for call_id, output in results]
        pictures = [_picture(url) for _, output in results for url in pictures_of(output)]
        shown = [{"role": "user", "content": pictures}] if pictures else []
        return [encode_payload(message) for message in (said, *told, *shown)]


def _result(output: Any) -> str:
    """What a tool gave, as text; pictures have a message of their own."""
    texts = texts_of(output)
    if pictures_of(output):
        texts.append(PICTURE_BELOW)
    return "\n".join(texts) or NO_OUTPUT


def _mixed(parts: list[Any]) -> list[Part]:
    """Texts and pictures, in their order."""
    mixed: list[Part] = []
    for part in parts:
        if (url := picture_url(part)) is not None:
            mixed.append(_picture(url))
        else:
            mixed += ({"type": "text", "text": text} for text in texts_of([part]))
    return mixed


def _picture(url: str) -> Part:
    return {"type": "image_url", "image_url": {"url": url}}
