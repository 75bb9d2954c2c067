"""Events → notifications, items and answers: the pure part, with what is hard to bring about from outside."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spindle.frontends.app_server.decisions import decision_for_client, decision_from_client
from spindle.frontends.app_server.items import (
    error_info,
    file_changes,
    input_to_items,
    items_to_input,
    sandbox_of,
    sandbox_to_wire,
    shown_item,
)
from spindle.frontends.app_server.notifications import Note
from spindle.frontends.app_server.objects import SandboxPolicy, UserInput
from spindle.frontends.app_server.recorded_calls import call_item
from spindle.frontends.app_server.server_requests import ApprovalReply
from spindle.frontends.app_server.threads import page, turns_of
from spindle.frontends.app_server.translate import Put, Translator
from spindle.protocol import events, settings
from spindle.protocol.events import Duration, Event, Msg
from spindle.protocol.ops import ExecApproval
from spindle.thread.entry import Record

COMMAND: dict[str, Any] = {
    "call_id": "c1",
    "turn_id": "T",
    "command": ["ls"],
    "cwd": "/w",
    "parsed_cmd": [{"type": "list_files", "cmd": "ls", "path": None}],
}


class Thread:
    """A translator and what it has said, by method."""

    def __init__(self) -> None:
        self.translator = Translator("X", iter(f"id-{n}" for n in range(99)).__next__)
        self.said: list[Any] = []

    def hear(self, *msgs: Msg) -> list[str]:
        new = [one for msg in msgs for one in self.translator.translate(Event("T", msg), 5000)]
        self.said += new
        return [one.method if isinstance(one, Note) else one.ask.method for one in new]


@pytest.fixture
def thread() -> Thread:
    """A thread in which a turn runs."""
    running = Thread()
    running.hear(events.TaskStarted(turn_id="T", model_context_window=None))
    return running


def approval(call_id: str = "c1") -> events.ExecApprovalRequest:
    return events.ExecApprovalRequest(**{**COMMAND, "call_id": call_id}, available_decisions=["approved", "denied"])


def end(**more: Any) -> events.ExecCommandEnd:
    fields = {"stdout": "", "aggregated_output": "", "exit_code": 0, "formatted_output": "", "duration": Duration(1, 5)}
    return events.ExecCommandEnd(**{**COMMAND, **fields, **more})


def test_a_second_question_about_a_call_shows_no_second_item(thread: Thread) -> None:
    assert thread.hear(approval()) == [
        "thread/status/changed",
        "item/started",
        "item/commandExecution/requestApproval",
    ]
    assert thread.hear(approval()) == ["thread/status/changed", "item/commandExecution/requestApproval"]


def test_two_open_questions_keep_the_thread_waiting_until_both_are_answered(thread: Thread) -> None:
    thread.hear(approval("c1"), approval("c2"))
    first, second = [one for one in thread.said if isinstance(one, Put)]

    def flags() -> list[str]:
        return thread.translator.status.active_flags  # pyright: ignore[reportAttributeAccessIssue]

    assert flags() == ["waitingOnApproval"]
    thread.translator.answered(first.ask, False, 6000)
    assert flags() == ["waitingOnApproval"]
    thread.translator.answered(second.ask, False, 6000)
    assert flags() == []


def test_a_question_of_a_sub_agent_shows_no_item_of_this_thread(thread: Thread) -> None:
    question = msgspec.structs.replace(approval(), thread_id="OTHER")
    assert thread.hear(question) == ["thread/status/changed", "item/commandExecution/requestApproval"]


def test_a_patch_that_is_no_longer_the_one_that_was_shown_is_told_anew(thread: Thread) -> None:
    def changes(text: str) -> dict[str, Any]:
        return {"/w/a.txt": {"type": "add", "content": text}}

    def question(text: str) -> events.ApplyPatchApprovalRequest:
        return events.ApplyPatchApprovalRequest(call_id="c1", turn_id="T", changes=changes(text))

    def begin(text: str) -> events.PatchApplyBegin:
        return events.PatchApplyBegin(call_id="c1", turn_id="T", auto_approved=False, changes=changes(text))

    thread.hear(question("one\n"))
    asked_again = thread.hear(question("two\n"))
    assert asked_again == [
        "thread/status/changed",
        "item/fileChange/patchUpdated",
        "item/fileChange/requestApproval",
    ]
    assert thread.hear(begin("two\n")) == []
    assert thread.hear(begin("three\n")) == ["item/fileChange/patchUpdated"]
    assert msgspec.to_builtins(thread.said[-1]) == {
        "threadId": "X",
        "turnId": "T",
        "itemId": "c1",
        "changes": [{"path": "/w/a.txt", "kind": {"type": "add"}, "diff": "three\n"}],
    }
    (ask, _) = [one.ask for one in thread.said if isinstance(one, Put)]
    declined, _ = thread.translator.answered(ask, True, 6000)
    assert declined.item.changes[0].diff == "three\n"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_command_that_outlives_its_turn_is_completed_later(thread: Thread) -> None:
    thread.hear(events.ExecCommandBegin(**COMMAND))
    assert thread.hear(events.TaskComplete(turn_id="T", last_agent_message=None))[-1] == "turn/completed"
    assert thread.hear(end()) == ["item/completed"]
    note = thread.said[-1]
    assert note.turn_id == "T" and note.item.duration_ms == 1000 and note.item.started_at_ms == 5000


def test_output_is_text_also_where_a_character_is_cut_in_two(thread: Thread) -> None:
    whole = "grün".encode()
    parts = [whole[:3], whole[3:], b"\xff"]
    thread.hear(*(events.ExecCommandOutputDelta(call_id="c1", stream="stdout", chunk=part) for part in parts))
    assert [one.delta for one in thread.said[-3:]] == ["gr", "ün", "\ufffd"]


def test_an_item_that_nobody_saw_begin_begins_with_its_end(thread: Thread) -> None:
    assert thread.hear(end(call_id="c9")) == ["item/started", "item/completed"]


def test_what_fails_before_it_begins_is_told_as_a_failed_turn() -> None:
    thread = Thread()
    thread.translator.expected = "T"
    told = thread.hear(events.Error(message="no"))
    assert told[1] == "turn/started" and told[-1] == "turn/completed"
    assert thread.said[-1].turn.status == "failed" and thread.said[-1].turn.error.message == "no"
    assert Thread().hear(events.Error(message="of another op")) == []


def test_an_answer_becomes_an_op_and_no_answer_a_no(thread: Thread) -> None:
    thread.hear(approval())
    put = thread.said[-1]
    assert put.read(ApprovalReply(decision="accept")) == (ExecApproval(id="c1", decision="approved"), False)
    assert put.read(ApprovalReply(decision="cancel")) == (ExecApproval(id="c1", decision="abort"), True)
    assert put.read(None) == (ExecApproval(id="c1", decision="denied"), True)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("approved", "accept"),
        ("approved_for_session", "acceptForSession"),
        ("denied", "decline"),
        ("abort", "cancel"),
        (
            {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": ["git", "push"]}},
            {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git", "push"]}},
        ),
    ],
)
def test_decisions_go_both_ways(ours: Any, theirs: Any) -> None:
    assert decision_for_client(ours) == theirs and decision_from_client(theirs) == ours


@pytest.mark.parametrize("decision", ["approved", "yes", "", {}, {"accept": {}}, {"acceptWithExecpolicyAmendment": 1}])
def test_what_is_no_decision_is_a_no(decision: Any) -> None:
    assert decision_from_client(decision) == "denied"


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "text", "text": "hi", "text_elements": [{"byteRange": {"start": 0, "end": 2}, "placeholder": "x"}]},
        {"type": "image", "url": "https://x/y.png", "detail": None},
        {"type": "localImage", "path": "/p.png", "detail": None},
        {"type": "skill", "name": "s", "path": "/s/SKILL.md"},
        {"type": "mention", "name": "m", "path": "app://m"},
    ],
)
def test_input_goes_both_ways(wire: dict[str, Any]) -> None:
    part = msgspec.convert(wire, UserInput)
    assert items_to_input(input_to_items([part])) == [part]
    assert msgspec.to_builtins(part) == wire


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "dangerFullAccess"},
        {"type": "readOnly"},
        {"type": "externalSandbox", "networkAccess": "enabled"},
        {"type": "workspaceWrite", "writableRoots": ["/x"], "networkAccess": True, "excludeSlashTmp": True},
    ],
)
def test_sandboxes_go_both_ways(wire: dict[str, Any]) -> None:
    policy = msgspec.convert(wire, SandboxPolicy)
    assert sandbox_of(settings.SandboxPolicy.from_wire(sandbox_to_wire(policy))) == policy


def test_kinds_of_failures_are_spelled_as_clients_know_them() -> None:
    assert error_info("context_window_exceeded") == "contextWindowExceeded"
    nested = {"response_stream_disconnected": {"http_status_code": 502}}
    assert error_info(nested) == {"responseStreamDisconnected": {"httpStatusCode": 502}}
    assert error_info(None) is None


def test_changes_are_shown_with_their_diffs() -> None:
    changes = {
        "/a": {"type": "add", "content": "x"},
        "/u": {"type": "update", "unified_diff": "@@", "move_path": "/v"},
        "/odd": {"type": "what"},
    }
    shown = msgspec.to_builtins(file_changes(changes))
    assert shown == [
        {"path": "/a", "kind": {"type": "add"}, "diff": "x"},
        {"path": "/u", "kind": {"type": "update", "move_path": "/v"}, "diff": "@@\n\nMoved to: /v"},
    ]


def test_items_that_another_program_recorded_are_read() -> None:
    command = {
        "type": "CommandExecution",
        "id": "c1",
        "command": ["echo", "a b"],
        "cwd": "/w",
        "status": "completed",
        "exit_code": 0,
        "aggregated_output": "",
        "duration": {"secs": 1, "nanos": 2_000_000},
    }
    item: Any = shown_item(command)
    assert (item.command, item.status, item.duration_ms, item.aggregated_output) == (
        "echo 'a b'",
        "completed",
        1002,
        None,
    )
    assert shown_item({"type": "SomethingNew"}) is None


def record(kind: str, timestamp: str, **payload: Any) -> Record:
    return Record(kind, msgspec.json.encode(payload), timestamp)


def test_a_record_that_breaks_off_is_a_turn_that_was_interrupted() -> None:
    records = [
        record("event_msg", "2026-11-15T18:00:00.000Z", type="task_started", turn_id="T1"),
        record("event_msg", "2026-11-15T18:00:01.000Z", type="user_message", message="hi"),
        record("event_msg", "2026-11-15T18:00:02.500Z", type="task_complete", turn_id="T1", last_agent_message=None),
        record("event_msg", "2026-11-15T18:00:03.000Z", type="task_started", turn_id="T2"),
    ]
    first, second = turns_of(records, "/w")
    assert (first.status, first.duration_ms, second.status) == ("completed", 2500, "interrupted")
    assert turns_of(records, "/w", active="T2")[1].status == "inProgress"


def test_pages_lead_forwards_and_back() -> None:
    entries = list("abcde")

    def look(cursor: str | None, descending: bool = False) -> tuple[list[str], str | None, str | None]:
        return page(entries, entries, cursor=cursor, limit=2, descending=descending)

    assert look(None) == (["a", "b"], ">b", "=a")
    assert look(">b") == (["c", "d"], ">d", "=c")
    assert look(">d") == (["e"], None, "=e")
    assert look("=c", descending=True) == (["c", "b"], ">b", "=c")
    assert page([], [], cursor=None, limit=2, descending=False) == ([], None, None)


@pytest.mark.parametrize(
    ("output", "status", "shown", "exit_code"),
    [
        ("Chunk ID: a\nWall time: 0.5000 seconds\nProcess exited with code 0\nOutput:\n", "completed", None, 0),
        ("Wall time: 0.5000 seconds\nProcess running with session ID 7\nOutput:\nso far", "completed", "so far", None),
        ("aborted by user after 0.5s", "failed", "aborted by user after 0.5s", None),
        ("exec command rejected by user", "failed", "exec command rejected by user", None),
    ],
)
def test_what_came_of_a_command_is_read_from_its_output(
    output: str, status: str, shown: str | None, exit_code: int | None
) -> None:
    arguments = '{"cmd": "cat a.txt", "shell": "/bin/sh"}'
    called = {"type": "function_call", "name": "exec_command", "call_id": "c1", "arguments": arguments}
    answer = {"type": "function_call_output", "call_id": "c1", "output": output}
    ran: Any = call_item({"type": "Call", "call": called, "output": answer}, "/w")
    assert (ran.command, ran.source) == ("/bin/sh -lc 'cat a.txt'", "unifiedExecStartup")
    assert ran.command_actions == [{"type": "read", "command": "cat a.txt", "name": "a.txt", "path": "a.txt"}]
    assert (ran.status, ran.aggregated_output, ran.exit_code) == (status, shown, exit_code)
    assert ran.duration_ms == (500 if "Wall time" in output else None)
    assert ran.process_id == ("7" if "session" in output else None)
