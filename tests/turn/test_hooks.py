"""Programs of the user that run at named moments: what they are told, what they can forbid, add and make happen."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessions import Driver, Start
from spindle.config.hook_consent import give_consent
from spindle.config.load import load_config
from spindle.model.scripted import calls, patches, says
from spindle.protocol.events import (
    ApplyPatchApprovalRequest,
    ExecApprovalRequest,
    ExecCommandBegin,
    ExecCommandEnd,
    HookCompleted,
    HookStarted,
    Msg,
    TaskComplete,
    TurnAborted,
    Warning,
)
from spindle.protocol.ops import Compact, ExecApproval, Interrupt, UserInput

ECHO = calls("exec_command", {"cmd": "echo hi"}, "c1")
ADD = "*** Begin Patch\n*** Add File: n.txt\n+x\n*** End Patch\n"
NOTE = "told=$(cat); printf '%s\\n' \"$told\" >> {log}"
FENCED = {"sandbox": "workspace-write"}
ASKING = {"approval": "on-request", "sandbox": "workspace-write"}
ESCALATED = calls(
    "exec_command", {"cmd": "echo hi > out", "sandbox_permissions": "require_escalated", "justification": "why"}, "c1"
)

Add = Callable[..., None]


class HookFiles:
    """The user's hooks of one test: scripts outside of the workspace, a file that lists them, a log inside."""

    def __init__(self, home: Path, scripts: Path, log: Path) -> None:
        self.home = home
        self.scripts = scripts
        self.log = log
        self._hooks: dict[str, list[Any]] = {}
        scripts.mkdir()
        home.mkdir(exist_ok=True)

    def add(self, event: str, body: str, *, matcher: str | None = None, **how: Any) -> Path:
        """A hook that logs what it is told, then does `body`."""
        script = self.scripts / f"{event}{len(self._hooks.get(event, []))}.sh"
        script.write_text(f"#!/bin/sh\n{NOTE.format(log=self.log)}\n{body}\n")
        script.chmod(0o755)
        group = {"hooks": [{"type": "command", "command": str(script), **how}]}
        self._hooks.setdefault(event, []).append(group if matcher is None else {**group, "matcher": matcher})
        (self.home / "hooks.json").write_text(json.dumps({"hooks": self._hooks}))
        return script

    @property
    def told(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


@pytest.fixture
def hooks(tmp_path: Path, workspace: Path) -> HookFiles:
    return HookFiles(tmp_path / "codex-home", tmp_path / "scripts", workspace / "log")


def prints(**answer: Any) -> str:
    return f"cat <<'END'\n{json.dumps(answer)}\nEND"


def specific(event: str, **answer: Any) -> str:
    return prints(hookSpecificOutput={"hookEventName": event, **answer})


def outputs(driver: Driver) -> list[str]:
    return [item["output"] for item in driver.inputs[-1] if item["type"].endswith("_call_output")]


def runs(msgs: list[Msg]) -> list[tuple[str, str, list[dict[str, str]]]]:
    return [
        (msg.run["event_name"], msg.run["status"], list(msg.run["entries"]))
        for msg in msgs
        if isinstance(msg, HookCompleted)
    ]


def said(text: str) -> str:
    """What a hook adds, as the model is told it."""
    return f"<hook_context>\n{text}\n</hook_context>"


def last_texts(driver: Driver, count: int) -> list[tuple[str, str]]:
    messages = [item for item in driver.inputs[-1] if item["type"] == "message"]
    return [(item["role"], item["content"][0]["text"]) for item in messages[-count:]]


# ---- what hooks are told ---------------------------------------------------------------------------


async def test_each_moment_of_a_turn_calls_its_hooks_with_the_facts(
    start: Start, workspace: Path, hooks: HookFiles
) -> None:
    for event in ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"):
        hooks.add(event, "", timeout=3 if event == "SessionEnd" else 60)
    driver = await start(ECHO, patches(ADD, "p1"), says("bye"), **FENCED)
    msgs = await driver.turn("hello")
    await driver.close()
    thread, turn = driver.session.thread_id, next(msg for msg in msgs if isinstance(msg, TaskComplete)).turn_id
    everywhere = {
        "session_id": thread,
        "transcript_path": driver.session.thread.history.writer.path,
        "cwd": str(workspace),
    }
    model = {"model": "gpt-5.2-codex", "permission_mode": "bypassPermissions"}
    in_turn = {**everywhere, **model, "turn_id": turn}
    command = {"tool_name": "Bash", "tool_input": {"command": "echo hi"}, "tool_use_id": "c1"}
    patch = {"tool_name": "apply_patch", "tool_input": {"command": ADD}, "tool_use_id": "p1"}
    told = hooks.told
    written = told[5].pop("tool_response")
    assert written.startswith("Exit code: 0\n") and written.endswith("A n.txt\n")
    assert told == [
        {**everywhere, **model, "hook_event_name": "SessionStart", "source": "startup"},
        {**in_turn, "hook_event_name": "UserPromptSubmit", "prompt": "hello"},
        {**in_turn, "hook_event_name": "PreToolUse", **command},
        {**in_turn, "hook_event_name": "PostToolUse", **command, "tool_response": "hi\n"},
        {**in_turn, "hook_event_name": "PreToolUse", **patch},
        {**in_turn, "hook_event_name": "PostToolUse", **patch},
        {**in_turn, "hook_event_name": "Stop", "stop_hook_active": False, "last_assistant_message": "bye"},
        {**everywhere, "hook_event_name": "SessionEnd", "reason": "other"},
    ]


async def test_people_see_when_a_hook_runs_and_what_came_of_it(start: Start, hooks: HookFiles) -> None:
    hooks.add("PreToolUse", prints(systemMessage="mind the gap"), statusMessage="looking", timeout=5)
    driver = await start(ECHO, says("bye"))
    msgs = await driver.turn("hello")
    began, ended = [msg.run for msg in msgs if isinstance(msg, HookStarted | HookCompleted)]
    path = str(hooks.home / "hooks.json")
    assert {**ended, "started_at": 0, "completed_at": 0, "duration_ms": 0} == {
        "id": f"pre-tool-use:0:{path}:c1",
        "event_name": "pre_tool_use",
        "handler_type": "command",
        "execution_mode": "sync",
        "scope": "turn",
        "source_path": path,
        "source": "user",
        "display_order": 0,
        "status": "completed",
        "status_message": "looking",
        "started_at": 0,
        "completed_at": 0,
        "duration_ms": 0,
        "entries": [{"kind": "warning", "text": "mind the gap"}],
    }
    assert began == {**ended, "status": "running", "completed_at": None, "duration_ms": None, "entries": []}


@pytest.mark.parametrize(
    ("matcher", "is_called"),
    [
        *[(None, "Bash apply_patch"), ("", "Bash apply_patch"), ("*", "Bash apply_patch"), ("Bash", "Bash")],
        *[
            ("ash", ""),
            ("^Ba", "Bash"),
            ("Edit|Write", "apply_patch"),
            ("exec_command", ""),
            ("bash", ""),
            ("apply", ""),
        ],
    ],
)
async def test_a_matcher_chooses_among_tools(
    start: Start, hooks: HookFiles, matcher: str | None, is_called: str
) -> None:
    hooks.add("PreToolUse", "", matcher=matcher)
    driver = await start(ECHO, patches(ADD, "p1"), says("bye"))
    await driver.turn("go")
    assert " ".join(told["tool_name"] for told in hooks.told) == is_called


async def test_a_command_that_outlives_its_call_is_reported_when_it_is_over(start: Start, hooks: HookFiles) -> None:
    hooks.add("PreToolUse", "")
    hooks.add("PostToolUse", "")

    def wait_for_it(request: Any) -> Any:
        output = request.input[-1]["output"]
        session = int(output.split("session ID ")[1].split("\n")[0])
        return calls("write_stdin", {"session_id": session, "yield_time_ms": 20_000}, "c2")

    slow = calls("exec_command", {"cmd": "echo one; sleep 1; echo two", "yield_time_ms": 300}, "c1")
    driver = await start(slow, wait_for_it, says("bye"))
    await driver.turn("go")
    assert [(told["hook_event_name"], told["tool_use_id"]) for told in hooks.told] == [
        ("PreToolUse", "c1"),
        ("PostToolUse", "c1"),
    ]
    assert hooks.told[1]["tool_response"] == "two\n"


async def test_what_is_typed_into_a_running_command_is_shown_to_guards(start: Start, hooks: HookFiles) -> None:
    hooks.add("PreToolUse", "", matcher="write_stdin")
    driver = await start(calls("write_stdin", {"session_id": 7, "chars": "rm -rf /\n"}, "c1"), says("bye"))
    await driver.turn("go")
    assert [told["tool_input"] for told in hooks.told] == [{"session_id": 7, "chars": "rm -rf /\n"}]


# ---- before and after a call -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo no way >&2; exit 2", "no way"),
        ("exit 2", "the hook gave no reason"),
        (prints(decision="block", reason="because"), "because"),
        (prints(decision="block", reason="odd", unknown=1), "odd"),
        (specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="denied"), "denied"),
        (specific("PreToolUse", permissionDecision="deny"), "the hook gave no reason"),
        (
            specific("PreToolUse", permissionDecision="ask", permissionDecisionReason="hm"),
            "the hook wants a person to decide, which is not possible here: hm",
        ),
    ],
)
async def test_a_guard_that_says_no_keeps_a_call_from_running(
    start: Start, workspace: Path, hooks: HookFiles, body: str, reason: str
) -> None:
    hooks.add("PreToolUse", body)
    driver = await start(calls("exec_command", {"cmd": "touch ran"}, "c1"), says("ok"), **FENCED)
    msgs = await driver.turn("go")
    assert outputs(driver) == [f"This call was not run: a PreToolUse hook blocks it: {reason}"]
    assert runs(msgs) == [("pre_tool_use", "blocked", [{"kind": "feedback", "text": reason}])]
    assert not (workspace / "ran").exists() and not any(isinstance(msg, ExecCommandBegin) for msg in msgs)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("exit 1", "exit code 1"),
        ("echo oops >&2; exit 3", "exit code 3: oops"),
        ("echo '{\"a\":'", "its answer is no JSON object"),
        (specific("PreToolUse", updatedInput={"command": "true"}), "updatedInput must be an object, with"),
    ],
)
async def test_a_hook_that_fails_is_shown_and_the_call_runs(
    start: Start, hooks: HookFiles, body: str, said: str
) -> None:
    hooks.add("PreToolUse", body)
    driver = await start(ECHO, says("ok"))
    msgs = await driver.turn("go")
    [(event, status, [entry])] = runs(msgs)
    assert (event, status, entry["kind"]) == ("pre_tool_use", "failed", "error") and entry["text"].startswith(said)
    assert outputs(driver)[0].endswith("Output:\nhi\n")


