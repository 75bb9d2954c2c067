"""Typed output: the schema that is sent, and the instance that comes back."""

from __future__ import annotations

import dataclasses
import datetime
import json
from typing import Any, Literal, Optional

import pydantic
import pytest

from api.kit import Chain, Mixed, Model, Named, Node, Place, Plant, Point, Tree, stable_id
from spindle.api.outputs import output_format
from spindle.errors import OutputInvalid, SpindleError

ANSWERS: list[tuple[Any, Any, Any]] = [
    (Point, {"x": 1, "y": 2}, Point(1, 2)),
    (Point, {"x": 1, "y": None}, Point(1, 0)),
    (Named, {"name": "n", "at": {"x": 1, "y": None}, "tags": None, "note": None}, Named("n", Point(1))),
    (Plant, {"type": "plant", "leaves": 3, "tall": None}, Plant(3)),
    (Chain, {"value": 1, "next": {"value": 2, "next": None}}, Chain(1, Chain(2))),
    (Node, {"value": 1, "children": [{"value": 2, "children": None}]}, Node(1, [Node(2)])),
    (Place, {"city": "x", "zip": None}, {"city": "x"}),
    (Model, {"name": "n", "count": None, "where": None}, Model(name="n")),
    (Tree, {"title": "a", "kids": [{"title": "b", "kids": None}]}, Tree(title="a", kids=[Tree(title="b")])),
    (list[Point], {"value": [{"x": 1, "y": 1}]}, [Point(1, 1)]),
    (list[Point], [{"x": 1, "y": 1}], [Point(1, 1)]),
    (dict[str, Point], {"value": [{"key": "a", "value": {"x": 1, "y": None}}]}, {"a": Point(1)}),
    (dict[str, Point], {"value": {"a": {"x": 1}}}, {"a": Point(1)}),
    (dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
    (dict[str, int], {"value": {"value": 3}}, {"value": 3}),
    (tuple[Point, int], {"value": [{"x": 1, "y": 2}, 3]}, (Point(1, 2), 3)),
    (Optional[Point], {"value": None}, None),  # noqa: UP045
    (Point | Named, {"value": {"x": 1, "y": None}}, Point(1)),
    (int, {"value": 3}, 3),
    (Literal["yes", "no"], {"value": "yes"}, "yes"),
    (list[Model], {"value": [{"name": "n", "count": 2, "where": {"x": 1, "y": None}}]}, None),
    (
        Mixed,
        {"model": {"name": "a", "count": None, "where": None}, "extra": [{"key": "k", "value": {"name": "b"}}]},
        None,
    ),
    ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": None}, {"a": None}),
    ({"type": "array", "items": {"type": "string"}}, {"value": ["a"]}, ["a"]),
    ({"type": "object"}, {"a": 1}, {"a": 1}),
    (
        {"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {"type": "integer"}}}},
        {"m": [{"key": "a", "value": 1}]},
        {"m": {"a": 1}},
    ),
    (
        {"$ref": "#/definitions/A", "definitions": {"A": {"type": "object", "properties": {"b": {"type": "integer"}}}}},
        {"value": {"b": None}},
        {"b": None},
    ),
]


@pytest.mark.parametrize(("kind", "answer", "expected"), ANSWERS, ids=stable_id)
def test_an_answer_becomes_an_instance(kind: Any, answer: Any, expected: Any) -> None:
    if kind is Mixed:
        expected = Mixed(Model(name="a"), {"k": Model(name="b")})
    elif kind == list[Model]:
        expected = [Model(name="n", count=2, where=Point(1))]
    read = output_format(kind).read(json.dumps(answer))
    assert read == expected and type(read) is type(expected)


@pytest.mark.parametrize("kind", [row[0] for row in ANSWERS], ids=stable_id)
def test_what_is_sent_is_a_strict_object(kind: Any) -> None:
    schema = output_format(kind).schema
    assert schema["type"] == "object" and schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"])


def test_a_schema_that_is_strict_already_is_sent_as_it_is() -> None:
    given = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["name", "tags"],
        "additionalProperties": False,
    }
    before = json.dumps(given)
    assert json.dumps(output_format(given).schema) == before == json.dumps(given)


MISFITS: list[tuple[Any, str | None, str]] = [
    (Point, "sorry, no JSON", "the answer is not JSON ("),
    (Point, "", "the model gave no answer"),
    (Point, None, "the model gave no answer"),
    (Point, "{}", "the answer does not fit the output type: $.x: is missing"),
    (Point, "[]", "the answer does not fit the output type: $: expected `object`, got `array`"),
    (Point, '{"x": "1"}', "the answer does not fit the output type: $.x: expected `int`, got `str`"),
    (list[int], '{"value": ["a"]}', "the answer does not fit the output type: $[0]: expected `int`, got `str`"),
    (Model, '{"name": 3}', "the answer does not fit the output type: $.name: Input should be a valid string"),
    (Point, '{"x": 1', "the answer is not JSON ("),
    (Point, "[" * 100_000, "the answer is not JSON ("),
    (Node, '{"value":1,"children":[' * 90 + "]}" * 90, "the answer is not JSON ("),
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, '{"a": "x"}', "the answer does"),
    ({"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"]}, '{"a": 2}', "the answer does not fit"),
    ({"type": "object", "required": ["a"]}, "{}", "the answer does not fit the output type: $.a: is missing"),
    ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}}, '{"value": 3}', "the answer does not fit"),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, '{"value": 3}', "the answer does not fit"),
]


