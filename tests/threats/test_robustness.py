"""Every row of the robustness table, through the installed command: what goes wrong around us, and what is promised.

`docs/threats.md` has the table; each section below is one row of it.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import gzip
import json
import os
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import spindle as spindle_package
from fake_server import (
    FakeServer,
    Received,
    Turn,
    call,
    completed,
    custom_call,
    encode_event,
    fails,
    item_events,
    message,
    reasoning,
    refuses,
    sends_raw,
    turn,
)
from installed import Done, Spindle, finish, wait_for, whole_lines
from mcp_servers.kit import stub
from spindle.assembly import SessionRequest, open_session
from spindle.config.load import LoadOptions, load_config
from spindle.protocol.clock import SystemClock, format_uuid7
from spindle.protocol.events import TERMINAL, Msg, TaskComplete
from spindle.protocol.ops import Shutdown, Submission, UserTurn
from threats.cli import children_of, on_read_only_disk, on_small_disk, peak_memory_kb, processes_with
from threats.engine import outputs

PYTHON = shlex.quote(sys.executable)
MIB = 1024 * 1024
SHORT_IDLE = ("-c", "model_providers.fake.stream_idle_timeout_ms=700")
ONE_TRY = ("-c", "model_providers.fake.stream_max_retries=0", "-c", "model_providers.fake.request_max_retries=0")


def refused(done: Done, server: FakeServer, *parts: str) -> None:
    """Exit code 1 and a few plain lines; no request, no output, no trace of the program's insides."""
    assert (done.code, done.out, server.requests) == (1, "", []), done.err
    assert "Traceback" not in done.err and len(done.err.splitlines()) <= 4, done.err
    for part in parts:
        assert part in done.err, done.err


def output_of(request: Received, call_id: str = "c1") -> str:
    """What the model was told about a call."""
    found = [item for item in request.json["input"] if item.get("call_id") == call_id and "output" in item]
    assert len(found) == 1, found
    output = found[0]["output"]
    return output if isinstance(output, str) else json.dumps(output)


