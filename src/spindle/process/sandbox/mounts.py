"""A boundary as mounts: what a confined program sees of the file system, and what of it it can change.

Everything is there to be read, or what a permission profile names; the writable roots are mounted over it, and over
those, last, what is protected or may not be read, and what a profile opens again inside of that. Where a protected name
does not exist, a placeholder keeps it from being made (`placeholders.py`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache

from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import PROTECTED_NAMES, Boundary, is_below, is_inside
from spindle.process.sandbox.placeholders import Placeholders, is_placeholder

SYSTEM_MOUNTS = (
    *("--dev", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
    *(("--mqueue", "/dev/mqueue") if os.path.exists("/proc/sys/fs/mqueue") else ()),
    *(("--ro-bind", "/dev/null", "/proc/keys") if os.path.exists("/proc/keys") else ()),
)
"""Devices and processes of the sandbox's own. The kernel lets user 0 write its settings, whatever capabilities are
gone; one of them names a program to be run outside. bubblewrap protects the rest of /proc itself, but not this. What
keys the user has is nobody's business. Message queues have to be seen somewhere, or `gate` could not let them be
written."""
_FIRST_PROCESS = "/proc/1"
"""It is the launcher's: whoever could write its memory could make it forget to die with us."""
_EMPTY = ("--size", "4096", "--perms", "0555", "--tmpfs")
"""Half the price of a bind. Whoever makes it writable writes into memory that vanishes with the command."""
_UNREADABLE_FOLDER = ("--size", "4096", "--perms", "0000", "--tmpfs")
_PASSABLE_FOLDER = ("--size", "65536", "--perms", "0111", "--tmpfs")
"""Not to be listed, but with something inside that may be reached by its name."""
_MOST_DENIED = 500
_MOST_SEARCHED = 2000


def system_mounts(*, has_tmpfs_options: bool) -> tuple[str, ...]:
    if has_tmpfs_options:
        return (*SYSTEM_MOUNTS, *_EMPTY, _FIRST_PROCESS)
    return (*SYSTEM_MOUNTS, "--tmpfs", _FIRST_PROCESS, "--remount-ro", _FIRST_PROCESS)


class Mounts:
    """The mounts of one command. `held` are placeholders to be given back, `files` descriptors the plan refers to."""

    def __init__(
        self, boundary: Boundary, placeholders: Placeholders, *, launcher: str, has_tmpfs_options: bool
    ) -> None:
        # The order of mounts is the order of precedence: whatever is mounted later covers what was there. The view, the
        # system's own folders, the roots, and what is closed inside of them, each from the outside to the inside.
        self._boundary = boundary
        self._has_tmpfs_options = has_tmpfs_options
        self.files: list[int] = []
        self.roots = roots = [path for path in boundary.roots if _can_be_root(path, boundary)]
        _require_entrance(roots)
        _require_view(boundary)
        hidden = [path for path in boundary.fence.hidden if os.path.isdir(path)]
        shown = [path for path in boundary.fence.shown if is_inside(path, hidden) and os.path.exists(path)]
        protected = [path for path in _protected(boundary, roots, launcher) if not boundary.is_hidden(path)]
        denied, absent = _denied(boundary, roots)
        self._again = _opened_again(boundary, [*protected, *denied])
        # A placeholder goes where the first missing folder would be made.
        wanted = dict.fromkeys(_first_missing(path, roots) for path in (*protected, *absent))
        self.held = placeholders.hold(wanted)
        # A placeholder holds nothing that could have another name.
        protected += _other_names(protected, [path for path in protected if path not in self.held], roots)
        closed = {os.path.dirname(path) for path in wanted if path not in self.held and _could_be_made(path)}
        self.plan = ["--ro-bind", "/", "/"] if _shows_everything(boundary) else []
        if "/" in roots:  # a root of "/" must not uncover the host's devices
            self.plan += ["--bind", "/", "/", "--ro-bind", "/sys", "/sys"]
        self.plan += system_mounts(has_tmpfs_options=has_tmpfs_options)
        for path in _shown(boundary):
            self.plan += ("--ro-bind", path, path)
        # A root inside another would be covered by it if it came first.
        on_the_way = {*closed, *_on_the_way(roots, [*protected, *denied, *hidden])}
        seen = {*roots, *shown, *(path for path in on_the_way if not boundary.is_hidden(path))} - {"/"}
        for path in sorted({*seen, *hidden}, key=_components):
            if path in seen:
                self.plan += ("--ro-bind" if path in closed or path in shown else "--bind", path, path)
            else:
                self.plan += (*_PASSABLE_FOLDER, path) if has_tmpfs_options else ("--tmpfs", path)
        self._close(sorted({*protected, *wanted, *denied, *self._again}, key=_components), denied)
        if not _shows_everything(boundary):
            # Else the folders on the way to what is shown could be filled, with what nobody ever sees again.
            self.plan += ("--remount-ro", "/")

    def _close(self, paths: Iterable[str], denied: Collection[str]) -> None:
        """What is protected, hidden, and opened again: outer ones first, so that the inner ones have the last word."""
        hidden_or_opened: list[str] = []
        for path in paths:
            around = None
            if hidden_or_opened:  # in most plans nothing is
                around = next((outer for outer in reversed(hidden_or_opened) if is_below(path, outer)), None)
            if path in self._again:
                hidden_or_opened.append(path)
                self.plan += (self._again[path], path, path)
            elif around in denied:
                continue  # it cannot be seen, and a mount would show it
            elif path not in denied:
                self._protect(path)
            elif _is_reachable(path, self.roots) and _is_shown(path, self._boundary):
                hidden_or_opened.append(path)
                self._hide(path)

    def _protect(self, path: str) -> None:
        if path in self.held and self._has_tmpfs_options:
            self.plan += (*_EMPTY, path)
        elif os.path.lexists(path):
            self.plan += ("--ro-bind", path, path)

    def _hide(self, path: str) -> None:
        if os.path.isdir(path):
            folder = _PASSABLE_FOLDER if any(is_below(inner, path) for inner in self._again) else _UNREADABLE_FOLDER
            self.plan += (*folder, path) if self._has_tmpfs_options else ("--tmpfs", path)
        elif self._has_tmpfs_options:
            fd = os.memfd_create("denied", os.MFD_CLOEXEC)
            self.files.append(fd)
            self.plan += ("--perms", "0000", "--ro-bind-data", str(fd), path)
        else:
            self.plan += ("--ro-bind", "/dev/null", path)


