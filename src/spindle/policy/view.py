"""`read = "workspace"`: what a command sees of the file system where it may not read everything.

The workspace with its repository, the system's folders, toolchains and their caches, and settings without keys; nothing
else of the home, no other repository, no mounted disk. The result is rules about paths (`permissions.py`), which
commands and file tools obey like those of a permission profile. `toolchains.py` has the tables.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from spindle.policy import git_find, toolchains
from spindle.policy.ownership import foreign_folder
from spindle.policy.permissions import Rule, Rules, denying
from spindle.policy.sandbox import absolute, is_below, is_led_by_link

_SETTINGS_BYTES = 1 << 20
_POINTER_BYTES = 4096
_NAME_SERVERS = "/etc/resolv.conf"
_KEY_NAMES = re.compile(
    rb"(?i)(token|passw|secret|extraheader|authorization|api_?key|access_?key|_auth\b|://[^/\s:@]*:[^/\s@]+@|://[^/\s:@]{16,}@)"
)


class Workspace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a turn works, all of it as real paths."""

    cwd: str
    named: tuple[str, ...]
    """The folders that the person said to work in."""
    roots: tuple[str, ...]
    """What may be written, temporary folders among them."""
    homes: tuple[str, ...]
    """The agent's own folders."""


def workspace_view(given: Rules | None, work: Workspace, env: Mapping[str, str]) -> Rules:
    """The rules of a mode (`given` is None) or a profile, with the view in place of everything.

    A profile that leaves `:root` out says itself what may be read, and keeps its word; so does one that lets all of it
    be written.
    """
    if given is not None and given.access("/") != "read":
        return given
    if given is None:
        rules = [Rule(root, "write") for root in work.roots]
        rules += [Rule(folder, "read") for folder in work.named if not _is_in(folder, work.roots)]
    else:
        rules = [rule for rule in given.rules if (rule.pattern, rule.access) != ("/", "read")]
    home = user_home(env)
    hidden = _hidden(home, work)
    denied = [*(Rule(path, "deny") for path in hidden), *_keys(home, work)]
    around = (*work.roots, *work.named)
    for path in _shown(home, work, env):
        real = os.path.realpath(path)
        is_too_wide = real == "/" or (home and is_below(home, real) and path not in toolchains.SYSTEM)
        if is_too_wide or not os.path.exists(real) or is_led_by_link(path, work.roots):
            continue
        # What lies in the workspace is seen with it, and may be written if that may be.
        if _deepest(real, around) <= _deepest(real, hidden):
            rules += [Rule(path, "read"), Rule(real, "read")]
    closed = () if given is None else given.closed
    return Rules(tuple(dict.fromkeys((*rules, *denied))), closed)


def user_home(env: Mapping[str, str]) -> str:
    """The real path of the person's home; "" when there is none, or when it is the root of all files."""
    home = os.path.realpath(env.get("HOME") or os.path.expanduser("~"))
    return "" if home == "/" or not os.path.isdir(home) else home


def settings_with_keys(home: str) -> list[str]:
    """The settings of tools and shells that stay closed, because they hold what looks like a key."""
    return [path for path in _in_home(home, toolchains.SETTINGS) if os.path.isfile(path) and holds_key(path)]


def holds_key(path: str) -> bool:
    """Is there something in a file that looks like a key, or names one? What cannot be told counts as yes."""
    content = _content(path, _SETTINGS_BYTES + 1)
    if content is None or len(content) > _SETTINGS_BYTES or _KEY_NAMES.search(content):
        return True
    from spindle.policy.secret_shapes import find_shapes  # only for files that passed the first look

    return next(iter(find_shapes(content)), None) is not None


# ---- what is shown ---------------------------------------------------------------------------------


