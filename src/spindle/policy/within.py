"""Every command that a command may run, for rules that ask or forbid: they must not be got around by a wrapper.

More than is run may be found, never less of what can be known. What allows is looked up for plain parts only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from spindle.policy.danger import FIND_RUNS, strip_prefixes
from spindle.policy.scan import MAX_DEPTH, commands_in
from spindle.policy.script_tree import MANY, UNKNOWN, TooMuch, read_script
from spindle.policy.wrappers import SHELLS, WRAPPERS, script_argument, unwrapped

MAX_COMMANDS = 5000
MAX_SCRIPT = 256 * 1024


def commands_within(argv: Sequence[str]) -> list[list[str]] | None:
    """The command itself, the commands of its scripts, and what its wrappers run; None when there are too many.

    A program given by its path is there by its name too.
    """
    found: dict[tuple[str, ...], None] = {}
    waiting: list[tuple[list[str], int]] = [(list(argv), 0)]
    while waiting:
        words, depth = waiting.pop()
        if not words or tuple(words) in found:
            continue
        if depth > MAX_DEPTH or len(found) > MAX_COMMANDS:
            return None
        found[tuple(words)] = None
        name = os.path.basename(words[0])
        if name != words[0]:
            waiting.append(([name, *words[1:]], depth))
        script = None
        if name in WRAPPERS:
            waiting += [(inner, depth + 1) for inner in unwrapped(name, words[1:])]
        elif name in ("find", "fd", "fdfind"):
            acts = [at for at, word in enumerate(words) if word in FIND_RUNS]
            waiting += [(words[at + 1 :], depth + 1) for at in acts[:100]]
        elif name == "eval":
            script = " ".join(words[1:])
        elif name in SHELLS:
            script = script_argument(words[1:])
        if script is not None:
            inside = _commands_of(script)
            if inside is None:
                return None
            if len(inside) > MAX_COMMANDS:
                return None
            waiting += [(words, depth + 1) for words in inside]
    return [list(words) for words in found]


def _commands_of(script: str) -> list[list[str]] | None:
    if len(script) > MAX_SCRIPT:
        return None
    found = [strip_prefixes(words) for _, words in commands_in(script, 0, _runs_a_shell)]
    try:
        tree = read_script(script)
    except TooMuch:
        return None
    for command in tree.commands if tree is not None else ():
        for name in command.names:
            if MANY in name:
                return None
            if UNKNOWN not in name:
                found.append([*(name.split() if " " in name else [name]), *command.words])
    return found


def _runs_a_shell(words: list[str]) -> bool:
    return any(os.path.basename(word) in SHELLS for word in words)
