from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spindle.errors import ThreadError
from spindle.protocol.clock import FixedClock
from spindle.protocol.items import assistant_message, developer_message, item_text, user_message
from spindle.thread.entry import FOREIGN_METADATA, Record
from spindle.thread.history import History
from spindle.thread.reading import read_rollout
from spindle.thread.rollout import RolloutWriter
from spindle.thread.store import ThreadStore
from thread.conftest import new_file

THREAD = "019f0000-0000-7000-8000-0000000000aa"
META = {"id": THREAD, "timestamp": "", "cwd": "/w", "originator": "x", "cli_version": "1"}


def texts(history: History) -> list[str]:
    """The text of each message, the type of every other item."""
    return [
        item_text(entry.item) if entry.item["type"] == "message" else entry.item["type"] for entry in history.entries
    ]


def state(history: History) -> tuple[Any, ...]:
    """Everything that a later turn depends on."""
    return (
        [entry.raw for entry in history.entries],
        [entry.item for entry in history.entries],
        history.user_turn_count,
        history.last_turn_context,
        history.token_info,
        history.model,
    )


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / f"rollout-2026-11-15T10-00-00-{THREAD}.jsonl")


@pytest.fixture
def history(path: str, clock: FixedClock):
    history = History(RolloutWriter(path, clock))
    history.append_meta(META)
    yield history
    history.close()


def reread(path: str) -> History:
    return History.replay(read_rollout(path))


def turn(history: History, number: int, model: str = "m") -> None:
    """Changed settings, a question, its settings record, an answer, a bookmark."""
    history.append_item(developer_message(f"<permissions instructions>{model}"))
    history.append_item(user_message(f"q{number}"))
    history.append_turn_context({"turn_id": f"t{number}", "model": model})
    history.append_item(assistant_message(f"a{number}"))
    history.append_bookmark(f"r{number}")
    history.append_event({"type": "task_complete", "turn_id": f"t{number}", "response_id": f"r{number}"})


# ---- files of the reference program ----


def test_a_file_of_the_older_generation_is_replayed(place: Callable[[str], Path]) -> None:
    history = History.replay(read_rollout(str(place("codex-0.101.0.jsonl"))))
    context = ["<permissions", "# AGENTS.md ", "<environment"]
    assert [text[:12] for text in texts(history)] == [
        *context,
        "Please add a",
        "reasoning",
        "function_cal",
        "function_cal",
        "I will add a",
        "custom_tool_",
        "custom_tool_",
        "Done: added.",
        *context,
        "And list the",
        "reasoning",
        "function_cal",
        "function_cal",
        "It lists two",
    ]
    assert history.user_turn_count == 2
    assert history.base_instructions == "Text of the recorded program."
    assert history.model == "gpt-5.2-codex"
    assert history.token_info is not None and history.token_info["total_token_usage"]["total_tokens"] == 550


def test_a_file_of_the_current_generation_is_replayed_without_its_metadata(place: Callable[[str], Path]) -> None:
    path = place("codex-0.166.0.jsonl")
    assert FOREIGN_METADATA.encode() in path.read_bytes()
    history = History.replay(read_rollout(str(path)))
    assert not any(FOREIGN_METADATA.encode() in entry.raw for entry in history.entries)
    assert [text[:12] for text in texts(history)] == [
        "<skills_inst",
        "<environment",
        "Please add a",
        "reasoning",
        "function_cal",
        "function_cal",
        "I will add a",
        "custom_tool_",
        "custom_tool_",
        "Done: added.",
        "And list the",
        "reasoning",
        "function_cal",
        "function_cal",
        "It lists two",
    ]
    assert len(history.entries[0].item["content"]) == 2
    assert (history.user_turn_count, history.model) == (2, "gpt-5.5")


def test_a_fork_of_the_current_generation_begins_with_its_parents_lines(
    place: Callable[[str], Path], store: ThreadStore
) -> None:
    parent = place("codex-0.166.0.jsonl")
    fork = place("codex-0.166.0-fork.jsonl")
    lines = fork.read_bytes().splitlines(keepends=True)
    end = next(index for index, line in enumerate(lines) if b'"type":"compacted"' in line)
    fork.write_bytes(b"".join(lines[:end]))
    inherited = texts(History.replay(read_rollout(str(parent))))
    history, data = store.resume(store.get(read_rollout(str(fork)).thread_id))
    history.close()
    assert texts(history) == [*inherited, "Only in the fork", "Forked answer.", "Summary of the work so far."]
    assert data.warnings == []


