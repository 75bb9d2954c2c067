"""Reads what a tool says about itself from the Markdown file beside the code."""

from __future__ import annotations

import os

_FOLDER = f"{os.path.dirname(__file__)}/texts"


def description(name: str) -> str:
    """The text of `texts/NAME.md`, trimmed at the end. Read when a tool list is built, once per thread."""
    with open(f"{_FOLDER}/{name}.md", encoding="utf-8") as file:
        return file.read().rstrip()
