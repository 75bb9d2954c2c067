"""Every command that a command may run, for rules that ask or forbid: they must not be got around by a launcher.

More than is run may be found, never less of what can be known. What allows is looked up for plain parts only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

import msgspec

from spindle.policy.danger import FIND_RUNS, Examination, strip_prefixes
from spindle.policy.destroyers import INTERPRETERS, git_command, run_by_git
from spindle.policy.launchers import is_launcher, launched, subcommand_at
from spindle.policy.scan import MAX_DEPTH, commands_in
from spindle.policy.script_tree import MANY, UNKNOWN, TooMuch, read_script
from spindle.policy.words import evaluates
from spindle.policy.wrappers import SHELLS, WRAPPERS, script_argument, unwrapped

MAX_COMMANDS = 5000
MAX_SCRIPT = 256 * 1024

_BRACES = re.compile(r"\{([^{}\s]*,[^{}\s]*)\}")
_RUN_A_FILE = frozenset(("source", "."))


class Within(msgspec.Struct):
    """What a command runs, and what of it cannot be told: words that hold UNKNOWN or a pattern of file names."""

    commands: list[list[str]]
    unclear: list[list[str]]
    files: list[list[str]]
    """Those of the commands that are a file which an interpreter runs, with its arguments."""


def commands_within(argv: Sequence[str]) -> list[list[str]] | None:
    """The command itself, the commands of its scripts, and what its launchers run; None when there are too many.

    A program given by its path is there by its name too.
    """
    within = look_within(argv)
    return None if within is None else within.commands


def look_within(argv: Sequence[str]) -> Within | None:
    found: dict[tuple[str, ...], None] = {}
    unclear: dict[tuple[str, ...], None] = {}
    files: dict[tuple[str, ...], None] = {}
    waiting: list[tuple[list[str], int]] = [(list(argv), 0)]
    while waiting:
        words, depth = waiting.pop()
        if not words or tuple(words) in found:
            continue
        if depth > MAX_DEPTH or len(found) > MAX_COMMANDS:
            return None
        if _is_unclear(words):
            unclear[tuple(words)] = None
        found[tuple(words)] = None
        name = os.path.basename(words[0])
        if name != words[0]:
            waiting.append(([name, *words[1:]], depth))
        commands, scripts = _run_by(name, words)
        scripts += evaluates(words)
        waiting += [(inner, depth + 1) for inner in commands]
        if name in SHELLS or name in INTERPRETERS:
            files.update((tuple(inner), None) for inner in commands)
        for script in scripts:
            inside = _commands_of(script)
            if inside is None or len(inside) > MAX_COMMANDS:
                return None
            waiting += [(words, depth + 1) for words in inside]
    return Within(*([list(words) for words in one] for one in (found, unclear, files)))


def _is_unclear(words: Sequence[str]) -> bool:
    return any(UNKNOWN in word for word in words) or re.search(r"[*?\[]", words[0]) is not None


def _run_by(name: str, words: list[str]) -> tuple[list[list[str]], list[str]]:
    """The commands that this one runs, and the scripts that stand in its words."""
    rest = words[1:]
    if name in WRAPPERS:
        inner = list(unwrapped(name, rest))
        # An option that we do not know may take the next word for its value.
        return inner + _split(launched(words))[0] if inner and rest[0].startswith("-") else inner, []
    if name in ("find", "fd", "fdfind"):
        acts = [at for at, word in enumerate(words) if word in FIND_RUNS]
        return [words[at + 1 :] for at in acts[:100]], []
    if name == "eval":
        return [], [" ".join(rest)]
    if name in SHELLS:
        script = script_argument(rest)
        return ([], [script]) if script is not None else (_file_run(rest), [])
    if name in _RUN_A_FILE:
        return [rest], []
    if name == "git":
        return _by_git(rest)
    if is_launcher(name):
        return _split(launched(words))
    if (at := subcommand_at(words)) is not None:
        return _split(launched(words[at:]))
    if name in INTERPRETERS:
        return _file_run(rest), list(INTERPRETERS[name](rest))
    return [], []


def _split(found: Iterable[tuple[list[str], bool]]) -> tuple[list[list[str]], list[str]]:
    commands: list[list[str]] = []
    scripts: list[str] = []
    for words, is_script in found:
        if is_script:
            scripts.append(words[0])
        else:
            commands.append(words)
    return commands, scripts


def _file_run(rest: list[str]) -> list[list[str]]:
    """`sh ./deploy` runs ./deploy."""
    at = next((at for at, word in enumerate(rest) if not word.startswith(("-", "+"))), None)
    return [] if at is None else [rest[at:]]


def _by_git(rest: list[str]) -> tuple[list[list[str]], list[str]]:
    """git's own options do not change which subcommand it is; an alias given with it may."""
    command, behind = git_command(rest)
    commands = [["git", command, *behind]] if command and rest[:1] != [command] else []
    for word in rest:
        if found := re.match(r"alias\.([^=]*)=([^!].*)", word, re.DOTALL):
            commands.append(["git", *found[2].split(), *(behind if found[1] == command else [])])
    return commands, list(run_by_git(rest))


def _commands_of(script: str) -> list[list[str]] | None:
    if len(script) > MAX_SCRIPT:
        return None
    found = [_without_braces(strip_prefixes(words)) for _, words in commands_in(script, 0, _runs_a_shell)]
    try:
        tree = read_script(script)
    except TooMuch:
        return None
    if tree is None:
        return found
    for command in tree.commands:
        for name in command.names:
            if MANY in name:
                return None
            words = strip_prefixes([*(name.split() if " " in name and UNKNOWN not in name else [name]), *command.words])
            found.append(_without_braces(words))
    examination = Examination()
    if examination.runs_its_own_text(tree):
        found += [["sh", "-c", text] for text in examination.texts_of(tree)]
    return found


def _without_braces(words: list[str]) -> list[str]:
    """`{git,push}` is two words, and so is `{git,}push` in its way."""
    if words and re.fullmatch(r"[^{}]*,[^{}]*\}", words[0]):
        words = ["{" + words[0], *words[1:]]  # a brace at the beginning is taken for that of a group
    if not any("{" in word and "," in word for word in words):
        return words
    whole: list[str] = []
    for word in words[:200]:
        braces = _BRACES.search(word) if len(word) < 2000 else None
        if braces is None:
            whole.append(word)
        else:
            start, end = word[: braces.start()], word[braces.end() :]
            whole += [start + choice + end for choice in braces[1].split(",")[:200] if start + choice + end]
    return whole


def _runs_a_shell(words: list[str]) -> bool:
    return any(os.path.basename(word) in SHELLS for word in words)
