"""The one-shot shell tools, from the call to the text the model reads."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from spindle.context.truncate import Truncation
from spindle.errors import Rejected, ToolError
from spindle.protocol.events import ExecCommandBegin, ExecCommandEnd, ExecCommandOutputDelta
from spindle.protocol.settings import SandboxPolicy
from spindle.tools import specs
from tools.bench import Bench

SHELL, SHELL_COMMAND = specs.shell(), specs.shell_command()


def test_the_specifications_list_exactly_the_known_parameters() -> None:
    shared = ["justification", "prefix_rule", "sandbox_permissions", "timeout_ms", "workdir"]
    assert sorted(SHELL.spec()["parameters"]["properties"]) == sorted(["command", *shared])
    assert sorted(SHELL_COMMAND.spec()["parameters"]["properties"]) == sorted(["command", "login", *shared])
    assert SHELL.spec()["parameters"]["required"] == SHELL_COMMAND.spec()["parameters"]["required"] == ["command"]
    assert "prefix_rule" not in specs.shell(request_rule=False).spec()["parameters"]["properties"]


async def test_a_script_answers_in_the_text_form(bench: Bench) -> None:
    output = await bench.run(SHELL_COMMAND, {"command": "echo out; echo err >&2; exit 3"})
    assert re.fullmatch(r"Exit code: 3\nWall time: \d+\.\d seconds\nOutput:\nout\nerr\n", output), output


async def test_an_argument_list_is_executed_as_it_stands(bench: Bench) -> None:
    output = await bench.run(SHELL, {"command": ["printf", "%s|", "a b", "$HOME"]})
    assert output.endswith("Output:\na b|$HOME|")
    (begin,) = bench.of(ExecCommandBegin)
    assert (begin.command, begin.source, begin.process_id) == (["printf", "%s|", "a b", "$HOME"], "agent", None)


async def test_a_string_is_run_by_bash(bench: Bench) -> None:
    assert (await bench.run(SHELL, {"command": "echo $((1+1))"})).endswith("Output:\n2\n")
    assert bench.asked[0]["argv"] == ["bash", "-lc", "echo $((1+1))"]


async def test_without_the_freeform_patch_tool_shell_answers_in_json(bench: Bench) -> None:
    bench.freeform = False
    answer = json.loads(await bench.run(SHELL, {"command": ["sh", "-c", "echo x; exit 2"]}))
    assert 0 <= answer["metadata"].pop("duration_seconds") < 30
    assert answer == {"output": "x\n", "metadata": {"exit_code": 2}}
    assert (await bench.run(SHELL_COMMAND, {"command": "echo x"})).startswith("Exit code: 0\n")


@pytest.mark.parametrize("name", ["timeout_ms", "timeout"])
async def test_a_command_that_takes_too_long_is_killed(bench: Bench, name: str) -> None:
    output = await bench.run(SHELL_COMMAND, {"command": "echo on; sleep 60", name: "300"})
    found = re.fullmatch(
        r"Exit code: 124\nWall time: \d+\.\d seconds\nOutput:\ncommand timed out after (\d+) milliseconds\non\n", output
    )
    assert found, output
    assert 300 <= int(found[1]) < 30_000
    (end,) = bench.of(ExecCommandEnd)
    assert (end.exit_code, end.aggregated_output) == (124, "on\n")


@pytest.mark.parametrize(
    ("freeform", "shape"),
    [
        (
            True,
            "Exit code: 0\nWall time: T seconds\nTotal output lines: 1000\nOutput:\n1\n2\n3…3882 chars truncated…\n",
        ),
        (False, '{"output":"Total output lines: 1000\\n\\n1\\n2\\n3…3882 chars truncated…\\n'),
    ],
)
async def test_long_output_says_how_long_it_was(bench: Bench, freeform: bool, shape: str) -> None:
    bench.freeform, bench.truncation = freeform, Truncation(mode="bytes", limit=11)
    output = await bench.run(SHELL, {"command": ["seq", "1000"]})
    without_time = re.sub(r"Wall time: \S+ ", "Wall time: T ", output)
    assert without_time.startswith(shape)


async def test_an_interrupted_command_is_killed_and_its_end_shown(bench: Bench) -> None:
    task = asyncio.create_task(bench.run(SHELL_COMMAND, {"command": "echo on; sleep 60"}))
    while not bench.of(ExecCommandOutputDelta):
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (end,) = bench.of(ExecCommandEnd)
    assert (end.exit_code, end.aggregated_output) == (128 + 15, "on\n")


async def test_a_program_that_does_not_exist_never_ran(bench: Bench) -> None:
    with pytest.raises(ToolError, match=r"^cannot run no-such-program: No such file or directory$"):
        await bench.run(SHELL, {"command": ["no-such-program"]})
    (end,) = bench.of(ExecCommandEnd)
    assert (end.exit_code, end.aggregated_output) == (-1, "cannot run no-such-program: No such file or directory")


async def test_a_refusal_by_policy_is_shown(bench: Bench) -> None:
    bench.refusal = Rejected("approval policy is Never; reject command")
    with pytest.raises(Rejected):
        await bench.run(SHELL, {"command": ["touch", "x"], "sandbox_permissions": "require_escalated"})
    assert bench.kinds() == ["ExecCommandBegin", "ExecCommandEnd"]
    assert bench.asked[0]["escalated"] is True


async def test_commands_run_in_the_sandbox_of_the_thread(bench: Bench, tmp_path: Path) -> None:
    bench.sandbox = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
    output = await bench.run(SHELL_COMMAND, {"command": "echo x > in; echo x > ../out", "workdir": str(bench.folder)})
    assert "Read-only file system" in output
    assert (bench.folder / "in").exists() and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments", [{"command": []}, {"command": None}, {}, {"command": ["x"], "timeout_ms": "soon"}]
)
async def test_bad_arguments_are_told_to_the_model(bench: Bench, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match=r"^failed to parse function arguments: "):
        await bench.run(SHELL, arguments)
