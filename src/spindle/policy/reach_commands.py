"""What of a command the agent could have written: the program, what it interprets, and what it finds by itself.

Read with `reach.py`, which is the door. A command is judged by what is known of its program: an interpreter runs a file
or a text, a wrapper another command, a package runner whatever the folder around it says. Of a program that is not
known here, arguments count that look like code. Data does not count: a server of files is given folders in reach.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from spindle.policy.destroyers import OWN_LANGUAGE
from spindle.policy.launchers import LAUNCHERS
from spindle.policy.reach import Found, find_program, paths_in
from spindle.policy.reach_programs import (
    CODE_ENDS,
    FETCHERS,
    FETCHING,
    FOLDER_OPTIONS,
    HARMLESS_BUILTINS,
    INTERPRETERS,
    OTHER_BUILTINS,
    PROJECT_RUNNERS,
    PYTHON,
    SCRIPT_OPTIONS,
    SOURCE_OPTIONS,
    TAME_BUILTINS,
    TEXT_TOOLS,
    Interpreter,
    package_names,
    program_files,
)
from spindle.policy.sandbox import absolute
from spindle.policy.wrappers import SHELLS, WRAPPERS, program_name, script_argument, unwrapped

if TYPE_CHECKING:
    from spindle.policy.reach import Reach

_MAX_DEPTH = 8


_KNOWN_VARIABLES = ("HOME", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
_CODE_ASSIGNMENT = re.compile(
    r"\b(\w*PATH|\w*LIB|\w*OPTIONS|\w*OPT|BASH_ENV|ENV|ZDOTDIR|PYTHON\w+|LD_\w+|DYLD_\w+|IFS)\+?="
)
"""A line that sets such a variable decides what later words mean."""
_SUBCOMMANDS = ("tool", "run", "exec", "x", "dlx")
_UNREAD = "$\ufffe"
"""Stands in a word for what only a shell knows."""
_SHEBANG_BYTES = 512
_EDITABLE_BYTES = 1 << 16


_BUILDS = frozenset(("compose", "build", "buildx", "bake"))
"""What container programs do by the files of a folder."""


class Judge:
    """Judges commands that are started in one folder with one environment."""

    def __init__(self, reach: Reach, *, cwd: str, env: Mapping[str, str], is_strict: bool = True) -> None:
        """`is_strict`: a line for a shell must be nothing but plain words, else it is in reach."""
        self._reach = reach
        self._cwd = cwd
        self._env = env
        self._is_strict = is_strict
        self._path = env.get("PATH", os.defpath)

    # ---- a line for a shell ----------------------------------------------------------------------

    def script(self, text: str, depth: int = 0) -> Found | None:
        """`$HOME` and `~` are known words. What else a shell expands is in reach where it would be run."""
        from spindle.policy.words import plain_parts  # needs the parser, and only hooks are lines for a shell

        if depth >= _MAX_DEPTH or _UNREAD in text:
            return Found(what=_short(text.replace(_UNREAD, "$…")))
        if (variable := self._reach.leads_into_reach(self._env, cwd=self._cwd)) is not None:
            return Found(what=f"${variable}")
        plain = _with_known_variables(text, self._env)
        parts = plain_parts(plain)
        if parts is None:
            return Found(what=_short(text)) if self._is_strict else self._tree(plain, depth)
        judge = self
        for part in parts:
            if part.patterns and not all(_is_home(part.words[at]) for at in part.patterns):
                return Found(what=_short(text))
            words = [self._without_tilde(word) if at in part.patterns else word for at, word in enumerate(part.words)]
            if words[0] in ("cd", "pushd"):
                if len(words) != 2 or words[1].startswith("-"):
                    return Found(what=_short(text))
                folder = os.path.normpath(absolute(words[1], judge._cwd))
                judge = Judge(self._reach, cwd=folder, env=self._env, is_strict=self._is_strict)
            elif (found := judge._part(words, text, depth)) is not None:
                return found
        return None

    def _without_tilde(self, word: str) -> str:
        return (self._env.get("HOME") or os.path.expanduser("~")) + word[1:]

    def _tree(self, text: str, depth: int) -> Found | None:
        """A line with expansions, redirections or control flow: every command that it has in it."""
        from spindle.policy.script_tree import MANY, UNKNOWN, TooMuch, read_script  # needs the parser

        try:
            tree = read_script(text)
        except TooMuch:
            tree = None
        if tree is None or _CODE_ASSIGNMENT.search(text):
            return Found(what=_short(text))
        moves = any(name in ("cd", "pushd", "popd") for command in tree.commands for name in command.names)
        for command in tree.commands:
            words = [self._without_tilde(word) if word.startswith("~/") else word for word in command.words]
            words = [word.replace(UNKNOWN, _UNREAD).replace(MANY, _UNREAD) for word in words]
            for name in command.names or [_UNREAD]:
                if name in TAME_BUILTINS or name in ("cd", "pushd", "popd"):
                    continue
                word = self._without_tilde(name) if name.startswith("~/") else name
                if UNKNOWN in word or MANY in word or (moves and "/" in word and not word.startswith("/")):
                    return Found(what=_short(text))
                if (found := self._part([word, *words], text, depth)) is not None:
                    return found
        return None

    def _part(self, words: list[str], text: str, depth: int) -> Found | None:
        name = words[0]
        if name in HARMLESS_BUILTINS:
            return None
        if name in (".", "source"):
            return self._file(words[1]) if len(words) > 1 and "/" in words[1] else Found(what=_short(text))
        return Found(what=_short(text)) if name in OTHER_BUILTINS else self.command(words, depth + 1)

    # ---- one command -----------------------------------------------------------------------------

    def command(self, argv: list[str], depth: int = 0) -> Found | None:
        if not argv or depth > _MAX_DEPTH or "$" in argv[0]:
            return Found(what=_short(shlex.join(argv)))
        if (found := self._program(argv[0])) is not None:
            return found
        name, words = program_name(argv[0]), argv[1:]
        if name in SHELLS:
            return self._shell(words, depth)
        if name in WRAPPERS:
            inner = [command for command in unwrapped(name, words) if command]
            assigned = [word for word in words if re.match(r"[A-Za-z_]\w*=", word)]
            if any(self._reach.leads_into_reach(dict([word.split("=", 1)]), cwd=self._cwd) for word in assigned):
                return Found(what=_short(shlex.join(argv)))
            return self._first(inner, depth)
        if name in FETCHERS or (name, next(iter(words), "")) in FETCHING:
            return self._fetched(argv, depth)
        if name in PROJECT_RUNNERS or (name in ("docker", "podman") and _BUILDS.intersection(words[:3])):
            return self._by_folder(argv) or self._rest(words, depth)
        if name in OWN_LANGUAGE and (found := self._told(argv, depth)) is not None:
            return found
        if name in TEXT_TOOLS:
            return self._any_of([path for at in range(len(words)) for path in program_files(name, words, at)])
        for pattern, interpreter in INTERPRETERS:
            if re.fullmatch(pattern, name):
                return self._interpreted(name, interpreter, words, depth)
        if name == "git" and (found := self._by_setting(words)) is not None:
            return found
        if name == "run-parts" and (found := self._any_of([word for word in words if not word.startswith("-")])):
            return found
        if name in LAUNCHERS and not words:
            return Found(what=name)  # whatever it is fed
        if name in LAUNCHERS:
            return self._first([words[at:] for at in range(min(len(words), 20))], depth) or self._rest(words, depth)
        return self._rest(words, depth)

    def _by_setting(self, words: list[str]) -> Found | None:
        """A folder of hooks, or a file, that a setting on git's own line names."""
        for setting in (words[at + 1] for at, word in enumerate(words[:-1]) if word == "-c"):
            key, _, value = setting.partition("=")
            path = os.path.expanduser(next(iter(value.lstrip("!").split()), ""))
            is_path = key.lower() == "core.hookspath" or "/" in path or os.path.lexists(f"{self._cwd}/{path}")
            if path and is_path and self._reach.holds(path, self._cwd):
                return Found(what=path)
        return None

    def _told(self, argv: list[str], depth: int) -> Found | None:
        """What a text in the program's own language has it run, and the file that such a text is read from."""
        from spindle.policy.languages import told  # few commands hold a text in another language

        name, words = program_name(argv[0]), argv[1:]
        said = told(name, words)
        for script in said.scripts if name in TEXT_TOOLS else ():
            if (found := self.script(script, depth + 1)) is not None:
                return found
        if said.is_unread and name in TEXT_TOOLS:
            return Found(what=_short(shlex.join(argv)))
        if (found := self._any_of([inner[0] for inner in said.maybe if "/" in inner[0]])) is not None:
            return found
        options = SCRIPT_OPTIONS.get(name, ())
        given = [words[at + 1] for at, word in enumerate(words[:-1]) if word in options]
        given += [word.partition("=")[2] for word in words if "=" in word and word.partition("=")[0] in options]
        given += [word[2:] for word in words if len(word) > 2 and word[:2] in options]
        return self._any_of(given)

    def _first(self, commands: Sequence[list[str]], depth: int) -> Found | None:
        return next((found for one in commands if (found := self.command(one, depth + 1)) is not None), None)

    def _program(self, word: str) -> Found | None:
        """The program itself, and what its first line says it is to be read by."""
        path = find_program(word, cwd=self._cwd, path=self._path)
        if path is None:
            return self._file(word) if "/" in word else None
        if self._reach.holds(path):
            return Found(what=path)
        line = _first_line(os.path.realpath(path))
        if line.startswith("#!"):
            words = line[2:].split()
            inner = next((one for one in words[1:] if not one.startswith("-") and "=" not in one), "")
            for one in (words[0] if words else "", inner if words and words[0].endswith("/env") else ""):
                found = find_program(one, cwd=self._cwd, path=self._path) if one else None
                if found is not None and self._reach.holds(found):
                    return Found(what=found)
                kinds = (how for pattern, how in INTERPRETERS if re.fullmatch(pattern, os.path.basename(one)))
                if (around := self._around(next(kinds, Interpreter()))) is not None:
                    return around
        return self._editable(path)

    def _editable(self, program: str) -> Found | None:
        """A program of a Python environment whose code is a folder in reach, as `pip install -e` makes it."""
        places = {os.path.dirname(os.path.dirname(path)) for path in (program, os.path.realpath(program))}
        for place in places:
            if not os.path.isfile(f"{place}/pyvenv.cfg"):
                continue
            for folder in _site_packages(place):
                for name in _names_in(folder):
                    if name.endswith(".pth") or (name.startswith("__editable__") and name.endswith(".py")):
                        text = _read(f"{folder}/{name}", _EDITABLE_BYTES)
                        if path := next(
                            (one for one in re.findall(r"/[^\s'\":,]+", text) if self._reach.holds(one)), ""
                        ):
                            return Found(what=path)
        return None

    def _shell(self, words: list[str], depth: int) -> Found | None:
        first = [words[at + 1] for at, word in enumerate(words[:-1]) if word in ("--rcfile", "--init-file")]
        if (found := self._any_of(first)) is not None:
            return found
        text = script_argument(words)
        if text is not None:
            return self.script(text, depth + 1)
        shell = Interpreter(valued=("-o", "-O", "+o", "+O", "--rcfile", "--init-file"))
        return self._interpreted("sh", shell, words, depth)

    def _interpreted(self, name: str, how: Interpreter, words: list[str], depth: int) -> Found | None:
        at, is_apart = 0, False
        while at < len(words):
            word, following = words[at], words[at + 1] if at + 1 < len(words) else ""
            if word == "--":
                at += 1
                break
            if not word.startswith(("-", "+")) or word in ("-", "+"):
                if at == 0 and word in how.subcommands:
                    at += 1
                    continue
                break
            if how is PYTHON and re.fullmatch(r"-[A-Za-z]*[IP][A-Za-z]*", word):
                is_apart = True
            option, value = _glued(word, (*how.code, *how.module))
            if option in how.code or word in how.code:
                return self._text(value or following, is_apart=is_apart) or self._rest(words[at + 2 :], depth)
            if option in how.module or word in how.module:
                return self._module(value or following, is_apart=is_apart) or self._rest(words[at + 1 :], depth)
            if (found := self._any_of([*paths_in(word), *_glued_folders(word, how.folders)])) is not None:
                return found
            if word in how.valued or word in how.folders:
                paths = following.split(os.pathsep) if word in how.folders else paths_in(following)
                if (found := self._any_of(paths)) is not None:
                    return found
                at += 1
            at += 1
        if at >= len(words):
            return Found(what=shlex.join([name, *words]))  # whatever it is fed
        return (
            self._file(words[at]) or self._beside(words[at]) or self._rest(words[at + 1 :], depth) or self._around(how)
        )

    def _around(self, how: Interpreter) -> Found | None:
        if not how.looks_around or not self._reach.holds(self._cwd):
            return None
        return Found(what=f"settings and modules in {self._cwd}", is_by_folder=True)

    def _file(self, word: str) -> Found | None:
        if "$" in word:
            return Found(what=word)  # only a shell knows
        word = word[1:] if word.startswith("@") and "/" in word else word  # a file with arguments
        return Found(what=absolute(word, self._cwd)) if self._reach.holds(word, self._cwd) else None

    def _beside(self, word: str) -> Found | None:
        """Interpreters look beside a file for what it loads."""
        folder = os.path.dirname(os.path.realpath(absolute(word, self._cwd)))
        return Found(what=folder) if self._reach.holds(folder) else None

    def _any_of(self, paths: Sequence[str]) -> Found | None:
        return next((found for path in paths if (found := self._file(path)) is not None), None)

    def _text(self, text: str, *, is_apart: bool) -> Found | None:
        """A program's text: it may name what is in reach, or load what lies in the working folder."""
        named = {part for root in self._reach.roots for part in (root, os.path.basename(root)) if part}
        if any(part in text for part in named):
            return Found(what=_short(text))
        if not is_apart and self._reach.holds(self._cwd):
            return Found(what=_short(text), is_by_folder=True)
        return None

    def _module(self, name: str, *, is_apart: bool) -> Found | None:
        if is_apart or not self._reach.holds(self._cwd):
            return None
        first = name.partition(".")[0].partition("/")[0]
        local = [f"{self._cwd}/{first}{end}" for end in ("", ".py", ".pyc", ".so", ".rb", ".lua")]
        path = next((path for path in local if first and os.path.lexists(path)), None)
        return Found(what=path or f"{name} in {self._cwd}", is_by_folder=path is None)

    # ---- what looks around itself ----------------------------------------------------------------

    def _by_folder(self, argv: list[str]) -> Found | None:
        """A program that does what the files of its folder say, or of one that it is given."""
        folders = [self._cwd]
        for at, word in enumerate(argv):
            option, equals, value = word.partition("=")
            if option in FOLDER_OPTIONS:
                folders.append(value if equals else "".join(argv[at + 1 : at + 2]))
            folders += [word[2:]] if word.startswith(("-C", "-f")) and len(word) > 2 else []
        inside = next((one for one in folders if one and self._reach.holds(one, self._cwd)), None)
        return None if inside is None else Found(what=absolute(inside, self._cwd))

    def _fetched(self, argv: list[str], depth: int) -> Found | None:
        """A program that fetches what it runs: in reach where that comes from a folder, or the folder has its name."""
        words = argv[1:]
        while words and words[0] in _SUBCOMMANDS:
            words = words[1:]
        sources, at = list[str](), 0
        while at < len(words) and words[at].startswith("-"):
            option, equals, value = words[at].partition("=")
            takes_next = not equals and option in SOURCE_OPTIONS
            sources += [value] if equals else words[at + 1 : at + 2] if takes_next else []
            at += 2 if takes_next else 1
        sources += words[at : at + 1]
        folders = [path.removeprefix("git+").removeprefix("file:").removeprefix("//") for path in sources]
        if (found := self._any_of([path for path in folders if path.startswith((".", "/"))])) is not None:
            return found
        if (found := self._rest(words[at + 1 :], depth)) is not None or not self._reach.holds(self._cwd):
            return found
        for name in {part for source in sources for part in package_names(source)}:
            for place in (f"node_modules/.bin/{name}", f"node_modules/{name}", f".venv/bin/{name}"):
                for folder in _upwards(self._cwd):
                    if os.path.lexists(path := f"{folder}/{place}") and self._reach.holds(path):
                        return Found(what=path)
        return Found(what=f"{argv[0]} in {self._cwd}", is_by_folder=True)

    # ---- arguments of programs that are not known ------------------------------------------------

    def _rest(self, words: list[str], depth: int) -> Found | None:
        """Arguments that are code, by their looks; and commands among them."""
        for at, word in enumerate(words):
            for path in (word, *paths_in(word)):
                if self._looks_like_code(path) and (found := self._file(path)) is not None:
                    return found
            name = os.path.basename(word)
            is_program = name in SHELLS or any(re.fullmatch(pattern, name) for pattern, _ in INTERPRETERS[:8])
            if is_program and len(words) > at + 1 and (found := self.command(words[at:], depth + 1)) is not None:
                return found
            if " " in word.strip() and depth < _MAX_DEPTH:
                try:
                    inner = shlex.split(word)
                except ValueError:
                    inner = []
                if len(inner) > 1 and (found := self._rest(inner, depth + 1)) is not None:
                    return found
        return None

    def _looks_like_code(self, word: str) -> bool:
        path = absolute(word, self._cwd)
        try:
            is_there = os.path.isfile(path)
        except ValueError:
            return False
        if word.endswith(CODE_ENDS):
            return is_there or "/" in word
        return is_there and (os.access(path, os.X_OK) or _first_line(path).startswith("#!"))