def is_readable(descriptor: int, seconds: float) -> bool:
    """`select` would not take a high number, and others in this process may have many descriptors."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def stream_of(*events: dict[str, Any] | bytes) -> bytes:
    return b"".join(event if isinstance(event, bytes) else encode_event(event) for event in events)


def whole_message(text: str, item_id: str = "m1", index: int = 0) -> list[dict[str, Any]]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return item_events({"type": "message", "role": "assistant", "id": item_id, "content": content}, index, 1)


# ---- broken config.toml ----------------------------------------------------------------------------


def test_broken_toml_is_shown_with_file_line_column_and_the_line_itself(spindle: Spindle, server: FakeServer) -> None:
    (spindle.home / "config.toml").write_text('model = "x"\n\n[tui\nmodel_provider = 1\n')
    refused(spindle("exec", "hi"), server, f"{spindle.home}/config.toml:3:5: ", "3 | [tui")


def test_half_a_config_is_never_used(spindle: Spindle, server: FakeServer) -> None:
    """What stands above the mistake is well formed, and would be enough for a request."""
    spindle.configure('broken = "no end')
    for command in (["exec", "hi"], ["exec", "--json", "hi"], ["proto"]):
        done = spindle(*command)
        assert (done.code, done.out, server.requests) == (1, "", []), (command, done.err)
    assert spindle.rollouts() == []


# ---- wrong type ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[history]\nmax_bytes = 'many'", ("history.max_bytes", "integer", "string")),
        ("[sandbox_workspace_write]\nnetwork_access = 1", ("sandbox_workspace_write.network_access", "true or false")),
        ("[shell_environment_policy]\nexclude = 'A*'", ("shell_environment_policy.exclude", "array", "string")),
        (
            "[sandbox_workspace_write]\nwritable_roots = [1]",
            ("writable_roots", "array of paths", "integer among its members"),
        ),
        ("[tools]\nweb_search = {x = 1.5}\n[mcp_servers]\nx = 3", ("mcp_servers.x", "table", "integer")),
    ],
)
def test_a_value_of_the_wrong_type_is_named_with_what_was_found_and_what_is_wanted(
    spindle: Spindle, server: FakeServer, text: str, parts: tuple[str, ...]
) -> None:
    spindle.configure(text)
    refused(spindle("exec", "hi"), server, f"{spindle.home}/config.toml:", *parts)


# ---- unknown key -----------------------------------------------------------------------------------


def test_an_unknown_key_is_one_warning_with_the_nearest_key_and_never_fatal(
    spindle: Spindle, server: FakeServer
) -> None:
    spindle.configure("[sandbox_workspace_write]\nnetwork_acces = true")
    server.script(turn(call("update_plan", {"plan": []}, "c1")), turn(message("fine")))
    done = spindle("exec", "hi")
    assert (done.code, done.out) == (0, "fine\n")
    assert done.err.count("network_acces ") + done.err.count("network_acces;") == 1, done.err
    assert "did you mean sandbox_workspace_write.network_access?" in done.err


# ---- non-UTF-8 config ------------------------------------------------------------------------------


def test_a_config_that_is_not_utf_8_is_refused_with_its_line(spindle: Spindle, server: FakeServer) -> None:
    (spindle.home / "config.toml").write_bytes(b'model = "x"\nname = "\xff\xfe"\n')
    refused(spindle("exec", "hi"), server, f"{spindle.home}/config.toml:2", "UTF-8")


# ---- corrupt middle line and torn last line --------------------------------------------------------


def damage(rollout: Path) -> bytes:
    """Make one line in the middle unreadable and tear the last one; gives the damaged file."""
    lines = rollout.read_bytes().splitlines(keepends=True)
    middle = len(lines) // 2
    lines[middle] = b'{"timestamp": "2026-\0\0\0 what the disk made of it\n'
    lines[-1] = lines[-1][: len(lines[-1]) // 2]
    rollout.write_bytes(b"".join(lines))
    return rollout.read_bytes()


def test_a_damaged_record_is_resumed_counted_and_kept_beside_itself(spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(message("one")), turn(message("two")))
    thread = spindle("exec", "--json", "remember the parrot").thread_id
    spindle("exec", "resume", thread, "and the cage")
    [rollout] = spindle.rollouts()
    damaged = damage(rollout)

    done = spindle("exec", "resume", thread, "go on")
    assert done.code == 0 and "Traceback" not in done.err
    assert "2 damaged lines were skipped" in done.err, done.err
    assert "remember the parrot" in json.dumps(server.requests[-1].json["input"])
    kept = [path for path in rollout.parent.iterdir() if path != rollout]
    assert [path.read_bytes() for path in kept] == [damaged]
    assert kept[0].name in done.err and kept[0].stat().st_mode & 0o777 == 0o600
    assert rollout.read_bytes().startswith(damaged), "what was recorded is never taken away"
    assert rollout.read_bytes().endswith(b"\n")


def test_the_damaged_original_is_kept_once_and_is_no_thread_of_its_own(spindle: Spindle, server: FakeServer) -> None:
    thread = spindle("exec", "--json", "hello").thread_id
    [rollout] = spindle.rollouts()
    damaged = damage(rollout)
    for _ in range(2):
        done = spindle("exec", "--json", "resume", thread, "go on")
        assert done.thread_id == thread
    kept = [path for path in rollout.parent.iterdir() if path != rollout]
    assert [path.read_bytes() for path in kept] == [damaged]
    assert len(spindle("threads").out.splitlines()) == 1
    assert spindle("archive", thread).code == 0
    assert [path.suffix for path in (spindle.home / "archived_sessions").iterdir()].count(".damaged") == 1
    assert spindle("delete", "--force", thread).code == 0
    assert list(spindle.home.rglob("rollout-*")) == [], "what is deleted is gone, copies included"


def test_a_json_run_tells_of_damage_as_well(spindle: Spindle, server: FakeServer) -> None:
    thread = spindle("exec", "--json", "hello").thread_id
    damage(spindle.rollouts()[0])
    done = spindle("exec", "--json", "resume", thread, "go on")
    assert done.code == 0 and "damaged lines were skipped" in done.out + done.err


# ---- first (meta) line destroyed -------------------------------------------------------------------


@pytest.mark.parametrize("first", [b"", b"\0\0\0\0\n", b'{"timestamp":"2026\n', b"\xff\xfe\n"])
def test_a_thread_without_its_first_line_is_rebuilt_from_the_file_name(
    spindle: Spindle, server: FakeServer, first: bytes
) -> None:
    thread = spindle("exec", "--json", "remember the parrot").thread_id
    [rollout] = spindle.rollouts()
    rollout.write_bytes(first + rollout.read_bytes().partition(b"\n")[2])
    done = spindle("exec", "resume", thread, "go on")
    assert done.code == 0 and "Traceback" not in done.err
    assert "rebuilt from the file name" in done.err
    assert "remember the parrot" in json.dumps(server.requests[-1].json["input"])


def test_a_record_that_holds_nothing_is_refused_in_one_sentence_or_goes_on(
    spindle: Spindle, server: FakeServer
) -> None:
    thread = spindle("exec", "--json", "hello").thread_id
    for content in (b"", b"\0" * 4096, b"\x1f\x8b rubbish"):
        spindle.rollouts()[0].write_bytes(content)
        done = spindle("exec", "resume", thread, "go on")
        assert done.code in (0, 1) and "Traceback" not in done.err and done.err.strip()


# ---- disk full -------------------------------------------------------------------------------------


def kept_rollout(copy: Path) -> list[Path]:
    return sorted(copy.rglob("rollout-*.jsonl"))


@pytest.mark.usefixtures("own_mounts")
@pytest.mark.parametrize("json_flag", [[], ["--json"]])
def test_a_disk_that_fills_up_in_mid_turn_costs_the_record_and_not_the_turn(
    spindle: Spindle, server: FakeServer, tmp_path: Path, json_flag: list[str]
) -> None:
    steps = [turn(message("x" * 20_000), call("update_plan", {"plan": []}, f"c{n}")) for n in range(8)]
    server.script(*steps, turn(message("finished all the same")))
    copy = tmp_path / "copy"
    done = spindle("exec", *json_flag, "hi", wrap=on_small_disk(spindle.home, 96, copy))
    assert done.code == 0 and "finished all the same" in done.out and "Traceback" not in done.err
    assert len(server.requests) == 9
    told = done.out + done.err
    assert "not being recorded" in told and "No space left" in told, told
    [rollout] = kept_rollout(copy)
    assert len(whole_lines(rollout)) > 5


@pytest.mark.usefixtures("own_mounts")
def test_the_loss_of_the_record_is_said_while_the_turn_still_runs(
    spindle: Spindle, server: FakeServer, tmp_path: Path
) -> None:
    """A person who hears of it only at the end of an hour of work hears of it too late."""
    server.script(
        turn(message("x" * 200_000), call("update_plan", {"plan": []}, "c1")), turn(message("y"), hang_after=2)
    )
    wrap = on_small_disk(spindle.home, 96, tmp_path / "copy")
    process = spindle.start("exec", "--json", "hi", wrap=wrap, start_new_session=True)
    assert process.stdout is not None
    try:
        seen = b""
        deadline = time.monotonic() + 40
        while b"not being recorded" not in seen and time.monotonic() < deadline:
            if is_readable(process.stdout.fileno(), 0.2):
                seen += os.read(process.stdout.fileno(), 1 << 16)
        assert b"not being recorded" in seen and b"turn.completed" not in seen
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        finish(process)


@pytest.mark.usefixtures("own_mounts")
def test_on_a_disk_that_is_full_from_the_start_everything_works_or_is_refused_in_a_sentence(
    spindle: Spindle, server: FakeServer, tmp_path: Path
) -> None:
    thread = spindle("exec", "--json", "hello").thread_id
    server.requests.clear()
    for number, args in enumerate(
        (
            ["exec", "hi"],
            ["exec", "resume", thread, "hi"],
            ["exec", "fork", thread, "hi"],
            ["exec", "--yolo", "-o", str(spindle.home / "last.txt"), "hi"],
        )
    ):
        copy = tmp_path / f"copy{number}"
        wrap = on_small_disk(spindle.home, 256, copy)
        fill = ["sh", "-c", 'cat /dev/zero > "$CODEX_HOME/filler" 2>/dev/null; exec "$@"', "sh"]
        done = spindle(*args, wrap=[*wrap, *fill])
        assert "Traceback" not in done.err, done.err
        if done.code == 0:
            assert done.out == "done\n" and "not being recorded" in done.err, done.err
        else:
            # Refused, or answered and told that the answer could not be put where it should be.
            told = done.err.strip().splitlines()
            assert done.code == 1 and "No space left" in told[-1] and told[-1].startswith("error: "), done.err
            assert (done.out == "done\n") == ("-o" in args) and (len(told) == 1 or "-o" in args), done.err
        for rollout in kept_rollout(copy):
            if rollout.stat().st_size:
                whole_lines(rollout)
        (tmp_path / "home.before").rename(tmp_path / f"before{number}")


@pytest.mark.usefixtures("own_mounts")
def test_a_patch_on_a_full_disk_leaves_the_file_as_it_was(spindle: Spindle, server: FakeServer, tmp_path: Path) -> None:
    (spindle.workspace / "a.txt").write_text("old\n")
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-old\n+" + "new" * 30_000 + "\n*** End Patch\n"
    server.script(turn(custom_call("apply_patch", patch, "c1")), turn(message("fine")))
    copy = tmp_path / "copy"
    wrap = on_small_disk(spindle.workspace, 300, copy)
    fill = ["sh", "-c", f'cd {spindle.workspace}; cat /dev/zero > filler 2>/dev/null; exec "$@"', "sh"]
    done = spindle("exec", "-s", "workspace-write", "hi", wrap=[*wrap, *fill])
    assert (done.code, done.out) == (0, "fine\n"), done.err
    assert "No space left" in output_of(server.requests[-1])
    assert (copy / "a.txt").read_text() == "old\n"
    assert sorted(path.name for path in copy.iterdir()) == [".git", "a.txt", "filler"]


# ---- read-only home --------------------------------------------------------------------------------


@pytest.mark.usefixtures("own_mounts")
def test_with_a_read_only_home_exec_runs_unrecorded_and_says_so(spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo from the command"}, "c1")), turn(message("fine")))
    done = spindle("exec", "hi", wrap=on_read_only_disk(spindle.home))
    assert (done.code, done.out) == (0, "fine\n"), done.err
    assert "not being recorded" in done.err and "Read-only file system" in done.err and "Traceback" not in done.err
    assert "from the command" in output_of(server.requests[-1])


@pytest.mark.usefixtures("own_mounts")
def test_with_a_read_only_home_a_thread_can_be_resumed_and_a_fork_is_refused_in_a_sentence(
    spindle: Spindle, server: FakeServer
) -> None:
    thread = spindle("exec", "--json", "hello").thread_id
    before = spindle.rollouts()[0].read_bytes()
    done = spindle("exec", "resume", thread, "hi", wrap=on_read_only_disk(spindle.home))
    assert done.code == 0 and "not being recorded" in done.err, done.err
    done = spindle("exec", "fork", thread, "hi", wrap=on_read_only_disk(spindle.home))
    assert "Traceback" not in done.err and "Read-only file system" in done.err, done.err
    assert done.code == 1 and len(done.err.strip().splitlines()) == 1
    assert [path.read_bytes() for path in spindle.rollouts()] == [before]


# ---- SIGKILL mid-command ---------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["danger-full-access", "workspace-write"])
def test_killed_in_the_middle_of_a_command_the_record_is_whole_and_the_command_gone(
    spindle: Spindle, server: FakeServer, mode: str
) -> None:
    mark = f"86399.{os.getpid()}{time.monotonic_ns() % 10_000}"
    script = f"setsid sleep {mark} & sleep {mark}; echo never"
    server.script(turn(call("exec_command", {"cmd": script, "yield_time_ms": 30_000}, "c1")), turn(message("go on")))
    process = spindle.start("exec", "--json", "-s", mode, "hi")
    wait_for(lambda: len(processes_with(f"sleep\0{mark}")) >= 2, "the command did not start")
    process.kill()
    dead = finish(process)
    wait_for(lambda: not processes_with(mark), "the command outlived the agent")
    kinds = [line["type"] for line in whole_lines(spindle.rollouts()[0])]
    assert kinds[0] == "session_meta" and "response_item" in kinds

    again = spindle("exec", "--json", "resume", dead.thread_id, "go on")
    assert again.code == 0, again.err
    assert "skipped" not in again.out + again.err
    assert "c1" in [item.get("call_id") for item in server.requests[-1].json["input"] if "output" in item]


# ---- SIGKILL of the sandbox launcher ---------------------------------------------------------------


def is_bwrap(pid: int) -> bool:
    try:
        return b"bwrap" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return False


def test_killing_the_launcher_kills_the_command_and_leaves_nothing(
    spindle: Spindle, server: FakeServer, tmp_path: Path
) -> None:
    plain = tmp_path / "no-repository"
    plain.mkdir()
    spindle.workspace = plain
    mark = f"86398.{os.getpid()}{time.monotonic_ns() % 10_000}"
    script = f"setsid sleep {mark} & sleep {mark}; echo never"
    server.script(turn(call("exec_command", {"cmd": script, "yield_time_ms": 30_000}, "c1")), turn(message("noted")))
    process = spindle.start("exec", "--json", "--skip-git-repo-check", "-s", "workspace-write", "hi")
    wait_for(lambda: len(processes_with(f"sleep\0{mark}")) >= 2, "the command did not start")
    launchers = [pid for pid in children_of(process.pid) if is_bwrap(pid)]
    os.kill(launchers[0], signal.SIGKILL)
    wait_for(lambda: not processes_with(f"sleep\0{mark}"), "the command outlived its launcher")
    done = finish(process)
    assert done.code == 0 and done.items("agent_message")[-1]["text"] == "noted"
    assert list(plain.iterdir()) == []
    assert "never" not in output_of(server.requests[-1]).replace("echo never", "")


def test_a_killed_agent_leaves_no_litter_once_the_next_one_has_started(
    spindle: Spindle, server: FakeServer, tmp_path: Path
) -> None:
    plain = tmp_path / "no-repository"
    plain.mkdir()
    spindle.workspace = plain
    mark = f"86397.{os.getpid()}{time.monotonic_ns() % 10_000}"
    server.script(turn(call("exec_command", {"cmd": f"sleep {mark}", "yield_time_ms": 30_000}, "c1")))
    process = spindle.start("exec", "--json", "--skip-git-repo-check", "-s", "workspace-write", "hi")
    wait_for(lambda: processes_with(f"sleep\0{mark}"), "the command did not start")
    process.kill()
    finish(process)
    wait_for(lambda: not processes_with(f"sleep\0{mark}"), "the command outlived the agent")
    assert spindle("exec", "--skip-git-repo-check", "hi").code == 0
    assert list(plain.iterdir()) == []


@pytest.mark.parametrize(
    ("victim", "number"),
    [
        ("spindle sandbox", signal.SIGKILL),
        ("spindle sandbox", signal.SIGTERM),
        ("spindle sandbox", signal.SIGHUP),
        ("its launcher", signal.SIGKILL),
    ],
)
def test_a_bare_sandbox_that_is_killed_takes_its_command_along_and_leaves_nothing(
    spindle: Spindle, tmp_path: Path, victim: str, number: int
) -> None:
    plain = tmp_path / "no-repository"
    plain.mkdir()
    spindle.workspace = plain
    mark = f"86390.{os.getpid()}{time.monotonic_ns() % 10_000}"
    script = f"setsid sleep {mark} & sleep {mark}"
    process = spindle.start("sandbox", "--mode", "workspace-write", "--", "sh", "-c", script)
    wait_for(lambda: len(processes_with(f"sleep\0{mark}")) >= 2, "the command did not start")
    launchers = [pid for pid in children_of(process.pid) if is_bwrap(pid)]
    os.kill(launchers[0] if victim == "its launcher" else process.pid, number)
    done = finish(process)
    assert done.code != 0 and "Traceback" not in done.err
    wait_for(lambda: not processes_with(f"sleep\0{mark}"), "the command outlived its launcher")
    wait_for(lambda: list(plain.iterdir()) == [], f"left behind: {list(plain.iterdir())}")


# ---- two processes, one session --------------------------------------------------------------------


def test_a_second_writer_is_refused_in_a_sentence_and_the_file_stays_valid(
    spindle: Spindle, server: FakeServer
) -> None:
    thread = spindle("exec", "--json", "hello").thread_id
    server.script(turn(call("exec_command", {"cmd": "sleep 60", "yield_time_ms": 30_000}, "c1")))
    first = spindle.start("exec", "--json", "--yolo", "resume", thread, "work")
    wait_for(lambda: len(server.requests) == 2, "the first did not begin")
    second = spindle("exec", "--json", "resume", thread, "me too")
    assert (second.code, second.out, len(server.requests)) == (1, "", 2), second.err
    assert len(second.err.strip().splitlines()) == 1 and thread in second.err and "another process" in second.err
    assert str(first.pid) in second.err
    whole_lines(spindle.rollouts()[0])
    first.kill()
    finish(first)
    assert spindle("exec", "--json", "resume", thread, "now me").code == 0, "a crash releases the lock"
    whole_lines(spindle.rollouts()[0])


# ---- 60 MB of output -------------------------------------------------------------------------------


@pytest.mark.parametrize("json_flag", [[], ["--json"]])
def test_sixty_megabytes_of_output_cost_little_memory_and_reach_the_model_cut(
    spindle: Spindle, server: FakeServer, json_flag: list[str]
) -> None:
    memory: list[int] = []
    process: list[subprocess.Popen[bytes]] = []

    def answer(step: Turn) -> Any:
        def measured(_: Received) -> Turn:
            pid = wait_for(lambda: process and process[0].pid, "not started")
            memory.append(peak_memory_kb(pid))
            return step

        return measured

    flood = "head -c 60000000 /dev/zero | tr '\\0' 'abcdefgh' | fold -w 99; echo THE-END"
    server.script(
        answer(turn(call("exec_command", {"cmd": "true"}, "c0"))),
        answer(turn(call("exec_command", {"cmd": flood, "yield_time_ms": 30_000}, "c1"))),
        answer(turn(message("fine"))),
    )
    process.append(spindle.start("exec", *json_flag, "--yolo", "hi"))
    done = finish(process[0])
    assert done.code == 0, done.err
    told = output_of(server.requests[-1])
    assert len(told) < 60_000 and "truncated" in told and "THE-END" in told
    assert memory[2] - memory[1] < 50 * 1024, f"{memory} kB"
    assert spindle.rollouts()[0].stat().st_size < 3 * MIB
    assert len(done.raw_out) + len(done.err) < 3 * MIB


# ---- binary output ---------------------------------------------------------------------------------

RUBBISH = r"printf 'A\377\376\000B\033]0;owned\007\033[2J\033[31mC\r\nD\xc2'"


def test_binary_output_reaches_the_model_as_text_with_replacements(spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": RUBBISH}, "c1")), turn(message("fine")))
    done = spindle("exec", "--json", "--yolo", "hi")
    assert done.code == 0
    told = output_of(server.requests[-1])
    assert "A��\0B" in told and "\x1b[31mC" in told and "�" in told
    assert "exited with code 0" in told
    assert [item["exit_code"] for item in done.items("command_execution")] == [0]
    whole_lines(spindle.rollouts()[0])


@pytest.mark.parametrize("color", ["always", "never"])
def test_the_terminal_view_has_no_escape_sequence_of_a_command_a_message_or_a_name(
    spindle: Spindle, server: FakeServer, color: str
) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
    server.script(
        turn(call("exec_command", {"cmd": RUBBISH + f" # {evil}"}, "c1")),
        turn(message(f"progress {evil}"), call("update_plan", {"plan": [{"step": evil, "status": "pending"}]}, "c2")),
        turn(message("fine")),
    )
    done = spindle("exec", "--yolo", "--color", color, "hi")
    assert done.code == 0
    for sequence in ("\x1b]", "\x1b[2J", "\x9b", "\x07", "\0"):
        assert sequence not in done.err, sequence
    if color == "never":
        assert "\x1b" not in done.err


EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x08"
DRIVES = ("\x1b]", "\x1b[2J", "\x9b", "\x07", "\u202e", "\x08")


def test_a_final_message_drives_no_terminal_and_reaches_a_program_as_it_is(
    spindle: Spindle, server: FakeServer
) -> None:
    server.otherwise(turn(message(f"final {EVIL} words")))
    assert spindle("exec", "hi").out == f"final {EVIL} words\n"
    outer, inner = os.openpty()
    process = spindle.start("exec", "hi", stdout=inner, stderr=subprocess.DEVNULL)
    assert process.wait(20) == 0
    os.close(inner)
    shown = os.read(outer, 1 << 16).decode()
    os.close(outer)
    assert "final " in shown and "words" in shown and [text for text in DRIVES if text in shown] == []


@pytest.mark.parametrize(
    "step",
    [
        refuses(400, {"error": {"message": f"bad {EVIL}"}}),
        refuses(418, f"a page {EVIL}", headers={"x-request-id": "r\x1b[2J"}),
        refuses(302, "", headers={"location": "http://x/\x1b[2J"}),
        fails("weird", f"failed {EVIL}"),
        turn(
            reasoning(f"**{EVIL}**"),
            {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": EVIL}},
            call(f"nosuch{EVIL}", {}, "c1"),
            custom_call("apply_patch", f"*** Begin Patch\n*** Add File: a{EVIL}\n+x\n*** End Patch\n", "p1"),
            call("view_image", {"path": EVIL}, "c2"),
        ),
    ],
)
def test_nothing_that_a_server_says_drives_the_terminal(spindle: Spindle, server: FakeServer, step: Turn) -> None:
    server.script(step)
    done = spindle("exec", "-s", "workspace-write", *ONE_TRY, "hi")
    assert done.err and [text for text in DRIVES if text in done.err] == []


def test_what_we_say_about_wrong_arguments_drives_no_terminal(spindle: Spindle, server: FakeServer) -> None:
    for args in (
        ["exec", "resume", f"no{EVIL}", "hi"],
        ["exec", "-c", f"model_provider='{EVIL}'", "hi"],
        ["exec", f"--bad{EVIL}", "hi"],
        ["exec", "-C", f"/no{EVIL}", "hi"],
        [f"frob{EVIL}"],
    ):
        done = spindle(*args)
        assert done.code in (1, 2) and [text for text in DRIVES if text in done.err] == [], (args, done.err)


# ---- invalid UTF-8 and garbage in the stream -------------------------------------------------------


def test_a_stream_that_is_not_utf_8_is_a_stream_error_retried_and_then_told(
    spindle: Spindle, server: FakeServer
) -> None:
    server.otherwise(sends_raw(b'data: {"type":"response.created","response":{"id":"r"}}\n\ndata: "\xff\xfe"\n\n'))
    done = spindle("exec", "--json", "hi")
    assert (done.code, len(server.requests)) == (1, 2), done.out
    assert done.events[-1]["type"] == "turn.failed" and "UTF-8" in done.events[-1]["error"]["message"]


@pytest.mark.parametrize(
    "garbage",
    [b"data: {not json\n\n", b"data: [1,2\n\n", b"data: \n\n", b"data: 17\n\n", b'data: {"type":7}\n\n', b"\0\0\n\n"],
)
def test_garbage_in_one_event_is_skipped(spindle: Spindle, server: FakeServer, garbage: bytes) -> None:
    events = whole_message("fine")
    server.script(sends_raw(stream_of(garbage, events[0], garbage, *events[1:], garbage, completed("r", {}))))
    done = spindle("exec", "hi")
    assert (done.code, done.out, len(server.requests)) == (0, "fine\n", 1), done.err


# ---- stream cut before completion ------------------------------------------------------------------


def test_after_a_cut_stream_finished_items_are_neither_shown_nor_sent_nor_run_twice(
    spindle: Spindle, server: FakeServer
) -> None:
    ran = spindle.workspace / "ran"
    cut = turn(message("first part", item_id="m1"), call("exec_command", {"cmd": f"echo x >> {ran}"}, "c1"))
    server.script(Turn(events=cut.events[:-1], drop_after=len(cut.events) - 1), turn(message("second part")))
    done = spindle("exec", "--json", "--yolo", "hi")
    assert done.code == 0, done.out
    assert [item["text"] for item in done.items("agent_message")] == ["first part", "second part"]
    assert len(done.items("command_execution")) == 1 and ran.read_text() == "x\n"
    sent = server.requests[-1].json["input"]
    assert json.dumps(sent).count("first part") == 1
    assert [item["call_id"] for item in sent if item["type"] == "function_call"] == ["c1"]
    recorded = json.dumps(whole_lines(spindle.rollouts()[0]))
    assert recorded.count('"type": "function_call"') == 1


def test_a_message_cut_in_the_middle_is_shown_once_when_it_is_whole(spindle: Spindle, server: FakeServer) -> None:
    half = turn(message("only half of it", deltas=3))
    server.script(Turn(events=half.events[:3], drop_after=3), turn(message("all of it")))
    done = spindle("exec", "--json", "hi")
    assert [item["text"] for item in done.items("agent_message")] == ["all of it"]
    assert "half" not in json.dumps(server.requests[-1].json["input"])


def test_a_stream_that_is_cut_every_time_fails_after_the_configured_retries(
    spindle: Spindle, server: FakeServer
) -> None:
    server.otherwise(Turn(events=turn(message("half", deltas=2)).events[:3], drop_after=3))
    done = spindle("exec", "--json", "hi")
    assert (done.code, len(server.requests), done.items("agent_message")) == (1, 2, [])
    assert done.events[-1]["type"] == "turn.failed"


# ---- one huge event --------------------------------------------------------------------------------


def test_an_event_of_thirty_megabytes_arrives_even_when_it_takes_longer_than_the_idle_time(
    spindle: Spindle, server: FakeServer
) -> None:
    text = "x" * (30 * MIB)
    raw = stream_of(*whole_message(text)[-1:], completed("r", {}))
    server.script(sends_raw(raw, fragment=128 * 1024, fragment_delay_s=0.01))
    started = time.monotonic()
    done = spindle("exec", "-c", "model_providers.fake.stream_idle_timeout_ms=2000", "hi")
    assert (done.code, len(done.out), len(server.requests)) == (0, len(text) + 1, 1), done.err[-300:]
    assert 2.2 < time.monotonic() - started < 50


def test_an_event_above_the_limit_is_refused_in_a_sentence_and_not_asked_for_again(
    spindle: Spindle, server: FakeServer
) -> None:
    spindle.configure("[spindle.limits]\nsse_event_max_bytes = 1000000")
    server.otherwise(sends_raw(b"data: " + b"x" * 3_000_000))
    done = spindle("exec", "--json", "hi")
    assert (done.code, len(server.requests)) == (1, 1)
    assert "larger than 1000000 bytes" in done.events[-1]["error"]["message"]


def test_a_compressed_answer_that_unfolds_without_end_costs_no_memory(spindle: Spindle, server: FakeServer) -> None:
    bomb = gzip.compress(b"data: " + b"x" * (256 * MIB), 1)
    spindle.configure("[spindle.limits]\nsse_event_max_bytes = 8000000")
    memory: list[int] = []
    process: list[subprocess.Popen[bytes]] = []

    def measured(step: Turn) -> Any:
        def answer(_: Received) -> Turn:
            memory.append(peak_memory_kb(wait_for(lambda: process and process[0].pid, "not started")))
            return step

        return answer

    squeezed = {"content-encoding": "gzip"}
    server.script(
        measured(Turn(status=500, body=bomb, headers=squeezed)),
        measured(Turn(status=500, body=bomb, headers=squeezed)),
        measured(sends_raw(bomb, headers=squeezed)),
    )
    process.append(spindle.start("exec", "--json", "hi"))
    done = finish(process[0])
    assert done.code == 1 and "larger than 8000000 bytes" in done.events[-1]["error"]["message"]
    assert len(memory) == 3 and memory[2] - memory[0] < 20 * 1024, f"{memory} kB"


# ---- keep-alive comments only ----------------------------------------------------------------------


def test_comments_alone_do_not_keep_a_stream_alive(spindle: Spindle, server: FakeServer) -> None:
    server.otherwise(sends_raw(b": keep-alive\n\n" * 4000, fragment=14, fragment_delay_s=0.05))
    started = time.monotonic()
    done = spindle("exec", "--json", *SHORT_IDLE, *ONE_TRY, "hi")
    assert done.code == 1 and len(server.requests) == 1
    assert "idle" in done.events[-1]["error"]["message"]
    assert 0.6 < time.monotonic() - started < 30


def test_a_stream_that_makes_a_little_progress_for_ever_is_ended_by_the_limit_of_the_turn(
    spindle: Spindle, server: FakeServer
) -> None:
    spindle.configure("[spindle.limits]\nturn_timeout_sec = 1.5")
    server.otherwise(sends_raw(b'data: {"type":"response.in_progress"}\n\n' * 4000, fragment=39, fragment_delay_s=0.05))
    started = time.monotonic()
    done = spindle("exec", "--json", "hi")
    assert done.code == 1 and "stopped after 1.5 seconds" in done.events[-1]["error"]["message"]
    assert 1.4 < time.monotonic() - started < 30


# ---- server accepts, never answers -----------------------------------------------------------------


def test_a_server_that_never_answers_is_left_after_the_idle_time_counted_and_shown(
    spindle: Spindle, server: FakeServer
) -> None:
    server.otherwise(turn(message("too late"), delay_s=60))
    started = time.monotonic()
    done = spindle("exec", "--json", *SHORT_IDLE, "hi")
    assert done.code == 1 and len(server.requests) == 2
    shown = [event for event in done.events if event["type"] == "error"]
    assert any("1/1" in event["message"] for event in shown), done.out
    assert "idle" in done.events[-1]["error"]["message"] or "answer" in done.events[-1]["error"]["message"]
    assert 1.2 < time.monotonic() - started < 30


# ---- HTTP 500 and 429 ------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "words"), [(500, "500 Internal Server Error"), (429, "429 Too Many Requests")])
def test_a_failing_server_is_shown_with_its_status_and_the_id_of_the_request(
    spindle: Spindle, server: FakeServer, status: int, words: str
) -> None:
    server.otherwise(refuses(status, {"error": {"message": "no"}}, headers={"x-request-id": "req-4711"}))
    for flags in ([], ["--json"]):
        server.requests.clear()
        done = spindle("exec", *flags, "hi")
        assert done.code == 1 and len(server.requests) >= 2
        assert words in done.out + done.err and "req-4711" in done.out + done.err


@pytest.mark.parametrize("status", [429, 503])
def test_the_wait_that_a_server_asks_for_is_kept(spindle: Spindle, server: FakeServer, status: int) -> None:
    server.script(refuses(status, headers={"retry-after": "1.5"}), turn(message("fine")))
    done = spindle("exec", "hi")
    assert (done.code, done.out) == (0, "fine\n")
    first, second = server.requests
    assert 1.4 <= second.arrived_s - first.arrived_s < 30


def test_a_long_wait_that_a_server_asks_for_is_announced_and_can_be_interrupted(
    spindle: Spindle, server: FakeServer
) -> None:
    server.otherwise(refuses(503, headers={"retry-after": "86400"}))
    process = spindle.start("exec", "--json", "hi")
    assert process.stdout is not None
    lines = [process.stdout.readline().decode() for _ in range(3)]
    assert "503 Service Unavailable" in lines[-1] and "waiting 60 s" in lines[-1], lines
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 1


# ---- MCP servers -----------------------------------------------------------------------------------


def test_servers_that_end_at_once_or_hang_are_named_and_gone_and_the_turn_works(
    spindle: Spindle, server: FakeServer
) -> None:
    spindle.configure(
        """
