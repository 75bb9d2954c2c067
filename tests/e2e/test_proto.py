"""`spindle proto`: ops in and events out, as lines, through the installed command."""

from __future__ import annotations

import json
import os
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from e2e.proto_client import OpenProto
from fake_server import FakeServer, call, message, turn


@pytest.fixture
def start(open_proto: OpenProto) -> OpenProto:
    """Without a sandbox."""
    return partial(open_proto, "-s", "danger-full-access")


def test_the_first_event_is_the_session_and_the_end_of_input_is_a_shutdown(start: OpenProto, workspace: Path) -> None:
    proto = start()
    (first,) = proto.until("session_configured")
    assert first["id"] == "" and first["msg"]["cwd"] == str(workspace)
    assert proto.close() == 0
    assert proto.events.get(timeout=5)["msg"]["type"] == "shutdown_complete"


def test_with_wait_configure_nothing_happens_before_it(start: OpenProto) -> None:
    proto = start("--wait-configure")
    proto.say("s1", "too early")
    (refused,) = proto.until("error")
    assert refused["id"] == "s1" and "configure_session" in refused["msg"]["message"]
    proto.send("cfg", "configure_session")
    assert proto.until("session_configured")[-1]["id"] == "cfg"


def test_a_turn_has_its_events_in_order_under_one_id_with_the_twins_of_deltas(
    start: OpenProto, server: FakeServer
) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo hi"}, "c1")), turn(message("hello there", deltas=3)))
    proto = start()
    proto.until("session_configured")
    proto.say("s1", "go")
    events = proto.until("task_complete")
    assert {event["id"] for event in events} == {"s1"}
    kinds = [event["msg"]["type"] for event in events]
    order = ["task_started", "user_message", "exec_command_begin", "exec_command_end", "agent_message", "task_complete"]
    places = [kinds.index(kind) for kind in order]
    assert places == sorted(places)
    new = "".join(e["msg"]["delta"] for e in events if e["msg"]["type"] == "agent_message_content_delta")
    old = "".join(e["msg"]["delta"] for e in events if e["msg"]["type"] == "agent_message_delta")
    assert new == old == "hello there"


def test_rubbish_is_answered_and_survived(start: OpenProto, server: FakeServer) -> None:
    proto = start()
    proto.until("session_configured")
    for line, sub_id in (("this is not json", ""), ('{"id": 5}', ""), ('{"id":"u","op":{"type":"no_such_op"}}', "u")):
        proto.write(line)
        assert proto.until("error")[-1]["id"] == sub_id
    proto.write("")
    proto.say("s1", "still there?")
    assert proto.until("task_complete")[-1]["msg"]["last_agent_message"] == "done"


def test_what_was_sent_before_the_end_of_input_is_still_done_and_in_order(start: OpenProto, server: FakeServer) -> None:
    server.script(turn(message("never"), hang_after=0))
    proto = start()
    proto.write("rubbish")
    proto.send("n", "set_thread_name", name="kept")
    proto.send("s", "list_skills")
    proto.say("t", "hello")
    proto.process.stdin.close()
    events = proto.until("shutdown_complete")
    assert proto.close() == 0
    kinds = [(event["id"], event["msg"]["type"]) for event in events]
    assert kinds[:2] == [("", "session_configured"), ("", "error")]
    assert [kind for kind in kinds if kind[0] in ("n", "s")] == [
        ("n", "thread_name_updated"),
        ("s", "list_skills_response"),
    ]
    assert [kind for id, kind in kinds if id == "t" and kind.startswith("t")] == ["task_started", "turn_aborted"]


def test_a_session_that_cannot_be_assembled_lets_go_of_its_thread(
    start: OpenProto, environment: dict[str, str]
) -> None:
    proto = start()
    configured = proto.until("session_configured")[-1]["msg"]
    proto.say("t", "hello")
    proto.until("task_complete")
    broken = {"model_provider": "openai"}
    auth = Path(environment["CODEX_HOME"]) / "auth.json"
    auth.write_text("not JSON")
    proto.send("a", "configure_session", resume_id=configured["session_id"], config=broken)
    assert "auth.json" in proto.until("error", sub_id="a")[-1]["msg"]["message"]
    auth.unlink()
    proto.send("b", "configure_session", resume_id=configured["session_id"])
    assert proto.until("session_configured", "error", sub_id="b")[-1]["msg"]["type"] == "session_configured"


def test_sigterm_shuts_the_engine_down_even_when_nobody_reads(
    spindle_cmd: list[str], workspace: Path, environment: dict[str, str], server: FakeServer
) -> None:
    server.script(turn(message("x" * 300_000, deltas=300)), turn(call("exec_command", {"cmd": "sleep 60"}, "c1")))
    command = [*spindle_cmd, "proto", "-s", "danger-full-access"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=workspace, env=environment, **pipes) as process:
        assert process.stdin is not None
        for sub_id in ("a", "b"):
            op = {"type": "user_turn", "items": [{"type": "text", "text": sub_id}]}
            process.stdin.write(json.dumps({"id": sub_id, "op": op}).encode() + b"\n")
            process.stdin.flush()
            while len(server.requests) < (1 if sub_id == "a" else 2):
                time.sleep(0.02)
            time.sleep(0.3)
        process.terminate()
        assert process.wait(10) == 143
    (rollout,) = Path(environment["CODEX_HOME"]).glob("sessions/*/*/*/*.jsonl")
    last = json.loads(rollout.read_bytes().splitlines()[-1])["payload"]
    assert (last["type"], last["turn_id"], last["reason"]) == ("turn_aborted", "b", "interrupted")


