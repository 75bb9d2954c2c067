"""A view: a question or a list that stands in the place of the composer and takes the keys until it is answered."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from spindle.frontends.tui.keys import Key
from spindle.frontends.tui.shown import Line

T = TypeVar("T")


class View(Generic[T]):
    """Base of all views. `answer` is set once; whoever opened the view awaits it (`Desk.ask`).

    A view is told the keys of the person and the room there is; it never touches the terminal, a thread or a clock.
    """

    guards_typing = False
    """It appeared by itself, maybe while a person types: letters and Enter count only after the person
    has paused (`app.py` sees to it)."""

    guards_typed_ahead = False
    """Keys that were pressed before it was to be seen are no answer to it, though those after it are at once."""

    key_contexts: tuple[str, ...] = ("list",)
    """The tables of `[tui.keymap]` whose keys count here."""

    is_shown_whole = False
    """Where nothing scrolls (plain mode), all of it is printed, however long: a person decides on it."""

    @property
    def is_secret(self) -> bool:
        """What is typed now must not be seen."""
        return False

    waiting = 0
    """How many more questions stand behind it; whoever shows it keeps that number true."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def settle(self, answer: T) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def lines(self, width: int, height: int) -> list[Line]:
        """What is to be seen, in at most `height` rows of `width` cells; the view scrolls itself."""
        raise NotImplementedError

    def cursor(self) -> tuple[int, int] | None:
        """Row and column of the cursor within what `lines` gave last; None = hidden."""
        return None

    def key(self, key: Key) -> None:
        raise NotImplementedError

    def choose_number(self, number: int) -> bool:
        """The person named a row by its number, in one piece (plain mode); False when there are no such rows."""
        return False

    @property
    def takes_words(self) -> bool:
        """Whether words can be written now. Where not, only a number, a letter or Enter is an answer (plain mode)."""
        return self.cursor() is not None

    def paste(self, text: str) -> None:
        """Pasted text; nothing for views without a field to write in."""

    def cancel(self) -> None:
        """It is no longer wanted: the turn that asked has ended."""
        self.answer.cancel()
