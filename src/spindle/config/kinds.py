"""What each configuration key may hold, and the check of one file against it. Says nothing about what keys mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from spindle.errors import ConfigError


class Kind(msgspec.Struct, frozen=True):
    """One sort of value: what people call it, the Python types TOML gives for it, and the allowed words, if few."""

    wanted: str
    types: tuple[type, ...]
    choices: tuple[str, ...] = ()
    items: type | None = None
    """Type of the members of an array or table."""
    is_path: bool = False
    """Relative paths are meant relative to the folder of the file they stand in."""
    minimum: int | None = None


class Table(msgspec.Struct, frozen=True):
    """A table with known keys. `each`: a table of such tables under names of the user's choice."""

    keys: Mapping[str, Any]
    each: bool = False
    array: bool = False
    is_open: bool = False
    """Other keys are fine too: the reference program's own, which we do not use."""
    named: Any = None
    """What a table under a name of the user's choice may hold, beside the known keys."""


ANY = Kind("any value", (object,))
IDLE = Kind("any value, without effect", (object,))
"""A key of the reference program that Spindle knows and has no use for."""
STR = Kind("a string", (str,))
BOOL = Kind("true or false", (bool,))
POSITIVE = Kind("an integer of 1 or more", (int,), minimum=1)
COUNT = Kind("an integer of 0 or more", (int,), minimum=0)
SIZE = Kind('a number of bytes, or a string such as "2G"', (int, str))
NUMBER = Kind("a number of 0 or more", (int, float), minimum=0)
STRINGS = Kind("an array of strings", (list, tuple), items=str)
STRING_MAP = Kind("a table of strings", (dict,), items=str)
PATH = Kind("a path", (str,), is_path=True)
PATHS = Kind("an array of paths", (list, tuple), items=str, is_path=True)


def one_of(*choices: str) -> Kind:
    return Kind(f"one of {', '.join(choices)}", (str,), choices)


class Layer(msgspec.Struct, kw_only=True):
    """One source of settings: a file, the `-c` options, or the flags."""

    label: str
    """How messages name it: the path, or `-c`."""
    folder: str
    """Relative paths are relative to this one."""
    values: dict[str, Any]
    text: str = ""
    """The file's text, to find the line of a key."""
    is_project: bool = False

    def has(self, path: tuple[str, ...]) -> bool:
        values: Any = self.values
        for name in path:
            if not isinstance(values, dict) or name not in values:
                return False
            values = values[name]
        return True

    def place(self, path: tuple[str, ...]) -> str:
        """`FILE:LINE`, or what comes nearest to it."""
        if not self.text:
            return self.label
        from spindle.config.locate import find_line  # only for messages

        line = find_line(self.text, path)
        return f"{self.label}:{line}" if line else self.label


Unknown = Callable[[Layer, tuple[str, ...], Mapping[str, Any]], None]


def check_layer(layer: Layer, table: Table, unknown: Unknown) -> None:
    """Check every value of `layer` and resolve its paths in place. `unknown` is called for keys not in `table`."""
    _check_table(layer, layer.values, table, (), unknown)


def idle_keys(values: Mapping[str, Any], table: Table, path: tuple[str, ...] = ()) -> list[str]:
    """The keys that are accepted and change nothing, dotted; `values` have been checked."""
    found: list[str] = []
    for key, value in values.items():
        kind = table.keys.get(key) or (table.named if isinstance(value, dict) else None)
        here = (*path, key)
        if kind is IDLE or (kind is None and table.is_open):
            found.append(dotted(here))
        elif isinstance(kind, Table) and kind.array:
            found += [name for entry in value for name in idle_keys(entry, kind, here)]
        elif isinstance(kind, Table) and kind.each:
            found += [name for inner in value for name in idle_keys(value[inner], kind, (*here, inner))]
        elif isinstance(kind, Table):
            found += idle_keys(value, kind, here)
    return list(dict.fromkeys(found))


