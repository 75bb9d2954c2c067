"""Types as JSON schemas, JSON values as those types."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import subprocess
import sys
import typing
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NewType, Optional, Union

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.kit import (
    Animal,
    Box,
    Chain,
    Colour,
    Level,
    Loose,
    Mixed,
    Model,
    Named,
    Node,
    Odd,
    Place,
    Plant,
    Point,
    Rate,
    Renamed,
    Tree,
    stable_id,
)
from spindle.api.annotations import Unsupported, shape_of
from spindle.api.schemas import schema_of
from spindle.api.shapes import Misfit
from spindle.api.strict_schemas import restored, strict_schema
from spindle.protocol.items import encode_json
from spindle.protocol.schema_check import check

UserId = NewType("UserId", int)
NULL = {"type": "null"}
POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer", "description": "to the right"},
        "y": {"type": "integer", "description": "upwards", "default": 0},
    },
    "description": "A place.",
    "required": ["x"],
}


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Letters(enum.StrEnum):
    A = "a"


SCHEMAS: list[tuple[Any, dict[str, Any]]] = [
    (str, {"type": "string"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (None, NULL),
    (Any, {}),
    (object, {}),
    (list, {"type": "array", "items": {}}),
    (list[int], {"type": "array", "items": {"type": "integer"}}),
    (list[str], {"type": "array", "items": {"type": "string"}}),
    (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
    (Iterable[int], {"type": "array", "items": {"type": "integer"}}),
    (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
    (frozenset[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
    (tuple, {"type": "array", "items": {}}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (
        tuple[int, str],
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "minItems": 2,
            "maxItems": 2,
        },
    ),
    (dict, {"type": "object", "additionalProperties": True}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (Mapping[str, Any], {"type": "object", "additionalProperties": True}),
    (Literal["fast", "slow"], {"type": "string", "enum": ["fast", "slow"]}),
    (Literal[1, "a", None], {"enum": [1, "a", None]}),
    (Colour, {"type": "string", "enum": ["red", "blue"], "description": "What it looks like."}),
    (Level, {"type": "integer", "enum": [1, 2]}),
    (Letters, {"type": "string", "enum": ["a"]}),
    (Odd, {"type": "string", "enum": ["PAIR", "NONE"]}),
    (Rate, {"type": "number", "enum": [0.5, 1.0]}),
    (Optional[int], {"anyOf": [{"type": "integer"}, NULL]}),  # noqa: UP045 - the old form is to be read too
    (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
    (int | str | None, {"anyOf": [{"type": "integer"}, {"type": "string"}, NULL]}),
    (UserId, {"type": "integer"}),
    (datetime.date, {"type": "string", "format": "date"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    (pathlib.Path, {"type": "string"}),
    (Annotated[int, msgspec.Meta(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
    (Point, POINT),
    (
        Place,
        {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
            "required": ["city"],
        },
    ),
    (
        Loose,
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "string", "description": "always there"}},
            "description": "Half a thing.",
            "required": ["b"],
        },
    ),
    (
        Plant,
        {
            "type": "object",
            "properties": {
                "type": {"type": "string", "enum": ["plant"]},
                "leaves": {"type": "integer"},
                "tall": {"type": "boolean", "default": False},
            },
            "required": ["type", "leaves"],
        },
    ),
    (
        Renamed,
        {
            "type": "object",
            "properties": {"firstName": {"type": "string"}, "lastName": {"type": "string", "default": ""}},
            "required": ["firstName"],
            "additionalProperties": False,
        },
    ),
    (
        Box[int],
        {
            "type": "object",
            "properties": {
                "content": {"type": "integer"},
                "more": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["content"],
        },
    ),
]


@pytest.mark.parametrize(("kind", "schema"), SCHEMAS, ids=stable_id)
def test_a_type_has_this_schema(kind: Any, schema: dict[str, Any]) -> None:
    assert schema_of(shape_of(kind)) == schema


VALUES: list[tuple[Any, Any, Any]] = [
    (int, 3, 3),
    (int, 3.0, 3),
    (int, 10**30, 10**30),
    (float, 3, 3.0),
    (str, "ä\0", "ä\0"),
    (None, None, None),
    (Any, {"a": [1]}, {"a": [1]}),
    (list[int], [1, 2], [1, 2]),
    (set[str], ["a", "a"], {"a"}),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
    (Pair, [1], Pair(1, "r")),
    (collections.deque[int], [1], collections.deque([1])),
    (dict[str, float], {"a": 1}, {"a": 1.0}),
    (dict[int, str], {"1": "a"}, {1: "a"}),
    (dict[Colour, int], {"red": 1}, {Colour.RED: 1}),
    (Literal[1, "a", None], None, None),
    (Colour, "blue", Colour.BLUE),
    (Level, 2, Level.HIGH),
    (Odd, "PAIR", Odd.PAIR),
    (Rate, 0.5, Rate.HALF),
    (Rate, 1, Rate.WHOLE),
    (str | Colour, "red", "red"),
    (float | int, 5, 5),
    (int | float, 5.5, 5.5),
    (bool | int, True, True),
    (int | str, "5", "5"),
    (datetime.datetime, "2026-01-02T03:04:05", datetime.datetime(2026, 1, 2, 3, 4, 5)),
    (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
    (bytes, "YQ==", b"a"),
    (pathlib.Path, "a/b", pathlib.Path("a/b")),
    (Point, {"x": 1}, Point(1, 0)),
    (Point, {"x": 1, "y": None}, Point(1, 0)),
    (Named, {"name": "n", "at": {"x": 1}, "note": None}, Named("n", Point(1))),
    (list[Point | None], [None, {"x": 2, "y": 3}], [None, Point(2, 3)]),
    (Animal | Plant, {"type": "plant", "leaves": 2}, Plant(2)),
    (Point | Named, {"name": "n", "at": {"x": 1}}, Named("n", Point(1))),
    (Renamed, {"firstName": "a"}, Renamed("a")),
    (Place, {"city": "x", "unknown": 1}, {"city": "x"}),
    (Loose, {"b": "x"}, {"b": "x"}),
    (Chain, {"value": 1, "next": {"value": 2}}, Chain(1, Chain(2))),
    (Node, {"value": 1, "children": [{"value": 2}]}, Node(1, [Node(2)])),
    (Box[Point], {"content": {"x": 1}, "more": [{"x": 2}]}, Box(Point(1), [Point(2)])),
    (Model, {"name": "n"}, Model(name="n")),
    (Tree, {"title": "a", "kids": [{"title": "b"}]}, Tree(title="a", kids=[Tree(title="b")])),
    (Mixed, {"model": {"name": "a"}, "extra": {"k": {"name": "b", "count": 2}}}, None),
    (Annotated[str, "words"], "x", "x"),
]


@pytest.mark.parametrize(("kind", "value", "expected"), VALUES, ids=stable_id)
def test_a_value_becomes_an_instance(kind: Any, value: Any, expected: Any) -> None:
    shape = shape_of(kind)
    read = shape.read(restored(value, schema_of(shape)), "$")
    if kind is Mixed:
        expected = Mixed(Model(name="a"), {"k": Model(name="b", count=2)})
    assert read == expected and type(read) is type(expected)


MISFITS: list[tuple[Any, Any, str]] = [
    (int, "3", "$: expected `int`, got `str`"),
    (int, 1.5, "$: expected `int`, got `float`"),
    (int, True, "$: expected `int`, got `bool`"),
    (int, None, "$: expected `int`, got `null`"),
    (str, 3, "$: expected `str`, got `int`"),
    (bool, 1, "$: expected `bool`, got `int`"),
    (list[int], {"a": 1}, "$: expected `array`, got `object`"),
    (list[int], [1, [2]], "$[1]: expected `int`, got `array`"),
    (set[str], ["a", 1], "$[1]: expected `str`, got `int`"),
    (set[dict[str, int]], [{"a": 1}], "$: its entries cannot be put into a set"),
    (tuple[int, str], [1], "$: expected 2 entries, got 1"),
    (dict[str, int], [], "$: expected `object`, got `array`"),
    (dict[int, int], {"a": 1}, "$: the key 'a' is no `int`"),
    (Literal["a", "b"], "c", '$: expected one of "a", "b", got "c"'),
    (Literal[1], True, "$: expected one of 1, got true"),
    (Colour, 3, '$: expected one of "red", "blue", got 3'),
    (int | None, "x", "$: expected `int`, got `str`"),
    (int | str, [], "$: expected `int` or `str`, got `array`"),
    (Point, [], "$: expected `object`, got `array`"),
    (Point, {}, "$.x: is missing"),
    (Named, {"name": "n", "at": {"x": "1"}}, "$.at.x: expected `int`, got `str`"),
    (list[Named], [{"name": "n"}], "$[0].at: is missing"),
    (Animal | Plant, {"type": "stone"}, "$: expected `Animal` or `Plant`, got `object`"),
    (Renamed, {"firstName": "a", "first_name": "b"}, "$.first_name: is not known"),
    (datetime.date, "yesterday", "$: invalid RFC3339 encoded date"),
    (pathlib.Path, "a\0b", "$: a path cannot contain a NUL character"),
    (Annotated[int, msgspec.Meta(ge=1)], 0, "$: expected `int` >= 1"),
    (Model, {"name": "n", "count": -1}, "$.count: Input should be greater than or equal to 0"),
    (Mixed, {"model": {"name": "n"}, "extra": {"a": {}}}, "$.extra.a.name: Field required"),
]


@pytest.mark.parametrize(("kind", "value", "words"), MISFITS, ids=stable_id)
def test_what_does_not_fit_is_told_in_one_line(kind: Any, value: Any, words: str) -> None:
    with pytest.raises(Misfit) as caught:
        shape_of(kind).read(value, "$")
    assert str(caught.value) == words


class Plain:
    def __init__(self, x: int) -> None:
        self.x = x


@pytest.mark.parametrize(
    "kind", [Plain, type[int], typing.Callable[[], int], dict[tuple[int, int], str], complex, Literal[b"x"]]
)
def test_a_type_that_json_cannot_hold_is_refused(kind: Any) -> None:
    with pytest.raises(Unsupported):
        shape_of(kind)


def test_a_type_that_contains_itself_is_defined_apart_and_stands_at_the_top_as_an_object() -> None:
    schema = schema_of(shape_of(Node))
    again = {"type": "array", "items": {"$ref": "#/$defs/Node"}}
    body = {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "children": again},
        "description": "A tree.",
        "required": ["value"],
    }
    assert schema == {**body, "$defs": {"Node": body}}
    of_model = schema_of(shape_of(Tree))
    assert of_model["type"] == "object" and list(of_model["$defs"]) == ["Tree"]


def test_two_types_of_one_name_get_two_definitions() -> None:
    def first() -> type:
        @dataclasses.dataclass
        class Twin:
            inner: Twin | None = None

        shape_of(Twin)
        return Twin

    def second() -> type:
        @dataclasses.dataclass
        class Twin:
            other: list[Twin]

        return Twin

    a, b = first(), second()
    a.__annotations__ = {"inner": Optional[a]}  # noqa: UP045 - resolved by hand, as the class is not at the top
    b.__annotations__ = {"other": list[b]}
    schema = schema_of(shape_of(a | b))
    assert list(schema["$defs"]) == ["Twin", "Twin_2"]


def test_a_schema_does_not_explode_when_types_share_parts() -> None:
    kind: Any = Point
    for number in range(40):
        kind = dataclasses.make_dataclass(f"Level{number}", [("a", kind), ("b", kind)])
    schema = schema_of(shape_of(kind))
    assert len(encode_json(schema)) < 20_000 and len(schema["$defs"]) >= 39


def test_the_same_type_gives_the_same_bytes_in_every_process() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests'); from api.kit import *; from spindle.api.annotations import shape_of;"
        "from spindle.api.schemas import schema_of; from spindle.protocol.items import encode_json;"
        "sys.stdout.buffer.write(encode_json([schema_of(shape_of(k)) for k in (Named, Node, Loose, Mixed, Tree)]))"
    )
    root = pathlib.Path(__file__).parent.parent.parent

    def written(seed: str) -> bytes:
        environment = {"PYTHONHASHSEED": seed, "PATH": ""}
        return subprocess.run(
            [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, check=True
        ).stdout

    assert written("1") == written("2") != b""


def test_pydantic_is_not_imported_for_other_types() -> None:
    code = (
        "import sys, dataclasses, msgspec\n"
        "from spindle.api.outputs import output_format\n"
        "import spindle.api.functions\n"
        "@dataclasses.dataclass\nclass A:\n x: int\n"
        "output_format(A).read('{\"x\": 1}')\n"
        "assert 'pydantic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- strict ------------------------------------------------------------------------------------------


def objects_in(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [found for part in schema for found in objects_in(part)]
    if not isinstance(schema, dict):
        return []
    here = [schema] if schema.get("type") == "object" or isinstance(schema.get("properties"), dict) else []
    return here + [found for part in schema.values() for found in objects_in(part)]


STRICT_KINDS = [
    *(kind for kind, _ in SCHEMAS),
    *(Named, Mixed, Model, Tree, Node, Chain, Animal | Plant, dict[str, list[Named]], list[Model], Pair, Box[Model]),
]


@pytest.mark.parametrize("kind", STRICT_KINDS, ids=stable_id)
def test_strict_means_every_property_required_and_none_beside_them(kind: Any) -> None:
    strict = strict_schema(schema_of(shape_of(kind)))
    for found in objects_in(strict):
        if isinstance(found.get("type"), str):
            assert found["additionalProperties"] is False and found["required"] == list(found["properties"])
    text = json.dumps(strict)
    assert not any(f'"{word}"' in text for word in ("default", "prefixItems", "uniqueItems", "oneOf", "propertyNames"))
    assert strict_schema(strict) == strict


def test_optional_fields_become_nullable_and_null_means_left_out() -> None:
    schema = schema_of(shape_of(Model))
    strict = strict_schema(schema)
    assert strict["required"] == ["name", "count", "where"]
    assert strict["properties"]["count"] == {
        "anyOf": [{"minimum": 0, "type": "integer"}, NULL],
        "description": "how many",
    }
    assert restored({"name": "n", "count": None, "where": None}, schema) == {"name": "n", "where": None}


def test_an_object_with_any_keys_travels_as_pairs_and_comes_back_as_an_object() -> None:
    schema = schema_of(shape_of(dict[str, Point]))
    strict = strict_schema(schema)
    assert strict["type"] == "array" and list(strict["items"]["properties"]) == ["key", "value"]
    pairs = [{"key": "a", "value": {"x": 1, "y": None}}]
    assert restored(pairs, schema) == {"a": {"x": 1}}
    assert restored({"a": {"x": 1, "y": None}}, schema) == {"a": {"x": 1}}


def test_a_reference_with_words_beside_it_is_wrapped() -> None:
    @dataclasses.dataclass
    class Holder:
        left: Annotated[Chain, "the left one"]

    strict = strict_schema(schema_of(shape_of(Holder)))
    assert strict["properties"]["left"] == {"anyOf": [{"$ref": "#/$defs/Chain"}], "description": "the left one"}


# ---- properties --------------------------------------------------------------------------------------

LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (str, st.text(max_size=8)),
    (bool, st.booleans()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (Colour, st.sampled_from(Colour)),
    (Literal["a", 1], st.sampled_from(["a", 1])),
    (None, st.none()),
]


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Pairs of a type and a strategy for its values, one level deeper."""

    def made(pairs: list[tuple[Any, Any]], shape: int) -> tuple[Any, Any]:
        kinds, values = [kind for kind, _ in pairs], [value for _, value in pairs]
        match shape:
            case 0:
                return list[kinds[0]], st.lists(values[0], max_size=3)
            case 1:
                return dict[str, kinds[0]], st.dictionaries(st.text(max_size=3), values[0], max_size=3)
            case 2:
                return tuple[tuple(kinds)], st.tuples(*values)
            case _:
                fields = [(f"f{number}", kind) for number, kind in enumerate(kinds)]
                kind = dataclasses.make_dataclass("Made", fields)
                return kind, st.builds(kind, *values)

    return st.builds(made, st.lists(inner, min_size=1, max_size=3), st.integers(0, 3))


