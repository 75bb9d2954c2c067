"""Python functions as hooks: the contract of the hook page, without commands."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from sessions import Start
from spindle.api.events import EventTranslator, WarningEvent
from spindle.api.hook_functions import HookMatcher, function_hooks
from spindle.api.shown import Usage
from spindle.model.scripted import calls, says
from spindle.protocol.events import ExecApprovalRequest, HookCompleted, Msg, TaskComplete, Warning


def run(script: str, call_id: str = "c1") -> Any:
    return calls("exec_command", {"cmd": script}, call_id)


def specific(event: str, **members: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **members}}


def completed(msgs: list[Msg]) -> list[dict[str, Any]]:
    return [msg.run for msg in msgs if isinstance(msg, HookCompleted)]


def warnings_of(msgs: list[Msg]) -> list[str]:
    """What a reader of the Python API's events is warned of."""
    translator = EventTranslator("t", "s1", 0)
    events = [event for msg in msgs for event in translator.events(msg, Usage())]
    return [event.message for event in events if isinstance(event, WarningEvent)]


async def test_a_function_is_told_what_a_command_is_told_and_can_deny(start: Start, workspace: Path) -> None:
    seen: list[dict[str, Any]] = []

    def guard(data: dict[str, Any]) -> Any:
        seen.append(data)
        if "bad" in data["tool_input"]["command"]:
            return specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="no bad files")
        return None

    hooks = function_hooks({"PreToolUse": [HookMatcher("Bash", guard), HookMatcher("apply_patch", pytest.fail)]})
    driver = await start([run("touch bad", "c1"), run("touch good", "c2")], says("end"), hooks=hooks)
    msgs = await driver.end_of(driver.begin("go"))
    assert not (workspace / "bad").exists() and (workspace / "good").exists()
    told = {item["call_id"]: item["output"] for item in driver.inputs[1] if "output" in item}
    assert told["c1"] == "This call was not run: a PreToolUse hook blocks it: no bad files"
    (one,) = [data for data in seen if data["tool_use_id"] == "c1"]
    assert one == {
        "session_id": driver.session.thread_id,
        "turn_id": "s1",
        "transcript_path": driver.session.thread.history.writer.path,
        "cwd": str(workspace),
        "hook_event_name": "PreToolUse",
        "model": "gpt-5.2-codex",
        "permission_mode": "bypassPermissions",
        "tool_name": "Bash",
        "tool_input": {"command": "touch bad"},
        "tool_use_id": "c1",
    }
    runs = [(one["handler_type"], one["source"], one["status"]) for one in completed(msgs)]
    assert sorted(runs) == [("function", "user", "blocked"), ("function", "user", "completed")]


async def test_a_hook_that_fails_is_a_warning_and_things_go_on(start: Start, workspace: Path) -> None:
    def raises(data: dict[str, Any]) -> None:
        raise RuntimeError("hook bug")

    async def exits(data: dict[str, Any]) -> None:
        raise SystemExit(2)

    hooks = function_hooks(
        {"PreToolUse": [raises, exits], "PostToolUse": [lambda data: 7, lambda data: {"a": object()}]}
    )
    driver = await start(run("touch f"), says("end"), hooks=hooks)
    msgs = await driver.end_of(driver.begin("go"))
    assert isinstance(msgs[-1], TaskComplete) and msgs[-1].last_agent_message == "end" and (workspace / "f").exists()
    assert [one["status"] for one in completed(msgs)] == ["failed"] * 4
    here = f"{__name__}.test_a_hook_that_fails_is_a_warning_and_things_go_on.<locals>"
    texts = warnings_of(msgs)
    assert sorted(texts[:2]) == [
        f"pre_tool_use hook {here}.exits: RuntimeError: it ended with SystemExit",
        f"pre_tool_use hook {here}.raises: RuntimeError: hook bug",
    ]
    said = "\n".join(texts[2:])
    assert "its answer is of type int, and no dict" in said and "its answer cannot be written as JSON" in said


async def test_a_guard_that_is_not_done_in_time_lets_nothing_pass(start: Start, workspace: Path) -> None:
    never = threading.Event()
    entry = HookMatcher("Bash", lambda data: never.wait(60), timeout=0.05)
    driver = await start(run("touch f"), says("end"), hooks=function_hooks({"PreToolUse": [entry]}))
    await driver.end_of(driver.begin("go"))
    never.set()
    assert not (workspace / "f").exists()
    assert "it did not end within 0.05 s" in driver.inputs[1][-1]["output"]


