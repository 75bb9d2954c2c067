from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from spindle.errors import ThreadError, ThreadLocked, ThreadNotFound
from spindle.protocol.clock import FixedClock
from spindle.protocol.items import user_message
from spindle.thread.history import History
from spindle.thread.listing import ThreadFilter, ThreadOrder
from spindle.thread.offload import store_output
from spindle.thread.reading import read_bytes
from spindle.thread.store import ThreadRef, ThreadStore
from spindle.thread.view import initial_messages, transcript


def said(store: ThreadStore, ref: ThreadRef) -> list[str]:
    history = History.replay(store.read(ref))
    return [entry.item["content"][0]["text"] for entry in history.entries]


def ids(page) -> list[str]:
    return [thread.id for thread in page.threads]


# ---- finding ----


def test_a_thread_is_found_by_id_and_by_name(store: ThreadStore, record) -> None:
    first = record.thread(("q", "a", "r1"))
    second = record.thread(("q", "a", "r2"))
    store.set_name(first.id, "the build")
    assert store.find(first.id) == first
    assert store.find(first.id.upper()) == first
    assert store.find("the build") == first
    store.set_name(second.id, "the build")
    assert store.find("the build") == second
    store.set_name(first.id, "the build")
    assert store.find("the build") == first
    store.set_name(first.id, "other")
    assert store.find("the build") == second
    assert store.find("nobody") is None


def test_a_uuid_is_always_an_id(store: ThreadStore, record) -> None:
    first = record.thread(("q", "a", "r1"))
    second = record.thread(("q", "a", "r2"))
    store.set_name(first.id, second.id)
    assert store.find(second.id) == second


def test_a_file_far_from_the_day_of_its_id_is_found(store: ThreadStore, record, home: Path) -> None:
    ref = record.thread(("q", "a", "r1"))
    folder = home / "sessions" / "2031" / "01" / "02"
    folder.mkdir(parents=True)
    moved = folder / os.path.basename(ref.path)
    os.rename(ref.path, moved)
    assert store.find(ref.id) == ThreadRef(id=ref.id, path=str(moved))


def test_an_unknown_id_is_named_in_the_error(store: ThreadStore) -> None:
    unknown = "00000000-0000-0000-0000-000000000000"
    with pytest.raises(ThreadNotFound, match=f"no rollout found for thread id {unknown}"):
        store.get(unknown)


def test_the_latest_thread_is_the_newest_of_its_folder_and_provider(store: ThreadStore, record, clock) -> None:
    here = record.thread(("q", "a", "r1"), cwd="/w")
    record.thread(("q", "a", "r2"), cwd="/w", model_provider="local")
    elsewhere = record.thread(("q", "a", "r3"), cwd="/x")
    assert store.latest("/w", "openai") == here
    assert store.latest("/w/../w", "openai") == here
    assert store.latest("/w", "openai", include_other_cwds=True) == elsewhere
    assert store.latest() == elsewhere
    assert store.latest("/nowhere") is None


def test_the_latest_thread_is_the_one_written_to_last(store: ThreadStore, record) -> None:
    older = record.thread(("q", "a", "r1"), cwd="/w")
    newer = record.thread(("q", "a", "r2"), cwd="/w")
    os.utime(older.path, (2_000_000_000, 2_000_000_000))
    os.utime(newer.path, (1_999_999_999, 1_999_999_999))
    assert store.latest("/w") == older
    os.utime(newer.path, (2_000_000_000, 2_000_000_000))
    assert store.latest("/w") == newer


def test_a_file_that_is_no_rollout_is_refused_and_stays_as_it_is(store: ThreadStore, tmp_path: Path) -> None:
    file = tmp_path / "passwd"
    file.write_text("root:x:0:0\n")
    file.chmod(0o644)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (file, pipe, tmp_path):
        with pytest.raises(ThreadError):
            store.resume(ThreadRef(id="", path=str(path)))
    assert (file.stat().st_mode & 0o777, file.read_text()) == (0o644, "root:x:0:0\n")


def test_a_thread_that_others_could_read_is_closed_to_them_when_it_is_resumed(store: ThreadStore, record) -> None:
    ref = record.thread(("q", "a", "r1"))
    os.chmod(ref.path, 0o644)
    history, _ = store.resume(ref)
    history.close()
    assert os.stat(ref.path).st_mode & 0o777 == 0o600