[mcp_servers.exits]
command = "sh"
args = ["-c", "exit 3"]

[mcp_servers.hangs]
command = "sh"
args = ["-c", "sleep 86393"]
startup_timeout_sec = 1

[mcp_servers.off]
command = "sh"
enabled = false
"""
    )
    server.script(turn(message("fine")))
    done = spindle("exec", "hi")
    assert (done.code, done.out) == (0, "fine\n")
    assert not processes_with("sleep\x0086393")
    lines = sorted(line for line in done.err.splitlines() if "MCP server" in line)
    assert lines == [
        "warning: MCP server exits is missing: the server ended with exit code 3",
        "warning: MCP server hangs is missing: not ready within 1 seconds (startup_timeout_sec)",
    ]


def test_a_server_that_hangs_in_a_call_or_dies_in_one_costs_that_call_and_is_gone_at_the_end(
    spindle: Spindle, server: FakeServer, tmp_path: Path
) -> None:
    pids = {name: tmp_path / name for name in ("stuck", "mortal")}
    stuck = {"tools": ["wait"], "wait_on": "wait", "stubborn": True, "env": str(pids["stuck"])}
    mortal = {"tools": ["die", "work"], "die_on": "die", "stubborn": True, "env": str(pids["mortal"])}
    entries = {"stuck": stub(stuck, tool_timeout_sec=0.5), "mortal": stub(mortal)}
    spindle.configure("\n".join(f"[mcp_servers.{name}]\n{toml_lines(entry)}\n" for name, entry in entries.items()))
    names = ("mcp__stuck__wait", "mcp__mortal__die", "mcp__mortal__work")
    server.script(*(turn(call(name, {"text": "x"}, f"c{n}")) for n, name in enumerate(names)), turn(message("fine")))
    done = spindle("exec", "hi")
    assert (done.code, done.out) == (0, "fine\n"), done.err
    told = outputs(server)
    assert told["c0"] == 'err: "no answer to tools/call within 0.5 seconds"'
    assert told["c1"] == 'err: "the server ended with exit code 7"'
    assert told["c2"].endswith('work:{"text": "x"}'), "it was started again"
    for file in pids.values():
        assert not Path(f"/proc/{json.loads(file.read_text())['pid']}").exists()


def toml_lines(table: dict[str, Any]) -> str:
    """JSON's numbers, strings and arrays of strings are TOML too."""
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items())


