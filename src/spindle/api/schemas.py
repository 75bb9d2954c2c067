"""Shapes → JSON schemas, in two flavours: for the parameters of tools, and strict for outputs. Pure.

The same type gives the same bytes: keys stand in the order of the fields, definitions in the order they are met.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from spindle.api.shapes import Anything, Choice, Foreign, Leaf, ListOf, MapOf, OneOf, Record, Schema, Shape, TupleOf
from spindle.protocol.items import encode_json

_INLINE_LIMIT = 1000
"""How many parts a schema may have before types that are used more than once are defined apart."""
_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_NULL: Schema = {"type": "null"}
_ANY_SCALAR: Schema = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"}]}
_NOT_STRICT = frozenset(("default", "uniqueItems", "prefixItems", "propertyNames", "discriminator"))
"""Words that servers refuse in a strict schema."""
_NOT_SURE = frozenset(("title", "examples", "minLength", "maxLength", "contentEncoding", "contentMediaType"))
"""Words that some servers refuse; left out where we write the schema, since we check the answer anyway."""
_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
DEFINITIONS = ("$defs", "definitions")
"""Where schemas keep what they refer to: today's word and the older one."""
_COMBINERS = ("anyOf", "oneOf", "allOf")


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
            return _with_text({"$ref": f"#/$defs/{self._define(shape)}"}, text)
        return _with_text(self._body(shape), text or shape.text)

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
        written = _with_text({"type": "object", "properties": properties}, record.text)
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


def _with_text(schema: Schema, text: str) -> Schema:
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


# ---- strict ------------------------------------------------------------------------------------------


def strict_schema(schema: Schema, *, is_ours: bool = False) -> Schema:
    """The flavour that servers hold a model to: every property required, none beside them, on every level.

    A field that may be left out may be null instead. Keys that are not known beforehand become a list of pairs, since
    the flavour has no other way to say it; `restored` takes both back. `is_ours`: nobody will miss a constraint.
    """
    if is_ours:
        schema = _plainer(schema)
    strict = _strict({key: value for key, value in schema.items() if key not in DEFINITIONS})
    for word in DEFINITIONS:
        if isinstance(defs := schema.get(word), dict):
            strict[word] = {name: _strict(value) for name, value in defs.items()}
    return strict


def _plainer(schema: Any, is_names: bool = False) -> Any:
    """Without the words that not every server takes; `is_names`: the keys are names, not words."""
    if isinstance(schema, list):
        return [_plainer(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value if key in ("enum", "const") and not is_names else _plainer(value, key in ("properties", "$defs"))
        for key, value in schema.items()
        if is_names or not (key in _NOT_SURE or (key == "format" and value not in _FORMATS))
    }


def _strict(schema: Any) -> Schema:
    if not isinstance(schema, dict) or not _says_something(schema):
        text = schema.get("description") if isinstance(schema, dict) else None
        return _with_text(dict(_ANY_SCALAR), text or "")
    if "$ref" in schema:
        text = schema.get("description")
        ref = {"$ref": schema["$ref"]}
        # A reference stands alone in this flavour.
        return {"anyOf": [ref], "description": text} if text else ref
    if is_map(schema):
        return _with_text(_pairs(schema), schema.get("description", ""))
    if _is_object(schema):
        return _strict_object(schema)
    kept = {key: value for key, value in schema.items() if key not in _NOT_STRICT}
    for word in _COMBINERS:
        if isinstance(options := kept.pop(word, None), list):
            kept[word if word != "oneOf" else "anyOf"] = [_strict(option) for option in options]
    if kept.get("type") == "array" or "items" in kept:
        kept["items"] = _strict(_entry_of(schema))
    return kept


def _says_something(schema: Schema) -> bool:
    words = ("type", "enum", "const", "$ref", "properties", "items", "prefixItems", "additionalProperties", *_COMBINERS)
    return any(word in schema for word in words)


def _entry_of(schema: Schema) -> Any:
    """What the entries of an array are; where each place has a kind of its own, any of the kinds."""
    places = schema.get("prefixItems")
    if not isinstance(places, list) or not places:
        return schema.get("items", {})
    kinds = [place for number, place in enumerate(places) if place not in places[:number]]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _is_object(schema: Schema) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema


def is_map(schema: Schema) -> bool:
    """An object whose keys are not known beforehand."""
    if schema.get("properties") or not (schema.get("type") == "object" or "additionalProperties" in schema):
        return False
    return "properties" not in schema and schema.get("additionalProperties") is not False


def _pairs(schema: Schema) -> Schema:
    value = schema.get("additionalProperties")
    key = schema.get("propertyNames")
    return {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "key": _strict(key) if isinstance(key, dict) and _says_something(key) else {"type": "string"},
                "value": _strict(value),
            },
            "required": ["key", "value"],
            "additionalProperties": False,
        },
    }


