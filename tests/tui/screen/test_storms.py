"""Storms of new window sizes in tmux and GNU screen while the program works: no word lost, none twice, the draft kept.

One of each kind with a fixed seed. SPINDLE_STORMS=200 tries as many of each kind, SPINDLE_STORMS_FROM is the first
seed, and SPINDLE_STORMS_CALM the longest pause in seconds. In GNU screen a word may stand there twice unless
SPINDLE_STORMS is set, and then not all of them pass: it does not tell in which window it has drawn a frame, and what it
has pushed into its scrollback cannot be taken away again.
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
from tui.gnu_screen import GnuScreen
from tui.terminals import trust
from tui.tmux import Tmux

FIRST = int(os.environ.get("SPINDLE_STORMS_FROM", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("SPINDLE_STORMS", "1")))
WINDS = 20
LONGEST_CALM_S = float(os.environ.get("SPINDLE_STORMS_CALM", "0.15"))
DRAFT = "draft-begins and goes on for more than one row of a narrow window draft-ends"
HOSTS: dict[str, type[Tmux] | type[GnuScreen]] = {"tmux": Tmux, "screen": GnuScreen}
Host = Tmux | GnuScreen
OpenHost = Callable[..., Host]


@pytest.fixture(params=HOSTS)
def in_host(
    request: pytest.FixtureRequest,
    spindle_cmd: list[str],
    workspace: Path,
    home: Path,
    environment: dict[str, str],
    tmp_path: Path,
) -> Iterator[OpenHost]:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    trust(home, workspace)
    opened: list[Host] = []

    def start(*args: str) -> Host:
        # GNU screen copies no more rows of its scrollback than were ever pushed into it, into how many it breaks them.
        command = ["sh", "-c", 'yes "" | head -500; echo what stood here before; exec "$@"', "sh", *spindle_cmd, *args]
        opened.append(HOSTS[request.param](tmp_path, command, 100, 30, cwd=workspace, env=environment))
        see(opened[-1], lambda: "Ask for anything" in opened[-1].screen, "the composer")
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def see(host: Host, condition: Callable[[], object], what: str) -> None:
    try:
        wait_for(condition, what)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{host.scrollback}") from None


def blow(host: Host, chance: random.Random) -> None:
    """The window changes, again and again, with pauses as long as tmux takes to tell of it, or none."""
    for _ in range(WINDS):
        host.resize(chance.choice([chance.randint(20, 60), chance.randint(20, 200)]), chance.randint(5, 60))
        time.sleep(chance.choice([0, chance.uniform(0, LONGEST_CALM_S)]))
    host.resize(100, 30)


def words_of(chance: random.Random, paragraphs: int) -> tuple[list[str], str]:
    """Numbered words, and a text of paragraphs of them."""
    words: list[str] = []
    made: list[str] = []
    for _ in range(paragraphs):
        more = [f"w{len(words) + n:04d}" for n in range(chance.randint(1, 60))]
        words += more
        made.append(("- " if chance.random() < 0.3 else "") + " ".join(more))
    return words, "\n\n".join(made)


def is_strict(host: Host) -> bool:
    return isinstance(host, Tmux) or "SPINDLE_STORMS" in os.environ


def assert_whole(host: Host, words: list[str], once: tuple[str, ...]) -> None:
    see(host, lambda: all(text in " ".join(host.scrollback.split()) for text in once), "the last picture")
    seen = host.scrollback
    found = re.findall(r"w\d{4}", seen)
    lost = [word for word in words if word not in found]
    twice = [word for word in words if found.count(word) > 1]
    assert lost == [], seen
    flat = " ".join(seen.split())
    if is_strict(host):
        assert twice == [] and found == words, seen
        assert {text: flat.count(text) for text in once} == dict.fromkeys(once, 1), seen


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm_while_an_answer_streams(in_host: OpenHost, server: FakeServer, seed: int) -> None:
    chance = random.Random(seed)
    words, text = words_of(chance, 25)
    answer = message(text + "\n\nthe-very-end", deltas=len(words))
    server.script(turn(answer, event_delay_s=chance.choice([0.003, 0.01])))
    host = in_host()
    host.type("go", "Enter")
    see(host, lambda: words[chance.randint(0, 20)] in host.screen, "the answer")
    if is_typing := chance.random() < 0.5:
        host.type(DRAFT)
    blow(host, chance)
    see(host, lambda: "the-very-end" in host.screen, "the end")
    host.type("=last")
    see(host, lambda: re.search(r"=last$", host.screen, re.MULTILINE), "the last frame")
    assert_whole(host, words, ("what stood here before", "the-very-end", f"{DRAFT}=last" if is_typing else "=last"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm_while_commands_run(in_host: OpenHost, server: FakeServer, seed: int) -> None:
    chance = random.Random(seed)
    words, text = words_of(chance, 12)
    lines = "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line-$n of some output that is rather long; sleep 0.1; done"
    server.script(
        turn(call("exec_command", {"cmd": f"echo first-command; {lines}"}, "c1"), event_delay_s=0.01),
        turn(call("exec_command", {"cmd": f"echo second-command; {lines}"}, "c2"), event_delay_s=0.01),
        turn(message(text + "\n\nthe-very-end", deltas=len(words)), event_delay_s=0.005),
    )
    host = in_host("-s", "danger-full-access", "-a", "never")
    host.type("go", "Enter")
    see(host, lambda: "first-command" in host.screen, "the command")
    host.type(DRAFT)
    blow(host, chance)
    see(host, lambda: "the-very-end" in host.screen, "the end")
    host.type("=last")
    see(host, lambda: re.search(r"=last$", host.screen, re.MULTILINE), "the last frame")
    assert_whole(host, words, ("what stood here before", "the-very-end", f"{DRAFT}=last"))
    counts = [host.scrollback.count(f"{name}-command;") for name in ("first", "second")]
    assert min(counts) >= 1
    assert counts == [1, 1] or not is_strict(host)