# ---- the clock -------------------------------------------------------------------------------------


class BackwardClock(SystemClock):
    """A wall clock that loses an hour whenever it is asked."""

    def __init__(self) -> None:
        self._wall = time.time()

    def now(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._wall -= 3600
        return self._wall

    def uuid7(self) -> str:
        return format_uuid7(int(self.now() * 1000), os.urandom(10))


async def one_turn(spindle: Spindle, clock: SystemClock, thread: str | None = None) -> tuple[str, Msg]:
    """A whole turn in this process, with a clock of our own; the thread's id and its terminal event."""
    config = load_config(cwd=str(spindle.workspace), env=spindle.environment, options=LoadOptions(headless=True))
    session = await open_session(
        SessionRequest(config=config, source="exec", originator="codex_exec", clock=clock, thread=thread)
    )
    events = session.subscribe()
    actor = asyncio.ensure_future(session.run())
    session.submit(Submission("s", UserTurn(items=[{"type": "text", "text": "hi"}])))
    terminal = None
    async for event in events:
        if isinstance(event.msg, TERMINAL):
            terminal = event.msg
            break
    session.submit(Submission("", Shutdown()))
    await asyncio.wait_for(actor, 20)
    assert terminal is not None
    return session.thread.thread_id, terminal


async def test_a_wall_clock_that_runs_backwards_disturbs_neither_timers_nor_names(
    spindle: Spindle, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_API_KEY", "test-key")
    hang = turn(message("never"), delay_s=30)
    server.script(
        Turn(events=turn(message("half")).events[:2], drop_after=2),  # a retry, with its pause
        turn(call("exec_command", {"cmd": "echo from the command"}, "c1")),
        turn(message("fine")),
        turn(message("again")),
        hang,
        hang,
    )
    clock = BackwardClock()
    thread, terminal = await one_turn(spindle, clock)
    assert isinstance(terminal, TaskComplete) and terminal.last_agent_message == "fine"
    assert "from the command" in output_of(server.requests[2])
    same, terminal = await one_turn(spindle, clock, thread)
    assert same == thread and isinstance(terminal, TaskComplete) and terminal.last_agent_message == "again"
    whole_lines(spindle.rollouts()[0])
    config = (spindle.home / "config.toml").read_text().replace("timeout_ms = 20000", "timeout_ms = 300")
    (spindle.home / "config.toml").write_text(config)
    started = time.monotonic()
    _, terminal = await one_turn(spindle, clock, thread)
    assert isinstance(terminal, TaskComplete) and terminal.last_agent_message is None
    assert 0.6 < time.monotonic() - started < 30, "the idle limit is measured by another clock"


def test_threads_that_were_recorded_in_the_future_are_no_obstacle(spindle: Spindle, server: FakeServer) -> None:
    """As after the clock was put back: names, folders and dates of files lie ahead of now."""
    thread = spindle("exec", "--json", "from tomorrow").thread_id
    [rollout] = spindle.rollouts()
    ahead = spindle.home / "sessions/2099/12/31" / f"rollout-2099-12-31T23-59-59-{thread}.jsonl"
    ahead.parent.mkdir(parents=True)
    rollout.rename(ahead)
    os.utime(ahead, (4_102_444_000, 4_102_444_000))
    today = spindle("exec", "--json", "today").thread_id
    assert today != thread and len(spindle.rollouts()) == 2
    assert spindle("exec", "--json", "resume", thread, "go on").thread_id == thread
    assert spindle("exec", "--json", "resume", today, "go on").thread_id == today
    assert len(spindle("threads").out.splitlines()) == 2


def test_a_clock_that_takes_a_login_for_over_asks_for_a_newer_one_and_else_lets_the_server_decide(
    spindle: Spindle, server: FakeServer
) -> None:
    claims = base64.urlsafe_b64encode(b'{"exp": 1000000000}').decode().rstrip("=")
    tokens = {"access_token": f"h.{claims}.s", "refresh_token": "refresh-me", "id_token": f"h.{claims}.s"}
    (spindle.home / "auth.json").write_text(json.dumps({"auth_mode": "chatgpt", "tokens": tokens}))
    config = (
        (spindle.home / "config.toml").read_text().replace('env_key = "FAKE_API_KEY"', "requires_openai_auth = true")
    )
    (spindle.home / "config.toml").write_text(config)
    done = spindle("exec", "hi", CODEX_REFRESH_TOKEN_URL_OVERRIDE=f"{server.base_url}/token")
    assert done.code == 0, done.err
    assert [request.path for request in server.requests] == ["/v1/token", "/v1/responses"]
    assert server.requests[1].headers["authorization"] == f"Bearer h.{claims}.s"


def test_only_the_clock_module_reads_the_wall_clock_for_the_rest() -> None:
    """A timer that was built on it would fire too early or never."""
    package = Path(spindle_package.__file__ or "").parent
    readers = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"time\.time(_ns)?\(|datetime\.(utc)?now", path.read_text())
    }
    # The mounts compare it with the time of a file, which is on the same clock; nothing waits for it.
    assert readers <= {"protocol/clock.py", "process/sandbox/mounts.py"}


