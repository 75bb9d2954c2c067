"""What a person does at the keyboard, as the parts of the interface get to know it.

A key has one name, whatever sequence the terminal sent for it: `enter`, `esc`, `tab`, `shift-tab`, `backspace`,
`delete`, `insert`, `up`, `down`, `left`, `right`, `home`, `end`, `pgup`, `pgdn`, `f1` … `f12`, and `space`; a letter or
any other character that shows is named by itself (`a`, `A`, `?`, `é`). Modifiers stand before it in this order:
`ctrl-`, `alt-`, `shift-` (`ctrl-a`, `alt-b`, `alt-enter`, `shift-left`, `ctrl-alt-x`); shift is never named with a
character.
"""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    name: str
    text: str = ""
    """What it writes; empty for keys that write nothing."""


class Paste(NamedTuple):
    """Text that came in one piece. Line ends are line feeds; never to be read as keys."""

    text: str


class Focus(NamedTuple):
    """The terminal's window got or lost the focus."""

    is_gained: bool


class Reply(NamedTuple):
    """What the terminal answers to a query of ours: `cursor` (row, column), `kitty` (flags), `background` and
    `foreground` (red, green, blue; 0 to 255), `attributes`, `terminal` (kind, version), `mode` (number, state), `size`
    (rows, columns), `status` (it is there)."""

    kind: str
    values: tuple[int, ...] = ()


Input = Key | Paste | Focus | Reply
