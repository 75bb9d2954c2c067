"""Does a JSON value fit a JSON schema?

Enough to notice an answer that is something else than what was asked for; words that are not known here say nothing.
"""

from __future__ import annotations

import re
from typing import Any

from spindle.protocol.items import encode_payload

_KINDS: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
}


_MOST_STEPS = 200_000
"""A schema that refers to itself can describe more alternatives than anybody can try."""


def check(value: Any, schema: Any, *, is_foreign: bool = False) -> str | None:
    """What is wrong with the value, as one line; None if it fits.

    Patterns of a foreign schema are not looked at: they can be written so that they take for ever.
    """
    return _Checker(schema, not is_foreign).problem(value, schema, "$", 0)


class _Checker:
    def __init__(self, root: Any, uses_patterns: bool) -> None:
        self._root = root
        self._uses_patterns = uses_patterns
        self._steps = 0

    def problem(self, value: Any, schema: Any, path: str, hops: int) -> str | None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            return f"{path}: the schema is too complicated"
        if schema is False:
            return f"{path}: nothing is allowed here"
        if not isinstance(schema, dict):
            return None
        ref = schema.get("$ref")
        if isinstance(ref, str) and hops < 32:
            found = self.problem(value, self._resolved(ref), path, hops + 1)
            if found is not None:
                return found
        return (
            _of_kind(value, schema, path)
            or _of_size(value, schema, path)
            or (_of_pattern(value, schema, path) if self._uses_patterns else None)
            or self._of_combinations(value, schema, path, hops)
            or (self._of_object(value, schema, path) if isinstance(value, dict) else None)
            or (self._of_array(value, schema, path) if isinstance(value, list) else None)
        )

    def _resolved(self, ref: str) -> Any:
        part = self._root
        for word in ref.removeprefix("#").split("/")[1:]:
            word = word.replace("~1", "/").replace("~0", "~")
            part = part.get(word) if isinstance(part, dict) else None
        return part

    def _of_combinations(self, value: Any, schema: dict[str, Any], path: str, hops: int) -> str | None:
        for option in _listed(schema, "allOf"):
            if (found := self.problem(value, option, path, hops + 1)) is not None:
                return found
        for word in ("anyOf", "oneOf"):
            options = _listed(schema, word)
            found = [self.problem(value, option, path, hops + 1) for option in options]
            if options and None not in found:
                return found[0] if len(found) == 1 else f"{path}: fits none of the {len(options)} alternatives"
        return None

    def _of_object(self, value: dict[str, Any], schema: dict[str, Any], path: str) -> str | None:
        for name in _listed(schema, "required"):
            if name not in value:
                return f"{path}.{name}: is missing"
        given = schema.get("properties")
        properties: dict[str, Any] = given if isinstance(given, dict) else {}
        patterns = schema.get("patternProperties")
        for name, entry in value.items():
            if name in properties:
                part = properties[name]
            elif isinstance(patterns, dict) and patterns:
                continue
            else:
                part = schema.get("additionalProperties")
                if part is False:
                    return f"{path}.{name}: is not known"
            if (found := self.problem(entry, part, f"{path}.{name}", 0)) is not None:
                return found
        return None

    def _of_array(self, value: list[Any], schema: dict[str, Any], path: str) -> str | None:
        places = _listed(schema, "prefixItems")
        for number, entry in enumerate(value):
            part = places[number] if number < len(places) else schema.get("items")
            if (found := self.problem(entry, part, f"{path}[{number}]", 0)) is not None:
                return found
        return None


def _of_kind(value: Any, schema: dict[str, Any], path: str) -> str | None:
    kind = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
    if kinds and not any(_is_kind(value, name) for name in kinds):
        return f"{path}: expected {' or '.join(map(str, kinds))}, got {_shown(value)}"
    choices = schema.get("enum")
    if isinstance(choices, list) and not any(_equal(value, choice) for choice in choices):
        return f"{path}: {_shown(value)} is none of the values that are allowed"
    if "const" in schema and not _equal(value, schema["const"]):
        return f"{path}: expected {_shown(schema['const'])}, got {_shown(value)}"
    return None


def _is_kind(value: Any, name: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name == "number":
        return is_number
    if name == "integer":
        return is_number and (isinstance(value, int) or value.is_integer())
    return isinstance(value, _KINDS[name]) if name in _KINDS else True


def _equal(value: Any, other: Any) -> bool:
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _of_size(value: Any, schema: dict[str, Any], path: str) -> str | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        limits = {
            "minimum": lambda limit: value >= limit,
            "maximum": lambda limit: value <= limit,
            "exclusiveMinimum": lambda limit: value > limit,
            "exclusiveMaximum": lambda limit: value < limit,
        }
    else:
        least, most = {str: ("minLength", "maxLength"), list: ("minItems", "maxItems")}.get(
            type(value), ("minProperties", "maxProperties")
        )
        limits = {least: lambda limit: len(value) >= limit, most: lambda limit: len(value) <= limit}
    for word, holds in limits.items():
        limit = schema.get(word)
        if isinstance(limit, int | float) and not isinstance(limit, bool) and not holds(limit):
            return f"{path}: {word} is {limit}, got {_shown(value)}"
    return None


def _of_pattern(value: Any, schema: dict[str, Any], path: str) -> str | None:
    pattern = schema.get("pattern")
    if isinstance(value, str) and isinstance(pattern, str):
        try:
            return None if re.search(pattern, value) else f"{path}: {_shown(value)} does not match {pattern!r}"
        except re.error:
            return None  # a pattern of another dialect
    return None


def _listed(schema: dict[str, Any], word: str) -> list[Any]:
    given = schema.get(word)
    return given if isinstance(given, list) else []


def _shown(value: Any) -> str:
    text = encode_payload(value).decode()
    return text if len(text) <= 80 else f"{text[:80]}…"
