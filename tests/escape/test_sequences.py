"""What several commands of one agent, or several sandboxes side by side, can do that one cannot."""

from __future__ import annotations

import os
import resource
import shlex
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from escape.arena import Arena
from escape.drive import Agent, Battery, mode_words, spindle
from escape.judge import difference, snapshot
from fake_server import FakeServer, call
from repository import needs_git

USERS = ("root", "user") if os.getuid() == 0 else ("user",)
Make = Callable[..., Arena]


@pytest.fixture(params=USERS)
def make(request: pytest.FixtureRequest, battery: Battery) -> Iterator[Make]:
    if request.param not in battery.users:
        pytest.skip("no interpreter here that an ordinary user may run")
    with ExitStack() as stack:
        yield lambda kind="present": stack.enter_context(
            Arena(battery.stage, battery.users[request.param], kind, has_victim=False)
        )


def command(line: str, number: int = 1, **more: object) -> dict[str, object]:
    return call("exec_command", {"cmd": line, "yield_time_ms": 10_000, "login": False, **more}, f"c{number}")


def run(arena: Arena, server: FakeServer, *calls: dict[str, object], **environment: str) -> list[str]:
    return Agent(arena, server, "workspace-write").run(*calls, **environment)


@pytest.mark.parametrize("tool", ["exec_command", "shell", "shell_command"])
def test_a_folder_the_model_chooses_is_not_writable_for_that(make: Make, server: FakeServer, tool: str) -> None:
    arena = make()
    canary = arena.canary("workdir")
    before = snapshot(str(canary))
    line = "echo inside >../ws/inside; echo x >>workdir.txt; echo x >new"
    arguments = {"shell": {"command": ["sh", "-c", line]}, "shell_command": {"command": line}}.get(tool, {"cmd": line})
    run(arena, server, call(tool, {**arguments, "workdir": str(arena.outside)}, "c1"))
    assert (arena.ws / "inside").exists(), "the command did not run"
    assert difference(before, snapshot(str(canary))) is None
    assert not (arena.outside / "new").exists()


def test_a_folder_that_is_a_link_out_of_the_workspace_is_not_writable(make: Make, server: FakeServer) -> None:
    arena = make()
    run(
        arena,
        server,
        command(f"ln -s {arena.outside} way-out"),
        command("echo x >new; echo x >../ws/new", 2, workdir=str(arena.ws / "way-out")),
        command("echo x >way-out/new; echo x >done", 3),
    )
    assert (arena.ws / "done").exists() and not (arena.outside / "new").exists()


def test_a_root_below_another_root_cannot_be_swapped_for_a_link(make: Make, server: FakeServer) -> None:
    """The next command would have the link's target as a writable root."""
    arena = make()
    inner = arena.ws / "a/b/tmp"
    inner.mkdir(parents=True)
    for path in (inner.parent.parent, inner.parent, inner):
        os.chown(path, arena.user.uid, arena.user.uid)
    swap = (
        f"mv a old; mkdir -p a/b; ln -s {arena.outside} a/b/tmp; mv a/b a/c; mkdir a/b; ln -s {arena.outside} a/b/tmp"
    )
    swap += f"; mv a/b/tmp a/b/old; ln -s {arena.outside} a/b/tmp; true"
    after = f"echo x >{inner}/new; echo x >{arena.outside}/new2; echo x >done"
    run(arena, server, command(swap), command(after, 2), command(after, 3), TMPDIR=str(inner))
    assert (arena.ws / "done").exists()
    assert not (arena.outside / "new").exists() and not (arena.outside / "new2").exists()


def test_a_workspace_below_slash_tmp_cannot_be_swapped_for_a_link(make: Make, server: FakeServer) -> None:
    arena = make("absent")
    arena.ws = arena.slash_tmp / "project/ws"
    arena.ws.mkdir(parents=True)
    for path in (arena.ws.parent, arena.ws):
        os.chown(path, arena.user.uid, arena.user.uid)
    project = arena.ws.parent
    swap = f"cd /; mv {arena.ws} {project}/old; mv {project} {project}-old; mkdir -p {project};"
    swap += f"ln -s {arena.outside} {arena.ws}; true"
    after = f"echo x >{arena.ws}/new; echo x >{arena.outside}/new; echo x >{arena.slash_tmp}/done"
    run(arena, server, command(swap), command(after, 2), command(after, 3))
    assert (arena.slash_tmp / "done").exists()
    assert not (arena.outside / "new").exists()


