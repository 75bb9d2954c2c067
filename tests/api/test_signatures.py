"""Functions as a model is told of them: names, descriptions, parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional

import msgspec
import pydantic
import pytest

from api.kit import Colour, Level, Model, Named, Odd, Point, Rate
from spindle.api.docstrings import Docstring, read_docstring
from spindle.api.signatures import FunctionSignature, read_signature
from spindle.errors import SpindleError, ToolDefinitionError


class Context:
    """Stands for the context of a call."""


def read(function: Callable[..., Any], **options: Any) -> FunctionSignature:
    return read_signature(function, context_type=Context, **options)


# ---- docstrings --------------------------------------------------------------------------------------

GOOGLE = """Read one ticket,
    in two lines.

    More text.

    Args:
        ticket: its number
        fields (list[str], optional): which columns,
            or all of them
        *rest: the others
        how:
            fast or slow

    Returns:
        a: dictionary
    """
SPHINX = """Read one ticket.

    :param ticket: its number
    :param list fields: which columns,
        or all of them
    :type fields: list
    :arg how: fast or slow
    :returns: a dictionary
    :raises KeyError: never
    """
NUMPY = """Read one ticket.

    Parameters
    ----------
    ticket : int
        its number
    fields : list of str, optional
        which columns,
        or all of them
    how
        fast or slow

    Returns
    -------
    dict
        a dictionary
    """
TEXTS = {"ticket": "its number", "fields": "which columns, or all of them", "how": "fast or slow"}

DOCSTRINGS: list[tuple[str, str | None, str, dict[str, str]]] = [
    ("none", None, "", {}),
    ("empty", "   \n ", "", {}),
    ("one line", "Say it.", "Say it.", {}),
    ("google", GOOGLE, "Read one ticket, in two lines.", {**TEXTS, "rest": "the others"}),
    ("sphinx", SPHINX, "Read one ticket.", TEXTS),
    ("numpy", NUMPY, "Read one ticket.", TEXTS),
    ("sections at once", "Do.\nArgs:\n    a: one\n", "Do.", {"a": "one"}),
    ("fields at once", "Do.\n:param a: one", "Do.", {"a": "one"}),
    ("only arguments", "Args:\n  a: one\n  b: two\n", "", {"a": "one", "b": "two"}),
    ("two names", "Do.\n\nParameters\n----------\nx, y : int\n    places\n", "Do.", {"x": "places", "y": "places"}),
    (
        "a blank line inside",
        "Do.\n\nArgs:\n    a: one\n\n        more\n    b: two",
        "Do.",
        {"a": "one more", "b": "two"},
    ),
    ("text behind", "Do.\n\nArgs:\n    a: one\n\nBehind: this is text", "Do.", {"a": "one"}),
    ("a colon in words", "Do this: now.", "Do this: now.", {}),
    ("attributes", "A.\n\nAttributes:\n    x: there", "A.", {"x": "there"}),
    ("keyword arguments", "A.\n\nKeyword Args:\n    x: there", "A.", {"x": "there"}),
    ("types with brackets", "A.\n\nArgs:\n    x (dict[str, (int)]): there", "A.", {"x": "there"}),
    ("a ruler without a title", "A.\n-----\nB", "A. ----- B", {}),
    ("windows", "A.\r\n\r\nArgs:\r\n    x: there\r\n", "A.", {"x": "there"}),
    ("tabs", "A.\n\n\tArgs:\n\t\tx: there\n", "A.", {"x": "there"}),
]


@pytest.mark.parametrize(("text", "summary", "texts"), [row[1:] for row in DOCSTRINGS], ids=[r[0] for r in DOCSTRINGS])
def test_a_docstring_says(text: str | None, summary: str, texts: dict[str, str]) -> None:
    assert read_docstring(text) == Docstring(summary, texts)


def test_a_docstring_of_any_size_is_read_in_one_go() -> None:
    long = "A.\n\nArgs:\n" + "".join(f"    name_{number}: {'word ' * 50}\n" for number in range(2000))
    assert len(read_docstring(long).texts) == 2000
    assert read_docstring("(" * 100_000 + ":" * 100_000).texts == {}
    assert read_docstring("Args:\n    x " + "(" * 50_000 + ": y").texts == {}


# ---- signatures --------------------------------------------------------------------------------------


def lookup(
    ticket: int,
    fields: Optional[list[str]] = None,  # noqa: UP045 - the old form is to be read too
    how: Literal["fast", "slow"] = "fast",
    note: Annotated[str, "a remark"] = "",
) -> dict[str, Any]:
    """Read one ticket.

    More text that a model need not see.

    Args:
        ticket: its number
        fields: which columns
        note: not this one
    """
    return {}


def test_name_description_and_parameters_come_from_the_function() -> None:
    signature = read(lookup)
    assert (signature.name, signature.description, signature.context) == ("lookup", "Read one ticket.", ())
    assert signature.parameters == {
        "type": "object",
        "properties": {
            "ticket": {"type": "integer", "description": "its number"},
            "fields": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "description": "which columns",
            },
            "how": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
            "note": {"type": "string", "description": "a remark", "default": ""},
        },
        "required": ["ticket"],
        "additionalProperties": False,
    }


def test_arguments_become_python_values_and_defaults_stay_the_functions() -> None:
    assert read(lookup).arguments({"ticket": 7, "fields": ["a"]}) == ({"ticket": 7, "fields": ["a"]}, [])
    assert read(lookup).arguments({"ticket": 7.0, "how": None, "fields": None}) == ({"ticket": 7, "fields": None}, [])


def test_all_that_is_wrong_is_told_at_once() -> None:
    _, problems = read(lookup).arguments({"fields": [1], "how": "so", "bogus": 1})
    assert problems == [
        "ticket: is missing",
        "fields[0]: expected `str`, got `int`",
        'how: expected one of "fast", "slow", got "so"',
        "bogus: is not known",
    ]


def test_a_function_without_annotations_takes_any_value() -> None:
    def free(a, b=3):
        pass

    signature = read(free)
    assert signature.parameters["properties"] == {"a": {}, "b": {"default": 3}}
    assert signature.arguments({"a": {"x": [None]}, "b": None}) == ({"a": {"x": [None]}, "b": None}, [])


def test_a_function_without_parameters_has_an_empty_object() -> None:
    def nothing() -> None: ...

    assert read(nothing).parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert read(nothing).description == ""


def test_a_default_is_told_as_the_model_would_give_it() -> None:
    def draw(odd: Odd = Odd.PAIR, rate: Rate = Rate.HALF, level: Level = Level.HIGH) -> None: ...

    told = read(draw).parameters["properties"]
    assert {name: part["default"] for name, part in told.items()} == {"odd": "PAIR", "rate": 0.5, "level": 2}


def test_records_enums_and_models_are_parameters() -> None:
    def build(at: Point, colour: Colour, named: list[Named], model: Model, *, flag: bool = False) -> None: ...

    values, problems = read(build).arguments(
        {
            "at": {"x": 1},
            "colour": "red",
            "named": [{"name": "n", "at": {"x": 2}}],
            "model": {"name": "m", "count": 2},
        }
    )
    assert problems == []
    assert values == {
        "at": Point(1),
        "colour": Colour.RED,
        "named": [Named("n", Point(2))],
        "model": Model(name="m", count=2),
    }


def test_types_that_were_made_inside_a_function_are_found() -> None:
    class Local(msgspec.Struct):
        a: int
        inner: Local | None = None

    def use(it: Local, other: list[Local]) -> None: ...

    values, problems = read(use).arguments({"it": {"a": 1, "inner": {"a": 2}}, "other": [{"a": 3}]})
    assert problems == [] and values == {"it": Local(1, Local(2)), "other": [Local(3)]}


def made_elsewhere() -> tuple[Any, Any]:
    class Inner(msgspec.Struct):
        a: int
        more: list[Inner] = []

    def use(it: Inner) -> Any:
        return Inner(it.a + 1)

    return Inner, use


def test_types_of_a_function_that_is_over_are_found() -> None:
    inner, use = made_elsewhere()
    values, problems = read(use).arguments({"it": {"a": 1, "more": [{"a": 2}]}})
    assert problems == [] and values == {"it": inner(1, [inner(2)])}


def test_the_annotation_of_the_result_need_not_be_known() -> None:
    def typed(a: int, b: list[Annotated[str, "an id"]]) -> OnlyForTypeCheckers:  # noqa: F821 # pyright: ignore
        return None

    assert read(typed).parameters["properties"] == {
        "a": {"type": "integer"},
        "b": {"type": "array", "items": {"type": "string", "description": "an id"}},
    }


def test_the_context_is_not_shown_to_the_model() -> None:
    def with_context(ctx: Context, x: int, other: Context | None = None) -> None: ...

    signature = read(with_context)
    assert list(signature.parameters["properties"]) == ["x"] and signature.context == ("ctx", "other")


def test_constraints_of_pydantic_and_msgspec_hold() -> None:
    def limited(
        a: Annotated[int, pydantic.Field(ge=1, description="at least one")],
        b: Annotated[str, msgspec.Meta(max_length=2)],
    ) -> None: ...

    signature = read(limited)
    assert signature.parameters["properties"]["a"] == {"minimum": 1, "type": "integer", "description": "at least one"}
    assert signature.arguments({"a": 0, "b": "abc"})[1] == [
        "a: Input should be greater than or equal to 1",
        "b: expected `str` of length <= 2",
    ]


class Shop:
    """Sells."""

    def buy(self, what: str, count: int = 1) -> str:
        """Buy it."""
        return what * count

    @classmethod
    def of(cls, name: str) -> None:
        """Open one."""

    @staticmethod
    def add(a: int, b: int) -> int:
        """Sum."""
        return a + b

    def __call__(self, x: int) -> int:
        """Call it."""
        return x


def test_methods_partials_wrappers_and_callable_objects_are_functions_too() -> None:
    @functools.wraps(lookup)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return lookup(*args, **kwargs)

    assert list(read(Shop().buy).parameters["properties"]) == ["what", "count"]
    assert read(Shop.of).description == "Open one." and list(read(Shop.of).parameters["properties"]) == ["name"]
    assert read(Shop.add).parameters["required"] == ["a", "b"]
    assert read(wrapped).parameters == read(lookup).parameters
    assert read(Shop(), name="shop").description == "Call it."
    partial = read(functools.partial(lookup, how="slow"))
    assert partial.name == "lookup" and partial.parameters["properties"]["how"]["default"] == "slow"


def star(*args: int) -> None: ...
def stars(**kwargs: int) -> None: ...
def positional(a: int, /) -> None: ...
def unknown(a: Nowhere) -> None: ...  # noqa: F821 # pyright: ignore
def generator(a: Callable[[], int]) -> None: ...


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (star, {}, "the tool star cannot be used: *args cannot be described"),
    (stars, {}, "the tool stars cannot be used: **kwargs cannot be described"),
    (positional, {}, "the tool positional cannot be used: the parameter a is positional-only"),
    (unknown, {}, "the tool unknown cannot be used: name 'Nowhere' is not defined"),
    (generator, {}, "the tool generator cannot be used: its parameter a: the type "),
    (lambda x: x, {}, "'<lambda>' cannot be the name of a tool"),
    (lookup, {"name": "with space"}, "'with space' cannot be the name of a tool"),
    (lookup, {"name": ""}, "'' cannot be the name of a tool"),
    (lookup, {"name": "a" * 65}, f"'{'a' * 65}' cannot be the name of a tool"),
    (lookup, {"name": "ü"}, "'ü' cannot be the name of a tool"),
    (lookup, {"name": "a\n"}, "'a\\n' cannot be the name of a tool"),
    (Shop(), {}, ""),
    (Shop, {}, "Shop cannot be a tool: it is not a function"),
    (3, {}, "3 cannot be a tool: it is not a function"),
    (len, {}, "the tool len cannot be used: the parameter obj is positional-only"),
]


@pytest.mark.parametrize(("function", "options", "words"), REFUSED, ids=[row[2][:30] for row in REFUSED])
def test_what_cannot_be_a_tool_is_refused_with_its_name(function: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        read(function, **options)
    assert str(caught.value).startswith(words) and "\n" not in str(caught.value)
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, SpindleError)
