"""`./run` without its set-up: when it starts the installed command at once, and when it prepares .venv first."""

from __future__ import annotations

import os
import shutil
import subprocess
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
