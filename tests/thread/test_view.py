from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from messages import every_kind
from spindle.protocol.items import assistant_message, user_message
from spindle.thread import view
from spindle.thread.history import History
from spindle.thread.reading import read_rollout
from spindle.thread.store import ThreadStore

SPOKEN = ("user_message", "agent_message", "agent_reasoning", "agent_reasoning_raw_content")


def spoken(records) -> list[tuple[str, str]]:
    return [
        (event["type"], event.get("message") or event.get("text"))
        for event in view.initial_messages(records)
        if event["type"] in SPOKEN
    ]


def test_both_generations_show_the_same_conversation(place: Callable[[str], Path]) -> None:
    old = read_rollout(str(place("codex-0.101.0.jsonl"))).records
    new = read_rollout(str(place("codex-0.166.0.jsonl"))).records
    conversation = [
        ("user_message", "Please add a file"),
        ("agent_reasoning", "**Looking around**"),
        ("agent_message", "I will add a file."),
        ("agent_message", "Done: added.txt is there."),
        ("user_message", "And list the folder"),
        ("agent_reasoning", "**Checking**"),
        ("agent_message", "It lists two files."),
    ]
    assert spoken(old) == conversation
    assert [entry for entry in spoken(new) if entry != ("agent_reasoning_raw_content", "raw thought")] == conversation
    assert view.preview(old) == view.preview(new) == "Please add a file"


@pytest.mark.parametrize("name", ["codex-0.101.0.jsonl", "codex-0.101.0-fork.jsonl", "codex-0.166.0.jsonl"])
def test_every_replayed_message_is_one_a_client_knows(place: Callable[[str], Path], name: str) -> None:
    known = ("context_compacted", "undo_completed", "entered_review_mode", "exited_review_mode")
    kinds = {kind.__struct_config__.tag: kind for kind in every_kind()}
    for event in view.initial_messages(read_rollout(str(place(name))).records):
        assert event["type"] in known or msgspec.convert(event, kinds[event["type"]]), event


def test_commands_and_patches_of_the_current_generation_become_end_events(place: Callable[[str], Path]) -> None:
    events = view.initial_messages(read_rollout(str(place("codex-0.166.0.jsonl"))).records)
    commands = [event for event in events if event["type"] == "exec_command_end"]
    assert [(event["call_id"], event["exit_code"], event["aggregated_output"], event["cwd"]) for event in commands] == [
        ("call_1", 0, "one\ntwo\n", "/home/dev/project"),
        ("call_3", 3, "added.txt\nnotes.txt\n", "/home/dev/project"),
    ]
    patch = next(event for event in events if event["type"] == "patch_apply_end")
    assert patch["success"] and patch["changes"] == {
        "/home/dev/project/added.txt": {"type": "add", "content": "hello\n"}
    }


def test_turns_that_were_rolled_back_are_not_shown(place: Callable[[str], Path]) -> None:
    records = read_rollout(str(place("codex-0.101.0-fork.jsonl"))).records
    said = [text for kind, text in spoken(records) if kind == "user_message"]
    assert said == ["Please add a file", "And list the folder", "Only in the fork", "Wait a while"]
    assert [turn.status for turn in view.transcript(records)] == ["completed"] * 4 + ["interrupted"]


def test_a_transcript_has_turns_with_items(place: Callable[[str], Path]) -> None:
    turns = view.transcript(read_rollout(str(place("codex-0.166.0.jsonl"))).records)
    assert [[item["type"] for item in turn.items] for turn in turns] == [
        ["UserMessage", "Reasoning", "CommandExecution", "AgentMessage", "FileChange", "AgentMessage"],
        ["UserMessage", "Reasoning", "CommandExecution", "AgentMessage"],
    ]
    assert turns[0].id == "01a1e0b3-cfa1-7040-8c70-300931d0f7d8"
    assert turns[0].items[-1]["id"] == "msg_2"
    assert (turns[0].started_at, turns[0].completed_at) == ("2026-11-15T19:34:02.960Z", "2026-11-15T19:34:03.534Z")


