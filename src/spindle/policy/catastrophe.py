"""Commands that nobody could make good again: refused where no person can be asked, whatever the sandbox allows.

Everything else that destroys runs there: the fence confines it, and undo covers the workspace. A script is read as far
as it can be; one that is beyond the limits of reading is refused, because nobody knows what is in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import msgspec

from spindle.policy.danger import DISK, FORK_BOMB, gives_up, is_dangerous
from spindle.policy.destroyers import git_command, has_flag
from spindle.policy.sandbox import absolute
from spindle.policy.script_tree import UNKNOWN, TooMuch, read_script
from spindle.policy.within import commands_within
from spindle.policy.words import script_of
from spindle.policy.wrappers import SHELLS, script_argument

_SYSTEM = frozenset(
    (
        *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root", "/run"),
        *("/sbin", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/var", "/var/lib"),
        *("/Applications", "/Library", "/System", "/Users", "/private", "/private/etc", "/private/var"),
    )
)
# As text: `re` makes each of them when it is first needed, and most commands need none.
_HARMLESS_DEVICES = (
    r"/dev/(null|stdin|stdout|stderr|tty|zero|full|u?random|fd(/.*)?|shm(/.*)?|pts(/.*)?|tcp/.*|udp/.*)$"
)
_DISK_TOOLS = (
    r"mkfs(\..*)?|mke2fs|mkswap|wipefs|[scg]?fdisk|parted|sgdisk|blkdiscard|hdparm|badblocks|cryptsetup|shred|pvcreate|"
    r"vgremove|lvremove|dd|tee|cp|truncate|install|flashrom"
)
_MOUNTS = frozenset(("mount", "umount", "swapoff", "swapon", "pivot_root", "fusermount", "fusermount3"))
_NARROWS = (
    r"-(i?name|i?path|i?wholename|i?regex|newer\w*|[amc]time|[amc]min|size|empty|user|group|uid|gid|perm|inum|links|"
    r"samefile|lname|executable|xtype)"
)
_MAY_BE = (
    r"(?i)\b(rm|find|fd|mv|rsync|ch(mod|own|grp)|dd|tee|cp|truncate|install|shred|push|mkfs\S*|mke2fs|mkswap|wipefs|"
    r"\w?fdisk|parted|sgdisk|blkdiscard|u?mount|swap\w+|rmtree|removedirs|rmSync|rm_rf)\b|/dev/|\|\s*\S+\s*&"
)
_IN_CODE = r"(?:rmtree|removedirs|rmSync|rm_rf|remove_tree|rm_r)\W{1,3}[rfub]?[\"']([^\"'\n]+)[\"']"
_LONG = 20_000

_INSIDE = "name the files or folders inside it that are to go"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a command would run, and what is dear there."""

    cwd: str = ""
    workspace: tuple[str, ...] = ()
    """The folders of the thread."""
    home: str = ""


def catastrophe(argv: Sequence[str], place: Place) -> str | None:
    """Why this must not run where nobody can be asked, and what to do instead; None when nothing speaks against it."""
    text = " ".join(argv)
    if len(text) < _LONG and re.search(_MAY_BE, text) is None and not is_dangerous(argv):
        return None
    if gives_up(argv) or commands_within(argv) is None:
        return "it is too long or too deeply nested to be read in full; split it into commands that can be read"
    if re.search(FORK_BOMB, text):
        return "it would fill the machine with processes; leave that out"
    return next(
        (reason for words, base in _ordered(argv, place) if (reason := _Judge(place, base).reason(words))), None
    )


def _ordered(argv: Sequence[str], place: Place) -> Iterator[tuple[list[str], str | None]]:
    """All commands, each with the folder it runs in: `cd` is taken to get there. None: no telling."""
    script = script_of(argv)
    if script is None:
        for words in commands_within(argv) or ():
            yield words, place.cwd
        return
    base: str | None = place.cwd
    moves = False
    known = {"HOME": [place.home or "~"], "PWD": [place.cwd or "."]}
    try:
        tree = read_script(script, known)
    except TooMuch:
        tree = None
    for command in sorted(tree.commands, key=lambda one: one.start) if tree is not None else ():
        for name in command.names:
            words = [*name.split(), *command.words]
            if words and words[0] in ("cd", "pushd"):
                moves = True
                base = _resolved(words[-1], Place(cwd=base or "", home=place.home)) if len(words) > 1 else place.home
            for inner in commands_within(words) or ():
                yield inner, base
    for words in commands_within(argv) or ():
        yield words, None if moves else place.cwd


