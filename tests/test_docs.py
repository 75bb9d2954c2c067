"""What the documentation says is what the program does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fake_server import FakeServer, call, message, turn
from spindle.config.load import load_config
from spindle.frontends.command_table import EXEC, SPINDLE
from spindle.frontends.commands import COMMON
from spindle.protocol import agents, events, questions, tool_servers
from spindle.protocol.ops import OPS
from spindle.workspace.shell import user_shell

REPOSITORY = Path(__file__).parent.parent
PAGES = ["README.md", "CHANGELOG.md", *(f"docs/{path.name}" for path in (REPOSITORY / "docs").glob("*.md"))]
TWINS = {"agent_message_delta", "agent_reasoning_delta"}


def text_of(page: str) -> str:
    return (REPOSITORY / page).read_text()


def first_cells(page: str, heading: str) -> str:
    """The first column of the table below a heading."""
    part = text_of(page).split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return "\n".join(line.split("|")[1] for line in part.splitlines() if line.startswith("| "))


@pytest.mark.parametrize("name", ["config-docs", "cli-docs"])
def test_what_is_generated_is_in_step(name: str) -> None:
    script = REPOSITORY / "scripts" / name
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr or f"run scripts/{name}"


@pytest.mark.parametrize("page", PAGES)
def test_the_configuration_files_that_are_shown_can_be_used(page: str, tmp_path: Path) -> None:
    for block in re.findall(r"```toml\n(.*?)```", text_of(page), re.DOTALL):
        tomllib.loads(block)
        (tmp_path / "config.toml").write_text(block)
        env = {"CODEX_HOME": str(tmp_path)}
        assert load_config(cwd=str(tmp_path), env=env, system_dir=str(tmp_path / "none"), strict=True).warnings == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    folder = (REPOSITORY / page).parent
    for target in re.findall(r"\]\(([^)#]+)", text_of(page)):
        assert target.startswith("https://") or (folder / target).exists(), target


def test_every_option_of_exec_is_in_its_table() -> None:
    shown = set(re.findall(r"--[a-z-]+", first_cells("docs/exec.md", "Options")))
    options = [*COMMON, *EXEC.options, *(option for below in EXEC.commands for option in below.options)]
    real = {name for option in options for name in option.names if name.startswith("--")}
    assert shown == real


def test_commands_that_are_named_exist() -> None:
    for page in PAGES:
        # Only in code: prose may say anything.
        blocks = re.findall(r"```(?:sh)?\n(.*?)```", text_of(page), re.DOTALL)
        code = "\n".join([*blocks, *re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text_of(page))])
        for word in re.findall(r"(?:^|[\s|(])(?:\./run|spindle) ([a-z][a-z-]+)", code):
            assert SPINDLE.find(word) is not None, f"{page}: spindle {word}"


def test_every_operation_and_event_is_on_the_protocol_page() -> None:
    operations = set(re.findall(r"`(\w+)`", first_cells("docs/protocol.md", "Operations")))
    assert operations - {"type"} == set(OPS)
    part = text_of("docs/protocol.md").split("## Events\n", 1)[1]
    shown = set(re.findall(r"`(\w+)`", part)) - {"type"} - TWINS
    named = [kind for module in (events, agents, questions, tool_servers) for kind in vars(module).values()]
    kinds = [kind for kind in named if isinstance(kind, type) and issubclass(kind, events.Msg)]
    real = {str(kind.__struct_config__.tag) for kind in kinds if kind not in (events.Msg, events.UnknownMsg)}
    assert shown == real


def test_the_session_on_the_protocol_page_happens(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path
) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo hello"}, "c1")), turn(message("Hello.")))
    example = text_of("docs/protocol.md").split("a test\nruns it:\n\n```\n", 1)[1].split("```", 1)[0]
    example = example.replace("/bin/bash", user_shell().path)  # the page shows the usual one
    wanted = re.findall(r'← \{"id":"(\w*)","msg":\{"type":"(\w+)"', example)
    process = subprocess.Popen(
        [*spindle_cmd, "proto"], cwd=workspace, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    seen: list[tuple[str, str]] = []
    with process, process.stdin, process.stdout:
        for line in example.splitlines():
            if line.startswith("→ "):
                process.stdin.write(line[2:].encode() + b"\n")
                process.stdin.flush()
                continue
            while (event := json.loads(process.stdout.readline()))["msg"]["type"] == "token_count":
                pass
            seen.append((event["id"], event["msg"]["type"]))
            fields = line.split('"msg":', 1)[1].partition(',"item":')[0]
            for name, value in re.findall(r'"(\w+)":("[^"…]*"|\d+|\[[^]…]*\])(?=[,}]|$)', fields):
                assert event["msg"][name] == json.loads(value), line
        assert process.stdout.read() == b""
    assert (seen, process.returncode) == (wanted, 0)