def test_an_engine_that_nobody_listens_to_ends(
    spindle_cmd: list[str], workspace: Path, environment: dict[str, str]
) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*spindle_cmd, "proto"], cwd=workspace, env=environment, **pipes) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b"rubbish\n")
        process.stdin.flush()
        process.wait(10)


def test_a_folder_whose_name_is_no_text_is_no_obstacle(
    spindle_cmd: list[str], workspace: Path, environment: dict[str, str]
) -> None:
    folder = os.fsencode(workspace) + b"/odd\xff"
    os.mkdir(folder)
    done = subprocess.run([*spindle_cmd, "proto"], cwd=folder, env=environment, input=b"", capture_output=True)
    events = [json.loads(line)["msg"] for line in done.stdout.splitlines()]
    assert [event["type"] for event in events] == ["session_configured", "shutdown_complete"], done.stderr
    assert events[0]["cwd"].endswith("/odd?")


def test_a_second_configure_aborts_the_task_and_opens_another_thread(start: OpenProto, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "sleep 60"}, "c1")), turn(message("fresh")))
    proto = start()
    first = proto.until("session_configured")[-1]["msg"]["session_id"]
    proto.say("s1", "P1")
    proto.until("exec_command_begin")
    proto.send("cfg", "configure_session", model="gpt-5.1", sandbox_policy={"mode": "read-only"})
    events = proto.until("session_configured", sub_id="cfg")
    assert [e["msg"]["reason"] for e in events if e["msg"]["type"] == "turn_aborted"] == ["interrupted"]
    second = events[-1]["msg"]
    assert second["session_id"] != first and second["model"] == "gpt-5.1"
    assert second["sandbox_policy"] == {"type": "read-only"}
    proto.say("s2", "P2")
    proto.until("task_complete", sub_id="s2")
    assert "P1" not in json.dumps(server.requests[-1].json["input"])


def test_a_thread_is_resumed_by_id_with_what_was_said(start: OpenProto, server: FakeServer) -> None:
    proto = start()
    thread_id = proto.until("session_configured")[-1]["msg"]["session_id"]
    proto.say("s1", "remember me")
    proto.until("task_complete")
    assert proto.close() == 0
    again = start("--wait-configure")
    again.send("cfg", "configure_session", resume_id=thread_id)
    configured = again.until("session_configured")[-1]["msg"]
    replayed = [event["type"] for event in configured["initial_messages"]]
    assert configured["session_id"] == thread_id
    assert "user_message" in replayed and "agent_message" in replayed


def test_a_session_that_cannot_be_opened_is_an_error_and_the_engine_lives(start: OpenProto) -> None:
    proto = start("--wait-configure")
    proto.send("bad", "configure_session", model_provider="nowhere")
    assert "nowhere" in proto.until("error", sub_id="bad")[-1]["msg"]["message"]
    proto.send("good", "configure_session")
    assert proto.until("session_configured")[-1]["id"] == "good"


def test_the_legacy_interrupt_error_comes_only_when_asked_for(start: OpenProto, server: FakeServer) -> None:
    server.script(*[turn(call("exec_command", {"cmd": "sleep 60"}, "c1"))] * 2)
    for flags, expected in (([], ["turn_aborted"]), (["--legacy-interrupt-error"], ["error", "turn_aborted"])):
        proto = start(*flags)
        proto.until("session_configured")
        proto.say("s1", "P1")
        proto.until("exec_command_begin")
        proto.send("i", "interrupt")
        kinds = [event["msg"]["type"] for event in proto.until("turn_aborted")]
        assert [kind for kind in kinds if kind in ("error", "turn_aborted")] == expected


def test_get_path_and_names_and_models(start: OpenProto, server: FakeServer) -> None:
    proto = start()
    proto.until("session_configured")
    proto.say("s1", "hi")
    proto.until("task_complete")
    proto.send("p", "get_path")
    assert Path(proto.until("conversation_path")[-1]["msg"]["path"]).exists()
    proto.send("n", "set_thread_name", name="my thread")
    assert proto.until("thread_name_updated")[-1]["msg"]["thread_name"] == "my thread"
    proto.send("m", "list_models")
    slugs = [model["slug"] for model in proto.until("list_models_response")[-1]["msg"]["models"]]
    assert "gpt-6.1-sol" in slugs and "gpt-5.2-codex" not in slugs, (
        "models of today's Codex; earlier ones need no mention"
    )


def test_rollback_forgets_the_last_turn(start: OpenProto, server: FakeServer) -> None:
    proto = start()
    proto.until("session_configured")
    proto.say("s1", "KEEP-ME")
    proto.until("task_complete", sub_id="s1")
    proto.say("s2", "DROP-ME")
    proto.until("task_complete", sub_id="s2")
    proto.send("r", "thread_rollback", num_turns=1)
    proto.until("thread_rolled_back")
    proto.say("s3", "NEXT")
    proto.until("task_complete", sub_id="s3")
    sent = json.dumps(server.requests[-1].json["input"])
    assert "KEEP-ME" in sent and "NEXT" in sent and "DROP-ME" not in sent