def test_a_fork_does_not_see_what_its_parent_did_later(place: Callable[[str], Path], store: ThreadStore, clock) -> None:
    parent = place("codex-0.166.0.jsonl")
    path = place("codex-0.166.0-fork.jsonl")
    path.write_bytes(path.read_bytes().split(b"\n", 1)[0] + b"\n")
    fork = next(ref for ref in store.list().threads if ref.forked_from_id)
    before = History.replay(store.read(store.get(fork.id)))
    writer = RolloutWriter.reopen(str(parent), clock)
    writer.append("response_item", user_message("later"))
    writer.close()
    assert state(History.replay(store.read(store.get(fork.id)))) == state(before)
    assert texts(before)[-1] == "It lists two files."


def test_a_fork_whose_parent_is_gone_says_so_and_keeps_its_own_lines(place: Callable[[str], Path], store) -> None:
    fork = place("codex-0.166.0-fork.jsonl")
    data = store.read(store.get(read_rollout(str(fork)).thread_id))
    assert len(data.warnings) == 1 and "was not found" in data.warnings[0]
    assert "After compaction" in texts(History.replay(data))


def test_a_compaction_of_the_current_generation_replaces_the_history(place: Callable[[str], Path], store) -> None:
    place("codex-0.166.0.jsonl")
    fork = place("codex-0.166.0-fork.jsonl")
    history = History.replay(store.read(store.get(read_rollout(str(fork)).thread_id)))
    summary = "Another model began this work.\nSummary of the work so far."
    assert texts(history) == [
        "Please add a file",
        "And list the folder",
        texts(history)[2],
        texts(history)[3],
        "Only in the fork",
        summary,
        "After compaction",
        "After compaction.",
        "Wait a while",
        "function_call",
        "function_call_output",
        "<turn_aborted>\nThe turn was stopped.\n</turn_aborted>",
    ]
    # Two before and one in the fork, then two after the compaction; its summary is no turn.
    assert history.user_turn_count == 5


def test_a_compaction_without_replacement_is_rebuilt_and_a_rollback_applied(place: Callable[[str], Path]) -> None:
    history = History.replay(read_rollout(str(place("codex-0.101.0-fork.jsonl"))))
    summary = "Another model began this work.\nSummary of the work so far."
    assert [text[:30] for text in texts(history)] == [
        "<permissions instructions>\nPer",
        "# AGENTS.md instructions for /",
        "<environment_context>\n  <cwd>/",
        "Please add a file",
        "And list the folder",
        "Only in the fork",
        summary[:30],
        # "After compaction" was rolled back.
        "Wait a while",
        "function_call",
        "function_call_output",
        "<turn_aborted>\nThe turn was st",
    ]
    assert history.user_turn_count == 4


# ---- the fold ----


def test_rollback_drops_the_last_real_turns_and_keeps_what_stood_before_them(history: History, path: str) -> None:
    turn(history, 1)
    history.append_item(user_message("<turn_aborted>x</turn_aborted>"))
    turn(history, 2)
    turn(history, 3)
    generation = history.generation
    history.append_rolled_back(2)
    settings_message = "<permissions instructions>m"
    assert texts(history) == [settings_message, "q1", "a1", "<turn_aborted>x</turn_aborted>", settings_message]
    assert history.generation == generation + 1
    assert history.user_turn_count == 1
    assert state(reread(path)) == state(history)


def test_rolling_back_more_turns_than_there_are_keeps_only_the_context(history: History, path: str) -> None:
    turn(history, 1)
    turn(history, 2)
    history.append_rolled_back(9)
    assert texts(history) == ["<permissions instructions>m"]
    assert state(reread(path)) == state(history)


def test_appending_does_not_count_as_a_change_of_the_list(history: History) -> None:
    turn(history, 1)
    turn(history, 2)
    assert history.generation == 0


def test_after_a_rollback_the_settings_are_those_the_list_still_tells(history: History, path: str) -> None:
    turn(history, 1, "m1")
    turn(history, 2, "m2")
    turn(history, 3, "m3")
    history.append_rolled_back(2)
    # The message about m2 stands before the second question and stays; the one about m3 is gone.
    assert texts(history)[-1] == "<permissions instructions>m2"
    assert history.model == "m2" == reread(path).model
    history.append_rolled_back(1)
    assert texts(history) == ["<permissions instructions>m1"]
    assert history.model == "m1" == reread(path).model


def test_a_bookmark_leads_back_to_the_state_after_its_response(history: History, path: str) -> None:
    turn(history, 1, "m1")
    expected = texts(history)
    turn(history, 2, "m2")
    turn(history, 3, "m3")
    assert history.cut_to_bookmark("r1") == 2
    assert texts(history) == expected
    assert history.model == "m1"
    assert state(reread(path)) == state(history)


