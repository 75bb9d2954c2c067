"""Typed output: what `output_type=` sends to the model server, and how the final text becomes an instance.

A type is described strictly, which the server holds the model to; what comes back is checked all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from spindle.api.annotations import shape_of
from spindle.api.schemas import schema_of
from spindle.api.shapes import Misfit, Schema
from spindle.api.strict_schemas import DEFINITIONS, restored, strict_schema
from spindle.errors import OutputInvalid
from spindle.protocol.items import decode_foreign
from spindle.protocol.schema_check import check

WRAPPED = "value"
"""The one property of the object around an output that is no object itself."""
_FENCED = re.compile(r"```[A-Za-z]*[ \t]*\n(?P<inside>.*)\n```", re.DOTALL)
_SHOWN_CHARS = 200


class OutputFormat(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer must be."""

    schema: Schema
    """For the request: strict, and an object at the top."""
    is_wrapped: bool
    """The answer is `{"value": …}`."""
    convert: Callable[[Any], Any]
    """From a JSON value; raises Misfit."""

    def read(self, text: str | None) -> Any:
        """The final text of a turn as what was asked for. Raises OutputInvalid."""
        if text is None or not text.strip():
            raise OutputInvalid("the model gave no answer where output of a type was asked for", text=text or "")
        value = _parsed(text)
        candidates = [value]
        if self.is_wrapped and isinstance(value, dict) and value.keys() == {WRAPPED}:
            candidates.insert(0, value[WRAPPED])
        problem: Misfit | None = None
        for candidate in candidates:
            try:
                return self.convert(candidate)
            except Misfit as misfit:
                problem = problem or misfit
            except RecursionError:
                problem = problem or Misfit("it is nested too deep")
            except Exception as error:  # out of a type of the program; the turn must end all the same
                problem = problem or Misfit(f"{type(error).__name__}: {error}")
        raise OutputInvalid(f"the answer does not fit the output type: {problem}", text=text)


def output_format(output_type: Any) -> OutputFormat:
    """What to send for an output type, and how to read what comes back.

    `output_type` is a type, or a dict: a JSON schema. Raises ValueError for what cannot be one.
    """
    if isinstance(output_type, dict):
        return _of_schema(output_type)
    try:
        shape = shape_of(output_type)
        schema = schema_of(shape)
    except (TypeError, NameError) as error:
        raise ValueError(f"output_type cannot be used: {error}") from error

    def convert(value: Any) -> Any:
        return shape.read(restored(value, schema), "$")

    return _format(strict_schema(schema, is_ours=True), convert)


def _of_schema(schema: Schema) -> OutputFormat:
    def convert(value: Any) -> Any:
        if (problem := check(restored(value, schema), schema)) is not None:
            raise Misfit(problem)
        # Nulls are what the model said; pairs are only how we asked for it.
        return restored(value, schema, keep_nulls=True)

    return _format(strict_schema(schema), convert)


def _format(strict: Schema, convert: Callable[[Any], Any]) -> OutputFormat:
    if strict.get("type") == "object":
        return OutputFormat(schema=strict, is_wrapped=False, convert=convert)
    # References begin at the top, so what they mean must stay there.
    defs = {word: strict.pop(word) for word in DEFINITIONS if word in strict}
    wrapped: Schema = {
        "type": "object",
        "properties": {WRAPPED: strict},
        "required": [WRAPPED],
        "additionalProperties": False,
    }
    return OutputFormat(schema=wrapped | defs, is_wrapped=True, convert=convert)


def _parsed(text: str) -> Any:
    """The JSON of an answer; models that are not held to a schema like to put it into a block of code."""
    inside = text.strip()
    if (fenced := _FENCED.fullmatch(inside)) is not None:
        inside = fenced["inside"]
    try:
        return decode_foreign(inside)
    except (msgspec.DecodeError, UnicodeError) as error:
        shown = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
        raise OutputInvalid(f"the answer is not JSON ({error}): {shown!r}", text=text) from error
