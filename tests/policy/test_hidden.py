"""Folders that are hidden from what runs side by side: `Fence.hidden`, as tools see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spindle.policy.sandbox import Boundary, Fence, boundary_of
from spindle.protocol.settings import SandboxPolicy


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("apart/mine/sub", "apart/theirs", "apart/mirror", "outside"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text("text")
    return tmp_path.resolve()


def boundary(place: Path) -> Boundary:
    fence = Fence(hidden=(str(place / "apart"),), shown=(str(place / "apart/mirror"),))
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
    return boundary_of(policy, cwd=str(place / "apart/mine"), env={}, home="", fence=fence)


def test_of_a_hidden_folder_only_the_own_workspace_and_what_is_shown_can_be_read(place: Path) -> None:
    seen = boundary(place)
    for name in ("apart/mine/file", "apart/mine/sub/file", "apart/mirror/file", "outside/file"):
        assert seen.may_read(str(place / name)), name
    for name in ("apart/theirs/file", "apart/theirs", "apart/new", "apart/mine2", "apart/mine/../theirs/file"):
        assert not seen.may_read(str(place / name)), name


def test_a_link_out_of_the_workspace_does_not_lead_into_a_hidden_folder(place: Path) -> None:
    (place / "apart/mine/way").symlink_to(place / "apart/theirs")
    assert not boundary(place).may_read("way/file")


def test_nothing_but_the_own_workspace_can_be_written(place: Path) -> None:
    seen = boundary(place)
    assert seen.may_write(str(place / "apart/mine/new"))
    for name in ("apart/theirs/new", "apart/mirror/new", "apart/new"):
        assert not seen.may_write(str(place / name)), name
