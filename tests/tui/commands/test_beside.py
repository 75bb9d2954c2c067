"""Commands about what goes on beside: /ps, /stop, /agents, /side, /copy, /raw, /warnings, /mcp, /skills, /hooks, …"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from spindle.frontends.tui.commands import running
from spindle.frontends.tui.desk import AgentSeen, BackgroundCommand
from spindle.frontends.tui.shown import texts
from spindle.model.scripted import calls, says
from spindle.protocol.ops import RefreshMcpServers
from tui.commands.conftest import OpenDesk
from tui.fake_desk import FakeDesk


async def test_background_commands_are_listed_and_ended(open_desk: OpenDesk) -> None:
    desk = await open_desk('sandbox_mode = "danger-full-access"\napproval_policy = "never"\n')
    await running.run(desk, "/ps")
    await running.run(desk, "/stop")
    assert desk.said == ["No command runs in the background."] * 2
    steps = [
        calls("exec_command", {"cmd": f"echo $$ > pid{number}; sleep 300", "yield_time_ms": 250}, f"c{number}")
        for number in (1, 2)
    ]
    await desk.turn("go", steps, says("they run"))
    pids = [int(Path(desk.config.cwd, f"pid{number}").read_text()) for number in (1, 2)]
    outputs = [item for item in desk.model.requests[-1].to_dict()["input"] if item["type"] == "function_call_output"]
    ids = [item["output"].split("session ID ")[1].split()[0] for item in outputs]
    desk.seen.background = [BackgroundCommand(one, f"sleep {one}\x1b[2J", 65, "last\x07 line") for one in ids]
    await running.run(desk, "/ps")
    assert "2 commands in the background" in desk.said
    assert f"  1. sleep {ids[0]}  1m 05s" in desk.said and all(text.isprintable() for text in desk.said)
    await running.run(desk, "/stop 2")
    assert desk.said[-1] == f"Ended 1 background command: sleep {ids[1]}"
    assert [Path(f"/proc/{pid}").exists() for pid in pids] == [True, False]
    await running.run(desk, "/stop 7")
    assert desk.failed == ["there is no background command '7'; /ps lists them"]
    await running.run(desk, "/stop")
    assert desk.said[-1] == f"Ended 1 background command: sleep {ids[0]}"
    assert not Path(f"/proc/{pids[0]}").exists()


async def test_agents_are_a_tree(desk: FakeDesk) -> None:
    await running.run(desk, "/agents")
    assert desk.said == ["There are no sub-agents in this session."]
    desk.seen.agents = [
        AgentSeen("a", "me", "worker", "running", "write\x1b[0m tests", 12_000),
        AgentSeen("b", "a", "", "completed", "look"),
        AgentSeen("c", "me", "reviewer", "errored"),
    ]
    await running.run(desk, "/subagents")
    assert desk.said[-4:] == [
        "3 sub-agents",
        "  worker running, 12k tokens write tests",
        "    agent completed look",
        "  reviewer errored ",
    ]


async def test_a_question_beside_leaves_no_trace_in_the_thread(desk: FakeDesk) -> None:
    await desk.turn("hello", says("hi"))
    assert desk.thread is not None
    before = list(desk.thread.records)
    desk.model.script(calls("exec_command", {"cmd": "touch made"}, "c1"), says("because\n\nof **that**"))
    await running.run(desk, "/btw why?")
    assert desk.failed == []
    assert [text for text in desk.said[-4:] if text.strip()] == ["Beside: why?", "  because", "  of that"]
    assert list(desk.thread.records) == before and not Path(desk.config.cwd, "made").exists()
    asked = str(desk.model.requests[-1].to_dict()["input"])
    assert "hello" in asked and "why?" in asked
    await running.run(desk, "/side")
    assert desk.draft == "/btw "


# ---- the answer ----------------------------------------------------------------------------------------


async def test_the_last_answer_is_copied_by_the_terminal_or_by_a_program(
    desk: FakeDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await running.run(desk, "/copy")
    assert desk.failed == ["there is no answer to copy yet"]
    desk.seen.last_answer = "# Title\n\x1b]52;c;evil\x07 text"
    monkeypatch.setenv("PATH", str(tmp_path))
    await running.run(desk, "/copy")
    assert desk.copied == [desk.seen.last_answer]
    assert desk.said[-1].startswith("Copied the last answer (2 lines, ") and desk.said[-1].isprintable()
    program = tmp_path / "wl-copy"
    first_line = f"#!{os.path.realpath(sys.executable)}\n"
    program.write_text(f"{first_line}import sys\nopen({str(tmp_path / 'got')!r}, 'w').write(sys.stdin.read())\n")
    program.chmod(0o755)
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.delenv("SSH_TTY", raising=False)
    await running.run(desk, "/copy")
    assert (tmp_path / "got").read_text() == desk.seen.last_answer and len(desk.copied) == 1
    assert "with wl-copy" in desk.said[-1]
    monkeypatch.setenv("SSH_TTY", "/dev/pts/1")
    await running.run(desk, "/copy")
    assert len(desk.copied) == 2


async def test_raw_is_switched_on_and_off(desk: FakeDesk) -> None:
    desk.seen.last_answer = "# Title\n\n* a  b"
    await running.run(desk, "/raw")
    assert desk.used == {"tui.raw_output_mode": True} and desk.said[-3:] == ["# Title", "", "* a  b"]
    await running.run(desk, "/raw off")
    assert desk.used == {"tui.raw_output_mode": False}


# ---- what is around ------------------------------------------------------------------------------------


async def test_warnings_are_numbered(desk: FakeDesk) -> None:
    await running.run(desk, "/warnings")
    desk.seen.warnings = ["one\x1b[2J", "two"]
    await running.run(desk, "/warnings")
    assert desk.said == ["There were no warnings in this session.", "", "2 warnings", "  1:  one", "  2:  two"]


MCP = f"""
[mcp_servers.files]
command = "{sys.executable}"
args = ["{Path(__file__).parent.parent.parent / "mcp_servers" / "stub.py"}"]
[mcp_servers.off]
url = "http://127.0.0.1:1/mcp"
enabled = false
"""


async def test_mcp_servers_with_state_and_tools(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    await running.run(desk, "/mcp")
    assert desk.said[-1].startswith("There are no MCP servers; `spindle mcp add`")
    desk = await open_desk('[mcp_servers.gone]\ncommand = "/no/such/program"\n' + MCP)
    desk.seen.servers = {"gone": "failed: no such \x1b[2Jprogram", "files": "ready"}
    await running.run(desk, "/mcp")
    assert "  gone: failed: no such program" in desk.said and "  off: switched off" in desk.said
    await running.run(desk, "/mcp what")
    assert desk.failed == ["there is no MCP server 'what'; there are gone, files, off"]
    await running.run(desk, "/mcp refresh")
    assert isinstance(desk.submitted[-1], RefreshMcpServers)


async def test_a_skill_is_chosen_into_the_composer(desk: FakeDesk) -> None:
    await running.run(desk, "/skills")
    assert desk.said[0].startswith("There are no skills here")
    for name, text in (("good", "---\nname: good\ndescription: does\n---\nx\n"), ("bad", "no front matter")):
        folder = Path(desk.config.home, "skills", name)
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(text)
    desk.hands = [("enter",)]
    await running.run(desk, "/skills reload")
    assert desk.draft == "$good " and any("$good" in row and "does" in row for row in desk.views[0])
    assert len(desk.warned) == 1 and "bad/SKILL.md" in desk.warned[0]


async def test_notes_are_listed_and_read(open_desk: OpenDesk) -> None:
    desk = await open_desk("[spindle]\nmemory = true\n")
    await running.run(desk, "/memory")
    assert desk.said == ["There are no notes for this project."]
    from spindle.tools.memory_folder import project_folder

    folder = Path(project_folder(desk.config.home, desk.config.cwd))
    folder.mkdir(parents=True)
    (folder / "build.md").write_text("# How to build\nmake \x1b[2J\n")
    desk.hands = [("enter",)]
    await running.run(desk, "/memories")
    ((title, lines),) = desk.pages
    assert title == "build.md" and any("How to build" in text for text in texts(lines))
    assert all(text.isprintable() for text in texts(lines))


async def test_a_hook_of_the_project_waits_for_a_yes(open_desk: OpenDesk, tmp_path: Path) -> None:
    desk = await open_desk()
    await running.run(desk, "/hooks")
    assert desk.said == ["There are no hooks here."]
    folder = tmp_path / "project" / ".codex"
    folder.mkdir()
    hook = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo hi"}]}]}}
    (folder / "hooks.json").write_text(json.dumps(hook))
    desk = await open_desk(f'[projects."{tmp_path / "project"}"]\ntrust_level = "trusted"\n')
    desk.hands = [("enter",), ("enter",)]
    await running.run(desk, "/hooks")
    assert any("does not run: you have not agreed to it" in row for row in desk.views[0])
    assert desk.said == [] and "› 1. No" in desk.views[1]
    desk.hands = [("enter",), ("2",)]
    await running.run(desk, "/hooks")
    assert desk.said[-1].startswith("Runs from the next session on: ")
    assert desk.config_for(desk.config.cwd).hooks[0].may_run


async def test_doctor_reports_in_the_pager(desk: FakeDesk) -> None:
    await asyncio.wait_for(running.run(desk, "/doctor"), 60)
    assert desk.failed == []
    ((title, lines),) = desk.pages
    assert title == "Doctor" and any("Sandbox back ends" in text for text in texts(lines))
    assert not any("standard output is not a terminal" in text for text in texts(lines))
    assert os.path.isdir(desk.config.cwd)
