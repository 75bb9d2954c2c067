"""Reads options and words of a command line against a table of options.

Options may stand before or after the words, which argparse does not allow; and this costs nothing at start-up. Knows
nothing of commands (`command_line.py` does), nor of what the options mean.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from spindle.errors import UsageError

FLAG, VALUE, LIST, PICTURES = "flag", "value", "list", "pictures"
"""PICTURES: a list whose option takes more than one word, as long as they name picture files."""
OPTIONAL = "optional"
"""A flag that takes a value only as `--name=VALUE`; without one its value is empty."""

PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".svg")
_MOST_DIGITS = 19
_PICTURE_STARTS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*")


class Option(msgspec.Struct, frozen=True):
    """One option: its spellings, what it takes, and a line of help."""

    names: tuple[str, ...]
    kind: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    is_hidden: bool = False
    """Accepted, but listed nowhere."""

    @property
    def key(self) -> str:
        """The first long spelling, as an identifier."""
        return next(name for name in self.names if name.startswith("--"))[2:].replace("-", "_")


class Parsed(msgspec.Struct):
    """What stood on the command line: values by option key, the words in order, and the command they are for."""

    values: dict[str, object]
    words: list[str]
    command: tuple[str, ...] = ()
    """The names of the command and its subcommand: ("exec", "resume")."""

    def flag(self, key: str) -> bool:
        return bool(self.values.get(key, False))

    def value(self, key: str) -> str | None:
        found = self.values.get(key)
        return found if isinstance(found, str) else None

    def many(self, key: str) -> list[str]:
        found = self.values.get(key)
        return [str(x) for x in found] if isinstance(found, list) else []


Table = Mapping[str, Option]
"""Options by each of their spellings."""


def by_name(options: Iterable[Option]) -> dict[str, Option]:
    return {name: option for option in options for name in option.names}


def parse(argv: Sequence[str], options: Iterable[Option]) -> Parsed:
    """Split `argv` into option values and words. Raises UsageError naming the offending argument."""
    table = by_name(options)
    parsed = Parsed({}, [])
    rest = deque(argv)
    while rest:
        token = rest.popleft()
        if token == "--":
            parsed.words += rest
            break
        if is_option(token):
            take_option(parsed, token, rest, table)
        else:
            parsed.words.append(token)
    return parsed


def is_option(token: str) -> bool:
    return token.startswith("-") and token not in ("-", "--")


def split_option(token: str, table: Table) -> tuple[str, str | None]:
    """The option's name as it was typed and the value that is glued to it: `--model=x`, `-mx`, `-m=x`."""
    if token.startswith("--"):
        name, has_value, value = token.partition("=")
        return name, value if has_value else None
    if token not in table and token[:2] in table:
        return token[:2], token[2:].removeprefix("=")
    return token, None


def take_option(parsed: Parsed, token: str, rest: deque[str], table: Table, page: str = "spindle") -> Option:
    """Put the option `token`, with what it takes of `rest`, into `parsed`. `page` is the command to get help for."""
    name, value = split_option(token, table)
    option = table.get(name)
    if option is None:
        raise UsageError(f"unexpected argument {name!r}{_hint(name, table, f'; see `{page} --help`')}")
    if option.kind == FLAG:
        if value is not None:
            raise UsageError(f"{name} takes no value")
        parsed.values[option.key] = True
        return option
    if option.kind == OPTIONAL:
        parsed.values[option.key] = value or ""
        return option
    if value is None:
        if not rest or rest[0] == "--" or rest[0] in table:
            raise UsageError(f"{name} needs a value{f' ({option.metavar})' if option.metavar else ''}")
        value = rest.popleft()
    taken = [value]
    if option.kind == PICTURES:
        while rest and not is_option(rest[0]) and rest[0] not in ("-", "--") and names_pictures(rest[0]):
            taken.append(rest.popleft())
        taken = [part for text in taken for part in text.split(",") if part]
    if option.choices and value not in option.choices:
        choices = ", ".join(option.choices)
        near = _hint(value, option.choices)
        raise UsageError(f"invalid value {value!r} for {name}{near + ' One' if near else '; use one'} of {choices}")
    if option.kind == VALUE:
        parsed.values[option.key] = value
    else:
        kept = parsed.values.setdefault(option.key, [])
        assert isinstance(kept, list)
        kept += taken
    return option


def whole_number(text: str) -> int | None:
    """A number as people write it on a line. `isdigit` alone is also true of `²`, and of what is too long to count."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS else None


def names_pictures(word: str) -> bool:
    """Whether a word is a picture file, or several with commas between them, and not the beginning of a prompt.

    A file that is not there counts by its ending, so that a slip in its name is told as such; but "explain a.png" is
    a sentence.
    """
    return all(_names_picture(part) for part in word.split(",") if part) and word.strip(",") != ""


def _names_picture(path: str) -> bool:
    has_ending = path.lower().endswith(PICTURE_ENDINGS)
    if not os.path.isfile(path):
        return has_ending and not any(char.isspace() for char in path)
    if has_ending:
        return True
    try:
        with open(path, "rb") as file:
            start = file.read(12)
    except OSError:
        return False
    return start.startswith(_PICTURE_STARTS) or (start[:4] == b"RIFF" and start[8:] == b"WEBP")


def nearest(word: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name that `word` was probably meant to be."""
    import difflib  # only when something is wrong

    return next(iter(difflib.get_close_matches(word, [*names], 1, cutoff)), None)


def _hint(word: str, names: Iterable[str], otherwise: str = "") -> str:
    """Dashes make every option like every other: they do not count."""
    by_letters = {name.lstrip("-"): name for name in names}
    near = nearest(word.lstrip("-"), by_letters) if len(word) > 2 else None
    return otherwise if near is None else f"; did you mean `{by_letters[near]}`?"
