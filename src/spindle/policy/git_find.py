"""Where git finds a repository, by git's own rules: what its files say is read as git reads it, to the last blank.

A reader that trims, or stops at the first line, protects one folder while git obeys another. Whatever git itself would
refuse raises `OddRepository`; so does what cannot be read to its end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

import msgspec

from spindle.policy.links import links_towards

_PREFIX = b"gitdir: "
_MOST_POINTER = 1 << 20
"""git's own limit for a `.git` file."""
_MOST_COMMON = 1 << 20
_HEAD_BYTES = 255
_HEX = b"0123456789abcdefABCDEF"
_OF_PROCESSES = "/proc/"
_UNCLEAR = "names a folder with blanks, line ends or control characters, which not every program reads alike"


class OddRepository(ValueError):
    """Git would refuse it, or readers do not agree about what it says. The text is for people."""


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """What git would work with."""

    git_dir: str
    common_dir: str
    """Where settings, hooks and branches are; a worktree shares those of its main repository."""
    tree: str | None
    """The folder whose files it keeps. None for one that is found by its own files: what they say may name any."""
    entry: str
    """What git found it by: the name `.git` in its tree, or the folder itself."""


def find(cwd: str, env: Mapping[str, str] | None = None) -> Repository | None:
    """What git finds from `cwd`, the folder a process is really in; None when there is nothing.

    Where git would stop looking (another file system, a folder the user named, a foreign owner), this goes on.
    """
    env = env or {}
    if given := env.get("GIT_DIR"):
        path = _seen_from(cwd, given)
        same_for_all(path)
        folder = pointer(path) or path
        if not is_repository(folder, env):
            raise OddRepository(f"GIT_DIR names {given}, which is not a repository")
        folder = os.path.realpath(folder)
        tree = _seen_from(cwd, env["GIT_WORK_TREE"]) if env.get("GIT_WORK_TREE") else cwd
        return Repository(git_dir=folder, common_dir=common_dir(folder, env), tree=tree, entry=path)
    folder = os.path.realpath(cwd)
    while True:
        if (found := repository_at(folder, env)) is not None:
            return found
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def repository_at(folder: str, env: Mapping[str, str] | None = None) -> Repository | None:
    """The repository of this very folder: the one that `.git` in it is or points at, or the folder itself."""
    entry = f"{folder.rstrip('/')}/.git"
    if os.path.islink(entry):
        same_for_all(entry)
    pointed = pointer(entry)
    if pointed is not None:
        same_for_all(pointed)
    if is_repository(pointed or entry, env):
        git_dir = entry if pointed is None else os.path.realpath(pointed)
        return Repository(git_dir=git_dir, common_dir=common_dir(git_dir, env), tree=folder, entry=entry)
    if pointed is not None:
        raise OddRepository(f"{entry} points at {pointed}, which is not a repository")
    if is_repository(folder, env):
        return Repository(git_dir=folder, common_dir=common_dir(folder, env), tree=None, entry=folder)
    return None


def pointer(path: str) -> str | None:
    """The folder that a `.git` file points at, as git reads it, whether it is there or not. None when it is no file."""
    content = _content(path, _MOST_POINTER)
    if content is None:
        return None
    if not content.startswith(_PREFIX):
        raise OddRepository(f"{path} is a file that does not begin with `gitdir: `")
    text = content.rstrip(b"\r\n")[len(_PREFIX) :].partition(b"\0")[0]
    if not text:
        raise OddRepository(f"{path} points at nothing")
    return _seen_from(os.path.dirname(path), os.fsdecode(text))


def common_dir(git_dir: str, env: Mapping[str, str] | None = None) -> str:
    """Where settings, hooks and branches are: what the file `commondir` names, or the folder itself."""
    if given := (env or {}).get("GIT_COMMON_DIR"):
        return given
    path = f"{git_dir}/commondir"
    if not os.path.lexists(path):
        return git_dir
    if os.path.islink(path):
        same_for_all(path)
    content = _content(path, _MOST_COMMON)
    if not content:
        raise OddRepository(f"{path} is empty, or no file")
    named = _seen_from(git_dir, os.fsdecode(content.rstrip(b"\r\n").partition(b"\0")[0]))
    same_for_all(named)
    return named