def _check_table(layer: Layer, values: dict[str, Any], table: Table, path: tuple[str, ...], unknown: Unknown) -> None:
    for key, value in list(values.items()):
        kind = table.keys.get(key)
        here = (*path, key)
        if kind is None and table.named is not None and isinstance(value, dict):
            kind = table.named
        if kind is None:
            if not table.is_open:
                unknown(layer, here, table.keys)
        elif isinstance(kind, Table):
            _check_nested(layer, value, kind, here, unknown)
        else:
            _check_value(layer, value, kind, here)
            if kind.is_path:
                values[key] = _resolve(layer, value)


def _check_nested(layer: Layer, value: Any, table: Table, path: tuple[str, ...], unknown: Unknown) -> None:
    if table.array:
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            raise _wrong_type(layer, path, value, "an array of tables")
        for entry in value:
            _check_table(layer, entry, table, path, unknown)
    elif not isinstance(value, dict):
        raise _wrong_type(layer, path, value, "a table")
    elif table.each:
        for name, entry in value.items():
            if not isinstance(entry, dict):
                raise _wrong_type(layer, (*path, name), entry, "a table")
            _check_table(layer, entry, table, (*path, name), unknown)
    else:
        _check_table(layer, value, table, path, unknown)


def _check_value(layer: Layer, value: Any, kind: Kind, path: tuple[str, ...]) -> None:
    if kind is ANY or kind is IDLE:
        return
    # The exact type: a boolean is an integer to Python, but not to a person.
    if type(value) not in kind.types:
        raise _wrong_type(layer, path, value, kind.wanted)
    if kind.items is not None:
        _check_members(layer, value, kind, path)
    elif (kind.choices and _is_unknown_word(value, kind)) or (kind.minimum is not None and value < kind.minimum):
        raise ConfigError(f"{layer.place(path)}: {dotted(path)} is {value!r}, but must be {kind.wanted}")
    if kind.is_path and any("\0" in text for text in (value if kind.items else [value])):
        raise ConfigError(f"{layer.place(path)}: {dotted(path)} contains a NUL character")


def _check_members(layer: Layer, value: Any, kind: Kind, path: tuple[str, ...]) -> None:
    if type(value) is dict:
        for name, member in value.items():
            if type(member) is not kind.items:
                raise _wrong_type(layer, (*path, name), member, "a string")
        return
    for member in value:
        if type(member) is not kind.items:
            raise ConfigError(
                f"{layer.place(path)}: {dotted(path)} must be {kind.wanted}, found {describe(member)} among its members"
            )


def _is_unknown_word(value: Any, kind: Kind) -> bool:
    # A table in place of a word has a meaning of its own.
    return type(value) is str and value not in kind.choices


def _resolve(layer: Layer, value: Any) -> Any:
    if isinstance(value, str):
        return resolve_path(value, layer.folder)
    return [resolve_path(entry, layer.folder) for entry in value]


def resolve_path(path: str, folder: str) -> str:
    """`path` as an absolute one: `~` is the user's home, anything relative starts at `folder`."""
    expanded = os.path.expanduser(path) if path.startswith("~") else path
    return os.path.normpath(expanded if expanded.startswith("/") else f"{folder}/{expanded}")


def _wrong_type(layer: Layer, path: tuple[str, ...], value: Any, wanted: str) -> ConfigError:
    return ConfigError(f"{layer.place(path)}: {dotted(path)} must be {wanted}, found {describe(value)}")


def describe(value: Any) -> str:
    """A found value in the words of a TOML file. Its content is not repeated: it may be a secret in the wrong place."""
    names = {bool: "a boolean", str: "a string", int: "an integer", float: "a number with a fraction"}
    names |= {dict: "a table", list: "an array", tuple: "an array"}
    return names.get(type(value), "a date or time")


def dotted(path: tuple[str, ...]) -> str:
    """A key as TOML spells it, with odd names quoted and control characters escaped."""
    return ".".join(part if part.replace("-", "").replace("_", "").isalnum() else repr(part) for part in path)


def unknown_key(path: tuple[str, ...], known: Mapping[str, Any]) -> str:
    """That there is no such key, and the one that was probably meant."""
    import difflib  # only when something is wrong

    near = difflib.get_close_matches(path[-1], known, n=1)
    return f"unknown key {dotted(path)}{f'; did you mean {dotted((*path[:-1], near[0]))}?' if near else ''}"
