"""The signature and the docstring of a function → its name, its description and the shape of its parameters."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from spindle.api.annotations import Builder, described, hints_of, plain_default
from spindle.api.docstrings import read_docstring
from spindle.api.schemas import schema_of
from spindle.api.shapes import Field, Record, Schema
from spindle.api.strict_schemas import restored
from spindle.errors import ToolDefinitionError

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What a tool may be called."""

_REFUSED_KINDS = {
    inspect.Parameter.VAR_POSITIONAL: "*{name} cannot be described to a model; give each parameter a name",
    inspect.Parameter.VAR_KEYWORD: "**{name} cannot be described to a model; give each parameter a name",
    inspect.Parameter.POSITIONAL_ONLY: "the parameter {name} is positional-only, but a model gives arguments by name",
}


class FunctionSignature(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is told of a function, and what its arguments must be."""

    name: str
    description: str
    parameters: Schema
    """The JSON schema of the arguments: an object."""
    record: Record
    """Its fields are the parameters that the model gives."""
    context: tuple[str, ...] = ()
    """The parameters that are not shown to the model and get the context of the call."""
    defaults: dict[str, Any] = {}
    """What the function takes where the model gives nothing."""

    def arguments(self, given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """The arguments as Python values, those with a default only if they were given; and all that is wrong."""
        return self.record.read_fields(restored(given, self.parameters), "")


def read_signature(
    function: Callable[..., Any], *, context_type: type, name: str | None = None, description: str | None = None
) -> FunctionSignature:
    """Read a function. Raises ToolDefinitionError for one that cannot be a tool."""
    name = check_name(function, name)
    signature = check_parameters(function, name)
    said = read_docstring(_docstring(function))
    hints = _hints(function, name)
    record = Record(name, dict)
    record.is_closed = True
    builder = Builder()
    context: list[str] = []
    for parameter in signature.parameters.values():
        hint = hints.get(parameter.name, parameter.annotation)
        if _is_context(hint, context_type):
            context.append(parameter.name)
            continue
        record.fields.append(_field(parameter, hint, said.texts, builder, name))
    parameters = schema_of(record)
    return FunctionSignature(
        name=name,
        description=said.summary if description is None else description,
        parameters=parameters,
        record=record,
        context=tuple(context),
        defaults={
            parameter.name: parameter.default
            for parameter in signature.parameters.values()
            if parameter.default is not inspect.Parameter.empty and parameter.name not in context
        },
    )


def check_name(function: Any, name: str | None) -> str:
    """The tool's name: the one given, or the function's. Raises ToolDefinitionError when it cannot be one."""
    if not callable(function) or isinstance(function, type):
        raise ToolDefinitionError(f"{_shown(function)} cannot be a tool: it is not a function")
    if name is None:
        inner = function.func if isinstance(function, functools.partial) else function
        name = getattr(inner, "__name__", None)
    if not isinstance(name, str):
        raise ToolDefinitionError(f"{_shown(function)} has no name; give it one with tool(name=…)")
    if not NAME.fullmatch(name):
        raise ToolDefinitionError(
            f"{name!r} cannot be the name of a tool: use up to 64 letters, digits, - and _ (tool(name=…) gives another)"
        )
    return name


def check_parameters(function: Callable[..., Any], name: str) -> inspect.Signature:
    """The signature, if a model can give every argument by name; else ToolDefinitionError."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ToolDefinitionError(f"the tool {name} has no signature that can be read: {error}") from error
    for parameter in signature.parameters.values():
        refusal = _REFUSED_KINDS.get(parameter.kind)
        if refusal is not None:
            raise ToolDefinitionError(f"the tool {name} cannot be used: {refusal.format(name=parameter.name)}")
    return signature


def _field(parameter: inspect.Parameter, hint: Any, texts: dict[str, str], builder: Builder, tool: str) -> Field:
    try:
        shape = builder.shape(hint)
    except (TypeError, NameError) as error:  # Unsupported, or an annotation that is no type at all
        raise ToolDefinitionError(f"the tool {tool} cannot be used: its parameter {parameter.name}: {error}") from error
    has_default = parameter.default is not inspect.Parameter.empty
    return Field(
        name=parameter.name,
        key=parameter.name,
        shape=shape,
        is_required=not has_default,
        text=described(hint) or texts.get(parameter.name, ""),
        default=plain_default(parameter.default) if has_default else msgspec.UNSET,
    )


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return hints_of(_annotated_function(function))
    except NameError as error:
        raise ToolDefinitionError(f"the tool {name} cannot be used: {error} (in its annotations)") from error
    except TypeError as error:
        raise ToolDefinitionError(f"the tool {name} cannot be used: its annotations cannot be read: {error}") from error


def _annotated_function(function: Any) -> Any:
    """Where the annotations are: in the function inside a partial, a method, or an object that can be called."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    return inspect.unwrap(getattr(function, "__func__", function))


def _docstring(function: Any) -> str | None:
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return inspect.getdoc(function)
    return inspect.getdoc(type(function).__call__) or inspect.getdoc(type(function))


def _is_context(hint: Any, context_type: type) -> bool:
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    return hint is context_type or context_type in typing.get_args(hint)


def _shown(thing: Any) -> str:
    text = getattr(thing, "__name__", None) or repr(thing)
    return text if len(text) <= 80 else f"{text[:80]}…"