@pytest.mark.parametrize(
    ("body", "how", "said"),
    [
        ("sleep 60", {"timeout": 1}, "it did not end within 1 s and was stopped"),
        ("exec /does/not/exist", {}, "not found"),
        ("yes", {"timeout": 50}, "it printed more than 64 MiB and was stopped"),
    ],
)
async def test_a_guard_that_cannot_be_asked_lets_nothing_pass(
    start: Start, hooks: HookFiles, body: str, how: dict[str, Any], said: str
) -> None:
    hooks.add("PreToolUse", body, **how)
    driver = await start(ECHO, says("ok"), **FENCED)
    msgs = await driver.turn("go")
    [(_, status, [entry])] = runs(msgs)
    assert status == "blocked" and said in entry["text"]
    assert "a guard could not be asked" in outputs(driver)[0] and said in outputs(driver)[0]


async def test_a_guard_without_its_sandbox_lets_nothing_pass(start: Start, hooks: HookFiles) -> None:
    hooks.add("PreToolUse", "")
    config = {"spindle": {"sandbox": {"backend": "none"}}}
    driver = await start(ECHO, says("ok"), config=config, **FENCED)
    [(_, status, [entry])] = runs(await driver.turn("go"))
    assert status == "blocked" and "no sandbox" in entry["text"] and not hooks.told
    assert "a guard could not be asked" in outputs(driver)[0]


