"""Errors, warnings, the ends of turns, answers of the person, and what else is worth a line."""

from __future__ import annotations

from typing import Any

import pytest

from spindle.errors import ErrorInfo
from spindle.frontends.tui.shown import Line, Span, line
from spindle.protocol import events as v1
from spindle.protocol.failed_calls import ToolCallFailed
from spindle.protocol.questions import RequestUserInput
from spindle.protocol.request import TokenUsage
from spindle.protocol.tool_servers import ElicitationRequest
from tui.cells.told import CWD, Told, begin, delta, done, end, said, shell, tokens


def test_a_turn_ends_with_its_time_its_tokens_and_its_money() -> None:
    told = Told(cost=lambda usage: usage.total_tokens / 100_000)
    told.take(tokens(1000, 5000, 100))
    told.begin_turn()
    told.take(tokens(2234, 15000, 421))
    told.clock.advance(72)
    assert told.take(done()) == [
        "  Worked for 1m 12s · 1,234 fresh + 10,000 cached tokens in, 321 out · $0.1155",
    ]
    assert told.conversation.activity is None


def test_without_prices_no_money_is_named_and_without_usage_no_tokens() -> None:
    told = Told()
    told.begin_turn()
    told.clock.advance(2.5)
    assert told.take(done()) == ["  Worked for 2.5s"]


def test_an_interruption_is_one_line() -> None:
    told = Told()
    told.begin_turn()
    assert told.take(v1.TurnAborted(turn_id="t1", reason="interrupted")) == [
        "■ Turn interrupted. Say what to do instead."
    ]


@pytest.mark.parametrize(
    ("info", "step"),
    [
        ("context_window_exceeded", ["  /compact makes the thread shorter, /new begins another."]),
        ("unauthorized", ["  /login signs in, or takes another key."]),
        ({"response_stream_disconnected": {"http_status_code": 502}}, ["  Up and Enter send the message again."]),
        ("bad_request", []),
        (None, []),
    ],
)
def test_an_error_says_what_to_do(info: ErrorInfo | None, step: list[str]) -> None:
    shown = Told().take(v1.Error(message="status 400: the-bad-thing happened", codex_error_info=info))
    assert shown == ["■ status 400: the-bad-thing happened", *step]


@pytest.mark.parametrize(("reason", "step"), [("max_output_tokens", "go on"), ("content_filter", "other words")])
def test_an_answer_that_was_cut_short_says_how_to_go_on(reason: str, step: str) -> None:
    shown = Told().take(v1.Error(message=f"Incomplete response returned, reason: {reason}"))
    assert step in shown[1]


def test_an_advice_that_the_message_gives_is_not_repeated() -> None:
    message = "No room. Use /compact now."
    assert Told().take(v1.Error(message=message, codex_error_info="context_window_exceeded")) == [f"■ {message}"]


def test_an_error_keeps_what_streamed_before_it() -> None:
    told = Told()
    told.begin_turn()
    told.take(delta("Half of"))
    assert told.take(v1.Error(message="no"), done())[:2] == ["• Half of", "■ no"]


def test_warnings_are_shown_and_remembered() -> None:
    told = Told()
    assert told.take(v1.Warning(message="the disk is\x1b[31m nearly full")) != []
    told.conversation.warn("and so is the other")
    assert told.finished() == ["⚠ and so is the other"]
    assert len(told.conversation.warnings) == 2


def test_the_status_row_counts_down_to_the_next_attempt() -> None:
    told = Told()
    told.begin_turn()
    told.take(
        v1.StreamError(
            message="Reconnecting... 2/5 (connection reset)", additional_details="connection reset", delay_s=3.0
        )
    )
    assert told.doing() == "Reconnecting 2/5 in 3 s: connection reset"
    told.clock.advance(1.5)
    assert told.doing() == "Reconnecting 2/5 in 2 s: connection reset"
    told.clock.advance(1.5)
    assert told.doing() == "Reconnecting 2/5: connection reset"
    told.take(delta("Here"))
    assert told.doing() == "Working"


