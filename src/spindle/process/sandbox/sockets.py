"""Which sockets a confined program may reach: those of its own world, not those of programs outside.

A network namespace keeps a program from the network and from abstract names, but a Unix socket with a path can be
reached from anywhere the file is seen, and behind it may be a container engine, a key agent or the session bus. No
mount helps, since sockets may appear later. So every `connect`, and every `sendto` with an address, is answered here:
the kernel stops the caller, we read the address once, judge it, and make the call ourselves on a copy of its
descriptor. The program never gets to use its own copy of the address, so changing it meanwhile changes nothing.

`sendmsg` can reach outside only from a Unix datagram socket. A program that has none makes its own calls; as soon as
one asks for such a socket, they are made here (`messages`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator

import msgspec

from spindle import process
from spindle.policy.sandbox import is_below
from spindle.process import kill, proc_files
from spindle.process.sandbox import kernel, messages, owners
from spindle.process.sandbox.caller import Caller
from spindle.process.sandbox.seccomp import Watched

_RECEIVE, _ANSWER, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104
_ON_ONE_PROCESSOR = 1
"""The caller sleeps until it is answered, so another processor need not be woken for either of us. Since Linux 6.6."""
_QUESTION = struct.Struct("=QIIiIQ6Q")
_REPLY = struct.Struct("=QqiI")
_GO_ON = 1
"""The kernel makes the call itself after all, with whatever the caller's memory holds by then. Safe only where nothing
in that memory decides anything: never for a call with an address."""

_AF_UNIX = 1
_PATH_AT = 2
_MOST_AT_ONCE = 48
"""Calls of one command that are answered at the same time: each may take minutes, and keeps a thread."""
_PATIENCE, _PAUSE_S = 100, 0.005
_SWITCH_S = 0.0005
_MOST_SENDERS = 4096

_PRIVATE_FOLDERS = ("/dev",)
"""Made anew for each command, so whatever listens there is its own."""


class SocketRules(msgspec.Struct, frozen=True, kw_only=True):
    """What confined programs may connect to."""

    roots: tuple[str, ...] = ()
    """Sockets below these folders are theirs, unless a program outside made them."""
    allowed: tuple[str, ...] = ()
    """Sockets of programs outside that the user lets them use."""
    own_network: bool = True
    """Their network namespace is their own: names without a file, and sockets unknown outside, are theirs."""


class SocketWatch:
    """Answers for one listener until it is closed."""

    def __init__(self, listener: int, calls: Watched) -> None:
        self._listener = listener
        self._calls = calls
        self._rules: dict[int, SocketRules] = {}
        self._with_datagrams: set[int] = set()
        """Leaders of commands that have to be asked where they send."""
        self._senders: set[int] = set()
        """Threads that were let go on with a `sendmsg` of their own."""
        self._asks_all = False
        """One of those may still bring a datagram socket to a command that never asked for one."""
        self._lock = threading.Lock()
        """Protects the counts below, and makes one step of two: to see that a command has no datagram socket, and to
        let one of its threads send by itself. A socket that came in between would be sent from unwatched."""
        self._threads: set[threading.Thread] = set()
        self._idle: set[threading.Thread] = set()
        """Those that wait for a call."""
        self._made = 0
        self._closer = 0
        """The thread that ends the others; 0 until then."""
        self._busy: dict[int, int] = {}
        """How many calls are being answered, by the leader of their command."""
        self._queues: dict[int, deque[Caller]] = {}
        """Those of a command that has too many."""
        self._starts_with_datagrams = any(map(messages.is_unix_datagram, (0, 1, 2)))
        """Commands may be given our own streams."""
        with contextlib.suppress(OSError):
            fcntl.ioctl(listener, _SET_FLAGS, _ON_ONE_PROCESSOR)
        # Every look at a caller lets another thread run; a busy one would keep us, and the caller, waiting each time.
        if process.is_ours:
            sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))
        self._add_thread()

    def set_rules(self, leader: int, rules: SocketRules) -> None:
        """Say what the command whose first process is `leader` may connect to."""
        # The process has been running for a moment already: its number is known only after it was started. Calls that
        # come before this line wait in `_leader_of`.
        self._rules[leader] = rules
        if self._starts_with_datagrams:
            self._with_datagrams.add(leader)

    def forget(self, leader: int) -> None:
        self._rules.pop(leader, None)
        self._with_datagrams.discard(leader)

    def _leader_of(self, caller: Caller) -> int:
        """The first process of the command that a caller belongs to. It may be so new that nobody has said yet."""
        # What was found before the caller was last seen alive holds: the tree above a confined process does not change.
        if caller.leader in self._rules:
            return caller.leader
        for _ in range(_PATIENCE):
            if leader := self._leader_now(caller):
                return leader
            time.sleep(_PAUSE_S)
        raise PermissionError(errno.EPERM, "nobody knows this process")

    def _leader_now(self, caller: Caller) -> int:
        """The same as far as it is known; 0 if nobody has said. Raises OSError when the caller is gone."""
        pid, parent = caller.process_and_parent()
        if pid in self._rules:
            return pid
        pid = parent
        # Inside a process namespace an orphan stays below the leader. Without one it becomes a child of ours, nobody
        # knows it, and no Unix socket is open to it: to lose one's rules must not be a way to get others.
        while pid > 1:
            if pid in self._rules:
                return pid
            pid = kill.parent_of(pid)
        return 0

    def _add_thread(self) -> None:
        self._made += 1
        thread = threading.Thread(target=self._answer_all, name=f"sockets-{self._made}", daemon=True)
        self._threads.add(thread)
        self._idle.add(thread)
        thread.start()

    def close(self) -> list[threading.Thread]:
        """End the threads, when every command is over. Those that are returned are about to end; any other ends with
        the call that it is making for a caller who is gone.

        To be called by the thread whose calls are watched: the others sleep in the kernel until such a call is made.
        """
        import socket  # asyncio has loaded it

        with self._lock:
            self._closer = threading.get_native_id()
            idle = list(self._idle)
        for _ in idle:  # each call ends one
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as asking:
                asking.connect("/")
        return idle

    def _answer_all(self) -> None:
        while (caller := self._next_caller()) is not None:
            is_message = caller.number in (self._calls.sendmsg, self._calls.sendmmsg)
            if is_message and not self._with_datagrams and not self._asks_all:
                self._reply(caller)  # which takes no time
            elif not self._is_setting_up(caller):
                self._reply_in_turn(caller)
            with self._lock:
                if self._closer:
                    break
                self._idle.add(threading.current_thread())
        with self._lock:
            self._threads.discard(threading.current_thread())
            if not self._threads:
                os.close(self._listener)

    def _next_caller(self) -> Caller | None:
        """Wait for a call; None when there will be none."""
        while True:
            buffer = bytearray(_QUESTION.size)  # a new one each time: the kernel takes none that is not all zeros
            try:
                fcntl.ioctl(self._listener, _RECEIVE, buffer)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):  # a signal, or the caller is gone
                    continue
                with self._lock:
                    self._idle.discard(threading.current_thread())
                return None
            caller = Caller(self._listener, *_QUESTION.unpack(buffer))
            with self._lock:  # a connection may take minutes, so somebody must be free for the next caller
                if not self._closer:
                    self._idle.discard(threading.current_thread())
                    if not self._idle:
                        self._add_thread()
                    return caller
            # Every command is over: whatever still asks gets no answer but this one.
            self._answer(_REPLY.pack(caller.id, 0, -errno.EPERM, 0))
            if caller.tid == self._closer:
                return None

    def _is_setting_up(self, caller: Caller) -> bool:
        """Let a launcher go on: it asks for the name of the loopback interface, and sends two messages to set it up."""
        calls = self._calls
        try:
            # A confined program has one filter more than a launcher, and can take none off, so it never looks like one.
            if caller.number not in (calls.socket, calls.sendto) or not owners.is_launcher(caller.tid):
                return False
        except OSError:
            return False  # it is gone
        self._let_go_on(caller)
        return True

    def _reply_in_turn(self, caller: Caller) -> None:
        """Answer, unless too many calls of the same command are being answered: then one of those does it later."""
        try:
            leader = caller.leader = self._leader_now(caller)
        except OSError:
            return  # it is gone
        with self._lock:
            if self._busy.get(leader, 0) >= _MOST_AT_ONCE:
                self._queues.setdefault(leader, deque()).append(caller)
                return
            self._busy[leader] = self._busy.get(leader, 0) + 1
        while True:
            self._reply(caller)
            with self._lock:
                queue = self._queues.get(leader)
                if not queue:
                    self._queues.pop(leader, None)
                    self._busy[leader] -= 1
                    if not self._busy[leader]:
                        del self._busy[leader]
                    return
                caller = queue.popleft()

    def _reply(self, caller: Caller) -> None:
        try:
            result = self._result(caller)
        except OSError as error:
            result = -(error.errno or errno.EPERM)
        except Exception:
            # A bug of ours must neither let the call through nor leave the caller asleep for ever.
            result = -errno.EPERM
        if result is not None:
            self._answer(_REPLY.pack(caller.id, max(result, 0), min(result, 0), 0))

    def _answer(self, reply: bytes) -> None:
        with contextlib.suppress(OSError):  # the caller may be gone
            fcntl.ioctl(self._listener, _ANSWER, reply)

    def _result(self, caller: Caller) -> int | None:
        """The result of the call, made in the caller's name; negative = an error. None: the caller was let go on by
        itself."""
        calls = self._calls
        if caller.number == calls.connect:
            return self._connect(caller)
        if caller.number == calls.sendto:
            return messages.send_to(caller, self._judged)
        if caller.number in (calls.socket, calls.socketpair):
            self._admit_datagrams(self._leader_of(caller))
            self._let_go_on(caller)
            return None
        if self._goes_on_unasked(caller):
            return None
        send = messages.send_message if caller.number == calls.sendmsg else messages.send_messages
        return send(caller, self._judged)

    def _goes_on_unasked(self, caller: Caller) -> bool:
        """Let a caller send by itself if its command has no datagram socket."""
        # Not under the lock: this may wait for `set_rules`, and nobody else could be answered meanwhile.
        leader = self._leader_of(caller) if self._with_datagrams else 0
        with self._lock:  # until the caller is really on its way, nobody gets a datagram socket
            if self._asks_all or (self._with_datagrams and (not leader or leader in self._with_datagrams)):
                return False
            self._senders.add(caller.tid)
            if len(self._senders) > _MOST_SENDERS:
                self._senders = {tid for tid in self._senders if os.path.exists(f"/proc/{tid}")}
            self._let_go_on(caller)
            return True

    def _let_go_on(self, caller: Caller) -> None:
        self._answer(_REPLY.pack(caller.id, 0, 0, _GO_ON))

    def _connect(self, caller: Caller) -> int:
        fd, pointer, length, *_ = caller.arguments
        address = messages.read_address(caller, pointer, length & 0xFFFFFFFF)
        with caller.descriptor(fd & 0xFFFFFFFF) as socket, self._judged(caller, address) as judged:
            return kernel.connect(socket, judged)

    def _admit_datagrams(self, leader: int) -> None:
        """From now on the command's messages are sent here. Raises OSError when that cannot be made sure.

        A thread that was let go on has looked its socket up when it waits, does something else, or has run for a
        while. Before that, another thread could put the new socket in the place of the one it named. One that waits
        in the midst of sending may still have to look up what it passes on to another command.
        """
        # The mark comes first: from here on no thread of the command is let go on any more, so those that are on their
        # way become fewer with every look. The caller, who wants the socket, sleeps until all of them have arrived.
        with self._lock:
            self._with_datagrams.add(leader)
            begun = {tid: _time_run(tid) for tid in self._senders}
            self._senders.clear()
        for _ in range(_PATIENCE):
            begun = {tid: run for tid, run in begun.items() if self._is_on_its_way(tid, run)}
            if not begun:
                return
            time.sleep(_PAUSE_S)
        with self._lock:
            self._senders |= begun.keys()  # else the next one who wants a socket would not wait for these
        raise OSError(errno.EAGAIN, "another thread is sending")

    def _is_on_its_way(self, tid: int, begun: int | None) -> bool:
        """Whether a thread that was let go on may not have looked its socket up yet."""
        try:
            call = proc_files.read(f"/proc/{tid}/syscall").split(b" ", 1)[0].strip()
        except OSError:
            return not kill.is_over(tid)
        if call != b"running":
            self._asks_all |= call in (b"%d" % self._calls.sendmsg, b"%d" % self._calls.sendmmsg)
            return False
        run = _time_run(tid)
        return begun is None or run is None or run - begun < _LONG_ENOUGH_NS

    @contextlib.contextmanager
    def _judged(self, caller: Caller, address: bytes) -> Iterator[bytes]:
        """The address to use; raises OSError when it may not be used."""
        if len(address) <= _PATH_AT or int.from_bytes(address[:2], "little") != _AF_UNIX:
            yield address
            return
        rules = self._rules[self._leader_of(caller)]
        path = address[_PATH_AT:]
        if path[:1] == b"\0":
            if not rules.own_network and not owners.is_confined_name(path):
                raise PermissionError(errno.EPERM, "an abstract name of a program outside")
            yield address
            return
        # The path is looked up once, and what was found is used by its handle. However the caller swaps links and files
        # meanwhile, what is connected to is what was judged.
        found = caller.open(path.split(b"\0", 1)[0])
        try:
            _require_permitted(found, rules)
            yield address[:_PATH_AT] + f"/proc/self/fd/{found}".encode() + b"\0"
        finally:
            os.close(found)


_LONG_ENOUGH_NS = 2_000_000
"""Between being let go on and looking its socket up, a thread runs for some microseconds at most."""


def _time_run(tid: int) -> int | None:
    """For how many nanoseconds a thread has been running; None when it is gone."""
    try:
        return int(proc_files.read(f"/proc/{tid}/schedstat").split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _require_permitted(found: int, rules: SocketRules) -> None:
    """Raise OSError unless the socket with this handle may be used."""
    status = os.fstat(found)
    if not stat.S_ISSOCK(status.st_mode):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "not a socket")
    if any(_is_file(status, path) for path in rules.allowed):
        return
    # Where the handle is in our own view of the files, whatever path the caller took in its.
    place = os.readlink(f"/proc/self/fd/{found}")
    if not any(is_below(place, root) for root in (*rules.roots, *_PRIVATE_FOLDERS)):
        raise PermissionError(errno.EPERM, "a socket outside of the writable folders")
    if owners.belongs_outside(status, place, own_network=rules.own_network):
        raise PermissionError(errno.EPERM, "a socket of a program outside")


def _is_file(status: os.stat_result, path: str) -> bool:
    try:
        return os.path.samestat(status, os.stat(path))
    except OSError:
        return False
