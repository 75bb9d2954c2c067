"""The ground an attack is made on: a workspace, what lies around it, and a host with listeners and a victim process.

Everything is made for one run and thrown away after it. The host side stays in the process of the tests, or in
processes it owns, so what it saw is not the attacker's word.
"""

from __future__ import annotations

import json
import os
import select
import selectors
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

KINDS = ("present", "absent", "pointer")
"""The workspace has all protected paths; none of them; or a `.git` file that points at a worktree's folder."""

_OLD = 1_000_000_000
LATE_S = 0.15
_MOST_LATE = 200
_PATIENCE_MS = 15_000
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class User:
    """Who runs the commands: the user of the tests, or one without rights when the tests run as root."""

    def __init__(self, name: str, uid: int, python: str, path: str) -> None:
        self.name, self.uid, self.python, self.python_path = name, uid, python, path

    @property
    def how(self) -> dict[str, Any]:
        """Arguments of `subprocess` that start a program as this user."""
        return {} if self.uid == os.getuid() else {"user": self.uid, "group": self.uid, "extra_groups": []}


class Arena:
    def __init__(
        self,
        stage: Path,
        user: User,
        kind: str = "present",
        *,
        keeps_stdio: bool = False,
        has_victim: bool = True,
    ) -> None:
        self.stage, self.user, self.kind = stage, user, kind
        self.root = Path(tempfile.mkdtemp(prefix="escape-", dir="/var/tmp"))
        self.root.chmod(0o755)
        self.slash_tmp = Path(tempfile.mkdtemp(prefix="escape-", dir="/tmp"))
        self.stamp = self.root.name
        self.ws = self.root / "ws"
        self.outside = self.root / "outside"
        self.codex_home = self.ws / "deep/agent-home" if kind == "absent" else self.root / "codex"
        self.host = Host(self)
        self.keeps_stdio = keeps_stdio
        self.has_victim = has_victim

    # ---- the tree ----------------------------------------------------------------------------------

    def build(self) -> None:
        for name in ("ws", "ws-evil", "extra", "outside/folder", "home/.ssh", "home/.config", "tmpdir", "deny/inner"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        for name in ("plain.txt", "script.sh", "src/main.c"):
            _write(self.ws / name, "untouched\n")
        os.symlink(self.outside, self.ws / "link-to-outside")
        for path in (".bashrc", ".profile", ".ssh/authorized_keys", ".netrc", ".gitconfig"):
            _write(self.root / "home" / path, "untouched\n")
        _write(self.root / "deny/secret.txt", f"denied {self.stamp}\n")
        _write(self.root / "deny/inner/deeper.txt", f"denied {self.stamp}\n")
        for path in ("auth.json", "rules/default.rules", "AGENTS.md", "history.jsonl", "sessions/old.jsonl"):
            _write(self.codex_home / path, "{}\n" if path.endswith("json") else "# untouched\n")
        _write(self.codex_home / "config.toml", self._config())
        for path in (self.codex_home, *self.codex_home.rglob("*")):  # as the agent itself leaves them
            path.chmod(0o700 if path.is_dir() else 0o600)
        getattr(self, f"_build_{self.kind}")()
        self._give_away()

    def _config(self) -> str:
        extra = json.dumps([str(self.root / "extra")])
        denied = [f"{self.root}/{name}" for name in ("deny", "deny/**", "later-*.txt", "ws/named.txt")]
        return (
            'model_provider = "fake"\n[model_providers.fake]\nname = "fake"\nbase_url = "http://127.0.0.1:9/v1"\n'
            'wire_api = "responses"\nenv_key = "FAKE_API_KEY"\n'
            f"[sandbox_workspace_write]\nwritable_roots = {extra}\n"
            f"[spindle.sandbox]\ndeny_read = {json.dumps(denied)}\n"
        )

    def _build_present(self) -> None:
        for root in (self.ws, self.root / "extra"):
            _git_folder(root / ".git")
            for path in (
                ".codex/config.toml",
                ".agents/skills/x/SKILL.md",
                ".vscode/tasks.json",
                ".vscode/settings.json",
            ):
                _write(root / path, "untouched\n")
            for path in (".envrc", ".husky/pre-commit"):
                _write(root / path, "untouched\n")

    def _build_absent(self) -> None:
        """Nothing: creating them is the attack."""

    def _build_pointer(self) -> None:
        """Worktrees: of the workspace, whose repository lies in another writable root; of `extra`, in the workspace."""
        for tree, main in ((self.ws, self.root / "extra/main"), (self.root / "extra", self.ws / "vendor/main")):
            folder = main / ".git/worktrees/ws"
            _git_folder(main / ".git")
            _write(folder / "HEAD", "ref: refs/heads/main\n")
            _write(folder / "commondir", "../..\n")
            _write(folder / "gitdir", f"{tree}/.git\n")
            _write(tree / ".git", f"gitdir: {folder}\n")

    def canary(self, case: str) -> Path:
        path = self.outside / f"{case}.txt"
        _write(path, "untouched\n")
        with suppress(OSError):
            os.setxattr(path, "user.color", b"green")
        os.utime(path, (_OLD, _OLD))
        self._own(path)
        return path

    def _give_away(self) -> None:
        for folder in (self.root, self.slash_tmp):
            self._own(folder)
            for top, folders, files in os.walk(folder):
                for name in (*folders, *files):
                    self._own(Path(top, name))

    def _own(self, path: Path) -> None:
        if self.user.uid != os.getuid():
            os.chown(path, self.user.uid, self.user.uid, follow_symlinks=False)

    def facts(self, *, bare: bool) -> Path:
        """What an attack may know, as a file it can read."""
        facts = {
            "bare": bare,
            "host_mounts": None if bare else os.readlink("/proc/self/ns/mnt"),
            "stamp": self.stamp,
            "root": str(self.root),
            "ws": str(self.ws),
            "sibling": str(self.root / "ws-evil"),
            "extra": str(self.root / "extra"),
            "outside": str(self.outside),
            "home": str(self.root / "home"),
            "codex_home": str(self.codex_home),
            "tmpdir": str(self.root / "tmpdir"),
            "slash_tmp": str(self.slash_tmp),
            "deny": str(self.root / "deny"),
            "keeps_stdio": self.keeps_stdio,
            "python": self.user.python,
            "python_path": self.user.python_path,
            "rust_path": os.path.dirname(shutil.which("rustc") or ""),
            "rust_home": os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup")),
            **self.host.facts,
        }
        path = self.root / f"facts-{'bare' if bare else 'fenced'}.json"
        path.write_text(json.dumps(facts))
        path.chmod(0o644)
        return path

    @property
    def environment(self) -> dict[str, str]:
        """What the caller of the sandbox has in its environment; among it things that must not get in."""
        kept = {name: os.environ[name] for name in ("LANG", "TZ") if name in os.environ}
        return {
            **kept,
            "PATH": SYSTEM_PATH,
            "HOME": str(self.root / "home"),
            "USER": self.user.name,
            "TMPDIR": str(self.root / "tmpdir"),
            "CODEX_HOME": str(self.codex_home),
            "PYTHONPATH": self.user.python_path,
            **({"ESCAPE_TIMES": "1"} if os.environ.get("ESCAPE_TIMES") else {}),
            **({"ESCAPE_WHY": "1"} if os.environ.get("ESCAPE_WHY") else {}),
            "SSH_AUTH_SOCK": self.host.facts.get("ssh_auth_sock", ""),
            "OPENAI_API_KEY": f"sk-{self.stamp}-provider",
            "FAKE_API_KEY": f"sk-{self.stamp}-provider",
        }

    def __enter__(self) -> Self:
        with _removing:
            _OPEN.add(self)
        self.build()
        self.host.open()
        self._give_away()
        return self

    def __exit__(self, *_: object) -> None:
        self.host.close()
        for path in Path("/dev/shm").glob(f"{self.stamp}*"):
            path.unlink()
        with _removing:
            _OPEN.discard(self)
            _FINISHED.append((self, _OPEN.copy()))
        remove_finished()


_OPEN: set[Arena] = set()
_FINISHED: list[tuple[Arena, set[Arena]]] = []
"""Arenas whose trees still stand, and those that were open when they were left. The trees stay until these are left
too: no other command's launcher shall find the files of sockets gone that the kernel has just listed. That it survives
this as well is a test of its own."""
_removing = threading.Lock()


def remove_finished() -> None:
    """Throw away the arenas that nobody can see any more; a moment each, instead of minutes at the end."""
    with _removing:
        due = [arena for arena, others in _FINISHED if not others & _OPEN]
        _FINISHED[:] = [(arena, others) for arena, others in _FINISHED if others & _OPEN]
    for arena in due:
        for folder in (arena.root, arena.slash_tmp):
            shutil.rmtree(folder, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _git_folder(path: Path) -> None:
    _write(path / "HEAD", "ref: refs/heads/main\n")
    _write(path / "config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
    _write(path / "hooks/pre-commit.sample", "#!/bin/sh\n")
    for name in ("objects", "refs/heads", "info"):
        (path / name).mkdir(parents=True, exist_ok=True)


# ---- the host ------------------------------------------------------------------------------------------------


class Host:
    """Listeners that remember every byte they got, a pipe, and a process to be attacked."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.facts: dict[str, Any] = {}
        self.heard = bytearray()
        self.victim: Victim | None = None
        self._selector = selectors.DefaultSelector()
        self._is_over = False
        self._has_waited = False
        self._newest: socket.socket | None = None
        self._late: deque[socket.socket] = deque()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def open(self) -> None:
        root, outside, tmp = self.arena.root, self.arena.outside, self.arena.slash_tmp
        (root / "run").mkdir()
        streams = {
            "stream_outside": str(outside / "host.sock"),
            "stream_tmp": str(tmp / "host.sock"),
            "stream_ws": str(self.arena.ws / "host.sock"),
            "stream_home": str(root / "home/.config/daemon.sock"),
            "ssh_auth_sock": str(root / "run/ssh-agent.sock"),
            "docker_sock": str(root / "run/docker.sock"),
            "stream_abstract": f"\0{self.arena.stamp}.stream",
        }
        datagrams = {
            "dgram_outside": str(outside / "host.dgram"),
            "dgram_tmp": str(tmp / "host.dgram"),
            "dgram_ws": str(self.arena.ws / "host.dgram"),
            "dgram_abstract": f"\0{self.arena.stamp}.dgram",
        }
        for where in streams.values():
            self._listen(socket.AF_UNIX, socket.SOCK_STREAM, where)
        for where in datagrams.values():
            self._listen(socket.AF_UNIX, socket.SOCK_DGRAM, where)
        folder = os.open(outside, os.O_PATH | os.O_DIRECTORY)
        self._listen(socket.AF_UNIX, socket.SOCK_DGRAM, f"/proc/self/fd/{folder}/odd.dgram")
        os.close(folder)
        packets = str(outside / "host.seqpacket")
        self._listen(socket.AF_UNIX, socket.SOCK_SEQPACKET, packets)
        self.facts = {
            **streams,
            **datagrams,
            "seqpacket_outside": packets,
            "dgram_odd": str(outside / "odd.dgram"),
            "address": machine_address(),
            "tcp4": self._listen(socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 0)),
            "udp4": self._listen(socket.AF_INET, socket.SOCK_DGRAM, ("0.0.0.0", 0)),
            "tcp6": self._listen(socket.AF_INET6, socket.SOCK_STREAM, ("::", 0)),
            "udp6": self._listen(socket.AF_INET6, socket.SOCK_DGRAM, ("::", 0)),
            "fifo_outside": str(outside / "host.fifo"),
        }
        os.mkfifo(self.facts["fifo_outside"])
        os.chmod(self.facts["fifo_outside"], 0o666)
        fifo = os.open(self.facts["fifo_outside"], os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(fifo, selectors.EVENT_READ, self._read_pipe)
        self._thread.start()
        if self.arena.has_victim:
            self.victim = Victim(self.arena)
            self.facts.update(self.victim.facts)

    def _listen(self, family: int, kind: int, where: Any) -> Any:
        """Where it listens: the path, or the port; 0 when this machine has no such addresses."""
        try:
            one = socket.socket(family, kind | socket.SOCK_NONBLOCK)
        except OSError:
            return 0
        try:
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(where)
            if isinstance(where, str) and not where.startswith("\0"):
                os.chmod(where, 0o777)
        except OSError:
            one.close()
            if family == socket.AF_UNIX:
                raise
            return 0
        self._newest = one
        if kind == socket.SOCK_DGRAM:
            self._selector.register(one, selectors.EVENT_READ, self._receive)
        else:
            one.listen(64)
            self._selector.register(one, selectors.EVENT_READ, self._accept)
        return where if isinstance(where, str) else one.getsockname()[1]

    def _serve(self) -> None:
        """Answer until it is over; meanwhile new sockets appear now and then, of daemons that start late."""
        number = 0
        due = time.monotonic()
        while not self._is_over:
            if time.monotonic() >= due:
                due = time.monotonic() + LATE_S
                number += 1
                self._come_late(number)
            for key, _ in self._selector.select(0.02):
                with suppress(OSError):
                    key.data(key.fileobj)
        for key in list(self._selector.get_map().values()):
            os.close(key.fileobj) if isinstance(key.fileobj, int) else key.fileobj.close()  # pyright: ignore
        self._selector.close()

    def _come_late(self, number: int) -> None:
        for folder in (self.arena.ws, self.arena.outside):
            for kind, ending in ((socket.SOCK_STREAM, "sock"), (socket.SOCK_DGRAM, "dgram")):
                with suppress(OSError):  # an attack may have moved the folder
                    self._listen(socket.AF_UNIX, kind, f"{folder}/late-{number}.{ending}")
                    assert self._newest is not None
                    self._late.append(self._newest)
        while len(self._late) > _MOST_LATE:  # nobody waits for those any more, and descriptors are few
            old = self._late.popleft()
            self._selector.unregister(old)
            old.close()

    def _accept(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        self.heard += b"somebody connected\n"
        client.setblocking(False)
        self._selector.register(client, selectors.EVENT_READ, self._receive)

    def _receive(self, one: socket.socket) -> None:
        data = one.recv(4096)
        self.heard += data + b"\n"
        if not data and one.type != socket.SOCK_DGRAM:
            self._selector.unregister(one)
            one.close()

    def listen_on(self) -> None:
        """Give what is on its way a moment to arrive; once, everything was sent before the command ended."""
        if not self._has_waited:
            self._has_waited = True
            time.sleep(0.25)

    def _read_pipe(self, fd: int) -> None:
        self.heard += os.read(fd, 4096)

    def close(self) -> None:
        self._is_over = True
        self._thread.join(5)
        if self.victim is not None:
            self.victim.close()


class Victim:
    """A process of the same user, which shares what processes can share; see `victim.py`."""

    def __init__(self, arena: Arena) -> None:
        self._how = arena.user.how
        self._program = [arena.user.python, "-I", "-S", str(arena.stage / "escape/victim.py")]
        self._process = subprocess.Popen(
            [*self._program, arena.stamp],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "VICTIM_SECRET": f"environ-{arena.stamp}"},
            cwd=arena.stage,
            text=True,
            start_new_session=True,
            **arena.user.how,
        )
        assert self._process.stdout is not None
        self.facts: dict[str, Any] = json.loads(self._process.stdout.readline())

    def state(self) -> dict[str, Any] | None:
        """What is shared looks like this now; None when the victim no longer answers."""
        assert self._process.stdin is not None and self._process.stdout is not None
        if self._process.poll() is not None or self.is_stopped:
            return None
        try:
            self._process.stdin.write("state\n")
            self._process.stdin.flush()
            answer = select.poll()
            answer.register(self._process.stdout, select.POLLIN)
            return json.loads(self._process.stdout.readline()) if answer.poll(_PATIENCE_MS) else None
        except (OSError, ValueError):
            return None

    @property
    def is_stopped(self) -> bool:
        try:
            return Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "tTZ"
        except OSError:
            return True

    def close(self) -> None:
        if self.is_stopped and self._process.poll() is None:
            self._process.kill()
        with suppress(OSError):
            self._process.communicate("end\n", timeout=3)
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
        for name in ("stdin", "stdout"):
            with suppress(OSError):
                getattr(self._process, name).close()
        if self._process.returncode != 0:
            subprocess.run([*self._program, "clean", json.dumps(self.facts)], check=True, **self._how)


def machine_address() -> str:
    """An address of this machine that other machines would use; loopback's when there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return probe.getsockname()[0]
        except OSError:
            return "127.0.0.1"


@contextmanager
def inherited(arena: Arena) -> Iterator[tuple[int, ...]]:
    """Descriptors a careless caller leaves open for its children: files, a folder, a connection, a memory file."""
    canary = arena.outside / "writes_through_inherited_descriptors.txt"
    ours, theirs = socket.socketpair()
    fds = [
        os.open(canary if canary.exists() else os.devnull, os.O_RDWR | os.O_APPEND),
        os.open(arena.outside, os.O_RDONLY | os.O_DIRECTORY),
        os.memfd_create("agent's own"),
        theirs.fileno(),
    ]
    ours.setblocking(False)
    for fd in fds:
        os.set_inheritable(fd, True)
    try:
        yield tuple(fds)
        arena.host.heard += os.pread(fds[2], 4096, 0)
        with suppress(OSError):
            arena.host.heard += ours.recv(4096)
    finally:
        for fd in fds[:3]:
            os.close(fd)
        ours.close()
        theirs.close()