async def test_one_no_counts_more_than_other_answers_and_all_hooks_run(start: Start, hooks: HookFiles) -> None:
    hooks.add("PreToolUse", specific("PreToolUse", permissionDecision="allow", updatedInput={"command": "echo 1"}))
    hooks.add("PreToolUse", "sleep 0.2; echo first >&2; exit 2")
    hooks.add("PreToolUse", "echo second >&2; exit 2")
    driver = await start(ECHO, says("ok"))
    await driver.turn("go")
    assert outputs(driver) == ["This call was not run: a PreToolUse hook blocks it: first"]
    assert len(hooks.told) == 3


async def test_hooks_of_one_moment_run_side_by_side(start: Start, hooks: HookFiles, workspace: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        hooks.add("PreToolUse", f"touch {workspace}/{name}; while ! test -e {workspace}/{other}; do sleep 0.05; done")
    driver = await start(ECHO, says("ok"))
    assert [status for _, status, _ in runs(await driver.turn("go"))] == ["completed", "completed"]


@pytest.mark.parametrize(
    ("call", "given", "result"),
    [
        (calls("exec_command", {"cmd": "echo hi"}, "c1"), "echo 2", "2\n"),
        (calls("shell", {"command": ["bash", "-lc", "echo hi"]}, "c1"), "echo 2", "2\n"),
        (calls("shell_command", {"command": "echo hi"}, "c1"), "echo 2", "2\n"),
        (patches(ADD, "p1"), ADD.replace("n.txt", "other.txt"), "A other.txt\n"),
    ],
)
async def test_a_hook_can_change_what_a_call_does(
    start: Start, hooks: HookFiles, call: Any, given: str, result: str
) -> None:
    hooks.add("PreToolUse", specific("PreToolUse", permissionDecision="allow", updatedInput={"command": given}))
    hooks.add("PostToolUse", "")
    driver = await start(call, says("ok"))
    await driver.turn("go")
    assert result in outputs(driver)[0].replace("\\n", "\n")
    assert hooks.told[1]["tool_input"] == {"command": given}


async def test_what_hooks_add_follows_the_output_and_stays_in_the_record(start: Start, hooks: HookFiles) -> None:
    hooks.add("PreToolUse", specific("PreToolUse", additionalContext="before it"))
    hooks.add("PostToolUse", specific("PostToolUse", additionalContext="after it"))
    driver = await start(ECHO, says("ok"), says("again"))
    await driver.turn("go")
    assert [item["type"] for item in driver.inputs[-1][-4:]] == [
        "function_call",
        "function_call_output",
        *["message"] * 2,
    ]
    assert last_texts(driver, 2) == [("developer", said("before it")), ("developer", said("after it"))]
    before = driver.inputs[-1]
    await driver.turn("more")
    assert driver.inputs[-1][: len(before)] == before


@pytest.mark.parametrize(
    "body",
    [
        "echo redo it >&2; exit 2",
        prints(decision="block", reason="redo it"),
        prints(**{"continue": False, "reason": "redo it", "stopReason": "x"}),
    ],
)
async def test_a_hook_can_answer_in_place_of_a_calls_output(start: Start, hooks: HookFiles, body: str) -> None:
    hooks.add("PostToolUse", body)
    driver = await start(ECHO, says("ok"))
    await driver.turn("go")
    assert outputs(driver) == ["redo it"]


async def test_a_call_is_shown_as_over_when_its_hooks_have_had_their_say_and_the_record_has_it(
    start: Start, hooks: HookFiles
) -> None:
    hooks.add("PostToolUse", prints(decision="block", reason="redo it"))
    driver = await start(ECHO, says("ok"))
    driver.begin("go")
    await driver.until(ExecCommandEnd)
    assert b'"redo it"' in Path(driver.session.thread.history.writer.path).read_bytes()
    assert isinstance(driver.events[-2].msg, HookCompleted)
    await driver.until(TaskComplete)


# ---- the input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("echo no secrets here >&2; exit 2", "blocked"),
        (prints(decision="block", reason="no secrets here"), "blocked"),
        (prints(**{"continue": False, "stopReason": "no secrets here"}), "stopped"),
    ],
)
async def test_an_input_that_a_hook_does_not_let_in_never_reaches_the_model(
    start: Start, hooks: HookFiles, body: str, status: str
) -> None:
    script = hooks.add("UserPromptSubmit", body)
    driver = await start(says("hi"))
    msgs = await driver.turn("my password")
    assert [(event, how) for event, how, _ in runs(msgs)] == [("user_prompt_submit", status)]
    assert [msg.message for msg in msgs if isinstance(msg, Warning)] == [
        "a hook refused this input, so the model does not see it: no secrets here"
    ]
    assert isinstance(msgs[-1], TaskComplete) and driver.model.requests == []
    script.write_text("#!/bin/sh\n")
    await driver.turn("hello")
    assert "my password" not in json.dumps(driver.inputs)


