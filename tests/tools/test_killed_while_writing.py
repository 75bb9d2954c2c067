"""Killed at any system call, a write leaves the old file or the new one; what else it left, the next start removes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from spindle.process import leftovers
from spindle.tools import safe_files

CALLS = ("open", "write", "fchmod", "fchown", "link", "rename", "unlink", "close")
OLD, NEW = b"old" * 1000, b"new" * 1000


def write_until(step: int, target: Path, home: Path, *, has_unnamed_files: bool) -> bool:
    """Write in a child that is killed before its n-th system call; true when it was done before."""
    child = os.fork()
    if child == 0:
        left = [step]

        def counted(call: Any) -> Any:
            def run(*args: Any, **options: Any) -> Any:
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*args, **options)

            return run

        for name in CALLS:
            setattr(os, name, counted(getattr(os, name)))
        if not has_unnamed_files:
            del os.O_TMPFILE
        try:
            safe_files.write_file(str(target), NEW, home=str(home))
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("has_unnamed_files", [True, False])
@pytest.mark.parametrize("exists", [True, False])
def test_at_every_moment_there_is_a_whole_file_and_nothing_is_left_after_the_next_start(
    has_unnamed_files: bool, exists: bool, tmp_path: Path
) -> None:
    home, folder = tmp_path / "home", tmp_path / "folder"
    home.mkdir()
    folder.mkdir()
    target = folder / "file"
    for step in range(1, 100):
        target.unlink(missing_ok=True)
        if exists:
            target.write_bytes(OLD)
        is_done = write_until(step, target, home, has_unnamed_files=has_unnamed_files)
        leftovers.recover(str(home))
        names = [path.name for path in folder.iterdir()]
        assert set(names) <= {"file"} and (names or not exists), f"killed before call {step}"
        if names:
            assert target.read_bytes() in (OLD, NEW)
        assert [*home.glob("spindle/*")] == []
        if is_done:
            assert target.read_bytes() == NEW and step > 5
            return
    raise AssertionError("it never came to an end")


def test_what_a_living_process_works_on_is_left_alone(tmp_path: Path) -> None:
    temporary = tmp_path / leftovers.temporary_name()
    with leftovers.listed(str(temporary), str(tmp_path)):
        temporary.write_bytes(NEW)
        leftovers.recover(str(tmp_path))
        assert temporary.exists() and len([*tmp_path.glob("spindle/*")]) == 1
        temporary.unlink()
    assert [*tmp_path.glob("spindle/*")] == []


@pytest.mark.parametrize("name", ["precious", ".spindle-0123.tmp", "x.spindle-0123456789abcdef.tmp"])
def test_a_list_removes_nothing_but_temporary_files(name: str, tmp_path: Path) -> None:
    (tmp_path / "spindle").mkdir()
    (tmp_path / name).write_bytes(OLD)
    (tmp_path / "spindle/unfinished-1").write_text(str(tmp_path / name))
    leftovers.recover(str(tmp_path))
    assert (tmp_path / name).exists() and [*tmp_path.glob("spindle/*")] == []


def test_a_new_file_never_has_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Watchers and `git status` see one file appear, whole."""
    named: list[Any] = []
    link, rename = os.link, os.rename
    monkeypatch.setattr(os, "link", lambda *args, **options: (named.append(args[1]), link(*args, **options)))
    monkeypatch.setattr(os, "rename", lambda *args, **options: (named.append(args), rename(*args, **options)))
    safe_files.write_file(str(tmp_path / "new"), NEW)
    assert named == ["new"]