@pytest.mark.parametrize("which", ["workspace", "temporary folder", "added root"])
def test_a_root_given_as_a_link_stays_what_it_was(make: Make, server: FakeServer, which: str) -> None:
    """Roots are what their names led to at the start; a command may change the link, not the root."""
    arena = make()
    target, link = arena.slash_tmp / "real", arena.slash_tmp / "link"
    target.mkdir()
    os.chown(target, arena.user.uid, arena.user.uid)
    link.symlink_to(target)
    environment: dict[str, str] = {}
    if which == "workspace":
        arena.ws = link
    elif which == "temporary folder":
        environment["TMPDIR"] = str(link)
    else:
        config = arena.codex_home / "config.toml"
        config.write_text(config.read_text().replace(str(arena.root / "extra"), str(link)))
    after = f"echo x >{arena.outside}/new; echo x >{link}/new; echo x >{arena.slash_tmp}/done"
    swap = f"ln -sfn {arena.outside} {link}"
    outputs = run(arena, server, command(f"cd /; {swap}"), command(after, 2), command(after, 3), **environment)
    assert (arena.slash_tmp / "done").exists(), outputs
    assert link.resolve() == arena.outside
    assert not (arena.outside / "new").exists()


def test_a_workspace_with_a_strange_name_is_fenced_in_too(make: Make, server: FakeServer) -> None:
    arena = make()
    arena.ws = arena.root / "we ird\n$(touch x); --bind / / \udcff'\""
    (arena.ws / ".git/hooks").mkdir(parents=True)
    for path in (arena.ws, arena.ws / ".git", arena.ws / ".git/hooks"):
        os.chown(path, arena.user.uid, arena.user.uid)
    before = snapshot(str(arena.ws / ".git"))
    run(arena, server, command(f"echo x >.git/hooks/x; mkdir .codex; echo x >{arena.outside}/new; echo x >done"))
    assert names(arena.ws) == {".git", "done"}
    assert difference(before, snapshot(str(arena.ws / ".git"))) is None
    assert not (arena.outside / "new").exists()


@needs_git
def test_git_works_in_a_workspace_that_is_a_folder_of_a_repository(make: Make) -> None:
    """What keeps a `.git` from being made in the workspace must not hide the one above it."""
    arena = make("absent")
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "safe.directory=*"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *who, *words], cwd=arena.root, check=True, capture_output=True, **arena.user.how)
    git = "git -c safe.directory='*'"
    with sandbox(arena, f"echo x >new; {git} log --oneline; {git} status --short .; {git} diff --stat") as process:
        said = process.communicate(timeout=20)[0].decode()
    assert "first" in said and ("new" in said or "./" in said), said


def test_a_shell_the_model_chooses_runs_inside(make: Make, server: FakeServer) -> None:
    arena = make()
    shell = arena.ws / "bash"
    shell.write_text(f"#!/bin/sh\necho x >{arena.outside}/new; echo x >{arena.ws}/done\n")
    shell.chmod(0o755)
    for number, login in enumerate((True, False)):
        run(arena, server, call("exec_command", {"cmd": "true", "shell": str(shell), "login": login}, f"c{number}"))
    assert (arena.ws / "done").exists() and not (arena.outside / "new").exists()


def test_a_file_system_mounted_later_cannot_be_written(make: Make) -> None:
    """Where mounts are shared, as on most machines, what a person mounts while a command runs appears inside too."""
    if os.getuid() != 0:
        pytest.skip("mounting needs root")
    arena = make()
    place = arena.root / "media"
    (place / "stick").mkdir(parents=True)
    subprocess.run(["mount", "--bind", place, place], check=True)
    try:
        subprocess.run(["mount", "--make-shared", place], check=True)
        with sandbox(arena, f"echo on; sleep 1; echo x >{place}/stick/new; echo tried") as process:
            assert process.stdout is not None and process.stdout.readline() == b"on\n"
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "stick", place / "stick"], check=True)
            assert b"tried" in process.communicate(timeout=20)[0]
        assert os.listdir(place / "stick") == []
    finally:
        subprocess.run(["umount", "-R", "-l", place], check=True)


