"""The practice model with the real engine: several turns, in any order, without a network."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, message
from fake_server import turn as turn_of
from spindle.api.door import OpenThread, open_thread
from spindle.frontends.tui.practice import MODEL, PRACTICE_NOTES, PROMPT, practice_request, remove_scratch
from spindle.protocol.events import (
    Error,
    ExecApprovalRequest,
    ExecCommandEnd,
    ItemCompleted,
    Msg,
    PatchApplyEnd,
    PlanUpdate,
    TaskComplete,
    TurnAborted,
    Warning,
)
from spindle.protocol.ops import ExecApproval, UserInputAnswer, UserTurn
from spindle.protocol.questions import RequestUserInput
from tui.terminals import OpenTui


@pytest.fixture
async def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    thread = await open_thread(practice_request(pace_s=0))
    thread.begin()
    yield thread
    await thread.close()


async def turn(
    thread: OpenThread, text: str, *, mode: str = "default", decision: str = "approved", answer: str = "longest"
) -> list[Msg]:
    """One turn; the person answers what is asked."""
    events = thread.subscribe()
    op = UserTurn(items=[{"type": "text", "text": text}], collaboration_mode={"mode": mode, "settings": {}})
    thread.submit(op)
    heard: list[Msg] = []
    async for event in events:
        heard.append(event.msg)
        match event.msg:
            case ExecApprovalRequest(call_id=call_id):
                thread.submit(ExecApproval(id=call_id, decision=decision))
            case RequestUserInput(call_id=call_id):
                thread.submit(UserInputAnswer(id=call_id, response={"answers": {"function": {"answers": [answer]}}}))
            case TaskComplete() | TurnAborted():
                break
            case _:
                pass
    assert [msg for msg in heard if isinstance(msg, Error | Warning)] == []
    return heard


def of(kind: type[Any], heard: list[Msg]) -> list[Any]:
    return [msg for msg in heard if isinstance(msg, kind)]


def last_words(heard: list[Msg]) -> str:
    return of(TaskComplete, heard)[-1].last_agent_message or ""


async def test_the_bug_is_really_mended_and_one_command_asks(thread: OpenThread) -> None:
    project = thread.settings.cwd
    heard = await turn(thread, PROMPT)
    ends = [end.exit_code for end in of(ExecCommandEnd, heard)]
    assert ends[:2] == [0, 0] and ends[2] != 0 and ends[3:] == [0, 0]
    (asked,) = of(ExecApprovalRequest, heard)
    assert asked.command[-1] == "cp textstats.py ../textstats.before.py" and asked.justification
    assert of(PatchApplyEnd, heard)[0].success and os.path.exists(f"{os.path.dirname(project)}/textstats.before.py")
    assert [step["status"] for step in of(PlanUpdate, heard)[-1].plan] == ["completed"] * 4
    assert last_words(heard).startswith("The tests pass now.") and "A copy of the old file" in last_words(heard)
    again = await turn(thread, "fix the tests once more")
    assert "pass already" in last_words(again)


async def test_a_refused_copy_changes_what_it_reports(thread: OpenThread) -> None:
    heard = await turn(thread, PROMPT, decision="denied")
    assert "I kept no copy of the old file" in last_words(heard)


@pytest.mark.parametrize(
    ("answer", "name"), [("longest (Recommended)", "longest"), ("average_length", "average_length")]
)
async def test_plan_mode_asks_proposes_and_implements(thread: OpenThread, answer: str, name: str) -> None:
    heard = await turn(thread, "add a function", mode="plan", answer=answer)
    assert len(of(RequestUserInput, heard)) == 1
    (plan,) = [msg.item["text"] for msg in of(ItemCompleted, heard) if msg.item["type"] == "Plan"]
    assert f"Add `{name}`" in plan
    heard = await turn(thread, "Please implement the plan.")
    assert of(PatchApplyEnd, heard)[0].success
    assert f"`{name}` is there" in last_words(heard)
    with open(f"{thread.settings.cwd}/textstats.py") as file:
        assert f"def {name}(text):" in file.read()


async def test_a_fresh_thread_can_implement_a_plan_it_is_given(thread: OpenThread) -> None:
    heard = await turn(thread, "Please implement this plan:\n\n# Add `longest` to textstats.py\n\n- …")
    assert "`longest` is there" in last_words(heard)


async def test_it_says_what_it_is(thread: OpenThread) -> None:
    heard = await turn(thread, "who are you?")
    assert "no real model is asked" in last_words(heard)
    assert "no real model is asked" in PRACTICE_NOTES[0]
    assert thread.settings.model == MODEL


def test_nothing_of_the_users_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    request = practice_request({"HOME": "/nonexistent", "PATH": os.environ["PATH"], "CODEX_HOME": "/nonexistent"})
    assert request.config.home.startswith(str(tmp_path)) and request.config.cwd.startswith(str(tmp_path))
    assert request.config.trust_level == "trusted" and request.config.approval_policy == "on-request"
    remove_scratch()
    assert list(tmp_path.iterdir()) == []


def test_the_demo_is_played_in_the_real_interface_and_leaves_nothing_behind(
    tui: OpenTui, tmp_path: Path, environment: dict[str, str]
) -> None:
    fresh, scratch = tmp_path / "fresh", tmp_path / "scratch"
    fresh.mkdir()
    scratch.mkdir()
    nothing = dict.fromkeys(("OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL"), "")
    env = {**nothing, "HOME": str(fresh), "CODEX_HOME": str(fresh / ".codex"), "TMPDIR": str(scratch)}
    with tui("demo", "--tui", env=env, rows=40) as t:
        t.wait_for("no real model is asked").wait_for(PROMPT, where="screen")
        t.key("enter").wait_for("cp textstats.py ../textstats.before.py", where="screen").wait_for("Yes, once (y)")
        t.idle(0.6).key("y").wait_for("The tests pass now.").wait_for("Worked for")
        t.submit("/quit")
        assert t.wait_exit() == 0
        t.assert_sane()
        assert "spindle resume" not in t.scrollback
    with tui("demo", "--tui", env=env) as t:
        t.until(lambda: t.raw, "first output")
        t.process.send_signal(signal.SIGTERM)
        assert t.wait_exit() == 143
    assert list(scratch.iterdir()) == [] and not (fresh / ".codex").exists()


def test_the_demo_can_be_started_any_time_and_the_own_thread_is_kept(
    tui: OpenTui, server: FakeServer, tmp_path: Path
) -> None:
    server.script(turn_of(message("my own answer")))
    with tui(env={"TMPDIR": str(tmp_path)}, rows=40) as t:
        t.ready().submit("mine").wait_for("my own answer").wait_for("Worked for")
        t.submit("/demo").wait_for("no real model is asked").wait_for("Your own thread is kept")
        t.wait_for(PROMPT, where="screen").key("ctrl-u").submit("who are you?")
        t.wait_for("I am a practice model").wait_for("/login connects a real model")
        assert len(server.turns_asked) == 1
        t.idle().submit("/quit")
        assert t.wait_exit() == 0
        t.assert_sane()
    assert [path for path in tmp_path.iterdir() if path.name.startswith("spindle-demo-")] == []
