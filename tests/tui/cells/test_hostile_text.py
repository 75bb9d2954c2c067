"""Whatever an event quotes from outside: no character of it that drives a terminal is in any line."""

from __future__ import annotations

import re
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messages import every_kind
from spindle.frontends.tui.shown import Line
from spindle.protocol.events import Duration, Event, Msg
from tui.cells.told import CWD, Told, begin, delta, end, printed, said
from tui.cells.told import item as completed

EVIL = "a\x1b]52;c;eA==\x07\x1b[2Jb\x9b31mc\u202ed\r\u2066e\x00f\ng\u2028h\ud800i\x1bP1q\x1b\\"
FORBIDDEN = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""All that drives a terminal, ends a line or turns its direction; a tab is expanded by the layout."""


def check(lines: list[Line]) -> None:
    for shown in lines:
        for span in (*shown.spans, *shown.hang):
            assert not FORBIDDEN.search(span.text), span


def check_all(told: Told) -> None:
    for width in (80, 20):
        check(told.conversation.live(width, 50))
        check(told.conversation.take_finished(width))
        check(list(told.conversation.transcript(width)))
    activity = told.conversation.activity
    if activity is not None:
        assert not FORBIDDEN.search(activity.what + activity.retry)
    for text in (*told.conversation.warnings, *told.conversation.servers.values()):
        assert not FORBIDDEN.search(text)


KEYS = (
    *(
        "type",
        "text",
        "command",
        "content",
        "message",
        "server",
        "tool",
        "arguments",
        "status",
        "question",
        "id",
        "plan",
    ),
    *("step", "summary_text", "raw_content", "error", "state", "event_name", "entries", "kind", "cmd", "path", "query"),
)


def evil(hint: Any) -> Any:
    """A value of the type that is full of it."""
    if hint is Duration:
        return Duration(1, 0)
    nested: dict[str, Any] = dict.fromkeys(KEYS, "x")
    candidates: tuple[Any, ...] = ("x", b"x", ["x"], [nested], nested, {"x": nested}, {"x": "x"}, 1, True)
    for value in candidates:
        try:
            if msgspec.convert(value, hint) == value:
                return worse(value)
        except msgspec.ValidationError:
            continue
    return next((evil(part) for part in get_args(hint) if part is not type(None)), None)


def worse(value: Any) -> Any:
    match value:
        case "x":
            return EVIL
        case b"x":
            return EVIL.encode("utf-8", "replace")
        case [*parts]:
            return [worse(part) for part in parts]
        case dict():
            return {worse(key): worse(part) for key, part in value.items()}
        case _:
            return value


@pytest.mark.parametrize("kind", every_kind(), ids=lambda kind: str(kind.__struct_config__.tag))
def test_no_kind_of_event_can_drive_the_terminal(kind: type[Msg]) -> None:
    hints = get_type_hints(kind)
    fields = {field.name: evil(hints[field.name]) for field in msgspec.structs.fields(kind)}
    told = Told()
    told.begin_turn()
    told.conversation.take(Event("t1", kind(**fields)))
    check_all(told)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "AgentMessage", "content": [{"text": EVIL}]},
        {"type": "Plan", "text": EVIL},
        {"type": "Reasoning", "summary_text": [EVIL], "raw_content": [EVIL]},
    ],
    ids=lambda item: item["type"],
)
def test_no_item_can_drive_the_terminal(item: dict[str, Any]) -> None:
    told = Told(shows_raw_reasoning=True)
    told.begin_turn()
    told.take(completed(item["type"], EVIL, **{key: value for key, value in item.items() if key != "type"}))
    check_all(told)


pieces = st.text(st.characters(codec=None), max_size=30) | st.sampled_from(
    (EVIL, "\x1b[", "\r", "```\n", "**", "| a |\n")
)


@settings(max_examples=60, deadline=None)
@given(st.lists(pieces, max_size=8))
def test_streams_of_anything_are_harmless_and_whole(texts: list[str]) -> None:
    told = Told()
    told.begin_turn()
    told.take(begin("".join(texts) or "x", cwd=CWD + EVIL))
    for text in texts:
        told.take(delta(text), printed(text.encode("utf-8", "replace")))
        check(told.conversation.live(40, 20))
    told.conversation.take(Event("t1", said("".join(texts))))
    told.conversation.take(Event("t1", end("x", "".join(texts), 1)))
    check_all(told)