@pytest.mark.parametrize("body", ["echo be brief", specific("UserPromptSubmit", additionalContext="be brief")])
async def test_a_hook_can_add_to_an_input(start: Start, hooks: HookFiles, body: str) -> None:
    hooks.add("UserPromptSubmit", body)
    driver = await start(says("hi"))
    await driver.turn("hello")
    assert last_texts(driver, 2) == [("user", "hello"), ("developer", said("be brief"))]


async def test_input_that_joins_a_running_turn_is_judged_too(start: Start, hooks: HookFiles, workspace: Path) -> None:
    hooks.add("UserPromptSubmit", f"grep -q forbidden {hooks.log} && {{ echo no >&2; exit 2; }}; true")
    slow = calls("exec_command", {"cmd": "while ! test -e go; do sleep 0.05; done"}, "c1")
    driver = await start(slow, says("done"))
    sub_id = driver.begin("start")
    await driver.until(ExecCommandBegin)
    driver.submit(UserInput(items=[{"type": "text", "text": "forbidden"}], mode="steer"))
    await driver.session.settle()
    (workspace / "go").touch()
    await driver.end_of(sub_id)
    assert [told["prompt"] for told in hooks.told] == ["start", "forbidden"]
    assert "forbidden" not in json.dumps(driver.inputs)