def test_a_file_of_items_alone_is_shown_from_its_items() -> None:
    history = History()
    history.append_item(user_message("<environment_context></environment_context>"))
    history.append_item(user_message("question"))
    history.append_item({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]})
    history.append_item(assistant_message("answer"))
    history.append_item(user_message("second"))
    history.append_event({"type": "user_message", "message": "second"})
    history.append_item(assistant_message("reply"))
    assert spoken(history.records) == [
        ("user_message", "question"),
        ("agent_reasoning", "hm"),
        ("agent_message", "answer"),
        ("user_message", "second"),
        ("agent_message", "reply"),
    ]
    assert [[item["type"] for item in turn.items] for turn in view.transcript(history.records)] == [
        ["UserMessage", "Reasoning", "AgentMessage"],
        ["UserMessage", "AgentMessage"],
    ]


def test_what_is_shown_follows_bookmarks(record, store: ThreadStore) -> None:
    history = record.start()
    record.turn(history, "q1", "a1", "r1")
    record.turn(history, "q2", "a2", "r2")
    history.cut_to_bookmark("r1")
    record.turn(history, "q3", "a3", "r3")
    assert [text for _, text in spoken(history.records)] == ["q1", "a1", "q3", "a3"]
    history.cut_to_bookmark("r2")
    history.close()
    assert [text for _, text in spoken(history.records)] == ["q1", "a1", "q2", "a2"]
    assert [len(turn.items) for turn in view.transcript(history.records)] == [2, 2]
    assert history.thread_id is not None
    assert spoken(store.read(store.get(history.thread_id)).records) == spoken(history.records)


def test_what_a_message_mentions_and_where_its_turn_comes_from_are_read_from_codex_too() -> None:
    text = {"type": "text", "text": "look", "text_elements": []}
    mentions = [
        {"type": "skill", "name": "demo", "path": "/SKILL.md"},
        {"type": "mention", "name": "x", "path": "app://x"},
    ]
    said = {"type": "UserMessage", "id": "u1", "client_id": "mine", "content": [text, *mentions]}
    history = History()
    origin = {"turn_id": "t1", "turn_trigger": None, "parent_turn_id": None, "root_turn_id": "r1"}
    history.append_event({"type": "task_started", "turn_id": "t1", "turn_attribution": origin})
    history.append_event({"type": "item_completed", "thread_id": "x", "turn_id": "t1", "item": said})
    (shown,) = view.transcript(history.records)
    assert (shown.id, shown.root_id) == ("t1", "r1")
    assert shown.items == [{"type": "UserMessage", "id": "u1", "content": [{**text, "client_id": "mine"}, *mentions]}]


def test_a_plan_is_replayed_and_hides_the_message_that_held_it() -> None:
    history = History()
    history.append_item(user_message("plan it"))
    history.append_event({"type": "user_message", "message": "plan it"})
    plan = {"type": "item_completed", "turn_id": "t", "item": {"type": "Plan", "id": "t-plan", "text": "# T"}}
    history.append_event(plan)
    history.append_item(assistant_message("<proposed_plan>\n# T\n</proposed_plan>"))
    assert view.initial_messages(history.records)[1:] == [plan]


@pytest.mark.parametrize(
    ("texts", "preview"),
    [
        (["<image>", "</image>", "look at this"], "look at this"),
        (["<image name=[Image #1]>", "</image>", "what is <image> here?"], "what is <image> here?"),
        (["<image>", "</image>"], "[Image]"),
    ],
)
def test_what_stands_around_a_picture_for_the_model_is_nobodys_words(texts: list[str], preview: str) -> None:
    history = History()
    opening, *rest = ({"type": "input_text", "text": text} for text in texts)
    picture = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    history.append_item({"type": "message", "role": "user", "content": [opening, picture, *rest]})
    assert view.preview(history.records) == preview
    assert view.initial_messages(history.records)[0]["message"] == preview


def test_a_thread_without_a_message_of_a_person_has_no_preview() -> None:
    history = History()
    history.append_item(user_message("<environment_context></environment_context>"))
    assert view.preview(history.records) is None
