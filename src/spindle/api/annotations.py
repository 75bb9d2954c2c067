"""Type annotations → shapes: what a function, a dataclass or an output type asks for."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import enum
import inspect
import os
import sys
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from spindle.api.docstrings import read_docstring
from spindle.api.engine import caller_frame
from spindle.api.shapes import (
    Anything,
    Choice,
    Field,
    Foreign,
    Leaf,
    ListOf,
    MapOf,
    OneOf,
    PathLeaf,
    Record,
    Shape,
    TupleOf,
)

_LISTS: dict[Any, Callable[[list[Any]], Any]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.deque: collections.deque,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
}
_MAPS: dict[Any, Callable[[dict[Any, Any]], Any]] = {
    dict: dict,
    collections.OrderedDict: collections.OrderedDict,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_QUALIFIERS = ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar")
_PRIMITIVE = (str, int, bool, type(None))


class Unsupported(TypeError):
    """A type that cannot be described to a model. `str()` says which, and why."""


def shape_of(annotation: Any) -> Shape:
    """The shape of a type. Raises Unsupported for what has none, NameError for a name that cannot be found."""
    return Builder().shape(annotation)


def described(annotation: Any) -> str:
    """The text that `Annotated` gives to a type; empty if it gives none."""
    while _is_qualifier(typing.get_origin(annotation)):
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) is not typing.Annotated:
        return ""
    for extra in reversed(annotation.__metadata__):
        said = extra if isinstance(extra, str) else getattr(extra, "description", getattr(extra, "documentation", None))
        if isinstance(said, str) and said:
            return " ".join(said.split())
    return ""


def hints_of(owner: Any) -> dict[str, Any]:
    """The annotations of a class, or of a function's parameters; names are found in the functions around it too."""
    annotated = owner if isinstance(owner, type) else _parameters_only(owner)
    try:
        return typing.get_type_hints(annotated, include_extras=True)
    except NameError:
        names = _names_around()
        names.update({variable.__name__: variable for variable in getattr(owner, "__type_params__", ())})
        if isinstance(owner, type):
            names[owner.__name__] = owner
        elif inspect.isfunction(owner):
            names.update(inspect.getclosurevars(owner).nonlocals)
        return typing.get_type_hints(annotated, localns=names, include_extras=True)


def _parameters_only(function: Any) -> Any:
    """A function with the same annotations but that of the result, which may name what only type checkers import."""
    bare = types.FunctionType((lambda: None).__code__, getattr(function, "__globals__", {}))
    annotations = getattr(function, "__annotations__", {})
    bare.__annotations__ = {name: hint for name, hint in annotations.items() if name != "return"}
    return bare


def _names_around() -> dict[str, Any]:
    """What the callers of this call know: types that were defined inside a function have no other address."""
    names: dict[str, Any] = {}
    for frame in (inspect.currentframe(), caller_frame()):
        while frame is not None:
            for name, value in frame.f_locals.items():
                names.setdefault(name, value)
            frame = frame.f_back
    return names