def test_a_file_in_which_nobody_spoke_is_neither_latest_nor_listed(store: ThreadStore, record, clock) -> None:
    spoken = record.thread(("q", "a", "r1"))
    silent = record.start()
    silent.append_item(user_message("<environment_context></environment_context>"))
    silent.writer.begin()
    silent.close()
    assert store.latest() == spoken
    assert ids(store.list()) == [spoken.id]


def test_files_of_both_generations_are_latest_and_listed(place: Callable[[str], Path], store: ThreadStore) -> None:
    place("codex-0.101.0.jsonl")
    newest = place("codex-0.166.0.jsonl")
    fork = place("codex-0.166.0-fork.jsonl")
    latest = store.latest("/home/dev/project", "mock")
    assert latest is not None and latest.path == str(fork)
    listed = {thread.path: thread.preview for thread in store.list().threads}
    assert listed[str(newest)] == listed[str(fork)] == "Please add a file"
    assert len(listed) == 3


def test_a_response_is_found_after_a_restart(store: ThreadStore, record) -> None:
    record.thread(("q", "a", "resp_1"))
    ref = record.thread(("q", "a", "resp_2"), ("resp_9", "a", "resp_3"))
    assert store.find_response_id("resp_2") == ref
    assert store.find_response_id("resp_9") is None


# ---- listing ----


def test_a_list_is_newest_first_and_comes_in_pages(store: ThreadStore, record) -> None:
    refs = [record.thread((f"q{n}", "a", f"r{n}"), timestamp=f"2027-01-15T08:00:0{n}.000Z") for n in range(5)]
    newest_first = [ref.id for ref in reversed(refs)]
    first = store.list(limit=2)
    second = store.list(limit=2, cursor=first.next_cursor)
    third = store.list(limit=2, cursor=second.next_cursor)
    assert [ids(first), ids(second), ids(third)] == [newest_first[:2], newest_first[2:4], newest_first[4:]]
    assert third.next_cursor is None
    back = store.list(order=ThreadOrder(descending=False), limit=2, cursor=third.backwards_cursor)
    assert ids(back) == [refs[1].id, refs[2].id]
    with pytest.raises(ThreadError, match="cursor"):
        store.list(cursor="zz")


def test_a_list_can_be_sorted_by_the_last_update(store: ThreadStore, record) -> None:
    first = record.thread(("q", "a", "r1"))
    second = record.thread(("q", "a", "r2"))
    os.utime(first.path, (4_000_000_000, 4_000_000_000))
    os.utime(second.path, (3_000_000_000, 3_000_000_000))
    assert ids(store.list(order=ThreadOrder(key="updated_at"))) == [first.id, second.id]
    assert ids(store.list(order=ThreadOrder(key="updated_at", descending=False))) == [second.id, first.id]


def test_a_list_is_filtered(store: ThreadStore, record) -> None:
    parent = record.thread(("fix the Größe", "done with émigré", "r1"), cwd="/w", source="cli")
    child = record.thread(
        ("sub task", "nothing", "r2"), cwd="/x", model_provider="local", source={"subagent": {"thread_spawn": {}}}
    )
    store.set_name(child.id, "Night Watch")
    assert ids(store.list(ThreadFilter(cwds=["/w"]))) == [parent.id]
    assert ids(store.list(ThreadFilter(providers=["local"]))) == [child.id]
    assert ids(store.list(ThreadFilter(sources=["cli", "exec"]))) == [parent.id]
    assert ids(store.list(ThreadFilter(sources=["subagent"]))) == [child.id]
    assert ids(store.list(ThreadFilter(search="ÉMIGRÉ"))) == [parent.id]
    assert ids(store.list(ThreadFilter(search="su"))) == [child.id]
    assert ids(store.list(ThreadFilter(search='"fix the'))) == []
    assert ids(store.list(ThreadFilter(search="night w"))) == [child.id]
    assert ids(store.list(ThreadFilter(search="100%"))) == []


def test_a_listed_thread_carries_what_a_client_shows(store: ThreadStore, record) -> None:
    ref = record.thread(("question", "a", "r1"), git={"branch": "main"})
    store.set_name(ref.id, "named")
    (thread,) = store.list().threads
    assert msgspec.structs.replace(thread, updated_at=0) == type(thread)(
        id=ref.id,
        path=ref.path,
        archived=False,
        name="named",
        preview="question",
        cwd="/w",
        model_provider="openai",
        source="exec",
        created_at=1_800_000_000.0,
        updated_at=0,
        originator="test",
        cli_version="1",
        git={"branch": "main"},
        forked_from_id=None,
        model="m1",
        effort="low",
    )


