"""Lines that no client should send: each is answered or named, and the program goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.proto_client import OpenProto, Proto
from fake_server import FakeServer, call, message, sends_raw, turn
from installed import Spindle

sys.path.append(str(Path(__file__).parents[2] / "bench"))
from fuzz_lines import command_of, fuzz

DEPTHS = (129, 999, 1_000, 100_000)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.fixture
def proto(open_proto: OpenProto) -> Proto:
    return open_proto()


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deeply_nested_line_is_an_error_and_proto_goes_on(proto: Proto, depth: int) -> None:
    proto.write(nested(depth))
    proto.write(f'{{"id":"mine","op":{{"type":"pin","text":"x","more":{nested(depth)}}}}}')
    said = proto.until("error", sub_id="mine")
    assert [event["id"] for event in said if event["msg"]["type"] == "error"] == ["", "mine"]
    assert "nested" in said[-1]["msg"]["message"]
    proto.send("next", "list_models")
    assert proto.until("list_models_response", sub_id="next")
    assert proto.close() == 0


@pytest.mark.parametrize("depth", DEPTHS)
def test_arguments_a_model_nests_deeply_are_refused_like_any_bad_ones(
    proto: Proto, server: FakeServer, depth: int
) -> None:
    arguments = f'{{"cmd":{nested(depth)}}}'
    server.script(turn(call("exec_command", arguments, "c1")), turn(message("done")))
    proto.say("1", "go")
    events = proto.until("task_complete")
    assert events[-1]["msg"]["last_agent_message"] == "done"
    output = server.turns_asked[1].json["input"][-1]
    assert (output["call_id"], "nested" in output["output"]) == ("c1", True)


@pytest.mark.parametrize("depth", DEPTHS)
def test_an_item_a_model_nests_deeply_does_not_end_the_turn(proto: Proto, server: FakeServer, depth: int) -> None:
    item = f'{{"type":"message","role":"assistant","id":"m","content":[],"more":{nested(depth)}}}'
    frames = [
        '{"type":"response.created","response":{"id":"r"}}',
        f'{{"type":"response.output_item.done","output_index":0,"item":{item}}}',
        f'{{"more":{nested(depth)},"type":"response.output_text.delta","delta":"x"}}',
        nested(depth),
        '{"type":"response.output_item.done","item":{"type":"message","role":"assistant","id":"n",'
        '"content":[{"type":"output_text","text":"done"}]}}',
        '{"type":"response.completed","response":{"id":"r"}}',
    ]
    server.script(sends_raw("".join(f"data: {frame}\n\n" for frame in frames).encode()))
    proto.say("1", "go")
    assert proto.until("task_complete")[-1]["msg"]["last_agent_message"] == "done"
    proto.say("2", "again")
    assert proto.until("task_complete", sub_id="2")[-1]["msg"]["last_agent_message"] == "done"


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deeply_nested_line_of_a_record_is_skipped(
    spindle: Spindle, home: Path, server: FakeServer, depth: int
) -> None:
    assert spindle("exec", "first words").code == 0
    record = next(home.rglob("rollout-*.jsonl"))
    payloads = [
        ("response_item", f'{{"type":"message","role":"user","content":{nested(depth)}}}'),
        ("event_msg", f'{{"type":"token_count","info":{nested(depth)}}}'),
        ("event_msg", nested(depth)),
    ]
    with record.open("a") as file:
        for kind, payload in payloads:
            file.write(f'{{"timestamp":"2026-01-01T00:00:00.000Z","type":"{kind}","payload":{payload}}}\n')
    done = spindle("exec", "resume", "--last", "second words")
    assert (done.code, "Traceback" in done.err) == (0, False), done.err[-500:]
    assert "first words" in server.turns_asked[-1].body.decode()


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deeply_nested_schema_or_setting_is_one_sentence(spindle: Spindle, tmp_path: Path, depth: int) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(f'{{"a":{nested(depth)}}}')
    for args in (["--output-schema", str(schema)], ["-c", f"tools={nested(min(depth, 60_000))}"]):
        done = spindle("exec", *args, "hi")
        *_, last = done.err.splitlines()
        assert done.code == 1 and "Traceback" not in done.err
        assert "nested" in last or "tools" in last, last


def test_a_stdin_that_cannot_be_read_ends_the_program_with_a_sentence(
    spindle_cmd: list[str], workspace: Path, environment: dict[str, str]
) -> None:
    for command in ("proto", "app-server"):
        with (workspace / "writable").open("wb") as no_input:
            done = subprocess.run(
                [*spindle_cmd, command], cwd=workspace, env=environment, stdin=no_input, capture_output=True, timeout=40
            )
        assert (done.returncode, b"stdin cannot be read" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("op", "field"),
    [
        ({"type": "override_turn_context", "cwd": "a\0b"}, "cwd"),
        ({"type": "configure_session", "resume_path": "/x\0"}, "resume_path"),
        ({"type": "user_turn", "items": [{"type": "local_image", "path": "\0"}]}, "items[0].path"),
        ({"type": "list_skills", "cwds": ["/", "\0"]}, "cwds[1]"),
        ({"type": "set_thread_name", "name": "a\0"}, "name"),
        ({"type": "run_user_shell_command", "command": "echo \0"}, "command"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_nul_character_is_named_by_its_field(proto: Proto, op: dict[str, Any], field: str) -> None:
    proto.write(json.dumps({"id": "1", "op": op}))
    said = proto.until("error", sub_id="1")[-1]["msg"]["message"]
    assert f"`{field}` holds a NUL character" in said


def test_a_nul_character_in_words_is_sent_as_it_is(proto: Proto, server: FakeServer) -> None:
    proto.say("1", "a\0b")
    proto.until("task_complete")
    assert server.turns_asked[0].json["input"][-1]["content"][0]["text"] == "a\0b"


def test_names_that_are_too_long_are_no_bugs_of_ours(proto: Proto) -> None:
    long = "/" + "x" * 5000
    for number, op in enumerate(
        (
            {"type": "configure_session", "resume_path": long},
            {"type": "configure_session", "cwd": long},
            {"type": "configure_session"},
            {"type": "list_skills", "cwds": [long]},
            {"type": "user_turn", "items": [{"type": "local_image", "path": long}], "cwd": long},
        )
    ):
        proto.write(json.dumps({"id": str(number), "op": op}))
    proto.send("end", "list_models")
    said = proto.until("list_models_response", sub_id="end")
    assert "internal error" not in json.dumps(said)
    refused = {event["id"] for event in said if event["msg"]["type"] == "error" and long in event["msg"]["message"]}
    assert refused == {"0", "1", "4"}


@pytest.mark.parametrize("kind", ["proto", "app-server"])
def test_a_few_thousand_mutated_lines_change_nothing(spindle_cmd: list[str], kind: str) -> None:
    assert fuzz(spindle_cmd, kind, 3_000, 7, lambda text: None) == []


def test_the_program_to_feed_is_named_from_here_though_it_runs_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "spindle"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert command_of("bin/spindle --profile x") == [str(program), "--profile", "x"]
    for said in ("bin/none", ""):
        with pytest.raises(SystemExit, match=f"there is no program '{said}' to feed"):
            command_of(said)
