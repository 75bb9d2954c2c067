"""Prompts that the user keeps as files, `$CODEX_HOME/prompts/NAME.md`, to be sent by their name."""

from __future__ import annotations

import os
import re
import shlex

import msgspec

from spindle.workspace.files import read_own

_MAX_BYTES = 1 << 20
_MAX_PROMPTS = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HEADER = re.compile(r"---\r?\n(?P<fields>.*?)\r?\n---\r?\n?", re.DOTALL)
_PLACE = re.compile(r"\$(?:ARGUMENTS\b|[1-9]|\$)")


class CustomPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the folder."""

    name: str
    description: str = ""
    hint: str = ""
    """What may stand behind it."""
    text: str

    def filled_in(self, argument: str) -> str:
        """The prompt to send. Without a place for it, what stood behind the name is added at the end."""
        words = _words(argument)

        def put(found: re.Match[str]) -> str:
            sign = found.group()[1:]
            if sign == "$":
                return "$"
            if sign == "ARGUMENTS":
                return argument
            return words[int(sign) - 1] if int(sign) <= len(words) else ""

        filled = _PLACE.sub(put, self.text)
        has_place = any(found.group() != "$$" for found in _PLACE.finditer(self.text))
        return filled if has_place or not argument else f"{filled}\n\n{argument}"


def load_prompts(home: str) -> list[CustomPrompt]:
    """All of them by name. A file that cannot be read, or is another user's, is left out."""
    folder = f"{home}/prompts"
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    found = [_read(f"{folder}/{name}", name.removesuffix(".md")) for name in names if name.endswith(".md")]
    return [prompt for prompt in found if prompt is not None][:_MAX_PROMPTS]


def _read(path: str, name: str) -> CustomPrompt | None:
    if _NAME.fullmatch(name) is None:
        return None
    try:
        text = read_own(path, _MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError):
        return None
    header = _HEADER.match(text)
    fields = _fields(header["fields"]) if header is not None else {}
    return CustomPrompt(
        name=name,
        description=fields.get("description", ""),
        hint=fields.get("argument-hint", ""),
        text=text[header.end() :] if header is not None else text,
    )


def _fields(text: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {key.strip().lower(): value.strip().strip("\"'") for key, _, value in pairs}


def _words(argument: str) -> list[str]:
    try:
        return shlex.split(argument)
    except ValueError:
        return argument.split()
