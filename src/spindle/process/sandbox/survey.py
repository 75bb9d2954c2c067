"""Which fences this machine has, found by trying them: for `spindle doctor`, never when a command is run."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping

import msgspec

from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import Fence, boundary_of
from spindle.process import spawn
from spindle.process.sandbox import (
    back_end,
    backend_of,
    bubblewrap_here,
    landlock,
    limits,
    seatbelt,
    seccomp,
)
from spindle.process.sandbox.launch import Wanted
from spindle.process.sandbox.placeholders import placeholders_of
from spindle.protocol.settings import SandboxMode, SandboxPolicy

_LIMIT_S = 15.0

_SWITCHES = (
    ("/proc/sys/user/max_user_namespaces", "0", "user namespaces are switched off (user.max_user_namespaces = 0)"),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "only root may make user namespaces (kernel.unprivileged_userns_clone = 0)",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor lets only the programs it knows make user namespaces "
        "(kernel.apparmor_restrict_unprivileged_userns = 1); the bubblewrap package of your system is one of them",
    ),
)

_TRIAL = """
import os, socket, sys
outside, port, path, pid = sys.argv[1:]
def attempt(word, function):
    try:
        function()
    except OSError:
        return
    print(word)
attempt("read", lambda: open(sys.executable, "rb").close())
attempt("neighbours", lambda: open(outside, "rb").close())
attempt("inside", lambda: open("inside", "w").close())
attempt("protected", lambda: os.mkdir(".git"))
attempt("outside", lambda: open(outside, "a").close())
attempt("network", lambda: socket.create_connection(("127.0.0.1", int(port)), 2).close())
attempt("sockets", lambda: socket.socket(socket.AF_UNIX).connect(path))
attempt("signals", lambda: os.kill(int(pid), 0))
"""
"""Prints a word for each thing that it could do."""

WORDS = {
    "read": "read files",
    "inside": "write in its folder",
    "protected": "make a .git there",
    "outside": "write elsewhere",
    "network": "use the network",
    "sockets": "talk to other programs",
    "signals": "signal other programs",
}
NARROW_WORDS = {"neighbours": "read beside its folder"}
"""Tried where `read = "workspace"` says that it cannot."""


class Backend(msgspec.Struct, frozen=True, kw_only=True):
    """One back end: whether it works here, and what it does and does not do, in words that follow its name."""

    name: str
    is_usable: bool
    detail: str
    """How it was found to work, or why it does not."""
    gives: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What a command of one mode could really do."""

    mode: str
    backend: str
    could: tuple[str, ...] = ()
    could_not: tuple[str, ...] = ()
    failure: str | None = None
    """Why commands of this mode do not run, or what they could do and should not; None = as it should be."""


async def survey() -> tuple[Backend, ...]:
    """Every back end there is, tried by running it."""
    return await _bubblewrap(), await asyncio.to_thread(_landlock), await asyncio.to_thread(_seatbelt)


async def _bubblewrap() -> Backend:
    if sys.platform != "linux":
        return Backend(name="bubblewrap", is_usable=False, detail="for Linux only")
    reason = await asyncio.to_thread(bubblewrap_here.problem)
    if reason is not None:
        causes = [text for path, value, text in _SWITCHES if _content(path) == value]
        return Backend(name="bubblewrap", is_usable=False, detail="; ".join((reason, *causes)))
    found = bubblewrap_here.found()
    gives = [
        "gives commands their own view of files, processes, shared memory, host name and (if it is off) network",
        "protects .git, .codex, .agents and more, also while they do not exist",
        f"filters system calls ({seccomp.machine()})",
        "ends everything a command started when it ends, or Spindle does",
    ]
    lacks = [] if found.has_user_namespace else ["does not use a user namespace, which cannot be made here"]
    if found.watches_sockets:
        gives.append("allows Unix sockets inside, and none of programs outside")
    else:
        lacks.append("does not allow Unix sockets at all, because this kernel cannot watch them")
    if not found.closes_pipes:
        lacks.append("does not keep commands from writing into named pipes outside, for which Landlock is needed")
    version = await asyncio.to_thread(_version, found.program)
    detail = f"started a command with {found.program} ({version})"
    return Backend(name="bubblewrap", is_usable=True, detail=detail, gives=tuple(gives), lacks=tuple(lacks))


def _landlock() -> Backend:
    if sys.platform != "linux":
        return Backend(name="landlock", is_usable=False, detail="for Linux only")
    if (reason := landlock.problem()) is not None:
        return Backend(name="landlock", is_usable=False, detail=reason)
    version = landlock.abi()
    return Backend(
        name="landlock",
        is_usable=True,
        detail=f'version {version} kept a command from writing; used only with `backend = "landlock"`',
        gives=tuple(f"refuses {text}" for text in landlock.enforced(version)),
        lacks=tuple(f"does not {text}" for text in landlock.lacks(version)),
    )


