"""`spindle exec` as a user meets it: the installed command against a model server on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from fake_server import FakeServer, call, custom_call, message, reasoning, refuses, turn
from installed import Spindle, finish


def last_text(server: FakeServer) -> str:
    return server.requests[-1].json["input"][-1]["content"][-1]["text"]


def test_the_answer_alone_is_on_stdout_and_the_work_on_stderr(spindle: Spindle, server: FakeServer) -> None:
    server.script(
        turn(reasoning("**Looking**"), call("exec_command", {"cmd": "echo noise"}, "c1")), turn(message("final words"))
    )
    run = spindle("exec", "--yolo", "do it")
    assert (run.code, run.out) == (0, "final words\n")
    for part in ("session id: ", "sandbox: danger-full-access", "**Looking**", "noise", "succeeded in ", "tokens used"):
        assert part in run.err


def test_a_call_that_came_to_nothing_is_told_to_people_and_not_to_programs(
    spindle: Spindle, server: FakeServer, workspace: Path
) -> None:
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-not there\n+x\n*** End Patch\n"
    (workspace / "a.txt").write_text("one\n")
    calls = [custom_call("apply_patch", patch, "c1"), call("nosuch", {}, "c2"), call("exec_command", "{bad", "c3")]
    server.script(turn(*calls), turn(message("done")), turn(*calls), turn(message("done")))
    run = spindle("exec", "--yolo", "do it", LC_ALL="C.UTF-8")
    assert run.code == 0
    assert "\n✗ apply_patch failed:\n  apply_patch verification failed: " in run.err and "-not there" not in run.err
    assert "\n✗ nosuch failed:\n  unsupported call: nosuch\n" in run.err and "\n✗ exec_command failed:\n" in run.err
    shown = spindle("exec", "--yolo", "--json", "do it").events
    assert [event["type"] for event in shown] == ["thread.started", "turn.started", "item.completed", "turn.completed"]


def test_control_characters_of_a_command_do_not_reach_the_terminal(spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": r"printf '\033]0;evil\007\033[2Jx'"}, "c1")), turn(message("ok")))
    run = spindle("exec", "--yolo", "--color", "never", "do it")
    assert "\x1b" not in run.err and "\n  x\n" in run.err


def test_prompts_come_from_the_argument_from_stdin_or_from_both(spindle: Spindle, server: FakeServer) -> None:
    spindle("exec", "from the argument")
    assert last_text(server) == "from the argument"
    spindle("exec", stdin="from stdin")
    assert last_text(server) == "from stdin"
    spindle("exec", "-", stdin="from the dash")
    assert last_text(server) == "from the dash"
    spindle("exec", "look:", stdin="piped\n")
    assert last_text(server) == "look:\n\n<stdin>\npiped\n</stdin>"


def test_only_one_newline_at_the_end_of_piped_text_belongs_to_the_block(spindle: Spindle, server: FakeServer) -> None:
    spindle("exec", "look:", stdin="\n\npiped\r\n\n\n")
    assert last_text(server) == "look:\n\n<stdin>\n\n\npiped\r\n\n\n</stdin>"


def test_pictures_before_the_command_do_not_swallow_it(spindle: Spindle, server: FakeServer, workspace: Path) -> None:
    (workspace / "dot.gif").write_bytes(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;")
    assert spindle("-i", "dot.gif", "e", "--json", "look").code == 0
    assert last_text(server) == "look"


def test_an_archived_thread_is_resumed_only_after_it_was_brought_back(spindle: Spindle, server: FakeServer) -> None:
    thread = spindle("exec", "--json", "one").thread_id
    spindle("archive", thread)
    refused = spindle("exec", "--json", "resume", thread, "two")
    assert (refused.code, refused.out) == (1, "")
    assert f"spindle unarchive {thread}" in refused.err
    assert spindle("exec", "--json", "fork", thread, "a branch").code == 0
    spindle("unarchive", thread)
    assert spindle("exec", "--json", "resume", thread, "two").thread_id == thread


def test_the_last_thread_is_the_one_that_was_used_last(spindle: Spindle, server: FakeServer) -> None:
    first = spindle("exec", "--json", "one").thread_id
    spindle("exec", "--json", "two")
    spindle("exec", "--json", "resume", first, "three")
    assert spindle("exec", "--json", "resume", "--last", "four").thread_id == first


def test_one_connection_serves_the_whole_session(spindle: Spindle, server: FakeServer) -> None:
    server.script(*[turn(call("update_plan", {"plan": []}, f"c{n}")) for n in range(5)], turn(message("x")))
    assert spindle("exec", "go").code == 0
    assert len(server.requests) == 6 and {request.connection for request in server.requests} == {0}


def test_a_patch_changes_files_and_shows_as_a_file_change(
    spindle: Spindle, server: FakeServer, workspace: Path
) -> None:
    patch = "*** Begin Patch\n*** Add File: n.txt\n+x\n*** End Patch\n"
    server.script(turn(custom_call("apply_patch", patch, "p1")), turn(message("done")))
    run = spindle("exec", "--json", "-s", "workspace-write", "go")
    changes = [event["item"] for event in run.events if event.get("item", {}).get("type") == "file_change"]
    assert (workspace / "n.txt").read_text() == "x\n"
    assert changes[-1] == {
        "id": "item_0",
        "type": "file_change",
        "changes": [{"path": str(workspace / "n.txt"), "kind": "add"}],
        "status": "completed",
    }


def test_the_last_message_goes_to_a_file_without_a_newline(
    spindle: Spindle, server: FakeServer, workspace: Path
) -> None:
    server.script(turn(message("this one")))
    spindle("exec", "-o", "last.txt", "hi")
    assert (workspace / "last.txt").read_text() == "this one"


def test_resume_and_fork_go_on_with_the_same_history(spindle: Spindle, server: FakeServer) -> None:
    first = spindle("exec", "--json", "P1")
    second = spindle("exec", "--json", "resume", first.thread_id, "P2")
    third = spindle("exec", "--json", "fork", first.thread_id, "P3")
    fourth = spindle("exec", "--json", "resume", "--last", "P4")
    inputs = [request.json["input"] for request in server.requests]
    assert second.thread_id == first.thread_id != third.thread_id == fourth.thread_id
    assert inputs[1][: len(inputs[0])] == inputs[0] and inputs[2][: len(inputs[1])] == inputs[1]
    assert server.requests[2].json["prompt_cache_key"] == third.thread_id


def test_a_fork_keeps_as_many_turns_as_it_is_told(spindle: Spindle, server: FakeServer) -> None:
    thread_id = spindle("exec", "--json", "P1").thread_id
    spindle("exec", "resume", thread_id, "P2")
    assert spindle("exec", "fork", thread_id, "--at", "1", "P3").code == 0
    sent = json.dumps(server.requests[-1].json["input"])
    assert "P1" in sent and "P3" in sent and "P2" not in sent


def test_resume_reads_its_prompt_from_stdin_when_none_is_given(spindle: Spindle, server: FakeServer) -> None:
    first = spindle("exec", "--json", "P1")
    spindle("exec", "--experimental-json", "resume", first.thread_id, stdin="from stdin")
    assert last_text(server) == "from stdin"


def test_threads_can_be_listed_archived_restored_and_deleted(spindle: Spindle, server: FakeServer, home: Path) -> None:
    thread_id = spindle("exec", "--json", "find me later").thread_id
    listed = spindle("threads")
    assert listed.out.startswith(thread_id) and "find me later" in listed.out
    assert spindle("threads", "--find", "later", "--json").events[0]["id"] == thread_id
    assert spindle("archive", thread_id).code == 0
    assert "no threads" in spindle("threads").out and thread_id in spindle("threads", "--archived").out
    assert spindle("unarchive", thread_id).code == 0 and thread_id in spindle("threads").out
    assert spindle("delete", "--force", thread_id).code == 0
    assert list(home.rglob("rollout-*")) == [] and "no threads" in spindle("threads").out


def test_ctrl_c_stops_the_turn_and_the_thread_can_be_resumed(
    spindle: Spindle, spindle_cmd: list[str], server: FakeServer, workspace: Path, environment: dict[str, str]
) -> None:
    server.script(turn(call("exec_command", {"cmd": "sleep 60"}, "c1")), turn(message("fresh")))
    process = subprocess.Popen(
        [*spindle_cmd, "exec", "--json", "--yolo", "hi"],
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    assert b"command_execution" in lines[-1]
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=20)
    assert process.returncode == 1 and b"turn.completed" not in rest and b"Traceback" not in err
    thread_id = json.loads(lines[0])["thread_id"]
    assert spindle("exec", "--json", "--yolo", "resume", thread_id, "go on").code == 0
    kinds = [item["type"] for item in server.requests[-1].json["input"][-4:]]
    assert kinds == ["function_call", "function_call_output", "message", "message"]


def test_sigterm_ends_everything_with_143(
    spindle_cmd: list[str], server: FakeServer, workspace: Path, environment: dict[str, str]
) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo $$ > pid; exec sleep 60"}, "c1")))
    process = subprocess.Popen(
        [*spindle_cmd, "exec", "--json", "--yolo", "hi"],
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 20
    while not (workspace / "pid").exists() or not (workspace / "pid").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int((workspace / "pid").read_text()), 0)


def test_a_run_that_was_told_to_ignore_hangups_survives_one(
    spindle_cmd: list[str], server: FakeServer, workspace: Path, environment: dict[str, str]
) -> None:
    server.script(turn(call("exec_command", {"cmd": "kill -HUP $PPID; sleep 0.3; echo on"}, "c1")), turn(message("ok")))
    done = subprocess.run(
        ["nohup", *spindle_cmd, "exec", "--yolo", "hi"],
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=40,
    )
    assert (done.returncode, done.stdout) == (0, b"ok\n"), done.stderr


def test_prompt_input_shows_the_request_and_sends_nothing(spindle: Spindle, server: FakeServer) -> None:
    run = spindle("debug", "prompt-input", "PROMPT-X")
    body = json.loads(run.out)
    assert run.code == 0 and server.requests == []
    assert body["input"][-1]["content"][0]["text"] == "PROMPT-X" and body["store"] is False


def test_what_debug_shows_is_what_exec_sends(spindle: Spindle, server: FakeServer) -> None:
    shown = json.loads(spindle("debug", "prompt-input", "hi").out)
    spindle("exec", "hi")
    sent = server.requests[0].json
    assert {**shown, "prompt_cache_key": ""} == {**sent, "prompt_cache_key": ""}


def test_the_demo_mends_the_test_and_says_what_is_real(spindle: Spindle) -> None:
    run = spindle("demo", "--fast")
    assert run.code == 0, run.out + run.err
    for part in (
        "practice model",
        "no real model is asked",
        "gpt-5.2-codex is not asked",
        "sandbox: bubblewrap",
        "exited 1 in ",
        "file update",
        "The tests pass now.",
    ):
        assert part in run.out


def test_the_users_notify_program_hears_of_a_completed_turn(
    spindle: Spindle, server: FakeServer, home: Path, workspace: Path, tmp_path: Path
) -> None:
    heard = tmp_path / "heard.json"
    program = tmp_path / "notify.sh"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {heard}.part && mv {heard}.part {heard}\n')
    program.chmod(0o755)
    config = (home / "config.toml").read_text()
    (home / "config.toml").write_text(f'notify = ["{program}"]\n' + config)
    server.script(turn(message("all done")))
    run = spindle("exec", "--json", "hello")
    deadline = time.monotonic() + 10
    while not heard.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    told = json.loads(heard.read_text())
    assert (told.pop("thread-id"), len(told.pop("turn-id"))) == (run.thread_id, 36)
    assert told == {
        "type": "agent-turn-complete",
        "cwd": str(workspace),
        "input-messages": ["hello"],
        "last-assistant-message": "all done",
    }


def test_a_notify_program_that_is_missing_is_a_warning(spindle: Spindle, server: FakeServer) -> None:
    run = spindle("exec", "-c", 'notify=["/no/such/program"]', "hello")
    assert run.code == 0 and "/no/such/program" in run.err


def test_help_names_every_command(spindle: Spindle) -> None:
    run = spindle("--help")
    assert run.code == 0 and all(name in run.out for name in ("exec", "proto", "threads", "apply-patch", "demo"))
    assert "--output-schema" in spindle("exec", "--help").out


def test_a_project_may_not_redirect_the_key(spindle: Spindle, server: FakeServer, workspace: Path) -> None:
    (workspace / ".codex").mkdir()
    (workspace / ".codex/config.toml").write_text(
        '[model_providers.fake]\nname = "evil"\nbase_url = "http://127.0.0.1:1/v1"\n'
    )
    server.script(turn(message("fine")))
    run = spindle("exec", "hi")
    assert (run.code, run.out) == (0, "fine\n") and len(server.requests) == 1


# ---- budgets ---------------------------------------------------------------------------------------


def test_a_used_up_budget_ends_the_run_with_code_1_and_the_thread_goes_on(spindle: Spindle, server: FakeServer) -> None:
    one, two = call("exec_command", {"cmd": "echo one"}, "c1"), call("exec_command", {"cmd": "echo two"}, "c2")
    server.script(turn(one), turn(two), turn(message("resumed")))
    run = spindle("exec", "--yolo", "--json", "--max-requests", "2", "do it")
    text = (
        "Budget reached: max_requests = 2 (2 used) in this turn. Work so far is saved; "
        f"continue with: spindle exec resume {run.thread_id}"
    )
    budget = {"scope": "turn", "limit": "max_requests", "max": 2, "used": 2}
    assert run.code == 1 and len(server.turns_asked) == 2
    assert run.events[-1] == {
        "type": "turn.failed",
        "error": {"message": text, "code": "budget_exceeded", "budget": budget},
    }
    again = spindle("exec", "--yolo", "resume", run.thread_id, "go on")
    assert (again.code, again.out) == (0, "resumed\n")
    assert "two" in json.dumps(server.turns_asked[-1].json["input"])


def test_retries_that_the_server_has_answered_count_as_requests(spindle: Spindle, server: FakeServer) -> None:
    server.otherwise(refuses(500))
    run = spindle("exec", "--yolo", "--max-requests", "2", "do it")
    assert run.code == 1 and len(server.turns_asked) == 2
    assert "Budget reached: max_requests = 2 (2 used) in this turn." in run.err


def test_programs_that_run_at_once_share_the_budget_of_a_day(spindle: Spindle, server: FakeServer) -> None:
    server.otherwise(turn(message("fine"), delay_s=0.2))
    words = ("exec", "--yolo", "--json", "-c", "spindle.budget.day.max_requests=2", "do it")
    runs = [finish(process) for process in [spindle.start(*words) for _ in range(4)]]
    assert sorted(run.code for run in runs) == [0, 0, 1, 1] and len(server.turns_asked) == 2
    budget = {"scope": "day", "limit": "max_requests", "max": 2, "used": 2}
    assert [run.events[-1]["error"]["budget"] for run in runs if run.code] == [budget, budget]


@pytest.mark.parametrize(
    ("flag", "value", "sentence"),
    [
        ("--max-requests", "two", "--max-requests takes an integer of 0 or more, not 'two'"),
        ("--max-tokens", "1.5", "--max-tokens takes an integer of 0 or more, not '1.5'"),
        ("--max-cost", "-1", "--max-cost takes a number of 0 or more, not '-1'"),
    ],
)
def test_a_budget_on_the_command_line_is_a_number(spindle: Spindle, flag: str, value: str, sentence: str) -> None:
    run = spindle("exec", f"{flag}={value}", "do it")
    assert run.code == 2 and sentence in run.err
