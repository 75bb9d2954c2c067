"""/review: what is chosen, and what is asked of the thread."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from spindle.frontends.tui.commands import running
from spindle.protocol.ops import Review
from tui.fake_desk import FakeDesk


def git(folder: Path, *words: str) -> str:
    who = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    return subprocess.run([*who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def project(desk: FakeDesk) -> Path:
    """A repository with two commits, on a branch beside `main`; its settings would have git run a program."""
    folder = Path(desk.config.cwd)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    git(folder, "checkout", "-qb", "work")
    git(folder, "commit", "-q", "--allow-empty", "-m", "second\x1b[2J one")
    git(folder, "config", "log.showSignature", "true")
    git(folder, "config", "gpg.program", f"touch {folder}/ran; true")
    return folder


def wanted(desk: FakeDesk) -> dict[str, Any]:
    assert desk.failed == []
    (op,) = desk.submitted
    assert isinstance(op, Review)
    return op.review_request


async def test_a_text_says_what_to_look_for(desk: FakeDesk) -> None:
    await running.run(desk, "/review look for races")
    target = {"type": "custom", "instructions": "look for races"}
    assert wanted(desk) == {"target": target, "user_facing_hint": "look for races"}


async def test_without_a_text_one_chooses(desk: FakeDesk, project: Path) -> None:
    desk.hands = [["enter"]]
    await running.run(desk, "/review")
    assert wanted(desk) == {"target": {"type": "uncommittedChanges"}, "user_facing_hint": "current changes"}


async def test_a_branch_is_chosen_from_the_others(desk: FakeDesk, project: Path) -> None:
    desk.hands = [["2"], ["enter"]]
    await running.run(desk, "/review")
    assert wanted(desk)["target"] == {"type": "baseBranch", "branch": "main"}


async def test_a_commit_is_chosen_from_the_last_and_git_runs_nothing_else(desk: FakeDesk, project: Path) -> None:
    sha = git(project, "rev-parse", "HEAD~")
    desk.hands = [["3"], ["down", "enter"]]
    await running.run(desk, "/review")
    assert wanted(desk) == {
        "target": {"type": "commit", "sha": sha, "title": "first"},
        "user_facing_hint": f"commit {sha[:7]}: first",
    }
    assert not (project / "ran").exists()


async def test_own_words_go_into_the_composer(desk: FakeDesk) -> None:
    desk.hands = [["4"]]
    await running.run(desk, "/review")
    assert desk.draft == "/review " and desk.submitted == []


async def test_outside_of_a_repository_there_is_no_branch(desk: FakeDesk) -> None:
    desk.hands = [["2"]]
    await running.run(desk, "/review")
    assert desk.submitted == [] and "is not in a git repository" in desk.failed[0]
