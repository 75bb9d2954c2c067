"""What git knows about a folder, read from its files. No program is run, so no hook or setting of a repository acts."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from spindle.policy import git_find
from spindle.policy.ownership import foreign_folder
from spindle.workspace.files import read_regular

_SMALL_FILE_BYTES = 1 << 16
_PACKED_REFS_BYTES = 32 << 20
_MAX_REF_HOPS = 5


class GitFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Where a working tree stands. A field is None when it cannot be told."""

    root: str
    branch: str | None = None
    """None on a detached head."""
    commit_hash: str | None = None
    """None before the first commit."""
    repository_url: str | None = None
    """The address of `origin`, without any credentials it held."""

    def to_wire(self) -> dict[str, str]:
        """The `git` object of a recorded thread: only what is known."""
        known = {"commit_hash": self.commit_hash, "branch": self.branch, "repository_url": self.repository_url}
        return {key: value for key, value in known.items() if value is not None}


def find_root(cwd: str, markers: Sequence[str] = (".git",)) -> str | None:
    """The nearest folder at or above the real path of `cwd` that holds one of `markers` (a file or a folder).

    Whatever it is: where a project begins is for its owner to mark. `find_repository` tells whether git works there.
    A mark of another user's begins nothing, as for git: None.
    """
    folder = os.path.realpath(cwd)
    names = [marker for marker in markers if marker and "/" not in marker and "\0" not in marker]
    while names:
        if marks := [name for name in names if os.path.lexists(f"{folder}/{name}")]:
            return folder if foreign_folder(folder, *marks) is None else None
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return None


def find_repository(cwd: str) -> str | None:
    """The root of the working tree that git would find from `cwd`; None when no repository is around it.

    A folder that is merely named `.git` does not count. Where git would refuse to go on (a pointer file that leads
    nowhere), there is none. Nor where a folder of files looks like a repository itself: it has no tree.
    """
    found = _find(cwd)
    return found.tree if found is not None else None


def _find(cwd: str) -> git_find.Repository | None:
    try:
        return git_find.find(cwd)
    except git_find.OddRepository:
        return None


def git_facts(cwd: str) -> GitFacts | None:
    """Branch, commit and origin of the repository around `cwd`; None outside of one."""
    found = _find(cwd)
    if found is None or found.tree is None:
        return None
    git_dir, common_dir = found.git_dir, found.common_dir
    head = _first_line(f"{git_dir}/HEAD")
    if head is None:
        return None
    branch: str | None = None
    if head.startswith("ref: refs/heads/"):
        branch = _clean_name(head.removeprefix("ref: refs/heads/"))
    return GitFacts(
        root=found.tree,
        branch=branch,
        commit_hash=_resolve(head, git_dir, common_dir),
        repository_url=_origin_url(f"{common_dir}/config"),
    )


def strip_credentials(url: str) -> str:
    """`url` without user, password and query where those may be secrets. `git@host:path` stays as it is."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    web = scheme.lower() in ("http", "https")
    authority, slash, path = rest.partition("/")
    user_info, at, host = authority.rpartition("@")
    if web:
        path = path.partition("?")[0].partition("#")[0]
        return f"{scheme}://{host}{slash}{path}"
    user = user_info.partition(":")[0]
    return f"{scheme}://{user}{at if user else ''}{host}{slash}{path}"


def _resolve(value: str, git_dir: str, common_dir: str) -> str | None:
    for _ in range(_MAX_REF_HOPS):
        if not value.startswith("ref: "):
            return value if _is_hash(value) else None
        ref = value.removeprefix("ref: ")
        if not ref.startswith("refs/") or ".." in ref or _clean_name(ref) is None:
            return None
        found = _first_line(f"{git_dir}/{ref}") or _first_line(f"{common_dir}/{ref}") or _packed(common_dir, ref)
        if found is None:
            return None
        value = found
    return None


def _packed(common_dir: str, ref: str) -> str | None:
    try:
        content = b"\n" + read_regular(f"{common_dir}/packed-refs", _PACKED_REFS_BYTES)
    except OSError:
        return None
    end = content.find(b" " + os.fsencode(ref) + b"\n")
    return content[content.rfind(b"\n", 0, end) + 1 : end].decode("ascii", "replace") if end > 0 else None


def _origin_url(config_path: str) -> str | None:
    """`remote.origin.url`; the last one wins, as in git. Included files are not followed."""
    try:
        content = read_regular(config_path, _SMALL_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    in_origin = False
    url: str | None = None
    for raw in content.splitlines():
        line = raw.strip()
        if line.startswith("["):
            section = line.partition("]")[0][1:].strip()
            name, _, subsection = section.partition(" ")
            in_origin = name.lower() == "remote" and subsection.strip() == '"origin"'
        elif in_origin:
            key, equals, value = line.partition("=")
            if equals and key.strip().lower() == "url":
                url = value.strip().strip('"')
    return strip_credentials(url) if url and url.isprintable() else None


def _first_line(path: str) -> str | None:
    try:
        content = read_regular(path, _SMALL_FILE_BYTES)
    except (OSError, ValueError):
        return None
    return content.partition(b"\n")[0].decode("utf-8", "replace").strip()


def _clean_name(name: str) -> str | None:
    return name if name and name.isprintable() else None


def _is_hash(value: str) -> bool:
    return len(value) in (40, 64) and all(char in "0123456789abcdef" for char in value)
