"""What git would run that the agent could have written, or have named: its hooks, drivers, filters, helpers, editors.

A rule or a yes for a git command means git as the person has set it up. It lets git out of the sandbox only where
nothing that git could run is named by something the agent may write: a repository that it made, settings that are
included from the tree, a script that a hook starts, another repository that is pushed to. In doubt git stays inside.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from spindle.policy import git_words
from spindle.policy.git_config import Entry, Settings, entries_of_environment, expanded, files_of_user
from spindle.policy.git_drivers import settings_of, submodules_of
from spindle.policy.git_find import OddRepository, Repository, find, is_repository, repository_at
from spindle.policy.git_words import GitLine, folders_of, named_program, runs
from spindle.policy.reach import Reach, find_program
from spindle.policy.reach_programs import FETCHERS, PROJECT_RUNNERS
from spindle.policy.sandbox import absolute
from spindle.policy.within import commands_within
from spindle.policy.words import plain_parts

CALL_GIT = frozenset(("gh", "glab", "hub", "tig", "lazygit", "gitui", "git-lfs", "jj", "stg", "tea"))
"""Programs that work by starting git in the folder they are in."""
ANY = "*"
_MOVES = re.compile(r"-C|-D|--chdir|--directory|--cwd|(GIT_|HOME|XDG_|PATH|EDITOR|VISUAL|PAGER|SSH_)\w*=")
"""Words of a command around git that take it to another folder, or to other settings."""
_ONLY_OF = {
    **{name: (name,) for name in ("difftool", "mergetool", "instaweb", "submodule")},
    **dict.fromkeys(("browser", "web", "man"), ("help", "web--browse", "instaweb")),
    "sendemail": ("send-email",),
    "imap": ("imap-send",),
    "tar": ("archive",),
    "sequence": ("rebase",),
    "gui": ("gui", "citool"),
    "guitool": ("gui",),
    "init": ("init", "clone", "submodule", "worktree"),
    "interactive": ("add", "checkout", "reset", "restore", "stash", "commit"),
}
"""Sections whose settings only these commands look at."""
_NO_PROGRAMS = frozenset(("include", "includeif", "protocol", "url", "alias"))
_PROGRAM_VARIABLES = (
    *(
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_EDITOR",
        "GIT_SEQUENCE_EDITOR",
        "GIT_PAGER",
        "GIT_EXTERNAL_DIFF",
        "GIT_ASKPASS",
    ),
    *("GIT_PROXY_COMMAND", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "SSH_ASKPASS", "VISUAL", "EDITOR", "PAGER", "BROWSER"),
)
_STARTED = frozenset(
    (
        *("gpg", "gpg2", "gpgsm", "ssh", "ssh-keygen", "ssh-agent", "sh", "bash", "perl", "less", "more", "vi"),
        *(
            "vim",
            "nvim",
            "nano",
            "emacs",
            "editor",
            "sensible-editor",
            "sensible-pager",
            "pager",
            "tar",
            "gzip",
            "curl",
        ),
    )
)
"""What git starts by its bare name."""
_HOOKS_OF_READING = frozenset(("post-index-change", "fsmonitor-watchman", "query-watchman"))
_WORD = re.compile(r"[\s;|&()<>'\"`{}=,!]+")
_STARTS = re.compile(r"(?:^|[;&|(`]|\b(?:then|do|else|exec|if|while|until|time|env|command)\s)\s*([\w./+-]+)", re.M)
_STARTS_QUOTED = re.compile(r"[\[(]\s*[\"']([\w./+-]+)(?=[\"'\s])")
"""The same in a language that quotes its words: `run(["make", "lint"])`."""
_REMARK = re.compile(r"^\s*#.*$", re.M)
_HOOK_BYTES = 1 << 16
_MOST_AROUND = 20
_MOST_HOOKS = 100
_MOST_REPOSITORIES = 100
_MOST_FOLDERS = 50_000


def is_git(words: Sequence[str]) -> bool:
    name = os.path.basename(words[0]) if words else ""
    return name == "git" or name.startswith("git-") or name in CALL_GIT


def git_in_reach(
    parts: Sequence[Sequence[str]], cwds: Sequence[str], env: Mapping[str, str], reach: Reach, *, given: int = 0
) -> list[str]:
    """What git would run by the last of these parts that the agent could have written or named, for a person to read.

    `parts` are those of a line up to that one, `cwds` the names of the folder that it starts in. The first `given`
    words of the last part were written by a person. Empty where git may run outside, or nothing is git.
    """
    within = commands_within(parts[-1])
    gits = [words for words in within or () if is_git(words)]
    if not reach.is_fenced or (within is not None and not gits):
        return []
    folders = folders_of(parts[:-1], cwds, env)
    around = [word for words in within or () if not is_git(words) for word in words]
    if within is None or folders is None or any(_MOVES.match(word) for word in around):
        return ["whatever the folder names that the command goes to"]
    changed = [parse(words) for words in parts[:-1] if is_git(words)]
    try:
        look = _Look(reach, env, cwds[0])
        for words in gits:
            line = parse(words)
            if (word := named_program(line, given if words == list(parts[-1]) else 0)) is not None:
                look.add(f"{word}, which the command itself names")
            for folder in folders:
                look.command(line, folder, changed=changed)
        look.everywhere()
    except (OSError, ValueError) as error:
        return [str(error)]
    return list(look.found)


def parse(words: Sequence[str]) -> GitLine:
    """A git command, taken apart. What other programs make of git could be any command."""
    return git_words.parse(words) if os.path.basename(words[0]) not in CALL_GIT else GitLine(command=ANY)


def programs_shown(commands: Sequence[Sequence[str]], cwds: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """What the repositories of these git commands name, in reach or not: for a question about running it outside."""
    found: dict[str, None] = {}
    folders = folders_of(commands, cwds, env)
    for words in commands:
        if not is_git(words) or folders is None:
            continue
        line = parse(words)
        for folder in folders:
            try:
                repository = find(line.folder(folder), line.environment(env))
                if repository is None:
                    continue
                settings = settings_of(repository, env)
                for entry in settings.entries:
                    if runs(entry) and _concerns(entry, line) and entry.section not in ("alias", "protocol", "url"):
                        found[f"{entry.name} = {entry.value}"] = None
                for path in _hooks(repository, settings.entries, env, line):
                    found[path] = None
            except (OSError, ValueError) as error:
                found[str(error)] = None
    return list(found)


class _Look:
    """Goes through all that git would obey, and collects what is in reach."""

    def __init__(self, reach: Reach, env: Mapping[str, str], cwd: str) -> None:
        self._cwd = self._place = cwd
        self.found: dict[str, None] = {}
        self._reach = reach
        self._env = env
        self._seen: set[tuple[str, str]] = set()
        self._of_user = Settings.read(files_of_user(env), env)

    def add(self, what: str) -> None:
        self.found[what] = None

    def everywhere(self) -> None:
        """What counts in every repository: the user's settings and variables, and the search path."""
        self._files(self._of_user)
        for folder in dict.fromkeys(self._env.get("PATH", os.defpath).split(os.pathsep)):
            if folder.startswith("/") and not self._reach.holds(folder):
                continue
            place = absolute(folder, self._cwd)
            for name in _names_in(place):
                if (name in _STARTED or name.startswith("git-")) and self._is_first(f"{place}/{name}"):
                    self.add(f"{place}/{name}")

    def _is_first(self, path: str) -> bool:
        return path == find_program(os.path.basename(path), cwd=self._cwd, path=self._env.get("PATH", os.defpath))

    def command(self, line: GitLine, folder: str, *, changed: Sequence[GitLine]) -> None:
        """One git command in one folder, behind others that may have changed what git finds there."""
        place = self._place = line.folder(folder)
        env = line.environment(self._env)
        try:
            repository = find(place, env)
        except OddRepository as error:
            self.add(str(error))
            return
        given = [*line.entries, *entries_of_environment(env)]
        top = place if repository is None else repository.tree or repository.git_dir
        for name in _PROGRAM_VARIABLES:
            if value := env.get(name):
                self._program(f"${name}", value, top)
        for entry in (*self._of_user.entries, *given):
            self._entry(entry, line, top)
        if repository is not None:
            self._repository(repository, line, given)
            self._later(repository, place, changed)
        if line.command in git_words.PUSHING:
            for word in line.rest:
                self._other(word.partition("=")[2] if word.startswith("-") else word, place, must_exist=True)

    def _repository(self, repository: Repository, line: GitLine, given: Sequence[Entry] = ()) -> None:
        key = (repository.entry, line.command)
        if key in self._seen:
            return
        self._seen.add(key)
        if len(self._seen) > _MOST_REPOSITORIES:
            raise OddRepository("there are too many repositories to look through")
        folders = dict.fromkeys((repository.entry, repository.git_dir, repository.common_dir))
        inside = [f"{repository.common_dir}/{name}" for name in ("config", "hooks")]
        inside += [f"{repository.git_dir}/{name}" for name in ("config.worktree", "index", "modules")]
        if path := next((path for path in (*folders, *inside) if self._reach.holds(path)), None):
            self.add(f"what {path} names")
            return
        settings = settings_of(repository, self._env)
        self._files(settings)
        top = repository.tree or repository.git_dir
        for entry in settings.entries:
            self._entry(entry, line, top)
            if line.command in git_words.PUSHING:
                self._remote(entry, top)
        for path in _hooks(repository, (*self._of_user.entries, *settings.entries, *given), self._env, line):
            self._hook(path, top)
        tree = repository.tree or ""
        for path in submodules_of(repository, self._env) if tree else ():
            inner = repository_at(os.path.realpath(absolute(path, tree)), self._env)
            if inner is not None:
                self._repository(inner, line)

    def _later(self, repository: Repository, place: str, changed: Sequence[GitLine]) -> None:
        """What an earlier command of the same line could make of the folder before git looks at it."""
        changing = [one for one in changed if one.command in git_words.CHANGE_INDEX]
        if not changing or repository.tree is None:
            return
        if os.path.realpath(place) != repository.tree and any(one.command not in _ADDING for one in changing):
            self.add(f"what `git {changing[0].command}` may put into {place}")
        waiting, left = [repository.tree], _MOST_FOLDERS
        while waiting:
            folder = waiting.pop()
            left -= 1
            if left < 0:
                raise OddRepository(f"{repository.tree} has too many folders to look for repositories in them")
            try:
                with os.scandir(folder) as entries:
                    names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
            except OSError:
                continue
            if ".git" in names and folder != repository.tree and self._reach.holds(f"{folder}/.git"):
                self.add(f"what {folder}/.git names")
                return
            waiting += [f"{folder}/{name}" for name, is_folder in names.items() if is_folder and name != ".git"]

    # ---- settings ----------------------------------------------------------------------------------

    def _files(self, settings: Settings) -> None:
        for file in settings.files:
            if self._reach.holds(file):
                self.add(f"what {file} names")

    def _entry(self, entry: Entry, line: GitLine, top: str) -> None:
        value = entry.value or ""
        address = entry.sub if entry.section == "url" else value
        if entry.section in ("remote", "url", "branch") and "ext::" in address:
            self._program(entry.name, address.partition("ext::")[2], top)
        elif entry.section == "alias":
            if value.startswith("!") and entry.key == line.command.lower():
                self._program(entry.name, value[1:], top)
        elif value and runs(entry) and _concerns(entry, line) and entry.section not in _NO_PROGRAMS:
            if entry.key == "templatedir":
                path = expanded(value, top, self._env)
                if self._reach.holds(path):
                    self.add(f"{entry.name} = {value}")
            elif entry.key not in ("hookspath", "worktree") and not (entry.section == "submodule" and value[0] != "!"):
                self._program(entry.name, value.removeprefix("!"), top)

    def _program(self, name: str, text: str, folder: str) -> None:
        """A line that git gives to a shell, in the top folder of the tree or in the one that it was started in."""
        if text.lower() in ("true", "false", "yes", "no", "on", "off", "0", "1"):
            return
        home = self._env.get("HOME", "")
        text = re.sub(r"(?<![\w/])~(?=/)|\$HOME\b|\$\{HOME\}", lambda _: home or "~", text)
        parts = plain_parts(text)
        for cwd in dict.fromkeys((folder, self._place)):
            if parts is None:
                inside = self._named_in(text, cwd)
            else:
                judged = (self._reach.command(part.words, cwd=cwd, env=self._env) for part in parts)
                inside = next((found.what for found in judged if found is not None), None)
            if inside is not None:
                self.add(f"{inside} (by {name})")
                return

    def _hook(self, path: str, top: str) -> None:
        if self._reach.holds(path):
            self.add(path)
            return
        try:
            with open(path, "rb") as file:
                content = file.read(_HOOK_BYTES)
        except OSError as error:
            raise OddRepository(f"{path} cannot be read: {error}") from None
        if b"\0" in content[:1024]:
            return
        text = content.decode("utf-8", "replace")
        first, _, rest = text.partition("\n")
        text = (first.removeprefix("#!") if first.startswith("#!") else first) + "\n" + _REMARK.sub("", rest)
        inside = self._named_in(text, top)
        if inside is None:
            names = (os.path.basename(name) for name in (*_STARTS.findall(text), *_STARTS_QUOTED.findall(text)))
            inside = next((name for name in names if name in PROJECT_RUNNERS or name in FETCHERS), None)
            if inside is not None and self._reach.holds(top):
                inside = f"{inside}, which does what files in {top} say"
            else:
                inside = None
        if inside is not None:
            self.add(f"{inside} (by {path})")

    def _named_in(self, text: str, folder: str) -> str | None:
        """A file in reach that a script names, as far as its words tell."""
        words = [word for word in dict.fromkeys(_WORD.split(text)) if word and "\0" not in word and len(word) < 4096]
        around = [folder, *(place for word in words if os.path.isdir(place := absolute(word, folder)))][:_MOST_AROUND]
        for word in words:
            # `$root/scripts/x` is seen from somewhere, and most likely from here.
            bare = re.sub(r"^\$?\w*/+", "", word) if word[0] in "$/" else word
            for path in (absolute(word, folder), *(f"{place}/{bare}" for place in around if bare)):
                if os.path.isfile(path) and self._reach.holds(path):
                    return path
        return None

    # ---- other repositories ------------------------------------------------------------------------

    def _remote(self, entry: Entry, top: str) -> None:
        if entry.section == "remote" and entry.key in ("url", "pushurl"):
            self._other(entry.value or "", top)
        elif entry.section == "branch" and entry.key in ("remote", "pushremote"):
            self._other(entry.value or "", top, must_exist=True)
        elif entry.section == "url":
            self._other(entry.sub, top, must_exist=not entry.sub.startswith("/"))

    def _other(self, address: str, folder: str, *, must_exist: bool = False) -> None:
        """A repository on this machine: git starts in it, and it has hooks of its own."""
        address = address.removeprefix("file://")
        before_slash = address.partition("/")[0]
        if not address or ":" in before_slash or "\0" in address:
            return
        path = absolute(address, folder)
        places = [
            place for place in (f"{path}/.git", path, f"{path}.git/.git", f"{path}.git") if os.path.lexists(place)
        ]
        found = next((place for place in places if os.path.isfile(place) or is_repository(place)), None)
        if found is not None and self._reach.holds(found):
            self.add(f"what {found} names")
        elif found is None and not must_exist and self._reach.holds(path):
            self.add(f"what {path} names")


_ADDING = frozenset(("add", "stage", "update-index", "commit", "rm", "mv"))
"""They change the index, and no file of the tree that could be a repository."""


def _concerns(entry: Entry, line: GitLine) -> bool:
    only = _ONLY_OF.get(entry.section)
    return only is None or line.command in only or line.command == ANY


def _hooks(repository: Repository, entries: Sequence[Entry], env: Mapping[str, str], line: GitLine) -> Iterator[str]:
    """The hooks that this command could start."""
    named = [one.value for one in entries if one.name == "core.hookspath" and one.value]
    top = repository.tree or repository.git_dir
    folders = [expanded(value, top, env) for value in named] or [f"{repository.common_dir}/hooks"]
    for folder in dict.fromkeys((*folders, f"{repository.common_dir}/hooks")):
        for name in _names_in(folder)[:_MOST_HOOKS]:
            path = f"{folder}/{name}"
            if name.endswith(".sample") or not os.path.isfile(path) or not os.access(path, os.X_OK):
                continue
            if line.command not in git_words.READING or name in _HOOKS_OF_READING:
                yield path


def _names_in(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