# ---- many processes, much memory -------------------------------------------------------------------

FORKS = f"""{PYTHON} -c '
import os, time
made = 0
for _ in range(400):
    try:
        made += 1 if os.fork() else time.sleep(1) or os._exit(0)
    except OSError:
        pass
print("made", made, flush=True)
os.kill(0, 9)
'"""
GIBIBYTE = (
    f'{PYTHON} -c \'b = bytearray(1 << 30); b[::4096] = b"x" * (1 << 18); print("held", len(b) >> 20)\' 2>&1 | tail -1'
)


def test_there_are_no_limits_unless_they_are_asked_for(spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": FORKS}, "c1")), turn(message("fine")))
    assert spindle("exec", "-s", "workspace-write", "hi").code == 0
    assert "made 400" in output_of(server.requests[-1])


def test_a_command_that_forks_without_end_is_held_at_the_limit(spindle: Spindle, server: FakeServer) -> None:
    spindle.configure("[spindle.sandbox]\npids_max = 50")
    server.script(
        turn(call("exec_command", {"cmd": FORKS}, "c1")),
        turn(call("exec_command", {"cmd": "echo still alive"}, "c2")),
        turn(message("fine")),
    )
    done = spindle("exec", "-s", "workspace-write", "hi")
    assert (done.code, done.out) == (0, "fine\n"), done.err
    made = int(output_of(server.requests[1]).rpartition("made ")[2].split()[0])
    assert 1 < made < 50 and "still alive" in output_of(server.requests[2], "c2")


def test_a_command_that_wants_a_gibibyte_is_held_at_the_limit(spindle: Spindle, server: FakeServer) -> None:
    spindle.configure('[spindle.sandbox]\nmemory_max = "256M"')
    server.script(
        turn(call("exec_command", {"cmd": GIBIBYTE, "yield_time_ms": 20_000}, "c1")),
        turn(call("exec_command", {"cmd": "echo still alive"}, "c2")),
        turn(message("fine")),
    )
    done = spindle("exec", "-s", "workspace-write", "hi")
    assert (done.code, done.out) == (0, "fine\n"), done.err
    assert "held 1024" not in output_of(server.requests[1]) and "still alive" in output_of(server.requests[2], "c2")


# ---- Ctrl-C twice, closed pipe, hangup, terminal ---------------------------------------------------


def stubborn(mark: str) -> str:
    return f"trap '' INT TERM HUP; setsid sleep {mark} & while :; do sleep {mark}; done"


def start_stubborn(spindle: Spindle, server: FakeServer, number: int, mode: str = "danger-full-access") -> Any:
    mark = f"{number}.{os.getpid()}{time.monotonic_ns() % 10_000}"
    step = turn(call("exec_command", {"cmd": stubborn(mark), "yield_time_ms": 30_000}, "c1"))
    server.script(step)
    process = spindle.start("exec", "--json", "-s", mode, "hi", start_new_session=True)
    wait_for(lambda: len(processes_with(f"sleep\0{mark}")) >= 2, "the command did not start")
    return process, mark


@pytest.mark.parametrize("mode", ["danger-full-access", "workspace-write"])
def test_ctrl_c_twice_ends_at_once_with_130_and_the_children_with_it(
    spindle: Spindle, server: FakeServer, mode: str
) -> None:
    process, mark = start_stubborn(spindle, server, 86396, mode)
    started = time.monotonic()
    while process.poll() is None and time.monotonic() - started < 15:
        # Two that are sent at once count as one.
        process.send_signal(signal.SIGINT)
        time.sleep(0.005)
    done = finish(process)
    assert time.monotonic() - started < 15
    assert done.code == 130 and "Traceback" not in done.err
    wait_for(lambda: not processes_with(mark), "a child survived")
    whole_lines(spindle.rollouts()[0])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGHUP, 129), (signal.SIGTERM, 143), (signal.SIGINT, 1)])