# ---- the start of a thread -------------------------------------------------------------------------


async def test_what_a_start_hook_says_stands_before_the_first_input_once(start: Start, hooks: HookFiles) -> None:
    hooks.add("SessionStart", "echo welcome", matcher="startup")
    driver = await start(says("a"), says("b"))
    await driver.turn("hello")
    assert last_texts(driver, 2) == [("developer", said("welcome")), ("user", "hello")]
    await driver.turn("again")
    assert len(hooks.told) == 1


async def test_a_start_hook_can_keep_the_thread_from_starting(start: Start, hooks: HookFiles) -> None:
    hooks.add("SessionStart", prints(**{"continue": False, "stopReason": "closed today"}))
    driver = await start(says("a"))
    msgs = await driver.turn("hello")
    assert runs(msgs) == [("session_start", "stopped", [{"kind": "stop", "text": "closed today"}])]
    assert driver.model.requests == []


async def test_start_hooks_hear_that_a_thread_goes_on(start: Start, hooks: HookFiles) -> None:
    hooks.add("SessionStart", "")
    first = await start(says("a"))
    await first.turn("hello")
    await first.close()
    second = await start(says("b"), thread=first.session.thread_id)
    await second.turn("more")
    assert [told["source"] for told in hooks.told] == ["startup", "resume"]


# ---- the end of a turn -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body", ["echo 'run <the> tests' >&2; exit 2", prints(decision="block", reason="run <the> tests")]
)
async def test_a_stop_hook_makes_the_turn_go_on(start: Start, hooks: HookFiles, body: str) -> None:
    hooks.add("Stop", f"test $(wc -l < {hooks.log}) -gt 1 && exit 0\n{body}")
    driver = await start(says("one"), says("two"))
    msgs = await driver.turn("go")
    run = f"stop:0:{hooks.home / 'hooks.json'}"
    prompt = f'<hook_prompt hook_run_id="{run}">run &lt;the&gt; tests</hook_prompt>'
    assert last_texts(driver, 3) == [("user", "go"), ("assistant", "one"), ("user", prompt)]
    assert [(told["stop_hook_active"], told["last_assistant_message"]) for told in hooks.told] == [
        (False, "one"),
        (True, "two"),
    ]
    assert isinstance(msgs[-1], TaskComplete) and msgs[-1].last_agent_message == "two"


