"""The tasks under bench/tasks can be done, and are not done before anybody has begun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from repository import needs_git

TASKS = Path(__file__).parent.parent.parent / "bench" / "tasks"
pytestmark = needs_git
NAMES = sorted(path.parent.name for path in TASKS.glob("*/prompt.md"))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The lines of the list, by id."""
    out = tmp_path_factory.mktemp("tasks") / "out"
    subprocess.run([sys.executable, TASKS / "prepare.py", out], check=True, capture_output=True)
    lines = [json.loads(line) for line in (out / "tasks.jsonl").read_text().splitlines()]
    return {line["id"]: line for line in lines}


def verifies(task: dict[str, str]) -> bool:
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(["sh", "-c", task["verify"]], cwd=task["repo"], capture_output=True, env=environment)
    return done.returncode == 0


def test_there_are_at_least_a_dozen() -> None:
    assert len(NAMES) >= 12


@pytest.mark.parametrize("name", NAMES)
def test_a_task_is_open_until_it_is_solved(name: str, prepared: dict[str, dict[str, str]]) -> None:
    task = prepared[name]
    assert not verifies(task)
    subprocess.run(["git", "apply", TASKS / name / "solution.diff"], cwd=task["repo"], check=True)
    assert verifies(task)


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    done = subprocess.run([sys.executable, TASKS / "prepare.py", tmp_path], capture_output=True, text=True)
    assert (done.returncode, sorted(os.listdir(tmp_path))) == (2, ["mine"])
    assert str(tmp_path) in done.stderr
