"""What a line comes to that is typed into a terminal key by key, as far as the keys tell.

A terminal takes back characters and lines, and that can be followed. A shell that edits its lines does more: Tab, the
arrows, Ctrl-A, Ctrl-R and `!!` make a line of what is in its history, in the folder, or further along on the line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from spindle.policy.coverage import INTERPRETERS
from spindle.policy.launchers import is_launcher
from spindle.policy.within import look_within, run_by
from spindle.policy.wrappers import SHELLS, script_argument

_ESCAPED = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)")
_ENDS = re.compile(r"[\r\n\x0f]")  # Ctrl-O runs the line, too
_LITERAL = "\x16"
_STOPS, _KILLS = "\x03\x1a\x1c", "\x15"
_ODD = re.compile(r"[\x00-\x02\x05-\x07\x0b\x0e-\x14\x16\x18-\x1b\x1d-\x1f]|(?<=[^\t])\t")
"""Keys that a shell takes for something other than what they show. A tab in front of a line is as good as a blank."""
_HISTORY = re.compile(r"^\^|(?<![\\$\[{])!(?=[^\s=(])")
_QUOTED = re.compile(r"(\\.|\"(?:\\.|[^\"\\])*\")|'[^'\"]*'")
"""What history is not looked up in stands in single quotes."""
MAX_LINE = 1 << 16
_TAKE_A_WORD = ("--rcfile", "--init-file", "-O", "+O", "-o", "+o")
_OPEN_A_SHELL = frozenset(("su", "script", "tmux", "screen", "newgrp", "login", "nix-shell", "chroot", "unshare"))


def as_typed(text: str, *, forgets: bool = True) -> str:
    """The lines that a terminal hands on: rubbed out characters and lines are gone, other keys are nothing.

    Not every program forgets its line when it is interrupted or told to; for such ones, `forgets` is false.
    """
    return "\n".join(_kept(line, forgets) for line in _ENDS.split(_ESCAPED.sub("", text)))


def _kept(line: str, forgets: bool) -> str:
    kept: list[str] = []
    is_literal = False
    for character in line:
        if is_literal or character.isprintable() or character == "\t":
            kept += [character] if character.isprintable() or character == "\t" else []
            is_literal = False
        elif character == _LITERAL:
            is_literal = True
        elif character in "\x7f\b":
            kept[-1:] = []
        elif character in _STOPS + _KILLS and forgets:
            kept.clear()
        elif character == "\x17":
            kept[:] = re.sub(r"\S*\s*$", "", "".join(kept))
    return "".join(kept)


def is_unreadable(text: str) -> bool:
    """Would a shell that edits its lines make another line of this than the one that can be read?

    Most keys do nothing before Enter, and may only move about in a pager that the shell has started; the line is
    looked at again when it ends. Ctrl-X begins orders that are obeyed at once.
    """
    *whole, last = _ENDS.split(text)
    return any(map(_is_odd, whole)) or "\x0f" in text or "\x18" in last or len(last) >= MAX_LINE


def _is_odd(line: str) -> bool:
    line = re.split(r"(?<!\x16)\x03", line)[-1]  # an interrupted line is given up
    said = _QUOTED.sub(lambda found: found[1] or "", re.sub(r"^\s*#.*", "", line))
    return _ODD.search(line) is not None or _HISTORY.search(said) is not None


def edits_lines(argv: Sequence[str]) -> bool:
    """Does the command come to a shell, or another interpreter, that a person could sit at?"""
    within = look_within(argv)
    if within is None or within.unclear:
        return True
    return any(map(_is_sat_at, (*within.commands, *within.maybe)))


def _is_sat_at(words: Sequence[str]) -> bool:
    name, rest = os.path.basename(words[0]), list(words[1:])
    bare = name.rstrip("0123456789.")
    if name in _OPEN_A_SHELL or (name in ("sudo", "doas") and {"-s", "-i", "--shell", "--login"}.intersection(rest)):
        return True
    if is_launcher(name):
        return not run_by(name, list(words)).commands
    if name in SHELLS and script_argument(rest) is not None:
        return False
    if name not in SHELLS and bare not in INTERPRETERS:
        return False
    named = (word for at, word in enumerate(rest) if word[:1] not in ("-", "+") and rest[at - 1] not in _TAKE_A_WORD)
    is_asked_for = any(re.fullmatch(r"-[a-z]*i[a-z]*", word) for word in rest)
    has_code = name not in SHELLS and any(re.fullmatch(r"-(?:c|e|m|p|-eval|-print)", word) for word in rest)
    return is_asked_for or (next(named, None) is None and not has_code)
