"""What the user's login shell sets up, learnt once instead of with every command.

`bash -lc TEXT` reads the profile each time, which may take a fifth of a second. After one look at what the profile
leaves behind, `bash -c TEXT` with that environment, and with the functions, options and variables read from a file
in memory, gives the same result. Where a profile sets no more than the environment, as most do, there is nothing to
read. When the profile leaves something that cannot be carried over this way (a trap, another working directory), or the
shell is not bash, commands keep their `-lc`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from spindle.errors import SandboxUnavailable
from spindle.policy.environment import NETWORK_DISABLED, is_loader_variable
from spindle.process import kill, proc_files
from spindle.process.command import Command, ShellLike

if TYPE_CHECKING:
    from spindle.policy.sandbox import Boundary
    from spindle.process.running import Running

_PATIENCE_S = 1.0
"""How long a command waits for the capture before it reads the profile itself."""
_CAPTURE_BYTES = 1024 * 1024
_PROFILE_MARK = kill.Mark(2)
"""Keeps a profile, and an agent it may start, apart from commands that are killed with the thread."""

_MARK = "spindle-login-environment"
_PER_PROCESS = frozenset(("_", "SHLVL", "PWD", "OLDPWD", "BASH_ENV"))
_SHELL_OWN = (
    "BASH*|COLUMNS|COMP_*|COPROC*|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|HISTCMD|HOSTNAME|HOSTTYPE|IFS|LINENO|LINES|"
    "MACHTYPE|OPTARG|OPTERR|OPTIND|OSTYPE|PIPESTATUS|PPID|PS1|PS2|PS4|RANDOM|SECONDS|SHELL|SHELLOPTS|SRANDOM|TERM|UID|"
    "PATH|PWD|OLDPWD|SHLVL|_|spindle_name"
)
_SCRIPT = f"""
spindle_mark() {{ printf '\\0%s\\0' {_MARK}; }}
spindle_mark; command env -0; spindle_mark; pwd; trap -p
spindle_mark; shopt -p; set +o; umask -p
for spindle_name in $(compgen -v); do
  case $spindle_name in {_SHELL_OWN}) continue ;; esac
  [[ ${{!spindle_name@a}} == *[xr]* ]] || declare -p "$spindle_name"
done
spindle_mark; BASH_ENV= "$BASH" -c 'shopt -p; set +o'
unset -f spindle_mark; printf '\\0%s\\0' {_MARK}; declare -f; alias -p
printf '\\0%s\\0' {_MARK}
"""
_POSIX_SHELLS = ("bash", "zsh", "sh", "dash", "ksh")
_UNSETTABLE = (" login_shell", " restricted_shell")


class LoginEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """What to give `bash -c` in place of a profile."""

    env: dict[str, str]
    setup: bytes
    """Definitions to be read by the shell before the command. Empty when a shell without a profile has all of it."""


class Start(Protocol):
    """Starts a program whose output goes to a file; see `Launcher.launch`."""

    async def __call__(
        self, command: Command, on_output: Callable[[bytes], None], /, *, mark: kill.Mark | None, output_file: int
    ) -> Running: ...


class LoginShell:
    """The user's shell as commands of one thread get it: without its profile, where something can stand in for that."""

    def __init__(self, shell: ShellLike, withheld: Collection[str]) -> None:
        self._shell = shell
        self._withheld = withheld
        """Variables that a profile may set and no command is to have."""
        self._captures: dict[Boundary | None, asyncio.Task[LoginEnvironment | None]] = {}
        self._slow: set[Boundary | None] = set()
        """Where the profile takes so long that commands no longer wait for the capture."""

    def words(self, command: Command, login: LoginEnvironment | None) -> list[str]:
        """What to run, with what stands in for the profile or without."""
        if login is None:
            return _without_variables(command.argv, self._withheld)
        return [self._shell.path, "-c", *command.argv[2:]]

    def prepare(self, command: Command, start: Start) -> asyncio.Task[LoginEnvironment | None] | None:
        """Begin with the capture of the profile. None if `command` is no script for a login shell."""
        argv, shell = command.argv, self._shell
        if shell.name != "bash" or len(argv) != 3 or argv[1] != "-lc" or argv[0] not in (shell.path, "bash"):
            return None
        # One capture for each boundary: what a profile sets may depend on what it could read.
        reach = command.boundary if command.is_confined else None
        task = self._captures.get(reach)
        if task is None:
            task = self._captures[reach] = asyncio.get_running_loop().create_task(self._capture(command, start))
        return task

    async def environment(self, command: Command, start: Start) -> LoginEnvironment | None:
        """What stands in for the profile, if `command` is a script for the user's login shell."""
        task = self.prepare(command, start)
        if task is None:
            return None
        if not task.done():
            reach = command.boundary if command.is_confined else None
            if reach not in self._slow:
                await asyncio.wait((task,), timeout=_PATIENCE_S)
            if not task.done():
                self._slow.add(reach)  # this command reads the profile itself, and so do others until the task is done
                return None
        return task.result()

    def cancel(self) -> list[asyncio.Task[LoginEnvironment | None]]:
        """Capture nothing any more; gives what has still to end."""
        for task in self._captures.values():
            task.cancel()
        return list(self._captures.values())

    async def _capture(self, command: Command, start: Start) -> LoginEnvironment | None:
        """Runs where the command would run: a profile gets no more rights than what it prepares.

        Outside of a sandbox it is never killed: a profile stopped half-way leaves its lock files behind, and the
        user's next login would wait for them.
        """
        if not hasattr(os, "memfd_create"):
            return None
        is_confined = command.is_confined
        folder = command.boundary.cwd if command.boundary is not None else command.cwd
        probe = Command(argv=[self._shell.path, "-lc", _SCRIPT], cwd=folder, boundary=command.boundary)
        printed = os.memfd_create("login-capture", os.MFD_CLOEXEC)
        try:
            mark = None if is_confined else _PROFILE_MARK
            running = await start(probe, lambda _: None, mark=mark, output_file=printed)
            try:
                # Shielded: `finished` belongs to the program. Cancelled with this task, it would never tell its end.
                code = await asyncio.shield(running.finished)
            except asyncio.CancelledError:
                if not is_confined:
                    running.abandon()
                raise
            output = os.pread(printed, _CAPTURE_BYTES + 1, 0)
        except (OSError, SandboxUnavailable):
            return None  # the command itself will say what is wrong
        finally:
            os.close(printed)
        if code != 0 or len(output) > _CAPTURE_BYTES:
            return None
        captured = _read_capture(output, folder)
        if captured is not None:
            captured.env.pop(kill.MARK_NAME, None)
            captured.env.pop(NETWORK_DISABLED, None)
            for name in [name for name in captured.env if name in self._withheld or is_loader_variable(name)]:
                del captured.env[name]
        return captured


