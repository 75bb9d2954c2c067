"""Storms of new window sizes in tmux while the program works: no word lost, none twice, the draft kept.

A few of them with fixed seeds. SPINDLE_STORMS=200 tries as many of each kind; SPINDLE_STORMS_FROM is the first seed.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fake_server import FakeServer, call, message, turn
from installed import wait_for
from tui.terminals import trust
from tui.tmux import Tmux

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
FIRST = int(os.environ.get("SPINDLE_STORMS_FROM", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("SPINDLE_STORMS", "2")))
WINDS, LONGEST_CALM_S = 20, 0.15
DRAFT = "draft-begins and goes on for more than one row of a narrow window draft-ends"
OpenTmux = Callable[..., Tmux]


@pytest.fixture
def in_tmux(
    spindle_cmd: list[str], workspace: Path, home: Path, environment: dict[str, str], tmp_path: Path
) -> Iterator[OpenTmux]:
    trust(home, workspace)
    opened: list[Tmux] = []

    def start(*args: str) -> Tmux:
        command = ["sh", "-c", "echo what stood here before; exec \"$@\"", "sh", *spindle_cmd, *args]
        opened.append(Tmux(tmp_path, command, 100, 30, cwd=workspace, env=environment))
        wait_for(lambda: "›" in opened[-1].screen, "the composer")
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def blow(tmux: Tmux, chance: random.Random) -> None:
    """The window changes, again and again, with pauses as long as tmux takes to tell of it, or none."""
    for _ in range(WINDS):
        tmux.resize(chance.choice([chance.randint(20, 60), chance.randint(20, 200)]), chance.randint(5, 60))
        time.sleep(chance.choice([0, chance.uniform(0, LONGEST_CALM_S)]))
    tmux.resize(100, 30)


def words_of(chance: random.Random, paragraphs: int) -> tuple[list[str], str]:
    """Numbered words, and a text of paragraphs of them."""
    words: list[str] = []
    made: list[str] = []
    for _ in range(paragraphs):
        more = [f"w{len(words) + n:04d}" for n in range(chance.randint(1, 60))]
        words += more
        made.append(("- " if chance.random() < 0.3 else "") + " ".join(more))
    return words, "\n\n".join(made)


def assert_whole(tmux: Tmux, words: list[str], once: tuple[str, ...]) -> None:
    seen = tmux.scrollback
    found = re.findall(r"w\d{4}", seen)
    lost = [word for word in words if word not in found]
    twice = [word for word in words if found.count(word) > 1]
    assert (lost, twice) == ([], []), seen
    assert found == words, seen
    flat = " ".join(seen.split())
    assert {text: flat.count(text) for text in once} == dict.fromkeys(once, 1), seen


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm_while_an_answer_streams(in_tmux: OpenTmux, server: FakeServer, seed: int) -> None:
    chance = random.Random(seed)
    words, text = words_of(chance, 25)
    server.script(turn(message(text + "\n\nthe-very-end", deltas=len(words)), event_delay_s=chance.choice([0.003, 0.01])))
    tmux = in_tmux()
    tmux.type("go", "Enter")
    wait_for(lambda: words[chance.randint(0, 20)] in tmux.screen, "the answer")
    if is_typing := chance.random() < 0.5:
        tmux.type(DRAFT)
    blow(tmux, chance)
    wait_for(lambda: "the-very-end" in tmux.screen, "the end")
    tmux.type("X")
    wait_for(lambda: re.search(r"X$", tmux.screen, re.M), "the last frame")
    assert_whole(tmux, words, ("what stood here before", "the-very-end", *([f"{DRAFT}X"] if is_typing else ["› X"])))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm_while_commands_run(in_tmux: OpenTmux, server: FakeServer, seed: int) -> None:
    chance = random.Random(seed)
    words, text = words_of(chance, 12)
    lines = "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line-$n of some output that is rather long; sleep 0.1; done"
    server.script(
        turn(call("exec_command", {"cmd": f"echo first-command; {lines}"}, "c1"), event_delay_s=0.01),
        turn(call("exec_command", {"cmd": f"echo second-command; {lines}"}, "c2"), event_delay_s=0.01),
        turn(message(text + "\n\nthe-very-end", deltas=len(words)), event_delay_s=0.005),
    )
    tmux = in_tmux("-s", "danger-full-access", "-a", "never")
    tmux.type("go", "Enter")
    wait_for(lambda: "first-command" in tmux.screen, "the command")
    tmux.type(DRAFT)
    blow(tmux, chance)
    wait_for(lambda: "the-very-end" in tmux.screen, "the end")
    tmux.type("X")
    wait_for(lambda: re.search(r"X$", tmux.screen, re.MULTILINE), "the last frame")
    assert_whole(tmux, words, ("what stood here before", "the-very-end", f"{DRAFT}X"))
    assert [tmux.scrollback.count(f"echo {name}-command;") for name in ("first", "second")] == [1, 1]
