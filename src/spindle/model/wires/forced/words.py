"""A thread as the model inside is shown it: its own answers in the form that the grammar makes it write."""

from __future__ import annotations

import os
from functools import cache

from spindle.model.text_calls.protocol import ToolsInWords
from spindle.model.wires.forced.steps import ANSWER, ARGUMENTS, NAME, brief
from spindle.model.wires.forced.writing import PATCH, WRITE, with_writing, written
from spindle.model.wires.functions import FunctionTool, function_tools
from spindle.model.wires.item_parts import call_arguments, call_name
from spindle.protocol.items import Item, assistant_message, encode_payload, item_text

_TASK_CHARS = 300
_REMINDER = "If all of it is done, give the final answer; else make the next call."


class StepsInWords(ToolsInWords):
    """Calls and answers are objects, as `steps` says."""

    def __init__(self) -> None:
        super().__init__()
        self._task = ""

    def restart(self) -> None:
        super().restart()
        self._task = ""

    def listed(self, tools: bytes) -> list[FunctionTool]:
        return [brief(tool) for tool in with_writing(function_tools(tools))]

    @property
    def form(self) -> str:
        return _form()

    def call_text(self, call: Item) -> str:
        name, arguments = call_name(call), call_arguments(call)
        if name == PATCH and (as_written := written(call)) is not None:
            name, arguments = WRITE, as_written
        named = encode_payload({NAME: name})[:-1].decode()
        return f'{named},"{ARGUMENTS}":{arguments}}}'

    def result(self, output: Item, tool: str) -> Item:
        """With the task behind it: a small model has forgotten that by the time it has read what a tool printed."""
        message = super().result(output, tool)
        task = f"The task: {self._task}\n" if self._task else ""
        message["content"][0]["text"] += f"\n{task}{_REMINDER}"
        return message

    def message(self, item: Item) -> Item:
        said = item_text(item)
        match item.get("role"):
            case "user":
                self._task = said if len(said) <= _TASK_CHARS else said[:_TASK_CHARS] + "…"
            case "assistant" if said:
                return assistant_message(encode_payload({ANSWER: said}).decode())
            case _:
                pass
        return item


@cache
def _form() -> str:
    with open(f"{os.path.dirname(__file__)}/form.md", encoding="utf-8") as file:
        return file.read().rstrip()
