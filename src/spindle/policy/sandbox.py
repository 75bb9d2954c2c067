"""What a sandbox policy lets commands and file tools reach. Paths in, answers out; nothing is run or changed here.

`Boundary` is the one object that the shell's fence, patches and every other file tool obey. Paths are compared by
component and as the file system resolves them, so neither `..`, nor a link, nor a look-alike prefix (`/work-evil`
beside `/work`) widens a root. How it is enforced on a process is `process/sandbox`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from spindle.protocol.settings import SandboxPolicy

if TYPE_CHECKING:
    from spindle.policy.permissions import Rules

PROTECTED_NAMES = (".git", ".codex", ".agents")
"""Read-only directly below every writable root, also while they do not exist: what is run later, outside."""
MORE_PROTECTED = (".vscode", ".envrc", ".husky")
"""The same, unless the user gives another list: an editor, a shell or git runs what they say."""

_SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")
"""Never writable roots, whatever $TMPDIR says: the kernel's own files, and the devices of the machine."""
_SHARED_MEMORY = "/dev/shm"
_TEMPORARY = ("/tmp", "/var/tmp", _SHARED_MEMORY, "/private/tmp", "/private/var/tmp", "/private/var/folders")
"""Where a workspace may lie below $TMPDIR: everything there is temporary."""

_INSTALLED = ("site-packages", "dist-packages")
_PARTS_OF_ENVIRONMENT = ("bin", "lib", "pyvenv.cfg")

_MOST_STEPS = 1000


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """`[spindle.sandbox]`: what the user says about the sandbox beside its mode."""

    backend: Literal["auto", "bwrap", "landlock", "none"] = "auto"
    protected: tuple[str, ...] = MORE_PROTECTED
    """Paths below every writable root that stay read-only, in addition to the names that always do."""
    read: Literal["all", "workspace"] = "all"
    """What commands may read: everything, or the workspace and what a build in it needs (see sandbox.md)."""
    deny_read: tuple[str, ...] = ()
    """Globs of files that commands may not even read. Relative ones apply below the working folder and every writable
    root."""
    unix_sockets: tuple[str, ...] = ()
    """Sockets of other programs to which commands may connect all the same."""
    hidden: tuple[str, ...] = ()
    """Folders that commands see nothing of but the writable roots inside; real paths. Not a key: the program's own way
    to keep apart what it runs side by side. Unlike with `deny_read`, no other names of what is in there are looked for:
    they must be folders that no command can have made a hard link out of."""
    shown: tuple[str, ...] = ()
    """What can be read inside of those all the same; real paths."""
    pids_max: int = 0
    memory_max: int = 0
    """Most processes, and most bytes of memory, of one command; 0 = no limit."""


