"""Whether looking at a repository would run a program: git's own settings may name some, under names of their choice.

Cloning brings no settings along, but an unpacked archive does, and so does a repository that lies in the files of
another. No environment switches drivers off whose names are free, hence the files are read; what `safe_environment` can
switch off is left to it. Whatever is unclear counts as a yes; a person is then asked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from spindle.policy.git_config import Entry, Settings, files_of_user
from spindle.policy.git_find import OddRepository, Repository, find, repository_at
from spindle.policy.git_index import submodules_in
from spindle.policy.git_words import folders_of
from spindle.policy.sandbox import absolute

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
            self.at(repository_at(os.path.realpath(absolute(path, repository.tree)), self._env))
        if _is_lazy(settings) and (file := _old_remote(repository)):
            self.found.append(f"what {file} names")

    def _running(self, settings: Settings) -> Iterator[Entry]:
        is_lazy = _is_lazy(settings)
        for entry in settings.entries:
            is_run = entry.key in _RUN.get(entry.section, ())
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


def submodules_of(repository: Repository, env: Mapping[str, str]) -> list[str]:
    """The paths of other repositories that the index has; OddRepository when they cannot be told."""
    folder = repository.git_dir
    shared = [f"{folder}/{name}" for name in os.listdir(folder) if name.startswith("sharedindex.")]
    files = [env.get("GIT_INDEX_FILE") or f"{folder}/index", *shared]
    formats = settings_of(repository, env).values("extensions", "objectformat")
    own = [entry.value for entry in formats if entry.file == f"{repository.common_dir}/config"]  # git asks no other
    has_long_ids = bool(own) and own[-1] != "sha1"
    return [name for file in files for name in submodules_in(file, repository.tree, has_long_ids=has_long_ids)]


def _is_lazy(settings: Settings) -> bool:
    return any(entry.key.startswith(("promisor", "partialclone")) for entry in settings.entries)


def _old_remote(repository: Repository) -> str | None:
    """A file that names a remote as it was done before there were settings for it. Git still reads them."""
    for folder in (f"{repository.common_dir}/{name}" for name in ("remotes", "branches")):
        try:
            names = os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if names:
            return f"{folder}/{min(names)}"
    return None


def _merges_anew(words: Sequence[str]) -> bool:
    return any(word.startswith(("--rem", "--diff-m")) for word in words)