def _protected(boundary: Boundary, roots: Sequence[str], launcher: str) -> list[str]:
    """What to mount read-only over the roots, each path once. Paths outside every root are read-only anyway."""
    paths = {path: None for path in boundary.protected() if path not in boundary.homes or not _is_missing(path)}
    if not any(is_below(_real(launcher), path) for path in paths):
        paths.update(dict.fromkeys(_around_launcher(roots, launcher)))
    found: dict[str, None] = {}
    # A link can only be covered where it leads; the link itself could be replaced, and with it what is protected.
    for path in paths:
        if not is_inside(path, roots):
            continue
        link = _link_on_the_way(path, roots)
        if link is None:
            found[path] = None
        elif _could_be_replaced(link):
            raise SandboxUnavailable(
                f"{link} is a symbolic link, which a sandbox cannot keep from being replaced, so nothing was run; "
                + _instead_of_link(path, boundary)
            )
    return sorted(found)


def _other_names(protected: Collection[str], existing: Iterable[str], roots: Sequence[str]) -> list[str]:
    """Further names, below the roots, of protected files that exist: made before, since a command cannot make any.

    Looked for in the first folders only: whoever keeps backups as hard links has such files, with names elsewhere.
    """
    left = {file: names for path in existing for file, names in _with_names_elsewhere(path)}
    found: list[str] = []
    folders = 0
    for root in roots if left else ():
        for folder, below, files in os.walk(root):
            below[:] = [name for name in below if f"{folder}/{name}" not in protected]
            for path in (f"{folder}/{name}" for name in files):
                if (file := _identity(path)) in left and path not in protected and path not in found:
                    found.append(path)
                    left[file] -= 1
            folders += 1
            if folders == _MOST_SEARCHED or not any(names > 0 for names in left.values()):
                return found
    return found


def _identity(path: str) -> tuple[int, int]:
    try:
        status = os.lstat(path)
    except OSError:
        return (0, 0)  # it went away meanwhile
    return (status.st_dev, status.st_ino)


