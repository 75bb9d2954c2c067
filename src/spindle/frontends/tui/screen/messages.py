"""Messages to the terminal itself, not to its screen: title, notification, clipboard. Pure.

Their texts come from anywhere, and here is the last gate: no control character passes.
"""

from __future__ import annotations

from collections.abc import Mapping

_LONGEST_TITLE = 200
_LONGEST_NOTE = 80
_LONGEST_COPY = 100_000
"""Terminals drop what is longer."""
_KNOW_OSC_9 = ("iTerm.app", "ghostty", "WezTerm", "WarpTerminal", "rio", "Tabby")
_KNOW_OSC_777 = ("foot", "rxvt", "contour")


def title(text: str) -> str:
    return f"\x1b]0;{_plain(text, _LONGEST_TITLE)}\x07"


def notification(text: str, method: str, env: Mapping[str, str]) -> str:
    """`method`: osc9, bel, or auto for what this terminal knows."""
    text = _plain(text, _LONGEST_NOTE)
    if method == "auto":
        method = _known_method(env)
    if method == "bel":
        return "\x07"
    if method == "osc777":
        return _through("\x1b]777;notify;Spindle;" + text.replace(";", ",") + "\x07", env)
    # A number and a semicolon would be taken for another message: a progress bar.
    return _through(f"\x1b]9;{' ' if text[:1].isdigit() else ''}{text}\x07", env)


def clipboard(text: str, env: Mapping[str, str]) -> str:
    import base64  # with the first copy

    data = text.encode("utf-8", "replace")[:_LONGEST_COPY]
    return _through(f"\x1b]52;c;{base64.b64encode(data).decode()}\x07", env)


def _known_method(env: Mapping[str, str]) -> str:
    program, term = env.get("TERM_PROGRAM", ""), env.get("TERM", "")
    if program in _KNOW_OSC_9 or "KITTY_WINDOW_ID" in env or term in ("xterm-kitty", "xterm-ghostty"):
        return "osc9"
    if term.startswith(_KNOW_OSC_777) or "VTE_VERSION" in env:
        return "osc777"
    return "bel"


def _through(sequence: str, env: Mapping[str, str]) -> str:
    """tmux passes on what it does not know itself only in an envelope."""
    if "TMUX" not in env:
        return sequence
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def _plain(text: str, longest: int) -> str:
    shown = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(shown.split())[:longest]
