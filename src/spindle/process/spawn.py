"""Start one program: with its streams and its mark, in the thread whose rights it is to inherit.

`preexec_fn` is never used: it is unsafe with threads and costs the fast spawn. Whether something may run, and inside
what, is decided elsewhere; what becomes of it is `running`.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from spindle.process import kill
from spindle.process.sandbox.launch import Launch, Popen

_PIPE_SIZE = 1024 * 1024
_F_SETPIPE_SZ = 1031


class SpawnSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What to start. The launch already holds the sandbox's launcher, if there is one."""

    launch: Launch
    cwd: str
    mark: kill.Mark
    """Carried by whatever the command leaves behind, so that it can be found."""
    tty: bool = False
    size: tuple[int, int] | None = None
    """Rows and columns of the terminal."""
    pass_fds: tuple[int, ...] = ()
    output_file: int | None = None
    """A descriptor that takes standard output, for a program nobody listens to; its errors go nowhere."""
    input_file: int | None = None
    """A descriptor that is standard input; nothing to read without one."""
    error_file: int | None = None
    """A descriptor that takes standard error, where it is to be told from the output."""


def start(spec: SpawnSpec) -> tuple[Popen, int]:
    """Start the program; gives it, and the descriptor that its output is read from (-1 where a file takes it).

    Raises OSError when it cannot be executed. Errors share the output's pipe, or go apart.
    """
    argv = spec.launch.argv
    env = {**spec.launch.env, kill.MARK_NAME: spec.mark.text}
    if spec.tty:
        from spindle.process import pty  # few programs want a terminal

        terminal = pty.open_terminal(spec.size)
        ours, theirs = terminal.outer, terminal.inner
        argv = pty.with_controlling_terminal(argv, terminal.path, has_launcher=spec.launch.has_launcher)
        stdin = stdout = stderr = theirs
    elif spec.output_file is not None:
        ours = theirs = -1
        stdin, stdout, stderr = subprocess.DEVNULL, spec.output_file, subprocess.DEVNULL
    else:
        ours, theirs = _pipe()
        stdin = subprocess.DEVNULL if spec.input_file is None else spec.input_file
        stdout, stderr = theirs, theirs if spec.error_file is None else spec.error_file
    try:
        with kill.marking(spec.mark):
            popen = begin(
                spec.launch,
                argv,
                env,
                spec.pass_fds,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=spec.cwd,
                start_new_session=True,  # no terminal of ours, and the session's number leads to its members (`kill`)
            )
    except BaseException:
        if ours >= 0:
            os.close(ours)
        raise
    finally:
        if theirs >= 0:
            os.close(theirs)  # here too, or the output would never end
    return popen, ours


def begin(
    launch: Launch, argv: Sequence[str], env: Mapping[str, str], files: tuple[int, ...] = (), **options: Any
) -> Popen:
    """Start a launch. `argv` and `env` are its own, or its own with something in front; `files` go along."""

    def run() -> Popen:
        popen = cast(Popen, subprocess.Popen(list(argv), env=dict(env), pass_fds=launch.files + files, **options))
        launch.note(popen.pid)
        return popen

    try:
        return launch.start(run)
    finally:
        for fd in launch.files:
            os.close(fd)


def _pipe() -> tuple[int, int]:
    read_end, write_end = os.pipe()
    try:
        fcntl.fcntl(write_end, _F_SETPIPE_SZ, _PIPE_SIZE)
    except OSError:
        pass  # a small pipe only costs more reads
    os.set_blocking(read_end, False)
    return read_end, write_end