class Builder:
    """Keeps the records it has met, so that a type may contain itself."""

    def __init__(self) -> None:
        self._records: dict[Any, Record] = {}
        self._open_aliases: list[Any] = []

    def shape(self, annotation: Any) -> Shape:
        if annotation in (Any, object, inspect.Parameter.empty):
            return Anything()
        if annotation is None:
            annotation = type(None)
        if isinstance(annotation, str | typing.ForwardRef):
            raise NameError(f"the name {getattr(annotation, '__forward_arg__', annotation)!r} is not known")
        if _is_of_pydantic(annotation):
            return _foreign(annotation)
        origin, args = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Annotated:
            return self._annotated(annotation)
        if _is_qualifier(origin):
            return self.shape(args[0])
        if (inner := _aliased(annotation, origin, args)) is not None:
            return self._alias(annotation, inner)
        if isinstance(annotation, typing.TypeVar):
            return self._variable(annotation)
        if origin in (typing.Union, types.UnionType):
            return self._union(args)
        if origin is typing.Literal:
            return _literal(args)
        return self._class(annotation, origin or annotation, args)

    def _alias(self, alias: Any, inner: Any) -> Shape:
        if alias in self._open_aliases:
            return Anything()  # an alias that means itself, as for all of JSON: the outer levels are described
        self._open_aliases.append(alias)
        try:
            return self.shape(inner)
        finally:
            self._open_aliases.pop()

    def _annotated(self, annotation: Any) -> Shape:
        inner = annotation.__origin__
        constrained = inner
        for extra in annotation.__metadata__:
            if isinstance(extra, msgspec.Meta):
                constrained = typing.Annotated[constrained, extra]
        shape = self.shape(inner) if constrained is inner else _leaf_of_msgspec(constrained, _name(inner))
        if not isinstance(shape, Record):  # which others may share
            shape.text = described(annotation) or shape.text
        return shape

    def _variable(self, variable: typing.TypeVar) -> Shape:
        if variable.__constraints__:
            return self._union(variable.__constraints__)
        return self.shape(variable.__bound__) if variable.__bound__ is not None else Anything()

    def _union(self, members: Sequence[Any]) -> Shape:
        options: list[Shape] = []
        for member in members:
            shape = self.shape(member)
            options += shape.options if isinstance(shape, OneOf) else [shape]
        return options[0] if len(options) == 1 else OneOf(options)

    def _class(self, annotation: Any, origin: Any, args: tuple[Any, ...]) -> Shape:
        if origin in _PLAIN:
            return Leaf(origin, {"type": _PLAIN[origin]}, "null" if origin is type(None) else origin.__name__)
        if origin in _LISTS:
            return ListOf(self.shape(args[0]) if args else Anything(), _LISTS[origin], origin.__name__)
        if origin is tuple:
            return self._tuple(annotation, args)
        if origin in _MAPS or origin is collections.defaultdict:
            key, value = args if len(args) == 2 else (str, Any)
            return MapOf(self._key(key), self.shape(value), _MAPS.get(origin, dict))
        if not isinstance(origin, type):
            raise Unsupported(f"the type {_name(annotation)} cannot be described to a model")
        if issubclass(origin, enum.Enum):
            return _enumeration(origin)
        if hasattr(origin, "__fspath__"):
            kind: Any = os.fspath if inspect.isabstract(origin) else origin
            return PathLeaf(kind, {"type": "string"}, origin.__name__)
        if issubclass(origin, tuple) and hasattr(origin, "_fields"):
            return self._named_tuple(origin)
        if _is_record(origin):
            return self._record(annotation, origin, args)
        return _leaf_of_msgspec(annotation, _name(annotation))

    def _key(self, annotation: Any) -> Shape:
        key = self.shape(annotation)
        if isinstance(key, Anything | Choice | PathLeaf) or (
            isinstance(key, Leaf) and key.kind not in (bool, type(None))
        ):
            return Leaf(str, {"type": "string"}, "str") if isinstance(key, Anything) else key
        raise Unsupported(f"{_name(annotation)} cannot be the type of keys: the keys of JSON are text")

    def _tuple(self, annotation: Any, args: tuple[Any, ...]) -> Shape:
        if len(args) == 2 and args[1] is Ellipsis:
            return ListOf(self.shape(args[0]), tuple, "tuple")
        if not args and annotation in (tuple, typing.Tuple):  # noqa: UP006 - the old name may be given
            return ListOf(Anything(), tuple, "tuple")
        return TupleOf([self.shape(arg) for arg in args], len(args), tuple)

    def _named_tuple(self, kind: Any) -> Shape:
        hints = hints_of(kind)
        items = [self.shape(hints.get(name, Any)) for name in kind._fields]
        return TupleOf(
            items, len(items) - len(kind._field_defaults), kind._make if not kind._field_defaults else _spread(kind)
        )

    def _record(self, annotation: Any, origin: Any, args: tuple[Any, ...]) -> Shape:
        if annotation in self._records:
            return self._records[annotation]
        said = read_docstring(_own_docstring(origin))
        record = self._records[annotation] = Record(_name(annotation), origin, said.summary)
        if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
            config = origin.__struct_config__
            record.is_closed = config.forbid_unknown_fields
            if config.tag_field is not None and isinstance(config.tag, str | int):
                record.tag = (config.tag_field, config.tag)
        variables = dict(zip(getattr(origin, "__parameters__", ()), args, strict=False))
        for name, key, hint, is_required, default in _members(origin):
            hint = _substituted(hint, variables)
            text = described(hint) or said.texts.get(name, "")
            record.fields.append(
                Field(name=name, key=key, shape=self.shape(hint), is_required=is_required, text=text, default=default)
            )
        return record