async def test_stop_hooks_cannot_keep_a_turn_going_for_ever(start: Start, hooks: HookFiles) -> None:
    hooks.add("Stop", "echo more >&2; exit 2")
    driver = await start(*[says(str(number)) for number in range(30)])
    msgs = await driver.turn("go")
    assert len(driver.model.requests) == 21
    assert [msg.message for msg in msgs if isinstance(msg, Warning)] == [
        "Stop hooks made this turn go on 20 times; it ends here"
    ]


async def test_a_stop_hook_that_wants_the_end_wins_over_one_that_wants_more(start: Start, hooks: HookFiles) -> None:
    hooks.add("Stop", "echo more >&2; exit 2")
    hooks.add("Stop", prints(**{"continue": False}))
    driver = await start(says("one"), says("two"))
    await driver.turn("go")
    assert len(driver.model.requests) == 1


# ---- permission ------------------------------------------------------------------------------------

ALLOWS = specific("PermissionRequest", decision={"behavior": "allow"})


async def test_a_permission_hook_answers_in_a_persons_place(start: Start, hooks: HookFiles, workspace: Path) -> None:
    hooks.add("PermissionRequest", ALLOWS)
    driver = await start(ESCALATED, says("ok"), **ASKING)
    msgs = await driver.turn("go")
    assert not any(isinstance(msg, ExecApprovalRequest) for msg in msgs) and (workspace / "out").exists()
    [told] = hooks.told
    assert told["tool_name"] == "Bash" and told["permission_mode"] == "default"
    assert told["tool_input"]["command"] == "echo hi > out" and "why" in told["tool_input"]["description"]


@pytest.mark.parametrize(
    "body",
    ["echo nope >&2; exit 2", specific("PermissionRequest", decision={"behavior": "deny", "message": "nope"})],
)
async def test_a_permission_hook_refuses_in_a_persons_place(
    start: Start, hooks: HookFiles, workspace: Path, body: str
) -> None:
    hooks.add("PermissionRequest", body)
    hooks.add("PermissionRequest", ALLOWS)
    driver = await start(ESCALATED, says("ok"), **ASKING)
    msgs = await driver.turn("go")
    assert not any(isinstance(msg, ExecApprovalRequest) for msg in msgs) and not (workspace / "out").exists()
    assert "a PermissionRequest hook refuses this: nope" in outputs(driver)[0]


@pytest.mark.parametrize(
    "body",
    ["", "exit 1", specific("PermissionRequest", decision={"behavior": "allow", "updatedInput": {"command": "id"}})],
)
async def test_without_a_clear_yes_the_person_is_asked(start: Start, hooks: HookFiles, body: str) -> None:
    hooks.add("PermissionRequest", body)
    driver = await start(ESCALATED, says("ok"), **ASKING)
    driver.begin("go")
    msg = await driver.until(ExecApprovalRequest, TaskComplete)
    assert isinstance(msg, ExecApprovalRequest)
    driver.submit(ExecApproval(id=msg.call_id, decision="denied"))
    await driver.until(TaskComplete)
    assert len(hooks.told) == 1


async def test_each_hook_is_asked_once_about_a_call_that_waits_for_another(start: Start, hooks: HookFiles) -> None:
    hooks.add("PermissionRequest", "")
    arguments = {"cmd": "echo hi > out", "sandbox_permissions": "require_escalated"}
    both = [calls("exec_command", arguments, "c1"), calls("exec_command", arguments, "c2")]
    driver = await start(lambda request: both, says("ok"), **ASKING)
    driver.begin("go")
    kinds: list[type[Msg]] = []
    while kinds.count(HookCompleted) < 2 or ExecApprovalRequest not in kinds:  # the second waits for the first
        kinds.append(type((await driver.next()).msg))
    msg: Msg = next(event.msg for event in driver.events if isinstance(event.msg, ExecApprovalRequest))
    while isinstance(msg, ExecApprovalRequest):
        driver.submit(ExecApproval(id=msg.call_id, decision="approved"))
        msg = await driver.until(ExecApprovalRequest, TaskComplete)
    assert len(hooks.told) == 2 and len(outputs(driver)) == 2