def _glued_folders(word: str, options: Sequence[str]) -> list[str]:
    """`-Ilib` and `--env-file=.env`: the folder or the file."""
    option, equals, value = word.partition("=")
    if equals and option in options:
        return value.split(os.pathsep)
    return [word[2:]] if len(word) > 2 and word[:2] in options and not word.startswith("--") else []


def _glued(word: str, options: Sequence[str]) -> tuple[str, str]:
    """`-cCODE` and `--eval=CODE`: the option and its value."""
    option, equals, value = word.partition("=")
    if equals and option in options:
        return option, value
    for option in options:
        if len(option) == 2 and not word.startswith("--"):
            at = word.find(option[1])
            if at > 0 and word[1:at].isalpha() | (at == 1):
                return option, word[at + 1 :]
    return "", ""


def _with_known_variables(text: str, env: Mapping[str, str]) -> str:
    """`$HOME` and its like written out, where nothing in the line could make them mean something else."""
    for name in _KNOWN_VARIABLES:
        value = env.get(name, "")
        is_tame = re.fullmatch(r"/[\w@%+=:,./-]*", value) is not None
        if is_tame and "'" not in text and "\\" not in text and not re.search(rf"(?<![$\w{{]){name}\b", text):
            text = re.sub(rf"\$({name}\b|\{{{name}\}})(?=[/\"\s;|&)]|$)", lambda _, value=value: value, text)
    return text


def _is_home(word: str) -> bool:
    return (word == "~" or word.startswith("~/")) and not any(character in word[1:] for character in "*?[]~")


def _upwards(folder: str) -> list[str]:
    found = [folder]
    while (parent := os.path.dirname(found[-1])) != found[-1]:
        found.append(parent)
    return found


def _site_packages(prefix: str) -> list[str]:
    return [f"{prefix}/lib/{name}/site-packages" for name in _names_in(f"{prefix}/lib") if name.startswith("python")]


def _names_in(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _first_line(path: str) -> str:
    return _read(path, _SHEBANG_BYTES).partition("\n")[0]


def _read(path: str, limit: int) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return ""
    try:
        return os.fsdecode(os.read(fd, limit))
    except OSError:
        return ""
    finally:
        os.close(fd)


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:199]}…"
