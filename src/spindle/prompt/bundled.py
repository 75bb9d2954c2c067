"""Reads the bundled Markdown texts, each at most once."""

from __future__ import annotations

import os

_FOLDER = f"{os.path.dirname(__file__)}/texts"
_loaded: dict[str, str] = {}


def text(name: str) -> str:
    """The bundled text `name` (without `.md`), trimmed at the end."""
    found = _loaded.get(name)
    if found is None:
        with open(f"{_FOLDER}/{name}.md", encoding="utf-8") as file:
            found = _loaded[name] = file.read().rstrip()
    return found
