"""`spindle hooks`, and what the command line shows of hooks that run."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from fake_server import FakeServer, call, message, turn
from installed import Spindle

GUARD = "echo not today >&2; exit 2"
HOOKS = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": GUARD}]}]}


@pytest.fixture
def run(spindle: Spindle, workspace: Path, home: Path) -> Spindle:
    """The command, in a trusted workspace."""
    config = home / "config.toml"
    config.write_text(f'{config.read_text()}\n[projects."{workspace}"]\ntrust_level = "trusted"\n')
    return spindle


@pytest.fixture
def key(workspace: Path) -> str:
    """The project has one hook; its key."""
    path = workspace / ".codex/hooks.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"hooks": HOOKS}))
    return f"{path}:pre_tool_use:0:0"


def test_without_hooks_there_is_nothing_to_list(run: Spindle) -> None:
    done = run("hooks")
    assert (done.code, done.out, done.err) == (0, "", "there are no hooks here\n")


def test_hooks_of_a_project_are_shown_agreed_to_and_taken_back(run: Spindle, key: str) -> None:
    def listed() -> list[str]:
        return run("hooks", "list").out.splitlines()

    shown = [key, "  does not run: you have not agreed to it", f"  PreToolUse (Bash): {GUARD}"]
    assert listed() == shown
    done = run("hooks", "trust", key)
    assert done.out == f"runs from now on: {key}: {GUARD}\n"
    assert listed()[1] == "  runs, inside the sandbox of the turn"
    assert "nothing to do" in run("hooks", "trust").err
    assert run("hooks", "distrust").out == f"no longer runs: {key}: {GUARD}\n"
    assert listed() == shown
    done = run("hooks", "trust", "other")
    assert done.code == 1 and "there is no hook 'other' of this project" in done.err
    assert run("hooks", "frobnicate").code == 2


def test_where_no_hook_waits_there_is_nothing_to_agree_to(run: Spindle, key: str, workspace: Path, home: Path) -> None:
    config = home / "config.toml"
    config.write_text(config.read_text().replace('trust_level = "trusted"', 'trust_level = "untrusted"'))
    done = run("hooks", "trust")
    assert done.code == 1 and "no hooks that wait for you" in done.err
    assert f"{workspace} is not a trusted project" in done.err


def test_hooks_can_be_listed_for_programs(run: Spindle, key: str) -> None:
    [line] = run("hooks", "--json").out.splitlines()
    shown = json.loads(line)
    assert (shown["key"], shown["event"], shown["trust"]) == (key, "PreToolUse", "untrusted")


def test_the_doctor_names_hooks_that_run_outside(run: Spindle, home: Path) -> None:
    handler = {"type": "command", "command": "send-mail", "sandbox": False}
    (home / "hooks.json").write_text(json.dumps({"hooks": {"Stop": [{"hooks": [handler]}]}}))
    checks = json.loads(run("doctor", "--json").out)["checks"]
    [check] = [check for check in checks if check["name"] == "hook"]
    assert check["status"] == "warn" and "OUTSIDE of the sandbox" in check["detail"] and "send-mail" in check["detail"]


@pytest.mark.parametrize("flag", [[], ["--json"]])
def test_exec_shows_a_line_for_a_hook_and_json_events_show_none(
    run: Spindle, server: FakeServer, key: str, flag: list[str]
) -> None:
    server.script(turn(call("exec_command", {"cmd": "true"}, "c1")), turn(message("bye")))
    done = run("exec", "--dangerously-bypass-hook-trust", *flag, "go")
    assert done.code == 0
    assert server.requests[-1].json["input"][-1]["output"].endswith("a PreToolUse hook blocks it: not today")
    if flag:
        assert "hook" not in {json.loads(line)["type"].split(".")[0] for line in done.out.splitlines()}
        assert "not today" not in done.out
    else:
        assert "hook PreToolUse blocked\n  not today\n" in done.err


def test_a_run_without_hooks_loads_nothing_of_them(run: Spindle, environment: dict[str, str], tmp_path: Path) -> None:
    environment["PYTHONPROFILEIMPORTTIME"] = "1"
    loaded = run("exec", "hi").err
    assert "spindle.core.turn\n" in loaded
    absent = {
        *("features.hooks", "features.hooks.session_hooks", "features.hooks.hook_runner", "features.notify"),
        *("policy.hook_answers", "protocol.hook_records", "config.hook_files", "config.hook_consent", "config.seen"),
    }
    assert {module for module in absent if f"spindle.{module}\n" in loaded} == set()
    assert {module for module in absent if not find_spec(f"spindle.{module}")} == set(), "a name that nothing has"