class _Judge:
    """One command in one folder; `base` None: only absolute paths say where they lead."""

    def __init__(self, place: Place, base: str | None) -> None:
        self._place = place
        self._base = base

    def reason(self, words: Sequence[str]) -> str | None:
        name, rest = os.path.basename(words[0]), list(words[1:])
        if name in SHELLS and (script := script_argument(rest)) is not None and len(script) < _LONG:
            return self._written_by(script)
        if name == "git":
            return self._git(rest)
        if name in _MOUNTS:
            is_more = any(not word.startswith("-") for word in rest) or has_flag(rest, "a", "--all")
            return "it changes what is mounted; leave that to a person" if is_more else None
        if re.fullmatch(_DISK_TOOLS, name) and (reason := self._devices(rest)):
            return reason
        if found := [path for word in rest[:20] for path in re.findall(_IN_CODE, word[:100_000])]:
            return self._deletes(found)
        return self._trees(name, rest)

    def _trees(self, name: str, rest: list[str]) -> str | None:
        operands = _operands(rest)
        if name == "rm" and (has_flag(rest, "r", "--recursive") or has_flag(rest, "R", "")):
            return self._deletes(operands)
        if name == "find":
            acts = "-delete" in rest or any(
                word.startswith("-exec")
                and os.path.basename("".join(rest[at + 1 : at + 2])) in ("rm", "shred", "unlink")
                for at, word in enumerate(rest)
            )
            if not acts or any(re.fullmatch(_NARROWS, word) for word in rest):
                return None
            end = next((at for at, word in enumerate(rest) if word[:1] in ("-", "(", "!")), len(rest))
            return self._deletes(rest[:end] or ["."])
        if name == "mv":
            return self._deletes(operands[:-1], verb="move away")
        if name == "rsync" and any(word.startswith("--del") for word in rest):
            return self._deletes(operands[-1:], is_own_allowed=True)
        if name in ("chmod", "chown", "chgrp") and has_flag(rest, "R", "--recursive"):
            return self._deletes(operands[1:], verb="change the modes or owners of", is_own_allowed=True)
        return None

    def _deletes(self, words: Sequence[str], *, verb: str = "delete", is_own_allowed: bool = False) -> str | None:
        for word in words:
            what = self._dear(word, is_own_allowed)
            if what is not None:
                return f"it would {verb} {what}; {_INSIDE}"
        return None

    def _dear(self, word: str, is_own_allowed: bool) -> str | None:
        """What it is that a person would miss: the system, a home, the workspace, a mounted disk."""
        is_absolute = word.startswith(("/", "~", "$HOME", "${HOME"))
        if self._base is None and not is_absolute:
            return None
        path = _resolved(word, Place(cwd=self._base or "", home=self._place.home))
        if path is None:
            return None
        found = [path, *([os.path.realpath(path)] if os.path.isabs(path) and "*" not in path else [])]
        own = {os.path.normpath(folder) for folder in (*self._place.workspace, self._place.cwd) if folder}
        for one in found:
            if one in _SYSTEM or any(fnmatchcase(folder, one) for folder in _SYSTEM if "*" in one or "?" in one):
                return "the root of the file system or a folder of the system"
            if (
                one == "~"
                or (self._place.home and one == os.path.normpath(self._place.home))
                or re.fullmatch(r"~\w*", one)
            ):
                return "a home folder"
            if not is_own_allowed and (one in own or (one == "." and not own)):
                return "the whole workspace"
            if one == ".." or any(folder.startswith(f"{one.rstrip('/')}/") for folder in own):
                return "a folder that contains the workspace"
            if os.path.isabs(one) and os.path.ismount(one):
                return "everything on a mounted disk"
        return None

    def _devices(self, rest: list[str]) -> str | None:
        for word in rest:
            path = os.path.normpath(word.partition("=")[2] if word.startswith("of=") else word)
            if word.startswith("if=") or not path.startswith(("/dev/", "//dev/")):
                continue
            if not re.fullmatch(_HARMLESS_DEVICES, path.replace("//", "/")):
                return f"it would write to the device {path}; write to a file instead"
        return None

    def _written_by(self, script: str) -> str | None:
        try:
            tree = read_script(script)
        except TooMuch:
            return None
        disks = (
            [path for path in sorted(tree.written) if re.match(DISK, os.path.normpath(path))]
            if tree is not None
            else []
        )
        return self._devices(disks)

    def _git(self, rest: list[str]) -> str | None:
        command, words = git_command(rest)
        if command != "push":
            return None
        operands = _operands(words)
        refs = operands[1:]
        is_forced = has_flag(words, "f", "--force") or has_flag(words, "", "--mirror")
        is_deleting = has_flag(words, "d", "--delete")
        hit = [ref for ref in refs if is_forced or is_deleting or ref.startswith(("+", ":"))]
        if not hit and not (is_forced and not refs):
            return None
        current, default = branches(self._base or self._place.cwd)
        protected = {"main", "master", *default}
        wanted = [ref.lstrip("+").rpartition(":")[2].removeprefix("refs/heads/") for ref in hit]
        targets = [current if name in ("HEAD", "@") else name for name in wanted] if hit else [current]
        everything = has_flag(words, "", "--mirror") or has_flag(words, "", "--all")
        if everything or any(name is None or name in protected or "*" in name for name in targets):
            return "it would overwrite a protected branch of the remote; push to another branch, or without force"
        return None


