"""Approvals through the installed `spindle proto`, judged by what is on the disk."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Protocol

import pytest

from e2e.proto_client import OpenProto, Proto
from fake_server import FakeServer, call, message, turn

QUESTIONS = ("exec_approval_request", "apply_patch_approval_request")
ENDS = ("task_complete", "turn_aborted")
ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "May I?"}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Where no sandboxed command may write."""
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


class Start(Protocol):
    """Starts an engine that asks by this policy, and waits until it is ready."""

    def __call__(self, policy: str, mode: str = "workspace-write", *args: str) -> Proto: ...


@pytest.fixture
def start(open_proto: OpenProto) -> Start:
    def start_asking(policy: str, mode: str = "workspace-write", *args: str) -> Proto:
        proto = open_proto("-s", mode, "-a", policy, *args)
        proto.until("session_configured")
        return proto

    return start_asking


def run(script: str, call_id: str = "c1", **more: Any) -> dict[str, Any]:
    return call("exec_command", {"cmd": script, "login": False, **more}, call_id)


def patch(path: Path | str, call_id: str = "p1") -> dict[str, Any]:
    text = f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n"
    return call("apply_patch", {"input": text}, call_id)


def go(proto: Proto, server: FakeServer, items: list[Any], *decisions: Any, sub_id: str = "s1") -> list[dict[str, Any]]:
    """One turn with these calls; each question gets the next decision. All messages of the turn."""
    server.script(*(turn(item) for item in items), turn(message("done")))
    proto.say(sub_id, "go")
    seen: list[dict[str, Any]] = []
    left = list(decisions)
    while True:
        seen += [event["msg"] for event in proto.until(*QUESTIONS, *ENDS)]
        if seen[-1]["type"] in ENDS:
            assert left == []
            return seen
        kind = "exec_approval" if seen[-1]["type"] == "exec_approval_request" else "patch_approval"
        proto.send(f"{sub_id}-{len(left)}", kind, id=seen[-1]["call_id"], decision=left.pop(0))


def kinds(seen: list[dict[str, Any]], *wanted: str) -> list[str]:
    return [msg["type"] for msg in seen if msg["type"] in wanted]


def test_allowed_denied_and_for_the_session(start: Start, server: FakeServer, workspace: Path) -> None:
    proto = start("untrusted")
    go(proto, server, [run("echo a >> log")], "approved")
    go(proto, server, [run("echo a >> log")], "denied", sub_id="s2")
    go(proto, server, [run("echo a >> log")], "approved_for_session", sub_id="s3")
    go(proto, server, [run("echo a >> log")], sub_id="s4")
    assert (workspace / "log").read_text() == "a\n" * 3


def test_an_escalated_command_writes_outside_only_after_a_yes(start: Start, server: FakeServer, outside: Path) -> None:
    proto = start("on-request")
    go(proto, server, [run(f"touch {outside}/no", **ESCALATED)], "denied")
    go(proto, server, [run(f"touch {outside}/inside")], sub_id="s2")
    assert list(outside.iterdir()) == []
    go(proto, server, [run(f"touch {outside}/yes", **ESCALATED)], "approved", sub_id="s3")
    assert [path.name for path in outside.iterdir()] == ["yes"]


