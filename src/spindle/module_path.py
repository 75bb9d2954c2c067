"""What lies in the repository one works in is no place for our modules, nor for programs that we start ourselves."""

import os
import sys


def leave_working_folder() -> None:
    """Take what means the working folder off the path: a repository must not be able to replace our modules.

    `python -m` puts it first; a relative entry of PYTHONPATH, or none, means it too. The command does the same for
    itself (`scripts/spindle`): it must not even load this module from there.
    """
    if not sys.flags.safe_path:
        del sys.path[0]
    named = os.environ.get("PYTHONPATH")
    if not named:
        return
    try:
        here = os.path.realpath(".")
        words = named.split(os.pathsep)
        relative = {os.path.abspath(entry) for entry in words if not os.path.isabs(entry)}
        given = relative.union(os.path.abspath(entry) for entry in words)
    except OSError:
        return  # the folder is gone
    root, own = project_around(here), os.path.realpath(sys.prefix)
    for entry in given.intersection(sys.path):
        place = os.path.realpath(entry)
        is_around = f"{here}/".startswith(f"{place}/") or (root != "/" and f"{place}/".startswith(f"{root}/"))
        if (is_around or entry in relative) and not place.startswith(f"{own}/"):
            sys.path.remove(entry)


def project_around(here: str) -> str:
    """The repository around a folder, whoever owns it; the folder itself where there is none.

    Who keeps a whole home in a repository keeps their own modules and programs there too.
    """
    root = here
    while root != os.path.dirname(root) and not os.path.lexists(f"{root}/.git"):
        root = os.path.dirname(root)
    return here if root in ("/", os.path.realpath(os.path.expanduser("~"))) else root