def _with_names_elsewhere(path: str) -> Iterator[tuple[tuple[int, int], int]]:
    """What is run or obeyed later, as device and inode, and how many names it has beside the protected one."""
    statuses: list[os.stat_result] = []
    try:
        try:
            _add_files(path, statuses)
        except NotADirectoryError:
            statuses.append(os.lstat(path))
    except OSError:
        pass  # it cannot be seen, or is not there
    for status in statuses:
        if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
            yield (status.st_dev, status.st_ino), status.st_nlink - 1


def _add_files(folder: str, statuses: list[os.stat_result]) -> None:
    """Look at the files of a protected folder, of its hooks and of its rules. For most commands there are none."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                statuses.append(entry.stat(follow_symlinks=False))
            elif entry.name in ("hooks", "rules") and entry.is_dir(follow_symlinks=False):
                _add_files(entry.path, statuses)


def _link_on_the_way(path: str, roots: Sequence[str]) -> str | None:
    """The first link between a root and a path below it, or the path itself if it is one."""
    links: list[str] = []
    while path not in roots and is_inside(path, roots):
        if os.path.islink(path):
            links.append(path)
        path = os.path.dirname(path)
    return links[-1] if links else None


def _could_be_replaced(link: str) -> bool:
    """Not in a folder like /tmp, where others' files cannot be removed: there anybody could keep us from working."""
    folder, status = os.stat(os.path.dirname(link)), os.lstat(link)
    return not folder.st_mode & stat.S_ISVTX or os.getuid() in (folder.st_uid, status.st_uid)


def _instead_of_link(path: str, boundary: Boundary) -> str:
    if boundary.rules is not None and path in boundary.rules.plain("read"):
        return "name what it leads to in the permission profile"
    if os.path.basename(path) in PROTECTED_NAMES:
        return "put the folder itself there, or use the read-only mode"
    return "put what it leads to there, or leave it out of `protected` under [spindle.sandbox]"


def _denied(boundary: Boundary, roots: Sequence[str]) -> tuple[list[str], list[str]]:
    """What exists and may not be read, without what is inside of it; and what a command must not make first."""
    if not boundary.denied:
        return [], []
    from spindle.policy import deny  # only for those who deny something

    found: list[str] = []
    matched = deny.find_denied(boundary.denied)
    profile = boundary.policy.permissions
    worked_in = (boundary.cwd, *(profile.workspace_roots if profile is not None else ()))
    # Where everything can be written, a look at all of it would never end.
    folders = tuple(dict.fromkeys((*map(os.path.realpath, worked_in), *(root for root in roots if root != "/"))))
    again = _named(boundary)
    for folder in again:
        if deny.is_denied(folder, boundary.denied):
            inner = [pattern for pattern in boundary.denied if _may_match_inside(pattern, folder)]
            matched += deny.find_below(folder, inner) if inner else []
    for path in sorted({*matched, *deny.other_names(matched, folders)}, key=_components):
        outer = found[-1] if found else ""
        if not is_below(path, outer) or any(is_below(path, inner) and is_below(inner, outer) for inner in again):
            found.append(path)
    if len(found) > _MOST_DENIED:
        raise SandboxUnavailable(
            f"deny_read matches {len(found)} files, more than the {_MOST_DENIED} a sandbox can hide, so nothing was "
            "run; deny the folders they are in"
        )
    absent = [path for path in deny.absent(boundary.denied) if any(is_below(path, root) for root in roots)]
    return found, absent


def _may_match_inside(pattern: str, folder: str) -> bool:
    from spindle.policy.deny import only_path  # only for those who deny something

    path = only_path(pattern)
    return path is None or is_inside(path, (folder,))


def _opened_again(boundary: Boundary, closed: Sequence[str]) -> dict[str, str]:
    """What a profile names inside of something that is protected or hidden, and how to mount it there."""
    if boundary.rules is None or boundary.is_let_out:
        return {}
    writable = boundary.rules.plain("write")
    inside = [path for path in _named(boundary) if any(is_below(path, other) and path != other for other in closed)]
    return {path: "--bind" if path in writable else "--ro-bind" for path in inside if os.path.exists(path)}


def _named(boundary: Boundary) -> list[str]:
    """What a profile grants by name; real paths, which exist under no other."""
    rules = boundary.rules
    paths = (*rules.plain("read"), *rules.plain("write")) if rules is not None else ()
    return [path for path in paths if path != "/" and os.path.realpath(path) == path]


def _shows_everything(boundary: Boundary) -> bool:
    return boundary.rules is None or boundary.rules.shows_everything