@pytest.mark.parametrize("answer", ["word", "object"])
def test_an_amendment_holds_in_later_sessions_until_it_is_revoked(
    start: Start,
    server: FakeServer,
    outside: Path,
    home: Path,
    spindle_cmd: list[str],
    environment: dict[str, str],
    answer: str,
) -> None:
    prefix = ["touch", f"{outside}/x"]
    amendment = {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": prefix}}
    decision: Any = amendment if answer == "object" else "approved_execpolicy_amendment"
    proto = start("on-request")
    seen = go(proto, server, [run(f"touch {outside}/x", **ESCALATED, prefix_rule=prefix)], decision)
    (question,) = [msg for msg in seen if msg["type"] in QUESTIONS]
    assert question["proposed_execpolicy_amendment"] == prefix and amendment in question["available_decisions"]
    assert (outside / "x").exists()
    rules = home / "rules" / "default.rules"
    assert rules.read_text() == f'prefix_rule(pattern=["touch", "{outside}/x"], decision="allow")\n'
    assert rules.stat().st_mode & 0o777 == 0o600
    assert proto.close() == 0

    (outside / "x").unlink()
    later = start("untrusted")
    go(later, server, [run(f"touch {outside}/x")])
    assert (outside / "x").exists()
    assert later.close() == 0

    def grants(*words: str) -> str:
        done = subprocess.run(
            [*spindle_cmd, "grants", *words], env=environment, capture_output=True, text=True, timeout=30, check=True
        )
        return done.stdout

    (line,) = grants("--json").splitlines()
    assert json.loads(line)["scope"] == {"type": "prefix", "prefix": prefix}
    grant_id = grants().split()[0]
    assert grant_id in grants("revoke", grant_id)
    assert (grants(), rules.read_text()) == ("", "")
    (outside / "x").unlink()
    last = start("untrusted")
    go(last, server, [run(f"touch {outside}/x")], "denied")
    assert not (outside / "x").exists()


def test_what_the_sandbox_stopped_runs_again_outside_only_after_a_yes(
    start: Start, server: FakeServer, outside: Path
) -> None:
    proto = start("on-failure")
    seen = go(proto, server, [run(f"touch {outside}/no")], "denied")
    shown = ("exec_command_begin", "exec_command_end", *QUESTIONS)
    assert kinds(seen, *shown) == ["exec_command_begin", "exec_command_end", "exec_approval_request"]
    assert list(outside.iterdir()) == []
    seen = go(proto, server, [run(f"touch {outside}/yes")], "approved", sub_id="s2")
    once = ["exec_command_begin", "exec_command_end"]
    assert kinds(seen, *shown) == [*once, "exec_approval_request", *once]
    assert [path.name for path in outside.iterdir()] == ["yes"]


@pytest.mark.parametrize("policy", ["never", "on-request"])
def test_under_other_policies_nothing_is_tried_outside(
    start: Start, server: FakeServer, outside: Path, policy: str
) -> None:
    proto = start(policy)
    seen = go(proto, server, [run(f"touch {outside}/x")])
    assert kinds(seen, "exec_command_begin") == ["exec_command_begin"] and list(outside.iterdir()) == []


def test_patches_are_asked_about_and_remembered_file_by_file(
    start: Start, server: FakeServer, workspace: Path, outside: Path
) -> None:
    proto = start("on-request")
    seen = go(proto, server, [patch("in.txt", "p0"), patch(outside / "a", "p1")], "denied")
    assert (workspace / "in.txt").exists() and list(outside.iterdir()) == []
    assert [msg["auto_approved"] for msg in seen if msg["type"] == "patch_apply_begin"] == [True]
    go(proto, server, [patch(outside / "a", "p2")], "approved_for_session", sub_id="s2")
    go(proto, server, [patch(outside / "a", "p3"), patch(outside / "b", "p4")], "denied", sub_id="s3")
    assert [path.name for path in outside.iterdir()] == ["a"]


def test_an_abort_stops_the_turn_and_the_model_is_not_asked_again(
    start: Start, server: FakeServer, workspace: Path
) -> None:
    proto = start("untrusted")
    server.script(turn(run("touch x")))
    proto.say("s1", "go")
    proto.until("exec_approval_request")
    proto.send("s1-no", "exec_approval", id="s1", decision="abort")
    assert proto.until(*ENDS)[-1]["msg"] == {"type": "turn_aborted", "turn_id": "s1", "reason": "interrupted"}
    assert len(server.requests) == 1 and not (workspace / "x").exists()


@pytest.mark.parametrize("how", ["end of input", "shutdown", "SIGTERM"])
def test_nothing_hangs_on_a_question_that_nobody_will_answer(
    start: Start, server: FakeServer, workspace: Path, how: str
) -> None:
    proto = start("untrusted")
    server.script(turn(run("touch x")))
    proto.say("s1", "go")
    proto.until("exec_approval_request")
    began = time.monotonic()
    if how == "shutdown":
        proto.send("bye", "shutdown")
    elif how == "SIGTERM":
        proto.process.send_signal(signal.SIGTERM)
    else:
        assert proto.process.stdin is not None
        proto.process.stdin.close()
    events = proto.until("shutdown_complete")
    assert kinds([event["msg"] for event in events], *ENDS) == ["turn_aborted"]
    assert proto.process.wait(10) == (128 + signal.SIGTERM if how == "SIGTERM" else 0)
    assert time.monotonic() - began < 10 and not (workspace / "x").exists()
    proto.close()


def test_a_thread_that_was_killed_over_a_question_goes_on_without_it(
    start: Start, server: FakeServer, workspace: Path
) -> None:
    proto = start("untrusted")
    server.script(turn(run("touch x")))
    proto.say("s1", "go")
    proto.until("exec_approval_request")
    proto.process.kill()
    proto.process.wait(10)
    proto.close()

    again = start("untrusted")
    (rollout,) = (workspace.parent / "home" / "sessions").rglob("*.jsonl")
    thread = json.loads(rollout.read_text().splitlines()[0])["payload"]["id"]
    again.send("cfg", "configure_session", resume_id=thread)
    again.until("session_configured", sub_id="cfg")
    again.send("old", "exec_approval", id="c1", decision="approved")
    again.until("warning", sub_id="old")
    server.script(turn(message("fine")))
    again.say("s2", "and now?")
    assert again.until(*ENDS, sub_id="s2")[-1]["msg"]["type"] == "task_complete"
    sent = server.requests[-1].json["input"]
    assert [item["output"] for item in sent if item["type"] == "function_call_output"] == ["aborted"]
    assert not (workspace / "x").exists()


def test_what_was_granted_for_a_session_ends_with_it(start: Start, server: FakeServer, workspace: Path) -> None:
    proto = start("untrusted")
    go(proto, server, [run("echo a >> log")], "approved_for_session")
    proto.send("path", "get_path")
    path = proto.until("conversation_path")[-1]["msg"]["path"]
    proto.send("cfg", "configure_session", resume_path=path)
    proto.until("session_configured", sub_id="cfg")
    go(proto, server, [run("echo a >> log", "c2")], "denied", sub_id="s2")
    assert (workspace / "log").read_text() == "a\n"


def test_exec_asks_nobody_whatever_the_configuration_says(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path, home: Path, outside: Path
) -> None:
    config = home / "config.toml"
    config.write_text('approval_policy = "untrusted"\n' + config.read_text())
    script = [
        run("touch x", "c1"),
        run(f"touch {outside}/x", "c2", **ESCALATED),
        run("rm -rf .", "c3"),
        run("mkdir -p build && rm -rf build", "c4"),
    ]
    for more in ([], ["-c", "approval_policy=on-request"], ["-a", "on-failure"], ["--full-auto"]):
        server.script(*(turn(item) for item in script), turn(message("done")))
        command = [*spindle_cmd, "exec", "-s", "workspace-write", *more, "go"]
        done = subprocess.run(
            command, cwd=workspace, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=30
        )
        assert done.returncode == 0, done.stderr
        outputs = {i["call_id"]: i["output"] for i in server.requests[-1].json["input"] if "output" in i}
        assert "exited with code 0" in outputs["c1"]
        assert outputs["c2"].startswith("approval policy is Never; reject command")
        assert "it would delete the whole workspace; name the files or folders" in outputs["c3"]
        assert "exited with code 0" in outputs["c4"]
    assert (workspace / "x").exists() and list(outside.iterdir()) == []


@pytest.mark.parametrize("flags", [[], ["--ignore-rules"], ["--disable", "exec_policy"]])
def test_rules_hold_in_exec_unless_it_is_told_to_ignore_them(
    spindle_cmd: list[str],
    environment: dict[str, str],
    server: FakeServer,
    workspace: Path,
    home: Path,
    flags: list[str],
) -> None:
    (home / "rules").mkdir()
    (home / "rules" / "mine.rules").write_text('prefix_rule(pattern=["touch"], decision="forbidden")\n')
    server.script(turn(run("touch x")), turn(message("done")))
    command = [*spindle_cmd, "exec", "-s", "workspace-write", *flags, "go"]
    subprocess.run(command, cwd=workspace, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert (workspace / "x").exists() == bool(flags)


def test_the_bypass_flag_warns_and_is_recorded(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path, home: Path
) -> None:
    def contexts(*words: str) -> tuple[str, list[dict[str, Any]]]:
        server.script(turn(message("done")))
        done = subprocess.run(
            [*spindle_cmd, *words], cwd=workspace, env=environment, stdin=subprocess.DEVNULL, capture_output=True
        )
        assert done.returncode == 0, done.stderr
        newest = max((home / "sessions").rglob("*.jsonl"))
        lines = [json.loads(line) for line in newest.read_text().splitlines()]
        return done.stderr.decode(), [line["payload"] for line in lines if line["type"] == "turn_context"]

    warned, (context,) = contexts("exec", "--json", "--yolo", "go")
    assert "warning: no sandbox and no approvals" in warned and context["spindle"]["bypass"] is True
    silent, (context,) = contexts("exec", "--json", "-s", "danger-full-access", "go")
    assert "no approvals" not in silent and "bypass" not in context.get("spindle", {})


def test_the_approval_on_the_protocol_page_happens(start: Start, server: FakeServer, workspace: Path) -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "protocol.md").read_text()
    example = page.split("## Approvals\n", 1)[1].split("```\n", 1)[1].split("```", 1)[0]
    wanted = re.findall(r'"msg":\{"type":"(\w+)"', example)
    (answer,) = re.findall(r"→ (.*)", example)
    server.script(turn(call("exec_command", {"cmd": "touch made"}, "c1")), turn(message("done")))
    proto = start("untrusted")
    proto.say("1", "go")
    seen = [event["msg"] for event in proto.until("exec_approval_request")][-1:]
    proto.write(answer)
    seen += [event["msg"] for event in proto.until("exec_command_begin")]
    assert [msg["type"] for msg in seen] == wanted
    assert seen[1]["grant"]["id"] == "grant-1" and seen[1]["grant"]["effect"] == "run_in_sandbox"
    proto.until(*ENDS)
    assert (workspace / "made").exists()
