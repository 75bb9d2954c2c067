"""Single files in hostile folder trees."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from spindle.tools.safe_files import read_file, remove_file, true_path, write_file


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder `inside` to work in, and one `outside` that nothing may reach."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret\n")
    return tmp_path


TOUCHES: list[Callable[[str], object]] = [read_file, remove_file, lambda path: write_file(path, b"evil\n")]


def test_a_true_path_has_no_dots_and_no_links(home: Path):
    (home / "inside" / "link").symlink_to("../outside")
    inside, outside = str(home / "inside"), str(home / "outside")
    assert true_path("a/./b", inside) == f"{inside}/a/b"
    assert true_path("../outside/x", inside) == f"{outside}/x"
    assert true_path("link/x", inside) == f"{outside}/x"
    assert true_path("link", inside, keep_last_link=True) == f"{inside}/link"
    assert true_path("link/../x", inside) == f"{inside}/x"
    assert true_path("//etc/x", inside) == "/etc/x"
    assert true_path("//x", inside, keep_last_link=True) == "/x"


@pytest.mark.parametrize("touch", TOUCHES)
def test_a_link_put_in_place_of_the_file_is_not_followed(home: Path, touch: Callable[[str], object]):
    (home / "inside" / "f").symlink_to(home / "outside" / "secret")
    with pytest.raises(OSError, match="symbolic link"):
        touch(str(home / "inside" / "f"))
    assert (home / "outside" / "secret").read_text() == "secret\n"


@pytest.mark.parametrize("touch", TOUCHES)
def test_a_link_put_in_place_of_a_folder_is_not_followed(home: Path, touch: Callable[[str], object]):
    (home / "inside" / "d").symlink_to(home / "outside")
    with pytest.raises(NotADirectoryError):
        touch(str(home / "inside" / "d" / "secret"))
    assert (home / "outside" / "secret").read_text() == "secret\n"
    assert [entry.name for entry in (home / "outside").iterdir()] == ["secret"]


@pytest.mark.parametrize("path", ["relative", "/", "/a/../b"])
@pytest.mark.parametrize("touch", TOUCHES)
def test_a_path_that_is_not_a_true_one_is_refused(touch: Callable[[str], object], path: str):
    with pytest.raises(OSError) as caught:
        touch(path)
    assert caught.value.errno == errno.EINVAL


@pytest.mark.parametrize("touch", TOUCHES)
def test_folders_pipes_and_devices_are_refused(home: Path, touch: Callable[[str], object]):
    os.mkfifo(home / "inside" / "pipe")
    with pytest.raises(OSError, match="Not a regular file"):
        touch(str(home / "inside" / "pipe"))
    with pytest.raises(OSError, match="Not a regular file"):
        touch("/dev/null")
    with pytest.raises(IsADirectoryError):
        touch(str(home / "inside"))
    assert stat.S_ISFIFO((home / "inside" / "pipe").stat().st_mode)


def test_writing_a_hard_linked_file_leaves_its_other_name_alone(home: Path):
    os.link(home / "outside" / "secret", home / "inside" / "f")
    write_file(str(home / "inside" / "f"), b"mine\n")
    assert (home / "inside" / "f").read_text() == "mine\n"
    assert (home / "outside" / "secret").read_text() == "secret\n"


def test_a_written_file_keeps_its_permissions_and_loses_set_user_id(home: Path):
    file = home / "inside" / "run.sh"
    file.write_text("x")
    file.chmod(0o4751)
    assert write_file(str(file), b"y") == 0o751
    assert (stat.S_IMODE(file.stat().st_mode), file.read_bytes()) == (0o751, b"y")


def test_a_new_file_follows_the_umask_and_gets_its_folders(home: Path):
    file = home / "inside" / "a" / "b" / "f"
    old = os.umask(0o027)
    try:
        assert write_file(str(file), b"x") == 0o640
    finally:
        os.umask(old)
    assert stat.S_IMODE((home / "inside" / "a").stat().st_mode) == 0o750


def test_no_temporary_file_is_left_behind(home: Path):
    (home / "inside" / "f").write_text("x")
    write_file(str(home / "inside" / "f"), b"y")
    with pytest.raises(TypeError):
        write_file(str(home / "inside" / "f"), "not bytes")  # pyright: ignore[reportArgumentType]
    assert [entry.name for entry in (home / "inside").iterdir()] == ["f"]
    assert (home / "inside" / "f").read_text() == "y"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into any folder")
def test_a_file_in_a_folder_that_takes_no_new_files_is_written_in_place(home: Path):
    file = home / "inside" / "f"
    file.write_text("long old content")
    (home / "inside").chmod(0o555)
    try:
        write_file(str(file), b"new")
    finally:
        (home / "inside").chmod(0o755)
    assert file.read_text() == "new"


def test_a_removed_file_is_gone(home: Path):
    file = home / "inside" / "f"
    file.write_text("x")
    assert read_file(str(file)) == b"x"
    remove_file(str(file))
    assert not file.exists()
    with pytest.raises(FileNotFoundError):
        read_file(str(file))