def _without_variables(argv: Sequence[str], names: Collection[str]) -> list[str]:
    """The words that run a script in a login shell, and make it forget these variables of the profile first."""
    words = list(argv)
    if names and len(words) == 3 and words[1] == "-lc" and os.path.basename(words[0]) in _POSIX_SHELLS:
        words[2] = f"unset {' '.join(sorted(names))}; {words[2]}"
    return words


def _read_capture(output: bytes, cwd: str) -> LoginEnvironment | None:
    """What `_SCRIPT` printed; None when a plain shell could not stand in for the login shell."""
    # A profile may print things of its own before the first mark.
    sections = output.split(b"\0" + _MARK.encode() + b"\0")
    if len(sections) != 7:
        return None
    _, variables, place, options, plain, definitions, _ = sections
    folder, *traps = place.rstrip(b"\n").split(b"\n")
    # An ignored signal, often since before the profile (nohup, a job in the background), can be ignored again.
    if os.fsdecode(folder) != os.path.realpath(cwd) or not all(trap.startswith(b"trap -- '' ") for trap in traps):
        return None
    env: dict[str, str] = {}
    for entry in variables.split(b"\0"):
        name, equals, value = os.fsdecode(entry).partition("=")
        if equals and name not in _PER_PROCESS:
            env[sys.intern(name)] = sys.intern(value)  # a process may hold many threads, all with the same
    unsettable = tuple(name.encode() for name in _UNSETTABLE)
    # What a shell has without a profile need not be said to it: reading all of it takes as long as half a start.
    known = {b"", _own_umask(), *plain.split(b"\n")}
    settings = [line for line in [*options.split(b"\n"), *traps] if line not in known and not line.endswith(unsettable)]
    setup = (definitions.strip(b"\n"), *settings)
    return LoginEnvironment(env=env, setup=b"".join(part + b"\n" for part in setup if part))


def _own_umask() -> bytes:
    """The line of `umask -p` in a program that we start; empty where the kernel does not tell."""
    try:
        facts = proc_files.read("/proc/self/status").split(b"\n")
    except OSError:
        return b""
    return next((b"umask " + fact.split()[1] for fact in facts if fact.startswith(b"Umask:")), b"")


def setup_file(login: LoginEnvironment) -> int:
    """A descriptor of a file in memory that `BASH_ENV` can name; the shell reads it before the command.

    It forgets itself at once, so that scripts started by the command do not read it again.
    """
    fd = os.memfd_create("login-setup", os.MFD_CLOEXEC)
    inherited = login.env.get("BASH_ENV")
    forget = "unset BASH_ENV" if inherited is None else f"BASH_ENV={_quoted(inherited)}"
    os.write(fd, f"{forget}\nexec {fd}<&-\n".encode("utf-8", "surrogateescape") + login.setup)
    return fd


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