def _strict_object(schema: Schema) -> Schema:
    given = schema.get("properties")
    properties: Schema = given if isinstance(given, dict) else {}
    required = schema.get("required")
    always = set(required) if isinstance(required, list) else set[str]()
    strict = {name: _strict(value) for name, value in properties.items()}
    kept = {key: value for key, value in schema.items() if key not in _NOT_STRICT}
    return {
        **kept,
        "properties": {name: value if name in always else _nullable(value) for name, value in strict.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def _nullable(schema: Schema) -> Schema:
    if admits_null(schema):
        return schema
    text = schema.get("description", "")
    plain = {key: value for key, value in schema.items() if key != "description"}
    options = plain["anyOf"] if set(plain) == {"anyOf"} else [plain]
    return _with_text({"anyOf": [*options, dict(_NULL)]}, text)


def admits_null(schema: Any) -> bool:
    """Whether null is a value of it, as far as it says so itself."""
    if not isinstance(schema, dict) or not _says_something(schema):
        return True
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return "enum" not in schema or None in schema["enum"]
    if isinstance(values := schema.get("enum"), list):
        return None in values
    return any(admits_null(option) for word in ("anyOf", "oneOf") for option in schema.get(word) or ())


# ---- and back ----------------------------------------------------------------------------------------


def restored(value: Any, schema: Schema, *, keep_nulls: bool = False) -> Any:
    """What a value was before it was made strict: `schema` is the flavour from before.

    A list of pairs becomes an object again. A null stands for a field that was left out, where null is no value of it;
    `keep_nulls` leaves it there.
    """
    defs: Schema = {}
    for word in DEFINITIONS:
        if isinstance(found := schema.get(word), dict):
            defs.update(found)
    return _Restorer(defs, keep_nulls).value(value, schema)


class _Restorer:
    def __init__(self, defs: Schema, keep_nulls: bool) -> None:
        self._defs = defs
        self._keep_nulls = keep_nulls

    def value(self, value: Any, schema: Any) -> Any:
        if isinstance(value, dict):
            objects = [option for option in _options(schema, self._defs) if _is_object(option)]
            fitting = [option for option in objects if _takes_keys(option, value)] or objects
            return self._object(value, fitting[0]) if fitting else value
        if isinstance(value, list):
            for option in _options(schema, self._defs):
                if is_map(option) and (pairs := _as_mapping(value)) is not None:
                    return self._object(pairs, option)
                if option.get("type") == "array":
                    return [self.value(entry, place) for entry, place in _places(value, option)]
        return value

    def _object(self, value: dict[str, Any], schema: Schema) -> dict[str, Any]:
        if is_map(schema):
            inner = schema.get("additionalProperties")
            return {key: self.value(entry, inner) for key, entry in value.items()}
        properties, required = schema.get("properties") or {}, schema.get("required") or ()
        return {
            name: self.value(entry, properties.get(name))
            for name, entry in value.items()
            if name in required or name not in properties or not self._is_left_out(entry, properties[name])
        }

    def _is_left_out(self, entry: Any, schema: Any) -> bool:
        if entry is not None or self._keep_nulls:
            return False
        return not any(admits_null(option) for option in _options(schema, self._defs) if "$ref" not in option)


def _options(schema: Any, defs: Schema) -> Iterator[Schema]:
    """The schema itself, or all that it may mean, with references followed."""
    waiting, seen = [schema], set[str]()
    while waiting:
        part = waiting.pop(0)
        if not isinstance(part, dict):
            continue
        ref = part.get("$ref")
        if isinstance(ref, str) and ref not in seen:
            seen.add(ref)
            waiting.insert(0, defs.get(ref.rpartition("/")[2]))
        yield part
        for word in _COMBINERS:
            waiting += part.get(word) or ()


def _takes_keys(schema: Schema, value: dict[str, Any]) -> bool:
    """Whether the object can be meant: it has no other keys, and its choices are among those that are offered."""
    if is_map(schema):
        return True
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not value.keys() <= properties.keys():
        return False
    return all(
        value[name] in part["enum"]
        for name, part in properties.items()
        if name in value and isinstance(part, dict) and isinstance(part.get("enum"), list)
        if value[name] is not None
    )


def _as_mapping(value: list[Any]) -> dict[str, Any] | None:
    if not all(isinstance(pair, dict) and pair.keys() == {"key", "value"} for pair in value):
        return None
    return {pair["key"]: pair["value"] for pair in value if isinstance(pair["key"], str)}


def _places(value: list[Any], schema: Schema) -> Iterator[tuple[Any, Any]]:
    given = schema.get("prefixItems")
    places: list[Any] = given if isinstance(given, list) else []
    for number, entry in enumerate(value):
        yield entry, places[number] if number < len(places) else schema.get("items")
