"""The plan, the earlier messages, trust."""

from __future__ import annotations

from spindle.frontends.tui.views.plan import IMPLEMENT, PlanView, fresh_message
from spindle.frontends.tui.views.rewind import Earlier, RewindView
from spindle.frontends.tui.views.trust import TrustView
from tui.hands import answer, press, shown


async def test_a_plan_is_implemented_by_enter_and_kept_by_esc() -> None:
    view = PlanView()
    seen = shown(view)
    assert seen[0] == "Implement this plan?" and view.guards_typing
    assert [row[:32] for row in seen if row[2:3].isdigit()] == [
        "› 1. Yes, implement it       lea",
        "  2. Yes, in a fresh thread  a n",
        "  3. No, stay in plan mode   say",
    ]
    press(view, "enter")
    assert answer(view) == "implement"
    for key, choice in (("1", "implement"), ("2", "fresh"), ("3", "stay"), ("esc", "stay"), ("ctrl-c", "stay")):
        view = PlanView()
        press(view, key)
        assert answer(view) == choice
    assert "implement" in IMPLEMENT.lower()
    assert fresh_message("\n# The plan\n") == "Please implement this plan:\n\n# The plan"


async def test_earlier_messages_are_listed_newest_first_with_their_text() -> None:
    view = RewindView(["first one", "second\nwith more\nlines", "third"])
    seen = shown(view)
    assert [row.strip("› ")[:9] for row in seen if row[2:3].isdigit()] == ["1. third", "2. second", "3. first "] or seen
    assert ("the last one" in seen[4] and seen[3] == "") or "third" in "".join(seen[:5])
    assert not any(row.strip() == "with more" for row in seen)
    press(view, "down")
    seen = shown(view)
    assert [row.strip() for row in seen[-3:]] == ["second", "with more", "lines"]
    press(view, "enter")
    assert answer(view) == Earlier(text="second\nwith more\nlines", turns_back=2)
    view = RewindView(["only"])
    press(view, "esc")
    assert answer(view) is None
    assert "  nothing was said yet" in shown(RewindView([]))


async def test_a_huge_message_is_only_looked_into() -> None:
    view = RewindView(["word \n" * 100_000])
    assert any("100,000 lines in all" in row for row in shown(view, 60, 30))
    shown(view, 20, 5)


async def test_trust_is_about_a_folder_and_highlights_no() -> None:
    view = TrustView("/repo/pro\u202eject")
    seen = shown(view, 100)
    assert seen[0] == "Do you trust the files in this folder?"
    assert seen[1] == "/repo/pro⟨U+202E⟩ject"
    text = " ".join(" ".join(seen).split())
    assert "its configuration (.codex), hooks and rules take effect; they can run programs" in text
    assert [row[:1] for row in seen if row[2:3].isdigit()] == [" ", "›", " "]
    press(view, "enter")
    assert answer(view) == "untrusted"
    for key, choice in (("1", "trusted"), ("2", "untrusted"), ("3", "quit"), ("esc", "quit"), ("ctrl-c", "quit")):
        view = TrustView("/x")
        press(view, key)
        assert answer(view) == choice


async def test_every_answer_about_trust_is_seen_in_a_small_window() -> None:
    seen = shown(TrustView("/repo/project"), 40, 10)
    assert seen[:2] == ["Do you trust the files in this folder?", "/repo/project"]
    assert [row for row in seen if row[2:3].isdigit()] == [
        "  1. Yes, trust it",
        "› 2. No, go on without trust",
        "  3. Quit",
    ]
    seen = shown(TrustView("/repo/project"), 20, 5)
    assert any(row.startswith("› 2.") for row in seen) and seen[0] == "Do you trust the"
