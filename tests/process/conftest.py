"""A process table in a folder of its own, and a look at what is left of its commands."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from spindle.policy.environment import EnvironmentPolicy, child_environment
from spindle.policy.sandbox import Boundary, Fence, boundary_of
from spindle.process.table import Command, ProcessTable
from spindle.protocol.clock import SystemClock
from spindle.protocol.settings import SandboxPolicy
from spindle.workspace.shell import Shell

MARK = "SPINDLE_TEST_MARK"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where commands run: empty, and no repository."""
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def user_home(tmp_path: Path) -> Path:
    """The user's home, without a profile."""
    made = tmp_path / "user"
    made.mkdir()
    return made


@pytest.fixture
def child_env(tmp_path: Path, user_home: Path) -> dict[str, str]:
    parent = {**os.environ, "HOME": str(user_home), MARK: str(tmp_path), "CODEX_HOME": str(tmp_path / "home")}
    return child_environment(parent, EnvironmentPolicy())


@pytest.fixture
async def table(tmp_path: Path, child_env: dict[str, str]) -> AsyncIterator[ProcessTable]:
    (tmp_path / "home").mkdir()
    made = ProcessTable(
        clock=SystemClock(), shell=Shell("bash", "/bin/bash"), environment=child_env, home=str(tmp_path / "home")
    )
    yield made
    await made.aclose()


@pytest.fixture
def reach(folder: Path, child_env: dict[str, str], tmp_path: Path) -> Callable[..., Boundary | None]:
    """What a policy lets commands in the folder reach."""

    def build(sandbox: SandboxPolicy | None, fence: Fence | None = None) -> Boundary | None:
        if sandbox is None:
            return None
        return boundary_of(sandbox, cwd=str(folder), env=child_env, home=str(tmp_path / "home"), fence=fence)

    return build


@pytest.fixture
def command(table: ProcessTable, reach: Callable[..., Boundary | None], folder: Path) -> Callable[..., Command]:
    """A script as the command that runs it."""

    def build(script: str, sandbox: SandboxPolicy | None = None, *, tty: bool = False, cwd: Path = folder) -> Command:
        return Command(argv=table.shell_argv(script), cwd=str(cwd), boundary=reach(sandbox), tty=tty)

    return build


@pytest.fixture
def survivors(tmp_path: Path) -> Callable[[str], list[int]]:
    """Living processes that carry this test's mark in their environment, or `word` on their command line."""

    def look(word: str = "") -> list[int]:
        mark, needle = f"{MARK}={tmp_path}".encode(), word.encode()
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_left(pid, mark, needle)]

    return look


def _is_left(pid: int, mark: bytes, needle: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            is_dead = file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
        with open(f"/proc/{pid}/environ", "rb") as file:
            environ = file.read()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except OSError:
        return False
    return not is_dead and pid != os.getpid() and (mark in environ or (bool(needle) and needle in words))
