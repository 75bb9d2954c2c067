"""Types that the tests of signatures, schemas and outputs share. At the top of a module, as users have them."""

from __future__ import annotations

import dataclasses
import enum
import re
from typing import Annotated, Any, Generic, Literal, NotRequired, Required, TypedDict, TypeVar

import msgspec
import pydantic

T = TypeVar("T")


class Colour(enum.Enum):
    """What it looks like."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Rate(enum.Enum):
    HALF = 0.5
    WHOLE = 1.0


class Odd(enum.Enum):
    PAIR = (1, 2)
    NONE = None


@dataclasses.dataclass
class Point:
    """A place.

    Attributes:
        x: to the right
        y: upwards
    """

    x: int
    y: int = 0


@dataclasses.dataclass(frozen=True)
class Named:
    name: str
    at: Point
    tags: list[str] = dataclasses.field(default_factory=list)
    note: str | None = None


class Animal(msgspec.Struct, tag="animal"):
    legs: int


class Plant(msgspec.Struct, tag="plant"):
    leaves: int
    tall: bool = False


class Renamed(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    first_name: str
    last_name: str = ""


class Place(TypedDict):
    city: str
    zip: NotRequired[int]


class Loose(TypedDict, total=False):
    """Half a thing."""

    a: int
    b: Required[Annotated[str, "always there"]]


@dataclasses.dataclass
class Node:
    """A tree."""

    value: int
    children: list[Node] = dataclasses.field(default_factory=list)


class Chain(msgspec.Struct):
    value: int
    next: Chain | None = None


@dataclasses.dataclass
class Box(Generic[T]):
    content: T
    more: list[T] = dataclasses.field(default_factory=list)


class Model(pydantic.BaseModel):
    """A model of pydantic's."""

    name: str
    count: int = pydantic.Field(default=1, ge=0, description="how many")
    where: Point | None = None


class Tree(pydantic.BaseModel):
    title: str
    kids: list[Tree] = []


@dataclasses.dataclass
class Mixed:
    model: Model
    extra: dict[str, Model]


Any_ = Any
Words = Literal["a", "b"]


def stable_id(value: object) -> str:
    """How a value is called in a test's name: the same in every process, so without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))[:40]
