"""Which key or which answer an escape sequence of the terminal stands for. Pure tables and their readers.

Terminals disagree on how a key is sent: the old sequences of xterm, rxvt and the Linux console, xterm's
modifyOtherKeys, and the keyboard protocol of kitty. All of them end in the one name that `tui/keys.py` has for a key.
"""

from __future__ import annotations

from spindle.frontends.tui.keys import Focus, Input, Key, Reply

_SHIFT, _ALT, _CTRL, _SUPER, _HYPER, _META = 1, 2, 4, 8, 16, 32
_RELEASED = 3

LETTERS = {
    **dict(zip("ABCDHF", ("up", "down", "right", "left", "home", "end"), strict=True)),
    **dict(zip("PQRS", ("f1", "f2", "f3", "f4"), strict=True)),
    "Z": "shift-tab",
}
"""The last letter of `ESC [ …` and `ESC O …`."""
NUMBERS = {
    1: "home",
    2: "insert",
    3: "delete",
    4: "end",
    5: "pgup",
    6: "pgdn",
    7: "home",
    8: "end",
    11: "f1",
    12: "f2",
    13: "f3",
    14: "f4",
    15: "f5",
    17: "f6",
    18: "f7",
    19: "f8",
    20: "f9",
    21: "f10",
    23: "f11",
    24: "f12",
}
"""The number of `ESC [ number ~`."""
KEYPAD = dict(zip("jklmnopqrstuvwxyX", "*+,-./0123456789=", strict=True))
"""The last letter of `ESC O …` for the keys of the number block."""
RXVT = {"a": "up", "b": "down", "c": "right", "d": "left"}
RXVT_ENDS = {"$": _SHIFT, "^": _CTRL, "@": _SHIFT | _CTRL}
KITTY = {
    9: "tab",
    13: "enter",
    27: "esc",
    32: "space",
    127: "backspace",
    8: "backspace",
    57417: "left",
    57418: "right",
    57419: "up",
    57420: "down",
    57421: "pgup",
    57422: "pgdn",
    57414: "enter",
    57423: "home",
    57424: "end",
    57425: "insert",
    57426: "delete",
    **{57364 + number: f"f{number + 1}" for number in range(12)},
}
KITTY_KEYPAD = {57399 + number: char for number, char in enumerate("0123456789./*-+")} | {57415: "=", 57416: ","}
_PRIVATE = range(0xE000, 0xF900)
"""Where kitty puts keys that are no characters."""
AS_OF_OLD = {
    "i": "tab",
    "m": "enter",
    "[": "esc",
    "/": "ctrl-_",
    "7": "ctrl-_",
    "-": "ctrl-_",
    " ": "ctrl-space",
    "@": "ctrl-space",
    "2": "ctrl-space",
}
"""Ctrl with a character, where the old encoding had another key: fingers expect it in the new one too."""
CONTROLS = {
    **{number: f"ctrl-{chr(number + 96)}" for number in range(1, 27)},
    0: "ctrl-space",
    9: "tab",
    13: "enter",
    27: "esc",
    127: "backspace",
    28: "ctrl-\\",
    29: "ctrl-]",
    30: "ctrl-^",
    31: "ctrl-_",
}
"""What a single control character stands for."""


def character(char: str, modifiers: int = 0) -> Key | None:
    """The key of something that shows. Shift is never named with a character: it is in the character."""
    if modifiers & (_SUPER | _HYPER):
        return None  # the window manager's
    if modifiers & _CTRL:
        char = char.lower()
        old = AS_OF_OLD.get(char)
        name = old or f"ctrl-{_name(char)}"
        if not modifiers & (_ALT | _META):
            return Key(name)
        return Key(name.replace("ctrl-", "ctrl-alt-", 1) if name.startswith("ctrl-") else f"alt-{name}")
    if modifiers & (_ALT | _META):
        return Key(f"alt-{_name(char)}")
    return Key(_name(char), char)


def _name(char: str) -> str:
    return "space" if char == " " else char


def special(name: str, modifiers: int = 0) -> Key | None:
    """The key of that name, with the modifiers that were held."""
    if modifiers & (_SUPER | _HYPER):
        return None
    if name == "space":
        return character(" ", modifiers)
    if name == "shift-tab":
        name, modifiers = "tab", modifiers | _SHIFT
    prefix = "ctrl-" if modifiers & _CTRL else ""
    prefix += "alt-" if modifiers & (_ALT | _META) else ""
    prefix += "shift-" if modifiers & _SHIFT else ""
    return Key(prefix + name)


