"""The Landlock fence: what the kernel is told, and what it then refuses. Real system calls in a thread of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from process.fences import READ_ONLY, WORKSPACE_WRITE
from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import Boundary, Fence, boundary_of
from spindle.process.sandbox import landlock
from spindle.protocol.settings import SandboxPolicy

needs_landlock = pytest.mark.skipif(
    landlock.unusable(landlock.abi()) is not None, reason="this kernel has no Landlock of use"
)
Confined = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def boundary(folder: Path, tmp_path: Path) -> Boundary:
    return boundary_of(WORKSPACE_WRITE, cwd=str(folder), env={}, home=str(tmp_path / "home"))


@pytest.fixture
def confined(folder: Path) -> Confined:
    """Run a script behind the fence."""

    def run(boundary: Boundary, *argv: str) -> subprocess.CompletedProcess[str]:
        done: list[subprocess.CompletedProcess[str] | BaseException] = []

        def start() -> None:
            try:
                landlock.restrict_thread(landlock.ruleset(boundary, landlock.abi()))
                done.append(subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=20))
            except BaseException as error:
                done.append(error)

        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
        if isinstance(done[0], BaseException):
            raise done[0]
        return done[0]

    return run


# ---- what the kernel is told -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "files", "tcp", "scopes"),
    [
        (3, landlock.REFER | landlock.TRUNCATE, 0, 0),
        (4, landlock.REFER | landlock.TRUNCATE, 3, 0),
        (5, landlock.REFER | landlock.TRUNCATE | landlock.IOCTL_DEV, 3, 0),
        (6, landlock.REFER | landlock.TRUNCATE | landlock.IOCTL_DEV, 3, 3),
        (7, landlock.REFER | landlock.TRUNCATE | landlock.IOCTL_DEV, 3, 3),
        (99, landlock.REFER | landlock.TRUNCATE | landlock.IOCTL_DEV, 3, 3),
    ],
)
def test_a_kernel_is_told_only_what_it_knows(
    boundary: Boundary, version: int, files: int, tcp: int, scopes: int
) -> None:
    rules = landlock.ruleset(boundary, version)
    newer = landlock.REFER | landlock.TRUNCATE | landlock.IOCTL_DEV
    assert (rules.files & newer, rules.tcp, rules.scopes) == (files, tcp, scopes)
    assert all(allowed & ~rules.files == 0 for _, allowed in rules.grants)


def test_reading_and_running_are_never_restricted(boundary: Boundary) -> None:
    execute_read_list = 1 << 0 | 1 << 2 | 1 << 3
    assert landlock.ruleset(boundary, 7).files & execute_read_list == 0


def test_with_a_network_only_signals_are_scoped(folder: Path, tmp_path: Path) -> None:
    policy = SandboxPolicy(mode="workspace-write", network_access=True)
    rules = landlock.ruleset(boundary_of(policy, cwd=str(folder), env={}, home=str(tmp_path / "home")), 7)
    assert (rules.tcp, rules.scopes) == (0, landlock.SCOPE_SIGNALS)


def test_only_roots_and_harmless_devices_are_granted(boundary: Boundary, folder: Path) -> None:
    granted = [path for path, _ in landlock.ruleset(boundary, 7).grants]
    assert [path for path in granted if not path.startswith("/dev/")] == [str(folder)]
    assert "/dev/shm" not in granted and "/dev" not in granted


def test_what_landlock_cannot_express_is_refused(folder: Path, tmp_path: Path) -> None:
    inside = boundary_of(WORKSPACE_WRITE, cwd=str(folder), env={}, home=str(folder / ".codex"))
    with pytest.raises(SandboxUnavailable, match=r"\.codex lies inside the writable folder .* nothing was run"):
        landlock.ruleset(inside, 7)
    fence = Fence(deny_read=("/etc/shadow",))
    denying = boundary_of(READ_ONLY, cwd=str(folder), env={}, home=str(tmp_path / "home"), fence=fence)
    with pytest.raises(SandboxUnavailable, match="deny_read is set"):
        landlock.ruleset(denying, 7)


@pytest.mark.parametrize(("version", "words"), [(0, "has no Landlock"), (1, "too old"), (2, "too old")])
def test_a_kernel_without_a_useful_landlock_is_named(version: int, words: str) -> None:
    assert words in (landlock.unusable(version) or "")


def test_older_versions_lack_more() -> None:
    assert len(landlock.lacks(3)) > len(landlock.lacks(5)) > len(landlock.lacks(6)) == len(landlock.lacks(7))
    assert landlock.unusable(3) is None


def test_the_offer_names_the_key_and_what_is_lost() -> None:
    offer = landlock.offer(7)
    assert 'backend = "landlock"' in offer and "[spindle.sandbox]" in offer
    assert all(lost in offer for lost in landlock.lacks(7))


# ---- what the kernel refuses -----------------------------------------------------------------------


@needs_landlock
def test_ordinary_work_below_a_root_goes_on(boundary: Boundary, confined: Confined) -> None:
    script = """
        set -e
        mkdir -p a/b; echo one > a/one; mv a/one a/b/two; ln a/b/two hard; ln -s two a/b/soft; mkfifo pipe
        echo more >> a/b/two; truncate -s 3 a/b/two; cat hard; rm -r a/b; chmod +x hard
        echo gone > /dev/null; head -c1 /dev/zero > zero; cat /etc/hostname > /dev/null; ls
    """
    done = confined(boundary, "bash", "-c", script)
    assert (done.stdout.split(), done.stderr, done.returncode) == (["onea", "hard", "pipe", "zero"], "", 0)


@needs_landlock
@pytest.mark.parametrize(
    "script",
    [
        "echo x > {outside}/new",
        "echo x >> {outside}/file",
        "echo x > {outside}/file",
        "truncate -s 0 {outside}/file",
        "rm {outside}/file",
        "mv {outside}/file {outside}/moved",
        "mv {outside}/file .",
        "ln {outside}/file here && echo x >> here",
        "mkdir {outside}/sub",
        "ln -s / {outside}/link",
        "mkfifo {outside}/pipe",
        "ln -s {outside}/file link && echo x > link",
        "cd ../outside && echo x > file",
        "echo x > /proc/self/root{outside}/file",
        "echo x > /dev/shm/landlock-test",
        "mknod disk b 8 0",
    ],
)
def test_nothing_outside_is_changed(
    folder: Path, tmp_path: Path, boundary: Boundary, confined: Confined, script: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    done = confined(boundary, "bash", "-c", script.format(outside=outside))
    assert done.returncode != 0
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("file", "precious")]
    assert not os.path.exists("/dev/shm/landlock-test") and not (folder / "disk").exists()


@needs_landlock
def test_without_roots_nothing_at_all_can_be_written(folder: Path, tmp_path: Path, confined: Confined) -> None:
    read_only = boundary_of(READ_ONLY, cwd=str(folder), env={}, home=str(tmp_path / "home"))
    assert confined(read_only, "touch", "new").returncode != 0
    assert confined(read_only, "bash", "-c", "ls / > /dev/null").returncode == 0
    assert list(folder.iterdir()) == []


@needs_landlock
def test_the_agent_itself_stays_free(folder: Path, tmp_path: Path, boundary: Boundary, confined: Confined) -> None:
    confined(boundary, "true")
    (tmp_path / "free").write_text("still")
    assert subprocess.run(["touch", str(tmp_path / "child")]).returncode == 0


@needs_landlock
def test_no_privilege_is_left_or_can_be_won(boundary: Boundary, confined: Confined) -> None:
    status = confined(boundary, "cat", "/proc/self/status").stdout
    found = dict(line.split(":\t") for line in status.splitlines())
    assert found["NoNewPrivs"] == "1"
    if os.geteuid() == 0:
        assert {found[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb", "CapInh")} == {"0" * 16}


@needs_landlock
def test_memory_and_environment_of_the_agent_cannot_be_read(boundary: Boundary, confined: Confined) -> None:
    for name in ("environ", "maps", "mem", "fd/0"):
        assert confined(boundary, "head", "-c1", f"/proc/{os.getpid()}/{name}").stdout == ""


@needs_landlock
@pytest.mark.skipif(landlock.abi() < 6, reason="needs a Landlock that scopes signals")
def test_signals_and_abstract_sockets_stay_inside(boundary: Boundary, confined: Confined) -> None:
    assert confined(boundary, "bash", "-c", f"kill -{signal.SIGCONT} {os.getpid()}").returncode != 0
    assert confined(boundary, "bash", "-c", "sleep 60 & kill $!").returncode == 0
    name = f"\0landlock-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"
        assert "PermissionError" in confined(boundary, sys.executable, "-c", code).stderr


@needs_landlock
@pytest.mark.skipif(landlock.abi() < 4, reason="needs a Landlock that knows TCP")
def test_without_a_network_there_is_no_tcp(boundary: Boundary, confined: Confined) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code = f"import socket; socket.create_connection(('127.0.0.1', {listener.getsockname()[1]}), 5)"
        assert "PermissionError" in confined(boundary, sys.executable, "-c", code).stderr


@needs_landlock
def test_terminals_work(boundary: Boundary, confined: Confined) -> None:
    code = "import pty, sys; sys.exit(pty.spawn(['sh', '-c', 'tty >/dev/null && stty -echo && echo done']))"
    assert confined(boundary, sys.executable, "-c", code).stdout == "done\n"