def _shown(home: str, work: Workspace, env: Mapping[str, str]) -> Iterator[str]:
    yield from toolchains.SYSTEM
    if os.path.islink(_NAME_SERVERS):  # often to where a service keeps it
        yield os.path.realpath(_NAME_SERVERS)
    yield from _in_home(home, toolchains.TOOLCHAINS)
    yield from (path for path in _in_home(home, toolchains.SETTINGS) if os.path.isfile(path) and not holds_key(path))
    yield from (sys.prefix, sys.base_prefix)
    yield from (value for name in toolchains.TOOL_VARIABLES if os.path.isabs(value := env.get(name, "")))
    for path in (f"{folder}/{name}" for folder in env.get("GOPATH", "").split(":") for name in ("bin", "pkg")):
        if os.path.isabs(path):
            yield path
    for folder in env.get("PATH", "").split(":"):
        if os.path.isabs(folder):
            yield os.path.normpath(folder)
            if any(os.path.exists(f"{folder}/../{mark}") for mark in ("pyvenv.cfg", "conda-meta")):
                yield os.path.dirname(os.path.normpath(folder))
    for folder in work.homes:
        yield from (f"{folder}/{name}" for name in toolchains.OWN_SHOWN)
    for folder in work.named:
        yield from _repository(folder, home)


def _in_home(home: str, paths: Sequence[str]) -> list[str]:
    return [f"{home}{path[1:]}" for path in paths] if home else []


def _repository(folder: str, home: str) -> Iterator[str]:
    """The tree that a workspace is a part of, and where git keeps it. The home and what contains it is none."""
    try:
        found = git_find.find(folder)
    except git_find.OddRepository:  # git refuses to work there
        return
    if found is None or (tree := found.tree) is None or tree == "/" or (home and is_below(home, tree)):
        return
    if foreign_folder(tree, ".git") is not None:
        return
    yield tree
    pointed, common = os.path.realpath(found.git_dir), os.path.realpath(found.common_dir)
    if pointed == f"{tree}/.git":
        return
    # A file of the tree says where git keeps things. It is believed only if what is there says the same of the tree.
    if common == pointed:
        if _worktree(pointed) == tree:
            yield pointed
    elif os.path.dirname(pointed) == f"{common}/worktrees":
        back = (_content(f"{pointed}/gitdir", _POINTER_BYTES) or b"").removesuffix(b"\n")
        if os.path.realpath(absolute(os.fsdecode(back), pointed)) == f"{tree}/.git":
            yield common


def _worktree(repository: str) -> str | None:
    """What the settings of a submodule's repository name as its tree."""
    found = re.search(rb"(?m)^\s*worktree = ([^\"\\\n]+)$", _content(f"{repository}/config", _SETTINGS_BYTES) or b"")
    return os.path.realpath(absolute(os.fsdecode(found[1]), repository)) if found else None


# ---- what is hidden --------------------------------------------------------------------------------


def _hidden(home: str, work: Workspace) -> list[str]:
    """Homes that would be seen because they lie in a folder that is shown, such as a temporary one."""
    around = (*work.roots, *work.named)
    found = [own for own in work.homes if own != work.cwd and _is_in(own, around) and os.path.isdir(own)]
    # The users that services run as have their home where programs are.
    is_seen = _is_in(home, (*work.roots, *toolchains.SYSTEM)) and os.path.basename(home) not in ("bin", "sbin")
    if home and is_seen and not _is_in(home, work.named):
        found.append(home)
    return found


def _keys(home: str, work: Workspace) -> Iterator[Rule]:
    """What stays closed by every name. Only what is there: nothing has to be kept from being made."""
    paths = _in_home(home, toolchains.KEYS)
    paths += [path for path in _in_home(home, toolchains.PRIVATE) if _is_in(path, (*work.named, *work.roots))]
    paths += settings_with_keys(home)
    paths += [f"{own}/{name}" for own in work.homes for name in toolchains.OWN_KEYS]
    for path in paths:
        if os.path.lexists(path):
            yield Rule(path, "deny")
            yield Rule(os.path.realpath(path), "deny")
    if os.geteuid() == 0:
        yield from (
            denying(pattern) for pattern in toolchains.SYSTEM_KEYS if "*" in pattern or os.path.lexists(pattern)
        )


def _is_in(path: str, folders: Sequence[str]) -> bool:
    return any(is_below(path, folder) for folder in folders)


def _deepest(path: str, folders: Sequence[str]) -> int:
    """The length of the innermost of the folders that `path` lies in; 0 for none."""
    return max((len(folder) for folder in folders if is_below(path, folder)), default=0)


def _content(path: str, most: int) -> bytes | None:
    """The beginning of a regular file; None when there is none, or it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, most) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except OSError:
        return None
    finally:
        os.close(fd)
