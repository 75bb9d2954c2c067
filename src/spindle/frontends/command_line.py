"""Reads a whole command line: which command of the table is meant, its options, its words.

Options may stand before or after the names of commands. A first word that is no command is the beginning of a prompt,
unless it looks like a slip.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from spindle.errors import UsageError
from spindle.frontends.command_table import EXEC, NOT_HERE, SPINDLE
from spindle.frontends.commands import COMMON, HELP, VERSION, Command, options_of, usage_lines, walk
from spindle.frontends.options import Option, Parsed, by_name, is_option, nearest, split_option, take_option

SURE = 0.7
"""How alike a word and a command's name must be to be taken for a slip even at the beginning of a sentence."""


class Line:
    """A command line that was understood. (No Struct: defining one takes longer than reading a line.)"""

    def __init__(self, path: tuple[Command, ...], parsed: Parsed, doubtful: str = "") -> None:
        self.path = path
        self.parsed = parsed
        self.doubtful = doubtful
        """A single word where a command is expected: a prompt for a person at a terminal, a slip in a script."""

    @property
    def command(self) -> Command:
        return self.path[-1]


def read(arguments: Sequence[str]) -> Line:
    """Raises UsageError for what cannot be understood. How many words there are is checked by `check_words`."""
    return _Reader(arguments).read()


class _Reader:
    def __init__(self, arguments: Sequence[str]) -> None:
        self.rest = deque(arguments)
        self.path: tuple[Command, ...] = (SPINDLE,)
        self.parsed = Parsed({}, [])
        self.used: list[tuple[str, Option]] = []
        """Each option as it was typed."""
        self.table = by_name((*COMMON, HELP, VERSION))

    def read(self) -> Line:
        is_sure = False
        while self.rest:
            token = self.rest.popleft()
            if token == "--":
                # Nobody writes `--` before a command: this is a prompt, even of one word.
                is_sure = len(self.path) == 1
                self.parsed.words += self.rest
                break
            if is_option(token):
                self._option(token)
            elif self._is_verbatim_from(token):
                break
        self._enter_default()
        if not self.parsed.flag("help"):
            self._check_options()
        words, doubtful = self.parsed.words, ""
        if len(self.path) == 1 and words:
            words[:] = [" ".join(words)]
            doubtful = "" if is_sure or _has_blank(words[0]) else words[0]
        self.parsed.command = tuple(command.name for command in self.path[1:])
        return Line(self.path, self.parsed, doubtful)

    def _is_verbatim_from(self, word: str) -> bool:
        """Take a word; True when all that follows belongs to it."""
        command, words = self.path[-1], self.parsed.words
        if not words and (below := command.find(word)) is not None:
            self._enter(below)
            return False
        if len(self.path) == 1:
            if not words:
                self._begin_sentence(word)
        elif not words and word == "help" and command.shown:
            self.path = descend(self.path, [name for name in self.rest if not is_option(name)])
            self.parsed.values["help"] = True
            return True
        elif not words and command.is_group:
            raise unknown_subcommand(self.path, word)
        words.append(word)
        if command.verbatim_from is None or len(words) <= command.verbatim_from:
            return False
        words += self.rest
        return True

    def _enter(self, command: Command) -> None:
        self.path = (*self.path, command)
        if len(self.path) == 2:
            # One table for the command and all below it: options may stand before the subcommand.
            known = (*_common_options(command), *_all_options(command), HELP)
            self.table = by_name((*known, VERSION) if command is EXEC else known)

    def _enter_default(self) -> None:
        if not self.parsed.flag("help") and (below := self.path[-1].find(self.path[-1].default)) is not None:
            self.path = (*self.path, below)

    # ---- options ----

    def _option(self, token: str) -> None:
        table = self.table
        name, _ = split_option(token, table)
        if name not in table:
            if len(self.path) == 1 and (later := by_name(_all_options(SPINDLE)).get(name)) is not None:
                # An option of the command that follows, or else `_check_options` refuses it.
                table = by_name([later])
            elif len(self.path) == 1 and self.parsed.words:
                raise unknown_command(self.parsed.words[0])
            elif (below := self.path[-1].find(name.removeprefix("--"))) is not None:
                raise UsageError(f"unexpected argument {name!r}; did you mean `{_name_of((*self.path, below))}`?")
        self.used.append((name, take_option(self.parsed, token, self.rest, table, _name_of(self.path))))

    def _check_options(self) -> None:
        """An option of another command, or of another subcommand, would be without effect and without a word."""
        own = by_name((*COMMON, HELP, VERSION, *options_of(self.path))) if self.used else {}
        for name, option in self.used:
            if name in own and own[name].kind == option.kind:
                self._rename(option, own[name])
                continue
            top = self.path[:2] if len(self.path) > 1 else (SPINDLE,)
            owners = [f"`{_name_of(path)}`" for path in walk(top[-1], top[:-1]) if name in by_name(path[-1].options)]
            raise UsageError(
                f"{name} is not an option of `{_name_of(self.path)}`{self._where_it_belongs(name, owners)}"
            )

    def _where_it_belongs(self, name: str, owners: list[str]) -> str:
        if (below := self.path[-1].find(name.removeprefix("--"))) is not None:
            return f"; did you mean the command `{_name_of((*self.path, below))}`?"
        if not 0 < len(owners) < 4:
            # Of too many to name them all, the one that most people want.
            return "; it is an option of `spindle exec` and others" if "`spindle exec`" in owners else ""
        return f"; it is an option of {' and '.join(owners)}"

    def _rename(self, read_as: Option, meant: Option) -> None:
        """Before the command was known, `-o` could have been the option of another one."""
        values = self.parsed.values
        if read_as.key != meant.key and read_as.key in values:
            values[meant.key] = values.pop(read_as.key)

    # ---- sentences ----

    def _begin_sentence(self, word: str) -> None:
        if _has_blank(word):
            return
        meant = SPINDLE.find(nearest(word, _command_names()) or "")
        # Of two letters that changed places in a short name, half of it is wrong; what follows tells what was meant.
        is_swapped = meant is not None and sorted(meant.name) == sorted(word)
        is_followed = meant is not None and bool(self.rest) and meant.find(self.rest[0]) is not None
        is_slip = (is_swapped and is_followed) or nearest(word, _command_names(), SURE) is not None
        if word in NOT_HERE or is_slip:
            raise unknown_command(word)