def test_a_signal_ends_the_turn_quickly_and_the_children_with_it(
    spindle: Spindle, server: FakeServer, number: int, code: int
) -> None:
    process, mark = start_stubborn(spindle, server, 86395)
    started = time.monotonic()
    process.send_signal(number)
    done = finish(process)
    assert time.monotonic() - started < 20
    assert done.code == code and "Traceback" not in done.err
    assert not processes_with(mark)
    kinds = [line["payload"].get("type") for line in whole_lines(spindle.rollouts()[0])]
    assert kinds[-1] == "turn_aborted"


def test_a_reader_that_goes_away_in_mid_turn_ends_the_run_and_the_command(spindle: Spindle, server: FakeServer) -> None:
    mark = f"86394.{os.getpid()}{time.monotonic_ns() % 10_000}"
    step = turn(
        message("before"),
        call("exec_command", {"cmd": f"echo now; sleep {mark}", "yield_time_ms": 250}, "c1"),
    )
    server.script(step).otherwise(turn(message("more"), call("update_plan", {"plan": []}, "c2")))
    process = spindle.start("exec", "--json", "--yolo", "hi")
    wait_for(lambda: processes_with(f"sleep\0{mark}"), "the command did not start")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    started = time.monotonic()
    process.wait(20)
    err = process.stderr.read()
    process.stderr.close()
    assert process.returncode != 0 and b"Traceback" not in err
    assert time.monotonic() - started < 30
    wait_for(lambda: not processes_with(mark), "a child survived")


