"""What must not be in a record, and what that means for building requests again from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from installed import Spindle
from sessions import Start
from spindle.lookback.replay import replay_thread
from spindle.model.scripted import calls, says
from spindle.protocol.ops import Compact
from spindle.thread.reading import read_rollout


async def test_a_summary_that_quotes_a_secret_is_masked_where_it_is_sent_too(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-quoted-0123456789abcdef")
    driver = await start()
    await driver.turn("one", calls("update_plan", {"plan": []}, "c1"), says("first"))
    driver.model.script(says("the key is sk-quoted-0123456789abcdef"))
    await driver.end_of(driver.submit(Compact()))
    await driver.turn("two", says("second"))
    assert "sk-quoted" not in json.dumps(driver.inputs[-1])
    await driver.close()
    (path,) = (tmp_path / "codex-home").rglob("rollout-*.jsonl")
    found = replay_thread(read_rollout(str(path)))
    assert (found.requests, found.identical) == (5, 5) and b"sk-quoted" not in path.read_bytes()


async def test_terms_that_hold_a_secret_are_not_recorded_and_replay_says_so(
    start: Start, spindle: Spindle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-quoted-0123456789abcdef")
    driver = await start(base_instructions="Use sk-quoted-0123456789abcdef.")
    await driver.turn("one", says("first"))
    await driver.close()
    (path,) = (tmp_path / "codex-home").rglob("rollout-*.jsonl")
    assert b"sk-quoted" not in path.read_bytes()
    done = spindle("replay", str(path))
    assert done.code == 2 and "it held a secret, which the record does not keep (in: instructions)" in done.err
