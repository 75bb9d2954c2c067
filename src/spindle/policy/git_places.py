"""What git obeys and runs beside the name `.git` of a folder: where a pointer leads, and what settings and links name.

All of it is protected like `.git` itself. It is asked for with every command, so settings are only taken apart where
they name a path.
"""

from __future__ import annotations

import os

from spindle.policy.git_find import OddRepository, common_dir, links_towards, oddity, pointer

_SETTINGS_LIMIT = 1 << 16
_OBEYED = ("config", "config.worktree", "hooks", "modules", "worktrees")
_MOST_HOOKS = 200


def obeyed(entry: str, root: str) -> list[str]:
    """Paths beside `entry`, the `.git` of the folder `root`, and the links on the way to them.

    The folder itself where programs do not agree about which they are: then nothing in it may be written.
    """
    led_to = _led_to(entry)
    links = [link for path in led_to for link in links_towards(path) if link.startswith(f"{root.rstrip('/')}/")]
    folders = [os.path.realpath(path) for path in led_to]
    if oddity(entry) is not None:
        return [root, *links, *folders]
    repositories = folders if os.path.isfile(entry) else [entry, *folders]
    behind = [path for folder in repositories for path in _behind_links(folder)]
    behind += _named(repositories, root)
    return [*links, *folders, *(path for path in behind if path != root and path.startswith(f"{root.rstrip('/')}/"))]


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


def _behind_links(repository: str) -> list[str]:
    """What lies elsewhere, and is reached by a link in the repository: its settings, its hooks."""
    links = [path for name in _OBEYED if os.path.islink(path := f"{repository}/{name}")]
    try:
        with os.scandir(f"{repository}/hooks") as entries:
            links += [entry.path for entry, _ in zip(entries, range(_MOST_HOOKS), strict=False) if entry.is_symlink()]
    except OSError:
        pass
    return [path for link in links for path in (*list(links_towards(link))[1:], os.path.realpath(link))]


def _named(repositories: list[str], root: str) -> list[str]:
    """What the settings name below the tree: more settings, the folder of hooks, submodules."""
    found: list[str] = []
    for repository in repositories:
        has_submodules = os.path.isdir(f"{repository}/modules")
        files = [f"{repository}/config", f"{repository}/config.worktree"]
        if not has_submodules and not any(b"path" in _beginning(file).lower() for file in files):
            continue
        from spindle.policy import git_config  # few repositories name anything

        for file in files:
            found += git_config.named_paths(file, tree=root)
        if has_submodules:
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
