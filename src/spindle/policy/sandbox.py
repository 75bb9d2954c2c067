"""What a sandbox policy lets a command or a patch write. Paths in, answers out; nothing is run or changed here.

Paths are compared by component and as the file system resolves them, so neither `..`, nor a link, nor a look-alike
prefix (`/work-evil` beside `/work`) widens a root. How a policy is enforced on a process is `process/sandbox`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from spindle.protocol.settings import SandboxPolicy

PROTECTED_NAMES = (".git", ".codex", ".agents")
"""Read-only directly below every writable root, also while they do not exist: what is run later, outside."""

_SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")
"""Never writable roots, whatever $TMPDIR says: the kernel's own files, and the devices of the machine."""
_SHARED_MEMORY = "/dev/shm"

_POINTER_LIMIT = 4096


def writable_roots(policy: SandboxPolicy, cwd: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """The folders a command may write below, real paths, in order: configured, cwd, /tmp, $TMPDIR."""
    if policy.mode != "workspace-write":
        return ()
    wanted = [*policy.writable_roots, cwd]
    if not policy.exclude_slash_tmp and os.path.isdir("/tmp"):
        wanted.append("/tmp")
    tmpdir = env.get("TMPDIR", "")
    if not policy.exclude_tmpdir_env_var and os.path.isabs(tmpdir):
        wanted.append(tmpdir)
    home = agent_home(env)
    roots = (os.path.realpath(root) for root in wanted if os.path.isabs(root))
    return tuple(dict.fromkeys(root for root in roots if not is_below(root, home) and not _is_system_folder(root)))


def _is_system_folder(path: str) -> bool:
    return any(is_below(path, folder) for folder in _SYSTEM_FOLDERS) and not is_below(path, _SHARED_MEMORY)


def agent_home(env: Mapping[str, str]) -> str:
    """The real path of $CODEX_HOME, which no sandboxed command and no patch may write. "" when there is no home."""
    home = env.get("CODEX_HOME") or (f"{env['HOME']}/.codex" if env.get("HOME") else "")
    return os.path.realpath(home) if home else ""


def protected_paths(root: str) -> tuple[str, ...]:
    """What stays read-only below `root`, existing or not; with a `.git` pointer file also the folders it points at."""
    paths = [f"{root.rstrip('/')}/{name}" for name in PROTECTED_NAMES]
    pointed = _git_pointer(paths[0])
    if pointed:
        paths.append(pointed)
        common = _first_line(f"{pointed}/commondir")
        if common:
            paths.append(os.path.realpath(absolute(common, pointed)))
    return tuple(paths)


def is_writable(path: str, policy: SandboxPolicy, cwd: str, env: Mapping[str, str]) -> bool:
    """May a patch write `path`? A path that does not exist yet is judged by its deepest existing ancestor."""
    if policy.is_full_access:
        return True
    roots = writable_roots(policy, cwd, env)
    real = os.path.realpath(absolute(path, cwd))
    home = agent_home(env)
    if not any(is_below(real, root) for root in roots) or (home and is_below(real, home)):
        return False
    return not any(_is_protected(real, root) for root in roots)


def absolute(path: str, folder: str) -> str:
    """`path` as seen from `folder`."""
    return path if path.startswith("/") else f"{folder}/{path}"


def is_below(path: str, folder: str) -> bool:
    """`path` is `folder`, or inside it. Both must be resolved; an empty folder holds nothing."""
    return bool(folder) and (path == folder or path.startswith(folder.rstrip("/") + "/"))


def _is_protected(real: str, root: str) -> bool:
    if not is_below(real, root) or real == root:
        pointers = protected_paths(root)[len(PROTECTED_NAMES) :]
    else:
        # On a file system that folds case `.GIT` is `.git`; elsewhere refusing it costs nobody anything.
        first = real[len(root.rstrip("/")) + 1 :].split("/", 1)[0]
        if first.casefold() in PROTECTED_NAMES:
            return True
        pointers = protected_paths(root)
    return any(is_below(real, os.path.realpath(path)) for path in pointers)


def _git_pointer(path: str) -> str | None:
    """The folder a `.git` file points at (a worktree or a submodule), or None."""
    if not os.path.isfile(path):
        return None
    line = _first_line(path)
    if not line.startswith("gitdir:"):
        return None
    return os.path.realpath(absolute(line[len("gitdir:") :].strip(), os.path.dirname(path)))


def _first_line(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read(_POINTER_LIMIT).split(b"\n", 1)[0]).strip()
    except OSError:
        return ""
