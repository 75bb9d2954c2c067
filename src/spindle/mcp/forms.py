"""A form that a server wants filled in, as a person may see it, and the answer in the server's own words."""

from __future__ import annotations

from typing import Any

from spindle.mcp.naming import clean_words
from spindle.protocol.quote import readable


class CleanForm:
    """`schema` has nothing hidden in it; `restore` undoes that in an answer."""

    def __init__(self, schema: Any) -> None:
        self.schema: dict[str, Any] | None = clean_words(schema) if isinstance(schema, dict) else None
        properties = schema.get("properties") if isinstance(schema, dict) else None
        self._fields: dict[str, Any] = properties if isinstance(properties, dict) else {}

    def restore(self, content: dict[str, Any]) -> dict[str, Any]:
        """The answer with the names, and the choices, as the server wrote them."""
        named = {readable(name): name for name in self._fields}
        return {named.get(name, name): self._choice(named.get(name), value) for name, value in content.items()}

    def _choice(self, name: str | None, value: Any) -> Any:
        field = self._fields.get(name) if name is not None else None
        if isinstance(value, list):
            return [self._choice(name, entry) for entry in value]
        if not isinstance(field, dict) or not isinstance(value, str):
            return value
        return next((choice for choice in _choices(field) if readable(choice) == value), value)


def _choices(field: dict[str, Any]) -> list[str]:
    """The texts that a field may have, in each of the forms in which servers list them."""
    items = field.get("items")
    listed: list[Any] = []
    for holder in (field, items if isinstance(items, dict) else {}):
        listed += holder["enum"] if isinstance(holder.get("enum"), list) else []
        for key in ("oneOf", "anyOf"):
            entries = holder.get(key)
            listed += [entry.get("const") for entry in entries or () if isinstance(entry, dict)] if entries else []
    return [choice for choice in listed if isinstance(choice, str)]
