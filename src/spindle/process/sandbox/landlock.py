"""The second fence on Linux, for systems where bubblewrap cannot work: Landlock, by plain system calls.

It is used only when the user asks for it by name, because it gives less; `lacks()` says what. Landlock knows grants
and no exceptions, so everything below a writable root can be written: to spare `.git` one would have to grant each of
its neighbours instead of the root, and then nothing new could be made in the root itself. What it restricts is the
calling thread and the processes that thread starts, so it is applied once per boundary in a thread that does nothing
but start commands. The filter of system calls closes the network, and more here than elsewhere.
"""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from functools import cache

import msgspec

from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import Boundary, is_below
from spindle.process.sandbox import kernel, seccomp
from spindle.process.sandbox.launch import Launch, Wanted
from spindle.process.sandbox.sockets import SocketRules, SocketWatch
from spindle.process.sandbox.spawner import Spawner

LEAST_ABI = 3
"""Earlier kernels (before Linux 6.2) let every file of the user be cut to nothing."""

WRITE_FILE, REMOVE_DIR, REMOVE_FILE = 1 << 1, 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1 << 0, 1 << 1

_CHANGES = (
    WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM | REFER | TRUNCATE
)
"""What a writable root allows. Device files are not among it: nobody makes one for honest work."""
_FILE_CHANGES = WRITE_FILE | TRUNCATE | IOCTL_DEV
"""What means anything for a single file; the kernel refuses the rest."""
_ALL_CHANGES = _CHANGES | MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts")
"""Writable in every mode: they lead nowhere, or to the command's own terminal."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = kernel.CREATE_RULESET, 445, 446
_PATH_BENEATH = 1
_PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4
_CAPABILITIES_V3 = 0x20080522
_PROBE = ("/bin/sh", "-c", '(: >> "$0") 2>/dev/null && echo written; true')
_PROBE_LIMIT_S = 20.0


class Ruleset(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel is told: the kinds of access it is to refuse, and where they are allowed all the same."""

    abi: int
    files: int
    tcp: int
    scopes: int
    grants: tuple[tuple[str, int], ...]
    """Paths, and what is allowed there and below."""

    @property
    def has_roots(self) -> bool:
        """Is there a folder to work in?"""
        return any(allowed & MAKE_REG for _, allowed in self.grants)


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """The version of Landlock that this kernel speaks; 0 when it has none, or has it switched off."""
    if sys.platform != "linux":
        return 0
    return kernel.landlock_version()


def unusable(version: int) -> str | None:
    """Why this version is no fence, in a few words; None if it is one."""
    if sys.platform == "linux" and not seccomp.machine():
        return f"there is no filter of system calls for {os.uname().machine} machines"
    if version == 0:
        return "this kernel has no Landlock, or has it switched off"
    if version < LEAST_ABI:
        return f"Landlock is too old here: version {version}, and {LEAST_ABI} is needed (Linux 6.2)"
    return None


def enforced(version: int) -> tuple[str, ...]:
    """What this version of Landlock really refuses, for people."""
    found = ["writing, creating, removing, renaming and truncating files outside the writable folders"]
    if version >= 5:
        found.append("commands to devices (ioctl)")
    if version >= 6:
        found.append("signals to processes outside, and their abstract sockets")
    return tuple(found)


def lacks(version: int) -> tuple[str, ...]:
    """What bubblewrap gives and this fence does not, for people; each completes "it does not…"."""
    found = [
        "protect .git, .codex, .agents and the like inside a writable folder",
        "keep the modes and times of your files outside from being changed (unless in read-only mode)",
        "hide other processes or the machine's name",
        "deny reading any file (deny_read)",
        "give commands a loopback network, shared memory or a /dev of their own",
        "limit processes or memory",
    ]
    if version < 5:
        found.append("keep commands from devices that can be opened for reading")
    if version < 6:
        found.append("keep commands from sending signals to your other processes, or using their abstract sockets")
    return tuple(found)