def _shown(boundary: Boundary) -> list[str]:
    """What to show where not everything is, without what is inside of it."""
    if boundary.rules is None or boundary.rules.shows_everything:
        return []
    found: list[str] = []
    for path in sorted({*boundary.rules.plain("read"), *boundary.rules.plain("write")}, key=_components):
        if os.path.exists(path) and not any(is_below(path, outer) for outer in found):
            found.append(path)
    return found


def _is_shown(path: str, boundary: Boundary) -> bool:
    return _shows_everything(boundary) or any(is_below(path, outer) for outer in _shown(boundary))


def _can_be_root(path: str, boundary: Boundary) -> bool:
    """A folder; a profile may also let a single file be written."""
    return os.path.isdir(path) or (boundary.rules is not None and os.path.isfile(path))


def _require_view(boundary: Boundary) -> None:
    if boundary.rules is not None and not boundary.may_read(boundary.cwd):
        raise SandboxUnavailable(
            f"the permission profile does not let the working folder {boundary.cwd} be read, so nothing was run; "
            'name it under `filesystem`, for example by `":workspace_roots" = "read"`'
        )


def _components(path: str) -> list[str]:
    """The order in which a folder comes right before what is inside of it."""
    return path.split("/")


def _first_missing(path: str, roots: Sequence[str]) -> str:
    """`path`, or the topmost folder on the way to it that does not exist; a placeholder does not count."""
    while (parent := os.path.dirname(path)) not in roots and (not os.path.lexists(parent) or is_placeholder(parent)):
        path = parent
    return path


def _require_entrance(roots: Sequence[str]) -> None:
    """A command may close its own folder, and a later one may open it again. What is protected there could not be seen
    in between."""
    for root in roots:
        if not os.access(root, os.X_OK) and os.stat(root).st_uid == os.getuid():
            raise SandboxUnavailable(
                f"the mode of the writable folder {root} lets nobody enter it, so nobody knows what is protected "
                "there, and nothing was run; make it accessible again (chmod u+rwx)"
            )


def _could_be_made(path: str) -> bool:
    """No placeholder is there, but a command could make something: the folder is ours, so its mode can be changed.
    It is then mounted read-only."""
    return not os.path.lexists(path) and os.lstat(os.path.dirname(path)).st_uid == os.getuid()


def _is_missing(path: str) -> bool:
    try:
        return not stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # it cannot be seen now
        return False


def _on_the_way(roots: Sequence[str], protected: Sequence[str]) -> set[str]:
    """The folders between a root and what is protected below it.

    Mounted on themselves they stay writable but cannot be renamed; otherwise what is protected could be moved away
    with its parent, and something else be put in its place.
    """
    found: set[str] = set()
    for path in protected:
        parent = os.path.dirname(path)
        while is_inside(parent, roots):
            found.add(parent)
            parent = os.path.dirname(parent)
    return {
        folder for folder in found if os.path.isdir(folder) and not any(is_below(folder, path) for path in protected)
    }


def _around_launcher(roots: Sequence[str], launcher: str) -> list[str]:
    """A launcher inside a root (a project's own venv) could be replaced, and would be no fence for the next command.

    The entry directly below the root is protected: only a mount point cannot be renamed away.
    """
    program = _real(launcher)
    return [
        f"{root}/{program[len(root) + 1 :].split('/', 1)[0]}"
        for root in roots
        if root != "/" and is_below(program, root)
    ]


@cache
def _real(path: str) -> str:
    """Where a path leads, looked up once: for what does not move."""
    return os.path.realpath(path)


def _is_reachable(path: str, roots: Sequence[str]) -> bool:
    """Could a program without capabilities get there? Where it cannot, there is nothing to hide, and no way to.
    What it may write it may also open for itself."""
    folder = os.path.dirname(path)
    while True:
        try:
            status = os.stat(folder)
        except OSError:
            return False
        if status.st_uid == os.getuid():
            bit = stat.S_IXUSR
        elif status.st_gid == os.getgid() or status.st_gid in os.getgroups():
            bit = stat.S_IXGRP
        else:
            bit = stat.S_IXOTH
        may_open = status.st_uid == os.getuid() and any(is_below(folder, root) for root in roots)
        if not status.st_mode & bit and not may_open:
            return False
        if folder == "/":
            return True
        folder = os.path.dirname(folder)
