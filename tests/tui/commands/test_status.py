"""/status, /cost, /context: where the session stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from spindle.frontends.fit import cells
from spindle.frontends.tui.commands import running
from spindle.frontends.tui.commands.context import drawn
from spindle.frontends.tui.shown import plain, texts
from spindle.model.scripted import says
from spindle.protocol.answers import ContextUsage
from spindle.protocol.request import TokenUsage
from tui.commands.conftest import OpenDesk
from tui.fake_desk import FakeDesk

USAGE = TokenUsage(input_tokens=4321, cached_input_tokens=1000, output_tokens=7, total_tokens=4328)


def field(desk: FakeDesk, name: str) -> str:
    found = [text.split(":", 1)[1].strip() for text in desk.said if text.strip().startswith(f"{name}:")]
    assert len(found) == 1, desk.text
    return found[0]


async def test_status_tells_every_field_of_the_session(open_desk: OpenDesk) -> None:
    desk = await open_desk('model = "gpt-5.2-codex"\nsandbox_mode = "workspace-write"\n')
    Path(desk.config.cwd, "AGENTS.md").write_text("be kind\n")
    desk.seen.servers = {"files": "ready"}
    await desk.turn("hello", says("hi", usage=USAGE))
    await running.run(desk, "/status")
    assert desk.thread is not None
    assert field(desk, "model").startswith("gpt-5.2-codex, effort medium")
    assert field(desk, "provider").startswith("OpenAI (https://api.openai.com")
    assert field(desk, "folder").endswith("/project")
    assert "workspace-write" in field(desk, "permissions") and "on-request" in field(desk, "permissions")
    assert field(desk, "sandbox in force")
    assert field(desk, "AGENTS.md").endswith("/project/AGENTS.md")
    assert field(desk, "mode") == "default"
    assert field(desk, "session") == desk.thread.id
    assert field(desk, "recorded in").endswith(f"{desk.thread.id}.jsonl")
    assert field(desk, "tokens") == "4,321 in (1,000 of it cached), 7 out"
    assert "4,328 of" in field(desk, "context") and "% left" in field(desk, "context")
    assert field(desk, "limits") == "the server has not named any"
    assert field(desk, "MCP server") == "files: ready"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ('[spindle.sandbox]\nread = "all"\n', "reads everything that you can read"),
        ('[spindle.sandbox]\nread = "workspace"\n', "nothing else of your home"),
        (
            'default_permissions = "tight"\n[permissions.tight.filesystem]\n":workspace_roots" = "write"\n',
            "reads what the permission profile tight lets it read",
        ),
    ],
)
async def test_status_tells_what_commands_can_read(open_desk: OpenDesk, setting: str, words: str) -> None:
    desk = await open_desk(setting)
    await running.run(desk, "/status")
    assert words in " ".join(desk.text.split())


async def test_names_of_others_cannot_drive_the_terminal(desk: FakeDesk) -> None:
    desk.seen.servers = {"evil\x1b]0;x\x07": "failed: \x1b[2J"}
    await running.run(desk, "/status")
    assert all(text.isprintable() for text in desk.said)


async def test_cost_sums_the_thread_up(desk: FakeDesk) -> None:
    await running.run(desk, "/cost")
    assert desk.failed == ["this thread has sent no request yet, so it has cost nothing"]
    await desk.turn("hello", says("hi", usage=USAGE))
    await running.run(desk, "/usage")
    assert field(desk, "work").startswith("1 turn · 1 request")
    assert field(desk, "tokens").startswith("4,321 tokens in, 23 % of them from the cache")
    assert field(desk, "cost")


def test_context_draws_the_window_by_source() -> None:
    usage = ContextUsage(
        window=1000,
        limit=900,
        used=400,
        percent_left=60,
        tokens={"instructions": 100, "tools": 50, "user": 50},
        cache={"hit_percent": 25, "input_tokens": 10},
    )
    lines = drawn(usage, 80)
    assert texts(lines)[1:8] == [
        "Context",
        "  " + "█" * 24 + "░" * 36,
        "  400 of 1k tokens, 60% left",
        "  instructions  20.0%       200  " + "█" * 29,
        "  tools         10.0%       100  " + "█" * 14,
        "  user          10.0%       100  " + "█" * 14,
        "  free          60.0%       600",
    ]
    assert "  the thread is compacted at 900 tokens; /compact does it now" in texts(lines)
    assert "  25% of all input so far came from the provider's cache" in texts(lines)
    bar = lines[2].spans
    assert [(span.text, span.style) for span in bar[1:]] == [
        ("█" * 12, "fg4"),
        ("█" * 6, "fg6"),
        ("█" * 6, "fg5"),
        ("░" * 36, "dim"),
    ]
    assert all(cells(plain(each)) <= 40 for each in drawn(usage, 40)[:8])


async def test_context_of_a_real_thread_and_its_past(desk: FakeDesk) -> None:
    await desk.turn("hello", says("hi", usage=USAGE))
    await running.run(desk, "/context")
    assert any(text.startswith("  instructions") for text in desk.said)
    assert any(text.startswith("  4,328 of ") for text in desk.said)
    await running.run(desk, "/context past")
    ((title, lines),) = desk.pages
    assert title == "Context, request by request" and any("hello" in text for text in texts(lines))
    await running.run(desk, "/context what")
    assert desk.failed == ["/context takes nothing, or `past` for the requests so far"]