def test_a_cut_is_one_line_that_other_readers_take_for_a_rollback(history: History) -> None:
    turn(history, 1)
    turn(history, 2)
    before = len(history.records)
    history.cut_to_bookmark("r1")
    assert [(record.kind, record.payload) for record in history.records[before:]] == [
        ("event_msg", {"type": "thread_rolled_back", "num_turns": 1, "spindle_bookmark": "r1"})
    ]


def test_cutting_to_where_the_thread_stands_does_nothing(history: History) -> None:
    turn(history, 1)
    before = len(history.records)
    assert history.cut_to_bookmark("r1") == 0
    assert (len(history.records), history.generation) == (before, 0)


def test_a_branch_that_was_left_can_be_taken_up_again(history: History, path: str) -> None:
    turn(history, 1)
    turn(history, 2)
    left = texts(history)
    history.cut_to_bookmark("r1")
    turn(history, 3)
    other = texts(history)
    history.cut_to_bookmark("r2")
    assert texts(history) == left
    assert state(reread(path)) == state(history)
    history.cut_to_bookmark("r3")
    assert texts(history) == other
    assert state(reread(path)) == state(history)
    # For readers that know no bookmarks the last line holds the list itself.
    last = history.records[-1]
    assert last.kind == "compacted"
    assert last.payload["replacement_history"] == [entry.item for entry in history.entries]


def test_a_bookmark_before_a_compaction_still_leads_back(history: History, path: str) -> None:
    turn(history, 1)
    turn(history, 2)
    before = texts(history)
    history.append_compacted("summary", [user_message("q1"), user_message("summary")])
    turn(history, 3)
    history.cut_to_bookmark("r2")
    assert texts(history) == before
    assert state(reread(path)) == state(history)


def test_a_cut_in_the_middle_of_a_turn_is_exact_when_read_again(history: History, path: str) -> None:
    turn(history, 1)
    history.append_item(user_message("q2"))
    history.append_item(assistant_message("half"))
    history.append_bookmark("mid")
    history.append_item(assistant_message("rest"))
    assert history.cut_to_bookmark("mid") == 0
    assert texts(history)[-1] == "half"
    assert state(reread(path)) == state(history)


def test_the_end_of_a_turn_is_a_bookmark_too(history: History, path: str) -> None:
    history.append_item(user_message("q"))
    history.append_event({"type": "task_complete", "turn_id": "t", "response_id": "resp"})
    history.append_item(user_message("q2"))
    again = reread(path)
    again.cut_to_bookmark("resp")
    assert texts(again) == ["q"]


def test_an_unknown_bookmark_is_an_error_and_changes_nothing(history: History) -> None:
    turn(history, 1)
    with pytest.raises(ThreadError, match="no response 'nope' is recorded"):
        history.cut_to_bookmark("nope")
    assert len(history.entries) == 3


def test_a_compaction_replaces_the_list_and_its_summary_is_no_turn(history: History, path: str) -> None:
    turn(history, 1)
    turn(history, 2)
    replacement = [developer_message("<permissions instructions>m"), user_message("q1"), user_message("S\nsummary")]
    history.append_compacted("S\nsummary", replacement)
    assert [entry.item for entry in history.entries] == replacement
    assert (history.user_turn_count, history.generation, history.model) == (1, 1, "m")
    assert state(reread(path)) == state(history)


def test_long_messages_are_cut_in_the_middle_when_a_compaction_is_rebuilt(history: History, path: str) -> None:
    for text in ("forgotten", "old " + "é" * 60_000, "n" * 4_000):
        history.append_item(user_message(text))
    history.append_item(assistant_message("gone"))
    assert history.writer is not None
    history.writer.append("compacted", {"message": "sum"})
    kept = texts(reread(path))
    assert [text[:4] for text in kept] == ["old ", "nnnn", "sum"]
    assert kept[0].startswith("old éé") and kept[0].endswith("éé") and "…11001 tokens truncated…" in kept[0]
    assert kept[1] == "n" * 4_000


def test_a_rebuilt_compaction_keeps_the_latest_context_and_drops_the_earlier_summary(
    history: History, path: str
) -> None:
    turn(history, 1, "m1")
    turn(history, 2, "m2")
    history.append_item(user_message("<skill>once</skill>"))
    assert history.writer is not None
    history.writer.append("compacted", {"message": "first summary"})
    history.writer.append("compacted", {"message": ""})
    assert texts(reread(path)) == ["<permissions instructions>m2", "q1", "q2", "(no summary available)"]


def test_the_bytes_of_an_item_are_never_written_anew(path: str, clock: FixedClock) -> None:
    odd = b'{"type" : "message","role":"user","content":[{"type":"input_text","text":"\\u00e9\\/"}],"n":1.0e2}'
    writer = new_file(path, clock)
    writer.append("session_meta", META)
    writer.append("response_item", odd)
    writer.close()
    assert [entry.raw for entry in reread(path).entries] == [odd]


