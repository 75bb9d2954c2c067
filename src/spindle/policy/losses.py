"""What a command would take away that nobody could make good again, judged by effect. `catastrophe` is the door.

A script is read as far as it can be; one beyond the limits of reading counts, because nobody knows what is in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from spindle.policy.danger import DISK, FORK_BOMB, gives_up
from spindle.policy.destroyers import git_command, has_flag
from spindle.policy.effects import EVERY_FILE, Walk, find_narrows, path_of
from spindle.policy.place import Place
from spindle.policy.sandbox import absolute
from spindle.policy.script_tree import TooMuch, read_script
from spindle.policy.within import look_within
from spindle.policy.words import script_of
from spindle.policy.wrappers import SHELLS, program_name, script_argument

_SYSTEM = frozenset(
    (
        *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root", "/run"),
        *("/sbin", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/var", "/var/lib"),
        *("/Applications", "/Library", "/System", "/Users", "/private", "/private/etc", "/private/var"),
    )
)
_HARMLESS_DEVICES = re.compile(
    r"/dev/(null|stdin|stdout|stderr|tty|zero|full|u?random|fd(/.*)?|shm(/.*)?|pts(/.*)?|tcp/.*|udp/.*)$"
)
_DISK_TOOLS = re.compile(
    r"mkfs(\..*)?|mke2fs|mkswap|wipefs|[scg]?fdisk|parted|sgdisk|blkdiscard|hdparm|badblocks|cryptsetup|shred|pvcreate|"
    r"vgremove|lvremove|dd|tee|cp|truncate|install|flashrom"
)
_MOUNTS = frozenset(("mount", "umount", "swapoff", "swapon", "pivot_root", "fusermount", "fusermount3"))
_IN_CODE = re.compile(
    r"(?:rmtree|removedirs|rmSync|rmdirSync|rm_rf|remove_tree|rm_r|rimraf\w*)\W{1,3}[rfub]?"
    r"(?:(?:pathlib\.)?Path\()?"
    r"(?:[\"']([^\"'\n]+)[\"']|([^,;\n]{0,60}?(?:[cC]wd|curdir|PWD|HOME|expanduser|home)[^,;\n]{0,40}))"
)
_CODE_HERE = re.compile(r"[cC]wd|curdir|PWD")
_CODE_HOME = re.compile(r"HOME|expanduser|home(?:dir)?\(")
_INTERPRETED = re.compile(r"\b(python[\d.]*|perl|ruby|node|nodejs|deno|bun)\b")
_MOVES = re.compile(r"\b(cd|pushd|popd|chdir)\b|-C\b")
_DELETES = re.compile(r"\b(rm|shred|unlink|truncate|mv)\b")
_MOST_NAMED = 2
"""More than so many names that are spelt out, and are all there is, are the workspace."""
_LONG = 20_000

_INSIDE = "name the files or folders inside it that are to go"


def loss(argv: Sequence[str], place: Place) -> str | None:
    """Why this must not run where nobody can be asked, and what to do instead; None when nothing speaks against it."""
    if gives_up(argv) or look_within(argv) is None:
        return "it is too long or too deeply nested to be read in full; split it into commands that can be read"
    if re.search(FORK_BOMB, " ".join(argv)):
        return "it would fill the machine with processes; leave that out"
    judged = (_Judge(place, base).reason(words) for words, base in _ordered(argv, place))
    return next(filter(None, judged), None) or _Judge(place, place.cwd).fed(argv)


def _ordered(argv: Sequence[str], place: Place) -> Iterator[tuple[list[str], str | None]]:
    """All commands, each with the folder it runs in. None: no telling."""
    walk = Walk(place)
    script = script_of(argv)
    yield from walk.command(list(argv), place.cwd) if script is None else walk.script(script, place.cwd)
    # What a tree does not show, the loose reading may.
    moves = _MOVES.search(" ".join(argv)) is not None
    within = look_within(argv)
    for words in (*within.commands, *within.maybe) if within is not None else ():
        yield words, None if moves else place.cwd


class _Judge:
    """One command in one folder; `base` None: only absolute paths say where they lead."""

    def __init__(self, place: Place, base: str | None) -> None:
        self._place = place
        self._base = base

    def reason(self, words: Sequence[str]) -> str | None:
        name, rest = program_name(words[0]), list(words[1:])
        if name in SHELLS and (script := script_argument(rest)) is not None and len(script) < _LONG:
            return self._written_by(script)
        if name == "git":
            return self._git(rest)
        if name in _MOUNTS:
            is_more = any(not word.startswith("-") for word in rest) or has_flag(rest, "a", "--all")
            return "it changes what is mounted; leave that to a person" if is_more else None
        if _DISK_TOOLS.fullmatch(name) and (reason := self._devices(rest)):
            return reason
        if found := [path for word in rest[:20] for path in deleted_by_code(word[:100_000])]:
            return self._deletes(found)
        return self._trees(name, rest)

    def _trees(self, name: str, rest: list[str]) -> str | None:
        operands = _operands(rest)
        if name == "rm" and (has_flag(rest, "r", "--recursive") or has_flag(rest, "R", "")):
            return self._deletes(operands) or self._empties(operands)
        if name in ("rm", "unlink", "shred"):
            below = [word.removesuffix(f"/{EVERY_FILE}") for word in operands if word.endswith(f"/{EVERY_FILE}")]
            return self._deletes(below) or self._empties([word for word in operands if re.search(r"[*?\[]", word)])
        if name == "find":
            return self._find(rest)
        if name == "mv":
            target = [word for word in rest if re.match(r"-t|--target-dir", word)]
            return self._deletes(operands if target else operands[:-1], verb="move away")
        if name == "rsync" and not has_flag(rest, "n", "--dry-run"):
            if "--remove-source-files" in rest and (reason := self._deletes(operands[:-1])):
                return reason
            return self._deletes(operands[-1:]) if any(word.startswith("--del") for word in rest) else None
        if (name == "tar" and "--remove-files" in rest) or (name == "zip" and has_flag(rest, "m", "--move")):
            return self._deletes(operands) or self._empties(operands)
        if name in ("chmod", "chown", "chgrp") and has_flag(rest, "R", "--recursive"):
            return self._deletes(operands[1:], verb="change the modes or owners of", is_own_allowed=True)
        return None

    def _find(self, rest: list[str]) -> str | None:
        acts = "-delete" in rest or any(
            word.startswith(("-exec", "-ok")) and _DELETES.search(" ".join(rest[at + 1 :]))
            for at, word in enumerate(rest)
        )
        if not acts:
            return None
        end = next((at for at, word in enumerate(rest) if word[:1] in ("-", "(", "!")), len(rest))
        starts = rest[:end] or ["."]
        if find_narrows(rest):
            # `find .. -name work` finds the workspace by its name.
            names = [rest[at + 1] for at, word in enumerate(rest[:-1]) if word in ("-name", "-iname")]
            around = [folder for one in self._own() for folder in _upwards(one)]
            hit = [one for one in around if any(fnmatchcase(os.path.basename(one), name) for name in names)]
            return self._deletes([start for start in starts if hit and self._holds(start, hit)])
        return self._deletes(starts)

    def _own(self) -> set[str]:
        return {os.path.normpath(folder) for folder in (*self._place.workspace, self._place.cwd) if folder}

    def _holds(self, start: str, folders: Sequence[str]) -> bool:
        path = path_of(start, self._base, self._place)
        return path is not None and any(folder.startswith(f"{path.rstrip('/')}/") for folder in folders)

    def _deletes(self, words: Sequence[str], *, verb: str = "delete", is_own_allowed: bool = False) -> str | None:
        for word in words:
            what = self._dear(word, is_own_allowed)
            if what is not None:
                return f"it would {verb} {what}; {_INSIDE}"
        return None

    def _empties(self, words: Sequence[str]) -> str | None:
        """Would these words together take all that lies in the workspace?"""
        for folder in self._own():
            try:
                names = {name for name in os.listdir(folder) if not name.startswith(".")}
            except OSError:
                continue
            gone = {name for word in words for name in self._names_in(folder, word)} if len(names) > 1 else set()
            is_by_pattern = any(re.search(r"[*?\[]", word) for word in words)
            if names and names <= gone and (is_by_pattern or len(names) > _MOST_NAMED):
                return f"it would delete all that is in the workspace; {_INSIDE}"
        return None

    def _names_in(self, folder: str, word: str) -> Iterator[str]:
        """What lies in the folder by this name or pattern."""
        path = path_of(word, self._base, self._place)
        if path is None or os.path.dirname(path) != folder:
            return
        name = os.path.basename(path)
        yield name
        if re.search(r"[*?\[]", name):
            yield from (one for one in os.listdir(folder) if fnmatchcase(one, name))

    def _dear(self, word: str, is_own_allowed: bool) -> str | None:
        """What it is that a person would miss: the system, a home, the workspace, a mounted disk."""
        path = path_of(word, self._base, self._place)
        if path is None:
            return None
        found = [path, *([_real(path)] if os.path.isabs(path) else [])]
        own, home = self._own(), os.path.normpath(self._place.home) if self._place.home else "~"
        for one in found:
            is_pattern = re.search(r"[*?\[]", one) is not None
            if one in _SYSTEM or any(fnmatchcase(folder, one) for folder in _SYSTEM if is_pattern):
                return "the root of the file system or a folder of the system"
            if one in ("~", home) or re.fullmatch(r"~[\w+-]*", one) or (is_pattern and fnmatchcase(home, one)):
                return "a home folder"
            if not is_own_allowed and (one in own or (one == "." and not own)):
                return "the whole workspace"
            if one == ".." or any(_is_at_or_above(one, folder) for folder in own if is_pattern or one != folder):
                return "a folder that contains the workspace"
            if os.path.isabs(one) and os.path.ismount(one):
                return "everything on a mounted disk"
        return None

    def _devices(self, rest: list[str]) -> str | None:
        for word in rest:
            path = os.path.normpath(word.partition("=")[2] if word.startswith("of=") else word)
            if word.startswith("if=") or not path.startswith(("/dev/", "//dev/")):
                continue
            if not _HARMLESS_DEVICES.fullmatch(path.replace("//", "/")):
                return f"it would write to the device {path}; write to a file instead"
        return None

    def fed(self, argv: Sequence[str]) -> str | None:
        """What a script feeds to an interpreter, or writes for one."""
        script = script_of(argv)
        if script is None or not _INTERPRETED.search(script) or not (found := deleted_by_code(script[:100_000])):
            return None
        return self._deletes(found)

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


def deleted_by_code(text: str) -> list[str]:
    """The folders that code in another language deletes, by names or by what they are."""
    found = [next(filter(None, one.groups()), "") for one in _IN_CODE.finditer(text)]
    found += ["."] if re.search(r"\bunlink\W+glob\W+\*\W", text) else []
    return [
        "." if _CODE_HERE.search(one) else "~" if _CODE_HOME.search(one) else one
        for one in found
        if not re.search(r"join|\s/\s|\+", one)
    ]


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


def _upwards(folder: str) -> list[str]:
    found = [folder]
    while (parent := os.path.dirname(found[-1])) != found[-1]:
        found.append(parent)
    return found


def _real(path: str) -> str:
    """Where a path leads; of a pattern, the folders before it."""
    parts = path.split("/")
    first = next((at for at, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts))
    return "/".join((os.path.realpath("/".join(parts[:first]) or "/").rstrip("/"), *parts[first:])) or "/"


def _is_at_or_above(path: str, folder: str) -> bool:
    """Is the folder the one that this path or pattern stands for, or below it?"""
    parts, wanted = folder.split("/"), path.rstrip("/").split("/")
    return len(wanted) <= len(parts) and all(map(fnmatchcase, parts, wanted)) and wanted[-1:] != ["*"]