KINDS = st.recursive(st.sampled_from(LEAVES), containers, max_leaves=8)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(KINDS, st.data())
def test_what_is_written_as_json_is_read_back_as_it_was(pair: tuple[Any, Any], data: st.DataObject) -> None:
    kind, values = pair
    value = data.draw(values)
    shape = shape_of(kind)
    schema = schema_of(shape)
    wire = json.loads(msgspec.json.encode(value))
    assert check(wire, schema) is None
    assert shape.read(restored(wire, schema), "$") == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | st.sampled_from(["x", "at"]), inner)
    ),
    max_leaves=20,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(STRICT_KINDS), JSON)
def test_hostile_values_fit_or_are_misfits_and_nothing_else(kind: Any, value: Any) -> None:
    shape = shape_of(kind)
    try:
        shape.read(restored(value, schema_of(shape)), "$")
    except Misfit as misfit:
        assert "\n" not in str(misfit)


def test_strict_models_of_pydantic_read_dates_as_json_has_them() -> None:
    class Strict(pydantic.BaseModel, strict=True):
        day: datetime.date
        pair: tuple[int, str]

    read = shape_of(Strict).read({"day": "2026-01-02", "pair": [1, "a"]}, "$")
    assert read == Strict(day=datetime.date(2026, 1, 2), pair=(1, "a"))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is newer")
def test_aliases_and_type_parameters_of_newer_pythons_are_read() -> None:
    names: dict[str, Any] = {"dataclasses": dataclasses, "__name__": __name__}
    exec(
        "type Number = int | float\n"
        "type Pairs[T] = list[tuple[T, T]]\n"
        "type Json = dict[str, Json] | list[Json] | str | int\n"
        "@dataclasses.dataclass\n"
        "class Linked[T]:\n"
        "    value: T\n"
        "    next: 'Linked[T] | None' = None\n",
        names,
    )
    assert schema_of(shape_of(names["Number"])) == {"anyOf": [{"type": "integer"}, {"type": "number"}]}
    assert shape_of(names["Pairs"][int]).read([[1, 2]], "$") == [(1, 2)]
    assert shape_of(names["Json"]).read({"a": [{"b": 1}]}, "$") == {"a": [{"b": 1}]}
    linked = names["Linked"]
    assert shape_of(linked[int]).read({"value": 1, "next": {"value": 2}}, "$") == linked(1, linked(2))
    with pytest.raises(Misfit):
        shape_of(linked[int]).read({"value": 1, "next": {"value": "2"}}, "$")
