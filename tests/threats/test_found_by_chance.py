"""What a search path finds by chance in the working folder is not run and not loaded (row 21 of the findings)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fake_server import FakeServer, message, turn
from installed import Spindle
from spindle.errors import SpindleError
from spindle.frontends.tui.composer.editor import _run as run_editor
from spindle.process.lookup import find_installed

PATHS = {
    "empty": ":{outside}",
    "dot": ".:{outside}",
    "trailing": "{outside}:",
    "folder": "{workspace}",
    "link": "{outside}/link",
    "below": "{workspace}/src",
    "above": "{workspace}",
    "spelt": "{workspace}/../{name}/.",
    "relative": "../lib",
    "beside": "{workspace}/lib",
    "packed": "../lib/packed.zip",
    "process": "/proc/self/cwd/../lib",
}
FROM_BELOW = ("above", "relative", "beside", "packed", "process")
"""Tried from a folder of the repository."""


@pytest.mark.parametrize("way", sorted(PATHS))
@pytest.mark.parametrize("start", ["command", "module"])
def test_row_21_no_module_of_the_working_folder_is_loaded(
    spindle: Spindle, server: FakeServer, tmp_path: Path, way: str, start: str
) -> None:
    canary, outside, workspace = tmp_path / "canary", tmp_path / "outside", spindle.workspace
    for name in ("src", "lib"):
        (workspace / name).mkdir()
    outside.mkdir()
    (outside / "link").symlink_to(workspace)
    for folder in (workspace, workspace / "src", workspace / "lib"):
        for name in ("msgspec", "asyncio", "json", "httptools", "tomllib"):
            (folder / f"{name}.py").write_text(f"open({str(canary)!r}, 'w').write(__name__)\nraise SystemExit(9)\n")
    with zipfile.ZipFile(workspace / "lib/packed.zip", "w") as packed:
        packed.write(workspace / "lib/msgspec.py", "msgspec.py")
    server.script(turn(message("fine")))
    command = spindle.command if start == "command" else [sys.executable, "-P", "-m", "spindle"]
    where = PATHS[way].format(outside=outside, workspace=workspace, name=workspace.name)
    done = subprocess.run(
        [*command, "exec", "hi"],
        cwd=workspace / "src" if way in FROM_BELOW else workspace,
        env={**spindle.environment, "PYTHONPATH": where},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
    assert not canary.exists()


def test_row_21_modules_from_elsewhere_are_found_as_ever(spindle: Spindle, tmp_path: Path) -> None:
    """Whoever keeps the packages of programs in a folder of their own names it there."""
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs/msgspec.py").write_text("print('from elsewhere')\nraise SystemExit(0)\n")
    done = spindle("exec", "hi", PYTHONPATH=f"{tmp_path}/libs")
    assert "from elsewhere" in done.out


@pytest.mark.parametrize("where", [".", "deep/down"])
@pytest.mark.parametrize(
    "entry", [".", "", "{workspace}", "{workspace}/.venv/bin", "{link}", "{link}/.venv/bin", "/proc/self/cwd/../.."]
)
def test_row_21_the_doctor_runs_no_program_of_the_working_folder(
    spindle: Spindle, tmp_path: Path, entry: str, where: str
) -> None:
    canary, link = tmp_path / "canary", tmp_path / "link"
    link.symlink_to(spindle.workspace)
    (spindle.workspace / ".venv/bin").mkdir(parents=True)
    (spindle.workspace / "deep/down").mkdir(parents=True)
    for folder in (spindle.workspace, spindle.workspace / ".venv/bin"):
        for name in ("git", "rg", "bwrap", "sh"):
            (folder / name).write_text(f"#!/bin/sh\ntouch {canary}\necho evil\n")
            (folder / name).chmod(0o755)
    given = entry.format(workspace=spindle.workspace, link=link)
    done = spindle("doctor", "--json", cwd=spindle.workspace / where, PATH=f"{given}:{spindle.environment['PATH']}")
    assert not canary.exists()
    [git] = [check for check in json.loads(done.out)["checks"] if check["name"] == "git"]
    assert git["status"] == "ok" and "evil" not in git["detail"]


def test_row_21_programs_are_found_in_absolute_folders_outside_of_the_project(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project / "bin", outside):
        folder.mkdir(parents=True)
        (folder / "tool").write_text("#!/bin/sh\n")
        (folder / "tool").chmod(0o755)
    env = {"PATH": f":.:bin:{project}/bin:{outside}"}
    assert find_installed("tool", env, cwd=str(project)) == f"{outside}/tool"
    assert find_installed("tool", {"PATH": f"{project}/bin"}, cwd=str(project)) is None
    (outside / "tool").unlink()
    (outside / "tool").symlink_to(project / "bin/tool")
    assert find_installed("tool", env, cwd=str(project)) is None
    assert find_installed("sh", cwd="/") is not None


def test_row_21_a_home_that_is_a_repository_keeps_its_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "code/project"
    project.mkdir(parents=True)
    for folder in (tmp_path / ".git", tmp_path / "bin"):
        folder.mkdir()
    (tmp_path / "bin/tool").write_text("#!/bin/sh\n")
    (tmp_path / "bin/tool").chmod(0o755)
    env = {"PATH": f"{tmp_path}/bin"}
    assert find_installed("tool", env, cwd=str(project)) is None
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_installed("tool", env, cwd=str(project)) == f"{tmp_path}/bin/tool"
    (project / ".git").mkdir()
    assert find_installed("tool", env, cwd=str(project)) == f"{tmp_path}/bin/tool"


def test_row_21_an_editor_that_is_not_installed_is_not_looked_for_in_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ed-of-mine").write_text(f"#!/bin/sh\ntouch {tmp_path}/canary\n")
    (tmp_path / "ed-of-mine").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".:{tmp_path}:/usr/bin:/bin")
    for words in (["ed-of-mine"], [f"{tmp_path}/ed-of-mine"]):
        if "/" in words[0]:  # that is the person's own word
            asyncio.run(run_editor(words))
        else:
            with pytest.raises(SpindleError, match="The editor 'ed-of-mine' cannot be started"):
                asyncio.run(run_editor(words))
        assert (tmp_path / "canary").exists() is ("/" in words[0])
