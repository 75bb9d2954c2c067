"""exec_command and write_stdin, from the call to the text the model reads and the events people see."""

from __future__ import annotations

import asyncio
import re

import pytest

from spindle.errors import Rejected, SandboxUnavailable, ToolError
from spindle.process import sandbox
from spindle.protocol.events import (
    Duration,
    ExecCommandBegin,
    ExecCommandEnd,
    ExecCommandOutputDelta,
    PatchApplyEnd,
    TerminalInteraction,
    Warning,
)
from spindle.protocol.settings import SandboxPolicy
from spindle.tools import specs
from tools.bench import Bench

EXEC, STDIN = specs.exec_command(), specs.write_stdin()
PATCH = "*** Begin Patch\n*** Add File: n.txt\n+hello\n*** End Patch\n"


def test_the_specification_lists_exactly_the_known_parameters() -> None:
    spec = EXEC.spec()
    names = ["cmd", "justification", "login", "max_output_tokens", "prefix_rule", "sandbox_permissions", "shell", "tty"]
    assert list(spec["parameters"]["properties"]) == [*names, "workdir", "yield_time_ms"]
    assert (spec["parameters"]["required"], spec["strict"]) == (["cmd"], False)
    assert "prefix_rule" not in specs.exec_command(request_rule=False).spec()["parameters"]["properties"]
    spec = STDIN.spec()
    assert list(spec["parameters"]["properties"]) == ["chars", "max_output_tokens", "session_id", "yield_time_ms"]
    assert spec["parameters"]["required"] == ["session_id"]


async def test_a_short_command_answers_in_the_exact_form(bench: Bench) -> None:
    output = await bench.run(EXEC, {"cmd": "echo out; echo err >&2; exit 3"})
    assert re.fullmatch(
        r"Chunk ID: [0-9a-f]{6}\n"
        r"Wall time: \d+\.\d{4} seconds\n"
        r"Process exited with code 3\n"
        r"Original token count: 2\n"
        r"Output:\nout\nerr\n",
        output,
    ), output


async def test_people_see_begin_output_and_end(bench: Bench) -> None:
    await bench.run(EXEC, {"cmd": "cat f.txt", "workdir": "."})
    begin, end = bench.events[0], bench.events[-1]
    assert isinstance(begin, ExecCommandBegin) and isinstance(end, ExecCommandEnd)
    assert begin == ExecCommandBegin(
        call_id="call_1",
        turn_id="turn_1",
        command=["/bin/bash", "-lc", "cat f.txt"],
        cwd=str(bench.folder),
        parsed_cmd=[{"type": "read", "cmd": "cat f.txt", "name": "f.txt", "path": "f.txt"}],
        source="unified_exec_startup",
        process_id=begin.process_id,
    )
    text = "cat: f.txt: No such file or directory\n"
    assert b"".join(delta.chunk for delta in bench.of(ExecCommandOutputDelta)) == text.encode()
    assert end.duration.secs == 0 and end.duration.nanos > 0
    assert end == ExecCommandEnd(
        call_id="call_1",
        turn_id="turn_1",
        command=begin.command,
        cwd=begin.cwd,
        parsed_cmd=begin.parsed_cmd,
        source="unified_exec_startup",
        process_id=begin.process_id,
        stdout=text,
        aggregated_output=text,
        exit_code=1,
        duration=end.duration,
        formatted_output=text,
    )


