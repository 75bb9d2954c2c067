"""Could the agent have written what this would run or read? The one place where that is answered.

Some things are run outside the sandbox by a person's word (a rule, a hook, an MCP server, `notify`, git), and some are
read into the prompt or written for the person. A yes given to a program, or a name given for a file, means what the
person had in mind, and not what a command of the agent put there since. So whoever is about to act on such a word asks:

    reach = Reach(boundary, env=os.environ)
    reach.holds(path)                           # this path: may what it leads to be the agent's work?
    reach.holds_open(fd)                        # the same of an open file, whatever name it was opened by
    reach.command(argv, cwd=cwd, env=env)       # a program and its arguments: None, or what of it is in reach, and why
    reach.script(text, cwd=cwd, env=env)        # the same of a line that a shell reads
    reach.without_reach(env, cwd=cwd)           # an environment that leads to nothing of the agent's

The answer does not depend on the mode that is in force at this moment: what a thread may only read now, another one
may have written yesterday. Every link and every folder on the way counts, as do other names of the same place (mounts,
hard links). In doubt it is in reach. Without a fence (full access) nothing is kept from the agent, and the question has
no meaning: nothing counts as in reach.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property

import msgspec

from spindle.policy.links import links_towards
from spindle.policy.ownership import place_of
from spindle.policy.sandbox import Boundary, absolute, is_below, writable_roots

NEUTRAL_FOLDER = "/"
"""Where a person's program is started that must not find the project around it: it has no folder above it."""

_MOST_ENTRIES = 20_000
"""How many names are looked at for another one of the same file."""
_MOUNTS = "/proc/self/mountinfo"
_OF_PROCESSES = ("/proc", "/dev/fd")

