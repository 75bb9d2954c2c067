"""Every command of a line with the folder that it would run in, for those who judge by effect.

Variables have the values that the script or the environment gives them, `cd` is followed as a shell follows it, and
what some commands would print (`pwd`, `ls`, `git rev-parse --show-toplevel`) is known. Nothing is run.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence

from spindle.policy.danger import Examination
from spindle.policy.place import Place
from spindle.policy.script_tree import UNKNOWN, Command, Script, TooMuch, read_script
from spindle.policy.within import run_by, without_braces
from spindle.policy.wrappers import SHELLS, program_name, script_argument

_MAX_DEPTH = 6
_MOST = 3000
_MOST_BASES = 8
_SETS_VARIABLES = re.compile(r"(?:^|[;&|({\s])(?:source|\.|eval|read|mapfile|readarray|getopts|printf\s+-v)\s")
_GUARDED = r"\$\{%s\s*:?[-=+?]"
_READS = re.compile(r"(?:^|[;&\n])\s*([^;&\n]+?)\|\s*while\s+(?:IFS=\S*\s+)?read\s+(?:-\w+\s+)*(\w+)")
_READS_BEHIND = re.compile(r"while\s+(?:IFS=\S*\s+)?read\s+(?:-\w+\s+)*(\w+)[\s\S]*?done\s*<\s*<\(([^()]+)\)")


EVERY_FILE = "**"
"""Stands behind a folder for all files below it."""
Deed = tuple[list[str], str | None]
"""The words of a command, and the folder it runs in; None when there is no telling."""


class Walk:
    """Goes through a line once."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._left = _MOST

    def command(self, words: list[str], base: str | None, depth: int = 0) -> Iterator[Deed]:
        """A command, and all that it runs in turn."""
        self._left -= 1
        if not words or depth > _MAX_DEPTH or self._left < 0:
            return
        name = program_name(words[0])
        if name == "env":
            base = self._changed(words, base)
        yield words, base
        if name in SHELLS and (script := script_argument(words[1:])) is not None:
            behind = words[words.index(script) + 1 :] if script in words else []
            yield from self.script(script, base, depth + 1, behind)
            return
        if name == "eval":
            yield from self.script(" ".join(words[1:]), base, depth + 1)
            return
        run = run_by(name, words)
        for inner in (*run.commands, *run.maybe):
            yield from self.command(inner, base, depth + 1)
        for script in (*run.scripts, *run.values):
            yield from self.script(script, base, depth + 1)

    def script(self, script: str, base: str | None, depth: int = 0, given: Sequence[str] = ()) -> Iterator[Deed]:
        try:
            tree = read_script(script, self._known(script, base, given), lambda text: self._printed(text, base))
        except TooMuch:
            return
        if tree is None or depth > _MAX_DEPTH:
            return
        examination = Examination()
        if examination.runs_its_own_text(tree):
            for text in dict.fromkeys(examination.texts_of(tree)):
                yield from self.script(text, base, depth + 1)
        place = _Places(script, base)
        for command in sorted(tree.commands, key=lambda one: one.start):
            bases = place.at(command)
            for name in command.names:
                words = [*name.split(), *command.words] if " " in name else [name, *command.words]
                if words and words[0] in ("cd", "pushd", "chdir"):
                    place.move(command, [self._target(words[1:], one, tree) for one in bases])
                elif words[:1] == ["popd"]:
                    place.back()
                words = without_braces(words)
                words += self._piped(command, tree, script, bases[0]) if "xargs" in words else []
                for one in bases:
                    yield from self.command(words, one, depth + 1)

    def _changed(self, words: list[str], base: str | None) -> str | None:
        """`env -C folder`."""
        for at, word in enumerate(words[1:], 1):
            if word in ("-C", "--chdir"):
                return path_of("".join(words[at + 1 : at + 2]), base, self._place)
            if word.startswith("--chdir="):
                return path_of(word[8:], base, self._place)
        return base

    def _target(self, words: list[str], base: str | None, tree: Script) -> list[str | None]:
        words = [word for word in words if word not in ("-P", "-L", "-e", "--")]
        if not words:
            return [self._place.home or None]
        if words[0] == "-":
            return [self._place.variables.get("OLDPWD") or None]
        if not words[0]:
            return [base, self._place.home or None]  # an empty word stays, none goes home
        near = [f"{path}/{words[0]}" for path in tree.values.get("CDPATH", ()) if not words[0].startswith(("/", "."))]
        return [path_of(word, base, self._place) for word in (words[0], *near)]

    def _piped(self, command: Command, tree: Script, script: str, base: str | None) -> list[str]:
        """What xargs reads, if that is known."""
        before = [one for one in tree.commands if one.pipeline == command.pipeline and one.start < command.start]
        if command.pipeline is None or not before:
            return []
        return self._printed(script[before[-1].start : before[-1].end], base) or []

    def _known(self, script: str, base: str | None, given: Sequence[str]) -> dict[str, list[str]]:
        place = self._place
        known = {"HOME": [place.home or "~"], "PWD": [base or place.cwd or "."]}
        if given:
            known["@"] = list(given)
        if not _SETS_VARIABLES.search(script) and place.variables:
            for name in dict.fromkeys(re.findall(r"\$\{?([A-Za-z_]\w*)", script)):
                is_set = re.search(rf"\b{name}\+?=|\bfor\s+{name}\b", script) is not None
                if name not in known and not is_set and not re.search(_GUARDED % name, script):
                    known[name] = [place.variables.get(name, "")]
        for text, name in (*_READS.findall(script), *((two, one) for one, two in _READS_BEHIND.findall(script))):
            if (printed := self._printed(text, base)) is not None:
                known[name] = printed
        return known

    def _printed(self, text: str, base: str | None) -> list[str] | None:
        """What a command would print: paths, or a pattern for all names in a folder."""
        here = base or self._place.cwd or "."
        text = re.sub(r"\$\(\s*pwd\s*\)|`\s*pwd\s*`|\$\{?PWD\}?(?!\w)", lambda _: here, text)
        try:
            words = shlex.split(text)
        except ValueError:
            return None
        operands = [word for word in words[1:] if not word.startswith("-")]
        match words[:1]:
            case ["pwd"]:
                return [here]
            case ["cd"] if words[2:] == ["&&", "pwd"]:
                return [words[1]]
            case ["realpath" | "readlink"]:
                return operands[:1] or None
            case ["dirname"]:
                return [os.path.dirname(operands[0].rstrip("/")) or "."] if operands else None
            case ["echo" | "printf"]:
                return [word for word in words[1:] if "%" not in word] or None
            case ["ls"]:
                return [f"{folder}/*" for folder in operands or ["."]]
            case ["find"] if not find_narrows(words[1:]):
                return [f"{folder}/{EVERY_FILE}" for folder in operands[:1] or ["."]]
            case ["git"] if words[1:] == ["rev-parse", "--show-toplevel"]:
                return list(self._place.workspace[:1]) or None
            case ["git"] if words[1:] in (["ls-files"], ["ls-files", "-z"]):
                return [f"./{EVERY_FILE}"]
            case _:
                return None


