"""YAML as skill files use it: PyYAML finds the structure, and every scalar is kept as the text that stands there.

So `version: 1.10` is "1.10", and nothing in a file decides which objects are made. Anchors, aliases and tags are
refused: nobody needs them here, and a few lines of aliases can stand for gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from yaml import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
)

MAX_DEPTH = 20
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_NULLS = ("", "~", "null", "Null", "NULL")
_CLEARER = {
    "mapping values are not allowed in this context": "a value that contains `: ` must be quoted",
    "found character that cannot start any token": "tabs cannot indent, and a value cannot start with this character; "
    "use blanks, or quote the value",
    "did not find expected key": "this does not fit what is before it; a value that begins with a bracket, brace or "
    "quote must be quoted as a whole",
    "did not find expected alphabetic or numeric character": "a value that begins with `*` or `&` must be quoted",
}
"""What the library says, in words that tell what to do."""


class YamlError(ValueError):
    """The text cannot be read; the message says where and why."""


def parse_yaml(text: str, first_line: int = 1) -> Any:
    """The whole text as a dict, a list, a string or None. `first_line` is the number messages give its first line."""
    try:
        return _Builder(yaml.parse(text, Loader=_LOADER), first_line).document()
    except yaml.MarkedYAMLError as error:
        problem = error.problem or "this is not YAML"
        mark = error.problem_mark or error.context_mark
        where = f"line {first_line + mark.line}: " if mark is not None else ""
        raise YamlError(where + _CLEARER.get(problem, problem)) from None
    except (yaml.YAMLError, UnicodeError):
        raise YamlError("it has control characters or bytes that are not text") from None


class _Builder:
    """Builds values from the library's events. It stops at the first thing it refuses, so the rest is not even read."""

    def __init__(self, events: Iterator[Event], first_line: int) -> None:
        self._events = events
        self._first_line = first_line

    def document(self) -> Any:
        value = None
        has_begun = False
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                if has_begun:
                    raise self._error(event, "there is more than one document")
                has_begun = True
                value = self._value(next(self._events), 0)
        return value

    def _value(self, event: Event, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise self._error(event, "nested too deeply")
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self._error(event, "anchors (&) and aliases (*) are not read; write the value out, or quote it")
        if getattr(event, "tag", None) is not None:
            raise self._error(event, "tags (!) are not read; leave it out, or quote the value")
        if isinstance(event, ScalarEvent):
            is_plain = event.implicit[0]
            return None if is_plain and event.value in _NULLS else event.value
        if isinstance(event, MappingStartEvent):
            return self._mapping(depth)
        return [self._value(entry, depth + 1) for entry in self._until(SequenceEndEvent)]

    def _mapping(self, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for event in self._until(MappingEndEvent):
            key = self._value(event, depth + 1)
            if not isinstance(key, str):
                raise self._error(event, "a key must be text")
            if key in result:
                raise self._error(event, f"duplicate key {key!r}")
            result[key] = self._value(next(self._events), depth + 1)
        return result

    def _until(self, end: type[Event]) -> Iterator[Event]:
        while not isinstance(event := next(self._events), end):
            yield event

    def _error(self, event: Event, reason: str) -> YamlError:
        return YamlError(f"line {self._first_line + event.start_mark.line}: {reason}")
