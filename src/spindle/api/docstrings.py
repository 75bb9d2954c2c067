"""What docstrings say: the first paragraph, and a text for each parameter or attribute.

Google, Sphinx and NumPy style are read, also mixed. Nothing here fails: what cannot be understood says nothing.
"""

from __future__ import annotations

import re
from inspect import cleandoc

import msgspec

_SECTION = re.compile(
    r"(args|arguments|parameters|params|keyword args|keyword arguments|other parameters|attributes|returns?|yields?|"
    r"raises|notes?|examples?|see also|references|warnings?|todo|warns|methods):",
    re.IGNORECASE,
)
_NUMPY_TITLE = re.compile(r"[A-Z][A-Za-z ]*")
_RULER = re.compile(r"(-{3,}|={3,})")
_ABOUT_NAMES = frozenset(
    (
        *("args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters"),
        "attributes",
    )
)
_SPHINX = re.compile(r":(?P<field>[A-Za-z]+)(?:[ \t]+(?P<words>[^:\n]+))?:(?:[ \t]+(?P<text>.*))?$")
_SPHINX_NAMES = frozenset(
    ("param", "parameter", "arg", "argument", "key", "keyword", "kwarg", "var", "ivar", "cvar", "attr")
)
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(?P<name>[A-Za-z_]\w*)[ \t]*(?:\([^\n]*?\))?[ \t]*:(?:[ \t]+(?P<text>.*))?$")
_NUMPY_ENTRY = re.compile(r"(?P<names>\*{0,2}[A-Za-z_]\w*(?:[ \t]*,[ \t]*\*{0,2}[A-Za-z_]\w*)*)[ \t]*(?::.*)?$")


class Docstring(msgspec.Struct, frozen=True):
    """A docstring taken apart."""

    summary: str = ""
    """The first paragraph, in one line."""
    texts: dict[str, str] = {}
    """By name of the parameter or attribute, each in one line."""


def read_docstring(text: str | None) -> Docstring:
    """Take a docstring apart; none at all says nothing."""
    if not isinstance(text, str) or not text.strip():
        return Docstring()
    lines = [line.rstrip() for line in cleandoc(text).splitlines()]
    if _begins_section(lines, 0) is not None and lines[1:] and not _RULER.fullmatch(lines[1]):
        rest = next((line for line in lines[1:] if line), " ")
        if not rest[0].isspace():  # it begins with a section, whose lines were all there was to find a margin from
            lines[1:] = [f"    {line}" if line else line for line in lines[1:]]
    texts: dict[str, str] = {}
    for name, words in [*_from_sphinx(lines), *_from_sections(lines)]:
        joined = " ".join(" ".join(words).split())
        if joined:
            texts.setdefault(name, joined)
    return Docstring(_summary(lines), texts)


def _summary(lines: list[str]) -> str:
    said: list[str] = []
    for place, line in enumerate(lines):
        if not line or _begins_section(lines, place) is not None or _SPHINX.match(line):
            break
        said.append(line)
    return " ".join(" ".join(said).split())


def _begins_section(lines: list[str], place: int) -> str | None:
    """The title, in lower case, of the section that begins in this line."""
    line = lines[place]
    if line[:1].isspace() or not line:
        return None
    if _SECTION.fullmatch(line):
        return line[:-1].lower()
    below = lines[place + 1] if place + 1 < len(lines) else ""
    if _NUMPY_TITLE.fullmatch(line) and _RULER.fullmatch(below):
        return line.lower()
    return None


Entry = tuple[str, list[str]]


def _from_sphinx(lines: list[str]) -> list[Entry]:
    """`:param name: text` or `:param type name: text`; lines that are indented, or simply follow, go on with it."""
    entries: list[Entry] = []
    is_open = False
    for line in lines:
        field = _SPHINX.match(line.strip())
        if field is not None:
            words = (field["words"] or "").split()
            is_open = field["field"].lower() in _SPHINX_NAMES and bool(words)
            if is_open:
                entries.append((words[-1].lstrip("*"), [field["text"] or ""]))
        elif not line:
            is_open = False
        elif is_open:
            entries[-1][1].append(line)
    return entries


def _from_sections(lines: list[str]) -> list[Entry]:
    entries: list[Entry] = []
    place = 0
    while place < len(lines):
        title = _begins_section(lines, place)
        place += 1
        if title not in _ABOUT_NAMES:
            continue
        is_numpy = not lines[place - 1].endswith(":")
        start = place + 1 if is_numpy else place
        place = start
        while place < len(lines) and _begins_section(lines, place) is None:
            if not is_numpy and lines[place] and not lines[place][0].isspace():
                break  # text at the margin ends a section of Google's style
            place += 1
        entries += _entries(lines[start:place], _NUMPY_ENTRY if is_numpy else _GOOGLE_ENTRY)
    return entries


def _entries(lines: list[str], entry: re.Pattern[str]) -> list[Entry]:
    """The entries of one section: those that stand as far to the left as its first line; the rest goes on with one."""
    margin = next((_indent(line) for line in lines if line), 0)
    found: list[Entry] = []
    for line in lines:
        match = entry.match(line.strip()) if line and _indent(line) <= margin else None
        if match is None:
            if found and _indent(line) > margin:
                found[-1][1].append(line)
        elif "names" in match.groupdict():
            words: list[str] = []
            # One text for several names: they share the list that the lines below are added to.
            found += [(name.strip().lstrip("*"), words) for name in match["names"].split(",")]
        else:
            found.append((match["name"], [match["text"] or ""]))
    return found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