async def test_a_yes_does_not_count_when_the_agent_could_have_written_it(
    start: Start, hooks: HookFiles, workspace: Path
) -> None:
    script = hooks.add("PermissionRequest", ALLOWS)
    (workspace / "judge.sh").write_text(script.read_text())
    table = {"PermissionRequest": [{"hooks": [{"type": "command", "command": "sh judge.sh"}]}]}
    (hooks.home / "hooks.json").write_text(json.dumps({"hooks": table}))
    driver = await start(ESCALATED, says("ok"), **ASKING)
    driver.begin("go")
    msg = await driver.until(ExecApprovalRequest, TaskComplete)
    assert isinstance(msg, ExecApprovalRequest)
    driver.submit(ExecApproval(id=msg.call_id, decision="denied"))
    await driver.until(TaskComplete)
    warnings = [event.msg.message for event in driver.events if isinstance(event.msg, Warning)]
    assert any("does not count" in text for text in warnings) and len(hooks.told) == 1


async def test_a_projects_hook_can_refuse_but_not_permit(
    start: Start, hooks: HookFiles, workspace: Path, tmp_path: Path
) -> None:
    script = hooks.add("PermissionRequest", ALLOWS)
    (workspace / ".codex").mkdir()
    (hooks.home / "hooks.json").rename(workspace / ".codex/hooks.json")
    (hooks.home / "config.toml").write_text(f'[projects."{workspace}"]\ntrust_level = "trusted"\n')
    give_consent(str(hooks.home), load_config(cwd=str(workspace), env={"CODEX_HOME": str(hooks.home)}).hooks)
    driver = await start(ESCALATED, ESCALATED, says("ok"), **ASKING)
    driver.begin("go")
    msg = await driver.until(ExecApprovalRequest, TaskComplete)
    assert isinstance(msg, ExecApprovalRequest) and len(hooks.told) == 1
    script.write_text("#!/bin/sh\necho nope >&2; exit 2\n")
    driver.submit(ExecApproval(id=msg.call_id, decision="denied"))
    assert isinstance(await driver.until(ExecApprovalRequest, TaskComplete), TaskComplete)
    assert "a PermissionRequest hook refuses this: nope" in outputs(driver)[1]


async def test_no_hook_is_asked_where_nobody_would_be(start: Start, hooks: HookFiles, workspace: Path) -> None:
    hooks.add("PermissionRequest", ALLOWS)
    driver = await start(ESCALATED, says("ok"), sandbox="read-only", approval="never")
    await driver.turn("go")
    assert not hooks.told and not (workspace / "out").exists()


async def test_a_patch_asks_the_hooks_with_its_text(start: Start, hooks: HookFiles, workspace: Path) -> None:
    hooks.add("PermissionRequest", ALLOWS)
    driver = await start(patches(ADD, "p1"), says("ok"), approval="untrusted", sandbox="workspace-write")
    msgs = await driver.turn("go")
    assert not any(isinstance(msg, ApplyPatchApprovalRequest) for msg in msgs) and (workspace / "n.txt").exists()
    assert hooks.told[0]["tool_input"]["command"] == ADD


# ---- compaction ------------------------------------------------------------------------------------


async def test_hooks_stand_around_a_compaction_and_the_thread_starts_again(start: Start, hooks: HookFiles) -> None:
    for event in ("PreCompact", "PostCompact", "SessionStart"):
        hooks.add(event, "")
    driver = await start(says("one"), says("summary"), says("two"))
    await driver.turn("hello")
    await driver.end_of(driver.submit(Compact()))
    await driver.turn("more")
    told = [(told["hook_event_name"], told.get("trigger") or told.get("source")) for told in hooks.told]
    assert told == [
        *[("SessionStart", "startup"), ("PreCompact", "manual"), ("PostCompact", "manual")],
        ("SessionStart", "compact"),
    ]
    assert "permission_mode" not in hooks.told[1] and "turn_id" in hooks.told[1]


