from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import msgspec
import pytest

from spindle.protocol.clock import FixedClock
from spindle.thread.prompt_history import PromptHistory


def test_prompts_are_private_lines_with_thread_time_and_text(home: Path, clock: FixedClock, umask) -> None:
    umask(0)
    prompts = PromptHistory(str(home), clock)
    prompts.append("t1", "first\nline")
    prompts.append("t2", "zwei")
    path = home / "history.jsonl"
    assert path.read_text() == (
        '{"session_id":"t1","ts":1800000000,"text":"first\\nline"}\n{"session_id":"t2","ts":1800000000,"text":"zwei"}\n'
    )
    assert path.stat().st_mode & 0o777 == 0o600
    log_id, count = prompts.state()
    assert count == 2
    assert prompts.entry(log_id, 1) == {"session_id": "t2", "ts": 1800000000, "text": "zwei"}
    assert prompts.entry(log_id, 2) is None and prompts.entry(log_id + 1, 0) is None


def test_the_oldest_lines_go_when_the_file_is_too_long(home: Path, clock: FixedClock) -> None:
    prompts = PromptHistory(str(home), clock, max_bytes=1000)
    path = home / "history.jsonl"
    for number in range(100):
        prompts.append("t", f"prompt {number:03d}")
        assert os.path.getsize(path) <= 1000
    lines = [msgspec.json.decode(line)["text"] for line in path.read_bytes().splitlines()]
    assert lines == [f"prompt {number:03d}" for number in range(100 - len(lines), 100)]
    assert len(lines) >= 10
    prompts.append("t", "x" * 3000)
    assert prompts.state()[1] == 1


def test_several_writers_lose_no_line(home: Path, clock: FixedClock) -> None:
    def write(thread_id: str) -> None:
        prompts = PromptHistory(str(home), clock, max_bytes=1_000_000)
        for number in range(50):
            prompts.append(thread_id, str(number))

    writers = [threading.Thread(target=write, args=(f"t{number}",)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert PromptHistory(str(home), clock).state()[1] == 200


def test_a_writer_that_waited_writes_to_the_file_that_replaced_the_old_one(home: Path, clock: FixedClock) -> None:
    path = home / "history.jsonl"
    path.write_text("")
    with path.open() as old:
        fcntl.flock(old, fcntl.LOCK_EX)
        waiting = threading.Thread(target=PromptHistory(str(home), clock).append, args=("t", "late"))
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
        (home / "new").write_text("")
        os.replace(home / "new", path)
    waiting.join()
    assert '"late"' in path.read_text()


@pytest.mark.timeout(30)
def test_a_lock_that_is_never_given_back_is_not_waited_for(home: Path, clock: FixedClock) -> None:
    """A confined command may read the file, and whoever may read it can lock it."""
    history = PromptHistory(str(home), clock)
    history.append("t", "first")
    with open(history.path, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        history.append("t", "second")
    assert history.state()[1] == 2


def test_a_torn_line_does_not_swallow_the_next(home: Path, clock: FixedClock) -> None:
    (home / "history.jsonl").write_text('{"session_id":"t","ts":1,"te')
    prompts = PromptHistory(str(home), clock)
    prompts.append("t", "whole")
    assert prompts.entry(prompts.state()[0], 1) == {"session_id": "t", "ts": 1800000000, "text": "whole"}
