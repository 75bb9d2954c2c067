"""Types as trees of shapes: each can describe itself to a model (`schemas`) and turn JSON values into Python ones.

A type is looked at once, when a tool is made or an output is asked for; whatever cannot be understood is refused then.
Later only values can be wrong, and that is a `Misfit`. pydantic reads its own types; for others it is never imported.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from spindle.protocol.items import encode_payload

Schema = dict[str, Any]

_JSON_NAMES = {
    type(None): "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "array",
    dict: "object",
}


class Misfit(ValueError):
    """A value does not fit its type. `str()` says where and why, in one line."""


def got(value: Any) -> str:
    """What kind of JSON value it is, in the words of type annotations."""
    return f"`{_JSON_NAMES.get(type(value), type(value).__name__)}`"


def _expected(what: str, value: Any, path: str) -> Misfit:
    return Misfit(f"{path}: expected {what}, got {got(value)}")


class Shape(ABC):
    """One type, or one part of it."""

    text: str = ""
    """What is said about the type itself."""
    label: str = ""
    """What the type is called in messages."""

    @abstractmethod
    def read(self, value: Any, path: str) -> Any:
        """The Python value for a JSON value; Misfit if there is none."""

    @abstractmethod
    def fits(self, value: Any) -> bool:
        """Whether the kind of the JSON value is right; a cheap look that does not go deep."""

    def parts(self) -> list[Shape]:
        return []


class Anything(Shape):
    """Any JSON value, taken as it is."""

    label = "any value"

    def read(self, value: Any, path: str) -> Any:
        return value

    def fits(self, value: Any) -> bool:
        return True


class Leaf(Shape):
    """A type that msgspec reads by itself: text, numbers, dates, …; `kind` keeps its constraints."""

    def __init__(self, kind: Any, schema: Schema, label: str) -> None:
        self.kind = kind
        self.schema = schema
        self.label = f"`{label}`"

    def read(self, value: Any, path: str) -> Any:
        if isinstance(value, float) and self.schema.get("type") == "integer" and value.is_integer():
            value = int(value)  # JSON knows one kind of number
        try:
            return msgspec.convert(value, self.kind, str_keys=True)
        except msgspec.ValidationError as error:
            reason, _, place = str(error).partition(" - at `$")
            raise Misfit(f"{path}{place.rstrip('`')}: {reason[:1].lower()}{reason[1:]}") from error

    def fits(self, value: Any) -> bool:
        try:
            self.read(value, "")
        except Misfit:
            return False
        return True

    def is_exactly(self, value: Any) -> bool:
        return type(value) is self.kind


class PathLeaf(Leaf):
    """A path of the file system, written as text."""

    def read(self, value: Any, path: str) -> os.PathLike[str]:
        if not isinstance(value, str):
            raise _expected("`str`", value, path)
        if "\0" in value:
            raise Misfit(f"{path}: a path cannot contain a NUL character")
        return self.kind(value)


class Choice(Shape):
    """One of a few values. `values` are pairs: as JSON, as Python."""

    def __init__(self, values: list[tuple[Any, Any]], label: str) -> None:
        self.values = values
        self.label = label

    def read(self, value: Any, path: str) -> Any:
        for json_value, python_value in self.values:
            if _is_same(json_value, value):
                return python_value
        known = ", ".join(encode_payload(json_value).decode() for json_value, _ in self.values)
        shown = encode_payload(value).decode()
        shown = shown if len(shown) <= 80 else f"{shown[:80]}…"
        raise Misfit(f"{path}: expected one of {known}, got {shown}")

    def fits(self, value: Any) -> bool:
        return any(_is_same(known, value) for known, _ in self.values)


def _is_same(known: Any, value: Any) -> bool:
    """JSON knows one kind of number, but a truth value is none."""
    return known == value and (type(known) is type(value) or {type(known), type(value)} == {int, float})


class ListOf(Shape):
    """Any number of values of one shape. `make` turns the list into what was asked for: a set, a tuple."""

    def __init__(self, item: Shape, make: Callable[[list[Any]], Any], label: str) -> None:
        self.item = item
        self.make = make
        self.label = f"`{label}`"

    @property
    def is_set(self) -> bool:
        return self.make in (set, frozenset)

    def read(self, value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise _expected("`array`", value, path)
        try:
            return self.make([self.item.read(entry, f"{path}[{place}]") for place, entry in enumerate(value)])
        except TypeError as error:
            if not self.is_set:
                raise
            raise Misfit(f"{path}: its entries cannot be put into a set") from error

    def fits(self, value: Any) -> bool:
        return isinstance(value, list)

    def parts(self) -> list[Shape]:
        return [self.item]


class TupleOf(Shape):
    """A fixed number of values, each with a shape of its own. A named tuple may leave out the last ones."""

    label = "`tuple`"

    def __init__(self, items: list[Shape], least: int, make: Callable[[list[Any]], Any]) -> None:
        self.items = items
        self.least = least
        self.make = make

    def read(self, value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise _expected("`array`", value, path)
        if not self.least <= len(value) <= len(self.items):
            raise Misfit(f"{path}: expected {len(self.items)} entries, got {len(value)}")
        read = [
            item.read(entry, f"{path}[{place}]")
            for place, (item, entry) in enumerate(zip(self.items, value, strict=False))
        ]
        return self.make(read)

    def fits(self, value: Any) -> bool:
        return isinstance(value, list) and self.least <= len(value) <= len(self.items)

    def parts(self) -> list[Shape]:
        return list(self.items)


class MapOf(Shape):
    """Keys that are not known beforehand. JSON's keys are text; `key` may make numbers or choices of them."""

    label = "`dict`"

    def __init__(self, key: Shape, value: Shape, make: Callable[[dict[Any, Any]], Any]) -> None:
        self.key = key
        self.value = value
        self.make = make

    def read(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _expected("`object`", value, path)
        return self.make(
            {self._read_key(key, path): self.value.read(entry, f"{path}.{key}") for key, entry in value.items()}
        )

    def _read_key(self, key: str, path: str) -> Any:
        if not isinstance(self.key, Leaf) or isinstance(self.key, PathLeaf) or self.key.kind is str:
            return self.key.read(key, f"{path}: the key {key!r}")
        try:
            return msgspec.convert(key, self.key.kind, strict=False)
        except msgspec.ValidationError as error:
            raise Misfit(f"{path}: the key {key!r} is no {self.key.label}") from error

    def fits(self, value: Any) -> bool:
        return isinstance(value, dict)

    def parts(self) -> list[Shape]:
        return [self.key, self.value]


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One named part of a record, or one parameter of a function."""

    name: str
    """As Python calls it."""
    key: str
    """As JSON calls it."""
    shape: Shape
    is_required: bool
    text: str = ""
    default: Any = msgspec.UNSET
    """Told to the model, if it is a plain value."""


class Record(Shape):
    """Named fields: a dataclass, a Struct, a TypedDict, or the parameters of a function."""

    def __init__(self, name: str, make: Callable[..., Any], text: str = "") -> None:
        self.name = name
        self.label = f"`{name}`"
        self.make = make
        self.text = text
        self.fields: list[Field] = []
        """Filled in after it is made, since a type may contain itself."""
        self.tag: tuple[str, str | int] | None = None
        """A field that says which type it is, and its value."""
        self.is_closed = False
        """Keys that are not known are an error."""

    def read(self, value: Any, path: str) -> Any:
        values, problems = self.read_fields(value, path)
        if problems:
            raise Misfit(problems[0])
        try:
            return self.make(**values)
        except Exception as error:  # the type checks its values itself, and may raise whatever it likes
            raise Misfit(f"{path}: {_reason(error)}") from error

    def read_fields(self, value: Any, path: str) -> tuple[dict[str, Any], list[str]]:
        """The values by name, and everything that is wrong."""
        if not isinstance(value, dict):
            return {}, [str(_expected("`object`", value, path))]
        problems: list[str] = []
        if self.tag is not None and value.get(self.tag[0], self.tag[1]) != self.tag[1]:
            problems.append(f"{_below(path, self.tag[0])}: expected {self.tag[1]!r}")
        values: dict[str, Any] = {}
        for field in self.fields:
            if field.key in value:
                try:
                    values[field.name] = field.shape.read(value[field.key], _below(path, field.key))
                except Misfit as misfit:
                    problems.append(str(misfit))
            elif field.is_required:
                problems.append(f"{_below(path, field.key)}: is missing")
        if self.is_closed:
            problems += [f"{_below(path, str(key))}: is not known" for key in value if key not in self.keys]
        return values, problems

    @property
    def keys(self) -> set[str]:
        return {field.key for field in self.fields} | ({self.tag[0]} if self.tag else set())

    def fits(self, value: Any) -> bool:
        if not isinstance(value, dict) or not all(field.key in value for field in self.fields if field.is_required):
            return False
        return self.tag is None or value.get(self.tag[0]) == self.tag[1]

    def parts(self) -> list[Shape]:
        return [field.shape for field in self.fields]


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


class OneOf(Shape):
    """A value of any of several shapes; the one that fits it most closely reads it."""

    def __init__(self, options: list[Shape]) -> None:
        self.options = options
        self.label = " or ".join(option.label for option in options)

    def read(self, value: Any, path: str) -> Any:
        fitting = [option for option in self._by_closeness(value) if option.fits(value)]
        problems: list[Misfit] = []
        for option in fitting:
            try:
                return option.read(value, path)
            except Misfit as misfit:
                problems.append(misfit)
        wanted = [option for option in self.options if not (isinstance(option, Leaf) and option.kind is type(None))]
        if problems:
            raise problems[0]
        if len(wanted) == 1:
            wanted[0].read(value, path)  # says what is wrong, more exactly than we could
        raise _expected(self.label, value, path)

    def _by_closeness(self, value: Any) -> list[Shape]:
        def distance(option: Shape) -> int:
            if isinstance(option, Leaf):
                return 0 if option.is_exactly(value) else 2
            if isinstance(option, Choice):
                return 1
            # A record without required fields would take any object: the one that knows most of the keys is meant.
            return 3 + len(value.keys() - option.keys) if isinstance(option, Record) and isinstance(value, dict) else 3

        return sorted(self.options, key=distance)

    def fits(self, value: Any) -> bool:
        return any(option.fits(value) for option in self.options)

    def parts(self) -> list[Shape]:
        return list(self.options)


class Foreign(Shape):
    """A type of pydantic's, which describes and reads itself. `adapter` is a `pydantic.TypeAdapter`."""

    def __init__(self, adapter: Any, label: str) -> None:
        self._adapter = adapter
        self.label = f"`{label}`"
        self.schema: Schema = adapter.json_schema()

    def read(self, value: Any, path: str) -> Any:
        try:
            # From JSON, not from Python: a strict model takes a date as text from the one, not from the other.
            return self._adapter.validate_json(encode_payload(value))
        except ValueError as error:
            raise Misfit(_from_pydantic(error, path)) from error
        except Exception as error:  # out of a validator
            raise Misfit(f"{path}: {_reason(error)}") from error

    def fits(self, value: Any) -> bool:
        try:
            self.read(value, "")
        except Misfit:
            return False
        return True


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, TypeError | ValueError) else f"{type(error).__name__}: {error}"


def _from_pydantic(error: ValueError, path: str) -> str:
    """The first thing that pydantic found, as one line."""
    listed = getattr(error, "errors", None)
    found: list[Mapping[str, Any]] = (
        listed(include_url=False, include_context=False, include_input=False) if listed else []
    )
    if not found:
        return f"{path}: {error}"
    first = found[0]
    place = path + "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in first.get("loc", ()))
    return f"{place}: {first.get('msg', 'is not valid')}"