@pytest.mark.parametrize(("kind", "text", "words"), MISFITS, ids=stable_id)
def test_an_answer_that_does_not_fit_is_invalid(kind: Any, text: str | None, words: str) -> None:
    with pytest.raises(OutputInvalid) as caught:
        output_format(kind).read(text)
    assert str(caught.value).startswith(words) and caught.value.text == (text or "")
    assert (
        isinstance(caught.value, ValueError) and isinstance(caught.value, SpindleError) and caught.value.result is None
    )


def test_a_schema_of_ours_has_no_words_that_servers_refuse() -> None:
    class Page(pydantic.BaseModel):
        title: str = pydantic.Field(min_length=1, max_length=9)
        url: pydantic.HttpUrl
        day: datetime.date

    text = json.dumps(output_format(Page).schema)
    assert not any(word in text for word in ("minLength", "maxLength", '"uri"', '"Page"', '"default"'))
    assert '"title"' in text and '"date"' in text
    with pytest.raises(OutputInvalid, match="title"):
        output_format(Page).read('{"title": "", "url": "http://a", "day": "2026-01-02"}')


def test_json_in_a_block_of_code_is_read() -> None:
    assert output_format(Point).read('```json\n{"x": 1, "y": 2}\n```\n') == Point(1, 2)


def test_a_deep_answer_of_a_recursive_type_is_read() -> None:
    text = '{"value":1,"children":[' * 60 + "]}" * 60
    assert output_format(Node).read(text).children[0].children[0].value == 1


def test_a_type_that_checks_its_values_may_refuse_them() -> None:
    @dataclasses.dataclass
    class Even:
        number: int

        def __post_init__(self) -> None:
            if self.number % 2:
                raise ValueError("it is odd")

    assert output_format(Even).read('{"number": 2}') == Even(2)
    with pytest.raises(OutputInvalid, match="it is odd"):
        output_format(Even).read('{"number": 3}')


@dataclasses.dataclass
class Known:
    name: str

    def __post_init__(self) -> None:
        {"a": 1}[self.name]


class KnownModel(pydantic.BaseModel):
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def look_up(cls, name: str) -> str:
        {"a": 1}[name]
        return name


@pytest.mark.parametrize("kind", [Known, KnownModel])
def test_a_type_may_refuse_values_with_any_exception(kind: Any) -> None:
    assert output_format(kind).read('{"name": "a"}').name == "a"
    with pytest.raises(OutputInvalid, match="KeyError: 'b'"):
        output_format(kind).read('{"name": "b"}')


@pytest.mark.parametrize("kind", [type, object(), lambda: None, "Point", complex])
def test_what_cannot_be_an_output_type_is_a_value_error(kind: Any) -> None:
    with pytest.raises(ValueError, match="output_type cannot be used"):
        output_format(kind)
