"""The row under the composer and the title: what they say, in which order, and that nothing hostile gets through."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from spindle.frontends.fit import cells
from spindle.frontends.tui.shown import plain
from spindle.frontends.tui.status_line import (
    DEFAULT_ITEMS,
    ITEM_WORDS,
    ITEMS,
    TITLE_ITEMS,
    StatusFacts,
    folder_words,
    items_from,
    status_line,
    title_items_from,
    title_text,
    tokens_words,
)

FACTS = StatusFacts(
    state="working",
    model="gpt-5.2-codex",
    effort="high",
    cwd="/home/me/src/thing",
    project="/home/me/src/thing",
    branch="main",
    mode="plan",
    sandbox="workspace-write",
    context_left=87,
    input_tokens=12_345,
    cached_tokens=6_000,
    output_tokens=678,
    cost_usd=0.1234,
    queued=2,
    background=1,
    warnings=1,
    home="/home/me",
)


def row(facts: StatusFacts, width: int = 300, chosen: object = None) -> str:
    return plain(status_line(facts, width, items_from(chosen)))


def test_the_usual_row_says_all_there_is_in_a_fixed_order() -> None:
    assert row(FACTS) == (
        "  gpt-5.2-codex high · ~/src/thing · Plan mode · 87% context left · 2 queued · 1 in background · ⚠ 1 warning"
        " · main · workspace-write · 48% cached · $0.123"
    )


def test_what_is_not_known_is_left_out() -> None:
    assert row(StatusFacts(model="m", cwd="/x")) == "  m · /x"
    assert row(StatusFacts()) == ""


def test_without_a_price_tokens_are_shown() -> None:
    assert row(msgspec.structs.replace(FACTS, cost_usd=None)).endswith("12.3k in, 678 out")


def test_a_weak_sandbox_and_an_open_network_are_told() -> None:
    shown = row(msgspec.structs.replace(FACTS, weakness="no sandbox", has_network=True))
    assert "Plan mode · ⚠ no sandbox · 87%" in shown and "· main · network · " in shown
    line = status_line(msgspec.structs.replace(FACTS, sandbox="danger-full-access"), 200)
    assert [span.style for span in line.spans if span.text == "⚠ full access"] == ["warning"]


def test_the_row_is_cut_at_the_right_and_never_wider_than_the_window() -> None:
    for width in range(120):
        shown = plain(status_line(FACTS, width))
        assert cells(shown) <= max(width, 0)
    assert plain(status_line(FACTS, 30)) == "  gpt-5.2-codex high · ~/src/…"
    assert plain(status_line(FACTS, 12)) == "  gpt-5.2-c…"


def test_the_person_chooses_items_but_never_loses_mode_and_sandbox() -> None:
    facts = msgspec.structs.replace(FACTS, weakness="no sandbox")
    assert row(facts, chosen=["git-branch", "no-such-item", "model"]) == (
        "  main · gpt-5.2-codex · Plan mode · ⚠ no sandbox"
    )
    assert row(FACTS, chosen=[]) == "  Plan mode"
    assert items_from(None) == DEFAULT_ITEMS


def test_limits_of_the_account() -> None:
    limits = {"primary": {"used_percent": 12.4}, "secondary": {"used_percent": "?"}}
    facts = StatusFacts(rate_limits=limits)
    assert row(facts, chosen=["five-hour-limit", "weekly-limit"]) == "  short limit 88% left"


def test_items_that_a_person_can_choose_exist() -> None:
    assert set(ITEM_WORDS) <= set(ITEMS) and set(DEFAULT_ITEMS) <= set(ITEM_WORDS)


def test_the_title_is_a_mark_and_the_folder() -> None:
    assert title_text(FACTS) == "● thing"
    assert title_text(msgspec.structs.replace(FACTS, state="waiting")) == "▲ thing"
    assert title_text(msgspec.structs.replace(FACTS, state="idle")) == "thing"
    assert title_text(FACTS, title_items_from(["app-name", "git-branch", "?"])) == "spindle | main"
    assert title_items_from([]) == () and title_text(FACTS, ()) == ""


@given(st.text(max_size=30), st.text(max_size=30), st.integers(0, 100))
def test_hostile_names_never_drive_the_terminal(cwd: str, branch: str, width: int) -> None:
    facts = msgspec.structs.replace(FACTS, cwd=cwd, branch=branch, thread_name=cwd, effort=branch)
    shown = plain(status_line(facts, width, tuple(ITEMS)))
    assert shown.isprintable() or not shown
    assert cells(shown) <= width
    title = title_text(facts, tuple(TITLE_ITEMS))
    assert title.isprintable() and cells(title) <= 80


def test_folders_and_numbers_as_people_write_them() -> None:
    assert folder_words("/home/me", "/home/me") == "~"
    assert folder_words("/home/meadow", "/home/me") == "/home/meadow"
    assert folder_words("/x", "/") == "/x"
    assert [tokens_words(n) for n in (0, 999, 1000, 4321, 999_949, 999_950, 1_200_000)] == [
        *("0", "999", "1k", "4.3k", "999.9k", "1M", "1.2M")
    ]