def branches(folder: str) -> tuple[str | None, list[str]]:
    """The branch that is checked out (None: no telling), and what the remotes call their default."""
    path = folder
    while not os.path.exists(f"{path}/.git"):
        if not path or path == os.path.dirname(path):
            return None, []
        path = os.path.dirname(path)
    repository = f"{path}/.git"
    if os.path.isfile(repository):
        line = _line(repository)
        repository = absolute(line.removeprefix("gitdir:").strip(), path) if line.startswith("gitdir:") else ""
    head = _line(f"{repository}/HEAD")
    current = head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else None
    remotes = f"{repository}/refs/remotes"
    try:
        names = os.listdir(remotes)[:20]
    except OSError:
        names = []
    return current, [line.rpartition("/")[2] for name in names if (line := _line(f"{remotes}/{name}/HEAD"))]


def _line(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            return os.fsdecode(file.read(4096).split(b"\n", 1)[0])
    except OSError:
        return ""


def _operands(words: Sequence[str]) -> list[str]:
    for at, word in enumerate(words):
        if word == "--":
            return [*(one for one in words[:at] if not one.startswith("-")), *words[at + 1 :]]
    return [word for word in words if not word.startswith("-")]


def _resolved(word: str, place: Place) -> str | None:
    """The path that a word stands for, without what a pattern of everything adds; None when it cannot be told."""
    word = re.sub(r"^\$\{?HOME\}?(?=/|$)", "~", word)
    word = re.sub(r"^\$\{?PWD\}?(?=/|$)", place.cwd or ".", word)
    if not word or UNKNOWN in word or "$" in word or "`" in word:
        return None
    # `x/*`, `x/.*` and `x/{*,.*}` are all that is in x.
    while re.fullmatch(r"[*.?\[\]!{},]*\*[*.?\[\]!{},]*", word.rstrip("/").rpartition("/")[2]):
        word = word.rstrip("/").rpartition("/")[0] or ("/" if word.startswith("/") else ".")
    if word == "~" or word.startswith("~/"):
        word = (place.home or "~") + word[1:]
    path = word if word.startswith(("/", "~")) or not place.cwd else f"{place.cwd}/{word}"
    return os.path.normpath(path).replace("//", "/")
