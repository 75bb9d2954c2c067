"""Commands that destroy: found wherever a shell would run them, however they are spelt.

The scan reads a script loosely: it takes quotes and backslashes away and looks at every place where a command can
begin. It may take data for a command, never a command for data; a here-document is data unless a shell reads it.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

MAX_DEPTH = 8
MAX_SCRIPT = 256 * 1024

_SHELLS = frozenset(("bash", "zsh", "sh", "dash", "ksh", "ash", "fish"))
_FETCHERS = frozenset(("curl", "wget"))
_PREFIXES = frozenset(("if", "then", "elif", "else", "while", "until", "do", "!", "{", "time"))
_FORK_BOMB = r"([\w:.]{1,40})\s{0,9}\(\s{0,9}\)\s{0,9}\{[^}]{0,200}?\1\s{0,9}\|\s{0,9}\1\s{0,9}&"
_HEREDOC = r"""<<(-?)[ \t]*((?:'[^'\n]*'|"[^"\n]*"|\\.|[^\s'"\\;&|<>()])+)"""

_WITH_VALUE: dict[str, str] = {
    # Single-letter options of wrappers that take the next word.
    "env": "uCS",
    "nice": "n",
    "timeout": "ks",
    "xargs": "aEeIiLlnPsd",
    "sudo": "ugpCrtTUhDR",
    "doas": "uC",
    "ionice": "cnp",
    "stdbuf": "ioe",
    "exec": "a",
}
_WRAPPERS = frozenset(("command", "builtin", "nohup", "busybox", "time", "setsid", "chroot", *_WITH_VALUE))


def is_dangerous(argv: Sequence[str]) -> bool:
    """Would this destroy work or the machine? Wrappers and nested shells are seen through."""
    return _is_dangerous_command(list(argv), 0)


def _is_dangerous_script(script: str, depth: int) -> bool:
    if depth > MAX_DEPTH or len(script) > MAX_SCRIPT:
        return True
    if re.search(_FORK_BOMB, script):
        return True
    fetched = False
    for piped, words in _commands_in(script, depth):
        name = os.path.basename(_strip_prefixes(words)[0]) if _strip_prefixes(words) else ""
        fetched = (fetched and piped) or False
        if fetched and _runs_a_shell(words):
            return True
        fetched = fetched or name in _FETCHERS
        if _is_dangerous_command(words, depth):
            return True
    return False


def _is_dangerous_command(words: list[str], depth: int) -> bool:
    words = _strip_prefixes(words)
    if not words:
        return False
    name, rest = os.path.basename(words[0]), words[1:]
    if name in _WRAPPERS:
        return (
            any(_is_dangerous_command(inner, depth + 1) for inner in _unwrap(name, rest))
            if depth <= MAX_DEPTH
            else True
        )
    if name in _SHELLS:
        script = _script_argument(rest)
        return script is not None and _is_dangerous_script(script, depth + 1)
    if name == "eval":
        return _is_dangerous_script(" ".join(rest), depth + 1)
    if name == "find":
        return any(
            word in ("-exec", "-execdir", "-ok", "-okdir") and _is_dangerous_command(rest[at + 1 :], depth + 1)
            for at, word in enumerate(rest)
        )
    if name.startswith("mkfs") or name == "shred":
        return True
    check = _CHECKS.get(name)
    return check is not None and check(rest)


# ---- single programs -----------------------------------------------------------------------------------


def _rm(words: list[str]) -> bool:
    return _has_flag(words, "f", "--force")


def _git(words: list[str]) -> bool:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-c", "-C", "--git-dir", "--work-tree", "--namespace", "--exec-path") else 1
    if at >= len(words):
        return False
    command, rest = words[at], words[at + 1 :]
    match command:
        case "reset" | "rm":
            return True
        case "clean":
            return _has_flag(rest, "f", "--force")
        case "checkout" | "restore":
            return "." in rest
        case "push":
            return _has_flag(rest, "f", "--force") or any(word.startswith("+") for word in rest)
        case "branch":
            return _has_flag(rest, "D", "") or (_has_flag(rest, "d", "--delete") and _has_flag(rest, "f", "--force"))
    return False


def _dd(words: list[str]) -> bool:
    return any(word.startswith("of=/dev/") and word not in ("of=/dev/null", "of=/dev/stdout") for word in words)


def _chmod(words: list[str]) -> bool:
    return _has_flag(words, "R", "--recursive") and "/" in words and any(word.lstrip("0") == "777" for word in words)


def _kill(words: list[str]) -> bool:
    return "-1" in words[1:] and words[0].startswith("-")


_CHECKS: dict[str, Callable[[list[str]], bool]] = {"rm": _rm, "git": _git, "dd": _dd, "chmod": _chmod, "kill": _kill}


def _has_flag(words: list[str], letter: str, long: str) -> bool:
    """A short flag alone or in a cluster, or its long form (also shortened), before `--`."""
    for word in words:
        if word == "--":
            return False
        if word.startswith("--"):
            name = word.split("=", 1)[0]
            if long and len(name) > 2 and (long.startswith(name) or name.startswith(long)):
                return True
        elif word.startswith("-") and letter in word[1:]:
            return True
    return False


# ---- seeing through ------------------------------------------------------------------------------------


def _strip_prefixes(words: list[str]) -> list[str]:
    """Without leading keywords and variable assignments."""
    at = 0
    while at < len(words) and (words[at] in _PREFIXES or re.match(r"[A-Za-z_]\w*\+?=", words[at])):
        at += 1
    return words[at:]


def _unwrap(name: str, words: list[str]) -> list[list[str]]:
    """The commands that a wrapper may run."""
    at, valued = 0, _WITH_VALUE.get(name, "")
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        at += 1
        if word == "--":
            break
        if name == "env" and word.startswith(("-S", "--split-string")):
            text = word.partition("=")[2] if "=" in word else word[2:] or " ".join(words[at : at + 1])
            return [text.split() + words[at + (not word[2:]) :]]
        if not word.startswith("--") and word[-1] in valued and len(word) == 2:
            at += 1
    if name == "timeout" or name == "chroot":
        at += 1
    # What follows an option we do not know may be its value or the command: look at both.
    return [words[at:], words[at + 1 :]] if at else [words]


def _script_argument(words: list[str]) -> str | None:
    """The script of a nested shell: the word behind a cluster of flags that holds `c`."""
    for at, word in enumerate(words):
        if word.startswith("-") and not word.startswith("--") and "c" in word and at + 1 < len(words):
            return words[at + 1]
        if not word.startswith(("-", "+")) and (at == 0 or words[at - 1] not in ("-o", "-O", "+o", "+O")):
            return None
    return None


def _runs_a_shell(words: list[str], depth: int = 0) -> bool:
    words = _strip_prefixes(words)
    if not words:
        return False
    name = os.path.basename(words[0])
    if name in _WRAPPERS:
        return depth >= MAX_DEPTH or any(_runs_a_shell(inner, depth + 1) for inner in _unwrap(name, words[1:]))
    return name in _SHELLS


# ---- reading a script ----------------------------------------------------------------------------------


def _commands_in(script: str, depth: int) -> list[tuple[bool, list[str]]]:
    """Everything that may be a command: its words, and whether it reads the one before through a pipe."""
    found: list[tuple[bool, list[str]]] = []
    words: list[str] = []
    word: list[str] | None = None
    piped = False
    bodies: list[tuple[str, bool, bool, bool]] = []  # delimiter, strip tabs, literal, read by a shell
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
            words = []
        piped = pipe

    def nested(text: str) -> None:
        if depth + 1 > MAX_DEPTH:
            found.append((False, ["shred"]))
        else:
            found.extend((False, inner) for _, inner in _commands_in(text, depth + 1))

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
            at += 3
        elif character == "<" and not arithmetic and (heredoc := re.compile(_HEREDOC).match(script, at)):
            end_word()
            delimiter = re.sub(r"['\"\\]", "", heredoc[2])
            bodies.append((delimiter, bool(heredoc[1]), delimiter != heredoc[2], _runs_a_shell(words)))
            at = heredoc.end()
        elif character == "\n":
            end_command(False)
            at += 1
            for body in bodies:
                text, at = lines.heredoc_body(at, body[0], strip_tabs=body[1])
                if body[3]:
                    nested(text)
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