async def test_a_hook_can_keep_a_thread_from_being_compacted(start: Start, hooks: HookFiles) -> None:
    hooks.add("PreCompact", prints(**{"continue": False, "stopReason": "keep it"}))
    driver = await start(says("one"), says("two"))
    await driver.turn("hello")
    msgs = await driver.end_of(driver.submit(Compact()))
    assert len(driver.model.requests) == 1
    assert "a PreCompact hook stopped the turn: keep it" in [getattr(msg, "message", "") for msg in msgs]


# ---- where and how long they run -------------------------------------------------------------------


async def test_a_hook_runs_inside_the_sandbox_of_the_turn(start: Start, hooks: HookFiles, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    hooks.add("PreToolUse", f'touch {outside}; test -z "$SPINDLE_SECRET"')
    driver = await start(ECHO, says("ok"), **FENCED)
    await driver.turn("go")
    assert hooks.told and not outside.exists()


async def test_the_user_can_let_a_hook_out_of_the_sandbox(start: Start, hooks: HookFiles, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    hooks.add("PreToolUse", f"touch {outside}", sandbox=False)
    driver = await start(ECHO, says("ok"), **FENCED)
    await driver.turn("go")
    assert outside.exists()


async def test_a_hook_that_reads_nothing_is_no_trouble(start: Start, hooks: HookFiles) -> None:
    script = hooks.add("PreToolUse", "")
    script.write_text("#!/bin/sh\nexec <&-\nexit 0\n")
    driver = await start(calls("exec_command", {"cmd": f": {'x' * 100_000}; echo hi"}, "c1"), says("ok"))
    msgs = await driver.turn("go")
    assert runs(msgs) == [("pre_tool_use", "completed", [])] and outputs(driver)[0].endswith("hi\n")


async def gone(pid: int) -> None:
    """A killed orphan is there until whoever inherited it has heard of its end."""
    with pytest.raises(ProcessLookupError):
        while True:
            os.kill(pid, 0)
            await asyncio.sleep(0.02)


async def test_an_interrupt_ends_running_hooks_and_all_they_started(
    start: Start, hooks: HookFiles, workspace: Path
) -> None:
    hooks.add("PreToolUse", f"sleep 600 & echo $! > {workspace}/pid; wait")
    driver = await start(ECHO, says("ok"))
    sub_id = driver.begin("go")
    await driver.until(HookStarted)
    while not (pid := (workspace / "pid").read_text() if (workspace / "pid").exists() else ""):
        await asyncio.sleep(0.02)
    driver.submit(Interrupt())
    msgs = await driver.end_of(sub_id)
    assert isinstance(msgs[-1], TurnAborted)
    assert [status for _, status, _ in runs(msgs)] == ["blocked"]
    await gone(int(pid))


async def test_what_a_hook_says_is_cut_shown_plainly_and_without_secrets(
    start: Start, hooks: HookFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-very-secret-value-0123456789")
    hooks.add(
        "UserPromptSubmit",
        "printf 'a\\033[31mb sk-very-secret-value-0123456789 '; head -c 100000 /dev/zero | tr '\\0' x",
    )
    driver = await start(says("hi"))
    await driver.turn("hello")
    [(_, text)] = last_texts(driver, 1)
    assert (
        text.startswith("<hook_context>\na\\u{1B}[31mb ")
        and "sk-very-secret" not in text
        and "tokens truncated" in text
    )
    assert len(text) < 11_000


async def test_nobody_waits_for_an_async_hook_and_it_ends_with_the_session(
    start: Start, hooks: HookFiles, workspace: Path
) -> None:
    hooks.add("PreToolUse", f"echo $$ > {workspace}/pid; sleep 600; exit 2", **{"async": True})
    wait = calls("exec_command", {"cmd": "while ! test -s pid; do sleep 0.05; done"}, "c1")
    driver = await start(wait, says("ok"))
    msgs = await driver.turn("go")
    assert isinstance(msgs[-1], TaskComplete) and not runs(msgs)
    await driver.close()
    await gone(int((workspace / "pid").read_text()))