def check_words(line: Line) -> None:
    """Raises UsageError when a word is missing or one too many."""
    at_least, at_most = line.command.word_counts()
    words = line.parsed.words
    if len(words) < at_least:
        missing, _ = line.command.words[len(words)]
        usage = " or ".join(usage_lines(line.path))
        raise UsageError(f"`{_name_of(line.path)}` needs {missing.removesuffix('...')}; usage: {usage}")
    if at_most is not None and len(words) > at_most:
        takes_prompt = line.command.words[-1:] and line.command.words[-1][0] == "[PROMPT]"
        hint = "put the prompt into quotes" if takes_prompt else f"usage: {' or '.join(usage_lines(line.path))}"
        raise UsageError(f"unexpected argument {words[at_most]!r}; {hint}")


def unknown_command(word: str) -> UsageError:
    if word in NOT_HERE:
        return UsageError(f"Codex has a command {word!r}, Spindle does not; `spindle --help` lists those there are")
    near = nearest(word, _command_names())
    if near is not None:
        return UsageError(f"unknown command {word!r}; did you mean `spindle {near}`?")
    return UsageError(
        f"unknown command {word!r}; `spindle --help` lists them, and a prompt of one word needs `spindle exec`"
    )


def unknown_subcommand(path: tuple[Command, ...], word: str) -> UsageError:
    names = [command.name for command in path[-1].shown]
    near = nearest(word, names)
    hint = f"did you mean `{_name_of(path)} {near}`?" if near else f"there are: {', '.join(names)}" if names else ""
    what = f"`{_name_of(path)}` has no subcommand {word!r}" if len(path) > 1 else f"unknown command {word!r}"
    return UsageError(f"{what}; {hint}" if hint else what)


def descend(path: tuple[Command, ...], names: Sequence[str]) -> tuple[Command, ...]:
    """The command that `names` lead to from `path`. Raises UsageError naming the nearest one."""
    for name in names:
        below = path[-1].find(name)
        if below is None:
            raise unknown_subcommand(path, name)
        path = (*path, below)
    return path


def _common_options(command: Command) -> Sequence[Option]:
    """The common options that a command takes beside its own: all of them, as in Codex, unless it runs another program.

    There, somebody may believe that an option without effect confines that program.
    """
    tree = (command, *command.commands)
    if all(step.verbatim_from != 0 for step in tree):
        return COMMON
    keys = {key for step in tree for key in step.common}
    return [option for option in COMMON if option.key in keys]


def _all_options(command: Command) -> Iterator[Option]:
    yield from command.options
    for below in command.commands:
        yield from _all_options(below)


def _command_names() -> list[str]:
    return [command.name for command in SPINDLE.commands]


def _name_of(path: tuple[Command, ...]) -> str:
    return " ".join(command.name for command in path)


def _has_blank(text: str) -> bool:
    return any(char.isspace() for char in text)