class _Places:
    """The folders that the commands of one script may be in, subshell by subshell."""

    def __init__(self, script: str, base: str | None) -> None:
        self._script = script
        self._stack: list[list[str | None]] = [[base]]
        self._pushed: list[list[str | None]] = []
        self._at = 0

    def back(self) -> None:
        """`popd`."""
        self._stack[-1] = self._pushed.pop() if self._pushed else self._stack[0]

    def at(self, command: Command) -> list[str | None]:
        """Where this command runs. What a subshell did to its folder ends with it."""
        depth = lowest = len(self._stack)
        for character in self._script[self._at : command.start]:
            depth += (character == "(") - (character == ")")
            lowest = min(lowest, depth)
        self._at = command.start
        del self._stack[max(lowest, 1) :]
        while len(self._stack) < depth:
            self._stack.append(list(self._stack[-1]))
        return list(self._stack[-1])

    def move(self, command: Command, targets: list[list[str | None]]) -> None:
        behind = self._script[command.end :].lstrip()
        if re.match(r"&(?!&)|\|(?!\|)", behind):
            return  # in a shell of its own
        self._pushed.append(self._stack[-1])
        found = [one for several in targets for one in several]
        is_sure = behind.startswith("&&") or re.match(r"\|\|\s*\{?\s*(exit|return)", behind) is not None
        makes = re.search(r"\bmkdir\b|\bclone\b|\bset -\w*e", self._script) is not None
        if not is_sure and not makes and any(one is not None and not os.path.isdir(one) for one in found):
            found += self._stack[-1]  # where it stays if there is no such folder
        self._stack[-1] = list(dict.fromkeys(found))[:_MOST_BASES]


