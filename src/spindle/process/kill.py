"""End a command and everything that came of it, also what tried to get away.

A process belongs to a command if it is below the leader in the process tree, if it is in the leader's session, or if
it carries the command's mark. The mark is inherited twice: as a variable, and as the value of a resource limit that no
kernel of this century enforces, which a daemon keeps even when it empties its environment. As a "subreaper" this
process becomes the parent of such daemons, so it need only look among its own descendants.
On systems without /proc only the leader's process group can be reached.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import msgspec

from spindle import process
from spindle.process import proc_files

MARK_NAME = "SPINDLE_COMMAND_ID"

_PR_SET_CHILD_SUBREAPER = 36
_RLIMIT_LOCKS = 10
NUMBER_BITS = 20
_MAX_PASSES = 50
_PASS_PAUSE_S = 0.002


_marking = threading.Lock()


class Mark(msgspec.Struct, frozen=True):
    """Names one command of one table, or (number 0) all commands of the table."""

    table: int
    """Random, below 2**40."""
    number: int = 0

    @property
    def text(self) -> str:
        return f"{self.table:x}.{self.number or ''}"

    @property
    def limit(self) -> int:
        return self.table << NUMBER_BITS | self.number % (1 << NUMBER_BITS)

    def is_on(self, pid: int) -> bool:
        value = _lock_limit(pid)
        if value >> NUMBER_BITS == self.table:
            return not self.number or value == self.limit
        end = b"\0" if self.number else b""
        return f"\0{MARK_NAME}={self.text}".encode() + end in _environ(pid)


class _State:
    """What this process knows about its own children. One per process, like the kernel's flag it mirrors."""

    subreaper: bool | None = None
    leaders: set[int] = set()
    """Leaders somebody waits for. Every other dead child that carries a mark is ours to reap."""
    tables: set[int] = set()


@contextmanager
def marking(mark: Mark) -> Iterator[None]:
    """Processes started inside carry `mark` as a resource limit."""
    import resource  # small, but nothing needs it before the first command

    _State.tables.add(mark.table)
    # A limit belongs to the whole process, so it counts whichever of our threads forks. Whoever starts a program waits
    # in here until it runs, and event loops of other threads wait for that: no program gets another's mark.
    with _marking:
        try:
            soft, hard = resource.getrlimit(_RLIMIT_LOCKS)
            resource.setrlimit(_RLIMIT_LOCKS, (mark.limit, hard))
        except (OSError, ValueError):
            yield  # not Linux, or a hard limit is set: the variable must do
            return
        try:
            yield
        finally:
            resource.setrlimit(_RLIMIT_LOCKS, (soft, hard))


def become_subreaper() -> bool:
    """Inherit orphans of our commands from now on; False where the system cannot do that.

    Not in a program that embeds us: it would inherit orphans of its own children too, and nobody would reap those.
    There, every process of the system is looked at for our marks instead.
    """
    if not process.is_ours:
        return False
    if _State.subreaper is None:
        _State.subreaper = _call_prctl()
    return _State.subreaper


def note_leader(pid: int, *, is_over: bool = False) -> None:
    """Somebody waits for this child; or does no longer."""
    (_State.leaders.discard if is_over else _State.leaders.add)(pid)


def signal_tree(leaders: Collection[int], mark: Mark, number: int, *, spare: Collection[int] = ()) -> None:
    """Send one signal to every process of the commands, except those to `spare`."""
    # Parents first: a shell whose command dies before the signal has reached the shell goes on with its next line.
    for pid in dict.fromkeys((*leaders, *members(leaders, mark))):
        if pid not in spare:
            _send(pid, number)


