"""The JSON lines of exec, event by event."""

from __future__ import annotations

from typing import Any

from spindle.frontends.exec.jsonl import JsonlTranslator, encode_line
from spindle.protocol.events import (
    Duration,
    Error,
    ExecCommandBegin,
    ExecCommandEnd,
    ItemCompleted,
    Msg,
    PatchApplyBegin,
    PatchApplyEnd,
    PlanUpdate,
    SessionConfigured,
    StreamError,
    TaskComplete,
    TaskStarted,
    TokenCount,
    Warning,
    WebSearchBegin,
    WebSearchEnd,
    usage_info,
)
from spindle.protocol.outside import NOTHING
from spindle.protocol.request import TokenUsage


def lines(*msgs: Msg) -> list[dict[str, Any]]:
    translator = JsonlTranslator()
    return [line for msg in msgs for line in translator.translate(msg)]


def agent(text: str) -> Msg:
    item = {"type": "AgentMessage", "id": "m", "content": [{"type": "Text", "text": text}]}
    return ItemCompleted(thread_id="t", turn_id="u", item=item)


def begin(call_id: str) -> Msg:
    return ExecCommandBegin(
        call_id=call_id, turn_id="u", command=["/bin/bash", "-lc", "echo 'hi'"], cwd="/w", parsed_cmd=[]
    )


def end(call_id: str, code: int, output: str) -> Msg:
    return ExecCommandEnd(
        call_id=call_id,
        turn_id="u",
        command=["/bin/bash", "-lc", "echo 'hi'"],
        cwd="/w",
        parsed_cmd=[],
        stdout=output,
        aggregated_output=output,
        exit_code=code,
        duration=Duration(0, 1),
        formatted_output=output,
    )


DONE = TaskComplete(turn_id="u", last_agent_message="x")
NO_USAGE = {
    "input_tokens": 0,
    "cached_input_tokens": 0,
    "cache_write_input_tokens": 0,
    "output_tokens": 0,
    "reasoning_output_tokens": 0,
}


def test_a_plain_turn() -> None:
    configured = SessionConfigured(
        session_id="t", model="m", model_provider_id="p", approval_policy="never", sandbox_policy={}, cwd="/w"
    )
    usage = TokenUsage(input_tokens=5, cached_input_tokens=2, output_tokens=3, reasoning_output_tokens=1)
    assert lines(
        configured,
        TaskStarted(turn_id="u", model_context_window=None),
        agent("Hello"),
        TokenCount(info=usage_info(usage, usage, None)),
        DONE,
    ) == [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "Hello"}},
        {
            "type": "turn.completed",
            "usage": {
                "input_tokens": 5,
                "cached_input_tokens": 2,
                "cache_write_input_tokens": 0,
                "output_tokens": 3,
                "reasoning_output_tokens": 1,
            },
        },
    ]


def test_a_command_keeps_its_number_and_a_nonzero_exit_is_a_failure() -> None:
    command = {"id": "item_0", "type": "command_execution", "command": """/bin/bash -lc 'echo '"'"'hi'"'"''"""}
    assert lines(begin("c1"), agent("meanwhile"), end("c1", 3, "hi\n")) == [
        {
            "type": "item.started",
            "item": {**command, "aggregated_output": "", "exit_code": None, "status": "in_progress"},
        },
        {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "meanwhile"}},
        {
            "type": "item.completed",
            "item": {**command, "aggregated_output": "hi\n", "exit_code": 3, "status": "failed"},
        },
    ]


def test_a_command_that_outlives_the_turn_is_closed_without_a_code() -> None:
    *_, closed, completed = lines(begin("c1"), DONE)
    assert (closed["type"], closed["item"]["status"], closed["item"]["exit_code"]) == (
        "item.completed",
        "completed",
        None,
    )
    assert completed == {"type": "turn.completed", "usage": NO_USAGE}


def test_a_patch_starts_and_completes_as_one_file_change() -> None:
    changes = {
        "/w/a": {"type": "add", "content": "x"},
        "/w/b": {"type": "update", "unified_diff": "", "move_path": None},
    }
    shown = [{"path": "/w/a", "kind": "add"}, {"path": "/w/b", "kind": "update"}]
    item = {"id": "item_0", "type": "file_change", "changes": shown}
    assert lines(
        PatchApplyBegin(call_id="c", turn_id="u", auto_approved=True, changes=changes),
        PatchApplyEnd(call_id="c", turn_id="u", stdout="", stderr="", success=False, changes=changes),
    ) == [
        {"type": "item.started", "item": {**item, "status": "in_progress"}},
        {"type": "item.completed", "item": {**item, "status": "failed"}},
    ]


def test_the_plan_is_one_list_that_is_updated_and_completed_before_the_turn_ends() -> None:
    def plan(status: str) -> Msg:
        return PlanUpdate(plan=[{"step": "a", "status": status}])

    open_list = {"id": "item_0", "type": "todo_list", "items": [{"text": "a", "completed": False}]}
    done_list = {"id": "item_0", "type": "todo_list", "items": [{"text": "a", "completed": True}]}
    assert lines(plan("pending"), plan("completed"), DONE) == [
        {"type": "item.started", "item": open_list},
        {"type": "item.updated", "item": done_list},
        {"type": "item.completed", "item": done_list},
        {"type": "turn.completed", "usage": NO_USAGE},
    ]


def test_a_failed_turn_says_why_twice_and_completes_nothing() -> None:
    assert lines(StreamError(message="Reconnecting... 1/5 (x)"), Error(message="no"), DONE) == [
        {"type": "error", "message": "Reconnecting... 1/5 (x)"},
        {"type": "error", "message": "no"},
        {"type": "turn.failed", "error": {"message": "no"}},
    ]


def test_warnings_are_error_items_and_searches_have_one_id() -> None:
    search = {"id": "item_1", "type": "web_search", "call_id": "ws_1"}
    assert lines(
        Warning(message="careful"),
        WebSearchBegin(call_id="ws_1"),
        WebSearchEnd(call_id="ws_1", query="q", action={"type": "search", "query": "q"}),
    ) == [
        {"type": "item.completed", "item": {"id": "item_0", "type": "error", "message": "careful"}},
        {"type": "item.started", "item": {**search, "query": "", "action": {"type": "other"}}},
        {"type": "item.completed", "item": {**search, "query": "q", "action": {"type": "search", "query": "q"}}},
    ]


def test_unknown_events_have_no_line() -> None:
    class Hologram(Msg, frozen=True, kw_only=True, tag="hologram"):
        outside = NOTHING

    assert lines(Hologram()) == []


def test_line_separators_of_unicode_do_not_break_a_line_in_two() -> None:
    line = encode_line({"text": "a\u2028b\u2029c é"})
    assert line == b'{"text":"a\\u2028b\\u2029c \xc3\xa9"}\n'


def test_a_path_that_is_no_text_still_makes_a_line() -> None:
    assert encode_line({"path": "/odd\udcff"}) == b'{"path":"/odd?"}\n'