# ---- answers of the person -----------------------------------------------------------------------


def asked(script: str) -> v1.ExecApprovalRequest:
    return v1.ExecApprovalRequest(call_id="c1", turn_id="t1", command=shell(script), cwd=CWD)


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        ("approved", "✔ approved once: touch a && ⏎ touch b"),
        ("approved_for_session", "✔ approved for this session: touch a && ⏎ touch b"),
        ({"approved_execpolicy_amendment": {}}, "✔ approved for all commands that begin so: touch a && ⏎ touch b"),
        ("denied", "✗ refused: touch a && ⏎ touch b (not run)"),
        ("abort", "✗ refused, and the turn stopped: touch a && ⏎ touch b (not run)"),
    ],
)
def test_an_answer_to_a_request_is_one_line(decision: Any, words: str) -> None:
    told = Told()
    told.begin_turn()
    told.take(asked("touch a &&\n touch b"))
    assert told.doing() == "Waiting for your answer"
    told.conversation.note_answer(asked("touch a &&\n touch b"), decision)
    assert told.finished() == [words]
    assert told.doing() == "Working"


def test_answers_about_patches_and_tools_name_them() -> None:
    told = Told()
    changes = {f"{CWD}/a.py": {"type": "update", "unified_diff": ""}, "/etc/x": {"type": "add", "content": ""}}
    told.conversation.note_answer(v1.ApplyPatchApprovalRequest(call_id="c", turn_id="t", changes=changes), "denied")
    called = {"server": "files", "tool": "write", "arguments": {}}
    request = ElicitationRequest(
        server_name="files", id="1", message="Use it?", kind="tool_approval", invocation=called
    )
    told.conversation.note_answer(request, "approved")
    assert told.finished() == [
        "✗ refused: Edited a.py (+0 -0), Added /etc/x (+0 -0) (not applied)",
        "✔ approved once: files.write",
    ]


def test_a_question_waits_for_the_person() -> None:
    told = Told()
    told.begin_turn()
    told.take(RequestUserInput(call_id="c1", turn_id="t1", questions=[{"id": "q1", "question": "Which colour then?"}]))
    assert told.doing() == "Waiting for your answer"
    told.take(done())
    assert told.conversation.activity is None


def test_a_turn_in_another_mode_says_so_once() -> None:
    def started(mode: str) -> v1.TaskStarted:
        return v1.TaskStarted(turn_id="t1", model_context_window=None, collaboration_mode_kind=mode)

    told = Told()
    assert told.take(started("default")) == []
    assert told.take(started("plan")) == ["• Mode changed to plan"]
    assert told.take(started("plan")) == []
    assert told.take(started("default")) == ["• Mode changed to default"]


def test_lines_of_other_parts_never_stand_in_the_middle_of_an_answer() -> None:
    told = Told()
    told.take(delta("One.\n\nTwo"))
    told.conversation.say([line("Status: fine"), Line((Span("ok", "ok"),))])
    assert told.finished() == []
    assert told.take(said("One.\n\nTwo.")) == ["  Two.", "Status: fine", "ok"]


# ---- the context, hooks, and the rest ------------------------------------------------------------


def test_compaction_and_edits_of_the_context_are_told_in_numbers() -> None:
    told = Told()
    assert told.take(v1.ContextCompacted(tokens_before=120_000, tokens_after=8_000)) == [
        "• Context compacted: 120,000 → 8,000 tokens"
    ]
    assert Told().take(v1.ContextCompacted()) == ["• Context compacted"]
    edited = v1.ContextEdited(message="x", cleared_tool_uses=3, tokens_before=90_000, tokens_after=50_000)
    assert told.take(edited) == ["• Context edited: 3 old outputs cleared, 90,000 → 50,000 tokens"]