def path_of(word: str, base: str | None, place: Place) -> str | None:
    """The path that a word stands for, without what a pattern of everything adds; None when it cannot be told."""
    if re.match(r"~\+(?=/|$)", word):
        word = (base or place.cwd or ".") + word[2:]
    elif re.match(r"~-(?=/|$)", word) and place.variables.get("OLDPWD"):
        word = place.variables["OLDPWD"] + word[2:]
    word = re.sub(r"^\$\{?HOME\}?(?=/|$)", "~", word)
    word = re.sub(r"^\$\{?PWD\}?(?=/|$)", lambda _: base or place.cwd or ".", word)
    if not word or UNKNOWN in word or "$" in word or "`" in word:
        return None
    # `x/*`, `x/.*` and `x/{*,.*}` are all that is in x.
    while re.fullmatch(r"[*.?\[\]!{},]*\*[*.?\[\]!{},]*", word.rstrip("/").rpartition("/")[2]):
        word = word.rstrip("/").rpartition("/")[0] or ("/" if word.startswith("/") else ".")
    if word == "~" or word.startswith("~/"):
        word = (place.home or "~") + word[1:]
    if not word.startswith(("/", "~")):
        if base is None:
            return None
        word = f"{base}/{word}" if base else word
    return os.path.normpath(word).replace("//", "/")


_NARROWS = re.compile(
    r"-(i?name|i?path|i?wholename|i?regex|newer\w*|[amc]time|[amc]min|size|empty|perm|inum|links|samefile|lname|ilname|"
    r"executable|xtype|type)"
)
_FOR_ALL = re.compile(r"[*.?/]*\*[*.?/]*|\.\*|\^?\.\*\$?|\^?\./\.\*\$?")


def find_narrows(words: Sequence[str]) -> bool:
    """Does `find` with these words leave most files alone? Of several tests, those count that the action stands
    behind."""
    act = next((at for at, word in enumerate(words) if word == "-delete" or word.startswith(("-exec", "-ok"))), None)
    tests = list(words if act is None else words[:act])
    while "-o" in tests or "-or" in tests:
        at = max(at for at, word in enumerate(tests) if word in ("-o", "-or"))
        if ")" in tests[at:] or "\\)" in tests[at:]:
            if any(_FOR_ALL.fullmatch(word) for word in tests):
                return False
            tests[at] = "-a"  # both sides of one in brackets stand before the action
        else:
            tests = tests[at + 1 :]
    return any(
        _NARROWS.fullmatch(word) is not None
        and _is_narrow(word, "".join(tests[at + 1 : at + 2]))
        and tests[at - 1 : at] not in (["!"], ["-not"], ["\\!"])
        for at, word in enumerate(tests)
    )


def _is_narrow(test: str, value: str) -> bool:
    if test == "-type":
        return value in ("l", "p", "s", "b", "c")
    if test == "-perm":
        return value.strip("-/+0") != ""
    if test == "-size":
        return re.fullmatch(r"-\d+[MGTP]", value) is None and value not in ("+0", "-0")
    if re.fullmatch(r"-[amc](time|min)", test):
        return value not in ("+0", "-0") and not re.fullmatch(r"-\d{4,}", value)
    if re.fullmatch(r"-newer.t", test):
        return re.match(r"19\d\d|20[01]\d|@\d{1,9}$", value) is None
    return _FOR_ALL.fullmatch(value) is None
