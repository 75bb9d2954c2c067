"""A real model does real work: runs where SPINDLE_TEST_GGUF names a file.

Tried with Qwen2.5-Coder-1.5B-Instruct Q4_K_M (sha256 cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046):
on one thread each task takes a minute or two. Tasks that a model of this size does not do reliably are not here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from installed import Done, Spindle
from repository import make_repository

GGUF = os.environ.get("SPINDLE_TEST_GGUF", "")
MINUTES = 60.0

pytestmark = [
    pytest.mark.skipif(not GGUF, reason="SPINDLE_TEST_GGUF names no GGUF file"),
    pytest.mark.timeout(45 * MINUTES),
]
pytest.importorskip("xllamacpp")


@pytest.fixture(scope="module")
def model_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with the model; what it takes on disk is given back at the end."""
    home = tmp_path_factory.mktemp("real") / "home"
    home.mkdir()
    (home / "config.toml").write_text('model_provider = "local"\n')
    command = [sys.executable, "-m", "spindle", "local", "add", GGUF, "--name", "real"]
    subprocess.run(command, env={**os.environ, "CODEX_HOME": str(home)}, check=True, timeout=10 * MINUTES)
    yield home
    (home / "spindle" / "models" / "real.gguf").unlink()


@pytest.fixture
def real(spindle_cmd: list[str], model_home: Path, environment: dict[str, str], tmp_path: Path) -> Iterator[Spindle]:
    folder = tmp_path / "project"
    folder.mkdir()
    made = Spindle(spindle_cmd, make_repository(folder), model_home, {**environment, "CODEX_HOME": str(model_home)})
    yield made
    made.close()


def ask(real: Spindle, prompt: str) -> Done:
    done = real("exec", "--json", "-s", "workspace-write", prompt, timeout=40 * MINUTES)
    for event in done.events:
        print(event)
    return done


def answer(done: Done) -> str:
    return done.items("agent_message")[-1]["text"]


def test_it_lists_files(real: Spindle) -> None:
    (real.workspace / "apples.txt").write_text("red\n")
    (real.workspace / "pears.txt").write_text("green\n")
    done = ask(real, "Which files are in this folder?")
    assert done.code == 0 and "apples.txt" in answer(done) and "pears.txt" in answer(done)
    assert done.items("command_execution")


def test_it_reads_a_file_and_quotes_it(real: Spindle) -> None:
    (real.workspace / "notes.txt").write_text("The launch code is kiwi-42.\n")
    done = ask(real, "What is the launch code in notes.txt?")
    assert done.code == 0 and "kiwi-42" in answer(done)


def test_it_creates_a_small_file(real: Spindle) -> None:
    done = ask(real, "Create a file hello.py that prints hello.")
    assert done.code == 0
    ran = subprocess.run([sys.executable, "hello.py"], cwd=real.workspace, capture_output=True, text=True, timeout=20)
    assert "hello" in ran.stdout.lower(), (real.workspace / "hello.py").read_text()
