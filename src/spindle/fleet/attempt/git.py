"""Git as we run it ourselves: over repositories that are hostile, and so without anything that they could make it run.

No hooks, no programs of filters, monitors or diffs, no settings but ours, no transport but those named here, nobody
asked for a password. What a repository says in its own configuration counts nowhere: work trees are looked at with a
git folder of ours, never with the one that lies in them.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence

import msgspec

from spindle.errors import SpindleError
from spindle.process.lookup import find_installed

TRANSPORTS = "file:https:ssh"
LOCAL_S = 600.0
"""The longest that anything takes which asks nobody else."""
_SETTINGS = """\
[core]
\thooksPath = /dev/null
\tfsmonitor = false
\tuntrackedCache = false
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\taskPass = /bin/false
[credential]
\thelper =
[submodule]
\trecurse = false
[fetch]
\trecurseSubmodules = false
\twriteCommitGraph = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[advice]
\tdetachedHead = false
\taddEmbeddedRepo = false
[safe]
\tdirectory = *
[uploadpack]
\tallowFilter = false
"""
"""What git reads in the place of the user's file, also the git at the other end of a local fetch, which hears no `-c`.
A source that belongs to somebody else is only ever read from."""
_PASSED_ON = ("PATH", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE")
_PROMPTLESS_SSH = "ssh -oBatchMode=yes"


class GitFailed(SpindleError):
    """Git ended with an error. `said` is what it told."""

    def __init__(self, message: str, said: str = "", *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.said = said
        self.timed_out = timed_out


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """Which repository a command works on: the git folder is always named, never looked for."""

    git_dir: str
    work_tree: str | None = None
    index: str | None = None
    objects: str | None = None
    """Where it keeps objects, if not in the git folder."""

    def variables(self) -> dict[str, str]:
        named = {
            "GIT_DIR": self.git_dir,
            "GIT_WORK_TREE": self.work_tree,
            "GIT_INDEX_FILE": self.index,
            "GIT_OBJECT_DIRECTORY": self.objects,
        }
        return {name: value for name, value in named.items() if value is not None}


class Git:
    """Runs git for the attempts of a process."""

    def __init__(self, folder: str, environ: Mapping[str, str]) -> None:
        """`folder` is ours, and holds the settings."""
        program = find_installed("git", environ, cwd=folder)
        if program is None:
            raise SpindleError("git is not installed, and a fleet needs it")
        self._program = program
        self._folder = folder
        settings = f"{folder}/gitconfig"
        _write_if_changed(settings, _SETTINGS)
        passed = {name: environ[name] for name in _PASSED_ON if name in environ}
        self._environment = passed | {
            "LC_ALL": "C",
            "HOME": folder,
            "XDG_CONFIG_HOME": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": settings,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "/bin/false",
            "SSH_ASKPASS": "/bin/false",
            "GIT_SSH_COMMAND": _PROMPTLESS_SSH,
            "GIT_ALLOW_PROTOCOL": TRANSPORTS,
            "GIT_PROTOCOL_FROM_USER": "0",
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_LITERAL_PATHSPECS": "1",
        }
        if "SSH_AUTH_SOCK" in environ:
            self._environment["SSH_AUTH_SOCK"] = environ["SSH_AUTH_SOCK"]

    async def run(
        self,
        repository: Repository | None,
        *words: str,
        given: bytes = b"",
        into: int | None = None,
        timeout_s: float = LOCAL_S,
        more: Mapping[str, str] | None = None,
        strict: bool = False,
    ) -> bytes:
        """What git prints, or nothing where it prints into a descriptor. Raises GitFailed; with `strict` also when it
        only complains."""
        variables = {} if repository is None else repository.variables()
        process = await asyncio.create_subprocess_exec(
            self._program,
            *words,
            stdin=asyncio.subprocess.PIPE if given else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if into is None else into,
            stderr=asyncio.subprocess.PIPE,
            cwd=(repository.work_tree if repository is not None else None) or self._folder,
            env={**self._environment, **variables, **(more or {})},
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(timeout_s):
                out, err = await process.communicate(given or None)
        except TimeoutError:
            await _end(process)
            raise GitFailed(f"git {words[0]} took longer than {timeout_s:g} s", timed_out=True) from None
        except BaseException:
            await _end(process)
            raise
        said = err.decode("utf-8", "replace")
        if process.returncode != 0 or (strict and said):
            raise GitFailed(f"git {words[0]} failed: {_last_words(said)}", said)
        return out or b""


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill it with all that it started: a transport is a process of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    await process.wait()


_NOT_READ = "fatal: Could not read from remote repository."
_KEY_ADDED = "Warning: Permanently added"


def _last_words(said: str, most: int = 500) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:"))] or lines[-1:]
    if _NOT_READ in telling:  # git adds advice; why it was not, the program that git started has said before
        telling = [line for line in lines[: lines.index(_NOT_READ)] if not line.startswith(_KEY_ADDED)] or telling
    text = "; ".join(line.partition(": ")[2] or line for line in telling) or "it gave no reason"
    return text[:most]


def _write_if_changed(path: str, text: str) -> None:
    """Written anew only where it differs: other workers read it meanwhile."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except OSError:
        pass
    new = f"{path}.{os.getpid()}"
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(new, path)


def names(listed: bytes) -> Sequence[bytes]:
    """The entries of a list that git wrote with `-z`."""
    return listed.split(b"\0")[:-1]