# ---- kinds of types ----------------------------------------------------------------------------------


def _aliased(annotation: Any, origin: Any, args: tuple[Any, ...]) -> Any:
    """What a `NewType` or a `type` statement stands for; None for everything else."""
    if isinstance(annotation, typing.NewType):
        return annotation.__supertype__
    if hasattr(annotation, "__value__") and not isinstance(annotation, type) and origin is None:
        return annotation.__value__
    if origin is not None and not isinstance(origin, type) and hasattr(origin, "__value__"):
        return _substituted(origin.__value__, dict(zip(origin.__type_params__, args, strict=False)))
    return None


def _is_qualifier(origin: Any) -> bool:
    """`Required[…]` and the like say something about a field, not about its type. By name: there are two of each."""
    return not isinstance(origin, type) and getattr(origin, "_name", None) in _QUALIFIERS


def _literal(args: tuple[Any, ...]) -> Shape:
    values: list[tuple[Any, Any]] = []
    for arg in args:
        value = arg.value if isinstance(arg, enum.Enum) else arg
        if type(value) not in _PRIMITIVE:
            raise Unsupported(f"the literal {arg!r} cannot be written as JSON")
        values.append((value, arg))
    return Choice(values, " or ".join(repr(arg) for arg in args))


def _enumeration(kind: type[enum.Enum]) -> Shape:
    """By value where JSON has such values, else by name."""
    members = list(kind)
    if not members:
        raise Unsupported(f"the enumeration {kind.__name__} has no members")
    values: list[tuple[Any, Any]] = [(_as_json(member), member) for member in members]
    shape = Choice(values, f"`{kind.__name__}`")
    shape.text = read_docstring(_own_docstring(kind)).summary
    return shape


def _as_json(member: enum.Enum) -> str | int | float:
    has_plain_values = all(isinstance(other.value, str | int | float) for other in type(member))
    return _plain(member.value) if has_plain_values else member.name


def _plain(value: str | int | float) -> str | int | float:
    """Without the class of an enumeration around it."""
    if isinstance(value, bool | float):
        return value
    return str.__str__(value) if isinstance(value, str) else int(value)


def _is_record(kind: type) -> bool:
    if issubclass(kind, msgspec.Struct):
        return not kind.__struct_config__.array_like
    return dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or _is_typeddict_of_extensions(kind)


def _is_typeddict_of_extensions(kind: type) -> bool:
    extensions = sys.modules.get("typing_extensions")
    return extensions is not None and extensions.is_typeddict(kind)


