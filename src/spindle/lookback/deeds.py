"""What the answers of a recorded thread did, and which turn they belong to: prompts, calls and how they ended."""

from __future__ import annotations

import msgspec

from spindle.context.calls import (
    arguments_of,
    command_of,
    exit_code_of,
    has_patched,
    output_text,
    patched_files,
    tool_of,
)
from spindle.lookback.report import Deed, TurnReport
from spindle.protocol.items import Item, call_id_of, is_call, is_output, item_text, said_text
from spindle.thread.entry import Record

_LONGEST = 400
"""How many characters of a command, a prompt or a message the report holds; the record has all of it."""
_SUBJECTS = ("path", "query", "pattern", "file_path", "url")
"""Arguments that tell what a call of a tool was about."""


class Answers:
    """The items a model wrote, request by request. How a call ended is known later than the request it belongs to."""

    def __init__(self) -> None:
        self._open: list[Item] = []
        self._outputs: dict[str, Item] = {}
        self._requests: list[list[Item]] = []

    def take(self, item: Item) -> None:
        if is_output(item):
            self._outputs.setdefault(call_id_of(item), item)
        else:
            self._open.append(item)

    def close_request(self) -> None:
        """What came since the last request is the answer to this one."""
        self._requests.append(self._open)
        self._open = []

    def deeds(self) -> list[tuple[Deed, ...]]:
        """What each request did, in the order of its answer; thinking is not listed."""
        return [tuple(deed for item in items if (deed := self._deed(item)) is not None) for items in self._requests]

    def _deed(self, item: Item) -> Deed | None:
        if item.get("type") == "message":
            text = item_text(item)
            return Deed(kind="message", text=_start(text), is_done=True) if text.strip() else None
        if item.get("type") == "web_search_call":
            action = item.get("action")
            query = action.get("query") if isinstance(action, dict) else None
            return Deed(kind="search", text=_start(query) if isinstance(query, str) else "", is_done=True)
        return self._call(item) if is_call(item) else None

    def _call(self, call: Item) -> Deed:
        output = self._outputs.get(call_id_of(call))
        if files := patched_files(call):
            names = ", ".join(file.path for file in files)
            return Deed(kind="patch", text=_start(names), is_done=None if output is None else has_patched(output))
        if (command := command_of(call)) is not None:
            code = None if output is None else exit_code_of(output_text(output))
            is_done = None if output is None else code in (0, None)
            return Deed(kind="command", text=_start(command[0]), is_done=is_done, exit_code=code)
        arguments = arguments_of(call)
        subject = next((value for name in _SUBJECTS if isinstance(value := arguments.get(name), str)), "")
        return Deed(kind="tool", tool=tool_of(call), text=_start(subject), is_done=None if output is None else True)


class Turns:
    """The turns of a record. A message that joins a running turn begins none: only its turn's id tells that."""

    def __init__(self) -> None:
        self.found: list[TurnReport] = []
        self._said: list[str] = []
        self._at = ""
        self._id = ""
        self._open_id: str | None = None

    def take_input(self, item: Item, at: str) -> None:
        self._at = self._at if self._said else at
        self._said.append(_start(said_text(item)) or "[no words, only pictures]")

    def take_id(self, turn_id: str) -> None:
        self._id = turn_id

    def note_request(self, number: int) -> int:
        """The number of the turn that a request belongs to."""
        is_same = self._open_id is not None and self._open_id == self._id != ""
        if (self._said and not is_same) or not self.found:
            self._begin(number)
        self._said = []
        return len(self.found)

    def note_end(self, end: str, next_request: int) -> None:
        if self._said and self._open_id != (self._id or None):
            self._begin(next_request)  # it failed before there was any answer
            self._said = []
        if self.found and not self.found[-1].end:
            self.found[-1] = msgspec.structs.replace(self.found[-1], end=end)

    def _begin(self, number: int) -> None:
        prompt = "\n".join(self._said)
        self.found.append(TurnReport(number=len(self.found) + 1, at=self._at, prompt=prompt, first_request=number))
        self._open_id = self._id or None


def _start(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def is_answer(item: Item) -> bool:
    """Something that only a model writes."""
    kind = item.get("type")
    return kind in ("reasoning", "web_search_call") or is_call(item) or item.get("role") == "assistant"


def is_count(record: Record) -> bool:
    """The server told how many tokens a request took."""
    return record.kind == "event_msg" and b'"token_count"' in record.raw[:40]
