"""What an editor is shown of a thread: diffs, calls, outputs and plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import acp_shapes
from spindle.frontends.acp.commands import split
from spindle.frontends.acp.diffs import diff_contents, read_text
from spindle.frontends.acp.permissions import Asking
from spindle.frontends.acp.prompts import input_of
from spindle.frontends.acp.replay import replay
from spindle.frontends.acp.tool_calls import MAX_OUTPUT, proposed_entries
from spindle.frontends.acp.updates import Updates
from spindle.frontends.custom_prompts import CustomPrompt
from spindle.frontends.json_rpc import RpcError
from spindle.patch.diff import unified_diff
from spindle.protocol import events
from spindle.protocol.events import Duration, ExecCommandBegin, ExecCommandEnd, ExecCommandOutputDelta
from spindle.protocol.items import user_message
from spindle.protocol.ops import UserInputAnswer
from spindle.protocol.questions import RequestUserInput
from spindle.thread.history import History
from spindle.thread.reading import read_rollout

FIXTURES = Path(__file__).parents[1] / "fixtures"

lines = st.lists(st.sampled_from(["a", "b", "c", "-", "+x", "\\ No newline", ""]), max_size=12)
texts = st.builds(lambda parts, end: "\n".join(parts) + ("\n" if end and parts else ""), lines, st.booleans())


@given(texts, texts)
def test_a_diff_leads_from_the_file_to_what_it_becomes(old: str, new: str) -> None:
    changes = {"/f": {"type": "update", "unified_diff": unified_diff(old, new), "move_path": None}}
    assert diff_contents(changes, lambda path: old) == [{"type": "diff", "path": "/f", "oldText": old, "newText": new}]


def test_of_a_file_that_cannot_be_read_only_the_changed_places_are_shown() -> None:
    old, new = "".join(f"{n}\n" for n in range(20)), "".join(f"{n}\n" for n in range(20) if n != 10)
    changes = {"/f": {"type": "update", "unified_diff": unified_diff(old, new), "move_path": "/g"}}
    for present in (None, "something else\n"):
        (shown,) = diff_contents(changes, lambda path, present=present: present)
        assert (shown["path"], shown["oldText"], shown["newText"]) == ("/g", "9\n10\n11\n", "9\n11\n")


def test_new_and_deleted_files_have_one_side(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    assert diff_contents({path: {"type": "add", "content": "x\n"}}, read_text) == [
        {"type": "diff", "path": path, "oldText": None, "newText": "x\n"}
    ]
    assert diff_contents({path: {"type": "delete", "content": "x\n"}}, read_text)[0]["newText"] == ""
    Path(path).write_bytes(b"\xff\x00")
    assert read_text(path) is None and read_text(str(tmp_path)) is None


def begin(call_id: str = "c1", turn_id: str = "t") -> ExecCommandBegin:
    return ExecCommandBegin(call_id=call_id, turn_id=turn_id, command=["sh", "-c", "x"], cwd="/", parsed_cmd=[])


def end(call_id: str = "c1", turn_id: str = "t", code: int = 0) -> ExecCommandEnd:
    return ExecCommandEnd(
        call_id=call_id,
        turn_id=turn_id,
        command=["sh", "-c", "x"],
        cwd="/",
        parsed_cmd=[],
        stdout="",
        aggregated_output="out",
        exit_code=code,
        duration=Duration(0, 0),
        formatted_output="",
    )


def told(*msgs: Any) -> list[tuple[str, Any]]:
    updates = Updates(lambda call_id: [])
    return [
        (update["sessionUpdate"], update.get("status"))
        for msg in msgs
        for update in updates.of(msg)
        if update["sessionUpdate"].startswith("tool_call")
    ]


STARTED = events.TaskStarted(turn_id="t", model_context_window=None)
DONE = events.TaskComplete(turn_id="t", last_agent_message=None)


def test_a_call_is_begun_once_and_ended_once() -> None:
    assert told(STARTED, begin(), end(), DONE) == [("tool_call", "in_progress"), ("tool_call_update", "completed")]
    # Nobody saw it begin: it was refused before it could.
    assert told(STARTED, end(code=-1), DONE) == [("tool_call", "in_progress"), ("tool_call_update", "failed")]
    stopped = events.TurnAborted(turn_id="t", reason="interrupted")
    assert told(STARTED, begin(), stopped, end()) == [("tool_call", "in_progress"), ("tool_call_update", "failed")]


def test_a_command_that_outlives_its_turn_is_not_shown_again_and_an_id_may_come_again() -> None:
    again = events.TaskStarted(turn_id="u", model_context_window=None)
    assert told(STARTED, begin(), DONE, again, end(), begin(turn_id="u"), end(turn_id="u")) == [
        ("tool_call", "in_progress"),
        ("tool_call_update", "completed"),
        ("tool_call", "in_progress"),
        ("tool_call_update", "completed"),
    ]


def test_output_grows_and_what_is_sent_of_it_stays_in_proportion() -> None:
    updates = Updates(lambda call_id: [])
    updates.of(STARTED)
    updates.of(begin())
    sent = [
        update["content"][0]["content"]["text"]
        for _ in range(4000)
        for update in updates.of(ExecCommandOutputDelta(call_id="c1", stream="stdout", chunk=b"x" * 250))
    ]
    assert sent[0] == "x" * 250 and len(sent[-1]) >= MAX_OUTPUT
    assert sum(map(len, sent)) < 8 * 4000 * 250


@pytest.mark.parametrize(
    ("chosen", "answers"),
    [
        (["1", "denied"], {"q1": {"answers": ["Blue"]}}),
        (["denied", "0"], {"q2": {"answers": ["Red"]}}),
        (["denied", "denied"], None),
        (["1", None], None),
    ],
)
async def test_a_question_may_be_left_out(chosen: list[str | None], answers: dict[str, Any] | None) -> None:
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    questions = [
        {"id": name, "header": "Colour", "question": "Which one?", "options": options} for name in ("q1", "q2")
    ]
    left = list(chosen)

    class Peer:
        async def request(self, method: str, params: Any) -> Any:
            option = left.pop(0)
            outcome = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
            return {"outcome": outcome}

    peer: Any = Peer()
    asked = RequestUserInput(call_id="c1", turn_id="t", questions=questions)
    answer = await Asking(peer, "s", lambda call_id: [], has_forms=False).ask(asked)
    assert answer.op == UserInputAnswer(id="c1", response={} if answers is None else {"answers": answers})


@pytest.mark.parametrize(("data", "kind"), [("not base64!", "image/png"), ("", "image/png"), ("aGk=", "text/html")])
def test_a_picture_that_is_none_is_refused_before_a_server_refuses_the_thread(data: str, kind: str) -> None:
    with pytest.raises(RpcError, match="an image needs"):
        input_of([{"type": "image", "data": data, "mimeType": kind}])


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        (["look at ", "@/a.py", "please"], "look at /a.py please"),
        (["look at", "@/a.py", ", please"], "look at /a.py, please"),
        (["/review", "the tests"], "/review\nthe tests"),
        (["one\n", "two"], "one\ntwo"),
        (["@/a.py", "@/b.py"], "/a.py /b.py"),
    ],
)
def test_the_parts_of_a_prompt_do_not_run_into_each_other(blocks: list[str], text: str) -> None:
    parts = [
        {"type": "resource_link", "uri": f"file://{block[1:]}"} if block[0] == "@" else {"type": "text", "text": block}
        for block in blocks
    ]
    assert input_of(parts) == (text, [])


@pytest.mark.parametrize("file", sorted(FIXTURES.glob("*/*.jsonl")), ids=lambda file: file.stem)
def test_every_record_is_shown_in_the_words_of_the_protocol(file: Path) -> None:
    updates = list(replay(read_rollout(str(file)).records, "/work", {}))
    assert updates
    for update in updates:
        acp_shapes.check({"method": "session/update", "params": {"sessionId": "s", "update": update}}, None)
    begun = [update["toolCallId"] for update in updates if update["sessionUpdate"] == "tool_call"]
    ended = [update["toolCallId"] for update in updates if update["sessionUpdate"] == "tool_call_update"]
    assert begun == ended


def test_a_command_that_the_person_ran_is_shown_too() -> None:
    history = History()
    told = "<command>\ncat f\n</command>\n<result>\nExit code: 1\nDuration: 0.1 seconds\nOutput:\nno f\n</result>"
    history.append_item(user_message(f"<user_shell_command>\n{told}\n</user_shell_command>"))
    begun, ended = replay(history.records, "/work", {})
    assert (begun["title"], begun["kind"], ended["status"]) == ("cat f", "execute", "failed")
    assert ended["content"][0]["content"]["text"] == "no f"


def test_what_another_program_recorded_as_events_is_shown_like_a_call() -> None:
    updates = list(replay(read_rollout(str(FIXTURES / "rollouts" / "codex-0.166.0.jsonl")).records, "/work", {}))
    reading, patch, failing = (update for update in updates if update["sessionUpdate"] == "tool_call")
    assert (reading["kind"], reading["locations"]) == ("read", [{"path": "/home/dev/project/notes.txt"}])
    (added,) = patch["content"]
    assert (added["path"], added["oldText"], added["newText"]) == ("/home/dev/project/added.txt", None, "hello\n")
    assert failing["kind"] == "execute" and updates[-2]["status"] == "failed"


def test_a_plan_that_is_proposed_is_shown_by_its_points() -> None:
    plan = "# Plan\n\n1. Look\n   - at all of it\n2. Write\n"
    assert [entry["content"] for entry in proposed_entries(plan)] == ["Look", "Write"]
    assert [entry["content"] for entry in proposed_entries("just do it")] == ["just do it"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("/plan the move", ("plan", "the move")),
        ("/status", ("status", "")),
        ("/a\nb c", ("a", "b c")),
        ("/", ("", "")),
        ("no /plan", ("", "no /plan")),
    ],
)
def test_a_command_is_what_stands_at_the_beginning(text: str, parts: tuple[str, str]) -> None:
    assert split(text) == parts


@pytest.mark.parametrize(
    ("text", "argument", "sent"),
    [
        ("Fix $1 in $2", "'a b' c", "Fix a b in c"),
        ("Do: $ARGUMENTS", "x y", "Do: x y"),
        ("Costs $$5", "", "Costs $5"),
        ("Plain", "more", "Plain\n\nmore"),
        ("Only $3", "one", "Only "),
    ],
)
def test_a_prompt_of_the_user_is_filled_in(text: str, argument: str, sent: str) -> None:
    assert CustomPrompt(name="p", text=text).filled_in(argument) == sent