def ruleset(boundary: Boundary, version: int) -> Ruleset:
    """What to tell a kernel of this version. Raises SandboxUnavailable when Landlock cannot express the boundary."""
    _refuse_the_impossible(boundary)
    known = _known_to(version)
    grants = [(path, _FILE_CHANGES) for path in _DEVICES]
    for root in boundary.roots:
        grants.append((root, _CHANGES))
    is_offline = not boundary.has_network
    return Ruleset(
        abi=version,
        files=_ALL_CHANGES & known,
        tcp=BIND_TCP | CONNECT_TCP if version >= 4 and is_offline else 0,
        scopes=SCOPE_SIGNALS | (SCOPE_ABSTRACT_SOCKETS if is_offline else 0) if version >= 6 else 0,
        grants=tuple((path, allowed & known) for path, allowed in grants),
    )


def reading_only(version: int) -> Ruleset:
    """For a program of our own that reads what others have made: it writes nothing but devices, and calls nobody."""
    known = _known_to(version)
    return Ruleset(
        abi=version,
        files=_ALL_CHANGES & known,
        tcp=CONNECT_TCP if version >= 4 else 0,
        scopes=SCOPE_SIGNALS | SCOPE_ABSTRACT_SOCKETS if version >= 6 else 0,
        grants=(("/dev", _CHANGES & known | IOCTL_DEV & known),),
    )


def _known_to(version: int) -> int:
    """An unknown bit makes the kernel refuse the whole ruleset."""
    known = (1 << 13) - 1
    if version >= 2:
        known |= REFER
    if version >= 3:
        known |= TRUNCATE
    if version >= 5:
        known |= IOCTL_DEV
    return known


def _refuse_the_impossible(boundary: Boundary) -> None:
    fence = boundary.fence
    if fence.read == "workspace":
        raise SandboxUnavailable(
            'read = "workspace" is set, which the Landlock back end cannot enforce, so nothing was run; set '
            'read = "all" under [spindle.sandbox], or use bubblewrap'
        )
    if (reason := _beyond_landlock(boundary)) is not None:
        raise SandboxUnavailable(
            f"the permission profile {reason}, which the Landlock back end cannot enforce, so nothing was run; use "
            "another profile, or bubblewrap"
        )
    asked = {"deny_read": boundary.denied or fence.hidden, "pids_max": fence.pids_max, "memory_max": fence.memory_max}
    for key, value in asked.items():
        if value:
            raise SandboxUnavailable(
                f"{key} is set, which the Landlock back end cannot enforce, so nothing was run; remove {key}, or use "
                "bubblewrap"
            )
    for home in boundary.homes:
        for root in boundary.roots:
            if is_below(home, root):
                raise SandboxUnavailable(
                    f"the agent's own folder {home} lies inside the writable folder {root}, and the Landlock back end "
                    "cannot keep it read-only there, so nothing was run; work in another folder, or use bubblewrap"
                )


def _beyond_landlock(boundary: Boundary) -> str | None:
    """What a permission profile asks for that has no name here, in a few words."""
    rules = boundary.rules
    if rules is None:
        return None
    if any(rule.access == "deny" for rule in rules.rules if rule.pattern != "/"):
        return "denies paths"
    if not rules.shows_everything:
        return "lets only some paths be read"
    if any(is_below(path, root) for path in rules.plain("read") for root in boundary.roots):
        return "keeps paths read-only inside of writable ones"
    return None


def restrict_thread(rules: Ruleset) -> None:
    """Confine the calling thread, for good, and everything it starts from now on. Raises OSError."""
    libc = _libc()
    attributes = _RulesetAttributes(rules.files, rules.tcp, rules.scopes)
    # Older kernels know a shorter structure, and refuse a longer one unless the rest is zero.
    size = 8 if rules.abi < 4 else 16 if rules.abi < 6 else 24
    made = _checked(libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0)))
    try:
        for path, allowed in rules.grants:
            _grant(libc, made, path, allowed)
        _drop_capabilities(libc)
        kernel.forbid_new_privileges()
        _checked(libc.syscall(_RESTRICT_SELF, ctypes.c_int(made), ctypes.c_uint32(0)))
    finally:
        os.close(made)


