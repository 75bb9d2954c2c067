"""Commands that destroy: found wherever a shell would run them, however they are spelt.

A script is read twice, loosely (`scan.py`) and by its parse tree (`script_tree.py`); what either of them finds counts.
What is too long, too deep or too much to be looked at in full counts as dangerous.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from spindle.policy.destroyers import DESTROYERS, INTERPRETERS, OWN_LANGUAGE, destroys, may_be, run_by_git
from spindle.policy.launchers import is_launcher, subcommand_at
from spindle.policy.scan import MAX_DEPTH, TOO_DEEP, commands_in
from spindle.policy.script_tree import MANY, UNKNOWN, Command, Script, TooMuch, read_script
from spindle.policy.words import evaluates
from spindle.policy.wrappers import SHELLS, WRAPPERS, program_name, reads_its_input, script_argument, unwrapped

MAX_SCRIPT = 256 * 1024
MAX_WORK = 4 * MAX_SCRIPT
MAX_STARTS = 64
MAX_LAUNCHED = 2000

FIND_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"))
_ELSEWHERE = frozenset(("git", "docker", "podman", "nerdctl", "kubectl", "vagrant", "gh", "gcloud"))
"""What these start runs elsewhere, or is looked at in another way."""
_FETCHERS = frozenset(("curl", "wget", "aria2c", "fetch", "nc", "ncat", "lynx", "http", "xh"))
_DECODERS = frozenset(("base64", "base32", "xxd", "openssl", "uudecode", "gunzip", "zcat", "bunzip2", "xz"))
_RUN_TEXT = frozenset(("eval", "source", "."))
COPIERS = frozenset(("cp", "ln", "mv", "install"))
_WRITERS = COPIERS | {"tee", "sponge", "dd", "sed", "gsed", "awk", "gawk", "mawk"}
_TALKERS = frozenset(("echo", "printf", "print", "cat"))
_PREFIXES = frozenset(("if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "coproc", "noglob"))
FORK_BOMB = r"([\w:.]{1,40})\s{0,9}\(\s{0,9}\)\s{0,9}\{[^}]{0,200}?\1\s{0,9}\|\s{0,9}\1\s{0,9}&"
DISK = r"/+dev/+(sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|mapper|md|loop|mem|kmem|port)"


def is_dangerous(argv: Sequence[str]) -> bool:
    """Would this destroy work or the machine? Wrappers and nested shells are seen through."""
    return _examined(tuple(argv))[0]


def gives_up(argv: Sequence[str]) -> bool:
    """Is there more in it than is looked at?"""
    return _examined(tuple(argv))[1]


@lru_cache(maxsize=32)
def _examined(argv: tuple[str, ...]) -> tuple[bool, bool]:
    """The words alone decide, so the tests and builds that a model runs again and again are examined once."""
    examination = Examination()
    return examination.is_dangerous_command(list(argv), 0), examination.gave_up


class Examination:
    """One look at a command. Texts that were looked at once are not looked at again."""

    def __init__(self) -> None:
        self.gave_up = False
        """What is too long, too deep or too much was met. It counts as dangerous."""
        self._seen: dict[str, int] = {}
        self._work = 0

    def _give_up(self) -> bool:
        self.gave_up = True
        return True

    # -- a script

    def is_dangerous_script(self, script: str, depth: int) -> bool:
        if depth > MAX_DEPTH or len(script) > MAX_SCRIPT:
            return self._give_up()
        if self._seen.get(script, depth + 1) <= depth:
            return False
        self._seen[script] = depth
        self._work += len(script)
        if self._work > MAX_WORK:
            return self._give_up()
        if re.search(FORK_BOMB, script):
            return True
        return self._by_scan(script, depth) or self._by_tree(script, depth)

    def _by_scan(self, script: str, depth: int) -> bool:
        fetched = False
        for piped, words in commands_in(script, depth, self.runs_a_shell):
            if piped and fetched and self.runs_a_shell(words):
                return True
            fetched = (piped and fetched) or self._name(words) in _FETCHERS
            if self.is_dangerous_command(words, depth):
                return True
        return False

    def _by_tree(self, script: str, depth: int) -> bool:
        try:
            found = read_script(script)
        except TooMuch:
            return self._give_up()
        if found is None:
            return False
        if any(re.match(DISK, os.path.normpath(path)) for path in found.written):
            return True
        if self._runs_what_it_fetched(found.commands):
            return True
        if self.runs_its_own_text(found) and any(
            self.is_dangerous_script(text, depth + 1) for text in self.texts_of(found)
        ):
            return True
        tokens = set(re.findall(r"[a-z][\w.-]*", script.lower()))
        for command in found.commands:
            for name in command.names:
                if MANY in name:
                    return self._give_up()
                if UNKNOWN in name or re.search(r"[*?\[]", name):
                    if self._may_be_dangerous(name, command.words, tokens, depth):
                        return True
                # A value with blanks in it is several words.
                elif self.is_dangerous_command([*(name.split() if " " in name else [name]), *command.words], depth):
                    return True
        return False

    def _may_be_dangerous(self, name: str, words: list[str], tokens: set[str], depth: int) -> bool:
        """The program is not known: it may be one that is named elsewhere, a wrapper, or nothing at all."""
        is_blank = not name.replace(UNKNOWN, "").strip("/")
        for program in DESTROYERS:
            if (program in tokens if is_blank else may_be(os.path.basename(name), program)) and destroys(
                program, words, guessed=True
            ):
                return True
        if is_blank and self.is_dangerous_command(words, depth + 1):
            return True
        script = script_argument(words)
        return script is not None and self.is_dangerous_script(script, depth + 1)

    def _runs_what_it_fetched(self, commands: list[Command]) -> bool:
        """A download, or something decoded, that a shell reads: through a pipe, or in place of a word or file."""
        pipelines: set[int] = set()
        fetches = sorted(command.start for command in commands if self._is_one_of(command, _FETCHERS))
        for command in commands:
            words = [*command.names[:1], *command.words]
            if command.pipeline is not None:
                if command.pipeline in pipelines and (self.runs_a_shell(words) or _interprets_its_input(words)):
                    return True
                is_decoder = self._is_one_of(command, _DECODERS) and _decodes(words)
                if is_decoder or self._is_one_of(command, _FETCHERS):
                    pipelines.add(command.pipeline)
            if self._is_one_of(command, SHELLS | _RUN_TEXT) or self.runs_a_shell(words):
                inside = bisect_left(fetches, command.start + 1)
                if inside < len(fetches) and fetches[inside] < command.end:
                    return True
        return False

    def runs_its_own_text(self, script: Script) -> bool:
        """Does a shell in it read from a pipe, a here-document, or a file that the script writes?"""
        paths = [*script.written]
        paths += [word for one in script.commands if self._is_one_of(one, _WRITERS) for word in _paths(one.words)]
        written = {os.path.basename(path) for path in paths} - {"null", "stderr", "stdout", "1", "2", ""}
        for command in script.commands:
            for name in command.names:
                words = [name, *command.words]
                if self.runs_a_shell(words) and self._reads_its_input(words):
                    return True
                if os.path.basename(name) in written or (
                    (self.runs_a_shell(words) or name in _RUN_TEXT)
                    and any(os.path.basename(word) in written or UNKNOWN in word for word in command.words)
                ):
                    return True
        return False

    def texts_of(self, script: Script) -> Iterable[str]:
        """Texts that stand in it: each by itself, and all of them together, as pieces of one."""
        yield from script.bodies
        said = [" ".join(command.words) for command in script.commands if self._is_one_of(command, _TALKERS)]
        for command in script.commands:
            if self._is_one_of(command, _TALKERS):
                for text in (" ".join(command.words), *(word for word in command.words if " " in word)):
                    yield text.replace("\\n", "\n").replace("\\t", "\t")
        if len(said) > 1:
            yield "".join(said).replace("\\n", "\n").replace("\\t", "\t")

    def program(self, words: list[str]) -> str:
        """The program behind keywords, assignments and wrappers."""
        return self._name(words)

    def reads_commands(self, words: list[str]) -> bool:
        """Is it a shell that takes its commands from its input?"""
        return self.runs_a_shell(words) and self._reads_its_input(words)

    def _is_one_of(self, command: Command, names: frozenset[str]) -> bool:
        return any(self._name([name, *command.words]) in names for name in command.names)

    # -- a command

    def is_dangerous_command(self, words: list[str], depth: int) -> bool:
        words = strip_prefixes(words)
        if not words:
            return False
        if depth > MAX_DEPTH or words == TOO_DEEP:
            return self._give_up()
        name, rest = program_name(words[0]), words[1:]
        if any(self.is_dangerous_script(word, depth + 1) for word in evaluates(words)):
            return True
        if name in WRAPPERS:
            return any(self.is_dangerous_command(inner, depth + 1) for inner in unwrapped(name, rest))
        if name in SHELLS:
            script = script_argument(rest)
            return script is not None and (MANY in script or self.is_dangerous_script(script, depth + 1))
        if name == "eval":
            return self.is_dangerous_script(" ".join(rest), depth + 1)
        if is_launcher(name) or (subcommand_at(words) is not None and name not in _ELSEWHERE):
            return self._launches_danger(rest, depth + 1)
        if name in ("find", "fd", "fdfind"):
            return any(
                word in FIND_RUNS and self.is_dangerous_command(rest[at + 1 :], depth + 1)
                for at, word in enumerate(rest[:-1])
            )
        if name in INTERPRETERS and any(self.is_dangerous_script(text, depth + 1) for text in INTERPRETERS[name](rest)):
            return True
        if name == "git" and any(self.is_dangerous_script(text, depth + 1) for text in run_by_git(rest)):
            return True
        if name in OWN_LANGUAGE and self._is_told_danger(name, rest, depth + 1):
            return True
        return destroys(name, rest)

    def _is_told_danger(self, name: str, words: list[str], depth: int) -> bool:
        """A text in the program's own language, such as an editor's command line."""
        from spindle.policy.languages import told  # few commands hold a text in another language

        said = told(name, words)
        return any(self.is_dangerous_script(text, depth) for text in said.scripts) or any(
            inner[0] in DESTROYERS and self.is_dangerous_command(inner, depth) for inner in said.maybe
        )

    def _launches_danger(self, words: list[str], depth: int) -> bool:
        """A launcher whose own words may end anywhere: we do not know its options."""
        if len(words) > MAX_LAUNCHED:
            return self._give_up()
        starts = 0
        for at, word in enumerate(words):
            name = os.path.basename(word)
            if " " in word or "\n" in word or "=" in word:
                # `alias x='rm -rf'` has its script behind the sign.
                value = re.sub(r"^[\w.-]+=", "", word)
                if self.is_dangerous_script(word, depth) or self.is_dangerous_script(value, depth):
                    return True
            elif name in DESTROYERS or name in SHELLS or name in WRAPPERS or name.startswith("mkfs"):
                starts += 1
                if starts > MAX_STARTS:
                    return self._give_up()
                if self.is_dangerous_command(words[at:], depth):
                    return True
        return False

    # -- shells

    def runs_a_shell(self, words: list[str], depth: int = 0) -> bool:
        words = strip_prefixes(words)
        if not words:
            return False
        name = program_name(words[0])
        if name in WRAPPERS:
            return depth >= MAX_DEPTH or any(
                self.runs_a_shell(inner, depth + 1) for inner in unwrapped(name, words[1:])
            )
        return name in SHELLS

    def _reads_its_input(self, words: list[str], depth: int = 0) -> bool:
        words = strip_prefixes(words)
        if not words:
            return False
        name = program_name(words[0])
        if name in WRAPPERS and depth < MAX_DEPTH:
            return any(self._reads_its_input(inner, depth + 1) for inner in unwrapped(name, words[1:]))
        return name in SHELLS and reads_its_input(words[1:])

    def _name(self, words: list[str], depth: int = 0) -> str:
        """The program behind keywords, assignments and wrappers."""
        words = strip_prefixes(words)
        if not words:
            return ""
        name = program_name(words[0])
        if name in WRAPPERS and depth < MAX_DEPTH:
            inner = [self._name(inside, depth + 1) for inside in unwrapped(name, words[1:])]
            return next(
                (found for found in inner if found in _FETCHERS or found in SHELLS), inner[-1] if inner else name
            )
        return name


def _paths(words: list[str]) -> Iterator[str]:
    """Words that may be a file which a command writes, and those in its own language."""
    for word in words:
        yield word.partition("=")[2] or word
        yield from re.findall(r"[\w./-]+", word) if " " in word or '"' in word else ()


def strip_prefixes(words: list[str]) -> list[str]:
    """Without leading keywords and variable assignments."""
    at = 0
    while at < len(words) and (words[at] in _PREFIXES or _is_assignment(words[at])):
        at += 1
        if words[at - 1] == "time" and words[at : at + 1] in (["-p"], ["--"]):
            at += 1
    return words[at:]


def _is_assignment(word: str) -> bool:
    return "=" in word and re.match(r"[A-Za-z_]\w*\+?=", word) is not None


def _interprets_its_input(words: list[str]) -> bool:
    """`python3` or `perl` alone, or with `-`, runs what is piped into it."""
    name = re.sub(r"[\d.]+$", "", os.path.basename(words[0])) if words else ""
    return name in ("python", "perl", "ruby", "node", "php") and all(word == "-" for word in words[1:])


def _decodes(words: list[str]) -> bool:
    return words[0] not in ("base64", "base32", "xxd", "openssl") or any(
        re.match(r"-[a-zA-Z]*[dDr]|--d", word) for word in words[1:]
    )
