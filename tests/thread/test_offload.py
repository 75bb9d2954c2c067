"""Outputs put aside in files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from spindle.thread.offload import Handle, folder_of, forget_outputs, is_offloaded, store_output


def stored(home: Path, call_id: str, text: str, thread_id: str = "t1") -> Handle:
    handle = store_output(str(home), thread_id, call_id, text)
    assert handle is not None
    return handle


def test_an_output_is_stored_as_it_is_and_only_for_its_owner(tmp_path: Path):
    old = os.umask(0)
    try:
        handle = stored(tmp_path, "call_1", "one\nzwölf\n")
    finally:
        os.umask(old)
    assert handle == Handle(path=f"{tmp_path}/spindle/offload/t1/call_1.txt", size=11, lines=2)
    assert Path(handle.path).read_text() == "one\nzwölf\n"
    assert stat.S_IMODE(os.stat(handle.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(handle.path)).st_mode) == 0o700


def test_a_second_output_of_a_call_does_not_replace_the_first(tmp_path: Path):
    first, second = stored(tmp_path, "c", "first"), stored(tmp_path, "c", "second")
    assert [Path(handle.path).read_text() for handle in (first, second)] == ["first", "second"]


@pytest.mark.parametrize("name", ["../../evil", "/etc/evil", "a/b", "", ".", "..", "n\0ul", "x" * 300, "ünïcode"])
def test_ids_from_a_server_cannot_lead_anywhere_else(tmp_path: Path, name: str):
    handle = stored(tmp_path, name, "text", thread_id=name)
    assert os.path.dirname(os.path.dirname(os.path.realpath(handle.path))) == f"{tmp_path}/spindle/offload"
    assert is_offloaded(handle.path, (str(tmp_path),), name)
    assert not is_offloaded(handle.path, (str(tmp_path),), "another")


def test_a_link_in_place_of_the_file_is_not_written_through(tmp_path: Path):
    folder = Path(folder_of(str(tmp_path), "t1"))
    folder.mkdir(parents=True)
    (tmp_path / "victim").write_text("untouched")
    (folder / "call_1.txt").symlink_to(tmp_path / "victim")
    assert stored(tmp_path, "call_1", "evil").path == f"{folder}/call_1-2.txt"
    assert (tmp_path / "victim").read_text() == "untouched"


def test_what_cannot_be_stored_has_no_handle(tmp_path: Path):
    (tmp_path / "spindle").write_text("a file where the folder should be")
    assert store_output(str(tmp_path), "t1", "c", "text") is None


def test_a_thread_that_put_aside_too_much_puts_aside_no_more(tmp_path: Path):
    stored(tmp_path, "c1", "x" * 600)
    assert store_output(str(tmp_path), "t1", "c2", "x" * 500, most=1_000) is None
    assert store_output(str(tmp_path), "t2", "c2", "x" * 500, most=1_000) is not None
    assert os.listdir(folder_of(str(tmp_path), "t1")) == ["c1.txt"]


def test_a_deleted_thread_leaves_nothing_and_takes_nothing_along(tmp_path: Path):
    mine, other = stored(tmp_path, "c", "text"), stored(tmp_path, "c", "text", thread_id="t2")
    forget_outputs(str(tmp_path), "t1")
    forget_outputs(str(tmp_path), "never there")
    assert not os.path.exists(os.path.dirname(mine.path)) and os.path.exists(other.path)
