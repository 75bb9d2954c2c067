"""Shapes → JSON schemas, as the parameters of tools have them; `strict_schemas` makes the flavour for outputs. Pure.

The same type gives the same bytes: keys stand in the order of the fields, definitions in the order they are met.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from spindle.api.shapes import Anything, Choice, Foreign, Leaf, ListOf, MapOf, OneOf, Record, Schema, Shape, TupleOf
from spindle.protocol.items import encode_json

_INLINE_LIMIT = 1000
"""How many parts a schema may have before types that are used more than once are defined apart."""
_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def schema_of(shape: Shape) -> Schema:
    """The schema of a shape, with the definitions it needs."""
    return _Writer(shape).whole()


class _Writer:
    """Writes one schema. Types that contain themselves become definitions; so do repeated ones when it gets long."""

    def __init__(self, root: Shape) -> None:
        self._root = root
        self._defs: Schema = {}
        self._names: dict[int, str] = {}
        self._taken_over: dict[bytes, Schema] = {}
        self._apart = _recursive(root)
        if _size(root, self._apart) > _INLINE_LIMIT:
            self._apart |= _repeated(root)

    def whole(self) -> Schema:
        if isinstance(self._root, Record):
            written = self._record(self._root)
            if id(self._root) in self._apart:
                self._write(self._root)
        else:
            written = self._write(self._root)
        if "$ref" in written:  # the top is to be an object, not a reference to one
            written = {**self._defs[written.pop("$ref").rpartition("/")[2]], **written}
        return {**written, "$defs": self._defs} if self._defs else written

    def _write(self, shape: Shape, text: str = "") -> Schema:
        if isinstance(shape, Record) and id(shape) in self._apart:
            return with_text({"$ref": f"#/$defs/{self._define(shape)}"}, text)
        return with_text(self._body(shape), text or shape.text)

    def _body(self, shape: Shape) -> Schema:
        match shape:
            case Leaf(schema=schema):
                return self._foreign(schema) if "$defs" in schema else dict(schema)
            case Foreign(schema=schema):
                return self._foreign(schema)
            case Choice(values=values):
                return _choice([value for value, _ in values])
            case ListOf(item=item):
                unique = {"uniqueItems": True} if shape.is_set else {}
                return {"type": "array", "items": self._write(item), **unique}
            case TupleOf(items=items, least=least):
                return self._tuple([self._write(item) for item in items], least)
            case MapOf(key=key, value=value):
                names = {"propertyNames": self._write(key)} if isinstance(key, Choice) else {}
                return {"type": "object", **names, "additionalProperties": self._write(value) or True}
            case OneOf(options=options):
                return {"anyOf": [self._write(option) for option in options]}
            case Record():
                return self._record(shape)
            case Anything():
                return {}
            case _:
                raise AssertionError(f"{type(shape).__name__} has no schema")

    def _tuple(self, items: list[Schema], least: int) -> Schema:
        kinds = [item for place, item in enumerate(items) if item not in items[:place]]
        entry = kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}
        # Not every reader knows prefixItems; the other keys say nearly the same.
        return {"type": "array", "prefixItems": items, "items": entry, "minItems": least, "maxItems": len(items)}

    def _record(self, record: Record) -> Schema:
        properties: Schema = {}
        required: list[str] = []
        if record.tag is not None:
            properties[record.tag[0]] = _choice([record.tag[1]])
            required.append(record.tag[0])
        for field in record.fields:
            written = self._write(field.shape, field.text)
            if field.default is not msgspec.UNSET and "$ref" not in written:
                written["default"] = field.default
            properties[field.key] = written
            if field.is_required:
                required.append(field.key)
        written = with_text({"type": "object", "properties": properties}, record.text)
        if required:
            written["required"] = required
        if record.is_closed:
            written["additionalProperties"] = False
        return written

    def _define(self, record: Record) -> str:
        if id(record) not in self._names:
            name = self._names[id(record)] = self._free_name(record.name)
            self._defs[name] = {}  # its place, in the order they are met
            self._defs[name] = self._record(record)
        return self._names[id(record)]

    def _free_name(self, wanted: str) -> str:
        wanted = re.sub(r"[^A-Za-z0-9_.-]+", "_", wanted).strip("_") or "Type"
        name, number = wanted, 1
        while name in self._defs:
            number += 1
            name = f"{wanted}_{number}"
        return name

    def _foreign(self, schema: Schema) -> Schema:
        """A schema that somebody else wrote: its definitions are put where they are used, or among ours."""
        known = encode_json(schema)
        if known not in self._taken_over:
            self._taken_over[known] = self._taken(_without_titles(schema))
        return dict(self._taken_over[known])

    def _taken(self, schema: Schema) -> Schema:
        defs: Schema = schema.pop("$defs", {})
        names: dict[str, str] = {}
        for name in defs:
            if name in _reachable(defs[name], defs):
                names[name] = self._free_name(name)
                self._defs[names[name]] = {}

        def placed(part: Any) -> Any:
            if isinstance(part, list):
                return [placed(entry) for entry in part]
            if not isinstance(part, dict):
                return part
            ref = part.get("$ref")
            name = ref.rpartition("/")[2] if isinstance(ref, str) and ref.startswith("#/$defs/") else None
            if name is None or name not in defs:
                return {key: placed(entry) for key, entry in part.items() if key != "discriminator"}
            beside = {key: placed(entry) for key, entry in part.items() if key != "$ref"}
            if name in names:
                return {"$ref": f"#/$defs/{names[name]}", **beside}
            return {**placed(defs[name]), **beside}

        self._defs.update({ours: placed(defs[name]) for name, ours in names.items()})
        return placed(schema)


def _choice(values: list[Any]) -> Schema:
    kinds = {_TYPE_NAMES[type(value)] for value in values}
    typed = {"type": next(iter(kinds))} if len(kinds) == 1 else {}
    return {**typed, "enum": values}


def with_text(schema: Schema, text: str) -> Schema:
    """The schema with a description, if there is one."""
    return {**schema, "description": text} if text else schema


def _recursive(root: Shape) -> set[int]:
    """The records that contain themselves."""
    found: set[int] = set()
    done: set[int] = set()

    def visit(shape: Shape, above: tuple[int, ...]) -> None:
        if isinstance(shape, Record):
            if id(shape) in above:
                found.add(id(shape))
                return
            if id(shape) in done:
                return
            above = (*above, id(shape))
        for part in shape.parts():
            visit(part, above)
        if isinstance(shape, Record):
            done.add(id(shape))

    visit(root, ())
    return found


def _repeated(root: Shape) -> set[int]:
    counts: dict[int, int] = {}

    def visit(shape: Shape) -> None:
        if isinstance(shape, Record):
            counts[id(shape)] = counts.get(id(shape), 0) + 1
            if counts[id(shape)] > 1:
                return
        for part in shape.parts():
            visit(part)

    visit(root)
    return {shape for shape, count in counts.items() if count > 1}


def _size(root: Shape, apart: set[int]) -> int:
    sizes: dict[int, int] = {}

    def size(shape: Shape, is_top: bool = False) -> int:
        if isinstance(shape, Record):
            if id(shape) in apart and not is_top:
                return 1
            if id(shape) not in sizes:
                sizes[id(shape)] = 1 + sum(map(size, shape.parts()))
            return sizes[id(shape)]
        return 1 + sum(map(size, shape.parts()))

    return size(root, True)


def _reachable(schema: Any, defs: Schema) -> set[str]:
    names: set[str] = set()
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            waiting += part.values()
            ref = part.get("$ref")
            name = ref.rpartition("/")[2] if isinstance(ref, str) else None
            if name in defs and name not in names:
                names.add(name)
                waiting.append(defs[name])
    return names


def _without_titles(schema: Any) -> Any:
    """Titles only repeat the names. A property that is called so stays."""
    if isinstance(schema, list):
        return [_without_titles(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    kept: Schema = {}
    for key, value in schema.items():
        if key in ("properties", "$defs", "patternProperties") and isinstance(value, dict):
            kept[key] = {name: _without_titles(entry) for name, entry in value.items()}
        elif key in ("enum", "const", "default", "examples"):
            kept[key] = value
        elif not (key == "title" and isinstance(value, str)):
            kept[key] = _without_titles(value)
    return kept