def kill_tree(leaders: Collection[int], mark: Mark) -> bool:
    """SIGKILL until nothing of the commands is left. Bounded: about a tenth of a second against a fork bomb.

    `leaders` are those nobody has reaped yet; a number that was reaped may belong to someone else by now. False when
    something may be left.
    """
    # The group first: one call that none of its members can run away from, while the list below is out of date as soon
    # as it is made. A new fork inherits parent, session and mark, so some later pass finds it.
    for leader in leaders:
        _send_group(leader, signal.SIGKILL)
        _send(leader, signal.SIGKILL)
    is_done = False
    dead: set[int] = set()
    for _ in range(_MAX_PASSES):
        found = members(leaders, mark)
        alive = [pid for pid in found if not is_over(pid)]
        for pid in alive:
            _send(pid, signal.SIGKILL)
        # Who dies while a pass reads the tree hides its children from that pass: they have become ours, and our own
        # children were listed before. So only a pass that meets none but those who were dead before it proves anything.
        if is_done := not alive and dead.issuperset(found):
            break
        dead = set(found).difference(alive)
        if alive:
            time.sleep(_PASS_PAUSE_S)
    reap_orphans()
    return is_done


def kill_leftovers(mark: Mark) -> bool:
    """End what finished commands left in the background; False when something may be left."""
    return not members((), mark) or kill_tree((), mark)


def members(leaders: Collection[int], mark: Mark) -> list[int]:
    """Every process that belongs to the commands."""
    own = os.getpid()
    tree = _descendants(own)
    if not _State.subreaper:
        # Daemons have become children of the system's first process: they are found by their mark, or not at all.
        tree |= {pid: 1 for pid in _all_pids() if pid not in tree and pid != own}
    found: dict[int, None] = {}
    for pid, parent in tree.items():  # parents come before their children
        if pid in leaders or parent in found or mark.is_on(pid) or _session_of(pid) in leaders:
            found[pid] = None
    return list(found)


def descendants() -> list[int]:
    """Every process that this one started, and what those started."""
    return list(_descendants(os.getpid()))


def parent_of(pid: int) -> int:
    """The number of a process's parent; 0 when it is gone."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def reap_orphans() -> None:
    """Take the exit status of dead daemons of our commands; never of a child somebody else started."""
    if not _State.subreaper:
        return
    for pid in _children(os.getpid()):
        # Somebody waits for a leader, and a child without a mark is not ours to reap: `subprocess` elsewhere in this
        # process would never hear of its end.
        if pid in _State.leaders or _lock_limit(pid) >> NUMBER_BITS not in _State.tables or not is_over(pid):
            continue
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass


# ---- reading /proc -------------------------------------------------------------------------------------


def _descendants(pid: int) -> dict[int, int]:
    """Every process below `pid` with its parent, parents first."""
    found: dict[int, int] = {}
    queue = [pid]
    for parent in queue:
        for child in _children(parent):
            if child not in found:
                found[child] = parent
                queue.append(child)
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            children += map(int, proc_files.read(f"/proc/{pid}/task/{task}/children").split())
    except FileNotFoundError:
        if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
            return _children_by_scan(pid)
    except OSError:
        pass
    return children


def _children_by_scan(pid: int) -> list[int]:
    """For kernels built without the list of children."""
    return [other for other in _all_pids() if (fields := _stat(other)) and int(fields[1]) == pid]


def _all_pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _stat(pid: int) -> list[bytes]:
    """State, parent, group, session … of a process; empty when it is gone."""
    try:
        # A program may have blanks and brackets in its name.
        return proc_files.read_record(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        return []


def _session_of(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[3]) if fields else -1


def is_over(pid: int) -> bool:
    """Has the process, or thread, ended? Its status may still wait for somebody."""
    fields = _stat(pid)
    return not fields or fields[0] in (b"Z", b"X")


def _lock_limit(pid: int) -> int:
    """The soft limit that carries a mark; -1 if it is unlimited, or the process is gone."""
    try:
        _, found, rest = proc_files.read_record(f"/proc/{pid}/limits").partition(b"\nMax file locks")
    except OSError:
        return -1
    value = rest.split(None, 1)[0] if found else b""
    return int(value) if value.isdigit() else -1


def _environ(pid: int) -> bytes:
    try:
        return b"\0" + proc_files.read(f"/proc/{pid}/environ")
    except OSError:
        return b""


def _send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
        return True
    except OSError:
        return False


def _send_group(leader: int, number: int) -> None:
    try:
        os.killpg(leader, number)
    except OSError:
        pass


def _call_prctl() -> bool:
    if sys.platform != "linux":
        return False
    import ctypes  # 9 ms; only when a command runs outside a sandbox, which has its own process namespace

    try:
        return ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False
