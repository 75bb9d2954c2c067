"""Mending rollout files: what goes, what comes, and that nothing else is touched."""

from __future__ import annotations

import json
import os
import random
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spindle.context.visible import pair_calls
from spindle.errors import ThreadLocked
from spindle.protocol.clock import FixedClock
from spindle.thread.history import History
from spindle.thread.reading import read_rollout
from spindle.thread.repair import repair
from spindle.thread.rollout import RolloutWriter
from spindle.thread.store import ThreadStore
from thread.conftest import FIXTURES, new_file

Place = Callable[[str], Path]
ALL = sorted(path.name for path in FIXTURES.iterdir())
OLD = "codex-0.101.0.jsonl"
CUT = b'{"timestamp":"2026-01-01T00:00:00.000Z","type":"respo'


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[:-1]


def backup_of(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def shown_to_the_model(path: Path) -> list[dict[str, Any]]:
    return pair_calls([entry.item for entry in History.replay(read_rollout(str(path))).entries])


@pytest.mark.parametrize("name", ALL)
def test_a_sound_file_keeps_its_bytes_and_gets_no_copy(place: Place, name: str) -> None:
    path = place(name)
    before = path.read_bytes()
    report = repair(str(path))
    assert (report.status, report.dropped, report.added, report.backup) == ("sound", [], [], None)
    assert path.read_bytes() == before and [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize(
    ("junk", "reason"),
    [
        (CUT, "it was cut off while it was written"),
        (b"\0\0\0\0", "NUL bytes"),
        (b"not json at all", "it is no line of a thread"),
        (b'{"json":"of another program"}', "it is no line of a thread"),
        (b'{"type":"response_item","payload":[1]}', "it is no line of a thread"),
        (b'{"type":"event_msg","payload":{"no":"type"}}', "it is no line of a thread"),
        (b'{"type":"turn_context","payload":' + b'{"a":' * 500 + b"1" + b"}" * 501, "its payload cannot be read"),
        (b'{"type":"event_msg","payload":{"type":"warning","message":"\xff"}}', "it is not UTF-8 text"),
    ],
)
def test_what_no_reader_can_use_is_taken_out(place: Place, junk: bytes, reason: str) -> None:
    path = place(OLD)
    sound = lines_of(path)
    damaged = b"\n".join([*sound[:3], junk, *sound[3:]]) + b"\n"
    path.write_bytes(damaged)
    report = repair(str(path))
    assert report.status == "repaired" and [(change.line, change.reason) for change in report.dropped] == [(4, reason)]
    assert lines_of(path) == sound
    assert report.backup == str(backup_of(path)) and backup_of(path).read_bytes() == damaged
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(backup_of(path).stat().st_mode) == 0o600
    assert repair(str(path)).status == "sound"


def test_a_torn_end_goes_and_a_line_behind_a_torn_one_stays(place: Place) -> None:
    path = place(OLD)
    sound = lines_of(path)
    path.write_bytes(b"\n".join([*sound[:4], CUT + sound[4], *sound[5:]]) + b'\n{"torn')
    report = repair(str(path))
    assert [change.line for change in report.dropped] == [5, len(sound) + 1]
    assert lines_of(path) == sound


def test_nul_bytes_around_a_line_go_and_the_line_stays(place: Place) -> None:
    path = place(OLD)
    sound = lines_of(path)
    path.write_bytes(b"\n".join([*sound[:4], b"\0" * 64 + sound[4] + b"\0", *sound[5:]]) + b"\n")
    assert repair(str(path)).status == "repaired" and lines_of(path) == sound


@pytest.mark.parametrize(
    "copied",
    [
        lambda lines: [line for line in lines for _ in range(2)],
        lambda lines: [*lines, *lines],
        lambda lines: [*lines[:9], *lines[5:]],
        lambda lines: [*lines, lines[3]],
        lambda lines: [lines[0], *lines],
    ],
    ids=["each line", "the whole", "a block", "one at the end", "the first"],
)
def test_a_line_that_stands_there_twice_goes(place: Place, copied: Callable[[list[bytes]], list[bytes]]) -> None:
    path = place(OLD)
    sound = lines_of(path)
    path.write_bytes(b"\n".join(copied(sound)) + b"\n")
    assert repair(str(path)).status == "repaired" and lines_of(path) == sound


def test_the_same_words_in_one_millisecond_are_no_copy(store: ThreadStore, clock: FixedClock) -> None:
    """Two prompts that a program sends at once are the same line twice, with others between them."""
    thread_id = clock.uuid7()
    path = store.new_path(thread_id)
    writer = new_file(path, clock)
    writer.append("session_meta", {"id": thread_id, "cwd": "/"})
    for turn_id in ("t1", "t2"):
        writer.append("event_msg", {"type": "task_started", "turn_id": turn_id})
        writer.append("event_msg", {"type": "user_message", "message": "again"})
    writer.close()
    assert len(set(lines_of(Path(path)))) == 4
    assert repair(path).status == "sound"


def test_a_missing_first_line_is_made_from_what_is_there(place: Place, store: ThreadStore) -> None:
    path = place(OLD)
    first, *rest = lines_of(path)
    path.write_bytes(b"\n".join(rest) + b"\n")
    report = repair(str(path))
    made, *kept = lines_of(path)
    meta = json.loads(made)["payload"]
    known = json.loads(first)["payload"]
    assert kept == rest and report.status == "repaired" and [change.line for change in report.added] == [0]
    assert (meta["id"], meta["cwd"]) == (known["id"], known["cwd"]) and report.thread_id == known["id"]
    history, data = store.resume(store.get(known["id"]))
    history.close()
    assert not data.is_damaged and not data.notices()


def test_a_call_without_an_output_gets_the_one_that_the_model_is_shown(place: Place) -> None:
    path = place(OLD)
    lines = lines_of(path)
    without = [line for line in lines if b'"type":"function_call_output"' not in line]
    assert len(without) < len(lines)
    path.write_bytes(b"\n".join(without) + b"\n")
    before = shown_to_the_model(path)
    report = repair(str(path))
    assert len(report.added) == len(lines) - len(without) and not report.dropped
    assert shown_to_the_model(path) == before
    assert [line for line in lines_of(path) if b'"type":"function_call_output"' not in line] == without
    assert repair(str(path)).status == "sound"


@pytest.mark.parametrize("seed", range(12))
def test_any_mixture_of_damage_leaves_every_line_of_the_thread(place: Place, seed: int) -> None:
    rng = random.Random(seed)
    path = place(rng.choice(ALL))
    sound = lines_of(path)
    damaged = [b"foreign"]
    for line in sound:
        cut = line[: rng.randint(1, len(line) - 2)]
        damaged += [line, *rng.choice([[], [], [CUT], [b"\0" * rng.randint(1, 9)], [cut], [line]])]
    path.write_bytes(b"\n".join(damaged) + rng.choice([b"\n", b"", b"\n{", b"\n\0\0"]))
    assert repair(str(path)).status == "repaired"
    assert lines_of(path) == sound


def test_nothing_is_written_with_dry_run(place: Place) -> None:
    path = place(OLD)
    path.write_bytes(path.read_bytes() + CUT)
    before = path.read_bytes()
    report = repair(str(path), dry_run=True)
    assert (report.status, len(report.dropped), report.backup) == ("repaired", 1, None)
    assert path.read_bytes() == before and [*path.parent.iterdir()] == [path]


def test_earlier_copies_stay_and_go_with_the_thread(place: Place, store: ThreadStore) -> None:
    path = place(OLD)
    thread_id = read_rollout(str(path)).thread_id
    copies = []
    for junk in (b"one\n", b"two\n"):
        path.write_bytes(path.read_bytes() + junk)
        copies.append(path.read_bytes())
        report = repair(str(path))
        assert report.backup is not None and Path(report.backup).read_bytes() == copies[-1]
    assert backup_of(path).read_bytes() == copies[0]
    archived = Path(store.archive(thread_id).path)
    assert backup_of(archived).read_bytes() == copies[0] and not backup_of(path).exists()
    store.delete(thread_id)
    assert [*archived.parent.iterdir()] == []


def test_a_mended_thread_is_as_old_as_before(place: Place) -> None:
    path = place(OLD)
    path.write_bytes(path.read_bytes() + CUT)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert repair(str(path)).status == "repaired" and path.stat().st_mtime == 1_000_000_000


def test_a_file_that_is_being_written_is_left_alone(place: Place, clock: FixedClock) -> None:
    path = place(OLD)
    path.write_bytes(path.read_bytes() + b"junk\n")
    writer = RolloutWriter.reopen(str(path), clock)
    with pytest.raises(ThreadLocked):
        repair(str(path))
    writer.close()
    assert repair(str(path)).status == "repaired"


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"nothing\nof use\n"])
def test_a_file_without_one_readable_line_is_lost_and_stays_as_it_is(place: Place, content: bytes) -> None:
    path = place(OLD)
    path.write_bytes(content)
    report = repair(str(path))
    assert report.status == "lost" and report.backup is None and isinstance(report.reason, str)
    assert path.read_bytes() == content