class Boundary(msgspec.Struct, frozen=True, kw_only=True):
    """What the commands and file tools of a turn may reach. Made when the turn begins; its roots do not move."""

    policy: SandboxPolicy
    cwd: str
    roots: tuple[str, ...] = ()
    """The folders below which writing is allowed; resolved."""
    homes: tuple[str, ...] = ()
    """The agent's own folders, never writable even below a root; resolved."""
    programs: tuple[str, ...] = ()
    """Where the agent is installed, if below a root: what is written there runs outside with its next start."""
    denied: tuple[str, ...] = ()
    """Absolute globs of what may not be read."""
    rules: Rules | None = None
    """What a permission profile says of every path, where one is in use."""
    is_let_out: bool = False
    """For what a person or a rule let out of the sandbox: only what is denied by name stays closed."""
    fence: Fence = Fence()

    @property
    def is_full_access(self) -> bool:
        return self.policy.is_full_access

    @property
    def has_network(self) -> bool:
        return self.policy.has_network

    def may_write(self, path: str) -> bool:
        """May a tool write `path`? One that does not exist yet is judged by its deepest existing ancestor."""
        return self.is_full_access or self.may_write_at(os.path.realpath(absolute(path, self.cwd)))

    def may_write_at(self, real: str) -> bool:
        """The same for a path that is resolved."""
        if self.is_full_access:
            return True
        own = (*self.homes, *self.programs, *self.fence.shown)
        if not any(is_below(real, root) for root in self.roots) or any(is_below(real, path) for path in own):
            return False
        if self.rules is not None and self.rules.access(real) != "write":
            return False
        return (
            not self.is_hidden(real)
            and self.may_read(real)
            and not any(self._is_protected(real, root) for root in self.roots)
        )

    def may_read(self, path: str) -> bool:
        """May a tool read `path`? Another name of a denied file is denied like the first."""
        if self.is_full_access:
            return True
        if self.fence.hidden and self.is_hidden(os.path.realpath(absolute(path, self.cwd))):
            return False
        if self.rules is None and not self.denied:
            return True
        from spindle.policy import deny  # only for those who deny something

        real = os.path.realpath(absolute(path, self.cwd))
        if self.rules is not None and self.rules.access(real) == "deny":
            return False
        if self.rules is None and deny.is_denied(real, self.denied):
            return False
        try:
            status = os.stat(real)
        except OSError:
            return True
        if status.st_nlink < 2 or os.path.isdir(real) or not self.denied:
            return True
        return (status.st_dev, status.st_ino) not in deny.with_several_names(deny.find_denied(self.denied))

    def is_hidden(self, real: str) -> bool:
        """Is the path inside of a hidden folder, and of nothing that can be seen there? It must be resolved."""
        for folder in self.fence.hidden:
            if is_below(real, folder) and not any(
                is_below(real, inner) and is_inside(inner, (folder,)) for inner in (*self.roots, *self.fence.shown)
            ):
                return True
        return False

    def holds(self, other: Boundary | None) -> bool:
        """Does the other one reach nothing that this one does not? None reaches everything."""
        if self.is_full_access or other == self:
            return True
        if other is None or other.is_full_access or other.is_let_out or (other.has_network and not self.has_network):
            return False
        is_read_alike = (other.rules, other.denied, other.fence) == (self.rules, self.denied, self.fence)
        return is_read_alike and all(any(is_below(root, own) for own in self.roots) for root in other.roots)

    def for_looking(self) -> Boundary:
        """The same with nothing to write, for a command that only looks.

        Unchanged where something is denied or hidden: what of that has another name is looked for below the roots.
        """
        if self.rules is not None or self.denied or self.fence.hidden or not self.roots or self.is_let_out:
            return self
        return msgspec.structs.replace(self, roots=())

    def protected(self) -> tuple[str, ...]:
        """What stays read-only below the roots, existing or not, as it is now. Outside of them everything does."""
        if self.is_let_out:
            return ()
        paths = dict.fromkeys(path for root in self.roots for path in protected_paths(root, self.fence.protected))
        paths.update(dict.fromkeys((*self.homes, *self.programs)))
        if self.rules is not None:
            paths.update(dict.fromkeys(self.rules.plain("read")))
        return tuple(path for path in paths if path not in self.granted and is_inside(path, self.roots))

    @property
    def granted(self) -> tuple[str, ...]:
        """What a permission profile lets be written by its very name, whatever else stays as it is around it."""
        return self.roots if self.policy.permissions is not None else ()

    def showing(self, *programs: str) -> Boundary:
        """The same for a command of ours: its own programs can be read, whatever a permission profile leaves out."""
        if self.rules is None or self.rules.shows_everything:
            return self
        from spindle.policy.permissions import Rule  # only with a permission profile

        paths = dict.fromkeys(path for given in programs for path in (given, os.path.realpath(given)))
        rules = (*self.rules.rules, *(Rule(path, "read") for path in paths))
        return msgspec.structs.replace(self, rules=msgspec.structs.replace(self.rules, rules=rules))

    def let_out(self) -> Boundary | None:
        """What holds for a command that a person or a rule let out of the sandbox; None = nothing does."""
        if self.policy.permissions is None or not self.policy.permissions.denies:
            return None
        from spindle.policy.permissions import Rule, Rules, denying  # only with a permission profile

        denied = map(denying, self.denied)
        return msgspec.structs.replace(
            self,
            policy=msgspec.structs.replace(self.policy, network_access=True),
            roots=("/",),
            homes=(),
            programs=(),
            rules=Rules((Rule("/", "write"), *denied)),
            is_let_out=True,
        )

    def doubt(self) -> str | None:
        """Why it cannot be said what must stay read-only, as a sentence; None when it can."""
        if self.is_let_out or not self.roots:
            return None
        from spindle.policy.git_find import oddity  # with the first command

        found = (oddity(f"{root.rstrip('/')}/.git") for root in self.roots)
        return next((why for why in found if why is not None), None)

    def _is_protected(self, real: str, root: str) -> bool:
        # On a file system that folds case `.GIT` is `.git`; elsewhere refusing it costs nobody anything.
        folded = real.casefold()
        return any(
            is_below(real, os.path.realpath(path)) or is_below(folded, path.casefold())
            for path in protected_paths(root, self.fence.protected)
            if not any(is_below(real, granted) and is_below(granted, path) for granted in self.granted)
        )


