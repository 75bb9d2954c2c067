"""What can be typed where, in the form that all completion scripts are made of."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from spindle.config.keys import FEATURES
from spindle.frontends.command_table import SPINDLE
from spindle.frontends.commands import COMMON, HELP, Command, common_of, shown_options
from spindle.frontends.options import FLAG, OPTIONAL, Option
from spindle.frontends.setup_commands import SHELLS

FILES, FOLDERS, PROGRAMS = "files", "folders", "programs"


class Values(msgspec.Struct, frozen=True):
    """What may follow: fixed words, or one of FILES, FOLDERS and PROGRAMS, or nothing we know."""

    words: tuple[str, ...] = ()
    kind: str = ""


class Place(msgspec.Struct, frozen=True):
    """A command, by the names that lead to it."""

    path: str
    """`exec resume`; empty at the top."""
    spellings: tuple[str, ...]
    """The same with each alias of the last name."""
    commands: tuple[tuple[str, str], ...]
    """Subcommands, each with its summary."""
    options: tuple[Option, ...]
    words: Values
    is_verbatim: bool
    """Its first word begins a command line of its own."""


def places() -> list[Place]:
    return [*_below((SPINDLE,))]


def _below(path: tuple[Command, ...]) -> list[Place]:
    command = path[-1]
    names = tuple((below.name, below.summary) for below in command.shown)
    if len(path) > 1 and names:
        names += (("help", "show the page of a subcommand"),)
    options = (*shown_options(path), *common_of(path), *((HELP,) if len(path) > 1 else ()))
    above = [step.name for step in path[1:-1]]
    spellings = tuple(" ".join([*above, name]) for name in (command.name, *command.aliases)) if len(path) > 1 else ("",)
    place = Place(
        path=spellings[0],
        spellings=spellings,
        commands=names,
        options=options,
        words=_words_of(command),
        is_verbatim=command.verbatim_from is not None,
    )
    return [place, *(found for below in command.shown for found in _below((*path, below)))]


def _words_of(command: Command) -> Values:
    first = command.words[0][0].strip("[].") if command.words else ""
    if command.verbatim_from == 0 and first == "COMMAND":
        return Values(kind=PROGRAMS)
    match first:
        case "SHELL":
            return Values(words=SHELLS)
        case "FEATURE":
            return Values(words=tuple(FEATURES))
        case "COMMAND":
            return Values(words=tuple(below.name for below in SPINDLE.commands))
        case _:
            return Values()


def values_of(option: Option) -> Values:
    """What may follow an option."""
    match option.metavar:
        case "FILE" | "FILE...":
            return Values(kind=FILES)
        case "DIR":
            return Values(kind=FOLDERS)
        case "FEATURE":
            return Values(words=tuple(FEATURES))
        case _:
            return Values(words=option.choices)


def takes_value(option: Option) -> bool:
    """Whether the next word belongs to the option."""
    return option.kind not in (FLAG, OPTIONAL)


def names_with_value() -> list[str]:
    """Every spelling of every option that takes a value, to tell values from words."""
    found = {name for place in places() for option in place.options if takes_value(option) for name in option.names}
    return sorted(found | {name for option in COMMON if takes_value(option) for name in option.names})


def all_valued_options() -> list[Option]:
    """Options with something to offer as their value, one for each spelling set."""
    found = {option.names: option for place in places() for option in place.options if takes_value(option)}
    return [option for option in found.values() if values_of(option) != Values()]


def filled(frame: str, parts: Mapping[str, str]) -> str:
    """A script whose gaps, `@NAME@`, are filled."""
    for name, part in parts.items():
        frame = frame.replace(f"@{name}@", part)
    return frame
