"""A thread as the model inside is shown it: its own answers in the form that the grammar makes it write."""

from __future__ import annotations

import os
from functools import cache

from spindle.model.text_calls.protocol import ToolsInWords
from spindle.model.wires.forced.steps import ANSWER, ARGUMENTS, NAME
from spindle.model.wires.item_parts import call_arguments, call_name
from spindle.protocol.items import Item, assistant_message, encode_payload, item_text


class StepsInWords(ToolsInWords):
    """Calls and answers are objects, as `steps` says."""

    @property
    def form(self) -> str:
        return _form()

    def call_text(self, call: Item) -> str:
        named = encode_payload({NAME: call_name(call)})[:-1].decode()
        return f'{named},"{ARGUMENTS}":{call_arguments(call)}}}'

    def message(self, item: Item) -> Item:
        if item.get("role") != "assistant" or not (said := item_text(item)):
            return item
        return assistant_message(encode_payload({ANSWER: said}).decode())


@cache
def _form() -> str:
    with open(f"{os.path.dirname(__file__)}/form.md", encoding="utf-8") as file:
        return file.read().rstrip()
