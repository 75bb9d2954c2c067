"""Which folder counts as trusted, as the installed command decides it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fake_server import FakeServer
from installed import Spindle
from repository import make_repository

WORDS = "WORDS OF THE PROJECT"


def project(folder: Path, *, is_repository: bool = True) -> Path:
    (folder / ".codex").mkdir(parents=True)
    (folder / ".codex/config.toml").write_text(f'developer_instructions = "{WORDS}"\n')
    if is_repository:
        make_repository(folder)
    return folder


Heard = Callable[..., bool]


@pytest.fixture
def is_heard(spindle: Spindle, server: FakeServer, home: Path) -> Heard:
    """Run in a folder while another one is trusted: does the project's configuration reach the model?"""
    config = (home / "config.toml").read_text()

    def hears(folder: Path, trusted: str, *args: str) -> bool:
        (home / "config.toml").write_text(f'{config}\n[projects."{trusted}"]\ntrust_level = "trusted"\n')
        done = spindle("exec", "--skip-git-repo-check", *args, "hi", cwd=folder)
        assert done.code == 0, done.err
        return WORDS in server.requests[-1].body.decode()

    return hears


def test_the_real_folder_is_trusted_by_whatever_way_one_gets_there(is_heard: Heard, tmp_path: Path) -> None:
    real = project(tmp_path / "real")
    (real / "sub").mkdir()
    (tmp_path / "link").symlink_to(real)
    assert is_heard(real, str(real)) and is_heard(real, f"{real}/")
    assert is_heard(tmp_path / "link", str(real))
    assert is_heard(real / "sub", str(real))
    assert is_heard(tmp_path, str(real), "-C", "link/sub/..")


def test_a_link_that_is_trusted_says_nothing_about_where_it_leads(is_heard: Heard, tmp_path: Path) -> None:
    evil = project(tmp_path / "evil")
    (tmp_path / "link").symlink_to(evil)
    assert not is_heard(tmp_path / "link", str(tmp_path / "link"))


@pytest.mark.parametrize("name", ["work-evil", "workevil", "WORK", "work .", "work\n"])
def test_a_folder_with_a_similar_name_is_not_trusted(is_heard: Heard, tmp_path: Path, name: str) -> None:
    project(tmp_path / "work")
    assert not is_heard(project(tmp_path / name), str(tmp_path / "work"))


def test_a_trusted_folder_does_not_vouch_for_a_repository_inside_it(is_heard: Heard, tmp_path: Path) -> None:
    outer = project(tmp_path / "outer")
    plain = outer / "plain"
    plain.mkdir()
    assert is_heard(plain, str(outer)), "else the rest could not fail"
    assert not is_heard(project(outer / "vendor/inner"), str(outer))
    module = project(outer / "module", is_repository=False)
    (module / ".git").write_text(f"gitdir: {outer}/.git/modules/module\n")
    assert not is_heard(module, str(outer))
    assert not is_heard(project(tmp_path / "parent/child"), str(tmp_path / "parent"))


def test_a_project_file_that_is_a_link_out_of_an_untrusted_folder_is_not_read(is_heard: Heard, tmp_path: Path) -> None:
    trusted = project(tmp_path / "trusted")
    evil = tmp_path / "evil"
    evil.mkdir()
    make_repository(evil)
    (evil / ".codex").symlink_to(trusted / ".codex")
    assert not is_heard(evil, str(trusted))
