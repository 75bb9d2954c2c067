"""What a search path finds by chance in the working folder is not run and not loaded (row 21 of the findings)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fake_server import FakeServer, message, turn
from installed import Spindle
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
}


@pytest.mark.parametrize("way", sorted(PATHS))
@pytest.mark.parametrize("start", ["command", "module"])
def test_row_21_no_module_of_the_working_folder_is_loaded(
    spindle: Spindle, server: FakeServer, tmp_path: Path, way: str, start: str
) -> None:
    canary, outside, workspace = tmp_path / "canary", tmp_path / "outside", spindle.workspace
    (workspace / "src").mkdir()
    outside.mkdir()
    (outside / "link").symlink_to(workspace)
    for folder in (workspace, workspace / "src"):
        for name in ("msgspec", "asyncio", "json", "httptools", "tomllib"):
            (folder / f"{name}.py").write_text(f"open({str(canary)!r}, 'w').write(__name__)\nraise SystemExit(9)\n")
    server.script(turn(message("fine")))
    command = spindle.command if start == "command" else [sys.executable, "-P", "-m", "spindle"]
    where = PATHS[way].format(outside=outside, workspace=workspace, name=workspace.name)
    done = subprocess.run(
        [*command, "exec", "hi"],
        cwd=workspace / "src" if way == "above" else workspace,
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


@pytest.mark.parametrize("entry", [".", "", "{workspace}", "{workspace}/.venv/bin", "{link}"])
def test_row_21_the_doctor_runs_no_program_of_the_working_folder(spindle: Spindle, tmp_path: Path, entry: str) -> None:
    canary, link = tmp_path / "canary", tmp_path / "link"
    link.symlink_to(spindle.workspace)
    (spindle.workspace / ".venv/bin").mkdir(parents=True)
    for folder in (spindle.workspace, spindle.workspace / ".venv/bin"):
        for name in ("git", "rg", "bwrap", "sh"):
            (folder / name).write_text(f"#!/bin/sh\ntouch {canary}\necho evil\n")
            (folder / name).chmod(0o755)
    given = entry.format(workspace=spindle.workspace, link=link)
    done = spindle("doctor", "--json", PATH=f"{given}:{spindle.environment['PATH']}")
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
