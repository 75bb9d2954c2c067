"""What a rule that allows covers, beyond the words that it names.

Operands, yes; options only if the table of `harmless_options` has them. What starts another program is covered only as
far as the rule names that program: whatever it runs is judged like the command itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence

from spindle.policy.harmless_options import GENERAL, GENERAL_SHORT, Options, options_table
from spindle.policy.launchers import inner_starts, is_launcher, starts_programs
from spindle.policy.wrappers import SHELLS, without_version

REMOTE = frozenset(("ssh", "docker", "podman", "nerdctl", "kubectl", "vagrant", "aws", "gcloud"))
"""What these start, they start elsewhere: their own options and operands are judged, as for other programs."""
INTERPRETERS = frozenset(
    (
        *("python", "pypy", "ipython", "node", "nodejs", "deno", "bun", "ruby", "irb", "perl", "php", "lua", "luajit"),
        *("rscript", "r", "julia", "java", "jshell", "groovy", "scala", "kotlin", "ghci", "runghc", "swift", "tclsh"),
        *("wish", "osascript", "pwsh", "powershell", "cmd", "erl", "elixir", "iex", "guile", "racket", "sbcl", "ocaml"),
        *("ts-node", "tsx", "dotnet", "mono", "go", "zig"),
    )
)
_BUILTINS = """
. alias bg bind break builtin cd chdir command compgen complete compopt continue declare dirs disown enable eval exec
exit export fc fg getopts hash history jobs let local logout mapfile popd pushd read readarray readonly return set
setopt shift shopt source suspend trap typeset ulimit umask unalias unset unsetopt wait zmodload autoload emulate
"""
STATE_CHANGERS = frozenset(_BUILTINS.split())
"""Builtins of shells. They decide what the commands behind them mean: where they run, and which program a name is."""

_RUN_BY_SUBCOMMAND = frozenset(("go", "bun", "deno", "dotnet", "swift", "tsx", "zig"))
"""Interpreters whose first word is no file but says what to do."""
_RUNS = frozenset(("run", "exec", "x", "eval", "task", "serve", "script", "watch"))
_NO_PROGRAMS = frozenset(("test", "true", "false", "["))
# As text: `re` makes each of them when it is first needed, and most commands need none.
_PLAIN_PYTHON = r"-[uBOEsIqSx]+"
_PATHS = r"[./~\\]|\w+:|[^@].*/"
_REMOTE_NAME = r"(?a)[A-Za-z0-9_][\w.-]*\Z|(https|ssh|git)://|[\w.-]+@[\w.-]+:"
_MAX_DEPTH = 8


def no_word(_: str) -> bool:
    return False


def covers(
    named: int,
    words: Sequence[str],
    *,
    patterns: Collection[int] = (),
    is_program: Callable[[str], bool] = no_word,
    is_path: Callable[[str], bool] = no_word,
) -> bool:
    """Does a rule that names the first `named` of these words mean all of them?

    `patterns` are the places of words that a shell replaces by file names. `is_program` tells whether a word starts a
    program here, `is_path` whether it is there as a file or folder.
    """
    return _Cover(words, patterns, is_program, is_path).covers(named, 0, 0)


def innermost(words: Sequence[str]) -> int:
    """Where the command begins that all launchers in front only start."""
    at = 0
    for _ in range(_MAX_DEPTH):
        left = words[at:]
        if not left or not starts_programs(left) or plain_name(left[0]) in REMOTE:
            break
        inner = inner_starts(left)
        if len(inner) != 1:
            break
        at += inner[0]
    return at


def is_known(words: Sequence[str]) -> bool:
    """Is it known which options and operands this program takes?"""
    name = plain_name(words[0])
    return name in options_table() or name in INTERPRETERS or name in SHELLS or _options(list(words), 0)[0] is not None


def runs_by_place(words: Sequence[str]) -> bool:
    """Is the program, or the file that an interpreter runs, another one when seen from another folder?"""
    name = plain_name(words[0])
    if "/" in words[0] and not words[0].startswith(("/", "~")):
        return True
    if name not in SHELLS and (name not in INTERPRETERS or name in options_table()):
        return False
    file = next((word for word in words[1:] if not word.startswith(("-", "+"))), "")
    return "-m" not in words[1:3] and not file.startswith("/")


def has_only_harmless_options(words: Sequence[str]) -> bool:
    """Of a known program: is there nothing in its words that a rule for the program alone would not cover?

    Such a command is never offered for good. An interpreter's options belong to what the rule names.
    """
    options, behind = _options(words, 0)
    if options is None or "exact!" in options.marks:
        return True
    return covers(behind, words)


def unlisted_options(words: Sequence[str]) -> list[int]:
    """The places of options that are not known to be harmless; none for builtins of a shell."""
    if words[0] in STATE_CHANGERS or words[0] in ("[", "[[", "test"):
        return []
    options, at = _options(words, 0)
    if options is not None and "exact!" in options.marks:
        return [place for place, word in enumerate(words) if word.startswith("--") and "=" in word]
    found = [place for place in range(1, at - 1) if words[place].startswith("-")]
    while at < len(words) and words[at] != "--":
        is_option = len(words[at]) > 1 and words[at][0] == "-"
        width = _width(words[at], list(words[at + 1 : at + 2]), options) if is_option else 1
        found += [at] if width == 0 else []
        at += max(width, 1)
    return found


def plain_name(program: str) -> str:
    """`/usr/bin/python3.11` is python; `sqlite3` is itself."""
    name = os.path.basename(program).removesuffix(".exe")
    if (plain := without_version(name)) != name:
        return plain
    bare = re.sub(r"(?<=[a-z])-?\d[\d.]*$", "", name)
    return bare if name not in options_table() and (bare in INTERPRETERS or bare in options_table()) else name


class _Cover:
    """One look at one command."""

    def __init__(
        self,
        words: Sequence[str],
        patterns: Collection[int],
        is_program: Callable[[str], bool],
        is_path: Callable[[str], bool],
    ) -> None:
        self._words = list(words)
        self._patterns = patterns
        self._is_program = is_program
        self._is_path = is_path

    def covers(self, named: int, start: int, depth: int) -> bool:
        """Of the command that begins at `start`; `named` counts from the first word of all."""
        words = self._words
        if 0 in self._patterns or depth > _MAX_DEPTH:
            return False
        name = plain_name(words[start])
        if self._is_all_named(named) and not self._grows():
            return True
        if words[start] in STATE_CHANGERS and words[start] != "cd":
            return False  # builtins that run their words, or decide what later ones mean: only what is named
        command = words[start:]
        if starts_programs(command) and name not in REMOTE:
            inner = [start + at for at in inner_starts(command)]
            return bool(inner) and all(at < named and self.covers(named, at, depth + 1) for at in inner)
        if name in _RUN_BY_SUBCOMMAND and not _RUNS.isdisjoint(words[start + 1 : start + 2]):
            # `go run main.go`, `bun run build`: what runs must be named.
            return named > start + 2 and self._operands_and_options(named, start + 3, None, is_script=True)
        if name in SHELLS or (name in INTERPRETERS and name not in options_table()):
            return self._covers_script(named, start, name)
        options, behind = _options(words, start)
        if options is None:
            return self._operands_and_options(named, start + 1, None, is_script="/" in words[start])
        if "exact!" in options.marks:
            return False
        return self._operands_and_options(named, behind, options)

    def _is_all_named(self, named: int) -> bool:
        return named >= len(self._words)

    def _grows(self) -> bool:
        """May a shell put words in that look like options?"""
        return any(self._words[at][:1] in ("*", "?", "[", "-") for at in self._patterns)

    def _covers_script(self, named: int, start: int, name: str) -> bool:
        """An interpreter. Code on the command line must be among the named words; a file is an operand like others, and
        what follows is its own."""
        at = start + 1
        words = self._words
        while at < len(words) and words[at].startswith(("-", "+")):
            word = words[at]
            if name in ("python", "pypy") and word == "-m" and at + 1 < named:
                return self._as_module(named, at + 1)
            if re.fullmatch(r"-[A-Za-z]*[cem]|--eval|--print|-p|-pe|-jar|--command", word):
                return at + 1 < named and self._operands_and_options(named, at + 2, None, is_script=True)
            if at >= named and not (name in ("python", "pypy") and re.fullmatch(_PLAIN_PYTHON, word)):
                return False
            at += 1
        return self._operands_and_options(named, at + 1, None, is_script=True)

    def _as_module(self, named: int, at: int) -> bool:
        """`python -m pytest` is pytest."""
        options, behind = _options(self._words, at)
        if options is None:
            return self._operands_and_options(named, at + 1, None, is_script=True)
        return "exact!" not in options.marks and self._operands_and_options(named, behind, options)

    def _operands_and_options(self, named: int, at: int, options: Options | None, *, is_script: bool = False) -> bool:
        """The words from `at` on: what the rule names is as it is, all others must be harmless."""
        words = self._words
        first_operand = True
        while at < len(words):
            word = words[at]
            is_option = len(word) > 1 and word[0] in "-+" and not re.fullmatch(r"-\d+|-+", word)
            width = _width(word, words[at + 1 : at + 2], options) if is_option else 1
            if at in self._patterns and word[:1] in ("*", "?", "[", "-") and not _takes_anything(options):
                return False  # `rg x *` hands over whatever lies around, also what is named like an option
            if is_option and width == 0 and (at >= named or (at + 1 == named and "=" not in word)):
                return False  # not harmless; or the rule ends in front of what may be its value
            if not is_option:
                if at >= named and not self._is_plain_operand(word, options, first_operand, is_script):
                    return False
                first_operand = False
            at += max(width, 1)
        return True

    def _is_plain_operand(self, word: str, options: Options | None, is_first: bool, is_script: bool) -> bool:
        if options is None:
            # A program that we know nothing about may be one that starts others, or that takes options from a file.
            return is_script or not (
                word.startswith("@") or re.search(r"\s", word) or (word not in _NO_PROGRAMS and self._starts(word))
            )
        marks = options.marks
        if "assigns!" in marks and "=" in word:
            return False
        if "dashes!" in marks and is_first:
            return False  # `tar xIf PROGRAM a.tar`
        if "at!" in marks and word.startswith("@"):
            return False
        if "paths!" in marks and re.match(_PATHS, word) and not word.startswith("@"):
            return False
        if "remote!" in marks:
            # A folder is a repository, too, whose hooks or settings name programs.
            is_remote = not is_first or (re.match(_REMOTE_NAME, word) is not None and not self._is_path(word))
            is_near = not word.startswith((".", "/", "~")) and ".." not in word.split("/")
            return is_remote and is_near and "::" not in word
        return True

    def _starts(self, word: str) -> bool:
        name = plain_name(word)
        return is_launcher(name) or name in SHELLS or name in INTERPRETERS or self._is_program(word)


def _options(words: Sequence[str], start: int) -> tuple[Options | None, int]:
    """What the table says of this command, and where its options begin."""
    table = options_table()
    name = plain_name(words[start])
    at = start + 1
    own = table.get(name)
    # A subcommand may stand behind harmless options of the program itself: `git --no-pager log`.
    while own is not None and at < len(words) and words[at].startswith("-") and words[at] in own.listed:
        at += 1
    if at < len(words) and (found := table.get(f"{name} {words[at]}")) is not None:
        return found, at + 1
    return own, start + 1


def _takes_anything(options: Options | None) -> bool:
    return options is not None and options.all_but == ()


def _width(word: str, following: list[str], options: Options | None) -> int:
    """How many words a harmless option takes, its value included; 0 if it is not known to be harmless."""
    name, is_joined, _ = word.partition("=")
    if options is not None and options.all_but is not None:
        return 0 if _is_one_of(word, options.all_but) else 1
    listed = options.listed if options is not None else frozenset[str]()
    if word in listed or (
        is_joined and name in listed and (name.startswith("--") or (options and "~" in options.marks))
    ):
        return 1
    if options is not None and "~" in options.marks:
        return 1 if name in listed or name.removeprefix("-") in listed else 0
    if word.startswith("--"):
        if f"{name}=" in listed:
            return 1 if is_joined else 2
        excluded = options.excluded if options is not None else frozenset[str]()
        if name in listed:
            return 1
        return 1 if name in GENERAL and name not in excluded else 0
    return _cluster_width(word, following, listed)


def _cluster_width(word: str, following: list[str], listed: frozenset[str]) -> int:
    """The same for `-xvf`: every letter must be listed; behind one with a value stands that value."""
    if word[0] != "-":
        return 0
    for at, letter in enumerate(word[1:], 2):
        if f"-{letter}=" in listed:
            return 1 if at < len(word) else 2
        if at == len(word) and following and f"-{letter}={following[0]}" in listed:
            return 2
        if f"-{letter}" not in listed and letter not in GENERAL_SHORT:
            # `-j4` where `-j` stands alone in the list.
            return 1 if at > 2 and word[at - 1 :].isdigit() else 0
    return 1


def _is_one_of(word: str, denied: Sequence[str]) -> bool:
    """Does the word stand for one of these options: in full, shortened, in a cluster, with or without a value?"""
    name = word.split("=", 1)[0]
    for option in denied:
        if option.startswith("--"):
            if len(name) > 2 and name.startswith("--") and (name.startswith(option) or option.startswith(name)):
                return True
        elif len(option) == 2:
            if not word.startswith("--") and option[1] in name:
                return True
        elif name.startswith(option):
            return True
    return False