def boundary_of(
    policy: SandboxPolicy, *, cwd: str, env: Mapping[str, str], home: str, fence: Fence | None = None
) -> Boundary:
    """The boundary of a turn. `env` is what its commands are given, `home` the agent's folder."""
    fence = fence or Fence()
    homes = tuple(dict.fromkeys(path for path in (os.path.realpath(home) if home else "", agent_home(env)) if path))
    rules = _rules(policy, cwd, env)
    roots = writable_roots(policy, cwd, env, homes, rules)
    if fence.read == "workspace" and not policy.is_full_access:
        rules = _narrowed(rules, policy, cwd, env, homes, roots)
    denied: tuple[str, ...] = ()
    if fence.deny_read:
        from spindle.policy import deny  # only for those who deny something

        denied = deny.absolute_patterns(fence.deny_read, tuple(dict.fromkeys((os.path.realpath(cwd), *roots))))
    if rules is not None:
        rules = msgspec.structs.replace(rules, closed=denied)
        denied = rules.denied
    return Boundary(
        policy=policy,
        cwd=cwd,
        roots=roots,
        homes=homes,
        programs=_programs_below(roots),
        denied=denied,
        rules=rules,
        fence=fence,
    )


def _rules(policy: SandboxPolicy, cwd: str, env: Mapping[str, str]) -> Rules | None:
    if policy.permissions is None:
        return None
    from spindle.policy.permissions import rules_at  # only for those who have profiles

    def is_planted(path: str, writable: Sequence[str]) -> bool:
        return _is_led_by_link(path, {other: os.path.realpath(other) for other in (path, *writable)})

    return rules_at(policy.permissions, cwd, env, is_planted)


def _narrowed(
    rules: Rules | None,
    policy: SandboxPolicy,
    cwd: str,
    env: Mapping[str, str],
    homes: tuple[str, ...],
    roots: tuple[str, ...],
) -> Rules:
    from spindle.policy.view import Workspace, workspace_view  # only for those who narrow what is read

    profile = policy.permissions
    here = os.path.realpath(cwd)
    # A folder that a link may have turned elsewhere counts only if it is a root all the same.
    more = map(os.path.realpath, profile.workspace_roots if profile is not None else policy.writable_roots)
    named = tuple(dict.fromkeys((here, *(path for path in more if path in roots))))
    return workspace_view(rules, Workspace(cwd=here, named=named, roots=roots, homes=homes), env)


def writable_roots(
    policy: SandboxPolicy,
    cwd: str,
    env: Mapping[str, str],
    homes: tuple[str, ...] | None = None,
    rules: Rules | None = None,
) -> tuple[str, ...]:
    """The folders a command may write below, real paths, in order: configured, cwd, /tmp, $TMPDIR.

    A link that lies in one of them can be the work of an earlier command: it adds nothing outside of them.
    """
    if policy.permissions is not None:
        rules = rules or _rules(policy, cwd, env)
        real = dict.fromkeys(map(os.path.realpath, rules.plain("write") if rules is not None else ()))
        return _without_own(tuple(real), (agent_home(env),) if homes is None else homes)
    if policy.mode != "workspace-write":
        return ()
    wanted = [*policy.writable_roots, cwd]
    if not policy.exclude_slash_tmp and os.path.isdir("/tmp"):
        wanted.append("/tmp")
    if not policy.exclude_tmpdir_env_var and (tmpdir := temporary_folder(cwd, env)) is not None:
        wanted.append(tmpdir)
    if homes is None:
        homes = (agent_home(env),)
    real = {root: os.path.realpath(root) for root in wanted if os.path.isabs(root)}
    planted = {root for root in real if root != cwd and _is_led_by_link(root, real)}
    sure = [real[root] for root in real if root not in planted]
    roots = dict.fromkeys(
        path for root, path in real.items() if root not in planted or any(is_below(path, one) for one in sure)
    )
    return _without_own(tuple(roots), homes)


