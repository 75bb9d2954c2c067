"""HTML by construction: what is not made here is text, and text cannot become HTML."""

from __future__ import annotations

from html import escape

from spindle.protocol.quote import readable, without_terminal_codes

_VOID = frozenset(("meta", "br"))


class Markup(str):
    """Text that already is HTML. Made by `tag` and `join` only."""

    __slots__ = ()


def tag(name: str, *children: str | int | None, **attributes: str | int | bool | None) -> Markup:
    """An element. Children that are no Markup are escaped; `class_` is class, `data_x` is data-x; None is left out."""
    given = "".join(_attribute(key, value) for key, value in attributes.items() if value not in (None, False))
    if name in _VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(*children)}</{name}>")


def join(*children: str | int | None) -> Markup:
    return Markup("".join(text(child) for child in children if child is not None))


def text(value: str | int) -> Markup:
    """Anything as text: hidden and direction-changing characters are shown as escapes, terminal codes are left out."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(readable(without_terminal_codes(str(value)))))


def _attribute(key: str, value: str | int | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text(str(value))}"'