async def test_a_long_command_becomes_a_session_that_can_be_typed_into(bench: Bench) -> None:
    output = await bench.run(EXEC, {"cmd": "read x; echo got-$x; sleep 0.2; exit 5", "tty": True, "yield_time_ms": 250})
    found = re.search(r"Process running with session ID (\d+)\n", output)
    assert found
    session_id = int(found[1])
    assert 1000 <= session_id <= 99_999
    output = await bench.run(STDIN, {"session_id": session_id, "chars": "hey\n", "yield_time_ms": "3000"}, "call_2")
    assert "Process exited with code 5\n" in output
    assert output.endswith("Output:\nhey\r\ngot-hey\r\n")
    typed = TerminalInteraction(call_id="call_1", process_id=str(session_id), stdin="hey\n")
    assert bench.of(TerminalInteraction) == [typed]
    (end,) = bench.of(ExecCommandEnd)
    assert (end.call_id, end.exit_code, end.aggregated_output) == ("call_1", 5, "hey\r\ngot-hey\r\n")
    with pytest.raises(ToolError, match=f"^write_stdin failed: Unknown process id {session_id}$"):
        await bench.run(STDIN, {"session_id": session_id})


async def test_each_look_shows_only_what_is_new(bench: Bench) -> None:
    output = await bench.run(EXEC, {"cmd": "echo one; sleep 1.2; echo two", "yield_time_ms": 250.0})
    assert output.endswith("Output:\none\n")
    found = re.search(r"session ID (\d+)", output)
    assert found
    output = await bench.run(STDIN, {"session_id": int(found[1])})
    assert output.endswith("Output:\ntwo\n")
    assert bench.of(TerminalInteraction) == []


async def test_a_session_without_a_terminal_cannot_be_typed_into(bench: Bench) -> None:
    output = await bench.run(EXEC, {"cmd": "sleep 30", "yield_time_ms": 250})
    found = re.search(r"session ID (\d+)", output)
    assert found
    with pytest.raises(ToolError, match=r"^write_stdin failed: .*tty=true"):
        await bench.run(STDIN, {"session_id": int(found[1]), "chars": "x"})


async def test_the_end_of_a_session_is_shown_although_nobody_looks(bench: Bench) -> None:
    cmd = "while [ ! -e go ]; do sleep 0.02; done; echo late; exit 2"
    await bench.run(EXEC, {"cmd": cmd, "yield_time_ms": 250})
    assert bench.of(ExecCommandEnd) == []
    (bench.folder / "go").touch()
    async with asyncio.timeout(30):
        while not bench.of(ExecCommandEnd):
            await asyncio.sleep(0.02)
    (end,) = bench.of(ExecCommandEnd)
    assert (end.exit_code, end.aggregated_output) == (2, "late\n")


async def test_interrupting_a_call_kills_what_the_model_never_heard_of(bench: Bench) -> None:
    task = asyncio.create_task(bench.run(EXEC, {"cmd": "echo on; sleep 60"}))
    while not bench.of(ExecCommandOutputDelta):
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (end,) = bench.of(ExecCommandEnd)
    assert (end.exit_code, end.aggregated_output) == (128 + 15, "on\n")
    assert bench.table.live_count == 0


async def test_interrupting_a_look_leaves_the_session_alone(bench: Bench) -> None:
    output = await bench.run(EXEC, {"cmd": "sleep 60", "yield_time_ms": 250})
    found = re.search(r"session ID (\d+)", output)
    assert found
    task = asyncio.create_task(bench.run(STDIN, {"session_id": int(found[1])}))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.table.find(int(found[1])) is not None
    assert bench.of(ExecCommandEnd) == []


