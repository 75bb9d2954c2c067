"""Forms of MCP servers, as a person fills them in."""

from __future__ import annotations

from typing import Any

import pytest

from spindle.frontends.tui.views.form import FormView
from spindle.protocol.ops import ResolveElicitation
from spindle.protocol.tool_servers import ElicitationRequest
from tui.hands import OPEN, answer, press, shown, write


def form(properties: dict[str, Any] | None = None, required: list[str] | None = None) -> FormView:
    schema = None if properties is None else {"type": "object", "properties": properties, "required": required or []}
    return FormView(
        ElicitationRequest(server_name="shop", id="r1", message="Your order, please.", requested_schema=schema)
    )


def told(decision: str, content: dict[str, Any] | None = None) -> ResolveElicitation:
    return ResolveElicitation(server_name="shop", request_id="r1", decision=decision, content=content)


async def test_a_form_is_filled_in_field_by_field_and_looked_at_before_it_is_sent() -> None:
    view = form(
        {
            "name": {"type": "string", "title": "Your name", "description": "as on the letter box"},
            "count": {"type": "integer", "minimum": 1, "maximum": 9},
            "gift": {"type": "boolean", "default": False},
            "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["small", "medium"]},
        },
        ["name", "count", "size"],
    )
    assert view.guards_typing
    seen = shown(view)
    assert seen[:4] == ["The MCP server shop asks:", "Your order, please.", "", "Your name"]
    assert "as on the letter box" in seen and "1 of 4 · needed" in seen
    press(view, "enter")
    assert "■ this is needed" in shown(view)
    write(view, "Ada L")
    seen, (row, column) = shown(view), view.cursor() or (0, 0)
    assert seen[row] == "> Ada L" and column == len("> Ada L")
    press(view, "enter")
    write(view, "many")
    press(view, "enter")
    assert "■ a whole number, please" in shown(view)
    press(view, "ctrl-u")
    write(view, "12")
    press(view, "enter")
    assert "■ not more than 9" in shown(view)
    press(view, "backspace", "backspace", "3", "enter")
    assert "› 2. no (current)" in shown(view) and "  3. (leave it empty)" in shown(view)
    press(view, "1")
    press(view, "2")
    seen = shown(view)
    for text in (
        "Send this?",
        "Your name: Ada L",
        "count: 3",
        "gift: yes",
        "size: medium",
        "› 1. Yes, send it to shop",
    ):
        assert text in seen, seen
    assert answer(view) == OPEN
    press(view, "enter")
    assert answer(view) == told("accept", {"name": "Ada L", "count": 3, "gift": True, "size": "m"})


async def test_what_was_entered_can_be_changed_before_it_is_sent() -> None:
    view = form({"a": {"type": "string"}, "b": {"type": "string"}})
    write(view, "x")
    press(view, "enter")
    press(view, "shift-tab")
    write(view, "y")
    press(view, "enter", "enter")
    assert "a: xy" in shown(view) and "b: (empty)" in shown(view)
    press(view, "2")
    press(view, "ctrl-u", "enter", "z", "enter", "1")
    assert answer(view) == told("accept", {"b": "z"})


@pytest.mark.parametrize(
    ("keys", "decision"), [(("esc",), "cancel"), (("ctrl-c",), "cancel"), (("enter", "3"), "decline")]
)
async def test_a_form_can_be_left(keys: tuple[str, ...], decision: str) -> None:
    view = form({"a": {"type": "string"}})
    write(view, "x")
    press(view, *keys)
    assert answer(view) == told(decision)


async def test_a_question_without_fields_is_a_yes_or_a_no() -> None:
    view = form()
    seen = shown(view)
    assert seen[:2] == ["The MCP server shop asks:", "Your order, please."]
    press(view, "1")
    assert answer(view) == told("accept", {})
    view = form({})
    press(view, "2")
    assert answer(view) == told("decline")


async def test_several_of_a_list_can_be_marked() -> None:
    items = {
        "anyOf": [{"const": "r", "title": "red"}, {"const": "g", "title": "green"}, {"const": "b", "title": "blue"}]
    }
    view = form({"colours": {"type": "array", "items": items, "minItems": 1, "maxItems": 2}}, ["colours"])
    press(view, "enter")
    assert "■ at least 1, please" in shown(view)
    press(view, "space", "down", "space", "3")
    assert "  3. [x] blue" in shown(view)
    press(view, "enter")
    assert "■ at most 2, please" in shown(view)
    press(view, "1", "enter", "1")
    assert answer(view) == told("accept", {"colours": ["g", "b"]})


@pytest.mark.parametrize(
    ("field", "bad", "good", "value"),
    [
        ({"type": "string", "format": "email"}, "nobody", "a@b.example", "a@b.example"),
        ({"type": "string", "format": "date"}, "tomorrow", "2026-01-31", "2026-01-31"),
        ({"type": "string", "minLength": 3}, "ab", "abc", "abc"),
        ({"type": "number", "minimum": 0.5}, "0.25", "0.75", 0.75),
        ({"type": "number"}, "nan", "-1e3", -1000.0),
        ({"type": "strange", "enum": "x"}, "", "text", "text"),
    ],
)
async def test_what_does_not_fit_is_said(field: dict[str, Any], bad: str, good: str, value: Any) -> None:
    view = form({"f": field}, ["f"])
    write(view, bad)
    press(view, "enter")
    assert any(text.startswith("■ ") for text in shown(view))
    press(view, "ctrl-u")
    write(view, good)
    press(view, "enter", "1")
    assert answer(view) == told("accept", {"f": value})


async def test_a_password_is_never_shown() -> None:
    view = form({"p": {"type": "string", "format": "password"}})
    write(view, "hunter2")
    assert "hunter2" not in "\n".join(shown(view))
    press(view, "enter")
    assert "hunter2" not in "\n".join(shown(view))
    press(view, "1")
    assert answer(view) == told("accept", {"p": "hunter2"})


async def test_a_hostile_form_drives_no_terminal_and_fits_every_room() -> None:
    schema: dict[str, Any] = {
        "properties": {
            "a\x1b[2J": {"title": "t\u202e" * 50, "description": "d\n" * 50, "enum": ["\x1b]0;x\x07", 3, None]},
            "b": {"title": 7, "type": ["x"], "default": {"x": [1]}},
            "c": "no field",
            **{f"n{number}": {} for number in range(300)},
        },
        "required": 5,
    }
    msg = ElicitationRequest(server_name="s\x1b[1m", id="r", message="m\x9b2J" * 90, requested_schema=schema)
    for width in (8, 30, 100):
        for height in (2, 4, 8, 30):
            view = FormView(msg)
            for _ in range(60):
                text = "\n".join(shown(view, width, height))
                assert not any(char in text for char in "\x1b\x07\x9b\u202e")
                press(view, "enter")
