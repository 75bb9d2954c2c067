"""`./run` without its set-up: when it starts the installed command at once, and when it prepares .venv first."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent.parent
SCRIPTS = ["run", "test", ".ci/run", "scripts/prepare-venv"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose installed command and set-up only say that they ran."""
    root = tmp_path / "checkout"
    for folder in ("scripts", ".venv/bin"):
        (root / folder).mkdir(parents=True)
    shutil.copy(REPOSITORY / "run", root)
    for name in ("pyproject.toml", "scripts/spindle", ".venv/bin/python"):
        (root / name).write_text("")
    (root / ".venv/bin/spindle").write_text('#!/bin/sh\nprintf "spindle %s\\n" "$*"\n')
    (root / "scripts/prepare-venv").write_text("#!/bin/sh\necho prepared\n")
    for name in (".venv/bin/python", ".venv/bin/spindle", "scripts/prepare-venv"):
        (root / name).chmod(0o755)
    (root / ".venv/.ready").write_text(f"{root}/.venv\n")
    for name in ("pyproject.toml", "scripts/spindle"):
        os.utime(root / name, (1_000_000_000, 1_000_000_000))
    return root


def output_of(*command: str | Path, cwd: Path) -> list[str]:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_scripts_can_be_run_and_are_valid_shell(script: str) -> None:
    path = REPOSITORY / script
    assert os.access(path, os.X_OK)
    subprocess.run(["sh", "-n", str(path)], check=True)


def test_a_prepared_checkout_starts_the_command_from_any_folder(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(checkout / "run")
    expected = ["spindle exec two words"]
    assert output_of("./run", "exec", "two words", cwd=checkout) == expected
    assert output_of(checkout / "run", "exec", "two words", cwd=tmp_path) == expected
    assert output_of("./link", "exec", "two words", cwd=tmp_path) == expected


@pytest.mark.parametrize("changed", ["pyproject.toml", "scripts/spindle"])
def test_a_changed_project_is_installed_again_first(checkout: Path, changed: str) -> None:
    os.utime(checkout / changed, (4_000_000_000, 4_000_000_000))
    assert output_of("./run", "-V", cwd=checkout) == ["prepared", "spindle -V"]


def test_a_new_or_moved_checkout_is_prepared_first(checkout: Path, tmp_path: Path) -> None:
    moved = checkout.rename(tmp_path / "moved")
    assert output_of("./run", "-V", cwd=moved) == ["prepared", "spindle -V"]
    (moved / ".venv/.ready").unlink()
    assert output_of("./run", "-V", cwd=moved) == ["prepared", "spindle -V"]


@pytest.fixture
def set_up(tmp_path: Path) -> Path:
    """A folder with a blank in its name whose set-up is the real one; `python` in it installs nothing."""
    root = tmp_path / "my checkout"
    for folder in ("scripts", "src/spindle"):
        (root / folder).mkdir(parents=True)
    for name in ("run", "scripts/prepare-venv"):
        shutil.copy(REPOSITORY / name, root / name)
    (root / "pyproject.toml").write_text("")
    (root / "scripts/spindle").write_text("#!python\nimport sys\nprint('spindle', *sys.argv[1:])\n")
    # Stands for the interpreter: makes an environment of itself, and answers pip as if all were installed.
    (root / "python").write_text(
        "#!/bin/sh\n"
        'case "$1 $2" in\n'
        '"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp scripts/spindle "$3/bin" ;;\n'
        '"-m pip") [ ! -e no-network ] ;;\n'
        f'*) exec "{sys.executable}" "$@" ;;\n'
        "esac\n"
    )
    for name in ("scripts/spindle", "python"):
        (root / name).chmod(0o755)
    return root


def start(root: Path, *arguments: str, python: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(root), "PYTHON": python or str(root / "python")}
    return subprocess.run(
        [str(root / "run"), *arguments], cwd=root, env=environment, capture_output=True, text=True, timeout=60
    )


def test_the_set_up_works_in_a_folder_with_a_blank_in_its_name_and_runs_once(set_up: Path) -> None:
    first, second = start(set_up, "a b", "c"), start(set_up, "again")
    assert (first.stdout, second.stdout, second.stderr) == ("spindle a b c\n", "spindle again\n", "")
    assert "Setting up .venv" in first.stderr


def test_a_set_up_that_failed_is_tried_again(set_up: Path) -> None:
    (set_up / "no-network").write_text("")
    failed = start(set_up, "x")
    assert (failed.returncode, failed.stdout) == (1, "") and "did not work" in failed.stderr
    (set_up / "no-network").unlink()
    assert start(set_up, "x").stdout == "spindle x\n"


def test_an_interpreter_that_cannot_be_used_is_named(set_up: Path) -> None:
    refused = start(set_up, "x", python="/no/such/python")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "PYTHON=/no/such/python is not a Python 3.11 or newer.\n"


def test_a_checkout_that_cannot_be_written_says_so(set_up: Path) -> None:
    (set_up / ".cache").write_text("in the way, for root too\n")
    refused = start(set_up, "x")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "cannot be written" in refused.stderr and refused.stderr.count("\n") == 1
