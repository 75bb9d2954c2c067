"""Git's settings, read by git's own grammar, with what they include.

`entries` reads one text, `Settings` the files of a repository and of the user. A line that git would refuse raises
`OddRepository`: git then stops, and nobody knows what another version makes of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress

import msgspec

from spindle.policy.git_find import OddRepository, same_for_all

_MOST_BYTES = 1 << 20
_MOST_FILES = 100
_MOST_DEPTH = 10
"""How deep git itself follows includes."""
_MOST_SUBMODULES = 100
_BLANKS = " \t\n\r"
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "\\": "\\", '"': '"'}


class Entry(msgspec.Struct, frozen=True):
    """`[section "sub"] key = value`; section and key in lower case. A key without `=` has no value."""

    section: str
    sub: str
    key: str
    value: str | None
    file: str = ""
    """The file that says so; empty for the command line and the environment."""

    @property
    def name(self) -> str:
        return ".".join(part for part in (self.section, self.sub, self.key) if part)


def entry_of(name: str, value: str | None, file: str = "") -> Entry:
    """The entry for a full name as `git -c` has it."""
    section, _, rest = name.partition(".")
    sub, _, key = rest.rpartition(".")
    return Entry(section.lower(), sub, key.lower(), value, file)


def entries(text: str, file: str = "") -> Iterator[Entry]:
    """What a text says, in its order."""
    return _Reader(text, file).entries()


class _Reader:
    """Character by character, as git does it."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text.removeprefix("\ufeff").removeprefix("\udcef\udcbb\udcbf").replace("\r\n", "\n")
        self._at = 0
        self._file = file

    def entries(self) -> Iterator[Entry]:
        base = ""
        is_remark = False
        while self._at < len(self._text):
            character = self._next()
            if character == "\n":
                is_remark = False
            elif is_remark or character in _BLANKS:
                continue
            elif character in "#;":
                is_remark = True
            elif character == "[":
                base = self._base()
            elif _is_letter(character):
                name, value = self._setting(character)
                yield entry_of(f"{base}.{name}", value, self._file)
            else:
                raise self._odd()

    def _next(self) -> str:
        character = self._text[self._at : self._at + 1]
        self._at += 1
        return character or "\n"

    def _base(self) -> str:
        found: list[str] = []
        while self._at < len(self._text):
            character = self._next()
            if character == "]":
                return "".join(found)
            if character in _BLANKS:
                return "".join(found) + self._extended(character)
            if not _is_key(character) and character != ".":
                break
            found.append(character.lower())
        raise self._odd()

    def _extended(self, character: str) -> str:
        while character in _BLANKS:
            if character == "\n":
                raise self._odd()
            character = self._next()
        found: list[str] = []
        while character == '"':
            inner = self._next()
            if inner == '"':
                if self._next() != "]":
                    break
                return f".{''.join(found)}"
            if inner == "\\":
                inner = self._next()
            if inner == "\n":
                break
            found.append(inner)
        raise self._odd()

    def _setting(self, first: str) -> tuple[str, str | None]:
        name = [first.lower()]
        character = self._next()
        while _is_key(character):
            name.append(character.lower())
            character = self._next()
        while character in " \t":
            character = self._next()
        if character == "\n":
            return "".join(name), None
        if character != "=":
            raise self._odd()
        return "".join(name), self._value()

    def _value(self) -> str:
        found: list[str] = []
        is_quoted = is_remark = False
        blanks = 0
        while True:
            character = self._next()
            if character == "\n":
                if is_quoted:
                    raise self._odd()
                # What git hands on as a text of C ends at a NUL.
                return "".join(found).partition("\0")[0]
            if is_remark:
                continue
            if character in _BLANKS and not is_quoted:
                blanks += bool(found)
                continue
            if character in ";#" and not is_quoted:
                is_remark = True
                continue
            found += " " * blanks
            blanks = 0
            if character == '"':
                is_quoted = not is_quoted
                continue
            if character == "\\":
                character = self._next()
                if character == "\n":
                    continue
                if character not in _ESCAPES:
                    raise self._odd()
                character = _ESCAPES[character]
            found.append(character)

    def _odd(self) -> OddRepository:
        line = self._text.count("\n", 0, self._at) + 1
        return OddRepository(f"{self._file} has a line that git cannot read, near line {line}")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the given files say, with all they include, whatever the conditions of an include."""

    entries: tuple[Entry, ...]
    files: tuple[str, ...]
    """Every file that was read or would be read if it were there."""

    @classmethod
    def read(cls, files: list[str], env: Mapping[str, str]) -> Settings:
        found: list[Entry] = []
        seen: dict[str, None] = {}
        for file in files:
            _collect(file, env, found, seen, 0)
        return cls(entries=tuple(found), files=tuple(seen))

    def values(self, section: str, key: str) -> list[Entry]:
        return [one for one in self.entries if (one.section, one.key) == (section, key) and one.value]


def files_of_user(env: Mapping[str, str]) -> list[str]:
    """The settings of the machine and of the user, as git looks for them."""
    home = env.get("HOME", "")
    found = [env.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig"]
    if env.get("GIT_CONFIG_NOSYSTEM", "").lower() in ("1", "true", "yes", "on"):
        found = []
    if "GIT_CONFIG_GLOBAL" in env:
        return [*found, *filter(None, [env["GIT_CONFIG_GLOBAL"]])]
    if base := env.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else ""):
        found.append(f"{base}/git/config")
    return [*found, f"{home}/.gitconfig"] if home else found


def entries_of_environment(env: Mapping[str, str]) -> list[Entry]:
    """What GIT_CONFIG_COUNT and its keys say. The other variable is git's own, for the programs it starts."""
    count = env.get("GIT_CONFIG_COUNT", "")
    numbers = range(min(int(count), 1000)) if count.isascii() and count.isdigit() else ()
    keys = [(env.get(f"GIT_CONFIG_KEY_{number}"), env.get(f"GIT_CONFIG_VALUE_{number}")) for number in numbers]
    return [entry_of(key, value) for key, value in keys if key]


