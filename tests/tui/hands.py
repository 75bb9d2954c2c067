"""A person at a view: presses keys, and sees rows of the screen that never exceed the room."""

from __future__ import annotations

from typing import Any

from spindle.frontends.fit import cells
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import texts

OPEN = "open"
"""What a view that was not answered yet answers here."""


def press(view: Any, *names: str) -> None:
    """Press keys; a name of one character writes itself."""
    for name in names:
        view.key(Key(name, " " if name == "space" else name if len(name) == 1 else ""))


def write(view: Any, text: str) -> None:
    press(view, *("space" if char == " " else char for char in text))


def shown(view: Any, width: int = 80, height: int = 24) -> list[str]:
    lines = view.lines(width, height)
    assert len(lines) <= height, texts(lines)
    assert all(cells(text) <= width for text in texts(lines)), texts(lines)
    return texts(lines)


def styled(view: Any, style: str, width: int = 80, height: int = 24) -> list[str]:
    """The pieces that look like this."""
    return [span.text for line in view.lines(width, height) for span in line.spans if style in span.style.split()]


def answer(view: Any) -> Any:
    return view.answer.result() if view.answer.done() else OPEN
