"""What the record says that threads have used since a moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spindle.core.budget import Use
from spindle.features.budget.past import used_since
from spindle.protocol.clock import iso_utc

MIDNIGHT = 1_700_000_000.0


class Thread:
    """The lines of a rollout file, an hour apart."""

    def __init__(self, home: Path, number: int, at: float, **meta: Any) -> None:
        self.home, self.number, self.now = home, number, at
        self.lines: list[str] = []
        self.line("session_meta", {"id": str(number), **meta})

    def line(self, kind: str, payload: dict[str, Any]) -> None:
        self.lines.append(json.dumps({"timestamp": iso_utc(self.now), "type": kind, "payload": payload}))

    def count(self, total: int, last: int | None = None) -> None:
        self.now += 3600
        info = {
            "total_token_usage": {"input_tokens": total, "total_tokens": total},
            "last_token_usage": {"input_tokens": last or total, "total_tokens": last or total},
        }
        self.line("event_msg", {"type": "token_count", "info": info})

    def turn(self, *totals: int, model: str = "m") -> None:
        self.line("event_msg", {"type": "task_started"})
        self.line("turn_context", {"model": model})
        for total in totals:
            self.count(total)
        self.line("event_msg", {"type": "task_complete"})

    def write(self) -> None:
        folder = self.home / "sessions/2023/11/14"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"rollout-2023-11-14T22-13-20-00000000-0000-7000-8000-00000000000{self.number}.jsonl"
        (folder / name).write_text("\n".join(self.lines) + "\n")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def used(home: Path) -> tuple[Use, float]:
    return used_since(str(home), MIDNIGHT, lambda model, usage: usage.input_tokens * (2.0 if model == "dear" else 1.0))


def test_only_what_came_after_that_moment_counts(home: Path) -> None:
    thread = Thread(home, 1, MIDNIGHT - 2 * 3600)
    thread.turn(100, 250)  # the second at midnight
    thread.turn(300, model="dear")
    thread.write()
    assert used(home) == (Use(150 + 50, 2, 150 + 100.0), 3600.0)


def test_what_a_compaction_left_is_no_use(home: Path) -> None:
    thread = Thread(home, 1, MIDNIGHT)
    thread.turn(100)
    thread.count(100, last=7)
    thread.write()
    assert used(home)[0] == Use(100, 2, 100.0)


def test_what_sub_agents_used_is_in_the_sums_of_their_parent(home: Path) -> None:
    parent = Thread(home, 1, MIDNIGHT)
    parent.turn(100, 175)  # 50 of them its sub-agent's
    parent.write()
    agent = Thread(home, 2, MIDNIGHT, source={"subagent": {"thread_spawn": {"depth": 1}}})
    agent.turn(50)
    agent.write()
    assert used(home) == (Use(175, 3, 175.0), 2 * 3600.0)


def test_a_fork_does_not_count_what_its_parent_used(home: Path) -> None:
    parent = Thread(home, 1, MIDNIGHT)
    parent.turn(100)
    parent.write()
    copied = Thread(home, 2, MIDNIGHT, forked_from_id="1")
    copied.lines += parent.lines[1:]
    copied.now = parent.now
    copied.turn(130)
    copied.write()
    late = Thread(home, 3, MIDNIGHT, forked_from_id="1")
    late.line("event_msg", {"type": "task_started"})
    late.count(140, last=40)
    late.count(145)
    late.write()
    assert used(home)[0] == Use(100 + 30 + 45, 4, 175.0)


@pytest.mark.parametrize(
    "line", ["{", '{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":5}}}', "\0\xff"]
)
def test_what_cannot_be_read_is_left_out(home: Path, line: str) -> None:
    thread = Thread(home, 1, MIDNIGHT)
    thread.lines.append(line)
    thread.turn(100)
    thread.write()
    assert used(home)[0] == Use(100, 1, 100.0)