def expanded(value: str, folder: str, env: Mapping[str, str]) -> str:
    """A path in a setting: `~` is a home, `%(prefix)` where git is installed, and else it is seen from `folder`."""
    if value == "~" or value.startswith("~/"):
        value = env.get("HOME", "") + value[1:]
    elif value.startswith("~"):
        value = os.path.expanduser(value)
    elif value.startswith("%(prefix)/"):
        value = value.replace("%(prefix)", "/usr", 1)
    return value if value.startswith("/") else f"{folder}/{value}"


def named_paths(file: str, *, tree: str) -> list[str]:
    """Absolute paths that a `config` file, with all it includes, names in a tree: folders of hooks, and more settings.

    What cannot be read names nothing: git stops there.
    """
    found: list[Entry] = []
    seen: dict[str, None] = {}
    with suppress(OddRepository):
        _collect(file, os.environ, found, seen, 0)
    hooks = [one.value for one in found if one.name == "core.hookspath" and one.value and one.value[0] not in "~%"]
    # Nothing can stand for settings that do not exist: git would try to read it, and fail.
    included = [os.path.normpath(path) for path in list(seen)[1:] if os.path.isfile(path)]
    return [*(_plain_path(value, tree) for value in hooks), *included]


def submodule_pointers(repository: str) -> list[str]:
    """The `.git` files of submodules: git looks into those when it is asked for the state of the whole tree, and runs
    what the settings say that they lead to."""
    found: list[str] = []
    for folder, below, files in os.walk(f"{repository}/modules"):
        if "config" not in files:
            continue
        below[:] = [name for name in below if name == "modules"]
        trees = [one.value for one in _readable(f"{folder}/config") if (one.section, one.key) == ("core", "worktree")]
        found += [path for tree in trees if tree and os.path.isfile(path := f"{_plain_path(tree, folder)}/.git")]
        if len(found) >= _MOST_SUBMODULES:
            break
    return found


def _readable(file: str) -> list[Entry]:
    found: list[Entry] = []
    try:
        for entry in entries(_text(file), file):
            found.append(entry)  # what stands before a line that cannot be read counts
    except (OSError, OddRepository):
        pass
    return found


def _collect(file: str, env: Mapping[str, str], found: list[Entry], seen: dict[str, None], depth: int) -> None:
    if depth > _MOST_DEPTH or len(seen) > _MOST_FILES:
        raise OddRepository(f"{file} is included too deep")
    seen[file] = None
    if os.path.islink(file):
        same_for_all(file)
    try:
        text = _text(file)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise OddRepository(f"{file} cannot be read: {error}") from None
    for entry in entries(text, file):
        found.append(entry)
        if entry.section in ("include", "includeif") and entry.key == "path" and entry.value:
            path = expanded(entry.value, os.path.dirname(file), env)
            if path not in seen:
                _collect(path, env, found, seen, depth + 1)


def _text(file: str) -> str:
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not _is_readable_again(descriptor):
            raise OddRepository(f"{file} is not an ordinary file, and git may read something else from it")
        parts: list[bytes] = []
        while part := os.read(descriptor, _MOST_BYTES):
            parts.append(part)
            if sum(map(len, parts)) > _MOST_BYTES:
                raise OddRepository(f"{file} is too large")
        return b"".join(parts).decode("utf-8", "surrogateescape")
    finally:
        os.close(descriptor)


def _is_readable_again(descriptor: int) -> bool:
    """What git reads from a pipe or a terminal is not what we do. People name the null device for no settings."""
    status = os.fstat(descriptor)
    return stat.S_ISREG(status.st_mode) or status.st_rdev == os.stat(os.devnull).st_rdev


def _plain_path(value: str, folder: str) -> str:
    return os.path.normpath(value if value.startswith("/") else f"{folder}/{value}")


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def _is_key(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "-")
