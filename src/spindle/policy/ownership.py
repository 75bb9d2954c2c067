"""Whose a file is, and where an open one lies: facts of the file system that no name can lie about.

What belongs to another user of the machine says nothing here, as with git: it is ours if we own it, or the system does
(or the person who became root by `sudo`). Two exceptions, both of git's kind: folders that the person lists as git's
`safe.directory`, and folders that were mounted into a container, where the numbers of users are those of the host.
"""

from __future__ import annotations

import os

_SYSTEM = 0
_SETTINGS_BYTES = 1 << 20
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")
_CONTAINER_NAMES = ("container", "KUBERNETES_SERVICE_HOST")


def is_own(uid: int) -> bool:
    """Is the owner ourselves, the system, or the person who became root?"""
    own = os.geteuid()
    return uid in (own, _SYSTEM) or (own == _SYSTEM and str(uid) == os.environ.get("SUDO_UID"))


def foreign_owner(path: str, status: os.stat_result | None = None) -> int | None:
    """The number of the other user that `path`, a real one, belongs to; None when it is ours, or may count as ours.

    `status` is what is known of it already. What is not there belongs to nobody.
    """
    try:
        uid = (os.lstat(path) if status is None else status).st_uid
    except OSError:
        return None
    if is_own(uid) or _is_mounted_into_container(path, uid) or _is_listed_for_git(path):
        return None
    return uid


def foreign_folder(folder: str, *names: str) -> int | None:
    """The same for a folder and for what it holds under `names`."""
    paths = (folder, *(f"{folder.rstrip('/')}/{name}" for name in names))
    return next((uid for path in paths if (uid := foreign_owner(path)) is not None), None)


def place_of(fd: int) -> str | None:
    """The real path of what is open now; None when it has none any more, or that cannot be told."""
    try:
        place = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return _place_by_control(fd)
    return place if place.startswith("/") and not place.endswith(" (deleted)") else None


def _place_by_control(fd: int) -> str | None:
    import fcntl  # not on Linux

    command = getattr(fcntl, "F_GETPATH", None)
    try:
        return None if command is None else os.fsdecode(fcntl.fcntl(fd, command, b"\0" * 1024).rstrip(b"\0"))
    except OSError:
        return None


def _is_mounted_into_container(path: str, uid: int) -> bool:
    """Does it belong to whoever owns the folder that was mounted around it? Only who runs the container can mount."""
    if not any(map(os.path.exists, _CONTAINER_FILES)) and not any(map(os.environ.get, _CONTAINER_NAMES)):
        return False
    from spindle.policy.reach import mount_around  # only in containers, for what belongs to others

    point = mount_around(path)
    try:
        return point not in (None, "/") and os.stat(point).st_uid == uid
    except OSError:
        return False


def _is_listed_for_git(path: str) -> bool:
    """Do the person's own or the system's git settings name a folder around it as `safe.directory`?"""
    home = os.environ.get("HOME") or os.path.expanduser("~")
    more = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    listed: list[str] = []
    for file in ("/etc/gitconfig", f"{more}/git/config", f"{home}/.gitconfig"):
        for value in _safe_directories(file):
            # An empty value takes back what stood before it.
            listed = [*listed, value] if value else []
    folders = [f"{home}{value[1:]}" if value.startswith("~/") else value for value in listed]
    return any(_covers(folder, path) for folder in folders)


def _covers(folder: str, path: str) -> bool:
    if folder == "*":
        return True
    plain = os.path.realpath(folder.removesuffix("/*"))
    return path == plain or path.startswith(f"{plain.rstrip('/')}/")


def _safe_directories(file: str) -> list[str]:
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        text = os.fsdecode(os.read(fd, _SETTINGS_BYTES)) if is_own(os.fstat(fd).st_uid) else ""
    except OSError:
        return []
    finally:
        os.close(fd)
    import re  # only for what belongs to others

    found: list[str] = []
    is_inside = False
    for line in text.splitlines():
        if section := re.match(r"\s*\[\s*([^\]\"\s]*)", line):
            is_inside = section[1].lower() == "safe"
            line = line.partition("]")[2]
        if is_inside and (entry := re.match(r"\s*directory\s*=\s*(.*?)\s*([#;].*)?$", line, re.IGNORECASE)):
            found.append(entry[1].replace('"', ""))
    return found
