"""What the words of a git command say: which folder and repository it means, and whether they name a program.

And which folders a line of commands may be in, as a shell goes there: by names, and by where links lead.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from spindle.policy.git_config import Entry, entry_of
from spindle.policy.git_find import is_of_processes
from spindle.policy.sandbox import absolute

_VALUED = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env", "--attr-source")
_KNOWN = frozenset(
    (
        *_VALUED,
        *("-p", "--paginate", "-P", "--no-pager", "--no-replace-objects", "--bare", "--literal-pathspecs", "--version"),
        *("--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs", "--no-optional-locks", "--no-lazy-fetch"),
        *(
            "--no-advice",
            "--html-path",
            "--man-path",
            "--info-path",
            "--exec-path",
            "-v",
            "-h",
            "--help",
            "--list-cmds",
        ),
    )
)
_MOST_FOLDERS = 50

RUNNING_KEYS: dict[str, frozenset[str]] = {
    "alias": frozenset(("*",)),
    "browser": frozenset(("cmd", "path")),
    "core": frozenset(
        (
            *("alternaterefscommand", "askpass", "editor", "fsmonitor", "gitproxy", "hookspath", "pager"),
            *("sshcommand", "worktree"),
        )
    ),
    "credential": frozenset(("helper",)),
    "diff": frozenset(("command", "external", "textconv")),
    "difftool": frozenset(("cmd", "path")),
    "filter": frozenset(("clean", "process", "smudge")),
    "gpg": frozenset(("program", "defaultkeycommand")),
    "guitool": frozenset(("cmd",)),
    "gui": frozenset(("*",)),
    "hook": frozenset(("*",)),
    "imap": frozenset(("tunnel",)),
    "include": frozenset(("path",)),
    "includeif": frozenset(("path",)),
    "init": frozenset(("templatedir",)),
    "instaweb": frozenset(("*",)),
    "interactive": frozenset(("difffilter",)),
    "man": frozenset(("cmd", "path")),
    "merge": frozenset(("driver",)),
    "mergetool": frozenset(("cmd", "path")),
    "pager": frozenset(("*",)),
    "protocol": frozenset(("allow",)),
    "receive": frozenset(("procreceiverefs",)),
    "remote": frozenset(("receivepack", "uploadpack", "vcs")),
    "sendemail": frozenset(("*",)),
    "sequence": frozenset(("editor",)),
    "submodule": frozenset(("update",)),
    "tar": frozenset(("command",)),
    "trailer": frozenset(("cmd", "command")),
    "uploadpack": frozenset(("packobjectshook",)),
    "url": frozenset(("insteadof", "pushinsteadof")),
    "web": frozenset(("browser",)),
}
"""Settings whose value git runs, or that lead it to other settings or repositories, by section. `*` is every key."""

_LONG = (
    # They name a program, a folder with programs, or another repository.
    *("--config", "--config-env", "--exec", "--exec-path", "--extcmd", "--git-dir", "--open-files-in-pager"),
    *("--receive-pack", "--template", "--to-cmd", "--cc-cmd", "--header-cmd", "--sendmail-cmd", "--smtp-server"),
    *("--upload-pack", "--access-hook", "--httpd", "--browser", "--tree-filter", "--index-filter", "--msg-filter"),
    *("--env-filter", "--parent-filter", "--commit-filter", "--tag-name-filter", "--separate-git-dir"),
)
_SHORT = {"clone": "uc", "rebase": "x", "difftool": "x", "grep": "O"}
_RUN = {"bisect": ("run",), "submodule": ("foreach",), "hook": ("run",), "maintenance": ("start", "register")}
_ALWAYS_RUN = frozenset(
    (
        *("filter-branch", "send-email", "instaweb", "daemon", "for-each-repo", "web--browse", "remote-ext"),
        *("remote-fd", "http-backend", "shell", "cvsserver"),
    )
)
_MESSAGE_TEMPLATES = frozenset(("commit", "merge", "notes", "tag"))
_STRATEGIES = frozenset(("ort", "recursive", "resolve", "octopus", "ours", "subtree"))
_TAKE_STRATEGIES = frozenset(("merge", "rebase", "pull", "cherry-pick", "revert"))
READING = frozenset(
    (
        *("status", "diff", "log", "show", "branch", "rev-parse", "rev-list", "ls-files", "ls-tree", "blame", "grep"),
        *("describe", "shortlog", "cat-file", "remote", "for-each-ref", "show-ref", "name-rev", "diff-tree", "reflog"),
        *(
            "diff-files",
            "diff-index",
            "merge-base",
            "check-ignore",
            "check-attr",
            "count-objects",
            "version",
            "whatchanged",
        ),
        *("cherry", "range-diff", "show-branch", "symbolic-ref", "var", "annotate", "fsck", "help", "ls-remote"),
    )
)
"""Commands that start no hook, but the one for a changed index."""
PUSHING = frozenset(
    ("push", "send-pack", "receive-pack", "archive", "upload-archive", "remote", "config", "submodule", "*")
)
"""Commands that may have git start in another repository, with the hooks and settings of that one, or set it up."""
CHANGE_INDEX = frozenset(
    (
        *(
            "add",
            "stage",
            "update-index",
            "checkout",
            "switch",
            "merge",
            "pull",
            "reset",
            "stash",
            "read-tree",
            "apply",
        ),
        *("am", "cherry-pick", "revert", "rebase", "restore", "rm", "mv", "commit", "submodule", "sparse-checkout"),
    )
)


class GitLine(msgspec.Struct, frozen=True, kw_only=True):
    """A git command, taken apart."""

    folders: tuple[str, ...] = ()
    """What `-C` says, in order."""
    git_dir: str | None = None
    work_tree: str | None = None
    entries: tuple[Entry, ...] = ()
    """Settings of the command line."""
    odd: str = ""
    """A word before the command that makes git look for programs elsewhere, or that is not known here."""
    command: str = ""
    rest: tuple[str, ...] = ()
    at: int = 0
    """Which word the command is."""

    def folder(self, cwd: str) -> str:
        for path in self.folders:
            cwd = absolute(path, cwd) if path else cwd
        return cwd

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        given = {"GIT_DIR": self.git_dir, "GIT_WORK_TREE": self.work_tree}
        return {**env, **{name: value for name, value in given.items() if value is not None}}


def parse(words: Sequence[str]) -> GitLine:
    """`git …`, or `git-commit …` by the name of the program."""
    name = os.path.basename(words[0])
    if name.startswith("git-"):
        return GitLine(command=name.removeprefix("git-"), rest=tuple(words[1:]))
    folders: list[str] = []
    entries: list[Entry] = []
    values: dict[str, str] = {}
    odd = ""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        option, equals, value = words[at].partition("=") if words[at].startswith("--") else (words[at], "", "")
        if option in _VALUED and not equals:
            at += 1
            value = words[at] if at < len(words) else ""
        if option == "-C":
            folders.append(value)
        elif option in ("-c", "--config-env"):
            key, has_value, text = value.partition("=")
            entries.append(entry_of(key, text if has_value and option == "-c" else None))
        elif (option == "--exec-path" and equals) or option not in _KNOWN:
            odd = words[min(at, len(words) - 1)]
        values[option] = value
        at += 1
    return GitLine(
        folders=tuple(folders),
        git_dir=values.get("--git-dir", "." if "--bare" in values else None),
        work_tree=values.get("--work-tree"),
        entries=tuple(entries),
        odd=odd,
        command=words[at] if at < len(words) else "",
        rest=tuple(words[at + 1 :]),
        at=at,
    )


def runs(entry: Entry) -> bool:
    """Is the value of this setting something that git runs, or obeys like a setting?"""
    keys = RUNNING_KEYS.get(entry.section, frozenset())
    return entry.key in keys or "*" in keys


def named_program(line: GitLine, given: int = 0) -> str | None:
    """A word of the command that names a program, or settings that do, for git to run; None when there is none.

    The first `given` words are not looked at: a person wrote them.
    """
    entry = next((one for one in line.entries if runs(one)), None)
    if entry is not None and given <= line.at:
        return entry.name
    if line.odd and given <= line.at:
        return line.odd
    command, rest = line.command, line.rest[max(0, given - line.at - 1) :]
    if command in _ALWAYS_RUN and given <= line.at:
        return command
    if any(word in _RUN.get(command, ()) for word in rest[:3]):
        return f"{command} {rest[0]}"
    for at, word in enumerate(rest):
        if word == "--":
            break
        if word.startswith("--"):
            name = word.partition("=")[0]
            wanted = [one for one in _LONG if one != "--template" or command not in _MESSAGE_TEMPLATES]
            if len(name) > 3 and any(
                name.startswith(one) or one.startswith(name) for one in wanted if name != "--text"
            ):
                return word
        elif word.startswith("-") and any(letter in word[1:] for letter in _SHORT.get(command, "")):
            return word
        if command in _TAKE_STRATEGIES and (strategy := _strategy(rest, at)) and strategy not in _STRATEGIES:
            return f"git-merge-{strategy}"
    if command == "config":
        named = [entry_of(word, None) for word in rest if "." in word and not word.startswith("-")]
        return next((one.name for one in named if runs(one) and len(rest) > 1), None)
    return next((word for word in rest if word.startswith("ext::") or "=ext::" in word), None)


def _strategy(rest: Sequence[str], at: int) -> str:
    option, equals, value = rest[at].partition("=")
    if option in ("-s", "--strategy"):
        return value if equals else "".join(rest[at + 1 : at + 2])
    return rest[at][2:] if rest[at].startswith("-s") and not rest[at].startswith("--") else ""


def folders_of(commands: Iterable[Sequence[str]], cwds: Sequence[str], env: Mapping[str, str]) -> list[str] | None:
    """Every folder these commands may be in, one after the other; None when that cannot be told.

    A shell goes by names (`cd link/..` stays where it was), other programs by where links lead: both count. `cwds` are
    the names of the folder that the first of them starts in.
    """
    folders = list(dict.fromkeys(cwds))
    if any(is_of_processes(folder) for folder in folders):
        return None
    for words in commands:
        if os.path.basename(words[0]) not in ("cd", "pushd", "chdir"):
            if os.path.basename(words[0]) in ("popd", "builtin", "command", "eval", "source", "."):
                return None
            continue
        target = words[2:] if words[1:2] == ["--"] else words[1:]
        if len(target) != 1 or not target[0] or target[0][0] in "-~" or any(sign in target[0] for sign in "*?["):
            return None
        if env.get("CDPATH") and not target[0].startswith(("/", "./", "../")):
            return None
        # Whether it gets there is not known, so it may also be where it was.
        for folder in list(folders):
            path = absolute(target[0], folder)
            if is_of_processes(path):
                return None  # another folder to the shell than to us
            folders += [os.path.normpath(path), os.path.realpath(path)]
        folders = list(dict.fromkeys(folders))
        if len(folders) > _MOST_FOLDERS:
            return None
    return folders