_PATH_LISTS = frozenset(
    (
        *("PATH", "PYTHONPATH", "NODE_PATH", "PERL5LIB", "PERLLIB", "RUBYLIB", "GEM_PATH", "GEM_HOME", "CLASSPATH"),
        *("LUA_PATH", "LUA_CPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "R_LIBS"),
        *("R_LIBS_USER", "JULIA_LOAD_PATH", "TCLLIBPATH", "GUILE_LOAD_PATH", "ERL_LIBS", "PHP_INI_SCAN_DIR"),
    )
)
"""Variables with folders in which programs look for code."""
_CODE_NAMES = frozenset(
    (
        *("BASH_ENV", "ENV", "ZDOTDIR", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPLATLIBDIR"),
        *("NODE_OPTIONS", "PERL5OPT", "PERL5DB", "RUBYOPT", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"),
        *("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "LUA_INIT", "PROMPT_COMMAND", "VIRTUAL_ENV"),
        *("NPM_CONFIG_USERCONFIG", "NPM_CONFIG_GLOBALCONFIG", "NPM_CONFIG_PREFIX", "NPM_CONFIG_SCRIPT_SHELL"),
        *("UV_CONFIG_FILE", "UV_PROJECT", "UV_WORKING_DIR", "PIP_CONFIG_FILE", "BUNDLE_GEMFILE", "DENO_DIR"),
        *("EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE", "BROWSER", "SHELL", "SSH_ASKPASS"),
        *("SUDO_ASKPASS", "OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "GCONV_PATH", "LOCPATH", "MAKEFLAGS"),
        *("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "DOCKER_CONFIG", "KUBECONFIG"),
        *("AWS_CONFIG_FILE", "RUSTC_WRAPPER", "RUSTC", "GOFLAGS", "GOROOT", "GTK_MODULES", "GTK_PATH"),
        *("GIO_EXTRA_MODULES", "QT_PLUGIN_PATH", "QML2_IMPORT_PATH", "PHPRC"),
    )
)
"""Variables that name code, or settings that name code, in other ways than as a list of folders."""
_CODE_PREFIXES = (
    *("NPM_CONFIG_", "GIT_", "UV_", "PIP_", "BUNDLE_", "CARGO_", "COMPOSER_", "BUN_", "DENO_", "TS_NODE_", "CONDA_"),
    *("PYENV_", "RBENV_", "NVM_", "ASDF_", "MISE_", "VOLTA_", "R_PROFILE", "R_ENVIRON", "JULIA_", "DOTNET_", "COR_"),
    *("CORECLR_", "LD_", "DYLD_", "PYTHON"),
)
"""How others begin."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What of a command the agent could have written."""

    what: str
    """The path, or the words of the command, for a person to read."""
    is_by_folder: bool = False
    """It is in reach only because it looks for code in the folder that it is started in: from another one it is not."""


class Reach:
    """Where the agent may write, now or in another thread, seen from one boundary."""

    def __init__(self, boundary: Boundary, *, env: Mapping[str, str] | None = None, also: Sequence[str] = ()) -> None:
        """`env` is what commands of the agent get; `also` are more folders that it works in, such as the root of the
        project around its working folder."""
        self.is_fenced = not boundary.is_full_access
        policy = boundary.policy
        if policy.permissions is None and policy.mode == "read-only":
            # The workspace is what threads write in; what lies in /tmp is gone before a later one starts.
            policy = msgspec.structs.replace(
                policy, mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True
            )
        roots = boundary.roots
        if self.is_fenced and policy is not boundary.policy:
            roots = writable_roots(policy, boundary.cwd, os.environ if env is None else env, boundary.homes)
        more = tuple(os.path.realpath(folder) for folder in also) if policy.permissions is None else ()
        roots = tuple(dict.fromkeys((*roots, *more)))
        self._boundary = msgspec.structs.replace(boundary, policy=policy, roots=roots)
        self._apart: tuple[str, ...] = ()

    @property
    def roots(self) -> tuple[str, ...]:
        return self._boundary.roots

    def apart_from(self, folders: tuple[str, ...]) -> Reach:
        """The same, but for what lies in these folders: somebody else sees to it."""
        other = copy(self)
        other._apart = folders
        return other

    # ---- paths -----------------------------------------------------------------------------------

    def holds(self, path: str, cwd: str | None = None) -> bool:
        """Could the agent have made or changed what `path` leads to, or anything on the way? It need not exist."""
        if not self.is_fenced:
            return False
        try:
            *_, real = steps = list(_way(absolute(path, cwd or self._boundary.cwd)))
        except (OSError, ValueError):
            return True  # a way without end, or a name that is none
        if any(is_below(step, folder) for step in steps for folder in _OF_PROCESSES):
            return True  # it leads elsewhere for every process
        if any(is_below(real, folder) for folder in self._apart):
            return False
        return any(self._may_write(step) for step in steps) or self._has_other_name(real)

    def holds_name(self, real: str) -> bool:
        """Could the agent have put there what goes by this name? The folder must be a real path."""
        return self.is_fenced and self._may_write(real)

    def holds_open(self, fd: int) -> bool:
        """The same of an open file or folder, by where it lies now."""
        if not self.is_fenced:
            return False
        place = place_of(fd)
        return place is None or self._may_write(place) or self._has_other_name(place)

    def program(self, word: str, *, cwd: str, path: str) -> str | None:
        """The file that `word` starts, if the agent could have written it; `path` is the search path."""
        found = find_program(word, cwd=cwd, path=path)
        return found if found is not None and self.holds(found) else None

    def _may_write(self, real: str) -> bool:
        if self._boundary.may_write_at(real):
            return True
        return any(self._boundary.may_write_at(other) for other in self._mounts.aliases(real))

    def _has_other_name(self, real: str) -> bool:
        """Is it a file that has another name where the agent may write?"""
        try:
            status = os.stat(real, follow_symlinks=False)
        except OSError:
            return False
        if not stat.S_ISREG(status.st_mode) or status.st_nlink < 2 or _is_of_system(real):
            return False
        return any(_holds_inode(root, status, self._boundary) for root in self.roots)

    @cached_property
    def _mounts(self) -> _Mounts:
        return _Mounts(_read_mounts())

    # ---- commands --------------------------------------------------------------------------------

    def command(self, argv: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> Found | None:
        """What of a command the agent could have written: the program, what it interprets, or what it would find.

        None only if that can be known. Data that is handed over does not count: a folder to serve, a file to read.
        """
        if not self.is_fenced:
            return None
        from spindle.policy.reach_commands import Judge  # only for what runs by a person's word

        return Judge(self, cwd=cwd, env=env).command(list(argv))

    def script(self, text: str, *, cwd: str, env: Mapping[str, str], is_strict: bool = True) -> Found | None:
        """The same for a line that a shell reads. What the shell would expand or interpret counts as in reach.

        Where that is not `is_strict`, only what the shell would run, or give to an interpreter, counts.
        """
        if not self.is_fenced:
            return None
        from spindle.policy.reach_commands import Judge  # only for what runs by a person's word

        return Judge(self, cwd=cwd, env=env, is_strict=is_strict).script(text)

    # ---- environments ----------------------------------------------------------------------------

    def without_reach(self, env: Mapping[str, str], *, cwd: str) -> dict[str, str]:
        """`env` for a program of a person: without entries that lead to where the agent may write, or to whatever
        folder the program is in."""
        return {name: kept for name, value in env.items() if (kept := self._kept(name, value, cwd)) is not None}

    def leads_into_reach(self, env: Mapping[str, str], *, cwd: str) -> str | None:
        """The name of a variable that would make a program load what the agent wrote; None when there is none."""
        names = (name for name, value in env.items() if self._kept(name, value, cwd) != value)
        return next(names, None)

    def _kept(self, name: str, value: str, cwd: str) -> str | None:
        if name in _PATH_LISTS:
            folders = value.split(os.pathsep)
            kept = [folder for folder in folders if os.path.isabs(folder) and not self.holds(folder, cwd)]
            return value if kept == folders else os.pathsep.join(kept) or None
        is_code = name in _CODE_NAMES or name.upper().startswith(_CODE_PREFIXES)
        if is_code and any(self.holds(path, cwd) for path in (*paths_in(value), *_here(value))):
            return None
        return value


def absolute_folders(path: str) -> str:
    """A search path without entries that mean the folder somebody happens to be in."""
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if os.path.isabs(folder))


def find_program(word: str, *, cwd: str, path: str) -> str | None:
    """The file that starts when `word` is executed; None when there is none."""
    if "/" in word:
        candidates = [absolute(word, cwd)]
    else:
        candidates = [f"{absolute(folder, cwd)}/{word}" for folder in path.split(os.pathsep)]
    return next((one for one in candidates if os.access(one, os.X_OK) and not os.path.isdir(one)), None)


def paths_in(text: str) -> list[str]:
    """Whatever in a word could be a path: the word, what stands behind `=`, `,` or `:`, what is glued to an option."""
    pieces = [text]
    for separator in ("=", ",", os.pathsep, " "):
        pieces += [part for piece in list(pieces) for part in piece.split(separator)]
    pieces += [piece[2:] for piece in list(pieces) if piece.startswith("-") and "/" in piece]
    pieces = [piece[7:] if piece.startswith("file://") else piece.removeprefix("@") for piece in pieces]
    return [piece for piece in dict.fromkeys(pieces) if "/" in piece and not piece.startswith("-")]


def _here(text: str) -> list[str]:
    """`.` and `..`, and `-I.`: folders seen from wherever the program is."""
    return re.findall(r"(?:^|[\s=:,]|-\w)(\.\.?)(?=$|[\s:,/])", text)


def _way(path: str) -> Iterator[str]:
    """Every link on the way along `path`, each by its own real place; at last the end. A folder on the way that could
    be replaced is one in which the end can be written too, and what is protected cannot be moved away with it."""
    end = yield from links_towards(path)
    if end is None:
        raise OSError("too many links")
    yield end


_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/snap", "/System", "/Library")


def _is_of_system(real: str) -> bool:
    return any(is_below(real, folder) for folder in _SYSTEM)


def _holds_inode(root: str, wanted: os.stat_result, boundary: Boundary) -> bool:
    waiting, left = [root], _MOST_ENTRIES
    while waiting and left > 0:
        try:
            entries = os.scandir(waiting.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                left -= 1
                try:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif (
                        entry.inode() == wanted.st_ino and _is_same(entry, wanted) and boundary.may_write_at(entry.path)
                    ):
                        return True
                except OSError:
                    continue
    return False


def _is_same(entry: os.DirEntry[str], wanted: os.stat_result) -> bool:
    return entry.stat(follow_symlinks=False).st_dev == wanted.st_dev


class _Mount(msgspec.Struct, frozen=True):
    device: str
    inner: str
    """Which folder of the file system is shown."""
    point: str
    """Where it is shown."""


class _Mounts:
    """What is mounted where: one folder can be seen in several places."""

    def __init__(self, mounts: Sequence[_Mount]) -> None:
        self._mounts = mounts

    def around(self, real: str) -> _Mount | None:
        """What is mounted where `real` lies; of several in one place, the last hides the others."""
        found: _Mount | None = None
        for mount in self._mounts:
            if is_below(real, mount.point) and (found is None or len(mount.point) >= len(found.point)):
                found = mount
        return found

    def aliases(self, real: str) -> Iterator[str]:
        """The other paths of the same place."""
        own = self.around(real)
        if own is None:
            return
        inner = f"{own.inner.rstrip('/')}/{real[len(own.point.rstrip('/')) :].lstrip('/')}".rstrip("/") or "/"
        for mount in self._mounts:
            if mount.device == own.device and is_below(inner, mount.inner):
                rest = inner[len(mount.inner.rstrip("/")) :].lstrip("/")
                other = f"{mount.point.rstrip('/')}/{rest}".rstrip("/") or "/"
                if other != real:
                    yield other


def mount_around(path: str) -> str | None:
    """The folder at or above `path` on which something is mounted; None where that cannot be told."""
    mount = _Mounts(_read_mounts()).around(os.path.realpath(path))
    return None if mount is None else mount.point


def _read_mounts() -> list[_Mount]:
    try:
        with open(_MOUNTS, "rb") as file:
            lines = os.fsdecode(file.read()).splitlines()
    except OSError:
        return []
    fields = [line.split(" ") for line in lines]
    return [_Mount(one[2], _unescaped(one[3]), _unescaped(one[4])) for one in fields if len(one) > 4]


def _unescaped(text: str) -> str:
    """The kernel writes blanks, tabs, line ends and backslashes as octal numbers."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
