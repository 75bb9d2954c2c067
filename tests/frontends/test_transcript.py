"""What people read in a plain terminal."""

from __future__ import annotations

import pytest

from spindle.frontends.transcript import Transcript, printable, sandbox_line
from spindle.protocol.events import (
    AgentMessage,
    Duration,
    Error,
    ExecCommandEnd,
    ItemCompleted,
    Msg,
    PatchApplyEnd,
    PlanUpdate,
    SessionConfigured,
    TaskComplete,
    TokenCount,
    Warning,
    usage_info,
)
from spindle.protocol.request import TokenUsage
from spindle.protocol.settings import SandboxPolicy


def text(*msgs: Msg, color: bool = False, max_output_lines: int | None = None) -> str:
    transcript = Transcript(version="1.0", color=color, summary="auto", max_output_lines=max_output_lines)
    return "".join(map(transcript.translate, msgs))


def ended(output: str, code: int = 0) -> Msg:
    return ExecCommandEnd(
        call_id="c",
        turn_id="u",
        command=["ls"],
        cwd="/w",
        parsed_cmd=[],
        stdout=output,
        aggregated_output=output,
        exit_code=code,
        duration=Duration(1, 250_000_000),
        formatted_output=output,
    )


def test_the_header_names_what_a_person_should_check() -> None:
    configured = SessionConfigured(
        session_id="T",
        model="m",
        model_provider_id="p",
        approval_policy="never",
        sandbox_policy={"type": "read-only"},
        cwd="/w",
    )
    assert text(configured) == (
        "Spindle 1.0\n--------\nworkdir: /w\nmodel: m\nprovider: p\napproval: never\nsandbox: read-only\n"
        "reasoning effort: none\nreasoning summaries: auto\nsession id: T\n--------\n"
    )


def test_commands_say_how_they_ended() -> None:
    assert text(ended("a\nb\n")) == "succeeded in 1250ms:\na\nb\n"
    assert text(ended("", 7)) == "exited 7 in 1250ms:\n"


def test_long_output_is_cut_only_where_a_person_watches() -> None:
    long = "".join(f"{n}\n" for n in range(100))
    assert text(ended(long)).count("\n") == 101
    assert "more lines" in text(ended(long), color=True)
    assert text(ended(long), max_output_lines=2).startswith("succeeded in 1250ms:\n0\n1\n… 99 more lines")


def test_a_patch_is_shown_with_its_diff() -> None:
    changes = {
        "/w/a": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-x\n+y\n", "move_path": "/w/b"},
        "/w/n": {"type": "add", "content": "new\n"},
        "/w/d": {"type": "delete", "content": "old\n"},
    }
    done = PatchApplyEnd(call_id="c", turn_id="u", stdout="", stderr="", success=True, changes=changes)
    assert text(done) == "file update\nM /w/a -> /w/b\n@@ -1 +1 @@\n-x\n+y\nA /w/n\n+new\nD /w/d\n"


def test_a_failed_patch_says_why() -> None:
    done = PatchApplyEnd(call_id="c", turn_id="u", stdout="", stderr="disk full", success=False, changes={})
    assert text(done) == "file update failed\ndisk full\n"


def test_plans_warnings_and_errors() -> None:
    plan = PlanUpdate(
        plan=[{"step": "a", "status": "completed"}, {"step": "b", "status": "in_progress"}], explanation="why"
    )
    assert text(plan) == "plan update\nwhy\n  ✓ a\n  → b\n"
    assert text(Warning(message="w"), Error(message="e")) == "warning: w\nERROR: e\n"


def test_the_end_says_what_it_cost_at_full_price() -> None:
    usage = TokenUsage(input_tokens=3000, cached_input_tokens=1000, output_tokens=500)
    assert text(TokenCount(info=usage_info(usage, usage, None)), TaskComplete(turn_id="u", last_agent_message="x")) == (
        "tokens used\n2,500\n"
    )


def test_a_message_is_shown_once() -> None:
    item = {"type": "AgentMessage", "id": "m", "content": [{"type": "Text", "text": "hi"}]}
    assert text(AgentMessage(message="hi"), ItemCompleted(thread_id="t", turn_id="u", item=item)) == "spindle\nhi\n"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain é ✓", "plain é ✓"),
        ("a\tb\nc", "a\tb\nc"),
        ("progress\r\n", "progress\n"),
        ("\x1b[31mred\x1b]0;t\x07", "red"),
        ("\x1b]8;;http://e.example\x1b\\link\x1b(B \x1b", "link \\u{1B}"),
        ("a\u202eb", "a\\u{202E}b"),
        ("\x9b2J\x00", "\\u{0}"),
        ("日本\u3000語", "日本\u3000語"),
    ],
)
def test_nothing_that_is_printed_can_drive_the_terminal(raw: str, shown: str) -> None:
    assert printable(raw) == shown


def test_what_the_model_says_cannot_drive_the_terminal_either() -> None:
    item = {"type": "AgentMessage", "id": "m", "content": [{"type": "Text", "text": "\x1b[2J"}]}
    assert "\x1b[2J" not in text(ItemCompleted(thread_id="t", turn_id="u", item=item), color=True)


def test_the_sandbox_line_lists_what_may_be_written() -> None:
    policy = SandboxPolicy(mode="workspace-write", writable_roots=("/x",), network_access=True, exclude_slash_tmp=True)
    assert sandbox_line(policy) == "workspace-write [workdir, $TMPDIR, /x] (network access enabled)"
