"""Whether a value fits a type of the vendors' packages: typed dictionaries with nothing missing and nothing extra."""

from __future__ import annotations

import collections.abc
import types
import typing
from functools import cache
from typing import Any, Literal, get_args, get_origin

import typing_extensions
from typing_extensions import is_typeddict


def misfits(value: Any, kind: Any, where: str = "body") -> list[str]:
    """What is wrong with `value` as a `kind`; nothing if it fits."""
    kind = _bare(kind)
    if is_typeddict(kind):
        return _dict_misfits(value, kind, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (typing.Union, types.UnionType):
        tried = [misfits(value, choice, where) for choice in arguments]
        return [] if [] in tried else _closest(value, arguments, tried)
    if origin is Literal:
        return [] if value in arguments else [f"{where}: {value!r} is none of {arguments}"]
    if kind is Any or kind is object:
        return []
    if origin in (dict, collections.abc.Mapping):
        return [] if isinstance(value, dict) else [f"{where}: no object"]
    if origin is not None and isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        if not isinstance(value, list):
            return [f"{where}: no list"]
        places = [(f"{where}[{place}]", entry) for place, entry in enumerate(value)]
        return [wrong for place, entry in places for wrong in misfits(entry, arguments[0], place)]
    if kind is float:
        kind = (int, float)
    if kind is int and isinstance(value, bool):
        return [f"{where}: {value!r} is no number"]
    if isinstance(kind, type | tuple):
        return [] if isinstance(value, kind) else [f"{where}: {value!r} is no {kind}"]
    return [f"{where}: only a program could give {kind!r}"]  # an open file, say


def _dict_misfits(value: Any, kind: Any, where: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where}: no object"]
    hints = _hints(kind)
    wrong = [f"{where}: {name!r} is missing" for name in hints if _is_required(kind, name) and name not in value]
    for name, entry in value.items():
        if name not in hints:
            wrong.append(f"{where}: {name!r} is unknown to {kind.__name__}")
        else:
            wrong += misfits(entry, hints[name], f"{where}.{name}")
    return wrong


def _closest(value: Any, choices: tuple[Any, ...], tried: list[list[str]]) -> list[str]:
    """What is wrong by the choice that the value means (by its `type` or `role`), else by the closest one."""
    for choice, wrong in zip(choices, tried, strict=True):
        if isinstance(value, dict) and is_typeddict(_bare(choice)):
            tags = [name for name in ("type", "role") if name in value and name in _hints(_bare(choice))]
            if tags and all(not misfits(value[name], _hints(_bare(choice))[name]) for name in tags):
                return wrong
    return min(tried, key=len)


def _is_required(kind: Any, name: str) -> bool:
    # Not by `__required_keys__`: the packages' annotations are texts, which it does not look into.
    return get_origin(_hints(kind)[name]) is typing_extensions.Required


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing_extensions.get_type_hints(kind, include_extras=True)


def _bare(kind: Any) -> Any:
    """Without what only says how a field is sent or whether it must be there."""
    while get_origin(kind) in (typing.Annotated, typing_extensions.Required, typing_extensions.NotRequired):
        kind = get_args(kind)[0]
    return type(None) if kind is None else kind