def test_a_daemon_known_by_a_path_through_a_link_keeps_no_command_from_running(make: Make) -> None:
    """As /var/run leads to /run: what the kernel lists is the path the daemon used."""
    arena = make()
    for number, target in enumerate((arena.outside, Path("outside"))):
        link = arena.root / f"run-{number}"
        link.symlink_to(target)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
            daemon.bind(f"{link}/d{number}")
            with sandbox(arena, "echo on") as process:
                assert process.communicate(timeout=20)[0] == b"on\n"


def test_a_daemon_that_goes_away_meanwhile_keeps_no_command_from_running(make: Make) -> None:
    arena = make()
    over = threading.Event()

    def come_and_go() -> None:
        number = 0
        while not over.is_set():
            number += 1
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
                daemon.bind(f"{arena.outside}/passing-{number}")
                time.sleep(0.001)
                os.unlink(f"{arena.outside}/passing-{number}")

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(8):
            with sandbox(arena, "echo on") as process:
                assert process.communicate(timeout=20)[0] == b"on\n"
    finally:
        over.set()
        thread.join()


def test_connections_that_hang_do_not_keep_the_next_command_waiting(make: Make, server: FakeServer) -> None:
    arena = make()
    python = shlex.quote(arena.user.python)
    hang = "import socket,threading,time\ns=socket.socket(socket.AF_UNIX); s.bind('full.sock'); s.listen(0)\n"
    hang += "def c():\n o=socket.socket(socket.AF_UNIX); o.connect('full.sock'); time.sleep(9)\n"
    hang += "[threading.Thread(target=c,daemon=True).start() for _ in range(60)]; time.sleep(1); print('hung')"
    work = "import socket; s=socket.socket(socket.AF_UNIX); s.bind('own.sock'); s.listen(); "
    work += "c=socket.socket(socket.AF_UNIX); c.settimeout(9); c.connect('own.sock'); print('conn'+'ected')"
    outputs = run(
        arena,
        server,
        command(f"{python} -c {shlex.quote(hang)}"),
        command(f"{python} -c {shlex.quote(work)}", 2),
    )
    assert "hung" in outputs[0] and "connected" in outputs[1], outputs


CONNECTS = """
import socket, sys, threading, time
server = socket.socket(socket.AF_UNIX)
server.bind("full.sock")
server.listen(0)
def hang():
    one = socket.socket(socket.AF_UNIX)
    one.connect("full.sock")
    time.sleep(60)
"""
PASSES_DESCRIPTORS = """
import array, socket, sys, threading, time
datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
ours, theirs = socket.socketpair()
ours.setblocking(False)
try:
    while True:
        ours.send(bytes(65536))
except BlockingIOError:
    ours.setblocking(True)
def hang():
    for count in (250, 60, 15, 4, 1):
        try:
            ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * count))])
        except OSError:
            pass  # there is room for fewer, perhaps
"""


