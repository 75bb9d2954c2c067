"""Durations as people write them."""


def parse(text: str) -> int:
    """Seconds in a text such as `1h30m`, `90s`, `2d 4h` or `1w`.

    The units are w, d, h, m and s, large or small letters, each at most once and from the largest to the smallest;
    blanks between the parts do not matter. A bare number is seconds. Everything else is a ValueError that names the text.
    """
    raise NotImplementedError


def show(seconds: int) -> str:
    """The shortest text that `parse` reads as that many seconds: `show(5400)` is `1h30m`, `show(0)` is `0s`."""
    raise NotImplementedError
