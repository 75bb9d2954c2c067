"""The look a command asks for by its colour sequences, in the names of our own styles.

Of 256 or more colours the nearest of the terminal's sixteen is taken. What would hide text is left out.
"""

from __future__ import annotations

from functools import cache

_MOST_PARAMETERS = 32
_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike", 21: "underline"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}
_LEVELS = (0, 95, 135, 175, 215, 255)
_SIXTEEN = (
    *((0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0), (0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229)),
    *((127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0)),
    *((92, 92, 255), (255, 0, 255), (0, 255, 255), (255, 255, 255)),
)


class Pen:
    """The look that the command has asked for; it stays from line to line."""

    def __init__(self) -> None:
        self.looks: set[str] = set()
        self.front: int | None = None
        self.back: int | None = None
        self.style = ""

    def take(self, parameters: str) -> None:
        """Parameters of a sequence that ends in `m`."""
        values = [number(each) for each in parameters.replace(":", ";").split(";")[:_MOST_PARAMETERS]]
        has_colons = ":" in parameters
        place = 0
        while place < len(values):
            code = values[place]
            if code in (38, 48):
                color, place = _color(values, place + 1, has_colons)
                self._paint(color, is_front=code == 38)
                continue
            if has_colons and code == 4 and values[place + 1 : place + 2] == [0]:
                self.looks.discard("underline")
                place += 2
                continue
            self._take_one(code)
            place += 2 if has_colons and code == 4 else 1
        # What has the colour of its background could not be read.
        back = None if self.back == self.front else self.back
        colors = [f"fg{self.front}"] if self.front is not None else []
        colors += [f"bg{back}"] if back is not None else []
        self.style = " ".join([*sorted(self.looks), *colors])

    def _take_one(self, code: int) -> None:
        if code == 0:
            self.looks.clear()
            self.front = self.back = None
        elif code in _ON:
            self.looks.add(_ON[code])
        elif code in _OFF:
            self.looks.difference_update(_OFF[code])
        elif 30 <= code <= 37 or 90 <= code <= 97:
            self.front = code - 30 if code < 40 else code - 82
        elif 40 <= code <= 47 or 100 <= code <= 107:
            self.back = code - 40 if code < 50 else code - 92
        elif code == 39:
            self.front = None
        elif code == 49:
            self.back = None

    def _paint(self, color: int | None, *, is_front: bool) -> None:
        if color is not None and is_front:
            self.front = color
        elif color is not None:
            self.back = color


def number(text: str) -> int:
    """A parameter; nothing is 0, and what is very large is merely large."""
    return int(text[:5]) if text.isdecimal() else 0


def _color(values: list[int], place: int, has_colons: bool) -> tuple[int | None, int]:
    """The colour of sixteen that is nearest to what is asked for, and where the next parameter is."""
    kind = values[place] if place < len(values) else 0
    if kind == 5:
        number = values[place + 1] if place + 1 < len(values) else None
        return (None if number is None else _nearest_of_256(number)), place + 2
    if kind != 2:
        return None, place + 1
    rest = values[place + 1 :]
    skipped = 1 if has_colons and len(rest) > 3 else 0  # with colons, a colour space stands before the colour
    red, green, blue = (*rest[skipped : skipped + 3], 0, 0, 0)[:3]
    return _nearest(red, green, blue), place + 4 + skipped


@cache
def _nearest_of_256(number: int) -> int | None:
    if number < 16:
        return number
    if number < 232:
        cube = number - 16
        return _nearest(_LEVELS[cube // 36], _LEVELS[cube // 6 % 6], _LEVELS[cube % 6])
    if number < 256:
        return _nearest(*[8 + 10 * (number - 232)] * 3)
    return None


def _nearest(red: int, green: int, blue: int) -> int:
    wanted = (red, green, blue)
    return min(range(16), key=lambda n: sum((a - b) ** 2 for a, b in zip(wanted, _SIXTEEN[n], strict=True)))
