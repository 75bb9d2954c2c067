"""Facts planted in a thread stand in the next request after any number of compactions."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from sessions import Driver, Start
from spindle.model.scripted import calls, patches, says
from spindle.protocol.events import ContextCompacted, ExecApprovalRequest, PinsUpdated, ThreadRolledBack
from spindle.protocol.ops import Compact, ExecApproval, Pin, ThreadRollback, Unpin
from spindle.protocol.request import TokenUsage

LIMIT = 30_000
CONTENT = b"content\n"
FULL = TokenUsage(input_tokens=LIMIT, total_tokens=LIMIT)
PLAN = [
    {"step": "read the grammar", "status": "completed"},
    {"step": "write the parser", "status": "in_progress"},
    {"step": "test the parser", "status": "pending"},
]
SEALED = {"type": "compaction", "encrypted_content": "OPAQUE"}


def seen(driver: Driver, request: int = -1) -> str:
    items = driver.inputs[request]
    return "\n".join(
        part.get("text", "") for item in items if item["type"] == "message" for part in item.get("content", ())
    )


def runs(command: str, call_id: str, **more: Any) -> Any:
    return calls("exec_command", {"cmd": command}, call_id, **more)


@pytest.mark.parametrize("is_remote", [False, True], ids=["local", "remote"])
@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize("is_mid_turn", [True, False], ids=["in a turn", "between turns"])
async def test_planted_facts_stand_in_the_next_request(
    is_mid_turn: bool, times: int, is_remote: bool, start: Start, workspace: Path
) -> None:
    (workspace / "AGENTS.md").write_text("RULE: tabs are four blanks wide\n")
    (workspace / "read.txt").write_bytes(CONTENT)
    driver = await start(
        approval="on-request",
        sandbox="danger-full-access",
        config={
            "model_auto_compact_token_limit": LIMIT,
            "features": {"remote_compaction": is_remote},
            "spindle": {"jit_tools": True},
        },
    )
    driver.model.script(
        calls("update_plan", {"plan": PLAN}, "p1"),
        calls("remember", {"fact": "DECISION: ids are base-36, because of the old printer"}, "r1"),
        calls("read_file", {"file_path": str(workspace / "read.txt")}, "f1"),
        patches("*** Begin Patch\n*** Add File: made.txt\n+x\n*** End Patch\n", "m1"),
        runs("exit 7", "c1"),
        runs("rm -rf build", "d1"),
        says("ready"),
    )
    sub_id = driver.begin("REQUEST: build the thing, gently")
    await driver.until(ExecApprovalRequest)
    driver.submit(ExecApproval(id="d1", decision="denied"))
    await driver.end_of(sub_id)
    driver.submit(Pin(text="PIN: the port is 4711"))
    assert (await driver.until(PinsUpdated)).pins[-1] == "PIN: the port is 4711"
    facts = [
        "RULE: tabs are four blanks wide",
        "DECISION: ids are base-36, because of the old printer",
        "PIN: the port is 4711",
        "[>] write the parser",
        "[ ] test the parser",
        f"added `{workspace}/made.txt`",
        f"`{workspace}/read.txt`: lines 1-1, hash sha256:{hashlib.sha256(CONTENT).hexdigest()[:16]}",
        "`exit 7`: exit 7",
        "`rm -rf build`: not run, or stopped",
        "REQUEST: build the thing, gently",
    ]
    for number in range(times):
        if is_remote:
            driver.model.compactions.append([SEALED])
        summary = [] if is_remote else [says("a vague summary")]
        if is_mid_turn:
            await driver.turn(
                f"go on {number}", runs(f"echo step {number}", f"s{number}", usage=FULL), *summary, says(".")
            )
        else:
            await driver.turn(f"go on {number}", runs(f"echo step {number}", f"s{number}"), says("."))
            driver.model.script(*summary)
            await driver.end_of(driver.submit(Compact()))
            await driver.turn(f"next {number}", says("."))
        compactions = [event for event in driver.events if isinstance(event.msg, ContextCompacted)]
        assert len(compactions) == number + 1
        lines = {line.removeprefix("- ") for line in seen(driver).splitlines()}
        assert [fact for fact in facts if fact not in lines] == []
        assert any(line.startswith("refused: ") and "'rm -rf build'" in line for line in lines)
        # Nothing but the facts can tell of them: what was said and done is gone.
        kinds = {item["type"] for item in driver.inputs[-1]}
        assert kinds == ({"message", "compaction"} if is_remote else {"message"})


@pytest.mark.parametrize("tool", ["exec_command", "shell_command"])
async def test_a_file_that_a_command_showed_is_known_by_its_hash_after_a_compaction(
    tool: str, start: Start, workspace: Path
) -> None:
    """For models that read by commands; the same hash as `sha256sum` and `read_file` would give."""
    (workspace / "small.txt").write_text("péché\n\tno end of line")
    (workspace / "large.txt").write_text("0123456789\n" * 9_000)
    model = "gpt-5.5" if tool == "exec_command" else "gpt-5.2-codex"
    driver = await start(
        config={"features": {"remote_compaction": False, "unified_exec": tool == "exec_command"}}, model=model
    )
    key = "cmd" if tool == "exec_command" else "command"
    commands = ("cat small.txt", "sed -n 1,200p AGENTS.txt", "cat large.txt")
    (workspace / "AGENTS.txt").write_text("a\nb\n")
    await driver.turn("hi", [calls(tool, {key: text}, f"c{n}") for n, text in enumerate(commands)], says("."))
    driver.model.script(says("summary"))
    await driver.end_of(driver.submit(Compact()))
    await driver.turn("on", says("."))

    def known(name: str) -> str:
        return hashlib.sha256((workspace / name).read_bytes()).hexdigest()[:16]

    lines = [line for line in seen(driver).splitlines() if ".txt`: " in line]
    assert lines == [
        f"- `{workspace}/small.txt`: all of it, hash sha256:{known('small.txt')}",
        f"- `{workspace}/AGENTS.txt`: all of it, hash sha256:{known('AGENTS.txt')}",
        f"- `{workspace}/large.txt`: all of it, the middle cut",
    ]


async def test_what_was_compacted_away_can_be_recalled(start: Start) -> None:
    driver = await start(config={"model_auto_compact_token_limit": LIMIT, "features": {"remote_compaction": False}})
    await driver.turn("the password hint is a fish", runs("echo NEEDLE in the output", "c1"), says("one"))
    driver.model.script(says("summary"))
    await driver.end_of(driver.submit(Compact()))
    await driver.turn("look", calls("recall", {"query": "needle OUTPUT"}, "q1"), says("two"))
    found = next(item["output"] for item in driver.inputs[-1] if item.get("call_id") == "q1" and "output" in item)
    assert "NEEDLE in the output" in found
    number = int(found.split()[1])
    await driver.turn("read", calls("recall", {"entry": number}, "q2"), says("three"))
    whole = next(item["output"] for item in driver.inputs[-1] if item.get("call_id") == "q2" and "output" in item)
    assert "NEEDLE in the output" in whole


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("remember", {"fact": "  "}, "nothing to remember"),
        ("remember", {"fact": "x" * 2_001}, "at most 2000 characters"),
        ("recall", {}, "give a `query`"),
        ("recall", {"entry": 99_999}, "there is no entry 99999"),
        ("recall", {"query": "zebra"}, "Nothing in this thread"),
    ],
)
async def test_what_cannot_be_kept_or_found_is_said(
    name: str, arguments: dict[str, Any], answer: str, start: Start
) -> None:
    driver = await start()
    await driver.turn("hi", calls(name, arguments, "c1"), says("."))
    assert answer in driver.inputs[-1][-1]["output"]


async def test_a_fact_can_be_let_go(start: Start) -> None:
    driver = await start(config={"features": {"remote_compaction": False}})
    await driver.turn("hi", runs("true", "c1"), says("."))
    for op in (Pin(text="one"), Pin(text="two"), Unpin(text="one")):
        driver.submit(op)
    assert [(await driver.until(PinsUpdated)).pins for _ in range(3)] == [["one"], ["one", "two"], ["two"]]
    driver.model.script(says("summary"))
    await driver.end_of(driver.submit(Compact()))
    await driver.turn("on", says("."))
    assert "two" in seen(driver) and "- one" not in seen(driver)


async def test_what_was_rolled_back_was_not_asked(start: Start) -> None:
    driver = await start()
    await driver.turn("first", says("."))
    await driver.turn("second", says("."))
    driver.submit(ThreadRollback(num_turns=1))
    await driver.until(ThreadRolledBack)
    assert [asked.text for asked in driver.session.thread.notes.ledger().requests] == ["first"]


async def test_pins_and_the_ledger_survive_a_resume(start: Start) -> None:
    first = await start(config={"features": {"remote_compaction": False}})
    await first.turn("hi", calls("remember", {"fact": "FACT-1"}, "c1"), runs("exit 3", "c2"), says("."))
    thread_id = first.session.thread_id
    await first.close()
    second = await start(config={"features": {"remote_compaction": False}}, thread=thread_id)
    second.model.script(says("summary"))
    await second.end_of(second.submit(Compact()))
    await second.turn("on", says("."))
    assert "FACT-1" in seen(second) and "`exit 3`: exit 3" in seen(second)


async def test_the_ledger_of_a_long_thread_is_kept_up_so_that_a_compaction_finds_it_done(start: Start) -> None:
    driver = await start()
    await driver.turn("hi", runs("exit 3", "c1"), says("."))
    notes = driver.session.thread.notes
    assert notes.unread_records == len(driver.session.thread.history.records)
    await driver.turn("many", [runs("true", f"m{number}") for number in range(120)], says("x"), says("."))
    assert notes.unread_records < 20
    assert len(notes.ledger().commands) == 2
