"""JSON schemas in the strict flavour, to which servers hold a model's answer, and the way back from it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spindle.api.schemas import with_text
from spindle.api.shapes import Schema

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
        return with_text(dict(_ANY_SCALAR), text or "")
    if "$ref" in schema:
        text = schema.get("description")
        ref = {"$ref": schema["$ref"]}
        # A reference stands alone in this flavour.
        return {"anyOf": [ref], "description": text} if text else ref
    if is_map(schema):
        return with_text(_pairs(schema), schema.get("description", ""))
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
    return with_text({"anyOf": [*options, dict(_NULL)]}, text)


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
