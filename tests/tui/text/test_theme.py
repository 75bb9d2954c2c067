"""What styles look like."""

from __future__ import annotations

import re

import pytest

from spindle.frontends.tui.shown import STYLES
from spindle.frontends.tui.text.theme import RESET, choose, is_known, names, theme

WEIGHTS = {1, 2, 3, 4, 7, 9}
SIXTEEN = {*WEIGHTS, *range(30, 38), *range(40, 48), *range(90, 98), *range(100, 108)}


def codes(name: str | None, environ: dict[str, str]) -> set[int]:
    """Every code that a theme can write."""
    chosen = choose(name, environ)
    written = [chosen.sgr(style) for style in (*STYLES, "bold error", "reverse fg3 bg4")]
    assert all(re.fullmatch(r"(\x1b\[[0-9;]+m)?", each) for each in written)
    return {int(code) for each in written for code in re.findall(r"\d+", each)}


@pytest.mark.parametrize("name", [None, "default", "light", "dark", "high-contrast", "no such theme", "", "ansi"])
def test_only_the_sixteen_colours_unless_a_theme_with_others_is_chosen(name: str | None) -> None:
    assert codes(name, {"COLORTERM": "truecolor"}) <= SIXTEEN
    assert codes(name, {}) - WEIGHTS != set()


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"NO_COLOR": "0"}, {"NO_COLOR": "false"}, {"CLICOLOR": "0"}])
@pytest.mark.parametrize("name", [None, *names(), "catppuccin-mocha"])
def test_without_colour_weights_remain(environ: dict[str, str], name: str | None) -> None:
    assert codes(name, environ) <= WEIGHTS
    assert choose(name, environ).sgr("hidden") == "\x1b[7m"


def test_an_empty_no_color_asks_for_nothing() -> None:
    assert codes(None, {"NO_COLOR": "", "CLICOLOR": "1"}) - WEIGHTS != set()


@pytest.mark.parametrize("name", names())
def test_every_theme_knows_every_style(name: str) -> None:
    assert is_known(name) and names()[name]
    assert theme(name).sgr("bold") == "\x1b[1m"
    assert theme(name).sgr("") == "" and theme(name).sgr("unheard-of") == ""
    # What was added and what was removed never look alike.
    assert theme(name).sgr("added") != theme(name).sgr("removed")


def test_a_scheme_of_any_colours_is_used_as_far_as_the_terminal_knows_them() -> None:
    assert choose("Solarized_Dark", {"COLORTERM": "truecolor"}).sgr("error") == "\x1b[38;2;220;50;47m"
    assert choose("solarized-dark", {}).sgr("error") == "\x1b[38;5;166m"
    assert theme("default").sgr("bold error") == "\x1b[1;31m" and RESET == "\x1b[0m"


def test_a_theme_of_another_program_is_taken_for_the_nearest() -> None:
    assert choose("zenburn", {}).name == "default" and choose("coldark-cold", {}).name == "light"
    assert not is_known("zenburn")
    assert choose(3, {}).name == "default"  # pyright: ignore[reportArgumentType]
