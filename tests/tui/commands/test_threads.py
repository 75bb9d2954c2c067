"""/new, /clear, /resume, /fork, /rename, /archive, /delete, /tree, /rewind: threads and what becomes of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from spindle.frontends.tui.commands import running
from spindle.model.scripted import says
from spindle.thread.store import ThreadStore
from tui.commands.conftest import OpenDesk
from tui.fake_desk import FakeDesk


def store(desk: FakeDesk) -> ThreadStore:
    return ThreadStore(desk.config.home, desk.clock)


def id_of(desk: FakeDesk) -> str:
    assert desk.thread is not None
    return desk.thread.id


async def test_a_new_thread_keeps_what_was_chosen_and_forgets_what_was_said(desk: FakeDesk) -> None:
    await desk.turn("hello", says("hi"))
    before = id_of(desk)
    await running.run(desk, "/model gpt-5.2-codex low")
    await running.run(desk, "/permissions auto")
    await running.run(desk, "/new")
    assert desk.thread is not None and desk.thread.id != before and not desk.thread.records[1:]
    settings = desk.thread.settings
    assert (settings.model, settings.effort, settings.sandbox.mode) == ("gpt-5.2-codex", "low", "workspace-write")
    assert desk.cleared == 0
    await running.run(desk, "/clear")
    assert desk.cleared == 1
    await running.run(desk, "/new please")
    assert desk.failed == ["/new takes no argument, or `worktree` for a separate git worktree"]


async def test_a_fork_goes_on_with_a_copy(desk: FakeDesk) -> None:
    await running.run(desk, "/fork")
    assert desk.failed == ["nothing was said in this thread yet"]
    await desk.turn("hello", says("hi"))
    before = id_of(desk)
    await running.run(desk, "/fork")
    assert id_of(desk) != before and desk.said[-1] == f"Branched off; the thread before is {before}."
    await desk.turn("again", says("yes"))
    assert "hello" in str(desk.model.requests[-1].to_dict()["input"])
    await running.run(desk, "/tree")
    listed = [text.replace(" (this one)", "*") for text in desk.said if "hello" in text]
    assert [text[: len("    └ hello*")].rstrip(" 0123456789d") for text in listed] == ["  hello", "    └ hello*"]


async def test_a_thread_is_resumed_by_its_id_and_by_choosing_it(desk: FakeDesk) -> None:
    await desk.turn("apple question", says("apple answer"))
    first = id_of(desk)
    await running.run(desk, "/new")
    await desk.turn("berry question", says("berry answer"))
    second = id_of(desk)
    await running.run(desk, f"/resume {first}")
    assert id_of(desk) == first
    await running.run(desk, f"/resume {first}")
    assert desk.said[-1] == "This is the thread that is open."
    await running.run(desk, "/resume nothing-like-that")
    assert desk.failed == ["no rollout found for thread id nothing-like-that"]
    desk.is_working = True
    desk.hands = [("enter",), ("2",)]
    await running.run(desk, f"/resume {second}")
    assert id_of(desk) == first and "› 1. No, stay here" in desk.views[0]
    await running.run(desk, f"/resume {second}")
    assert id_of(desk) == second


async def test_a_thread_of_another_folder_asks_where_to_go_on(desk: FakeDesk, tmp_path: Path) -> None:
    await desk.turn("hello", says("hi"))
    first = id_of(desk)
    other = tmp_path / "other"
    other.mkdir()
    await desk.switch(lambda request: FakeDesk.moved(request, other))
    desk.hands = [("esc",), ("2",)]
    await running.run(desk, f"/resume {first}")
    assert id_of(desk) != first
    await running.run(desk, f"/resume {first}")
    assert id_of(desk) == first and desk.config.cwd == str(other)
    await desk.switch(lambda request: FakeDesk.moved(request, other, thread=None))
    desk.hands = [("1",)]
    await running.run(desk, f"/resume {first}")
    assert id_of(desk) == first and desk.config.cwd == str(tmp_path / "project")


async def test_a_thread_gets_a_name_that_finds_it(desk: FakeDesk) -> None:
    await desk.turn("hello", says("hi"))
    await running.run(desk, "/rename  the  parser ")
    ref = store(desk).find("the parser")
    assert ref is not None and ref.id == id_of(desk)
    await running.run(desk, "/rename")
    assert desk.draft == "/rename "
    await running.run(desk, "/rename " + "x" * 201)
    assert desk.failed == ["a name has at most 200 characters; this one has 201"]


async def test_archive_and_delete_put_the_thread_away_and_begin_anew(desk: FakeDesk) -> None:
    await running.run(desk, "/archive")
    assert desk.failed == ["nothing was said in this thread yet"]
    await desk.turn("one", says("1"))
    first = id_of(desk)
    await running.run(desk, "/archive")
    assert store(desk).get(first).archived and id_of(desk) != first
    await desk.turn("two", says("2"))
    second = id_of(desk)
    desk.hands = [("enter",), ("2",)]
    await running.run(desk, "/delete")
    assert store(desk).find(second) is not None and id_of(desk) == second
    await running.run(desk, "/delete")
    assert store(desk).find(second) is None and desk.said[-1] == f"Deleted {second}."


async def test_a_new_thread_in_a_worktree(open_desk: OpenDesk, tmp_path: Path) -> None:
    desk = await open_desk()
    await running.run(desk, "/new worktree")
    assert "is not in a git repository" in desk.failed[0]
    command = "git init -q && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"
    done = await asyncio.create_subprocess_shell(command, cwd=desk.config.cwd)
    assert await done.wait() == 0
    (tmp_path / "project/.git/hooks/post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "project/.git/hooks/post-checkout").chmod(0o755)
    await running.run(desk, "/new worktree")
    assert desk.failed[1:] == [] and desk.config.cwd.startswith(f"{tmp_path}/home/worktrees/spindle-")
    assert Path(desk.config.cwd, ".git").is_file() and not (tmp_path / "ran").exists()