def test_only_a_large_cache_miss_is_worth_a_line() -> None:
    def missed(lost: int) -> v1.CacheMissed:
        return v1.CacheMissed(cause="the tools changed", lost_tokens=lost, expected_cached_tokens=lost, cached_tokens=0)

    told = Told()
    assert told.take(missed(900)) == []
    assert told.take(missed(90_000)) == ["• Cache miss: 90,000 tokens were paid again (the tools changed)"]
    assert len(told.whole()) == 2


def hook(status: str, *entries: tuple[str, str]) -> v1.HookCompleted:
    run = {"event_name": "pre_tool_use", "status": status}
    return v1.HookCompleted(
        turn_id="t1", run={**run, "entries": [{"kind": kind, "text": text} for kind, text in entries]}
    )


def test_a_hook_is_a_line_when_it_has_something_to_say() -> None:
    told = Told()
    assert told.take(hook("completed", ("context", "for the model"))) == []
    assert told.take(hook("completed", ("warning", "mind the gap"))) == ["• Hook PreToolUse completed: mind the gap"]
    assert told.take(hook("blocked", ("stop", "not on Fridays"))) == ["⚠ Hook PreToolUse blocked: not on Fridays"]
    assert told.take(hook("failed")) == ["⚠ Hook PreToolUse failed"]


def test_pictures_searches_and_changes_are_a_line_each() -> None:
    told = Told()
    told.take(v1.WebSearchBegin(call_id="w1"))
    assert told.live() == ["• Searching the web"]
    assert told.take(v1.WebSearchEnd(call_id="w1", query="python 3.14")) == ["• Searched the web: python 3.14"]
    assert told.live() == []
    opened = {"type": "open_page", "url": "https://example.org/a"}
    assert told.take(v1.WebSearchEnd(call_id="w2", query="", action=opened)) == ["• Opened https://example.org/a"]
    assert told.take(v1.ViewImageToolCall(call_id="i", path=f"{CWD}/a.png")) == ["• Viewed image a.png"]
    assert told.take(v1.ThreadRolledBack(num_turns=1)) == ["• Went back by 1 turn"]


def test_the_context_that_is_left() -> None:
    told = Told()
    assert told.conversation.spending.context_left is None
    told.take(tokens(56_000, window=100_000))
    assert told.conversation.spending.context_left == 50
    told.take(tokens(500_000, window=100_000))
    assert told.conversation.spending.context_left == 0


# ---- plain mode ----------------------------------------------------------------------------------


def test_plain_mode_uses_words() -> None:
    told = Told(words=True, cost=lambda usage: None)
    told.begin_turn()
    shown = told.take(
        v1.UserMessage(message="hello"),
        begin("make"),
        v1.Warning(message="careful"),
        delta("One.\n\nTwo."),
        said("One.\n\nTwo."),
        v1.PlanUpdate(plan=[{"step": "Look", "status": "completed"}, {"step": "Mend", "status": "pending"}]),
        v1.Error(message="no"),
    )
    told.conversation.note_answer(asked("make"), "denied")
    shown += told.take(end("make", "bad\n", 3), done())
    assert shown == [
        "You: hello",
        "Warning: careful",
        "Agent: One.",
        "  Two.",
        "Error: no",
        "Answer: refused: make (not run)",
        "Command (exit 3, 200ms): make",
        "    bad",
        "Plan (1/2 done):",
        "  [done] Look",
        "  [open] Mend",
        "Turn: Worked for 0ms",
    ]


def test_usage_that_is_no_usage_is_left_out() -> None:
    told = Told()
    told.take(v1.TokenCount(info={"total_token_usage": {"input_tokens": "many"}, "last_token_usage": None}))
    assert told.conversation.spending.total == TokenUsage()


def test_a_call_that_came_to_nothing_is_told_with_its_reason() -> None:
    failed = ToolCallFailed(call_id="c1", tool="apply_patch", message="verification failed:\nno such\x1b[2J line\n")
    assert Told().take(failed) == ["✗ apply_patch failed: verification failed:", "  no such⟨U+001B⟩[2J line"]