def control(byte: int, *, alt: bool) -> Key | None:
    """The key of one control character, which may come after an Escape that means Alt."""
    name = CONTROLS[byte]
    if not alt:
        return Key(name)
    return Key(name.replace("ctrl-", "ctrl-alt-", 1) if name.startswith("ctrl-") else f"alt-{name}")


def ss3(given: str, letter: str) -> Key | None:
    """`ESC O …`"""
    held = _held(given.rpartition(";")[2])
    if letter in KEYPAD:
        return character(KEYPAD[letter], held)
    if letter in RXVT:
        return special(RXVT[letter], held | _CTRL)
    if letter == "M":
        return special("enter", held)
    return special(LETTERS[letter], held) if letter in LETTERS else None


def csi(given: str, final: str, *, alt: bool = False) -> Input | None:
    """`ESC [ given final`: a key, a change of focus, an answer, or nothing that we know."""
    if given[:1] in ("?", ">", "<", "="):
        return _answer(given[0], given[1:], final)
    parts = [part.split(":") for part in given.split(";")]
    first = _number(parts[0][0], 1)
    held = _held(parts[1][0]) if len(parts) > 1 else 0
    held |= _ALT if alt else 0
    if len(parts) > 1 and len(parts[1]) > 1 and _number(parts[1][1], 1) == _RELEASED:
        return None
    if final == "R" and len(parts) == 2:  # an old xterm sends F3 with a modifier like this, too
        return Reply("cursor", (first, _number(parts[1][0], 1)))
    if final == "t" and first == 8 and len(parts) == 3:
        return Reply("size", (_number(parts[1][0], 0), _number(parts[2][0], 0)))
    if final == "n" and first == 0:
        return Reply("status")
    if final == "u":
        return _kitty(parts, held)
    if final == "~":
        if first == 27 and len(parts) > 2:
            return _kitty([parts[2], parts[1]], held)
        return special(NUMBERS[first], held) if first in NUMBERS else None
    if final in RXVT_ENDS:
        return special(NUMBERS[first], held | RXVT_ENDS[final]) if first in NUMBERS else None
    if final in "IO" and not given:
        return Focus(final == "I")
    if final in RXVT:
        return special(RXVT[final], held | _SHIFT)
    return special(LETTERS[final], held) if final in LETTERS else None


def _kitty(parts: list[list[str]], held: int) -> Key | None:
    """`code : with shift : on a Latin keyboard ; modifiers : event ; text u`"""
    code = _number(parts[0][0], 0)
    text = "".join(_char(_number(each, 0)) for each in parts[2]) if len(parts) > 2 else ""
    if code in KITTY:
        return special(KITTY[code], held)
    if code in KITTY_KEYPAD:
        return character(KITTY_KEYPAD[code], held)
    if code in _PRIVATE or not _char(code):
        return None
    if held & (_CTRL | _ALT | _META):
        latin = _number(parts[0][2], 0) if len(parts[0]) > 2 else 0
        code = latin if latin and code > 127 else code  # Ctrl with a Cyrillic letter is Ctrl with the key's Latin one
    if held & _SHIFT and not text:
        shifted = _number(parts[0][1], 0) if len(parts[0]) > 1 else 0
        text = _char(shifted) or _char(code).upper()
    if held & _CTRL and not (held & _SHIFT and text in ("_", "@", "^")):
        text = _char(code)
    return character((text or _char(code))[0], held) if len(text) < 2 else Key(text[0], text)


def _answer(kind: str, given: str, final: str) -> Reply | None:
    numbers = tuple(_number(part.rstrip("$"), 0) for part in given.split(";"))
    match kind + final:
        case "?u":
            return Reply("kitty", numbers[:1])
        case "?c":
            return Reply("attributes", numbers)
        case ">c":
            return Reply("terminal", numbers)
        case "?R":
            return Reply("cursor", numbers[:2])
        case "?y":
            return Reply("mode", numbers[:2])
        case _:
            return None


def osc(body: str) -> Reply | None:
    """The answer to a question for a colour: `11;rgb:1111/2222/3333`."""
    number, _, rest = body.partition(";")
    kind = {"10": "foreground", "11": "background"}.get(number)
    head, _, colour = rest.partition(":")
    parts = colour.split("/")[:3]
    if kind is None or head not in ("rgb", "rgba") or len(parts) != 3:
        return None
    try:
        levels = tuple(int(part, 16) * 255 // (16 ** len(part) - 1) for part in parts)
    except (ValueError, ZeroDivisionError):
        return None
    return Reply(kind, levels)


def _held(text: str) -> int:
    return max(0, _number(text, 1) - 1)


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else otherwise


def _char(code: int) -> str:
    shows = 32 <= code < 0x110000 and code != 127 and not 0x80 <= code < 0xA0 and not 0xD800 <= code < 0xE000
    return chr(code) if shows else ""
