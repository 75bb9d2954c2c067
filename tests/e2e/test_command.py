"""The installed command as a program among others: its version, its path, its pipes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fake_server import FakeServer
from spindle import __version__


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_one_line(spindle_cmd: list[str], environment: dict[str, str], flag: str) -> None:
    by_module = [sys.executable, "-m", "spindle"]
    for command in (spindle_cmd, by_module):
        done = subprocess.run([*command, flag], env=environment, capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == (f"spindle {__version__}\n", "")


def test_a_reader_that_goes_away_is_not_an_accident(spindle_cmd: list[str], environment: dict[str, str]) -> None:
    with subprocess.Popen(
        [*spindle_cmd, "--version"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        assert (child.stderr.read(), child.wait(10)) == (b"", 1)


@pytest.mark.parametrize("by_module", [False, True], ids=["the command", "python -m"])
def test_a_repository_cannot_replace_our_modules(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path, by_module: bool
) -> None:
    for name in ("asyncio", "msgspec", "tomllib", "ssl", "signal", "gc", "sitecustomize"):
        (workspace / f"{name}.py").write_text("raise SystemExit('the repository was imported')\n")
    command = [sys.executable, "-m", "spindle"] if by_module else spindle_cmd
    done = subprocess.run(
        [*command, "exec", "hello"],
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert len(server.turns_asked) == 1
