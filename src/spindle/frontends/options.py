"""Reads a command line against a table of options.

Options may stand before or after the subcommand and between positional words, which argparse does not allow; and this
costs nothing at start-up. Knows nothing of what the options mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from spindle.errors import UsageError

FLAG, VALUE, LIST, VARIADIC = "flag", "value", "list", "variadic"
OPTIONAL = "optional"
"""A flag that takes a value only as `--name=VALUE`; without one its value is empty."""


class Option(msgspec.Struct, frozen=True):
    """One option: its spellings, what it takes, and a line of help."""

    names: tuple[str, ...]
    kind: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The first long spelling, as an identifier."""
        return next(name for name in self.names if name.startswith("--"))[2:].replace("-", "_")


class Parsed(msgspec.Struct):
    """What stood on the command line: values by option key, and the positional words in order."""

    values: dict[str, object]
    words: list[str]

    def flag(self, key: str) -> bool:
        return bool(self.values.get(key, False))

    def value(self, key: str) -> str | None:
        found = self.values.get(key)
        return found if isinstance(found, str) else None

    def many(self, key: str) -> list[str]:
        found = self.values.get(key)
        return [str(x) for x in found] if isinstance(found, list) else []


def parse(argv: Sequence[str], options: Sequence[Option], before: Parsed | None = None) -> Parsed:
    """Split `argv` into option values and words, added to what stood `before`.

    Raises UsageError naming the offending argument.
    """
    table = {name: option for option in options for name in option.names}
    parsed = before or Parsed({}, [])
    rest = list(argv)
    while rest:
        token = rest.pop(0)
        if token == "--":
            parsed.words += rest
            break
        if not token.startswith("-") or token == "-":
            parsed.words.append(token)
            continue
        name, has_value, value = token.partition("=") if token.startswith("--") else (token, "", "")
        if name not in table and not token.startswith("--") and len(token) > 2 and token[:2] in table:
            name, has_value, value = token[:2], "=", token[2:].removeprefix("=")  # -mMODEL
        option = table.get(name)
        if option is None:
            raise UsageError(f"unexpected argument {name!r}; see `spindle --help`")
        _take(parsed, option, name, value if has_value else None, rest, table)
    return parsed


def _take(
    parsed: Parsed, option: Option, name: str, value: str | None, rest: list[str], table: Mapping[str, Option]
) -> None:
    if option.kind == FLAG:
        if value is not None:
            raise UsageError(f"{name} takes no value")
        parsed.values[option.key] = True
        return
    if option.kind == OPTIONAL:
        parsed.values[option.key] = value or ""
        return
    if value is None:
        if not rest or rest[0] == "--" or (rest[0] in table):
            raise UsageError(f"{name} needs a value{f' ({option.metavar})' if option.metavar else ''}")
        value = rest.pop(0)
    taken = [value]
    if option.kind == VARIADIC:
        while rest and not rest[0].startswith("-"):
            taken.append(rest.pop(0))
        taken = [part for text in taken for part in text.split(",") if part]
    if option.choices and value not in option.choices:
        raise UsageError(f"invalid value {value!r} for {name}; use one of {', '.join(option.choices)}")
    if option.kind == VALUE:
        parsed.values[option.key] = value
    else:
        kept = parsed.values.setdefault(option.key, [])
        assert isinstance(kept, list)
        kept += taken


def help_lines(options: Sequence[Option]) -> list[str]:
    """The options as an aligned two-column list."""
    rows = []
    for option in options:
        names = ", ".join(sorted(option.names, key=len))
        if option.kind == OPTIONAL:
            names += f" [{option.metavar or 'VALUE'}]"
        elif option.kind != FLAG:
            names += f" {option.metavar or 'VALUE'}"
        text = option.help + (f" [{', '.join(option.choices)}]" if option.choices else "")
        rows.append((names, text))
    width = min(34, max((len(names) for names, _ in rows), default=0))
    return [f"  {names:<{width}}  {text}" for names, text in rows]