def test_the_index_follows_the_files(store: ThreadStore, record, clock: FixedClock) -> None:
    ref = record.thread(("before", "a", "r1"))
    assert ids(store.list(ThreadFilter(search="before"))) == [ref.id]
    history, _ = store.resume(ref)
    record.turn(history, "another word", "a", "r2")
    history.close()
    assert ids(store.list(ThreadFilter(search="another"))) == [ref.id]
    os.unlink(ref.path)
    assert ids(store.list()) == []


@pytest.mark.parametrize("damage", ["deleted", "garbage", "cut", "other version", "a folder"])
def test_a_lost_or_damaged_index_changes_no_answer(store: ThreadStore, record, home: Path, damage: str) -> None:
    for number in range(3):
        record.thread((f"question {number}", "answer", f"r{number}"))
    before = store.list(ThreadFilter(search="question"))
    assert len(before.threads) == 3
    index = home / "spindle" / "index.sqlite"
    assert index.stat().st_mode & 0o777 == 0o600
    content = index.read_bytes()
    index.unlink()
    if damage == "garbage":
        index.write_bytes(b"not a database" * 1000)
    elif damage == "cut":
        index.write_bytes(content[: len(content) // 2])
    elif damage == "other version":
        import sqlite3

        database = sqlite3.connect(index)
        database.execute("PRAGMA user_version = 999")
        database.close()
    elif damage == "a folder":
        index.mkdir()
    assert store.list(ThreadFilter(search="question")) == before
    assert store.list(ThreadFilter(search="question")) == before


# ---- archive, delete, names ----


def test_a_thread_that_is_being_written_is_neither_moved_nor_deleted(store: ThreadStore, record) -> None:
    ref = record.thread(("q", "a", "r1"))
    history, _ = store.resume(ref)
    for change in (store.archive, store.delete):
        with pytest.raises(ThreadLocked, match=ref.id):
            change(ref.id)
    assert store.find(ref.id) == ref
    history.close()
    store.delete(ref.id)
    assert store.find(ref.id) is None


def test_what_a_thread_put_aside_is_deleted_with_it(store: ThreadStore, record, home: Path) -> None:
    ref = record.thread(("q", "a", "r1"))
    for thread_id in (ref.id, "another"):
        store_output(str(home), thread_id, "call", "text")
    store.delete(ref.id)
    assert os.listdir(home / "spindle" / "offload") == ["another"]


def test_an_archived_thread_leaves_the_list_and_comes_back(store: ThreadStore, record, home: Path) -> None:
    ref = record.thread(("q", "a", "r1"))
    archived = store.archive(ref.id)
    assert archived.path == str(home / "archived_sessions" / os.path.basename(ref.path))
    assert (home / "archived_sessions").stat().st_mode & 0o777 == 0o700
    assert (ids(store.list()), ids(store.list(ThreadFilter(archived=True)))) == ([], [ref.id])
    assert store.find(ref.id) == archived and store.latest() is None
    assert store.unarchive(ref.id) == ref
    assert ids(store.list()) == [ref.id]


def test_deleting_a_thread_removes_its_file_and_its_names(store: ThreadStore, record, home: Path) -> None:
    kept, gone = record.thread(("q", "a", "r1")), record.thread(("q", "a", "r2"))
    store.set_name(gone.id, "x")
    store.set_name(kept.id, "y")
    store.delete(gone.id)
    assert store.find(gone.id) is None and store.find("x") is None
    assert store.find("y") == kept
    assert gone.id not in (home / "session_index.jsonl").read_text()
    with pytest.raises(ThreadNotFound):
        store.delete(gone.id)


def test_names_are_lines_that_other_programs_read(store: ThreadStore, home: Path) -> None:
    path = home / "session_index.jsonl"
    path.write_text('{"id":"torn')
    store.set_name("019f0000-0000-7000-8000-0000000000aa", "  spaced ")
    assert path.read_text().splitlines()[1:] == [
        '{"id":"019f0000-0000-7000-8000-0000000000aa","thread_name":"spaced","updated_at":"2027-01-15T08:00:00.000Z"}'
    ]
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ThreadError):
        store.set_name("x", " ")


# ---- forking ----


def test_a_fork_has_its_own_id_and_file_and_the_same_history(store: ThreadStore, record) -> None:
    parent = record.thread(("q1", "a1", "r1"), ("q2", "a2", "r2"))
    before = Path(parent.path).read_bytes()
    fork = store.fork(parent, meta={"cwd": "/elsewhere"})
    assert fork.id != parent.id and Path(parent.path).read_bytes() == before
    data = store.read(fork)
    assert (data.meta["id"], data.meta["forked_from_id"], data.meta["cwd"]) == (fork.id, parent.id, "/elsewhere")
    assert data.meta["base_instructions"] == {"text": "Be good."}
    ours, theirs = History.replay(data), History.replay(store.read(parent))
    assert [entry.raw for entry in ours.entries] == [entry.raw for entry in theirs.entries]
    assert ours.last_turn_context == theirs.last_turn_context
    assert os.stat(fork.path).st_mode & 0o777 == 0o600


def test_a_fork_up_to_a_response_equals_a_cut_to_its_bookmark(store: ThreadStore, record) -> None:
    parent = record.thread(("q1", "a1", "r1"), ("q2", "a2", "r2"), ("q3", "a3", "r3"))
    for response_id in ("r1", "r2", "r3"):
        cut = History.replay(store.read(parent))
        cut.cut_to_bookmark(response_id)
        fork = History.replay(store.read(store.fork(parent, up_to=response_id)))
        assert [entry.raw for entry in fork.entries] == [entry.raw for entry in cut.entries]
        assert fork.last_turn_context == cut.last_turn_context
        assert fork.has_bookmark(response_id)
    with pytest.raises(ThreadError, match="no response 'r9'"):
        store.fork(parent, up_to="r9")


def test_a_fork_of_the_first_turns_equals_a_rollback_of_the_others(store: ThreadStore, record) -> None:
    parent = record.thread(("q1", "a1", "r1"), ("q2", "a2", "r2"), ("q3", "a3", "r3"))
    for kept in range(4):
        rolled_back = History.replay(store.read(parent))
        rolled_back.append_rolled_back(3 - kept)
        assert said(store, store.fork(parent, up_to=kept)) == [
            entry.item["content"][0]["text"] for entry in rolled_back.entries
        ]


def test_a_fork_of_the_first_turns_ends_with_a_whole_turn(store: ThreadStore, record) -> None:
    parent = record.thread(("q1", "a1", "r1"), ("q2", "a2", "r2"))
    turns = transcript(store.read(store.fork(parent, up_to=1)).records)
    assert [(turn.status, len(turn.items)) for turn in turns] == [("completed", 2)]


def test_a_fork_counts_only_the_turns_that_are_left(store: ThreadStore, record) -> None:
    parent = record.thread(("q1", "a1", "r1"), ("q2", "a2", "r2"), ("q3", "a3", "r3"))
    history, _ = store.resume(parent)
    history.append_rolled_back(2)
    record.turn(history, "q4", "a4", "r4")
    record.turn(history, "q5", "a5", "r5")
    history.cut_to_bookmark("r4")
    record.turn(history, "q6", "a6", "r6")
    history.close()
    assert said(store, parent) == ["q1", "a1", "q4", "a4", "q6", "a6"]
    assert said(store, store.fork(parent, up_to=3)) == ["q1", "a1", "q4", "a4", "q6", "a6"]
    assert said(store, store.fork(parent, up_to=2)) == ["q1", "a1", "q4", "a4"]
    assert said(store, store.fork(parent, up_to=1)) == ["q1", "a1"]
    assert said(store, store.fork(parent)) == ["q1", "a1", "q4", "a4", "q6", "a6"]


def test_a_fork_of_the_current_generation_is_copied_whole(place: Callable[[str], Path], store: ThreadStore) -> None:
    place("codex-0.166.0.jsonl")
    late = place("codex-0.166.0-fork.jsonl")
    ref = store.find(late.stem[-36:])
    assert ref is not None
    fork = store.fork(ref)
    before = [entry.raw for entry in History.replay(store.read(ref)).entries]
    os.unlink(ref.path)
    shutil.rmtree(store.home + "/spindle", ignore_errors=True)
    data = store.read(fork)
    assert data.warnings == [] and "forked_from_ordinal_exclusive" not in data.meta
    assert [entry.raw for entry in History.replay(data).entries] == before


# ---- files that hold anything ------------------------------------------------------------------------


def _deep(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


_STRANGE = ["1", "[1]", '"\\u0000"', str(2**200), "1e999", '"0001-01-01T00:00:00"', _deep(150), _deep(3000)]
_FIELDS = [
    ("session_meta", ("timestamp", "cwd", "source", "git", "model_provider", "forked_from_id")),
    ("turn_context", ("cwd", "model", "sandbox_policy", "spindle")),
    ("event_msg", ("type", "message", "images", "item")),
    ("response_item", ("type", "role", "content")),
    ("compacted", ("message", "replacement_history")),
]


@pytest.mark.parametrize("kind", [kind for kind, _ in _FIELDS])
@pytest.mark.parametrize("value", _STRANGE, ids=lambda value: value[:20])
def test_24_no_value_in_one_file_hides_the_others(tmp_path: Path, kind: str, value: str) -> None:
    folder = tmp_path / "sessions/2026/01/02"
    folder.mkdir(parents=True)
    said = '{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}'

    def write(number: int, more: str, **meta: str) -> None:
        thread_id = f"01999999-aaaa-7bbb-8ccc-{number:012d}"
        fields = {"id": f'"{thread_id}"', "timestamp": '"2026-01-02T03:04:05.000Z"', "cwd": '"/"', **meta}
        head = ",".join(f'"{name}":{entry}' for name, entry in fields.items())
        rows = [("session_meta", f"{{{head}}}"), ("response_item", said)]
        lines = [f'{{"timestamp":"t","type":"{name}","payload":{payload}}}\n' for name, payload in rows]
        (folder / f"rollout-2026-01-02T03-04-05-{thread_id}.jsonl").write_text("".join(lines) + more)

    write(0, "")
    for number, field in enumerate(dict(_FIELDS)[kind], 1):
        if kind == "session_meta":
            write(number, "", **{field: value})
        else:
            bases = {"event_msg": '"type":"user_message",', "response_item": '"type":"message","role":"user",'}
            base = bases.get(kind, "")
            write(number, f'{{"timestamp":"t","type":"{kind}","payload":{{{base}"{field}":{value}}}}}\n')
    store = ThreadStore(str(tmp_path), FixedClock())
    page = store.list(limit=100)
    listed = {thread.id[-1] for thread in page.threads}
    left_out = {Path(path).stem[-1] for path in page.left_out}
    assert "0" in listed and listed | left_out == {str(number) for number in range(len(dict(_FIELDS)[kind]) + 1)}
    assert store.list(ThreadFilter(search="hello")).threads and store.latest("/") is not None
    for thread in page.threads:
        initial_messages(store.read(store.get(thread.id)).records)


def test_24_what_is_no_ordinary_file_is_no_thread_and_nobody_waits_for_it(tmp_path: Path) -> None:
    folder = tmp_path / "sessions/2026/01/02"
    folder.mkdir(parents=True)

    def path(number: int) -> Path:
        return folder / f"rollout-2026-01-02T03-04-05-01999999-aaaa-7bbb-8ccc-{number:012d}.jsonl"

    said = '{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}'
    for number, cwd in ((0, '"/"'), (9, '""')):
        meta = f'{{"id":"01999999-aaaa-7bbb-8ccc-{number:012d}","timestamp":"2026-01-02T03:04:05.000Z","cwd":{cwd}}}'
        rows = (("session_meta", meta), ("response_item", said))
        path(number).write_text("".join(f'{{"timestamp":"t","type":"{kind}","payload":{row}}}\n' for kind, row in rows))
    os.mkfifo(path(1))
    path(2).symlink_to("/dev/zero")
    path(3).symlink_to(path(3).name)
    path(4).mkdir()
    store = ThreadStore(str(tmp_path), FixedClock())
    assert {thread.id[-1] for thread in store.list(limit=100).threads} == {"0", "9"}
    for number in (1, 2):
        with pytest.raises(ThreadError, match="not an ordinary file"):
            read_bytes(str(path(number)))
    # A thread that does not say where it was is not the last one of wherever we are.
    latest = store.latest("/")
    assert latest is not None and latest.path == str(path(0)) and store.latest(str(tmp_path)) is None
    assert store.latest(os.getcwd()) is None or os.getcwd() == "/"
