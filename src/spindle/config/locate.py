"""Finds the line of a key in a TOML text that has already been read well. Used only to word messages."""

from __future__ import annotations


def find_line(text: str, path: tuple[str, ...]) -> int | None:
    """The line that sets `path`, or that opens it, the table it stands in, or the first table inside of it."""
    table: tuple[str, ...] = ()
    opened: int | None = None
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if line.startswith("["):
            table = split_key(line.strip("[").partition("]")[0])
            if table and table == path[: len(table)]:
                opened = number
                if table == path:
                    return number
            elif path == table[: len(path)] and opened is None:
                opened = number
        elif "=" in line and not line.startswith("#"):
            key = (*table, *split_key(line.partition("=")[0]))
            if len(key) > len(table) and key == path[: len(key)]:
                return number
    return opened


def split_key(text: str) -> tuple[str, ...]:
    """`a."b.c".d` → ("a", "b.c", "d")."""
    parts: list[str] = []
    current = ""
    quote = ""
    for char in text.strip():
        if quote:
            if char == quote:
                quote = ""
            else:
                current += char
        elif char in "\"'":
            quote = char
        elif char == ".":
            parts.append(current.strip())
            current = ""
        else:
            current += char
    return (*parts, current.strip())
