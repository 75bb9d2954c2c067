"""A person at the composer, for tests: types words, presses keys, looks at the rows."""

from __future__ import annotations

from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import plain

WIDTH, HEIGHT = 60, 24


def write(composer: Composer, text: str) -> None:
    for char in text:
        composer.key(Key("space" if char == " " else char, char))


def press(composer: Composer, *names: str) -> bool:
    """Press keys that write nothing; says whether the last one was for the composer."""
    taken = False
    for name in names:
        composer.lines(WIDTH, HEIGHT)
        taken = composer.key(Key(name, name if len(name) == 1 else ""))
    return taken


def rows(composer: Composer, width: int = WIDTH, height: int = HEIGHT) -> list[str]:
    return [plain(line) for line in composer.lines(width, height)]


def marked(composer: Composer) -> str:
    """The draft with `|` where the cursor is, found by the cell in which it is shown."""
    shown = rows(composer)
    row, column = composer.cursor() or (0, 0)
    shown[row] = shown[row][:column] + "|" + shown[row][column:]
    return "\n".join(line[2:] for line in shown)
