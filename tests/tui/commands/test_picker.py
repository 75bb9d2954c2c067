"""The list of recorded threads: search as you type, this folder or all, age, first words, and what Esc means."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from spindle.frontends.tui.commands.picker import Picked, ThreadPicker, Wanted, age_words, pick_thread
from spindle.model.scripted import says
from spindle.thread.listing import ThreadSummary
from tui.fake_desk import FakeDesk
from tui.hands import answer, press, shown, write

NOW = 1_800_000_000.0


def thread(number: int, text: str, cwd: str = "/here", **more: Any) -> ThreadSummary:
    return ThreadSummary(
        id=f"id-{number}",
        path=f"/x/{number}",
        archived=False,
        name=more.get("name"),
        preview=text,
        cwd=cwd,
        model_provider=None,
        source="cli",
        created_at=NOW - number * 3600,
        updated_at=NOW - number * 3600,
        originator=None,
        cli_version=None,
        git={"branch": more["branch"]} if "branch" in more else None,
        forked_from_id=None,
        model="m",
        effort=None,
    )


class Records:
    """What is recorded, and what was said in it beyond the first words."""

    def __init__(self, *threads: ThreadSummary, said: dict[str, str] | None = None) -> None:
        self.threads = threads
        self.said = said or {}
        self.asked: list[Wanted] = []

    async def read(self, wanted: Wanted) -> list[ThreadSummary]:
        self.asked.append(wanted)
        await asyncio.sleep(0)
        found = [each for each in self.threads if wanted.is_everywhere or each.cwd == "/here"]
        if wanted.search:
            return [each for each in found if wanted.search in f"{each.preview} {self.said.get(each.id, '')}"]
        return found


async def picker(records: Records, **more: Any) -> ThreadPicker:
    given: dict[str, Any] = {
        "now": NOW,
        "home": "/home/me",
        "verb": "Resume",
        "is_everywhere": False,
        "leaves": "Esc",
        **more,
    }
    view = ThreadPicker(records.read, redraw=lambda: None, **given)
    await settled()
    return view


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


RECORDS = Records(
    thread(1, "apple question", branch="main"),
    thread(30, "berry question", name="the berries"),
    thread(2, "cherry", cwd="/elsewhere"),
    said={"id-30": "hidden word"},
)


async def test_threads_of_the_folder_with_age_and_first_words() -> None:
    view = await picker(RECORDS)
    seen = shown(view, 90, 20)
    assert seen[0] == "Resume a thread · this folder · 2"
    assert seen[2].startswith("› 1.    1 h  apple question") and seen[2].endswith("main")
    assert seen[3].startswith("  2.    1 d  the berries")
    assert seen[5] == "/here · m · id-1" and seen[6] == "  apple question"
    press(view, "down")
    assert "  berry question" in shown(view, 90, 20)
    press(view, "enter")
    assert answer(view) == Picked("thread", RECORDS.threads[1])


async def test_typing_filters_at_once_and_finds_what_was_said_later() -> None:
    view = await picker(RECORDS)
    write(view, "apple")
    assert not any("berries" in row for row in shown(view)) and any("apple" in row for row in shown(view))
    press(view, "ctrl-u")
    write(view, "hidden")
    assert any("looking" in row for row in shown(view))
    await settled()
    assert any("the berries" in row for row in shown(view))
    press(view, "enter")
    assert answer(view).thread.id == "id-30"


async def test_tab_shows_all_folders_and_back_again() -> None:
    view = await picker(RECORDS)
    press(view, "tab")
    await settled()
    seen = shown(view, 90)
    assert seen[0] == "Resume a thread · all folders · 3" and any(
        "cherry" in row and "/elsewhere" in row for row in seen
    )
    write(view, "cherry")
    press(view, "tab")
    await settled()
    assert any("no match" in row for row in shown(view))


async def test_esc_is_a_new_thread_and_ctrl_c_leaves() -> None:
    for key, kind in (("esc", "new"), ("ctrl-c", "quit")):
        view = await picker(RECORDS)
        press(view, key)
        assert answer(view) == Picked(kind)  # type: ignore[arg-type]


async def test_it_fits_every_window_and_scrolls() -> None:
    many = Records(*(thread(number, f"question {number} \x1b[2J 日本語") for number in range(200)))
    view = await picker(many)
    for width, height in ((20, 5), (10, 1), (80, 24), (200, 60)):
        for key in ("down", "pgdn", "end", "up", "home"):
            press(view, key)
            seen = shown(view, width, height)
            assert all(row.isprintable() for row in seen)
    press(view, "end")
    assert any("question 199" in row for row in shown(view, 60, 12))


async def test_real_threads_are_picked_before_a_thread_is_open(desk: FakeDesk, tmp_path: Path) -> None:
    await desk.turn("apple question", says("apple answer"))
    assert desk.thread is not None
    first = desk.thread.id
    await desk.switch(lambda request: msgspec.structs.replace(request, thread=None))
    await desk.turn("berry question", says("berry answer"))
    await desk.close()
    desk.thread = None
    desk.typed = "apple"
    picked = await pick_thread(desk)
    assert picked.kind == "thread" and picked.thread is not None and picked.thread.id == first


def test_ages() -> None:
    assert [age_words(s) for s in (0, 59, 60, 3600, 90_000, 40_000_000)] == ["now", "now", "1 min", "1 h", "1 d", "1 y"]
