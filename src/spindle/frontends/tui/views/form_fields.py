"""The fields of a server's form: what may be entered in each, and what is wrong with what was entered. Pure.

The schema is a server's text and may be anything: what is not understood is a line of text.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from spindle.protocol.items import encode_payload

Kind = Literal["string", "integer", "number", "boolean", "array"]
MOST_FIELDS = 50
_MOST_OPTIONS = 200
_FORMATS = {
    "email": (r"[^@\s]+@[^@\s]+\.[^@\s]+", "an e-mail address like name@example.org"),
    "uri": (r"[A-Za-z][A-Za-z0-9+.-]*:\S+", "an address like https://example.org"),
    "date": (r"\d{4}-\d{2}-\d{2}", "a date like 2026-01-31"),
    "date-time": (r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}.*", "a time like 2026-01-31T12:00:00Z"),
}


class Option(msgspec.Struct, frozen=True):
    value: Any
    title: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One field."""

    name: str
    title: str
    about: str = ""
    kind: Kind = "string"
    is_required: bool = False
    is_secret: bool = False
    options: tuple[Option, ...] = ()
    default: Any = None
    format: str = ""
    least: float | None = None
    most: float | None = None
    """Bounds of a number, of the length of a text, or of how many options may be chosen."""

    @property
    def takes_many(self) -> bool:
        return self.kind == "array" and bool(self.options)

    def shown(self, value: Any) -> str:
        """A value as a person reads it."""
        if isinstance(value, list):
            return ", ".join(map(self.shown, value)) or "none"
        for option in self.options:
            if option.value == value:
                return option.title
        return value if isinstance(value, str) else encode_payload(value).decode()

    def read(self, text: str) -> tuple[Any, str]:
        """The value of what was entered, or what is wrong with it."""
        if self.kind in ("integer", "number"):
            return self._number(text)
        if self.kind == "array":
            return [part.strip() for part in text.split(",") if part.strip()], ""
        if (self.least is not None and len(text) < self.least) or (self.most is not None and len(text) > self.most):
            return (
                None,
                f"between {_bound(self.least, '0')} and {_bound(self.most, 'any number of')} characters, please",
            )
        if (known := _FORMATS.get(self.format)) and not re.fullmatch(known[0], text.strip()):
            return None, f"this must be {known[1]}"
        return text, ""

    def _number(self, text: str) -> tuple[Any, str]:
        try:
            value = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            return None, "a whole number, please" if self.kind == "integer" else "a number, please"
        if value != value or value in (float("inf"), float("-inf")):
            return None, "a number, please"
        if self.least is not None and value < self.least:
            return None, f"not less than {_bound(self.least)}"
        if self.most is not None and value > self.most:
            return None, f"not more than {_bound(self.most)}"
        return value, ""

    def problem_with_count(self, count: int) -> str | None:
        """What is wrong with choosing so many options."""
        least = self.least if self.least is not None else int(self.is_required)
        if count < least:
            return f"at least {_bound(least)}, please"
        return f"at most {_bound(self.most)}, please" if self.most is not None and count > self.most else None


def entries(schema: dict[str, Any]) -> list[Entry]:
    """The fields of a form, in the order the server names them."""
    properties, required = schema.get("properties"), schema.get("required")
    found = properties if isinstance(properties, dict) else {}
    needed = required if isinstance(required, list) else []
    return [
        _entry(name, field, name in needed)
        for name, field in list(found.items())[:MOST_FIELDS]
        if isinstance(name, str) and isinstance(field, dict)
    ]


def _entry(name: str, field: dict[str, Any], is_required: bool) -> Entry:
    kind = field.get("type")
    kind = kind if kind in ("integer", "number", "boolean", "array") else "string"
    bounds = {"string": ("minLength", "maxLength"), "array": ("minItems", "maxItems")}
    least, most = (_limit(field.get(key)) for key in bounds.get(kind, ("minimum", "maximum")))
    return Entry(
        name=name,
        title=_text(field, "title") or name,
        about=_text(field, "description"),
        kind=kind,
        is_required=is_required,
        is_secret=field.get("format") == "password",
        options=_options(kind, field),
        default=field.get("default"),
        format=_text(field, "format"),
        least=least,
        most=most,
    )


def _options(kind: str, field: dict[str, Any]) -> tuple[Option, ...]:
    if kind == "boolean":
        return Option(True, "yes"), Option(False, "no")
    items = field.get("items")
    source = items if kind == "array" and isinstance(items, dict) else field
    titled = next((source[key] for key in ("oneOf", "anyOf") if isinstance(source.get(key), list)), None)
    if titled is not None:
        found = [each for each in titled if isinstance(each, dict) and "const" in each]
        return tuple(Option(each["const"], str(each.get("title") or each["const"])) for each in found[:_MOST_OPTIONS])
    values = source.get("enum")
    if not isinstance(values, list):
        return ()
    names = source.get("enumNames")
    titles = names if isinstance(names, list) and len(names) == len(values) else values
    return tuple(Option(value, str(title)) for value, title in list(zip(values, titles, strict=True))[:_MOST_OPTIONS])


def _text(field: dict[str, Any], key: str) -> str:
    found = field.get(key)
    return found if isinstance(found, str) else ""


def _limit(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _bound(value: float | None, otherwise: str = "") -> str:
    return otherwise if value is None else f"{value:g}"
