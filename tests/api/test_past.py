"""What was said before: turns that failed, turns that are forgotten, and threads that go on elsewhere."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from api.homes import FULL, Client, async_client
from spindle import Spindle, Thread, ThreadClosed, ThreadError, TurnFailed
from spindle.testing import Asked, ScriptedModel, calls, fails, patches, says, thinks


def said(asked: Asked) -> list[str]:
    """What the person said, as the model was told."""
    texts = [part.get("text", "") for item in asked.input if item.get("role") == "user" for part in item["content"]]
    return [text for text in texts if not text.startswith("<")]


def statuses(thread: Thread) -> list[str]:
    return [turn.status for turn in thread.read(include_turns=True).turns]


def test_a_failed_turn_is_read_as_failed_here_and_later(client: Client, workspace: Path) -> None:
    spindle = client(fails("broken"), says("fine"))
    thread = spindle.thread_start(cwd=workspace)
    with pytest.raises(TurnFailed):
        thread.run("one")
    thread.run("two")
    assert statuses(thread) == ["failed", "completed"]
    thread.close()
    assert [turn.status for turn in spindle.threads.read(thread.id, include_turns=True).turns] == [
        "failed",
        "completed",
    ]
    assert "The turn failed." in spindle.threads.export(thread.id)
    assert statuses(spindle.thread_resume(thread.id)) == ["failed", "completed"]


PATCH = "*** Begin Patch\n*** Add File: quokka.txt\n+a tapir\n*** End Patch"


def look(word: str) -> str:
    "Look it up."
    return f"{word} means a lemur"


def with_calls(client: Client, workspace: Path) -> tuple[Spindle, Thread]:
    spindle = client(
        [thinks("**About a walrus**"), calls("exec_command", {"cmd": "echo nar''whal; exit 3"}, "c1")],
        [calls("look", {"word": "okapi"}, "c2"), patches(PATCH, "c3")],
        says("done"),
    )
    thread = spindle.thread_start(cwd=workspace, tools=[look], **FULL)
    thread.run("hello")
    return spindle, thread


def test_a_record_has_the_calls_of_its_turns_as_their_results_have(client: Client, workspace: Path) -> None:
    spindle, thread = with_calls(client, workspace)
    thread.close()
    (turn,) = spindle.threads.read(thread.id, include_turns=True).turns
    items = [item.to_dict() for item in turn.items]
    assert [item["type"] for item in items] == [
        *("user_message", "reasoning", "command_execution", "python_tool_call", "file_change", "agent_message"),
    ]
    assert [item["id"] for item in items] == [f"item_{number}" for number in range(6)]
    assert (items[2]["aggregated_output"], items[2]["exit_code"], items[2]["status"]) == ("narwhal\n", 3, "failed")
    assert (items[3]["tool"], items[3]["arguments"], items[3]["result"]) == (
        "look",
        {"word": "okapi"},
        "okapi means a lemur",
    )
    assert items[4]["changes"] == [{"path": str(workspace / "quokka.txt"), "kind": "add"}]
    exported = spindle.threads.export(thread.id)
    assert "narwhal" in exported and 'look {"word":"okapi"}' in exported and "quokka.txt" in exported


@pytest.mark.parametrize("word", ["WALRUS", "narwhal", "okapi", "quokka.txt", "a tapir", "a lemur", "hello", "done"])
def test_a_search_finds_whatever_was_said_or_done(client: Client, workspace: Path, word: str) -> None:
    spindle, thread = with_calls(client, workspace)
    (match,) = spindle.threads.search(word)
    assert match.thread_id == thread.id and word.lower() in match.snippet.lower()
    assert match.turn_id == thread.read(include_turns=True).turns[0].id


@pytest.mark.parametrize("word", ["user_message", "exec_command_begin", "input_text"])
def test_a_search_does_not_find_how_a_record_is_written(client: Client, workspace: Path, word: str) -> None:
    assert with_calls(client, workspace)[0].threads.search(word) == []


def test_rollback_forgets_a_turn_with_what_was_steered_into_it(client: Client, workspace: Path) -> None:
    model = ScriptedModel(says("a"), says("b c d e", pace_s=0.2), says("f"), says("g"))
    thread = client(model_client=model).thread_start(cwd=workspace)
    thread.run("first")
    handle = thread.turn("second")
    for event in handle.stream():
        if event.type == "item.delta":
            handle.steer("and this")
            break
    handle.run()
    thread.rollback(1)
    thread.run("third")
    assert said(model.requests[-1]) == ["first", "third"]
    assert len(statuses(thread)) == 2


def test_a_rollback_before_the_first_turn_has_nothing_to_do(client: Client, workspace: Path) -> None:
    thread = client(says("a")).thread_start(cwd=workspace)
    thread.rollback(3)
    assert thread.run("first").final_response == "a"


def test_a_fork_has_the_settings_of_now(client: Client, workspace: Path) -> None:
    thread = client(model_client=ScriptedModel(default=says("ok"))).thread_start(
        cwd=workspace, sandbox="read-only", model="model-1", effort="low"
    )
    thread.run("one", model="model-2", effort="high", **FULL)
    fork = thread.fork()
    fork.run("two")
    assert fork.path is not None
    record = Path(fork.path).read_text().splitlines()
    last = next(line for line in reversed(record) if '"turn_context"' in line)
    assert fork.model == "model-2" and '"effort":"high"' in last and "danger-full-access" in last


def test_a_fork_that_keeps_nothing_has_no_turns(client: Client, workspace: Path) -> None:
    thread = client(says("a")).thread_start(cwd=workspace)
    thread.run("one")
    assert statuses(thread.fork(at=0)) == []


def test_a_fork_while_a_turn_runs_is_without_it(client: Client, workspace: Path) -> None:
    thread = client(says("a"), says("b c d", pace_s=5)).thread_start(cwd=workspace)
    thread.run("one")
    stream = thread.stream("two")
    for event in stream:
        if event.type == "item.delta":
            assert statuses(thread.fork()) == ["completed"]
            break


def test_a_fork_of_a_thread_that_said_nothing_is_a_new_one(client: Client, workspace: Path) -> None:
    model = ScriptedModel(says("a"))
    thread = client(model_client=model).thread_start(cwd=workspace, developer_instructions="Be brief.")
    fork = thread.fork()
    assert fork.id != thread.id
    assert fork.run("hello").final_response == "a"
    assert "Be brief." in str(model.requests[-1].to_dict())


def test_an_open_thread_is_read_though_there_is_no_file_of_it(client: Client, workspace: Path) -> None:
    spindle = client(says("a"))
    fresh = spindle.thread_start(cwd=workspace)
    assert spindle.threads.read(fresh.id, include_turns=True) == fresh.read(include_turns=True)
    passing = spindle.thread_start(cwd=workspace, ephemeral=True)
    passing.run("one")
    assert len(spindle.threads.read(passing.id, include_turns=True).turns) == 1
    with pytest.raises(ThreadError, match="ephemeral"):
        passing.archive()


@pytest.mark.parametrize("at", [-1, -2, True, 1.0, "nowhere", "", []])
def test_a_place_that_is_none_cannot_be_forked_at(client: Client, workspace: Path, at: Any) -> None:
    thread = client(says("a")).thread_start(cwd=workspace)
    thread.run("one")
    with pytest.raises(ValueError, match="at="):
        thread.fork(at=at)


def test_a_thread_in_plan_mode_is_resumed_in_it(client: Client, workspace: Path) -> None:
    spindle = client(model_client=ScriptedModel(default=says("ok")))
    thread = spindle.thread_start(cwd=workspace, mode="plan")
    thread.run("one")
    thread.close()

    def modes(thread: Thread) -> list[bool]:
        assert thread.path is not None
        return [
            '"collaboration_mode":{"mode":"plan"' in line
            for line in Path(thread.path).read_text().splitlines()
            if '"turn_context"' in line
        ]

    again = spindle.thread_resume(thread.id)
    again.run("two")
    again.run("three", mode="default")
    again.run("four")
    assert modes(again) == [True, True, False, True]
    again.close()
    other = spindle.thread_resume(thread.id, mode="default")
    other.run("five")
    assert modes(other)[-1] is False


@pytest.mark.parametrize("instructions", [3, b"x", ["x"]])
def test_instructions_for_a_compaction_are_text(client: Client, workspace: Path, instructions: Any) -> None:
    thread = client(says("a")).thread_start(cwd=workspace)
    with pytest.raises(ValueError, match="compaction"):
        thread.compact(instructions)


def test_a_thread_of_another_loop_says_so_instead_of_waiting_for_ever(own_home: Path, workspace: Path) -> None:
    spindle = async_client(own_home, says("a"), says("b"))

    async def open_and_run() -> Any:
        thread = await spindle.thread_start(cwd=workspace)
        await thread.run("one")
        return thread

    async def go_on(thread: Any) -> None:
        with pytest.raises(ThreadClosed, match="loop"):
            await thread.run("two")
        await spindle.close()

    asyncio.run(go_on(asyncio.run(open_and_run())))
