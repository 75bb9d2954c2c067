"""Whether looking at a repository would run a program: git's own settings may name some, under names of their choice.

Cloning brings no settings along, but an unpacked archive does, and so does a repository that lies in the files of
another. No environment switches drivers off whose names are free, hence the files are read; what `safe_environment` can
switch off is left to it. Whatever is unclear counts as a yes; a person is then asked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence

from spindle.policy.git_config import Entry, Settings, files_of_user
from spindle.policy.git_find import OddRepository, Repository, find, repository_at
from spindle.policy.git_words import folders_of

_RUN = {
    "core": ("alternaterefscommand",),
    "diff": ("command", "external", "submodule", "textconv"),
    "filter": ("clean", "process", "smudge"),
    "include": ("path",),
    "includeif": ("path",),
}
"""What git runs, or obeys in turn, when it only looks."""
_FETCH = {"core": ("askpass", "gitproxy", "sshcommand"), "credential": ("helper",), "remote": ("uploadpack", "vcs")}
"""Looking fetches what is missing from a partial clone. Not every git can be told not to."""
_SUBMODULE_MODE = b"\x00\x00\xe0\x00"
_MODE_AT, _FLAGS_AT, _NAME_AT = 24, 60, 62
_MOST_INDEX = 256 << 20
_MOST_REPOSITORIES = 200


def git_may_run_programs(commands: Sequence[Sequence[str]], cwd: str, env: Mapping[str, str] | None = None) -> bool:
    """Could git start a program that a repository names, in any folder these commands may be in when it looks?"""
    return bool(programs_named(commands, (cwd,), env or {}))


def programs_named(commands: Sequence[Sequence[str]], cwds: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """What it could start, for a person to read. `cwds` are the names of the folder that the commands start in."""
    folders = folders_of(commands, cwds, env)
    if folders is None:
        return ["whatever the folder names that the command goes to"]
    look = _Look(env, merges_anew=any(_merges_anew(words) for words in commands))
    try:
        for folder in folders:
            look.at(find(folder, env))
    except (OSError, ValueError) as error:
        look.found.append(str(error))
    return list(dict.fromkeys(look.found))


class _Look:
    """Goes through repositories and their submodules, and collects what they name."""

    def __init__(self, env: Mapping[str, str], *, merges_anew: bool) -> None:
        self.found: list[str] = []
        self._env = env
        self._merges_anew = merges_anew
        self._seen: set[str] = set()

    def at(self, repository: Repository | None) -> None:
        if repository is None or repository.entry in self._seen:
            return
        self._seen.add(repository.entry)
        if len(self._seen) > _MOST_REPOSITORIES:
            raise OddRepository("there are too many repositories to look through")
        if repository.tree is None:
            self.found.append(f"whatever {repository.git_dir} names: it is a repository among other files")
            return
        settings = settings_of(repository, self._env)
        self.found += [f"{entry.name} = {entry.value} (in {entry.file})" for entry in self._running(settings)]
        submodules = submodules_of(repository, self._env)
        if (submodules or os.path.isdir(repository.entry)) and settings.values("core", "worktree"):
            # The files are elsewhere; those of a submodule always say where they are.
            self.found.append(f"core.worktree (in {repository.common_dir}/config)")
            return
        for path in submodules:
            self.at(repository_at(os.path.realpath(f"{repository.tree}/{path}"), self._env))

    def _running(self, settings: Settings) -> Iterator[Entry]:
        is_lazy = any(entry.key in ("promisor", "partialclone") for entry in settings.entries)
        for entry in settings.entries:
            is_run = entry.key in _RUN.get(entry.section, ()) and (entry.section != "diff" or _is_driver(entry))
            is_fetched_by = entry.key in _FETCH.get(entry.section, ()) or "::" in (entry.value or "") + entry.sub
            is_merged_by = (entry.section, entry.key) == ("merge", "driver") and self._remerges(settings)
            if is_run or (is_lazy and is_fetched_by) or is_merged_by:
                yield entry

    def _remerges(self, settings: Settings) -> bool:
        """Is a merge done anew, to be compared with what was made of it?"""
        if self._merges_anew or settings.values("log", "diffmerges"):
            return True
        return bool(Settings.read(files_of_user(self._env), self._env).values("log", "diffmerges"))


def settings_of(repository: Repository, env: Mapping[str, str]) -> Settings:
    """What the repository's own files say."""
    places = dict.fromkeys((repository.common_dir, repository.git_dir))
    return Settings.read([f"{place}/{name}" for place in places for name in ("config", "config.worktree")], env)


def _is_driver(entry: Entry) -> bool:
    return bool(entry.sub) == (entry.key in ("command", "textconv"))


def _merges_anew(words: Sequence[str]) -> bool:
    return any(word.startswith(("--rem", "--diff-m")) for word in words)


def submodules_of(repository: Repository, env: Mapping[str, str]) -> list[str]:
    """The paths of other repositories that the index has; OddRepository when they cannot be told."""
    folder = repository.git_dir
    found: list[str] = []
    shared = [f"{folder}/{name}" for name in os.listdir(folder) if name.startswith("sharedindex.")]
    for path in [env.get("GIT_INDEX_FILE") or f"{folder}/index", *shared]:
        index = _content(path)
        at = index.find(_SUBMODULE_MODE)
        while at >= 0:
            if index[4:8] not in (b"\0\0\0\2", b"\0\0\0\3") or _has_long_ids(repository, env):
                raise OddRepository(f"{path} is an index of a kind that is not read here")
            entry = at - _MODE_AT
            if entry >= 0:
                start = entry + _NAME_AT + (2 if index[entry + _FLAGS_AT] & 0x40 else 0)
                found.append(os.fsdecode(index[start : index.find(b"\0", start)]))
            at = index.find(_SUBMODULE_MODE, at + 1)
    return [path for path in found if path and len(path) < 4096]


def _has_long_ids(repository: Repository, env: Mapping[str, str]) -> bool:
    return bool(settings_of(repository, env).values("extensions", "objectformat"))


def _content(path: str) -> bytes:
    """The bytes of a regular file; none if there is no file. Raises OSError or ValueError when it cannot be read to its
    end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_INDEX:
            raise OddRepository(f"{path} is not an ordinary file, or it is too large")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(_MOST_INDEX)
    finally:
        os.close(descriptor)