def test_a_thread_without_a_file_folds_the_same_way(history: History, path: str) -> None:
    memory = History()
    for thread in (history, memory):
        turn(thread, 1)
        turn(thread, 2)
        thread.cut_to_bookmark("r1")
    assert state(memory) == state(history) == state(reread(path))


TEXT = st.text(max_size=30)
STEPS = st.one_of(
    st.tuples(st.just("user"), TEXT),
    st.tuples(st.just("context"), TEXT),
    st.tuples(st.just("assistant"), TEXT),
    st.tuples(
        st.just("item"), st.dictionaries(TEXT, st.none() | st.booleans() | st.integers(-9, 9) | TEXT, max_size=3)
    ),
    st.tuples(st.just("settings"), st.sampled_from(["m1", "m2"])),
    st.tuples(st.just("tokens"), st.integers(0, 9)),
    st.tuples(st.just("mark"), st.sampled_from("abc")),
    st.tuples(st.just("cut"), st.sampled_from("abc")),
    st.tuples(st.just("rollback"), st.integers(0, 3)),
    st.tuples(st.just("compact"), st.lists(TEXT, max_size=3)),
)


def perform(history: History, step: tuple[str, Any]) -> None:
    match step:
        case ("user", text):
            history.append_item(user_message(text))
        case ("context", text):
            history.append_item(user_message(f"<environment_context>{text}"))
        case ("assistant", text):
            history.append_item(assistant_message(text))
        case ("item", fields):
            history.append_item({"type": "other", **fields})
        case ("settings", model):
            history.append_turn_context({"model": model})
        case ("tokens", count):
            history.append_event({"type": "token_count", "info": {"total": count} if count else None})
        case ("mark", response_id):
            history.append_bookmark(response_id)
        case ("cut", response_id) if history.has_bookmark(response_id):
            history.cut_to_bookmark(response_id)
        case ("rollback", count):
            history.append_rolled_back(count)
        case ("compact", kept):
            history.append_compacted("sum", [*map(user_message, kept), user_message("sum")])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, max_size=25))
def test_whatever_was_recorded_reads_back_as_the_same_list(tmp_path_factory, steps: list[tuple[str, Any]]) -> None:
    path = str(tmp_path_factory.mktemp("p") / f"rollout-2026-11-15T10-00-00-{THREAD}.jsonl")
    history = History(new_file(path, FixedClock()))
    history.append_meta(META)
    for step in steps:
        perform(history, step)
    history.close()
    data = read_rollout(path)
    assert (data.skipped, data.torn) == (0, False)
    assert state(History.replay(data)) == state(history)


def count(total: int, last: int, **fields: int) -> dict[str, Any]:
    usage = {"input_tokens": last, "total_tokens": last, **fields}
    return {"type": "token_count", "info": {"total_token_usage": {"total_tokens": total}, "last_token_usage": usage}}


def test_outputs_that_a_count_follows_are_not_in_it() -> None:
    history = History()
    history.append_item(user_message("P"))
    history.append_item({"type": "function_call", "name": "x", "arguments": "{}", "call_id": "c"})
    history.append_item({"type": "function_call_output", "call_id": "c", "output": "much"})
    history.append_event(count(100, 100))
    assert history.counted == (0, 2)
    history.append_item(assistant_message("one"))
    history.append_event(count(100, 100))  # told again, by a server that counted nothing
    assert history.counted == (0, 2)
    history.append_event(count(300, 200))
    assert history.counted == (0, 4)
    call = {"type": "function_call_output", "call_id": "c", "output": "much"}
    history.append_compacted("S", [user_message("P"), call])
    history.append_event(count(300, 0, total_tokens=50))  # an estimate of all there is
    assert history.counted == (1, 2)


def test_compactions_that_only_have_a_number_are_counted_once() -> None:
    history = History()
    payload = b'{"message":"S%d","replacement_history":[],"window_number":%d}'
    for number in (1, 2):
        history._fold(Record("compacted", payload % (number, number), ""))
    assert history.compaction_count == 2
    history.append_event({"type": "context_compacted"})  # by a program that does both
    assert history.compaction_count == 2
    history.append_compacted("S3", [])
    history.append_event({"type": "context_compacted"})
    assert history.compaction_count == 3


@pytest.mark.parametrize("kind", [b"[]", b"{}", b"5", b"null"])
def test_what_has_no_type_is_no_item(kind: bytes) -> None:
    history = History()
    history._fold(Record("response_item", b'{"type":%s,"role":"user"}' % kind, ""))
    history._fold(Record("compacted", b'{"message":"S","replacement_history":[{"type":%s}]}' % kind, ""))
    assert not history.entries