def _seatbelt() -> Backend:
    if sys.platform != "darwin":
        return Backend(name="seatbelt", is_usable=False, detail="for macOS only")
    if (reason := seatbelt.problem()) is not None:
        return Backend(name="seatbelt", is_usable=False, detail=reason)
    return Backend(
        name="seatbelt",
        is_usable=True,
        detail=f"started a command with {seatbelt.PROGRAM}",
        gives=(
            "refuses writing outside the writable folders, and what is protected in them",
            "refuses the network unless it is allowed",
        ),
        lacks=(
            "does not give commands a loopback network of their own",
            "does not always end what a command leaves in the background",
        ),
    )


def resource_limits() -> str:
    """How `pids_max` and `memory_max` would be kept."""
    if sys.platform == "linux" and limits.can_group():
        return "by control groups, for a whole command"
    return "by the shell's limits, for each process; control groups cannot be made here"


async def try_mode(mode: SandboxMode, fence: Fence, env: Mapping[str, str]) -> Trial:
    """Run a command in this mode that tries to get out, in a scratch folder."""
    backend = backend_of(fence)
    with tempfile.TemporaryDirectory(prefix="spindle-doctor-") as scratch:
        scratch = os.path.realpath(scratch)
        try:
            could = await _run_trial(mode, fence, env, scratch)
        except (OSError, SandboxUnavailable, subprocess.TimeoutExpired) as error:
            return Trial(mode=mode, backend=backend, failure=str(error))
    wanted = {"read", "inside"} if mode == "workspace-write" else {"read"}
    if fence.read == "all":
        could.discard("neighbours")
    tried = {**WORDS, **(NARROW_WORDS if fence.read == "workspace" else {})}
    tolerated = {"protected"} if backend == "landlock" and mode == "workspace-write" else set[str]()
    wrong = [f"a command could {tried[word]}" for word in could if word not in wanted | tolerated]
    wrong += [f"a command could not {WORDS[word]}" for word in wanted if word not in could]
    return Trial(
        mode=mode,
        backend=backend,
        could=tuple(word for word in tried if word in could),
        could_not=tuple(word for word in tried if word not in could),
        failure="; ".join(wrong) or None,
    )


def _bind(listener: socket.socket, folder: str, name: str) -> None:
    """Give a socket a name in a folder, however long the folder's path is."""
    if not os.path.isdir("/proc/self/fd"):
        listener.bind(f"{folder}/{name}")
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{fd}/{name}")
    finally:
        os.close(fd)


async def _run_trial(mode: SandboxMode, fence: Fence, env: Mapping[str, str], scratch: str) -> set[str]:
    inside, home = f"{scratch}/work", f"{scratch}/home"
    os.mkdir(inside)
    os.mkdir(home, 0o700)
    open(f"{scratch}/outside", "w").close()
    policy = SandboxPolicy(mode=mode, exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
    boundary = boundary_of(policy, cwd=inside, env={}, home=home, fence=fence)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as neighbour:
        _bind(neighbour, scratch, "socket")
        neighbour.listen()
        # Seen from the command's folder: an address of a socket must be short, and a scratch folder's path may not be.
        socket_path = os.path.relpath(f"{scratch}/socket", inside)
        targets = (f"{scratch}/outside", str(server.getsockname()[1]), socket_path, str(os.getpid()))
        argv = [sys.executable, "-I", "-S", "-c", _TRIAL, *targets]
        wanted = Wanted(argv=argv, boundary=boundary, cwd=inside, env=env, home=home, tty=False)
        launch = (await back_end(boundary)).launch(wanted)
        try:
            popen = spawn.begin(
                launch,
                launch.argv,
                launch.env,
                cwd=inside,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            with popen:
                output, errors = await asyncio.to_thread(popen.communicate, timeout=_LIMIT_S)
        finally:
            launch.release()
            if backend_of(fence) == "bubblewrap":
                placeholders_of(home).close()
    if popen.returncode != 0:
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        raise OSError(
            f"a command ended with exit code {popen.returncode}: {lines[-1] if lines else 'nothing was said'}"
        )
    return set(output.decode().split())


def _content(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _version(program: str) -> str:
    try:
        done = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return "version unknown"
    return done.stdout.decode("utf-8", "replace").strip().removeprefix("bubblewrap ") or "version unknown"
