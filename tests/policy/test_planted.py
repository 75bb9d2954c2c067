"""Which programs could have been put there by the model, or came with the project; asked of the disk each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from spindle.policy.approval import is_planted
from spindle.policy.safe import safe_environment
from spindle.policy.sandbox import Boundary, boundary_of
from spindle.protocol.settings import SandboxMode, SandboxPolicy


def program(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def work(tmp_path: Path) -> Path:
    program(tmp_path / "project/tool")
    program(tmp_path / "else/tool")
    (tmp_path / "project/sh").symlink_to("/bin/sh")
    (tmp_path / "else/to-work").symlink_to("../project/tool")
    (tmp_path / "else/project").symlink_to("../project")
    (tmp_path / "else/system").symlink_to("/bin/sh")
    return tmp_path / "project"


def boundary(work: Path, mode: SandboxMode = "workspace-write") -> Boundary:
    policy = SandboxPolicy(mode=mode, exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
    return boundary_of(policy, cwd=str(work), env={}, home="")


@pytest.mark.parametrize("mode", ["workspace-write", "danger-full-access"])
def test_a_program_is_planted_where_it_or_what_it_leads_to_is_the_projects(work: Path, mode: SandboxMode) -> None:
    def judge(word: str, path: str = "") -> bool:
        return is_planted(word, cwd=str(work), path=path, boundary=boundary(work, mode))

    beside = f"{work.parent}/else"
    words = {
        "./tool": True,
        "../project/tool": True,
        "./sh": True,  # the link can be turned
        f"{beside}/to-work": True,
        f"{beside}/project/tool": True,
        f"{beside}/tool": False,
        f"{beside}/system": False,
        "/bin/sh": False,
        "./nothing": False,
    }
    assert {word: judge(word) for word in words} == words
    assert judge("tool", f"{work}:/bin") and not judge("sh", f"/bin:{work}") and judge("sh", f"{work}:/bin")


def test_a_link_that_was_turned_is_followed_anew(work: Path) -> None:
    link = work.parent / "else/turned"
    link.symlink_to("tool")
    assert not is_planted(str(link), cwd=str(work), path="", boundary=boundary(work))
    link.unlink()
    link.symlink_to("../project/tool")
    assert is_planted(str(link), cwd=str(work), path="", boundary=boundary(work))


def test_git_gets_its_settings_however_it_is_spelt_and_only_behind_a_shell_of_the_system(work: Path) -> None:
    for script in ("git status", "'git' status", 'g"i"t status', "ls && /usr/bin/git log"):
        assert "GIT_CONFIG_COUNT" in safe_environment(["/bin/bash", "-c", script]), script
        assert safe_environment([f"{work}/bash", "-c", script]) == {}
    assert safe_environment(["/bin/bash", "-c", "ls"]) == {}
