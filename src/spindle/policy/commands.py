"""What a command is: its parts, whether it is known safe or dangerous, and what it does in words a person reads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spindle.policy.danger import is_dangerous
from spindle.policy.safe import FIND_ACTS, is_known_safe, safe_environment, writes_nothing
from spindle.policy.within import commands_within
from spindle.policy.words import SHELLS, Part, plain_parts, script_of, split_script
from spindle.protocol.quote import shell_join

if TYPE_CHECKING:
    from spindle.policy.sandbox import Boundary

__all__ = [
    "commands_within",
    "is_dangerous",
    "is_known_safe",
    "needed",
    "parse_command",
    "safe_environment",
    "split_command",
    "split_parts",
    "writes_nothing",
]


def needed(argv: Sequence[str], boundary: Boundary | None, *, reads_profile: bool) -> Boundary | None:
    """What a command needs of what it may reach: one that only looks gets nothing to write.

    So nothing has to be kept from being created either, and no placeholder appears in the user's folders. A shell that
    reads its start files (`reads_profile`) does what they say, so it keeps all.
    """
    if boundary is None or not writes_nothing(argv) or (reads_profile and script_of(argv) is not None):
        return boundary
    return boundary.for_looking()


def split_command(argv: Sequence[str]) -> list[list[str]] | None:
    """The plain commands of a shell script, or argv itself when no shell is involved; None when it is opaque."""
    parts = split_parts(argv)
    return None if parts is None else [part.words for part in parts]


def split_parts(argv: Sequence[str]) -> list[Part] | None:
    """The same, with what is known of each word."""
    script = script_of(argv)
    if script is None:
        is_shell = bool(argv) and os.path.basename(argv[0]) in SHELLS
        return None if is_shell or not argv else [Part("", list(argv))]
    return plain_parts(script)


# ---- what people see -----------------------------------------------------------------------------------

_READERS = frozenset(("cat", "head", "tail", "nl", "bat", "less", "more", "sed"))
_LISTERS = frozenset(("ls", "fd", "find", "tree", "eza", "exa"))
_SEARCHERS = frozenset(("rg", "grep", "egrep", "fgrep", "ag", "ack"))
_SHAPERS = frozenset(("head", "tail", "wc", "sort", "uniq", "cut", "tr", "nl", "column"))
"""Behind a pipe these only shape what the command before them shows."""

_VALUE_FLAGS = {
    "head": ("-n", "-c"),
    "tail": ("-n", "-c"),
    "rg": ("-g", "--glob", "-t", "--type", "-A", "-B", "-C", "-m", "--max-count", "-e", "--sort", "-j", "--max-depth"),
    "grep": ("-A", "-B", "-C", "-m", "-e", "-f", "--include", "--exclude", "--exclude-dir"),
    "fd": ("-e", "-t", "-d", "-E"),
    "ls": ("-I", "-w"),
    "tree": ("-L", "-I", "-P"),
}


def parse_command(argv: Sequence[str]) -> list[dict[str, Any]]:
    """The `parsed_cmd` of events: what is read, listed or searched; one `unknown` entry if any part is unclear."""
    script = script_of(argv)
    whole = script if script is not None else shell_join(argv)
    unknown = [{"type": "unknown", "cmd": whole}]
    parts = split_script(script) if script is not None else [("", list(argv))] if argv else None
    if parts is None:
        return unknown
    parsed: list[dict[str, Any]] = []
    for operator, words in parts:
        if words[0] == "cd" and len(parts) > 1:
            continue
        if operator == "|" and _only_shapes(words):
            continue
        entry = _describe(words)
        if entry is None:
            return unknown
        parsed.append(entry)
    return parsed or unknown


def _describe(words: list[str]) -> dict[str, Any] | None:
    name, cmd = os.path.basename(words[0]), shell_join(words)
    if name == "git" and words[1:2] == ["grep"]:
        name, words = "grep", words[1:]
    if name == "sed" and not _is_line_filter(words):
        return None
    if name in _READERS:
        files = _operands(words, skip=1 if name == "sed" else 0)
        if len(files) != 1:
            return None
        return {"type": "read", "cmd": cmd, "name": os.path.basename(files[0].rstrip("/")), "path": files[0]}
    if name in _LISTERS or (name == "rg" and "--files" in words):
        if name == "find" and not FIND_ACTS.isdisjoint(words):
            return None
        return {"type": "list_files", "cmd": cmd, "path": _listed_folder(name, words)}
    if name in _SEARCHERS:
        found = _operands(words)
        return {
            "type": "search",
            "cmd": cmd,
            "query": found[0] if found else None,
            "path": found[1] if len(found) > 1 else None,
        }
    return None


def _listed_folder(name: str, words: list[str]) -> str | None:
    folders = _operands(words)
    if name == "find":
        # Options of find come behind the folder, and most take a value.
        folders = words[1:2] if words[1:2] and not words[1].startswith(("-", "(", "!")) else []
    elif name == "fd":
        folders = folders[1:]
    return folders[0] if folders else None


def _only_shapes(words: list[str]) -> bool:
    """Whether it reads only what comes through the pipe, and no file of its own."""
    if _is_line_filter(words):
        return not _operands(words, skip=1)
    return words[0] in _SHAPERS and (words[0] in ("cut", "tr") or not _operands(words))


def _is_line_filter(words: list[str]) -> bool:
    return words[0] == "sed" and words[1:2] == ["-n"] and len(words) > 2


def _operands(words: list[str], skip: int = 0) -> list[str]:
    """The words that are neither options nor values of options."""
    valued = _VALUE_FLAGS.get(os.path.basename(words[0]), ())
    found: list[str] = []
    at = 1
    while at < len(words):
        word = words[at]
        if word == "--":
            found += words[at + 1 :]
            break
        if word in valued:
            at += 1
        elif not (word.startswith("-") and len(word) > 1):
            found.append(word)
        at += 1
    return found[skip:]
