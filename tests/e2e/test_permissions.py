"""Permission profiles through the installed command: the shell, every file tool, patches, documents, rules, resume."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, call, custom_call, message, turn

PROFILE = """
[permissions.mine]
description = "no secrets"
[permissions.mine.filesystem]
":root" = "read"
":workspace_roots" = { "." = "write", "docs" = "read", "**/.env" = "deny", "vault" = "deny", "vault/open" = "write" }
"""
JIT = ["-c", "spindle.jit_tools=true"]


class Agent:
    def __init__(self, command: list[str], env: dict[str, str], workspace: Path, server: FakeServer) -> None:
        self.command, self.env, self.workspace, self.server = command, env, workspace, server

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, *words],
            cwd=self.workspace,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def outputs(self) -> list[str]:
        items = self.server.requests[-1].json["input"]
        return [_text(item["output"]) for item in items if item["type"].endswith("_call_output")]


def _text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output)


@pytest.fixture
def agent(
    spindle_cmd: list[str], environment: dict[str, str], home: Path, workspace: Path, server: FakeServer
) -> Agent:
    """A user whose profile `mine` is in force, in a workspace with secrets."""
    config = home / "config.toml"
    config.write_text(f'default_permissions = "mine"\n{config.read_text()}{PROFILE}')
    (workspace / "docs").mkdir()
    (workspace / "vault" / "open").mkdir(parents=True)
    for name in (".env", "vault/key", "docs/.env"):
        (workspace / name).write_text("CANARY\n")
    (workspace / "plain.txt").write_text("plain\n")
    (workspace / "link.txt").symlink_to(".env")
    os.link(workspace / "vault/key", workspace / "twin.txt")
    return Agent(spindle_cmd, environment, workspace, server)


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def test_commands_and_every_file_tool_keep_to_the_profile(agent: Agent, workspace: Path) -> None:
    agent.server.script(
        turn(
            call("shell_command", {"command": "cat .env vault/key link.txt twin.txt; cat plain.txt; touch new"}, "c1")
        ),
        turn(call("read_file", {"file_path": f"{workspace}/.env"}, "c2")),
        turn(call("read_file", {"file_path": f"{workspace}/link.txt"}, "c3")),
        turn(call("read_file", {"file_path": f"{workspace}/twin.txt"}, "c4")),
        turn(call("grep_files", {"pattern": "CANARY|plain", "path": str(workspace)}, "c5")),
        turn(call("list_dir", {"dir_path": f"{workspace}/vault"}, "c6")),
        turn(call("view_image", {"path": f"{workspace}/vault/key"}, "c7")),
        turn(custom_call("apply_patch", patch("*** Update File: .env", "@@", "-CANARY", "+x"), "c8")),
        turn(custom_call("apply_patch", patch("*** Add File: vault/more", "+x"), "c9")),
        turn(custom_call("apply_patch", patch("*** Add File: docs/page", "+x"), "c10")),
        turn(custom_call("apply_patch", patch("*** Add File: vault/open/page", "+x"), "c11")),
        turn(message("done")),
    )
    done = agent("exec", *JIT, "look around")
    assert done.returncode == 0, done.stderr
    assert "sandbox: workspace-write [workdir] (profile mine)" in done.stderr
    outputs = agent.outputs()
    assert len(outputs) == 11 and "CANARY" not in "".join(outputs)
    assert "plain" in outputs[0] and "Permission denied" in outputs[0]
    assert all("denied by the user's settings" in text for text in (*outputs[1:4], outputs[5])), outputs
    assert outputs[4] == f"{workspace}/plain.txt"
    assert (workspace / "new").exists() and (workspace / "vault/open/page").read_text() == "x\n"
    assert not (workspace / "vault/more").exists() and not (workspace / "docs/page").exists()
    assert (workspace / ".env").read_text() == "CANARY\n"


def test_the_model_is_told_what_the_profile_says_and_the_record_keeps_it(agent: Agent, home: Path) -> None:
    agent.server.script(turn(message("one")), turn(message("two")))
    agent("exec", "hi")
    agent("exec", "resume", "--last", "again")
    first, second = (request.json["input"] for request in agent.server.requests)
    told = [item["content"][0]["text"] for item in first if "<permissions instructions>" in json.dumps(item)]
    assert len(told) == 1
    assert "profile `mine`" in told[0] and "- closed: `:workspace_roots/**/.env`, `:workspace_roots/vault`" in told[0]
    # After resume nothing has changed, so nothing is told again.
    assert second[: len(first)] == first and "<permissions" not in json.dumps(second[len(first) :])
    (record,) = home.glob("sessions/*/*/*/rollout-*.jsonl")
    contexts = [json.loads(line)["payload"] for line in record.read_text().splitlines() if '"turn_context"' in line]
    assert {context["sandbox_policy"]["permissions"]["name"] for context in contexts} == {"mine"}


def test_a_rule_that_lets_a_command_out_does_not_open_what_is_denied(agent: Agent, home: Path, tmp_path: Path) -> None:
    (home / "rules").mkdir()
    (home / "rules" / "default.rules").write_text('prefix_rule(pattern=["cat"])\nprefix_rule(pattern=["touch"])\n')
    agent.server.script(
        turn(call("shell_command", {"command": "cat .env vault/key plain.txt"}, "c1")),
        turn(call("shell_command", {"command": f"touch {tmp_path}/outside docs/outside"}, "c2")),
        turn(message("done")),
    )
    assert agent("exec", "look").returncode == 0
    assert "CANARY" not in "".join(agent.outputs()) and "plain" in agent.outputs()[0]
    assert (tmp_path / "outside").exists() and (agent.workspace / "docs/outside").exists()


def test_a_document_that_leads_to_something_denied_is_left_out(agent: Agent, workspace: Path) -> None:
    (workspace / "AGENTS.md").symlink_to("vault/key")
    agent.server.script(turn(message("done")))
    done = agent("exec", "hi")
    assert "CANARY" not in json.dumps(agent.server.requests[0].json) and done.returncode == 0
    assert "AGENTS.md is left out" in done.stderr


def test_a_mode_on_the_command_line_takes_the_place_of_the_profile_and_says_so(agent: Agent) -> None:
    agent.server.script(turn(call("shell_command", {"command": "cat .env"}, "c1")), turn(message("done")))
    done = agent("exec", "-s", "read-only", "hi")
    assert "CANARY" in agent.outputs()[0]
    assert "the permission profile 'mine' is not in use because sandbox_mode is set by command line" in done.stderr


def test_the_search_finds_its_program_where_a_profile_shows_little(agent: Agent, home: Path, workspace: Path) -> None:
    config = home / "config.toml"
    config.write_text(config.read_text().replace('":root" = "read"', '":minimal" = "read"'))
    agent.server.script(
        turn(call("grep_files", {"pattern": "CANARY|plain", "path": str(workspace)}, "c1")),
        turn(call("read_file", {"file_path": f"{home}/config.toml"}, "c2")),
        turn(call("shell_command", {"command": f"cat plain.txt {home}/config.toml"}, "c3")),
        turn(message("done")),
    )
    agent("exec", *JIT, "look")
    found, read, shown = agent.outputs()
    assert found == f"{workspace}/plain.txt" and "denied by the user's settings" in read
    assert "plain" in shown and "No such file" in shown and "base_url" not in shown


# ---- spindle sandbox -------------------------------------------------------------------------------


def test_a_command_runs_under_a_profile_by_name(agent: Agent) -> None:
    done = agent("sandbox", "-P", "mine", "--", "sh", "-c", "cat .env; cat plain.txt; touch made")
    assert (done.stdout, "CANARY" in done.stderr) == ("plain\n", False)
    assert (agent.workspace / "made").exists()
    assert agent("sandbox", "-P", ":read-only", "--", "cat", ".env").stdout == "CANARY\n"
    assert agent("sandbox", "--", "cat", ".env").returncode == 1  # the default profile
    refused = agent("sandbox", "-P", ":read-only", "--", "touch", "x")
    assert refused.returncode == 1 and not (agent.workspace / "x").exists()


def test_an_unknown_profile_names_the_known_ones(agent: Agent) -> None:
    done = agent("sandbox", "-P", "nope", "--", "true")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: command line: there is no permission profile 'nope'; use one of :read-only, :workspace, "
        ":danger-full-access, mine, or define [permissions.nope]\n"
    )


def test_a_profile_and_a_mode_together_are_a_mistake(agent: Agent) -> None:
    done = agent("sandbox", "-P", "mine", "--mode", "read-only", "--", "true")
    assert done.returncode == 2 and "give one of them" in done.stderr


# ---- keys without effect ---------------------------------------------------------------------------


def test_doctor_and_strict_config_name_keys_without_effect_once(agent: Agent, home: Path) -> None:
    config = home / "config.toml"
    config.write_text(config.read_text() + "[analytics]\nenabled = false\n[notice]\nhide_x = true\n")
    agent.server.script(turn(message("one")), turn(message("two")))
    examined = agent("doctor").stdout
    assert examined.count("keys without effect in Spindle: analytics, notice") == 1
    assert "(permission profile mine)" in examined
    assert "have no effect" not in agent("exec", "hi").stderr
    strict = agent("exec", "--strict-config", "hi")
    assert (
        strict.returncode == 0 and strict.stderr.count("these keys have no effect in Spindle: analytics, notice") == 1
    )
