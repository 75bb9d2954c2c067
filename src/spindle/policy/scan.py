"""A shell script read loosely: everything in it that a shell may run as a command.

Quotes and backslashes are taken away, and every place where a command can begin is looked at. It may take data for a
command, never a command for data; a here-document is data unless a shell reads it. Nothing is expanded here.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

MAX_DEPTH = 8
TOO_DEEP = ["shred"]
"""Stands for what lies too deep to be looked at: a command that counts as dangerous by itself."""

_HERE_STRING = "<<<"
_HEREDOC = r"""<<(-?)[ \t]*((?:'[^'\n]*'|"[^"\n]*"|\\.|[^\s'"\\;&|<>()])+)"""


def commands_in(script: str, depth: int, runs_a_shell: Callable[[list[str]], bool]) -> list[tuple[bool, list[str]]]:
    """Everything that may be a command: its words, and whether it reads the one before through a pipe."""
    scan = _Scan(script, depth, runs_a_shell)
    while scan.at < len(script):
        scan.step()
    scan.end_command()
    return scan.found


class _HereDocument(NamedTuple):
    delimiter: str
    strip_tabs: bool
    is_literal: bool
    """Its delimiter was quoted: nothing in the body is substituted."""


class _Scan:
    """One pass over a script. Each step takes one character, or one construct that begins at it."""

    def __init__(self, script: str, depth: int, runs_a_shell: Callable[[list[str]], bool]) -> None:
        self.at = 0
        self.found: list[tuple[bool, list[str]]] = []
        self._script = script
        self._depth = depth
        self._runs_a_shell = runs_a_shell
        self._words: list[str] = []
        self._word: list[str] | None = None
        """The pieces of the word that is being read; None between words, where `#` begins a comment."""
        self._is_piped = False
        self._bodies: list[_HereDocument] = []
        """The here-documents announced on this line. Their bodies begin with the next line, in this order."""
        self._line_start = 0
        """Which of `found` is the first of this line."""
        self._lines = _Lines(script)
        self._in_arithmetic = False
        """`<<` shifts there, and the lines behind it are commands."""

    def step(self) -> None:
        script, at = self._script, self.at
        character = script[at]
        following = script[at : at + 2]
        if character in "\\'\"":
            self._quoted(character)
        elif character == "#" and self._word is None:
            end = script.find("\n", at)
            self.at = len(script) if end < 0 else end
        elif character == "<" and self._here():
            pass
        elif character == "\n":
            self._end_line()
        elif character == "|" and following != "||":
            self._end_command_at(1, pipe=True)
        elif following in ("((", "))"):
            self._in_arithmetic = character == "("
            self._end_command_at(2)
        elif character in ";&|(){}`<>" and not (character in "{}" and self._word is not None):
            # A redirection's target becomes a command of its own here, which is harmless.
            self._end_command_at(1)
        elif following == "$(":
            self._end_command_at(1)
        elif character in " \t\r":
            self._end_word()
            self.at += 1
        else:
            self._add(character)
            self.at += 1

    def end_command(self, *, pipe: bool = False) -> None:
        self._end_word()
        if words := self._words:
            self.found.append((self._is_piped, words))
            if _HERE_STRING in words and self._runs_a_shell(words):
                scripts = words[words.index(_HERE_STRING) + 1 :]
                self.found.extend((False, ["sh", "-c", text]) for text in scripts)
            self._words = []
        self._is_piped = pipe

    def _end_command_at(self, width: int, *, pipe: bool = False) -> None:
        self.end_command(pipe=pipe)
        self.at += width

    def _add(self, piece: str) -> None:
        if self._word is None:
            self._word = []
        self._word.append(piece)

    def _end_word(self) -> None:
        if self._word is not None:
            self._words.append("".join(self._word))
            self._word = None

    def _quoted(self, quote: str) -> None:
        """What follows a backslash, or stands between quotes: part of a word, whatever it is."""
        script, at = self._script, self.at
        if quote == "\\":
            # A backslash before a line's end joins the lines; it leaves nothing behind.
            if script[at + 1 : at + 2] != "\n":
                self._add(script[at + 1 : at + 2])
            self.at += 2
            return
        if quote == "'":
            end = script.find("'", at + 1)
            end = len(script) if end < 0 else end
        else:
            end = _end_of_double_quotes(script, at + 1)
        inside = script[at + 1 : end]
        self._add(inside)
        if quote == '"':
            self._look_into(inside)
        self.at = end + 1

    def _here(self) -> bool:
        """Take a here-string or the beginning of a here-document, if there is one here."""
        if self._script.startswith(_HERE_STRING, self.at):
            self._end_word()
            self._words.append(_HERE_STRING)
            self.at += len(_HERE_STRING)
            return True
        heredoc = None if self._in_arithmetic else re.compile(_HEREDOC).match(self._script, self.at)
        if heredoc is None:
            return False
        self._end_word()
        delimiter = re.sub(r"['\"\\]", "", heredoc[2])
        self._bodies.append(_HereDocument(delimiter, bool(heredoc[1]), delimiter != heredoc[2]))
        self.at = heredoc.end()
        return True

    def _end_line(self) -> None:
        """The end of a line, and the bodies of the here-documents that were announced on it."""
        self._end_command_at(1)
        # A shell anywhere on the line may be the one that reads it: `cat <<E | sh`.
        of_this_line = self.found[self._line_start :]
        is_script = bool(self._bodies) and any(self._runs_a_shell(command) for _, command in of_this_line)
        self._line_start = len(self.found)
        for body in self._bodies:
            text, self.at = self._lines.heredoc_body(self.at, body.delimiter, strip_tabs=body.strip_tabs)
            if is_script:
                self.found.append((False, ["sh", "-c", text]))
            elif not body.is_literal:
                self._look_into(text)
        self._bodies = []

    def _look_into(self, text: str) -> None:
        """Commands whose output the shell puts into this text."""
        for inner in _substitutions(text):
            if self._depth + 1 > MAX_DEPTH:
                self.found.append((False, TOO_DEEP))
            else:
                commands = commands_in(inner, self._depth + 1, self._runs_a_shell)
                self.found.extend((False, command) for _, command in commands)


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
