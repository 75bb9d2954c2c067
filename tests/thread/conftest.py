from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spindle.protocol.clock import FixedClock
from spindle.protocol.items import assistant_message, user_message
from spindle.thread.history import History
from spindle.thread.rollout import RolloutWriter
from spindle.thread.store import ThreadRef, ThreadStore

FIXTURES = Path(__file__).parent.parent / "fixtures" / "rollouts"


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty $CODEX_HOME."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def store(home: Path, clock: FixedClock) -> ThreadStore:
    return ThreadStore(str(home), clock)


@pytest.fixture
def umask() -> Iterator[Callable[[int], None]]:
    """Sets the umask for one test."""
    before = os.umask(0o022)
    yield lambda mask: (os.umask(mask), None)[1]
    os.umask(before)


@pytest.fixture
def place(home: Path) -> Callable[[str], Path]:
    """Puts a recorded file of the reference program where its store would have it."""

    def place_fixture(name: str) -> Path:
        lines = (FIXTURES / name).read_bytes()
        thread_id = lines.split(b'"id":"', 1)[1][:36].decode()
        folder = home / "sessions" / "2026" / "11" / "15"
        folder.mkdir(parents=True, exist_ok=True)
        second = "04" if "fork" in name else "02"
        path = folder / f"rollout-2026-11-15T19-34-{second}-{thread_id}.jsonl"
        path.write_bytes(lines)
        return path

    return place_fixture


def new_file(path: str, clock: FixedClock) -> RolloutWriter:
    """The writer of a file that is made at once, before anybody has said anything."""
    writer = RolloutWriter(path, clock)
    writer.begin()
    return writer


class Recorder:
    """Writes threads the way a session does."""

    def __init__(self, store: ThreadStore, clock: FixedClock) -> None:
        self.store = store
        self.clock = clock

    def start(self, **meta: object) -> History:
        thread_id = self.clock.uuid7()
        history = History(RolloutWriter(self.store.new_path(thread_id), self.clock))
        history.append_meta(
            {
                "id": thread_id,
                "timestamp": "2027-01-15T08:00:00.000Z",
                "cwd": "/w",
                "originator": "test",
                "cli_version": "1",
                "source": "exec",
                "model_provider": "openai",
                "base_instructions": {"text": "Be good."},
                **meta,
            }
        )
        return history

    def turn(self, history: History, question: str, answer: str, response_id: str | None = None) -> None:
        turn_id = self.clock.uuid7()
        history.append_event({"type": "task_started", "turn_id": turn_id, "model_context_window": 1000})
        history.append_item(user_message(question))
        history.append_event({"type": "user_message", "message": question})
        history.append_turn_context({"turn_id": turn_id, "cwd": "/w", "model": "m1", "effort": "low"})
        history.append_event({"type": "agent_message", "message": answer})
        history.append_item(assistant_message(answer))
        if response_id:
            history.append_bookmark(response_id)
        end = {"type": "task_complete", "turn_id": turn_id, "last_agent_message": answer, "response_id": response_id}
        history.append_event(end)
        self.clock.advance(1)

    def thread(self, *turns: tuple[str, str, str], **meta: object) -> ThreadRef:
        """A closed thread of (question, answer, response id) turns."""
        history = self.start(**meta)
        for question, answer, response_id in turns:
            self.turn(history, question, answer, response_id)
        history.close()
        assert history.writer is not None and history.thread_id is not None
        return ThreadRef(id=history.thread_id, path=history.writer.path)


@pytest.fixture
def record(store: ThreadStore, clock: FixedClock) -> Recorder:
    return Recorder(store, clock)