async def test_long_output_is_cut_in_the_middle_and_says_so(bench: Bench) -> None:
    output = await bench.run(EXEC, {"cmd": "seq 100000", "max_output_tokens": 10})
    body = output.split("Output:\n", 1)[1]
    total, lines = 588_895, 100_000
    tokens = -(-total // 4)
    cut = -(-(total - 40) // 4)
    assert body == (
        f"Warning: truncated output (original token count: {tokens})\nTotal output lines: {lines}\n\n"
        f"1\n2\n3\n4\n5\n6\n7\n8\n9\n10…{cut} tokens truncated…\n99998\n99999\n100000\n"
    )
    assert f"Original token count: {tokens}\n" in output


async def test_a_flood_is_counted_in_full_although_it_is_not_kept(bench: Bench) -> None:
    output = await bench.run(EXEC, {"cmd": "head -c 20000000 /dev/zero | tr '\\0' x"})
    cut = (20_000_000 - 40_000) // 4
    assert f"Original token count: {20_000_000 // 4}\n" in output
    assert f"…{cut} tokens truncated…" in output
    sizes = [len(delta.chunk) for delta in bench.of(ExecCommandOutputDelta)]
    assert sum(sizes) == 1024 * 1024 and all(sizes)
    (end,) = bench.of(ExecCommandEnd)
    assert len(end.aggregated_output) < 1024 * 1024 + 100
    assert "18951424 bytes are not shown" in end.aggregated_output


async def test_the_models_own_limit_is_the_upper_bound(bench: Bench) -> None:
    bench.truncation = type(bench.truncation)(mode="bytes", limit=40)
    output = await bench.run(EXEC, {"cmd": "seq 1000", "max_output_tokens": 5000})
    assert len(output.split("\n\n", 1)[1]) < 80


async def test_a_refusal_by_policy_is_shown_and_told(bench: Bench) -> None:
    bench.refusal = Rejected("`rm` rejected: blocked by policy")
    with pytest.raises(Rejected):
        await bench.run(EXEC, {"cmd": "rm -rf x", "sandbox_permissions": "require_escalated", "justification": "why"})
    assert bench.kinds() == ["ExecCommandBegin", "ExecCommandEnd"]
    (end,) = bench.of(ExecCommandEnd)
    assert (end.exit_code, end.aggregated_output, end.duration) == (
        -1,
        "`rm` rejected: blocked by policy",
        Duration(0, 0),
    )
    assert bench.asked == [
        {
            "argv": ["/bin/bash", "-lc", "rm -rf x"],
            "cwd": str(bench.folder),
            "escalated": True,
            "justification": "why",
            "prefix_rule": None,
        }
    ]


async def test_a_refusal_by_the_person_is_not_shown_to_them_again(bench: Bench) -> None:
    bench.refusal = Rejected("exec command rejected by user", by_user=True)
    with pytest.raises(Rejected):
        await bench.run(EXEC, {"cmd": "ls"})
    assert bench.events == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{bad", "failed to parse function arguments: "),
        ({}, "failed to parse function arguments: missing field `cmd`"),
        ({"cmd": 5}, "failed to parse function arguments: "),
        ({"cmd": None}, "failed to parse function arguments: missing field `cmd`"),
        ({"cmd": "ls", "yield_time_ms": "nan"}, "failed to parse function arguments: "),
        ({"cmd": "ls", "max_output_tokens": "inf"}, "failed to parse function arguments: "),
    ],
)
async def test_bad_arguments_are_told_to_the_model(bench: Bench, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ToolError) as caught:
        await bench.run(EXEC, arguments)
    assert str(caught.value).startswith(message)
    assert bench.events == []


async def test_null_means_that_an_argument_is_not_given(bench: Bench) -> None:
    absent = ("workdir", "shell", "login", "tty", "yield_time_ms", "max_output_tokens", "sandbox_permissions")
    output = await bench.run(EXEC, {"cmd": "echo x", **dict.fromkeys(absent)})
    assert output.endswith("Process exited with code 0\nOriginal token count: 1\nOutput:\nx\n")


@pytest.mark.parametrize("session", ["nan", 1.5, 1e300])
async def test_a_session_id_is_a_whole_number(bench: Bench, session: object) -> None:
    with pytest.raises(ToolError, match=r"^failed to parse function arguments: "):
        await bench.run(STDIN, {"session_id": session})


async def test_a_nul_character_is_a_clear_refusal(bench: Bench) -> None:
    with pytest.raises(ToolError, match=r"^cannot run /bin/bash: an argument contains a NUL character$"):
        await bench.run(EXEC, {"cmd": "echo a\0b"})
    (end,) = bench.of(ExecCommandEnd)
    assert end.exit_code == -1


async def test_what_is_no_shell_is_not_run_as_one(bench: Bench) -> None:
    with pytest.raises(ToolError, match="'python3' is not a shell; use one of bash, zsh, sh"):
        await bench.run(EXEC, {"cmd": "print(1)", "shell": "python3"})


async def test_a_list_becomes_a_quoted_command_line(bench: Bench) -> None:
    output = await bench.run(EXEC, {"cmd": ["echo", "a  b", "$HOME"], "login": False})
    assert output.endswith("Output:\na  b $HOME\n")
    assert bench.asked[0]["argv"] == ["/bin/bash", "-c", "echo 'a  b' '$HOME'"]


async def test_another_shell_can_be_asked_for(bench: Bench) -> None:
    output = await bench.run(EXEC, {"cmd": 'echo "${BASH_VERSION:-none}"', "shell": "/bin/sh"})
    assert bench.asked[0]["argv"][0] == "/bin/sh"
    assert output.endswith("none\n") or "\n5." in output


async def test_a_missing_folder_is_a_clear_refusal(bench: Bench) -> None:
    with pytest.raises(ToolError, match=r"working directory .*/nowhere does not exist"):
        await bench.run(EXEC, {"cmd": "ls", "workdir": "nowhere"})
    (end,) = bench.of(ExecCommandEnd)
    assert end.exit_code == -1


@pytest.mark.parametrize("prefix", ["", "cd sub && "])
async def test_a_patch_inside_a_command_is_applied_as_a_patch(bench: Bench, prefix: str) -> None:
    (bench.folder / "sub").mkdir()
    output = await bench.run(EXEC, {"cmd": f"{prefix}apply_patch <<'EOF'\n{PATCH}EOF\n"})
    target = bench.folder / "sub" if prefix else bench.folder
    assert (target / "n.txt").read_text() == "hello\n"
    assert "Process exited with code 0\n" in output
    assert "Success. Updated the following files:\nA n.txt\n" in output
    assert bench.of(ExecCommandBegin) == [] and len(bench.of(PatchApplyEnd)) == 1


async def test_a_patch_that_does_not_fit_is_a_failed_command(bench: Bench) -> None:
    patch = PATCH.replace("Add File", "Delete File").replace("+hello\n", "")
    output = await bench.run(EXEC, {"cmd": f"apply_patch <<'EOF'\n{patch}EOF\n"})
    assert "Process exited with code 1\n" in output
    assert "apply_patch verification failed: " in output


async def test_a_patch_without_a_program_is_refused_with_a_hint(bench: Bench) -> None:
    with pytest.raises(ToolError, match="apply_patch"):
        await bench.run(EXEC, {"cmd": PATCH})


async def test_without_a_sandbox_nothing_runs_and_the_person_is_told_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: object) -> str:
        return "bubblewrap is not installed, so nothing was run; install it"

    monkeypatch.setattr(sandbox, "problem", broken)
    bench.sandbox = SandboxPolicy(mode="workspace-write")
    for _ in range(2):
        with pytest.raises(ToolError, match=r"^bubblewrap is not installed, so nothing was run$") as caught:
            await bench.run(EXEC, {"cmd": "touch ran"})
        assert isinstance(caught.value.__cause__, SandboxUnavailable)
    assert [warning.message for warning in bench.of(Warning)] == [await broken(None)]
    assert [end.exit_code for end in bench.of(ExecCommandEnd)] == [-1, -1]
    assert not (bench.folder / "ran").exists()


async def test_many_sessions_come_with_a_warning(bench: Bench) -> None:
    outputs = await asyncio.gather(
        *(bench.run(EXEC, {"cmd": "sleep 60", "yield_time_ms": 250, "login": False}, f"c{n}") for n in range(60))
    )
    assert "\n\nWarning: 60 sessions are open" in outputs[-1]