def _grant(libc: ctypes.CDLL, made: int, path: str, allowed: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return  # what is not there needs no grant
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            allowed &= _FILE_CHANGES
        rule = _PathBeneath(allowed, fd)
        _checked(
            libc.syscall(
                _ADD_RULE,
                ctypes.c_int(made),
                ctypes.c_int(_PATH_BENEATH),
                ctypes.byref(rule),
                ctypes.c_uint32(0),
            )
        )
    finally:
        os.close(fd)


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """User 0 keeps its files and loses its powers, as in the other sandbox. Others have none to lose."""
    if os.geteuid() != 0:
        return
    for number in range(64):
        if libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break  # past the last one this kernel knows, or not ours to drop
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    none = (ctypes.c_uint32 * 6)()
    _checked(libc.capset(ctypes.byref(header), ctypes.byref(none)))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


# ---- starting commands -----------------------------------------------------------------------------


class _Keeper:
    """The thread that starts commands of one boundary, and those who answer for what they connect to."""

    def __init__(self, rules: Ruleset, *, has_network: bool) -> None:
        self._rules = rules
        self._has_network = has_network
        self._listener = -1
        self.spawner = Spawner(self._prepare, "landlock-spawner")
        self.watch: SocketWatch | None = None
        if self._listener >= 0:
            # Not in the spawner's thread: a thread made there would have to answer for itself.
            self.watch = SocketWatch(self._listener, seccomp.watched(seccomp.machine()))

    def _prepare(self) -> None:
        arch = seccomp.machine()
        try:
            kernel.leave_keyring()
        except OSError:
            pass  # a kernel without keyrings
        restrict_thread(self._rules)
        try:
            self._listener = kernel.install_listener(seccomp.watch(arch))
        except OSError:
            pass  # an old kernel, or somebody else listens already: Unix sockets are refused altogether
        kernel.install_filter(seccomp.without_namespaces(arch, writes=self._rules.has_roots))
        kernel.install_filter(seccomp.confinement(arch, inet=self._has_network, unix=self._listener >= 0))


@cache
def _keeper(rules: Ruleset, *, has_network: bool) -> _Keeper:
    return _Keeper(rules, has_network=has_network)


@cache
def problem() -> str | None:
    """Why Landlock cannot be used here, in a few words, found by trying; None when it can."""
    version = abi()
    if (reason := unusable(version)) is not None:
        return reason
    import tempfile  # only for those who chose this fence

    rules = Ruleset(abi=version, files=_ALL_CHANGES & _known_to(version), tcp=0, scopes=0, grants=())
    try:
        with tempfile.NamedTemporaryFile(prefix="spindle-probe-") as file:
            argv = (*_PROBE, file.name)
            keeper = _keeper(rules, has_network=True)
            done = keeper.spawner.call(lambda: subprocess.run(argv, capture_output=True, timeout=_PROBE_LIMIT_S))
    except OSError as error:
        return f"the kernel refuses its rules: {error.strerror}"
    except subprocess.TimeoutExpired:
        return "a confined command did not answer"
    if done.returncode != 0:
        return "a confined command could not be started"
    return "a confined command could write all the same" if done.stdout else None


def launch(wanted: Wanted) -> Launch:
    """The command itself, started behind the fence. SandboxUnavailable when Landlock cannot express the boundary."""
    boundary, argv, env = wanted.boundary, wanted.argv, wanted.env
    assert boundary is not None
    has_network = boundary.has_network
    keeper = _keeper(ruleset(boundary, abi()), has_network=has_network)
    leader = 0

    def note(pid: int) -> None:
        nonlocal leader
        leader = pid
        if keeper.watch is not None:
            allowed = boundary.fence.unix_sockets
            keeper.watch.set_rules(pid, SocketRules(roots=boundary.roots, allowed=allowed, own_network=False))

    def release() -> None:
        if keeper.watch is not None:
            keeper.watch.forget(leader)

    return Launch(argv=argv, env=env, is_confined=True, start=keeper.spawner.call, note=note, release=release)


# ---- words -----------------------------------------------------------------------------------------


def offer(version: int) -> str:
    """What to add to a sentence that says why bubblewrap does not work."""
    return (
        'or accept the weaker Landlock fence by `backend = "landlock"` under [spindle.sandbox], which does not '
        + _listed(lacks(version))
    )


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + ", or " + parts[-1]
