"""What each style of `shown.py` looks like: the only place where colours become sequences for the terminal.

By default the sixteen colours of the terminal are used, so that the person's own palette decides. Themes with colours
of their own are used only when they are chosen. Where colour is not wanted, weight and reverse video remain.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spindle.frontends.tui.text.palettes import Palette

RESET = "\x1b[0m"


def _codes(table: str, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """`error=31 link=4;36` as a mapping, laid over another."""
    return {**(base or {}), **dict(entry.split("=") for entry in table.split())}


_LETTERS = _codes("bold=1 dim=2 italic=3 underline=4 strike=9 reverse=7 hidden=7")
_SIXTEEN = {
    **_codes(
        """user=1 heading=1 code=36 link=4;36 quote=2 accent=36 ok=32 error=31 warning=33 running=36
        added=32 removed=31 hunk=36 line-number=2
        keyword=35 string=32 number=33 comment=2 name=34 type=36 operator=""",
        _LETTERS,
    ),
    **{f"fg{number}": str(30 + number if number < 8 else 82 + number) for number in range(16)},
    **{f"bg{number}": str(40 + number if number < 8 else 92 + number) for number in range(16)},
}
_MONOCHROME = _codes(
    """user=1 heading=1 code=1 link=4 quote=2 accent=1 error=1 warning=1
    added=1 removed=2 hunk=2 line-number=2 keyword=1 comment=2""",
    _LETTERS,
)
_HIGH_CONTRAST = _codes(
    """dim= code=1;96 link=1;4;96 quote= accent=1;96 running=1;96 ok=1;92 error=1;91 warning=1;93 hidden=1;7
    added=1;92 removed=1;91 hunk=1;96 line-number= keyword=1;95 string=92 number=93 comment=3 name=1;94 type=96""",
    _SIXTEEN,
)
# Against a white background yellow and cyan are hard to read, against a black one blue is.
_LIGHT = _codes("code=34 link=4;34 accent=34 running=34 number=35 type=34 warning=1;33 hunk=34", _SIXTEEN)
_DARK = _codes("name=94 removed=91 error=91 keyword=95", _SIXTEEN)

_BY_CODES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "default": ("the sixteen colours of the terminal", _SIXTEEN),
    "light": ("the terminal's colours that suit a light background", _LIGHT),
    "dark": ("the terminal's colours that suit a dark background", _DARK),
    "high-contrast": ("bright and bold, nothing dim", _HIGH_CONTRAST),
    "monochrome": ("no colour; bold, dim and reverse only", _MONOCHROME),
}
_SAME_AS = {"ansi": "default", "auto": "default", "base16": "default", "none": "monochrome", "no-color": "monochrome"}
_LIGHT_NAMES = ("light", "latte", "github", "cold", "dawn", "day", "white")


class Theme:
    """A look for everything. `sgr` is asked for every span, so each answer is kept."""

    def __init__(self, name: str, codes: Mapping[str, str]) -> None:
        self.name = name
        self._codes = codes
        self._made: dict[str, str] = {"": ""}

    def sgr(self, style: str) -> str:
        """The sequence that switches a style on, from plain; nothing for what looks plain. `RESET` switches it off."""
        made = self._made.get(style)
        if made is None:
            codes = dict.fromkeys(code for part in style.split() if (code := self._codes.get(part)))
            made = self._made[style] = f"\x1b[{';'.join(codes)}m" if codes else ""
        return made


def names() -> dict[str, str]:
    """Every theme there is, with a few words on it."""
    from spindle.frontends.tui.text.palettes import PALETTES  # only needed to list them

    listed = {name: words for name, (words, _) in _BY_CODES.items()}
    return listed | {name: f"colours of its own, for a {kind.background} background" for name, kind in PALETTES.items()}


def is_known(name: str) -> bool:
    return _plain_name(name) in names()


def choose(name: str | None, environ: Mapping[str, str]) -> Theme:
    """The theme of the settings, for this terminal. A name that we do not know is taken for the nearest that we have:
    settings are shared with other programs, which have more."""
    if not wants_color(environ):
        return theme("monochrome", 0)
    depth = 24 if environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") else 8
    return theme(_plain_name(name) if isinstance(name, str) else "default", depth)


def wants_color(environ: Mapping[str, str]) -> bool:
    """False when `NO_COLOR` is set, to whatever it may be, and for `CLICOLOR=0`."""
    return not environ.get("NO_COLOR") and environ.get("CLICOLOR") != "0"


@cache
def theme(name: str, depth: int = 24) -> Theme:
    """A theme by its name; `depth` is 24 where a colour may be any, 8 where there are 256 of them."""
    if name in _BY_CODES:
        return Theme(name, _BY_CODES[name][1])
    from spindle.frontends.tui.text.palettes import PALETTES  # only for a theme with colours of its own

    if name in PALETTES:
        return Theme(name, _of_palette(PALETTES[name], depth))
    is_light = any(word in name for word in _LIGHT_NAMES)
    return theme("light" if is_light else "default", depth)


def _plain_name(name: str) -> str:
    plain = "-".join(name.strip().lower().replace("_", " ").replace("-", " ").split())
    return _SAME_AS.get(plain, plain)


def _of_palette(palette: Palette, depth: int) -> dict[str, str]:
    def front(color: int) -> str:
        red, green, blue = color >> 16, color >> 8 & 255, color & 255
        if depth >= 24:
            return f"38;2;{red};{green};{blue}"
        return f"38;5;{16 + 36 * _step(red) + 6 * _step(green) + _step(blue)}"

    red, green, yellow, blue, magenta, cyan = map(front, palette.colors)
    dim = front(palette.dim)
    return _codes(
        f"""dim={dim} user=1;{blue} heading=1;{magenta} code={cyan} link=4;{blue} quote={dim} accent={blue}
        ok={green} error={red} warning={yellow} running={cyan}
        added={green} removed={red} hunk={cyan} line-number={dim} comment=3;{dim}
        keyword={magenta} string={green} number={yellow} name={blue} type={cyan}""",
        _SIXTEEN,
    )


def _step(level: int) -> int:
    """The step of the colour cube of 256 colours that is nearest."""
    return min(range(6), key=lambda step: abs((0, 95, 135, 175, 215, 255)[step] - level))
