"""Programs that can destroy, and with which arguments they do. Words in, a verdict out; nothing is seen through."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

_DEVICES_THAT_LOSE_NOTHING = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/full")
_CALLS_A_SHELL = r"system|popen|subprocess|exec|spawn|run\(|`|\bqx\b|%x|do shell script|rmtree|shell"


def destroys(name: str, words: list[str], *, guessed: bool = False) -> bool:
    """Does this program with these arguments destroy? `guessed`: the name is a guess, so the options must fit it."""
    if name.startswith("mkfs") or name == "shred":
        return bool(words) or not guessed
    if name == "rm" and guessed:
        words = [word for word in words if not word.startswith("-") or re.fullmatch(r"-[dfiIPRrvWx]+|--[a-z-]+", word)]
    check = DESTROYERS.get(name)
    return check is not None and check(words)


def may_be(pattern: str, program: str) -> bool:
    """Could a word with unknown pieces (NUL) or file name patterns be this program?"""
    if len(pattern) > 200:
        return True
    regex = "".join(
        ".*" if piece in ("\0", "*") else "." if piece == "?" or piece.startswith("[") else re.escape(piece)
        for piece in re.findall(r"\0|\*+|\?|\[[^\]]*\]|[^\0*?\[]+|\[", re.sub(r"\*+", "*", pattern))
    )
    return re.fullmatch(regex, program) is not None


def _rm(words: list[str]) -> bool:
    return has_flag(words, "f", "--force") or any(re.fullmatch(r"--int\w*=(never|no|none)", word) for word in words)


def _git(words: list[str]) -> bool:
    command, rest = git_command(words)
    match command:
        case "reset" | "rm":
            return True
        case "clean":
            return has_flag(rest, "f", "--force")
        case "checkout" | "restore":
            if command == "restore" and has_flag(rest, "S", "--staged") and not has_flag(rest, "W", "--worktree"):
                return False  # only takes back what `git add` did
            everything = any(word in (".", "./", ":/", "*", ":") for word in rest)
            return everything or (command == "checkout" and has_flag(rest, "f", "--force"))
        case "switch":
            return has_flag(rest, "f", "--force") or has_flag(rest, "", "--discard-changes")
        case "push":
            return has_flag(rest, "f", "--force") or any(word.startswith("+") for word in rest)
        case "branch":
            return has_flag(rest, "D", "") or (has_flag(rest, "d", "--delete") and has_flag(rest, "f", "--force"))
        case _:
            return False


def git_command(words: list[str]) -> tuple[str, list[str]]:
    """The subcommand behind git's own options."""
    at = 0
    with_value = (
        "-c",
        "-C",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--exec-path",
        "--config-env",
        "--super-prefix",
    )
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in with_value else 1
    return (words[at], words[at + 1 :]) if at < len(words) else ("", [])


def _dd(words: list[str]) -> bool:
    targets = [os.path.normpath(word[3:]).replace("//", "/") for word in words if word.startswith("of=")]
    return any(
        target.startswith("/dev/") and target not in _DEVICES_THAT_LOSE_NOTHING and not target.startswith("/dev/fd/")
        for target in targets
    )


def _chmod(words: list[str]) -> bool:
    is_open = any(re.fullmatch(r"0*777|(a|ugo)?[+=](rwx|rwX)", word) for word in words)
    return is_open and has_flag(words, "R", "--recursive") and any(re.fullmatch(r"/+[./*]*", word) for word in words)


def _kill(words: list[str]) -> bool:
    return "-1" in words[1:] and words[0].startswith("-")


DESTROYERS: dict[str, Callable[[list[str]], bool]] = {
    "rm": _rm,
    "git": _git,
    "dd": _dd,
    "chmod": _chmod,
    "kill": _kill,
    "shred": lambda words: bool(words),
}


def has_flag(words: list[str], letter: str, long: str) -> bool:
    """A short flag alone or in a cluster, or its long form (also shortened), before `--`."""
    for word in words:
        if word == "--":
            return False
        if "\1" in word:
            return True
        if word.startswith("--"):
            name = word.split("=", 1)[0]
            if long and len(name) > 2 and (long.startswith(name) or name.startswith(long)):
                return True
        elif letter and word.startswith("-") and letter in word[1:]:
            return True
    return False


_OWN_LANGUAGE = """
Rscript awk bc bun dc deno ed emacs emacsclient ex expect ftp gawk gdb gmake gnuplot groovy gsed guile gvim julia
less lftp lldb lua m4 make mariadb mawk more most mysql nawk node nodejs nvim octave original-awk osascript perl php
psql pypy3 python python2 python3 python3.10 python3.11 python3.12 python3.13 python3.14 python3.15 python3.16
python3.17 python3.18 python3.19 python3.6 python3.7 python3.8 python3.9 red redis-cli ruby rvim sed sqlite sqlite3
ssed tclsh telnet vi view vim vim.basic vim.tiny vimdiff wish
"""
OWN_LANGUAGE = frozenset(_OWN_LANGUAGE.split())
"""Programs that `languages` knows how to read texts for. It is loaded with the first of them."""

# ---- programs whose arguments are programs -------------------------------------------------------------


def run_by_git(words: list[str]) -> Iterator[str]:
    """Shell scripts in git's arguments: aliases, and commands that it runs for each commit or submodule."""
    for word in words:
        if found := re.match(r"(?:--config-env=)?alias\.[^=]*=!(.*)|!(.*)", word, re.DOTALL):
            yield found[1] or found[2] or ""
    command, rest = git_command(words)
    if (command, rest[:1]) in (("submodule", ["foreach"]), ("bisect", ["run"])):
        yield " ".join(word for word in rest[1:] if word not in ("--recursive", "-q", "--quiet"))
    if command in ("rebase", "filter-branch", "difftool", "mergetool"):
        for at, word in enumerate(rest):
            option, is_joined, value = word.partition("=")
            if re.fullmatch(r"-x|--exec|--[a-z]+-filter|--extcmd", option):
                yield value if is_joined else " ".join(rest[at + 1 : at + 2])


def _code(words: list[str]) -> Iterator[str]:
    """Quoted texts in code that calls a shell."""
    for word in words[:20]:
        if len(word) < 100_000 and re.search(_CALLS_A_SHELL, word):
            for found in re.finditer(
                r"\"([^\"\n]{4,500})\"|'([^'\n]{4,500})'|`([^`\n]{4,500})`|qx\W([^\n]{4,500})", word
            ):
                text = next(filter(None, found.groups()), "")
                yield text
            listed = re.sub(r"[\"'\[\](),;]+", " ", word)
            if len(listed) < 2000 and (found := re.search(r"(?:\s)(rm\s+-.*)", listed, re.DOTALL)):
                yield found[1]


INTERPRETERS: dict[str, Callable[[list[str]], Iterator[str]]] = dict.fromkeys(
    (
        *("python", "python2", "python3", "pypy3", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua"),
        *("awk", "gawk", "mawk", "nawk", "osascript"),
        *(f"python3.{minor}" for minor in range(6, 20)),
    ),
    _code,
)
