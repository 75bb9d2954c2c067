"""Text that comes faster than anyone types: a paste from a terminal that does not put pastes into brackets.

Line ends in it must not send the message, so it is held back until it ends, and becomes one `Paste`.
"""

from __future__ import annotations

from spindle.frontends.tui.keys import Input, Key, Paste
from spindle.frontends.tui.screen.sequences import character

GAP_S = 0.008
"""Characters that follow each other within this time were not typed: a very fast typist needs 12 ms."""
_LEAST = 3
_FEW = 64
"""A burst of no more than so many characters is handed on as keys, if they mean the same: without a line end, and
without a tab but at its end, where it was pressed to queue or to complete."""
_LONG_GAP_S = 0.06
_LONG = 512
"""A long paste comes in pieces of a terminal's buffer, and we may be late to fetch the next one."""


class Bursts:
    """Takes plain text with the time it came; gives keys at once, and pastes when they have ended."""

    def __init__(self, *, is_on: bool = True) -> None:
        self.is_on = is_on
        self._held: list[str] = []
        self._in_a_row = 0
        self._last_s = float("-inf")
        self._window_s = GAP_S

    @property
    def ends_s(self) -> float | None:
        """When what is held back is complete, if nothing follows."""
        return self._last_s + self._window_s if self._held else None

    def take(self, text: str, now_s: float, waited_s: float = 0.0) -> list[Input]:
        """Text without control characters but tab, CR and LF; it may have waited so long that keys came together."""
        if not self.is_on:
            return keys_of(text)
        is_quick = waited_s <= GAP_S * len(text)
        shown = sum(char not in "\r\n\t" for char in text)
        follows = now_s - waited_s - self._last_s <= GAP_S
        self._in_a_row = (self._in_a_row if follows else 0) + shown if is_quick else 0
        self._last_s = now_s
        if self._held or self._in_a_row >= _LEAST:
            self._held.append(text)
            self._window_s = _LONG_GAP_S if len(text) >= _LONG else GAP_S
            return []
        return keys_of(text)

    def end(self) -> list[Input]:
        """What was held back."""
        text = "".join(self._held)
        self._held.clear()
        self._in_a_row = 0
        self._last_s = float("-inf")
        if not text:
            return []
        words = text.removesuffix("\t")
        if len(text) <= _FEW and not any(char in words for char in "\r\n\t"):
            return keys_of(text)
        return [Paste(with_line_feeds(text))]


def keys_of(text: str) -> list[Input]:
    return [key for char in text if (key := _key(char)) is not None]


def _key(char: str) -> Key | None:
    match char:
        case "\r":
            return Key("enter")
        case "\n":
            return Key("ctrl-j")
        case "\t":
            return Key("tab")
        case _:
            return None if "\x80" <= char < "\xa0" else character(char)


def with_line_feeds(text: str) -> str:
    """Terminals send the line ends of a paste as carriage returns."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
