"""/diff: everything that is not committed, also untracked files; and a repository that wants git to run something."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from spindle.frontends.tui.commands import running
from spindle.frontends.tui.shown import Line, texts
from tui.fake_desk import FakeDesk


def git(folder: Path, *words: str) -> None:
    done = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", *words]
    subprocess.run(done, cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(desk: FakeDesk) -> Path:
    """A repository with one commit."""
    folder = Path(desk.config.cwd)
    git(folder, "init", "-q")
    (folder / "tracked.py").write_text("x = 1\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def page(desk: FakeDesk) -> list[Line]:
    assert desk.failed == []
    return desk.pages[-1][1]


async def test_changes_staged_or_not_and_untracked_files(desk: FakeDesk, project: Path) -> None:
    (project / "tracked.py").write_text("x = 1\ny = 2\n")
    (project / "staged.py").write_text("s\n")
    git(project, "add", "staged.py")
    (project / "untracked.py").write_text("z\n\x1b[2Jevil\r\n")
    (project / "bytes.bin").write_bytes(b"\0\1")
    (project / ".gitignore").write_text("ignored\n")
    (project / "ignored").write_text("i\n")
    await running.run(desk, "/diff")
    lines = texts(page(desk))
    assert desk.pages[-1][0] == f"Changes in {project}"
    assert {"+y = 2", "+s", "+z", "diff --git a/untracked.py b/untracked.py", "(binary, 2 bytes)"} <= set(lines)
    assert not any("ignored" in text for text in lines if text.startswith("diff"))
    assert all(text.isprintable() for text in lines) and any("evil" in text for text in lines)
    styles = {plain.spans[0].text: plain.spans[0].style for plain in page(desk) if plain.spans}
    assert styles["+y = 2"] == "added" and styles["diff --git a/tracked.py b/tracked.py"] == "bold"


async def test_below_the_root_the_whole_repository_is_compared(desk: FakeDesk, project: Path) -> None:
    (project / "sub").mkdir()
    (project / "tracked.py").write_text("x = 2\n")
    (project / "outer.txt").write_text("o\n")
    assert desk.thread is not None
    await running.run(desk, "/permissions read-only")
    await running.run(desk, "/cd sub")
    assert desk.thread.settings.cwd == str(project / "sub")
    await running.run(desk, "/diff")
    assert {"-x = 1", "+x = 2", "+o"} <= set(texts(page(desk)))


async def test_nothing_changed_and_no_repository_are_said(desk: FakeDesk) -> None:
    folder = Path(desk.config.cwd)
    await running.run(desk, "/diff")
    assert desk.failed == [f"{folder} is not in a git repository, so there is nothing to compare with"]
    git(folder, "init", "-q")
    await running.run(desk, "/diff")
    assert desk.said == ["Nothing has changed since the last commit."]
    (folder / "new.txt").write_text("n\n")
    git(folder, "add", "new.txt")
    await running.run(desk, "/diff")
    assert "+n" in texts(desk.pages[-1][1])


SETTINGS = {
    "textconv": ("diff.evil.textconv", "touch {mark}; cat"),
    "command": ("diff.evil.command", "touch {mark}"),
    "clean": ("filter.evil.clean", "touch {mark}; cat"),
    "external": ("diff.external", "touch {mark}"),
}


@pytest.mark.parametrize("kind", SETTINGS)
async def test_a_repository_that_names_programs_is_asked_about_and_no_is_highlighted(
    desk: FakeDesk, project: Path, tmp_path: Path, kind: str
) -> None:
    mark = tmp_path / "ran"
    key, value = SETTINGS[kind]
    git(project, "config", key, value.format(mark=mark))
    (project / ".gitattributes").write_text("*.py diff=evil filter=evil\n")
    (project / "tracked.py").write_text("x = 3\n")
    desk.hands = [("enter",)]
    await running.run(desk, "/diff")
    assert desk.pages == [] and "› 1. No" in desk.views[0] and not mark.exists()


@pytest.mark.parametrize("key", ["core.fsmonitor", "core.pager", "core.hooksPath"])
async def test_what_can_be_switched_off_never_runs(desk: FakeDesk, project: Path, tmp_path: Path, key: str) -> None:
    mark = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    git(project, "config", key, str(program))
    (project / "tracked.py").write_text("x = 3\n")
    await running.run(desk, "/diff")
    assert "+x = 3" in texts(page(desk)) and not mark.exists()
