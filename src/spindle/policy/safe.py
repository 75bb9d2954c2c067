"""Commands that only look: they cannot change anything, reach the network or start another program, by any option.

Nobody needs to be asked about them. They run in the sandbox all the same. A program is listed by name; where an option,
an operand or a file name that a shell puts in for a pattern could make it do more, that is looked at.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence

from spindle.policy.words import SHELLS, Part, plain_parts, script_of

_SYSTEM_FOLDERS = frozenset(("/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin"))
_SYSTEM_ROOTS = ("/bin/", "/usr/", "/sbin/", "/opt/homebrew/", "/nix/store/")
_ALWAYS = frozenset(
    (
        *("cat", "cd", "cut", "echo", "expr", "false", "head", "id", "ls", "nl", "paste", "pwd", "rev"),
        *("seq", "stat", "tail", "tr", "true", "uname", "wc", "which", "whoami"),
    )
)
_ON_LINUX = frozenset(("numfmt", "tac"))
_NEED_ROOM = frozenset(("git", "tac"))
"""git puts versions of files aside for a program that is to show their differences, tac what comes by a pipe."""
_GIT_READS = frozenset(("status", "log", "diff", "show", "branch"))
_GIT_SHORT = frozenset(("-c", "-C"))
_GIT_LONG = (
    # They name programs, files to write, or other repositories; or have git start a program it is configured with.
    *("--git-dir", "--work-tree", "--exec-path", "--paginate", "--no-index", "--help", "--config-env"),
    *("--ext-diff", "--textconv", "--output", "--show-signature", "--alternate-refs", "--submodule"),
)
_GIT_BRANCH_READS = frozenset(("-a", "-r", "-v", "-vv", "--show-current", "--list"))
FIND_ACTS = frozenset(("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint", "-fprint0", "-fprintf"))

_GIT_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "log.showSignature": "false",
    **{f"gpg.{name}program": "false" for name in ("", "openpgp.", "x509.", "ssh.")},
}
"""A repository may come with settings of its own, and with these looking at it would run a program."""
_GIT_VARIABLES = {"GIT_PAGER": "cat", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}


def is_known_safe(argv: Sequence[str]) -> bool:
    """Every part of the command only looks."""
    parts = _parts(argv)
    return parts is not None and all(_is_safe_part(part) for part in parts)


def writes_nothing(argv: Sequence[str]) -> bool:
    """Every part only looks, and needs no room for temporary files either."""
    parts = _parts(argv)
    return parts is not None and all(
        os.path.basename(part.words[0]) not in _NEED_ROOM and _is_safe_part(part) for part in parts
    )


def safe_environment(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """What to set for a command that runs because it is known to be safe; nothing for any other.

    git's settings are added behind those that `environment`, what the command gets otherwise, may already have.
    """
    # Whether its shell is the system's own is the last question: only the disk knows.
    parts = _parts(argv, is_shell_checked=False) or []
    if not any(os.path.basename(part.words[0]) == "git" for part in parts) or not is_known_safe(argv):
        return {}
    given = (environment or {}).get("GIT_CONFIG_COUNT", "")
    first = int(given) if re.fullmatch(r"[0-9]{1,4}", given) else 0
    found = {**_GIT_VARIABLES, "GIT_CONFIG_COUNT": str(first + len(_GIT_SETTINGS))}
    for number, (name, value) in enumerate(_GIT_SETTINGS.items(), first):
        found[f"GIT_CONFIG_KEY_{number}"] = name
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return found


def _parts(argv: Sequence[str], *, is_shell_checked: bool = True) -> list[Part] | None:
    if not argv or not all(argv[:1]):
        return None
    script = script_of(argv)
    if script is not None:
        # A shell that lies in the workspace is a program like any other.
        return plain_parts(script) if not is_shell_checked or is_installed(argv[0]) else None
    return None if os.path.basename(argv[0]) in SHELLS else [Part("", list(argv))]


def is_installed(program: str, real: str | None = None) -> bool:
    """A bare name, or a path in a folder of the system that also leads into the system.

    A link elsewhere proves nothing: it may have any name, and lead somewhere else a moment later. `real` is where the
    path leads, for those who know.
    """
    if "/" not in program:
        return True
    if os.path.dirname(program) not in _SYSTEM_FOLDERS:
        return False
    return (os.path.realpath(program) if real is None else real).startswith(_SYSTEM_ROOTS)


def _is_safe_part(part: Part) -> bool:
    words = part.words
    if not is_installed(words[0]) or not all(word.isprintable() for word in words):
        return False
    name = os.path.basename(words[0])
    if name in _ALWAYS or (name in _ON_LINUX and sys.platform == "linux"):
        return True
    if name == "grep":
        return _is_plain_grep(words)
    check = _CHECKS.get(name)
    # A file may be named like an option: `rg x *` hands over whatever lies around.
    return check is not None and not any(words[at][0] in "-*?[" for at in part.patterns) and check(part)


def _is_plain_grep(words: list[str]) -> bool:
    # Some systems install ugrep by this name. Three dashes name a file with options.
    options = ("--filter", "--pager", "--save-config", "--view", "--config")
    return not _has_long(words, options, also={"--file", "--fil"}) and not any(word[:3] == "---" for word in words)


def _uniq(part: Part) -> bool:
    """The second operand is a file that is written."""
    operands, at, rest = 0, 0, part.words[1:]
    while at < len(rest):
        word = rest[at]
        at += 1
        if word == "--":
            operands += len(rest) - at
            break
        if word in ("-f", "-s", "-w"):
            at += 1
        elif not word.startswith("-") or word == "-":
            operands += 1
    return operands < 2 and not part.patterns


def _base64(part: Part) -> bool:
    return not any(word.startswith("--o") or re.match(r"-[^-]*o", word) for word in part.words[1:])


def _find(part: Part) -> bool:
    return not any(word.startswith(("-exec", "-ok", "-delete", "-fls", "-fprint", "-rm")) for word in part.words[1:])


def _rg(part: Part) -> bool:
    return not _has_long(part.words, ("--pre", "--hostname-bin", "--search-zip")) and not any(
        re.match(r"-[^-]*z", word) for word in part.words[1:]
    )


def _git(part: Part) -> bool:
    command, rest = part.words[1] if len(part.words) > 1 else "", part.words[2:]
    if command not in _GIT_READS or 1 in part.patterns:
        return False
    if command == "branch":
        return _GIT_BRANCH_READS.issuperset(rest)
    if any(word[:2] in _GIT_SHORT for word in rest):
        return False
    # A pretty format with %G has signatures checked by a configured program.
    return not _has_long(rest, _GIT_LONG, also={"--text"}) and not any("%G" in word for word in rest)


def _sed(part: Part) -> bool:
    rest = part.words[1:]
    return (
        2 <= len(rest) <= 3
        and rest[0] == "-n"
        and re.fullmatch(r"[0-9]+(,[0-9]+)?p", rest[1]) is not None
        and (len(rest) == 2 or not rest[2].startswith("-"))
    )


_CHECKS: dict[str, Callable[[Part], bool]] = {
    "base64": _base64,
    "find": _find,
    "git": _git,
    "rg": _rg,
    "sed": _sed,
    "uniq": _uniq,
}


def _has_long(words: Sequence[str], options: Sequence[str], also: Collection[str] = ()) -> bool:
    """Does any word stand for one of the long options, in full, shortened, with or without a value?

    A word that goes on behind the option's name counts too. `also` are full options that are something else.
    """
    for word in words:
        name = word.split("=", 1)[0]
        if len(name) < 3 or not name.startswith("--") or name in also:
            continue
        if any(name.startswith(option) or option.startswith(name) for option in options):
            return True
    return False