# A controlling terminal of its own, as a person has one.


class Terminal:
    def __init__(self, spindle: Spindle, *args: str) -> None:
        self.outer, self._inner = os.openpty()
        self.settings = termios.tcgetattr(self._inner)
        self.process = spindle.start(
            *args, wrap=["setsid", "--ctty"], stdin=self._inner, stdout=self._inner, stderr=self._inner
        )
        self.shown = b""

    def read(self, seconds: float = 0.05) -> bytes:
        while is_readable(self.outer, seconds):
            self.shown += os.read(self.outer, 1 << 16)
        return self.shown

    def type(self, keys: bytes) -> None:
        os.write(self.outer, keys)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.outer, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def is_as_it_was(self) -> bool:
        return termios.tcgetattr(self._inner) == self.settings

    def close(self) -> None:
        os.close(self.outer)
        os.close(self._inner)


@pytest.fixture
def terminal(spindle: Spindle, server: FakeServer) -> Iterator[Terminal]:
    """A run on a terminal that is busy with a command and shows it."""
    step = turn(call("exec_command", {"cmd": "echo begun; sleep 86392", "yield_time_ms": 30_000}, "c1"))
    server.script(step)
    opened = Terminal(spindle, "exec", "--yolo", "hi")
    wait_for(lambda: b"sleep 86392" in opened.read() and children_of(opened.process.pid), "nothing was shown")
    yield opened
    if opened.process.poll() is None:
        opened.process.kill()
        opened.process.wait()
    opened.close()


