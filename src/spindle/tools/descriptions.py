"""Reads what a tool says about itself from the Markdown file beside the code."""

from __future__ import annotations

import os
from functools import cache

_FOLDER = f"{os.path.dirname(__file__)}/texts"


@cache
def description(name: str) -> str:
    """The text of `texts/NAME.md`, trimmed at the end. Read with the first tool list that needs it."""
    with open(f"{_FOLDER}/{name}.md", encoding="utf-8") as file:
        return file.read().rstrip()