async def test_functions_are_asked_before_commands_and_both_are_heard(
    start: Start, workspace: Path, tmp_path: Path
) -> None:
    order = workspace / "order"
    table = {"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": f"echo command >> {order}"}]}]}}

    async def first(data: dict[str, Any]) -> str:
        await asyncio.sleep(0.05)
        with order.open("a") as file:
            file.write(f"function {data['prompt']}\n")
        return "know this"

    driver = await start(says("end"), config=table, hooks=function_hooks({"UserPromptSubmit": [first]}))
    await driver.end_of(driver.begin("go"))
    assert order.read_text() == "function go\ncommand\n"
    assert driver.inputs[0][-1] == {
        "type": "message",
        "role": "developer",
        "content": [{"type": "input_text", "text": "<hook_context>\nknow this\n</hook_context>"}],
    }


async def test_a_function_may_give_a_permission(start: Start, workspace: Path) -> None:
    hooks = function_hooks(
        {"PermissionRequest": [lambda data: specific("PermissionRequest", decision={"behavior": "allow"})]}
    )
    driver = await start(run("touch f"), says("end"), approval="untrusted", sandbox="workspace-write", hooks=hooks)
    msgs = await driver.end_of(driver.begin("go"))
    assert (workspace / "f").exists() and not [msg for msg in msgs if isinstance(msg, ExecApprovalRequest | Warning)]


async def test_a_stop_hook_makes_the_turn_go_on(start: Start) -> None:
    def more(data: dict[str, Any]) -> Any:
        return None if data["stop_hook_active"] else {"decision": "block", "reason": "run the tests"}

    driver = await start(says("done"), says("tested"), hooks=function_hooks({"Stop": [more]}))
    msgs = await driver.end_of(driver.begin("go"))
    assert msgs[-1] == TaskComplete(turn_id="s1", last_agent_message="tested", response_id="resp-2")
    assert "run the tests" in driver.inputs[1][-1]["content"][0]["text"]


async def test_sub_agents_have_the_functions_too(start: Start) -> None:
    seen: list[str] = []
    hooks = function_hooks(
        {
            "SubagentStart": [lambda data: seen.append(f"start {data['agent_type']}")],
            "SubagentStop": [lambda data: seen.append(data["last_assistant_message"])],
        }
    )
    spawn = calls("spawn_agent", {"message": "look"}, "a1")
    driver = await start(spawn, says("found"), says("end"), hooks=hooks, config={"features": {"collab": True}})
    await driver.end_of(driver.begin("go"))
    async with asyncio.timeout(20):
        while len(seen) < 2:
            await asyncio.sleep(0.01)
    assert seen[0] == "start default" and seen[1] in ("found", "end")


async def test_each_function_gets_a_copy_of_its_own(start: Start) -> None:
    seen: list[Any] = []

    def spoil(data: dict[str, Any]) -> None:
        seen.append(data["tool_input"].pop("command"))

    driver = await start(run("echo hi"), says("end"), hooks=function_hooks({"PreToolUse": [spoil, spoil]}))
    await driver.end_of(driver.begin("go"))
    assert seen == ["echo hi", "echo hi"]


@pytest.mark.parametrize(
    ("hooks", "sentence"),
    [
        (
            {"PreTool": [print]},
            "hooks: there is no event 'PreTool'; the events are PreToolUse, PermissionRequest, PostToolUse, "
            "PreCompact, PostCompact, SessionStart, SessionEnd, UserPromptSubmit, SubagentStart, SubagentStop, Stop",
        ),
        ({"Stop": print}, "hooks is a dict from the name of an event to a list of functions and HookMatchers"),
        ({"Stop": ["check.py"]}, "hooks['Stop'][0] is 'check.py', which is not a function"),
        (
            {"PreToolUse": [HookMatcher("(", print)]},
            "hooks['PreToolUse'][0]: the matcher '(' is not a regular expression",
        ),
        (
            {"Stop": [HookMatcher(None, print, timeout=0)]},
            "hooks['Stop'][0]: timeout is 0, but must be a number of seconds above 0",
        ),
    ],
)
def test_what_cannot_be_a_hook_is_refused(hooks: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as refused:
        function_hooks(hooks)
    assert sentence in str(refused.value)


def test_the_last_words_of_a_session_are_short() -> None:
    hooks = function_hooks({"SessionEnd": [print, HookMatcher(None, print, timeout=60)]})
    assert [hook.timeout_s for hook in hooks] == [1, 3]