@pytest.mark.parametrize("hang", [CONNECTS, PASSES_DESCRIPTORS])
def test_a_command_whose_calls_all_hang_leaves_room_for_others(make: Make, server: FakeServer, hang: str) -> None:
    """Neither the threads nor the descriptors of the agent are used up while it runs."""
    arena = make()
    hang += "for _ in range(90): threading.Thread(target=hang, daemon=True).start()\nprint('on', flush=True)\n"
    hang += "time.sleep(60)"
    work = "import socket; s=socket.socket(socket.AF_UNIX); s.bind('own.sock'); s.listen(); "
    work += "c=socket.socket(socket.AF_UNIX); c.settimeout(9); c.connect('own.sock'); print('conn'+'ected')"
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, limits[1]), limits[1]))
    try:
        outputs = run(
            arena,
            server,
            command(f"{shlex.quote(arena.user.python)} -c {shlex.quote(hang)}", yield_time_ms=2000),
            command(f"{shlex.quote(arena.user.python)} -c {shlex.quote(work)}", 2),
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert "on" in outputs[0] and "connected" in outputs[1], outputs


def test_a_command_left_running_cannot_widen_the_next_one(make: Make, server: FakeServer) -> None:
    """While the launcher of the second command looks at the workspace, the first keeps swapping what it sees there."""
    arena = make("absent")
    swapper = (
        "for i in $(seq 4000); do for n in .git .codex .agents .vscode .envrc .husky; do "
        f"rmdir $n; ln -sfn {arena.outside} $n; mkdir $n; mv $n x$i; done 2>/dev/null; done & sleep 0.2; echo on"
    )
    attack = f"echo x >{arena.outside}/new; echo x >.git/new; echo x >done"
    run(
        arena,
        server,
        command(f"sh -c {shlex.quote(swapper)}; sleep 5", yield_time_ms=400),
        *(command(attack, number) for number in range(2, 8)),
    )
    assert (arena.ws / "done").exists()
    assert not (arena.outside / "new").exists()
    assert not any((arena.ws / name).exists() for name in (".git", ".codex", ".agents"))


def test_two_commands_of_one_session_talk_by_a_unix_socket(make: Make, server: FakeServer) -> None:
    arena = make()
    listen = (
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.bind('own.sock'); s.listen(); print('up', flush=True)\n"
    )
    listen += "c=s.accept()[0]; c.sendall(b'hel'+b'lo'); c.close(); import time; time.sleep(3)"
    connect = "import socket; s=socket.socket(socket.AF_UNIX); s.connect('own.sock'); print(s.recv(9))"
    python = shlex.quote(arena.user.python)
    outputs = run(
        arena,
        server,
        command(f"{python} -c {shlex.quote(listen)}", yield_time_ms=1500),
        command(f"{python} -c {shlex.quote(connect)}", 2),
    )
    assert "b'hello'" in outputs[1], outputs


SENDS = """
import os, socket, struct
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
child = os.fork()
if child == 0:
    theirs.sendmsg([b"hello"])
    os._exit(0)
_, along, _, _ = ours.recvmsg(16, 256)
assert struct.unpack("=iII", along[0][2])[0] == child, along
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
print("as it should be")
"""


def test_a_program_learns_who_sends_and_may_then_have_datagrams(make: Make) -> None:
    """As browsers do. A process that has sent, ended, and whose status still waits, is no obstacle."""
    arena = make()
    with sandbox(arena, f"{shlex.quote(arena.user.python)} -c {shlex.quote(SENDS)}") as process:
        assert process.communicate(timeout=30)[0] == b"as it should be\n"


def test_a_file_that_must_not_be_read_is_hidden_from_the_command_after_the_one_that_made_it(
    make: Make, server: FakeServer
) -> None:
    arena = make()
    outputs = run(
        arena,
        server,
        command("umask 0; echo a secret >named.txt; echo made"),
        command("cat named.txt; echo looked", 2),
    )
    assert "looked" in outputs[1] and "secret" not in outputs[1]


def test_a_file_named_in_advance_that_must_not_be_read_stays_hidden_when_a_person_makes_it(make: Make) -> None:
    arena = make()
    path = arena.ws / "named.txt"
    with sandbox(
        arena, f"echo on; for i in $(seq 60); do cat {path} 2>/dev/null && break; sleep 0.05; done"
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"on\n"
        with suppress(OSError):
            path.write_text("a secret that came later\n")
            path.chmod(0o644)
        said = process.stdout.read()
    assert b"secret" not in said


# ---- folders that are closed and opened again ----------------------------------------------------------------


def test_a_folder_closed_by_one_command_is_not_unprotected_in_the_next(make: Make, server: FakeServer) -> None:
    arena = make()
    repository = arena.root / "extra/.git"
    before = snapshot(str(repository))
    evil = f"echo evil >>{repository}/config; echo evil >{repository}/hooks/pre-commit; mkdir -p {repository}/hooks"
    run(
        arena,
        server,
        command(f"chmod 000 {arena.root}/extra; echo ran >first"),
        command(f"chmod 755 {arena.root}/extra; {evil}", 2),
    )
    (arena.root / "extra").chmod(0o755)
    assert (arena.ws / "first").exists()
    assert difference(before, snapshot(str(repository))) is None


@pytest.mark.parametrize("holds_something", [True, False])
def test_a_folder_whose_mode_forbids_writing_is_kept_and_gets_no_repository(
    make: Make, server: FakeServer, holds_something: bool
) -> None:
    arena = make("absent")
    extra = arena.root / "extra"
    if holds_something:
        (extra / "file").write_text("untouched")
    extra.chmod(0o555)
    evil = f"chmod 755 {extra}; mkdir {extra}/.git {extra}/.codex; echo evil >{extra}/.git/config; echo ran >done"
    run(arena, server, command(evil))
    assert (arena.ws / "done").exists()
    assert names(extra) == ({"file"} if holds_something else set())


def test_a_denied_file_in_a_folder_closed_by_the_command_before_stays_denied(make: Make, server: FakeServer) -> None:
    arena = make()
    config = arena.codex_home / "config.toml"
    config.write_text(config.read_text().replace("later-*.txt", "ws/kept/**/*.pem"))
    kept = arena.ws / "kept"
    kept.mkdir()
    (kept / "deep").mkdir()
    (kept / "one.pem").write_text("a secret\n")
    for path in (kept, kept / "deep", kept / "one.pem"):
        os.chown(path, arena.user.uid, arena.user.uid)
    for mode in ("000", "444"):
        outputs = run(
            arena,
            server,
            command(f"chmod {mode} kept; echo ran"),
            command("chmod 755 kept; cat kept/one.pem; echo looked", 2),
        )
        kept.chmod(0o755)
        assert "ran" in outputs[0]
        assert "secret" not in outputs[1], mode


def test_on_a_full_disk_nothing_runs_that_could_make_room_and_then_a_repository(make: Make, server: FakeServer) -> None:
    if os.getuid() != 0:
        pytest.skip("needs a small file system")
    arena = make("absent")
    extra = arena.root / "extra"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=4,mode=777", "none", extra], check=True)
    try:
        evil = f"mv {extra}/filler* .; mkdir -p {extra}/.git && echo evil >{extra}/.git/config"
        fill = f"for i in 1 2 3 4 5; do : >{extra}/filler$i; done"
        subprocess.run(["sh", "-c", fill], **arena.user.how)
        outputs = run(arena, server, command(evil))
        assert "No space left" in outputs[0]
        assert not (extra / ".git/config").exists()
    finally:
        subprocess.run(["umount", "-l", extra], check=True)


# ---- side by side, and nothing left behind -------------------------------------------------------------------


def sandbox(arena: Arena, line: str) -> subprocess.Popen[Any]:
    words = [*spindle(arena), "sandbox", *mode_words("workspace-write"), "-C", str(arena.ws), "--", "sh", "-c", line]
    return subprocess.Popen(words, cwd=arena.ws, env=arena.environment, stdout=subprocess.PIPE, **arena.user.how)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith("late-")}


def test_the_end_of_one_sandbox_does_not_uncover_another(make: Make) -> None:
    arena = make("absent")
    before = names(arena.ws)
    with sandbox(arena, "echo on; sleep 1.2; mkdir .git .codex; mkdir -p .git/hooks; echo x >.envrc; true") as long:
        assert long.stdout is not None and long.stdout.readline() == b"on\n"
        with sandbox(arena, "echo short") as short:
            assert short.communicate(timeout=20)[0] == b"short\n"
        long.communicate(timeout=20)
    assert names(arena.ws) == before


def test_nothing_is_left_in_a_workspace_without_a_repository(make: Make) -> None:
    arena = make("absent")
    before = {folder: names(folder) for folder in (arena.ws, arena.root / "extra", arena.root / "tmpdir")}
    for line in ("true", "exit 3", "kill -9 $$", "touch x && rm x"):
        with sandbox(arena, line) as process:
            process.communicate(timeout=20)
    assert {folder: names(folder) for folder in before} == before


@needs_git
def test_a_repository_that_a_person_makes_meanwhile_is_kept(make: Make) -> None:
    arena = make("absent")
    with sandbox(arena, "echo on; sleep 1.5") as process:
        assert process.stdout is not None and process.stdout.readline() == b"on\n"
        done = subprocess.run(["git", "init", "-q", str(arena.ws)], capture_output=True, **arena.user.how)
        process.communicate(timeout=20)
    if done.returncode == 0:
        assert (arena.ws / ".git/HEAD").exists()


@pytest.mark.parametrize("line", ["head -c 60000000 /dev/zero", "head -c 3000000 /dev/urandom"])
def test_a_flood_of_bytes_comes_to_its_end(make: Make, server: FakeServer, line: str) -> None:
    arena = make()
    started = time.monotonic()
    outputs = run(arena, server, command(f"{line}; echo the-end", yield_time_ms=30_000))
    assert "the-end" in outputs[0] and len(outputs[0]) < 200_000
    assert time.monotonic() - started < 55


def test_a_flood_of_bytes_passes_through_the_sandbox_command(make: Make) -> None:
    with sandbox(make(), "head -c 60000000 /dev/zero") as process:
        assert len(process.communicate(timeout=30)[0]) == 60_000_000
