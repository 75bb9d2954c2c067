"""What servers without a form for it are sent of a message that a program brought."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spindle.context.external import NOT_OF_PERSON
from spindle.context.visible import Audience, VisibleFold
from spindle.model.text_calls.protocol import ToolsInWords
from spindle.model.wires.chat.wire import ChatWire
from spindle.model.wires.messages.wire import MessagesWire
from spindle.model.wires.wire import Wire
from spindle.protocol.items import Item, item_text, user_message
from spindle.thread.entry import Entry
from wire_rules import chat_prefix, chat_problems, messages_prefix, messages_problems
from wires import asks, call, output, terms

PROBLEMS = {"chat": chat_problems, "messages": messages_problems}
PREFIX = {"chat": chat_prefix, "messages": messages_prefix}
SAID = f'<external_message tool="ci">\n{NOT_OF_PERSON}\n\nred\n</external_message>'


def brought(output: Any = "red") -> Item:
    return {"type": "function_call_output", "id": "fco_1", "name": "ci", "output": output}


@pytest.mark.parametrize("kind", [ChatWire, MessagesWire])
def test_every_wire_takes_it_at_every_place_and_keeps_what_it_sent(kind: type[Wire]) -> None:
    thread = [brought(), call("a"), output("a"), brought(), user_message("go"), call("b"), output("b"), brought([])]
    wire, fold = kind(), VisibleFold(Audience(wire=kind().name))
    before: Any = None
    for end in (1, 4, 5, 8):
        shown = fold.update([Entry.of(item) for item in thread[:end]], 0)
        body = json.loads(bytes(wire.encode(asks(shown), terms(wire.name))))
        assert PROBLEMS[wire.name](body) == []
        if before is not None:
            begun = PREFIX[wire.name](before)
            assert PREFIX[wire.name](body)[: len(begun)] == begun
        before = body
    told = json.dumps(before["messages"])
    assert told.count(json.dumps(SAID)[1:-1]) == 2 and told.count("(no text)") == 1


def test_where_tools_are_told_in_words_it_is_a_message_too() -> None:
    (told,) = ToolsInWords().apply(asks([brought()])).items
    assert told.item == user_message(SAID) and item_text(told.item) == SAID
