"""Where programs that we start ourselves are: git for a diff, the clipboard's own, the desktop's opener.

A search path may have entries that mean whatever folder one is in, or lie in a project, and a repository can bring a
`git` of its own along. So a program is looked up by its name in absolute folders outside of the repository that one
works in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from spindle.module_path import project_around


def find_installed(name: str, env: Mapping[str, str] | None = None, *, cwd: str | None = None) -> str | None:
    """The absolute path of the program, or None. `cwd` is the working folder."""
    environ = os.environ if env is None else env
    try:
        here = project_around(os.path.realpath(os.getcwd() if cwd is None else cwd))
    except OSError:
        here = ""  # the folder is gone
    for folder in (environ.get("PATH") or os.defpath).split(os.pathsep):
        path = f"{folder.rstrip('/')}/{name}"
        if not os.path.isabs(folder) or not os.path.isfile(path) or not os.access(path, os.X_OK):
            continue
        if not any(_is_inside(place, here) for place in (folder, os.path.realpath(folder), os.path.realpath(path))):
            return path
    return None


def _is_inside(path: str, folder: str) -> bool:
    # Everything is below the root, and nobody works there.
    return folder not in ("", "/") and (path == folder or path.startswith(f"{folder}/"))