def temporary_folder(cwd: str, env: Mapping[str, str]) -> str | None:
    """$TMPDIR, unless it cannot be what it says: one around the home, or around the workspace where nobody keeps
    temporary files. `TMPDIR=/` would open the whole disk."""
    tmpdir = env.get("TMPDIR", "")
    if not os.path.isabs(tmpdir):
        return None
    real, here = os.path.realpath(tmpdir), os.path.realpath(cwd)
    homes = (env.get("HOME", ""), os.path.expanduser("~"))
    if real == "/" or any(os.path.isabs(home) and is_below(os.path.realpath(home), real) for home in homes):
        return None
    is_around = here != real and is_below(here, real)
    return None if is_around and not any(is_below(real, place) for place in _TEMPORARY) else tmpdir


def _without_own(roots: tuple[str, ...], homes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        root for root in roots if not any(is_below(root, home) for home in homes) and not is_system_folder(root)
    )


def _is_led_by_link(root: str, real: Mapping[str, str]) -> bool:
    """Is there, on the way to a root, a link that lies below another one, where a command could have put it?"""
    return is_led_by_link(root, [path for one, path in real.items() if one != root])


def is_led_by_link(path: str, folders: Sequence[str]) -> bool:
    """Is there, on the way to a path, a link that lies below one of the folders?"""
    parts = path.split("/")[::-1]
    place = "/"
    for _ in range(_MOST_STEPS):
        if not parts:
            return False
        name = parts.pop()
        step = os.path.normpath(f"{place}/{name}")
        if not os.path.islink(step):
            place = step
        elif any(is_below(place, folder) for folder in folders):
            return True
        else:
            target = os.readlink(step)
            place = "/" if target.startswith("/") else place
            parts += target.split("/")[::-1]
    return True


def is_system_folder(path: str) -> bool:
    return any(is_below(path, folder) for folder in _SYSTEM_FOLDERS) and not is_below(path, _SHARED_MEMORY)


def _programs_below(roots: tuple[str, ...]) -> tuple[str, ...]:
    """The agent's virtual environment and its package in there. A source tree that it runs from stays writable: whoever
    works on the agent itself wants that. So does an environment around a root."""
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    places = [os.path.realpath(sys.prefix)] if sys.prefix != sys.base_prefix else []
    if os.path.basename(os.path.dirname(package)) in _INSTALLED:
        places.append(os.path.dirname(package))
    found: dict[str, None] = {}
    for place in places:
        if place in roots:
            found.update(dict.fromkeys(f"{place}/{name}" for name in _PARTS_OF_ENVIRONMENT))
        elif any(is_below(place, root) for root in roots) and not any(is_below(root, place) for root in roots):
            found[place] = None
    return tuple(found)


def agent_home(env: Mapping[str, str]) -> str:
    """The real path of $CODEX_HOME, which no sandboxed command and no patch may write. "" when there is no home."""
    home = env.get("CODEX_HOME") or (f"{env['HOME']}/.codex" if env.get("HOME") else "")
    return os.path.realpath(home) if home else ""


def protected_paths(root: str, more: tuple[str, ...] = MORE_PROTECTED) -> tuple[str, ...]:
    """What stays read-only below `root`, existing or not, with whatever `.git` there leads to or names."""
    base = root.rstrip("/")
    paths = [f"{base}/{name}" for name in PROTECTED_NAMES]
    paths += [os.path.normpath(f"{base}/{name}") for name in more if name]
    from spindle.policy import git_places  # with the first command or file tool, not before the first request

    paths += [path for path in git_places.obeyed(paths[0], root) if not any(is_below(path, one) for one in paths)]
    return tuple(paths)


def absolute(path: str, folder: str) -> str:
    """`path` as seen from `folder`."""
    return path if path.startswith("/") else f"{folder}/{path}"


def is_below(path: str, folder: str) -> bool:
    """`path` is `folder`, or inside it. Both must be resolved; an empty folder holds nothing."""
    if folder[-1:] in ("", "/"):
        return bool(folder) and (path == folder or path.startswith(folder.rstrip("/") + "/"))
    # The common case, without making a text for each comparison: a sandbox is planned with a hundred of them.
    return path.startswith(folder) and path[len(folder) : len(folder) + 1] in ("", "/")


def is_inside(path: str, folders: Iterable[str]) -> bool:
    """`path` is below one of the folders, and not that folder itself."""
    for folder in folders:  # noqa: SIM110  planning a sandbox asks this often, and a generator costs more than the rest
        if path != folder and is_below(path, folder):
            return True
    return False
