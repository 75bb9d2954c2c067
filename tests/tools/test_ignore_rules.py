"""What is ignored, compared with git itself."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repository import make_repository, needs_git
from spindle.tools.ignore_rules import IgnoreFile, Ignores

PATHS = ["a", "b.o", "build/x", "build/y.o", "src/a", "src/build/x", "src/deep/a.o", "a b", "x.txt", "[z]"]
PATHS += ["!bang", "#hash"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    make_repository(folder)
    for path in PATHS:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("")
    return folder


def ignored_by_git(folder: Path) -> set[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=folder,
        env=environment,
        capture_output=True,
        check=True,
    )
    return set(PATHS) - set(done.stdout.decode().split("\0"))


def ignored_by_us(folder: Path) -> set[str]:
    hidden: set[str] = set()
    for path in PATHS:
        level = Ignores.at(str(folder))
        *parents, name = path.split("/")
        inside = folder
        for parent in parents:
            if level.hides(parent, True):
                hidden.add(path)
                break
            inside = inside / parent
            fd = os.open(inside, os.O_RDONLY)
            level = level.below(parent, fd)
            os.close(fd)
        else:
            if level.hides(name, False):
                hidden.add(path)
    return hidden


LINES = st.one_of(
    st.sampled_from(
        [
            *("*.o", "build/", "/build", "build", "src/*", "!src/a", "**/build", "src/**", "src/**/a.o", "/a", "a"),
            *("a b", "*.txt ", "a\\ b", "[ab]", "[!ab]", "[^ab]", "\\[z\\]", "\\!bang", "\\#hash", "#hash", "!b.o"),
            *("*", "!*/", "/*", "?", "??o", "b.?", "deep/", "src/deep", "*/deep/*", "**", "a/**/b", "[", "[z", "/"),
            *("x.tx[", "!", "**/*.o"),
        ]
    ),
    st.text(alphabet="ab/*?!.o[]\\ ", min_size=1, max_size=8).filter(lambda line: not line.endswith("\\")),
)


@needs_git
@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINES, min_size=1, max_size=4))
def test_the_same_files_are_ignored_as_by_git(repository: Path, lines: list[str]):
    (repository / ".gitignore").write_text("\n".join(lines) + "\n")
    assert ignored_by_us(repository) == ignored_by_git(repository)


@needs_git
def test_deeper_files_have_the_last_word(repository: Path):
    (repository / ".gitignore").write_text("*.o\n")
    (repository / "src" / "deep" / ".gitignore").write_text("!a.o\n")
    try:
        assert ignored_by_us(repository) == ignored_by_git(repository) == {"b.o", "build/y.o"}
    finally:
        (repository / "src" / "deep" / ".gitignore").unlink()


def test_no_pattern_takes_long():
    started = time.process_time()
    evil = IgnoreFile("*a" * 60 + "b\n" + "**/" * 60 + "x\n" + "[" * 200 + "\n")
    assert evil.verdict(("a" * 250, "a" * 250), False) is None
    assert time.process_time() - started < 2
