"""What the user's login shell sets up, learnt once instead of with every command.

`bash -lc TEXT` reads the profile each time, which may take a fifth of a second. After one look at what the profile
leaves behind, `bash -c TEXT` with that environment, and with the functions, options and variables read from a file
in memory, gives the same result. Where a profile sets no more than the environment, as most do, there is nothing to
read. When the profile leaves something that cannot be carried over this way (a trap, another working directory), or the
shell is not bash, commands keep their `-lc`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

import msgspec

from spindle.process import proc_files

PATIENCE_S = 1.0
"""How long a command waits for the capture before it reads the profile itself."""
CAPTURE_BYTES = 1024 * 1024

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


def capture_argv(shell_path: str) -> list[str]:
    """The command that prints what the profile leaves behind."""
    return [shell_path, "-lc", _SCRIPT]


def without_variables(argv: Sequence[str], names: Collection[str]) -> list[str]:
    """The words that run a script in a login shell, and make it forget these variables of the profile first."""
    words = list(argv)
    if names and len(words) == 3 and words[1] == "-lc" and os.path.basename(words[0]) in _POSIX_SHELLS:
        words[2] = f"unset {' '.join(sorted(names))}; {words[2]}"
    return words


def read_capture(output: bytes, cwd: str) -> LoginEnvironment | None:
    """What `capture_argv` printed; None when a plain shell could not stand in for the login shell."""
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
            env[name] = value
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


def setup_file(login: LoginEnvironment, original: Mapping[str, str]) -> int:
    """A descriptor of a file in memory that `BASH_ENV` can name; the shell reads it before the command.

    It forgets itself at once, so that scripts started by the command do not read it again.
    """
    fd = os.memfd_create("login-setup", os.MFD_CLOEXEC)
    inherited = original.get("BASH_ENV")
    forget = "unset BASH_ENV" if inherited is None else f"BASH_ENV={_quoted(inherited)}"
    os.write(fd, f"{forget}\nexec {fd}<&-\n".encode("utf-8", "surrogateescape") + login.setup)
    return fd


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
