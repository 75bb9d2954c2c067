"""What git obeys and runs beside the name `.git` of a folder: where a pointer leads, and what settings and links name.

All of it is protected like `.git` itself. It is asked for with every command, so settings are only taken apart where
they name a path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from spindle.policy.git_find import OddRepository, common_dir, is_plain, oddity, pointer
from spindle.policy.links import links_towards

_SETTINGS_LIMIT = 1 << 16
_NAMES_PATHS = re.compile(rb"(?i)hookspath|\[\s*include")
_OBEYED = frozenset(("config", "config.worktree", "hooks", "modules", "worktrees"))
_MOST_ENTRIES = 1000


def obeyed(entry: str, root: str) -> list[str]:
    """Paths beside `entry`, the `.git` of the folder `root`, and the links on the way to them.

    The folder itself where programs do not agree about which they are: then nothing in it may be written.
    """
    if is_plain(entry):
        links, folders, repositories = [], [], [entry]
    else:
        led_to = _led_to(entry)
        links = [link for path in led_to for link in links_towards(path) if _is_inside(link, root)]
        folders = [os.path.realpath(path) for path in led_to]
        if oddity(entry) is not None:
            return [root, *links, *folders]
        repositories = folders if os.path.isfile(entry) else [entry, *folders]
    behind: list[str] = []
    for repository in repositories:
        names = _links_by_name(repository)
        behind += _behind_links(repository, names)
        behind += _named(repository, names, root)
    return [*links, *folders, *(path for path in behind if _is_inside(path, root))]


def _is_inside(path: str, root: str) -> bool:
    return path.startswith(f"{root.rstrip('/')}/")


def _led_to(entry: str) -> list[str]:
    """Where a pointer leads, and where that repository keeps what it shares with others."""
    found: list[str] = []
    try:
        if (pointed := pointer(entry)) is not None:
            found.append(pointed)
        folder = pointed or entry
        if (common := common_dir(folder)) != folder:
            found.append(common)
    except (OddRepository, OSError, ValueError):
        pass  # it leads nowhere that git would follow
    return [path for path in found if "\0" not in path]


def _links_by_name(folder: str) -> dict[str, bool]:
    """What lies in a folder, and whether it is a link."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.is_symlink() for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False)}
    except OSError:
        return {}


def _behind_links(repository: str, names: Mapping[str, bool]) -> list[str]:
    """What lies elsewhere, and is reached by a link in the repository: its settings, its hooks."""
    links = [f"{repository}/{name}" for name in _OBEYED if names.get(name)]
    if "hooks" in names:
        folder = f"{repository}/hooks"
        links += [f"{folder}/{name}" for name, is_link in _links_by_name(folder).items() if is_link]
    return [path for link in links for path in (*list(links_towards(link))[1:], os.path.realpath(link))]


def _named(repository: str, names: Mapping[str, bool], root: str) -> list[str]:
    """What the settings name below the tree: more settings, the folder of hooks, submodules."""
    files = [f"{repository}/{name}" for name in ("config", "config.worktree") if name in names]
    naming = [file for file in files if _NAMES_PATHS.search(_beginning(file))]
    if not naming and "modules" not in names:
        return []
    from spindle.policy import git_config  # few repositories name anything

    found = [path for file in naming for path in git_config.named_paths(file, tree=root)]
    if "modules" in names:
        found += git_config.submodule_pointers(repository)
    return [os.path.realpath(path) for path in found]


def _beginning(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _SETTINGS_LIMIT)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