def _members(kind: Any) -> list[tuple[str, str, Any, bool, Any]]:
    """(name, key, annotation, is required, default) of each field."""
    hints = hints_of(kind)
    if issubclass(kind, msgspec.Struct):
        names, defaults = kind.__struct_fields__, kind.__struct_defaults__
        defaults = (msgspec.NODEFAULT,) * (len(names) - len(defaults)) + defaults
        return [
            (name, key, hints.get(name, Any), default is msgspec.NODEFAULT, plain_default(default))
            for name, key, default in zip(names, kind.__struct_encode_fields__, defaults, strict=True)
        ]
    if dataclasses.is_dataclass(kind):
        missing = dataclasses.MISSING
        return [
            (
                field.name,
                field.name,
                hints.get(field.name, Any),
                field.default is missing and field.default_factory is missing,
                plain_default(field.default),
            )
            for field in dataclasses.fields(kind)
            if field.init
        ]
    return [(name, name, hint, _is_required(kind, name, hint), msgspec.UNSET) for name, hint in hints.items()]


def _is_required(kind: Any, name: str, hint: Any) -> bool:
    """Of a TypedDict's key: what the annotation says of it, else what holds for the class it stands in."""
    while (origin := typing.get_origin(hint)) is not None:
        word = getattr(origin, "_name", None) or getattr(origin, "__name__", "")
        if word in ("Required", "NotRequired"):
            return word == "Required"
        if origin is not typing.Annotated and word != "ReadOnly":
            break
        hint = typing.get_args(hint)[0]
    return name in kind.__required_keys__


def plain_default(default: Any) -> Any:
    """A default that a model can be told; UNSET for others."""
    value = _as_json(default) if isinstance(default, enum.Enum) else default
    if isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= 200):
        return _plain(value)
    return msgspec.UNSET


def _leaf_of_msgspec(annotation: Any, label: str) -> Shape:
    try:
        schema = msgspec.json.schema(annotation)
    except TypeError as error:
        raise Unsupported(f"the type {label} cannot be described to a model") from error
    return Leaf(annotation, schema, label)


# ---- pydantic ----------------------------------------------------------------------------------------


def _is_of_pydantic(annotation: Any) -> bool:
    """A model, a pydantic dataclass or type, or a type with one of pydantic's constraints; without importing it."""
    if "pydantic" not in sys.modules:
        return False
    if typing.get_origin(annotation) is typing.Annotated:
        return any(
            type(extra).__module__.partition(".")[0] in ("pydantic", "annotated_types")
            or hasattr(extra, "__get_pydantic_core_schema__")
            for extra in annotation.__metadata__
        )
    kind = typing.get_origin(annotation) or annotation
    return isinstance(kind, type) and (
        "__pydantic_validator__" in kind.__dict__
        or "__pydantic_core_schema__" in kind.__dict__
        or hasattr(kind, "__get_pydantic_core_schema__")
    )


def _foreign(annotation: Any) -> Shape:
    from pydantic import TypeAdapter  # whoever gives us such a type has it

    try:
        return Foreign(TypeAdapter(annotation), _name(annotation))
    except Exception as error:  # pydantic has many ways to say that a type is not usable
        raise Unsupported(f"pydantic cannot describe {_name(annotation)}: {str(error).splitlines()[0]}") from error


# ---- small things ------------------------------------------------------------------------------------


def _substituted(hint: Any, variables: dict[Any, Any]) -> Any:
    """The annotation with its type variables filled in."""
    if not variables:
        return hint
    if isinstance(hint, typing.TypeVar):
        return variables.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or isinstance(hint, type):
        return hint
    return hint[tuple(variables.get(parameter, parameter) for parameter in parameters)]


def _own_docstring(kind: Any) -> str | None:
    """Not what was inherited, nor the signature that `dataclass` puts there."""
    text = kind.__dict__.get("__doc__")
    if not isinstance(text, str) or text.startswith(f"{kind.__name__}("):
        return None
    return None if text in ("An enumeration.", "Enum where members are also (and must be) strings") else text


def _spread(kind: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    return lambda values: kind(*values)


def _name(annotation: Any) -> str:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(origin, type) and args and origin is not types.UnionType:
        return f"{origin.__name__}[{', '.join(_name(arg) for arg in args)}]"
    if isinstance(annotation, type):
        return annotation.__name__
    return str(annotation).replace("typing.", "")
