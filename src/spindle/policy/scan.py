"""A shell script read loosely: everything in it that a shell may run as a command.

Quotes and backslashes are taken away, and every place where a command can begin is looked at. It may take data for a
command, never a command for data; a here-document is data unless a shell reads it. Nothing is expanded here.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable

MAX_DEPTH = 8
TOO_DEEP = ["shred"]
"""Stands for what lies too deep to be looked at: a command that counts as dangerous by itself."""

_HERE_STRING = "<<<"
_HEREDOC = r"""<<(-?)[ \t]*((?:'[^'\n]*'|"[^"\n]*"|\\.|[^\s'"\\;&|<>()])+)"""


def commands_in(script: str, depth: int, runs_a_shell: Callable[[list[str]], bool]) -> list[tuple[bool, list[str]]]:
    """Everything that may be a command: its words, and whether it reads the one before through a pipe."""
    found: list[tuple[bool, list[str]]] = []
    words: list[str] = []
    word: list[str] | None = None
    piped = False
    bodies: list[tuple[str, bool, bool]] = []  # delimiter, strip tabs, literal
    line_start = 0  # which of `found` is the first of this line
    lines = _Lines(script)
    arithmetic = False  # `<<` shifts there, and the lines behind it are commands
    at = 0

    def end_word() -> None:
        nonlocal word
        if word is not None:
            words.append("".join(word))
            word = None

    def end_command(pipe: bool) -> None:
        nonlocal words, piped
        end_word()
        if words:
            found.append((piped, words))
            if _HERE_STRING in words and runs_a_shell(words):
                found.extend((False, ["sh", "-c", text]) for text in words[words.index(_HERE_STRING) + 1 :])
            words = []
        piped = pipe

    def nested(text: str) -> None:
        if depth + 1 > MAX_DEPTH:
            found.append((False, TOO_DEEP))
        else:
            found.extend((False, inner) for _, inner in commands_in(text, depth + 1, runs_a_shell))

    while at < len(script):
        character = script[at]
        if character == "\\":
            if script[at + 1 : at + 2] != "\n":
                word = word or []
                word.append(script[at + 1 : at + 2])
            at += 2
        elif character == "'":
            end = script.find("'", at + 1)
            end = len(script) if end < 0 else end
            word = word or []
            word.append(script[at + 1 : end])
            at = end + 1
        elif character == '"':
            end = _end_of_double_quotes(script, at + 1)
            inside = script[at + 1 : end]
            word = word or []
            word.append(inside)
            if "$(" in inside or "`" in inside:
                for text in _substitutions(inside):
                    nested(text)
            at = end + 1
        elif character == "#" and word is None:
            end = script.find("\n", at)
            at = len(script) if end < 0 else end
        elif character == "<" and script.startswith("<<<", at):
            end_word()
            words.append(_HERE_STRING)
            at += 3
        elif character == "<" and not arithmetic and (heredoc := re.compile(_HEREDOC).match(script, at)):
            end_word()
            delimiter = re.sub(r"['\"\\]", "", heredoc[2])
            bodies.append((delimiter, bool(heredoc[1]), delimiter != heredoc[2]))
            at = heredoc.end()
        elif character == "\n":
            end_command(False)
            at += 1
            # A shell anywhere on the line may be the one that reads it: `cat <<E | sh`.
            is_script = bool(bodies) and any(runs_a_shell(command) for _, command in found[line_start:])
            line_start = len(found)
            for body in bodies:
                text, at = lines.heredoc_body(at, body[0], strip_tabs=body[1])
                if is_script:
                    found.append((False, ["sh", "-c", text]))
                elif not body[2]:
                    for substitution in _substitutions(text):
                        nested(substitution)
            bodies = []
        elif character == "|" and script[at : at + 2] != "||":
            end_command(True)
            at += 1
        elif character in "()" and script.startswith(character * 2, at):
            arithmetic = character == "("
            end_command(False)
            at += 2
        elif character in ";&|(){}`<>" and not (character in "{}" and word is not None):
            # A redirection's target becomes a command of its own here, which is harmless.
            end_command(False)
            at += 1
        elif character == "$" and script[at : at + 2] == "$(":
            end_command(False)
            at += 1
        elif character in " \t\r":
            end_word()
            at += 1
        else:
            word = word or []
            word.append(character)
            at += 1
    end_command(False)
    return found


def _end_of_double_quotes(script: str, at: int) -> int:
    """Where the string ends; quotes inside a command substitution belong to that."""
    depth = 0
    while at < len(script):
        if script[at] == "\\":
            at += 2
            continue
        if script.startswith("$(", at):
            depth += 1
            at += 2
            continue
        if script[at] == ")" and depth:
            depth -= 1
        elif script[at] == '"' and not depth:
            return at
        at += 1
    return len(script)


def _substitutions(text: str) -> list[str]:
    """What stands behind each `$(` and between backticks, to the end of the text: more than is run, never less."""
    starts = [match.end() for match in re.finditer(r"\$\(|`", text)]
    ends = [*starts[1:], len(text)][: len(starts)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


class _Lines:
    """The lines of a script, by their text: finding the end of many here-documents must not take forever."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._starts: dict[bool, dict[str, list[int]]] = {}

    def heredoc_body(self, at: int, delimiter: str, *, strip_tabs: bool) -> tuple[str, int]:
        """The body that begins at `at`, and where the script goes on.

        Without an end the shell takes the rest for data. In case we misread something, it is looked at all the same.
        """
        starts = self._index(strip_tabs).get(delimiter, [])
        which = bisect_left(starts, at)
        if which == len(starts):
            return "", at
        start = starts[which]
        end = self._script.find("\n", start)
        return self._script[at:start], len(self._script) if end < 0 else end + 1

    def _index(self, strip_tabs: bool) -> dict[str, list[int]]:
        if strip_tabs not in self._starts:
            index: dict[str, list[int]] = {}
            start = 0
            for line in self._script.split("\n"):
                index.setdefault(line.lstrip("\t") if strip_tabs else line, []).append(start)
                start += len(line) + 1
            self._starts[strip_tabs] = index
        return self._starts[strip_tabs]
