"""Which beginnings of a command may be offered to a person as "do not ask again".

A rule made of such a prefix runs what matches it without asking and without the sandbox. A prefix that means
"anything" is therefore never offered: an interpreter, a shell, a launcher of other programs, or a tool whose next word
decides everything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from spindle.policy.coverage import (
    INTERPRETERS,
    REMOTE,
    STATE_CHANGERS,
    covers,
    has_only_harmless_options,
    innermost,
    is_known,
    no_word,
    plain_name,
)
from spindle.policy.danger import is_dangerous
from spindle.policy.launchers import COMPILER_WRAPPERS, LAUNCHERS, is_launcher, subcommand_at
from spindle.policy.variables import names_code
from spindle.policy.wrappers import SHELLS, WRAPPERS

MAX_WORDS = 32
MAX_CHARACTERS = 4000

_TRANSPARENT = frozenset(
    ("env", "nice", "nohup", "time", "timeout", "command", "stdbuf", "ionice", "setsid", "caffeinate")
)
"""Launchers that change nothing about what they run, so that can be offered with them in front."""
_NEVER = frozenset(
    (
        # They run other programs with other rights, elsewhere, or from data.
        *("sshpass", "nc", "ncat", "netcat", "telnet", "print"),
        # They destroy, and one word more is another victim.
        *("rm", "rmdir", "unlink", "dd", "shred", "mkfs", "fdisk", "parted", "wipefs", "truncate"),
        *("mv", "cp", "ln"),
        *("chmod", "chown", "chgrp", "chattr", "mount", "umount", "kill", "pkill", "killall", "tee", "install"),
        *("shutdown", "reboot", "halt", "poweroff", "iptables", "nft", "sysctl", "insmod", "modprobe", "passwd"),
        # Their arguments are a program, or name one, wherever they stand.
        *("find", "fd", "fdfind", "awk", "gawk", "mawk", "nawk", "sed", "tar", "zip", "rsync", "vi", "vim", "nvim"),
        *("ex", "ed", "emacs", "nano", "less", "more", "man", "env-update", "openssl", "sqlite3", "psql", "mysql"),
        *("redis-cli", "curl", "wget", "scp", "sftp", "ftp", "aria2c"),
    )
) | ((LAUNCHERS | WRAPPERS | COMPILER_WRAPPERS | STATE_CHANGERS) - _TRANSPARENT)
_SHELLS = SHELLS | {"nu", "xonsh"}
_NEED_A_WORD = frozenset(
    (
        *("git", "hg", "svn", "jj", "gh", "glab", "make", "gmake", "ninja", "cmake", "bazel", "buck", "buck2", "meson"),
        *("npm", "pnpm", "yarn", "npx", "pnpx", "bunx", "uvx", "pipx", "uv", "pip", "poetry", "pdm", "hatch", "conda"),
        *("mamba", "tox", "nox", "cargo", "rustup", "gradle", "gradlew", "mvn", "mvnw", "ant", "sbt", "lein", "mix"),
        *("rake", "bundle", "gem", "composer", "docker", "podman", "nerdctl", "kubectl", "helm", "terraform", "tofu"),
        *("ansible", "ansible-playbook", "vagrant", "aws", "gcloud", "az", "brew", "apt", "apt-get", "dnf", "yum"),
        *("pacman", "apk", "snap", "nix", "nix-shell", "nix-env", "systemctl", "service", "launchctl", "just", "task"),
        *("direnv", "asdf", "mise", "pyenv", "rbenv", "nvm", "corepack", "turbo", "nx", "lerna", "rush", "act"),
        *("codex", "claude", "gemini", "spindle", "aider", "sam", "serverless", "heroku", "fly", "vercel", "wrangler"),
    )
)
_NEED_TWO_WORDS = frozenset(
    (
        *(("npm", word) for word in ("run", "run-script", "exec", "x", "explore", "config", "set")),
        *(("pnpm", word) for word in ("run", "exec", "dlx", "config")),
        *(("yarn", word) for word in ("run", "exec", "dlx", "node", "config")),
        *(("bun", word) for word in ("run", "x")),
        *(("deno", word) for word in ("run", "eval", "task")),
        *(("go", word) for word in ("run", "tool", "env")),
        *(("git", word) for word in ("config", "submodule", "worktree", "bisect", "stash", "remote", "filter-branch")),
        *(("uv", word) for word in ("run", "tool", "pip")),
        *(("poetry", "run"), ("pdm", "run"), ("hatch", "run"), ("pipx", "run"), ("conda", "run"), ("mamba", "run")),
        *(("bundle", "exec"), ("cargo", "run"), ("mise", "exec"), ("asdf", "exec"), ("direnv", "exec"), ("nix", "run")),
        *(("docker", word) for word in ("run", "exec", "compose", "container", "image", "system", "volume")),
        *(("podman", word) for word in ("run", "exec", "container", "unshare")),
        *(("kubectl", word) for word in ("exec", "run", "delete", "apply", "config")),
        *(("gh", word) for word in ("api", "alias", "extension", "codespace", "ssh-key", "auth")),
        *(("aws", "ssm"), ("gcloud", "compute"), ("brew", "services"), ("corepack", "pnpm"), ("corepack", "yarn")),
        *(("dotnet", word) for word in ("run", "exec", "tool")),
        *(("rustup", "run"), ("nvm", "exec"), ("pyenv", "exec"), ("rbenv", "exec"), ("terraform", "state")),
    )
)
_NAMES = _NEVER | INTERPRETERS | _SHELLS | _NEED_A_WORD | _TRANSPARENT


def offerable_prefix(
    prefix: Sequence[str], parts: Sequence[Sequence[str]], is_program: Callable[[str], bool] = no_word
) -> bool:
    """May this prefix be offered for a command whose `parts` caused the question? A rule made of it must cover them.

    For a program that is not known, only the exact command may be offered. `is_program`: does a word start a program?
    """
    words = list(prefix)
    if not words or not parts or len(words) > MAX_WORDS or sum(map(len, words)) > MAX_CHARACTERS:
        return False
    if not all(word.isprintable() for word in words) or not words[0].strip():
        return False
    if any(list(part[: len(words)]) != words or is_dangerous(part) for part in parts):
        return False
    if means_anything(words) or not all(covers(len(words), part, is_program=is_program) for part in parts):
        return False
    skipped = innermost(words)
    inner = words[skipped:]
    if is_known(inner):
        return all(has_only_harmless_options(list(part)[skipped:]) for part in parts)
    # One word alone would mean whatever may stand behind it; a program among the words is one that it may start.
    is_exact = len(inner) > 1 and all(list(part) == words for part in parts)
    return is_exact and not any(is_program(word) or means_anything([word]) for word in inner[1:] if word != "test")


def means_anything(words: Sequence[str]) -> bool:
    """Would a rule with this prefix allow more or less everything?"""
    words = _behind_wrappers(words)
    if not words:
        return True
    name, rest = _plain_name(words[0]), list(words[1:])
    if not name or name in _NEVER or name in _TRANSPARENT or name.startswith("mkfs"):
        return True
    if is_launcher(name):
        return True
    at = subcommand_at([name, *rest])
    if at is not None and name not in REMOTE:
        # `uv run pytest` means no more than pytest does.
        return at == len(rest) or rest[at].startswith("-") or means_anything(rest[at:])
    if name in _SHELLS or name in INTERPRETERS:
        return _runs_what_follows(name, rest)
    if name in _NEED_A_WORD:
        # An option in front may change what the next word means (`git -c`, `make -f`).
        return not rest or rest[0].startswith("-") or _is_unfinished(name, rest)
    return False


def _runs_what_follows(name: str, rest: list[str]) -> bool:
    """An interpreter without its program. Options that take code or a module need that, too."""
    if name in INTERPRETERS and _is_unfinished(name, rest):
        return True
    at = 0
    while at < len(rest) and rest[at].startswith(("-", "+")):
        if re.fullmatch(r"-[A-Za-z]*[cem]|--eval|--print|-p|-pe|-jar|--command", rest[at]):
            return at + 1 >= len(rest) or not rest[at + 1].strip() or rest[at + 1].startswith("-")
        at += 1
    # An option before the program may name code to be loaded (`node -r x`), so it must stand in front.
    return at != 0 or not rest or not rest[0].strip()


def _is_unfinished(name: str, rest: list[str]) -> bool:
    return bool(rest) and (name, rest[0]) in _NEED_TWO_WORDS and (len(rest) < 2 or rest[1].startswith("-"))


def _behind_wrappers(words: Sequence[str]) -> list[str]:
    """What a harmless wrapper runs; the wrapper itself when that is not clear."""
    left = list(words)
    for _ in range(8):
        name = _plain_name(left[0]) if left else ""
        if name not in _TRANSPARENT:
            return left
        at = 1
        if name == "env":
            while at < len(left) and re.match(r"[A-Za-z_]\w*=", left[at]):
                if names_code(left[at].partition("=")[0]):
                    return left[:1]
                at += 1
        elif name == "timeout":
            at = 2 if len(left) > 1 and re.fullmatch(r"[\d.]+[smhd]?", left[1]) else 1
        elif name == "nice" and left[1:2] == ["-n"]:
            at = 3
        if at < len(left) and left[at].startswith("-"):
            return left[:1]
        left = left[at:]
    return []


def _plain_name(program: str) -> str:
    """`/usr/bin/python3.11` is python; `sqlite3` is itself."""
    name = os.path.basename(program).lower().removesuffix(".exe")
    return name if name in _NAMES else plain_name(re.sub(r"(?<=[a-z])-?\d[\d.]*$", "", name))
