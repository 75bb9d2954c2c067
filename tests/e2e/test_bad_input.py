"""Bad input, through the installed command: one sentence that names what is wrong, and the documented exit code."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from e2e.proto_client import Proto
from fake_server import FakeServer, message, refuses, turn
from installed import Done, Spindle


def refused(done: Done, server: FakeServer, *parts: str, code: int = 1) -> None:
    """One sentence on stderr, nothing on stdout, no request, no traceback."""
    err = done.err
    assert (done.code, done.out, server.requests) == (code, "", []), err
    assert "Traceback" not in err
    for part in parts:
        assert part in err, err


def test_broken_toml_is_named_with_file_line_and_text(spindle: Spindle, home: Path, server: FakeServer) -> None:
    (home / "config.toml").write_text('model = "x"\nmodel_provider = [unclosed\n')
    refused(spindle("exec", "hi"), server, f"{home}/config.toml:", "[unclosed")


def test_a_value_of_the_wrong_type_is_named(spindle: Spindle, home: Path, server: FakeServer) -> None:
    with (home / "config.toml").open("a") as file:
        file.write("\n[history]\nmax_bytes = 'many'\n")
    refused(spindle("exec", "hi"), server, f"{home}/config.toml:", "history.max_bytes")


def test_an_unknown_provider_is_named_with_those_that_exist(spindle: Spindle, server: FakeServer) -> None:
    refused(
        spindle("exec", "-c", "model_provider=nowhere", "hi"),
        server,
        "Model provider",
        "nowhere",
        "not found",
        "openai",
    )


def test_a_missing_home_that_was_asked_for_is_named(spindle: Spindle, server: FakeServer, tmp_path: Path) -> None:
    spindle.environment["CODEX_HOME"] = str(tmp_path / "absent")
    refused(spindle("exec", "hi"), server, "CODEX_HOME", str(tmp_path / "absent"))


def test_without_any_config_the_built_in_provider_asks_for_a_key(spindle: Spindle, tmp_path: Path) -> None:
    empty = tmp_path / "empty-home"
    empty.mkdir()
    spindle.environment["CODEX_HOME"] = str(empty)
    done = spindle("exec", "--json", "hi")
    last = json.loads(done.out.splitlines()[-1])
    assert done.code == 1 and last["type"] == "turn.failed"
    assert "OPENAI_API_KEY" in last["error"]["message"] and "login" in last["error"]["message"]


def test_a_missing_key_variable_is_named(spindle: Spindle, server: FakeServer) -> None:
    spindle.environment["FAKE_API_KEY"] = ""
    done = spindle("exec", "--json", "hi")
    last = json.loads(done.out.splitlines()[-1])
    assert (done.code, server.requests) == (1, [])
    assert last["error"]["message"].startswith("Missing environment variable: `FAKE_API_KEY`. It is set, but empty")


def test_a_server_that_is_not_there_is_named_after_the_retries(spindle: Spindle) -> None:
    done = spindle("exec", "--json", "-c", 'model_providers.fake.base_url="http://127.0.0.1:9/v1"', "hi")
    last = json.loads(done.out.splitlines()[-1])
    assert done.code == 1 and last["type"] == "turn.failed"
    assert last["error"]["message"].startswith("Connection failed: ") and "127.0.0.1:9" in last["error"]["message"]


def test_outside_a_repository_the_flag_is_named(spindle: Spindle, server: FakeServer, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    refused(spindle("exec", "-C", str(plain), "hi"), server, "--skip-git-repo-check was not specified. Work in a Git")


@pytest.mark.parametrize("below", ["", "sub"])
def test_a_folder_that_is_merely_named_like_a_repository_is_none(
    below: str, spindle: Spindle, server: FakeServer, tmp_path: Path
) -> None:
    plain = tmp_path / "plain" / below
    plain.mkdir(parents=True)
    (tmp_path / "plain/.git").mkdir()
    refused(spindle("exec", "-C", str(plain), "hi"), server, "--skip-git-repo-check")


def test_an_unreadable_agents_md_is_a_warning_and_the_run_goes_on(
    spindle: Spindle, server: FakeServer, workspace: Path
) -> None:
    (workspace / "AGENTS.md").write_text("rules")
    (workspace / "AGENTS.md").chmod(0)
    if os.access(workspace / "AGENTS.md", os.R_OK):
        # For root every mode is readable; a file of another system's memory is not, even for root.
        (workspace / "AGENTS.md").unlink()
        (workspace / "AGENTS.md").symlink_to("/proc/self/mem")
    server.script(turn(message("fine")))
    done = spindle("exec", "hi")
    assert (done.code, done.out) == (0, "fine\n")
    assert "AGENTS.md" in done.err and "warning" in done.err


def test_a_prompt_of_ten_megabytes_is_refused_with_a_way_out(spindle: Spindle, server: FakeServer) -> None:
    refused(spindle("exec", stdin=b"x" * 10_000_000), server, "1 MiB", "file")


def test_a_prompt_that_is_not_text_is_refused(spindle: Spindle, server: FakeServer) -> None:
    refused(spindle("exec", "-", stdin=b"\xff\xfe\x00"), server, "UTF-8")


def test_no_prompt_at_all_is_refused(spindle: Spindle, server: FakeServer) -> None:
    refused(spindle("exec", stdin=b" \n"), server, "No prompt provided via stdin.")


def test_a_refused_key_is_told_in_the_same_words_by_every_front_end(
    spindle: Spindle, server: FakeServer, spindle_cmd: list[str], workspace: Path, environment: dict[str, str]
) -> None:
    server.otherwise(refuses(401, {"error": {"message": "Incorrect API key"}}))
    text = (
        f"unexpected status 401 Unauthorized: Incorrect API key, url: {server.base_url}/responses. "
        "The key in FAKE_API_KEY (***) was not accepted: set FAKE_API_KEY to a valid key."
    )
    done = spindle("exec", "hi")
    assert (done.code, done.out) == (1, "")
    assert f"ERROR: {text}\n" in done.err
    lines = [json.loads(line) for line in spindle("exec", "--json", "hi").out.splitlines()]
    assert lines[-2:] == [{"type": "error", "message": text}, {"type": "turn.failed", "error": {"message": text}}]
    client = Proto([*spindle_cmd, "proto"], workspace, environment)
    client.say("1", "hi")
    (error,) = [event["msg"] for event in client.until("task_complete") if event["msg"]["type"] == "error"]
    assert client.close() == 0
    assert (error["message"], error["codex_error_info"]) == (text, "unauthorized")
    assert len(server.turns_asked) == 3


@pytest.mark.parametrize("content", ["{not json", "[1]", "[" * 100_000, None])
def test_a_schema_that_is_none_is_refused_before_any_request(
    spindle: Spindle, server: FakeServer, workspace: Path, content: str | None
) -> None:
    if content is not None:
        (workspace / "s.json").write_text(content)
    refused(spindle("exec", "--output-schema", "s.json", "hi"), server, "s.json")


@pytest.mark.parametrize("prompt", ["", " \n"])
def test_an_empty_prompt_is_refused_before_any_request(spindle: Spindle, server: FakeServer, prompt: str) -> None:
    refused(spindle("exec", prompt), server, "the prompt is empty; nothing was sent")


def test_resume_of_an_unknown_id_names_it(spindle: Spindle, server: FakeServer) -> None:
    missing = "00000000-0000-0000-0000-000000000000"
    refused(
        spindle("exec", "resume", missing, "p"), server, f"no rollout found for thread id {missing}; `spindle threads"
    )


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["exec", "--nope"], "--nope"),
        (["exec", "-s", "everything", "hi"], "everything"),
        (["exec", "-C", "no/such/folder", "hi"], "no/such/folder"),
        (["exec", "one", "two"], "two"),
        (["frobnicate"], "frobnicate"),
        (["exec", "fork"], "fork"),
        (["exec", "--enable", "time_travel", "hi"], "time_travel"),
        (["exec", "--yolo", "--full-auto", "hi"], "--full-auto"),
    ],
)
def test_bad_arguments_are_exit_code_two(spindle: Spindle, server: FakeServer, args: list[str], part: str) -> None:
    refused(spindle(*args), server, part, code=2)


def test_a_full_disk_costs_the_record_and_not_the_turn(spindle: Spindle, server: FakeServer, home: Path) -> None:
    (home / "sessions").write_text("a file where the folder should be")
    server.script(turn(message("fine")))
    done = spindle("exec", "hi")
    assert (done.code, done.out) == (0, "fine\n")
    assert "not being recorded" in done.err


def test_a_closed_pipe_ends_the_run_quietly(spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(message("fine")))
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [*spindle.command, "exec", "--json", "hi"],
        cwd=spindle.workspace,
        env=spindle.environment,
        stdin=subprocess.DEVNULL,
        stdout=write_end,
        stderr=subprocess.PIPE,
        timeout=40,
    )
    os.close(write_end)
    assert done.returncode != 0 and b"Traceback" not in done.stderr
