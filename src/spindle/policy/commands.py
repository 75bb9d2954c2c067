"""What a command is: known safe, dangerous, or neither; and what it does in words a person reads.

Safe means that nothing can be changed by it, so nobody needs to be asked. It still runs in the sandbox.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from spindle.policy.danger import is_dangerous
from spindle.policy.words import script_of, split_script
from spindle.protocol.quote import shell_join

__all__ = ["is_dangerous", "is_known_safe", "parse_command", "split_command"]

_SYSTEM_FOLDERS = frozenset(("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"))
_ALWAYS_SAFE = frozenset(
    (
        *("cat", "cd", "cut", "echo", "expr", "false", "grep", "head", "id", "ls", "nl", "paste", "pwd", "rev"),
        *("seq", "stat", "tail", "tr", "true", "uname", "uniq", "wc", "which", "whoami"),
    )
)
_SAFE_ON_LINUX = frozenset(("numfmt", "tac"))
_FIND_ACTS = frozenset(("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"))
_GIT_READS = frozenset(("status", "log", "diff", "show", "branch"))
_GIT_UNSAFE = (
    "-c",
    "-C",
    "--git-dir",
    "--exec-path",
    "--paginate",
    "--ext-diff",
    "--textconv",
    "--output",
    "--no-index",
)
_GIT_BRANCH_READS = frozenset(("-a", "-r", "-v", "-vv", "--show-current", "--list"))


def split_command(argv: Sequence[str]) -> list[list[str]] | None:
    """The plain commands of a shell script, or argv itself when no shell is involved; None when it is opaque."""
    script = script_of(argv)
    if script is None:
        is_shell = bool(argv) and os.path.basename(argv[0]) in ("bash", "zsh", "sh")
        return None if is_shell or not argv else [list(argv)]
    parts = split_script(script)
    return None if parts is None else [words for _, words in parts]


def is_known_safe(argv: Sequence[str]) -> bool:
    """Every part of the command only looks."""
    parts = split_command(argv)
    return parts is not None and all(_is_safe_part(part) for part in parts)


def _is_safe_part(words: list[str]) -> bool:
    program, rest = words[0], words[1:]
    if not all(word.isprintable() for word in words):
        return False
    if "/" in program and os.path.dirname(os.path.realpath(program)) not in _SYSTEM_FOLDERS:
        return False
    name = os.path.basename(program)
    if name in _ALWAYS_SAFE or (name in _SAFE_ON_LINUX and sys.platform == "linux"):
        return True
    match name:
        case "base64":
            return not any(word.startswith(("-o", "--o")) for word in rest)
        case "find":
            return _FIND_ACTS.isdisjoint(rest)
        case "rg":
            return not any(
                word.startswith(("--pre", "--hostname-bin", "--search-zip")) or (re.match(r"-[^-]*z", word) is not None)
                for word in rest
            )
        case "git":
            return _is_safe_git(rest)
        case "sed":
            return (
                2 <= len(rest) <= 3
                and rest[0] == "-n"
                and re.fullmatch(r"\d+(,\d+)?p", rest[1]) is not None
                and (len(rest) == 2 or not rest[2].startswith("-"))
            )
    return False


def _is_safe_git(words: list[str]) -> bool:
    if not words or words[0] not in _GIT_READS:
        return False
    rest = words[1:]
    if any(word.split("=", 1)[0] in _GIT_UNSAFE or word.startswith("--output") for word in rest):
        return False
    # `-O` and `-o` of diff and log name files; `branch` with any other word creates or deletes one.
    return words[0] != "branch" or _GIT_BRANCH_READS.issuperset(rest)


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
        if name == "find" and not _FIND_ACTS.isdisjoint(words):
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
    """Reads what comes through the pipe, no file of its own."""
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
