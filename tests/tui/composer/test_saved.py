"""Drafts on disk: they survive a kill, and belong to one interface at a time."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spindle.frontends.tui.composer import saved
from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.composer.saved import DraftFile, left_behind
from spindle.protocol.clock import FixedClock, SystemClock
from tui.composer.writing import press, rows, write

_WRITER = """
import asyncio, sys, time
from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.composer.saved import DraftFile
from spindle.frontends.tui.keys import Key
from spindle.protocol.clock import SystemClock

async def main():
    composer = Composer()
    composer.furnish(draft_file=DraftFile(sys.argv[1], sys.argv[2], SystemClock()))
    for char in "half a sentence ":
        composer.key(Key(char, char))
    composer.paste("p\\n" * 30)
    composer.attach_images([sys.argv[2] + "/a.png"])
    print("typed", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def files(home: Path) -> list[Path]:
    folder = home / "spindle" / "drafts"
    return sorted(folder.iterdir()) if folder.exists() else []


def composer_in(home: Path, cwd: Path) -> Composer:
    composer = Composer()
    composer.furnish(draft_file=DraftFile(str(home), str(cwd), SystemClock()))
    return composer


async def written(home: Path) -> Path:
    while not (found := files(home)) or found[0].suffix != ".json":
        await asyncio.sleep(0.01)
    return found[0]


async def test_a_draft_is_written_by_itself_for_its_owner_alone_and_goes_when_it_is_sent(tmp_path: Path):
    home = tmp_path / "home"
    composer = composer_in(home, tmp_path)
    assert files(home) == []
    write(composer, "hello")
    path = await asyncio.wait_for(written(home), 10)
    assert json.loads(path.read_text())["parts"] == [{"text": "hello"}]
    assert json.loads(path.read_text())["cwd"] == str(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    composer.take()
    composer.save_now()
    assert files(home) == []


async def test_an_interrupt_writes_at_once_and_a_clean_end_leaves_nothing(tmp_path: Path):
    composer = composer_in(tmp_path, tmp_path)
    write(composer, "hello")
    composer.save_now()
    assert len(files(tmp_path)) == 1
    write(composer, " world")
    composer.close()
    assert files(tmp_path) == []


def test_after_a_kill_the_draft_is_offered_to_the_next_interface_in_that_folder(tmp_path: Path):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(tmp_path), str(here)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "typed\n"
        asyncio.run(asyncio.wait_for(written(tmp_path), 10))
        assert left_behind(str(tmp_path), str(here)) == []  # its interface lives
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert left_behind(str(tmp_path), str(elsewhere)) == []
    (found,) = left_behind(str(tmp_path), str(here))
    composer = composer_in(tmp_path, here)
    composer.restore(found)
    assert rows(composer) == ["› half a sentence [Pasted #1: 30 lines][Image #1] "]
    assert len(files(tmp_path)) == 1 and left_behind(str(tmp_path), str(here)) == []  # it is ours now
    draft = composer.take()
    assert draft.text == "half a sentence " + "p\n" * 30 + "[Image #1] " and draft.images == (f"{here}/a.png",)
    composer.save_now()
    assert files(tmp_path) == []


def test_two_interfaces_have_a_file_each(tmp_path: Path):
    first, second = composer_in(tmp_path, tmp_path), composer_in(tmp_path, tmp_path)
    write(first, "one")
    write(second, "two")
    assert len(files(tmp_path)) == 2
    first.close()
    assert len(files(tmp_path)) == 1 and second.text == "two"


def test_a_full_disk_does_not_disturb_typing_and_keeps_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    composer = composer_in(tmp_path, tmp_path)
    write(composer, "saved")

    def full(fd: int, data: bytes) -> None:
        os.write(fd, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(saved, "write_all", full)
        write(composer, " and more")
    (path,) = files(tmp_path)
    assert json.loads(path.read_text())["parts"] == [{"text": "saved"}] and composer.text == "saved and more"
    write(composer, "!")
    assert json.loads(path.read_text())["parts"] == [{"text": "saved and more!"}]


def test_damaged_files_are_left_alone(tmp_path: Path):
    folder = tmp_path / "spindle" / "drafts"
    folder.mkdir(parents=True)
    for number, text in enumerate(["", "{", "[]", '{"cwd": 5}', '{"cwd": "/x", "parts": [1]}', "[" * 5000]):
        (folder / f"{number}.json").write_text(text)
    os.mkfifo(folder / "pipe.json")
    (folder / "link.json").symlink_to("/etc/passwd")
    assert left_behind(str(tmp_path), str(tmp_path)) == []
    assert len(files(tmp_path)) == 8


def test_a_cleared_draft_is_no_draft(tmp_path: Path):
    composer = Composer()
    composer.furnish(draft_file=DraftFile(str(tmp_path), str(tmp_path), FixedClock()))
    write(composer, "x")
    assert len(files(tmp_path)) == 1
    press(composer, "ctrl-c")
    assert files(tmp_path) == []