def is_repository(folder: str, env: Mapping[str, str] | None = None) -> bool:
    """What git asks of a folder before it works with it: a head, objects, and references."""
    if not _is_head(f"{folder}/HEAD"):
        return False
    common = common_dir(folder, env)
    objects = (env or {}).get("GIT_OBJECT_DIRECTORY") or f"{common}/objects"
    for path in (objects, f"{common}/refs"):
        if os.path.islink(path):
            same_for_all(path)
    return os.access(objects, os.X_OK) and os.access(f"{common}/refs", os.X_OK)


def same_for_all(path: str) -> None:
    """Raises OddRepository where a path leads every process elsewhere: `/proc/self/cwd` is another folder to git than
    to us, and `/dev/stdin` another file."""
    if is_of_processes(path):
        raise OddRepository(f"{path} leads every process somewhere else")


def is_of_processes(path: str) -> bool:
    """Does the way along an absolute path come through `/proc`, by its own words or by a link?"""
    ways = links_towards(path)
    while True:
        try:
            link = next(ways)
        except StopIteration as end:
            return (end.value or "").startswith(_OF_PROCESSES)
        if link.startswith(_OF_PROCESSES):
            return True


def oddity(entry: str) -> str | None:
    """Why programs may not agree about where `.git` leads; None when they do.

    Git keeps blanks and line ends inside of a pointer, others trim them. A name that differs is another folder.
    """
    try:
        if is_plain(entry) or _is_strangers(entry):
            return None
        same_for_all(entry)
        content = _content(entry, _MOST_POINTER)
        if content is None:
            folder = entry
        elif not content.startswith(_PREFIX.strip()):
            return None  # a pointer to nobody
        elif _is_unclear(content[len(_PREFIX) :]) or not content.startswith(_PREFIX):
            return f"{entry} {_UNCLEAR}"
        else:
            folder = pointer(entry) or entry
            same_for_all(folder)
        common = f"{folder}/commondir"
        if not os.path.lexists(common):
            return None
        content = _content(common, _MOST_COMMON)
    except OddRepository as error:
        return str(error)
    if content is None:
        return f"{common} is not an ordinary file"
    return f"{common} {_UNCLEAR}" if _is_unclear(content) else None


def is_plain(entry: str) -> bool:
    """A folder that shares nothing with another, or nothing at all: what nearly every `.git` is."""
    try:
        if not stat.S_ISDIR(os.lstat(entry).st_mode):
            return False
    except OSError:
        return True
    return not os.path.lexists(f"{entry}/commondir")


def _is_strangers(entry: str) -> bool:
    """Put by somebody else into a folder like /tmp: nobody here can change it, git does not obey it, and whoever
    lays it there must not keep others from working."""
    try:
        status, around = os.lstat(entry), os.stat(os.path.dirname(entry))
    except OSError:
        return False
    return bool(around.st_mode & stat.S_ISVTX) and status.st_uid != os.getuid()


def _is_unclear(text: bytes) -> bool:
    text = text.removesuffix(b"\n").removesuffix(b"\r")
    return not text or text != text.strip() or any(byte < 32 or byte == 127 for byte in text)


def _is_head(path: str) -> bool:
    if os.path.islink(path):
        return os.readlink(path).startswith("refs/")  # how old versions of git wrote it
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return False
    try:
        head = os.read(descriptor, _HEAD_BYTES)
        if head.startswith(b"ref:"):
            return head[4:].lstrip(b" \t\n\r").startswith(b"refs/")
        return len(head) >= 40 and not head[:40].strip(_HEX)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _content(path: str, most: int) -> bytes | None:
    """The bytes of a regular file; None when there is none. A pipe is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise OddRepository(f"{path} cannot be read: {error}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_size > most:
            raise OddRepository(f"{path} is too large")
        return os.read(descriptor, status.st_size)
    finally:
        os.close(descriptor)


def _seen_from(folder: str, path: str) -> str:
    return path if path.startswith("/") else f"{folder}/{path}"
