from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from spindle.errors import ThreadError, ThreadLocked
from spindle.protocol.clock import FixedClock
from spindle.protocol.items import assistant_message, user_message
from spindle.thread.history import History
from spindle.thread.reading import read_rollout
from spindle.thread.rollout import RolloutWriter
from spindle.thread.store import ThreadStore
from thread.conftest import new_file

THREAD = "019f0000-0000-7000-8000-0000000000aa"
NAME = f"rollout-2026-11-15T10-00-00-{THREAD}.jsonl"
META = {"id": THREAD, "timestamp": "2026-11-15T10:00:00.000Z", "cwd": "/w", "originator": "x", "cli_version": "1"}


def line(kind: str, payload: object) -> bytes:
    return msgspec.json.encode({"timestamp": "2026-11-15T10:00:00.000Z", "type": kind, "payload": payload}) + b"\n"


def texts(path: Path) -> list[str]:
    """The texts of the folded list that a file gives."""
    history = History.replay(read_rollout(str(path)))
    return [entry.item["content"][0]["text"] for entry in history.entries]


def mode(path: Path | str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def path(home: Path) -> Path:
    return home / "sessions" / "2026" / "11" / "15" / NAME


@pytest.fixture
def recorded(path: Path, clock: FixedClock) -> Path:
    """A closed file of three items."""
    history = History(RolloutWriter(str(path), clock))
    history.append_meta(META)
    for text in ("one", "two", "drei – три"):
        history.append_item(user_message(text))
    history.close()
    return path


# ---- writing ----


def test_a_line_is_timestamp_type_payload(path: Path, clock: FixedClock) -> None:
    writer = new_file(str(path), clock)
    writer.append("response_item", {"text": "é"})
    writer.append("spindle_x", b'{"given": "as bytes"}')
    writer.close()
    assert path.read_bytes() == (
        b'{"timestamp":"2027-01-15T08:00:00.000Z","type":"response_item","payload":{"text":"\xc3\xa9"}}\n'
        b'{"timestamp":"2027-01-15T08:00:00.000Z","type":"spindle_x","payload":{"given": "as bytes"}}\n'
    )


def test_the_file_appears_with_the_first_user_message_and_holds_what_waited(path: Path, clock: FixedClock) -> None:
    history = History(RolloutWriter(str(path), clock))
    history.append_meta(META)
    history.append_item(user_message("<environment_context>\n</environment_context>"))
    history.append_event({"type": "task_started", "turn_id": "t"})
    assert not path.exists() and history.writer is not None and history.writer.recorded_path is None
    history.append_item(user_message("hello"))
    kinds = [msgspec.json.decode(entry)["type"] for entry in path.read_bytes().splitlines()]
    assert kinds == ["session_meta", "response_item", "event_msg", "response_item"]
    assert history.writer.recorded_path == str(path)
    history.close()


@pytest.mark.parametrize("mask", [0o000, 0o777], ids=["open", "closed"])
def test_files_are_0600_and_folders_0700_whatever_the_umask(
    path: Path, home: Path, clock: FixedClock, umask: Callable[[int], None], mask: int
) -> None:
    umask(mask)
    new_file(str(path), clock).close()
    assert mode(path) == 0o600
    for folder in ("sessions", "sessions/2026", "sessions/2026/11", "sessions/2026/11/15"):
        assert mode(home / folder) == 0o700, folder


def test_modes_that_another_program_left_open_are_repaired(recorded: Path, home: Path, clock: FixedClock) -> None:
    recorded.chmod(0o644)
    (home / "sessions").chmod(0o755)
    writer = RolloutWriter.reopen(str(recorded), clock)
    writer.close_to_others()
    writer.close()
    new_file(str(recorded) + "2", clock).close()
    assert (mode(recorded), mode(home / "sessions")) == (0o600, 0o700)


def test_a_link_in_place_of_the_file_is_not_followed(path: Path, clock: FixedClock, tmp_path: Path) -> None:
    target = tmp_path / "victim"
    target.write_text("kept")
    path.parent.mkdir(parents=True)
    path.symlink_to(target)
    writer = RolloutWriter.reopen(str(path), clock)
    assert writer.failed
    assert target.read_text() == "kept"


def test_a_numbered_file_is_continued_with_numbers(place: Callable[[str], Path], clock: FixedClock) -> None:
    path = place("codex-0.166.0.jsonl")
    writer = RolloutWriter.reopen(str(path), clock)
    writer.append("event_msg", {"type": "warning", "message": "x" * 200_000})
    writer.append("event_msg", {"type": "warning"})
    writer.close()
    writer = RolloutWriter.reopen(str(path), clock)
    writer.append("event_msg", {"type": "error"})
    writer.close()
    ordinals = [msgspec.json.decode(entry)["ordinal"] for entry in path.read_bytes().splitlines()]
    assert ordinals == list(range(48))


def test_text_that_is_no_unicode_is_recorded_with_question_marks(path: Path, clock: FixedClock) -> None:
    history = History(RolloutWriter(str(path), clock))
    history.append_meta(META)
    history.append_item(user_message("file \udcff name"))
    history.append_event({"type": "user_message", "message": "\udcff"})
    history.close()
    assert texts(path) == ["file ? name"] == [history.entries[0].item["content"][0]["text"]]


# ---- two processes ----

HOLDER = """
import sys
from spindle.protocol.clock import SystemClock
from spindle.thread.rollout import RolloutWriter
writer = RolloutWriter.reopen(sys.argv[1], SystemClock())
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_second_writer_is_refused_until_the_first_is_gone(recorded: Path, clock: FixedClock) -> None:
    before = recorded.read_bytes()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(recorded)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_env()
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"locked\n"
        with pytest.raises(ThreadLocked) as refused:
            RolloutWriter.reopen(str(recorded), clock)
        assert str(refused.value).startswith(f"thread {THREAD} is being written by another process")
        if sys.platform == "linux":
            assert str(refused.value).endswith(f"(pid {other.pid})")
        other.kill()
    RolloutWriter.reopen(str(recorded), clock).close()
    assert recorded.read_bytes() == before


def _env() -> dict[str, str]:
    source = Path(__file__).parent.parent.parent / "src"
    return {**os.environ, "PYTHONPATH": str(source)}


# ---- torn and damaged files ----


def test_a_line_torn_at_any_byte_is_left_out_and_the_thread_goes_on(recorded: Path, clock: FixedClock) -> None:
    whole = recorded.read_bytes()
    start = whole.rindex(b"\n", 0, len(whole) - 1) + 1
    for end in range(start, len(whole)):
        recorded.write_bytes(whole[:end])
        data = read_rollout(str(recorded))
        # Without nothing but its newline the last line is whole.
        complete = end == len(whole) - 1
        assert data.torn == (start < end and not complete), end
        assert data.skipped == 0
        kept = ["one", "two", "drei – три"] if complete else ["one", "two"]
        history = History.replay(data, RolloutWriter.reopen(str(recorded), clock))
        history.append_item(assistant_message("after"))
        history.close()
        assert texts(recorded) == [*kept, "after"], end
        assert read_rollout(str(recorded)).skipped == (1 if data.torn else 0)


def test_damaged_lines_in_the_middle_are_skipped_and_counted(recorded: Path) -> None:
    lines = recorded.read_bytes().splitlines(keepends=True)
    garbage = [
        b"not json\n",
        b"\xff\xfe{}\n",
        b"{}\n",
        b"[1,2]\n",
        b'{"type":"response_item"}\n',
        b'{"type":1,"payload":{}}\n',
    ]
    recorded.write_bytes(b"".join([*lines[:2], *garbage, b"\n", b"\0\0\0\n", b"\0\0" + lines[2], *lines[3:]]))
    data = read_rollout(str(recorded))
    assert data.skipped == len(garbage)
    assert texts(recorded) == ["one", "two", "drei – три"]
    assert data.notices() == [f"6 damaged lines were skipped in {recorded}; the file itself was not changed."]


def test_one_line_of_another_encoding_does_not_hide_the_others(recorded: Path) -> None:
    lines = recorded.read_bytes().splitlines(keepends=True)
    recorded.write_bytes(b"".join([lines[0], lines[1].replace(b"one", b"\xe9\xff"), *lines[2:]]))
    assert read_rollout(str(recorded)).skipped == 1
    assert texts(recorded) == ["two", "drei – три"]


def test_unknown_kinds_events_and_fields_never_fail(recorded: Path) -> None:
    with recorded.open("ab") as file:
        for kind, payload in (
            ("world_state", {"full": True}),
            ("from_the_future", [1]),
            ("event_msg", {"type": "no_such_event", "x": 1}),
            ("event_msg", {"no": "type"}),
            ("event_msg", "text"),
            ("event_msg", {"type": "thread_rolled_back", "num_turns": "many"}),
            ("event_msg", {"type": "token_count", "info": "none"}),
            ("compacted", 7),
            ("turn_context", None),
            ("response_item", "text"),
            ("spindle_bookmark", {}),
        ):
            file.write(line(kind, payload))
    assert texts(recorded) == ["one", "two", "drei – три"]


def test_a_minimal_file_of_another_program_is_read(home: Path) -> None:
    path = home / NAME
    path.write_bytes(
        line("session_meta", META)
        + line("response_item", user_message("old question"))
        + line("response_item", assistant_message("old answer"))
    )
    data = read_rollout(str(path))
    assert (data.thread_id, data.meta, data.skipped, data.torn) == (THREAD, META, 0, False)
    history = History.replay(data)
    assert [entry.item for entry in history.entries] == [user_message("old question"), assistant_message("old answer")]
    assert (history.user_turn_count, history.base_instructions, history.last_turn_context) == (1, None, None)


def test_a_destroyed_first_line_is_rebuilt_from_the_file_name(recorded: Path, clock: FixedClock) -> None:
    history = History.replay(read_rollout(str(recorded)), RolloutWriter.reopen(str(recorded), clock))
    history.append_turn_context({"cwd": "/w/sub"})
    history.close()
    lines = recorded.read_bytes().splitlines(keepends=True)
    recorded.write_bytes(b"\0" * 40 + b"\n" + b"".join(lines[1:]))
    data = read_rollout(str(recorded))
    assert (data.thread_id, data.meta["cwd"], data.meta_rebuilt) == (THREAD, "/w/sub", True)
    assert texts(recorded) == ["one", "two", "drei – три"]
    assert [notice for notice in data.notices() if "rebuilt from the file name" in notice]


def test_an_older_fork_without_its_first_line_takes_its_parents_facts(place: Callable[[str], Path]) -> None:
    path = place("codex-0.101.0-fork.jsonl")
    own = read_rollout(str(path))
    path.write_bytes(b"damaged\n" + path.read_bytes().split(b"\n", 1)[1])
    data = read_rollout(str(path))
    assert data.thread_id == own.thread_id
    assert data.meta["forked_from_id"] == own.meta["forked_from_id"]
    assert data.meta["base_instructions"] == own.meta["base_instructions"]


@pytest.mark.parametrize("content", [b"", b"garbage\n"], ids=["empty", "garbage"])
def test_a_file_with_neither_meta_nor_id_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_bytes(content)
    with pytest.raises(ThreadError, match=r"notes\.jsonl is not a rollout file"):
        read_rollout(str(path))


def test_a_missing_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ThreadError, match="No such file"):
        read_rollout(str(tmp_path / NAME))


def test_a_compressed_file_is_read_or_refused_with_advice(recorded: Path, clock: FixedClock) -> None:
    packed = Path(f"{recorded}.zst")
    try:
        from compression import zstd
    except ImportError:
        packed.write_bytes(b"\x28\xb5\x2f\xfd")
        with pytest.raises(ThreadError, match=r"backports\.zstd|cannot be decompressed"):
            read_rollout(str(packed))
        return
    packed.write_bytes(zstd.compress(recorded.read_bytes()))
    recorded.unlink()
    assert texts(packed) == ["one", "two", "drei – три"]
    writer = RolloutWriter.reopen(str(packed), clock)
    writer.append("response_item", user_message("four"))
    writer.close()
    assert not packed.exists() and texts(recorded)[-1] == "four"


# ---- a full disk ----

FILLER = """
import sys
from spindle.protocol.clock import FixedClock
from spindle.protocol.items import user_message
from spindle.thread.history import History
from spindle.thread.rollout import RolloutWriter
history = History(RolloutWriter(sys.argv[1], FixedClock()))
history.append_meta({"id": sys.argv[2], "timestamp": "", "cwd": "/w", "originator": "x", "cli_version": "1"})
for number in range(400):
    history.append_item(user_message(f"{number} " + "x" * 700))
history.close()
print(len(history.entries), history.writer.failed)
"""


def limit_file_size() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_001, 50_001))


def assert_only_whole_lines(path: Path, said: str) -> None:
    count, _, failed = said.strip().partition(" ")
    # The turn went on in memory.
    assert count == "400"
    assert failed in (f"{path}: No space left on device", f"{path}: File too large")
    content = path.read_bytes()
    assert content.endswith(b"\n")
    data = read_rollout(str(path))
    assert (data.skipped, data.torn) == (0, False)
    assert [record.payload["content"][0]["text"].split()[0] for record in data.records] == [
        str(number) for number in range(len(data.records))
    ]
    assert 20 < len(data.records) < 100


def test_a_file_that_may_not_grow_keeps_whole_lines_and_the_turn_goes_on(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILLER, str(path), THREAD],
        env=_env(),
        preexec_fn=limit_file_size,
        capture_output=True,
        text=True,
        check=True,
    )
    assert_only_whole_lines(path, done.stdout)


def test_a_full_disk_leaves_whole_lines_and_the_turn_goes_on(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    path = disk / NAME
    # In a mount namespace of its own the small disk vanishes with the process; its file is copied out before that.
    script = (
        f'mount -t tmpfs -o size=64k none "{disk}" && "$0" -c "$1" "{path}" {THREAD} && cp "{path}" "{tmp_path}/copy"'
    )
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, sys.executable, FILLER], env=_env(), capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    assert "No space left" in done.stdout
    path.write_bytes((tmp_path / "copy").read_bytes())
    assert_only_whole_lines(path, done.stdout)


def test_a_home_that_cannot_be_written_is_said_once_and_nothing_fails(tmp_path: Path, clock: FixedClock) -> None:
    (tmp_path / "sessions").write_text("a file where a folder should be")
    history = History(RolloutWriter(str(tmp_path / "sessions" / "2026" / NAME), clock))
    history.append_meta(META)
    history.append_item(user_message("hello"))
    history.append_item(assistant_message("hi"))
    assert history.writer is not None and history.writer.failed is not None
    assert history.writer.failed.endswith("Not a directory") and history.writer.recorded_path is None
    assert len(history.entries) == 2


# ---- killed while writing ----

KILLED = """
import os, signal, sys

from spindle.protocol.clock import FixedClock
from spindle.protocol.items import assistant_message, user_message
from spindle.thread.history import History
from spindle.thread.rollout import RolloutWriter

folder, thread = sys.argv[1:]
real_write = os.write


def run(path, die):
    calls = 0
    def write(fd, data):
        nonlocal calls
        calls += 1
        if die is not None and calls == die[0]:
            size = len(data)
            kept = {"before": 0, "first byte": 1, "half": size // 2, "no newline": size - 1, "after": size}
            real_write(fd, data[: kept[die[1]]])
            os.kill(os.getpid(), signal.SIGKILL)
        return real_write(fd, data)
    os.write = write
    history = History(RolloutWriter(path, FixedClock()))
    history.append_meta({"id": thread, "timestamp": "", "cwd": "/w", "originator": "x", "cli_version": "1"})
    history.append_item(user_message("<environment_context></environment_context>"))
    history.append_item(user_message("first"))
    history.append_turn_context({"cwd": "/w", "model": "m"})
    history.append_item(assistant_message("one"))
    history.append_bookmark("r1")
    history.append_item(user_message("second"))
    history.append_item({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"})
    history.append_item({"type": "function_call_output", "call_id": "c", "output": "ü" * 50})
    history.append_rolled_back(1)
    history.append_item(user_message("third"))
    history.append_compacted("summary", [user_message("first"), user_message("summary")])
    history.append_item(assistant_message("three"))
    history.cut_to_bookmark("r1")
    history.append_item(user_message("fourth"))
    history.close()
    os.write = real_write
    return calls


total = run(f"{folder}/whole/rollout-{thread}.jsonl", None)
for number in range(1, total + 1):
    for where in ("before", "first byte", "half", "no newline", "after"):
        child = os.fork()
        if child == 0:
            run(f"{folder}/{number} {where}/rollout-{thread}.jsonl", (number, where))
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), (number, where)
print(total)
"""


def test_killed_at_any_write_a_thread_keeps_all_but_the_record_being_written(tmp_path: Path, clock: FixedClock) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), THREAD], env=_env(), capture_output=True, text=True, check=True
    )
    total = int(done.stdout)
    whole = (tmp_path / "whole" / f"rollout-{THREAD}.jsonl").read_bytes().splitlines(keepends=True)
    # The first write holds the three lines that waited for the first message; then there is one write per record.
    boundaries = [0, *range(3, len(whole) + 1)]
    assert total == len(boundaries) - 1 == 13
    for number in range(1, total + 1):
        for where in ("before", "first byte", "half", "no newline", "after"):
            path = tmp_path / f"{number} {where}" / f"rollout-{THREAD}.jsonl"
            survived = boundaries[number] if where in ("no newline", "after") else boundaries[number - 1]
            if where == "half" and number == 1:
                # Half of the first batch: the whole lines in it survive.
                survived = path.read_bytes().count(b"\n")
            expected = tmp_path / "expected.jsonl"
            expected.write_bytes(b"".join([whole[0], *whole[1:survived]]))
            resumed = History.replay(read_rollout(str(path)), RolloutWriter.reopen(str(path), clock))
            assert folded(resumed) == folded(History.replay(read_rollout(str(expected)))), (number, where)
            resumed.append_item(assistant_message("resumed"))
            resumed.close()
            again = History.replay(read_rollout(str(path)))
            assert folded(again) == folded(resumed), (number, where)


def folded(history: History) -> tuple[list[bytes], int, object]:
    return [entry.raw for entry in history.entries], history.user_turn_count, history.last_turn_context


def test_resuming_takes_the_lock_before_it_reads(store: ThreadStore, record) -> None:
    ref = record.thread(("q", "a", "r"))
    history, data = store.resume(ref)
    with pytest.raises(ThreadLocked):
        store.resume(ref)
    history.close()
    assert data.notices() == []