def test_ctrl_c_on_a_terminal_gives_it_back_as_it_was(terminal: Terminal) -> None:
    started = time.monotonic()
    for _ in range(200):
        if terminal.process.poll() is not None:
            break
        terminal.type(b"\x03")
        terminal.read(0.005)
    assert terminal.process.wait(30) in (1, 130)
    assert time.monotonic() - started < 20
    shown = terminal.read()
    assert terminal.is_as_it_was()
    modes = re.findall(rb"\x1b\[\?([0-9;]+)([hl])", shown)
    assert set(modes) <= {(b"7", b"l"), (b"7", b"h")}, "modes that somebody would have to switch off again"
    assert not modes or modes[-1] == (b"7", b"h"), "long lines are no longer broken"
    assert shown.rfind(b"\x1b[0m") >= shown.rfind(b"\x1b[3"), "colours that nobody ended"


def test_a_resized_terminal_does_not_disturb_the_turn(terminal: Terminal) -> None:
    for rows, columns in ((1, 1), (0, 0), (50, 200)):
        terminal.resize(rows, columns)
        time.sleep(0.05)
    assert terminal.process.poll() is None
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.process.wait(30) == 1
    assert b"Traceback" not in terminal.read()


def test_a_terminal_that_is_closed_ends_the_run_and_its_children(spindle: Spindle, server: FakeServer) -> None:
    mark = f"86391.{os.getpid()}{time.monotonic_ns() % 10_000}"
    server.script(turn(call("exec_command", {"cmd": stubborn(mark), "yield_time_ms": 30_000}, "c1")))
    opened = Terminal(spindle, "exec", "--yolo", "hi")
    wait_for(lambda: opened.read() and len(processes_with(f"sleep\0{mark}")) >= 2, "the command did not start")
    opened.close()
    assert opened.process.wait(30) != 0
    wait_for(lambda: not processes_with(mark), "a child survived")
