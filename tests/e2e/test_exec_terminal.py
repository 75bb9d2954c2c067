"""`spindle exec` as a person watches it: on a real terminal, whose screen the tests look at."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, call, custom_call, message, reasoning, turn
from screen import Screen

Watch = Callable[..., Screen]
OURS = re.compile(r"\x1b(?:[78]|\[(?:[0-9;]*m|[0-9]+A|J|\?7[hl]))")
"""The control sequences that we write: store and find a place, colours, up, erase below, wrapping off and on."""


@pytest.fixture
def watch(spindle_cmd: list[str], workspace: Path, environment: dict[str, str]) -> Watch:
    def run(*args: str, env: dict[str, str] | None = None, **how: Any) -> Screen:
        given = {name: value for name, value in environment.items() if name not in ("LC_ALL", "NO_COLOR", "CI")}
        merged = {**given, "TERM": "xterm-256color", "LANG": "C.UTF-8", **(env or {})}
        return Screen([*spindle_cmd, *args], cwd=workspace, env=merged, **how)

    return run


def waits_for(name: str, first: str = "") -> str:
    """A command that prints something, and ends when the test makes a file."""
    return f"{first}until [ -e {name} ]; do sleep 0.02; done; echo {name}-is-there"


def seen(screen: Screen) -> str:
    """What was printed, without our own control sequences."""
    return OURS.sub("", screen.raw.decode())


# ---- the answer ------------------------------------------------------------------------------------


def test_the_answer_stands_once_when_stdout_and_stderr_are_one_terminal(watch: Watch, server: FakeServer) -> None:
    server.script(turn(message("first line\nFINAL WORDS", deltas=9)))
    with watch("exec", "hi") as screen:
        assert screen.wait() == 0
        assert screen.text.count("FINAL WORDS") == 1 and screen.text.count("first line") == 1
        assert screen.lines[-4:-2] == ["FINAL WORDS", ""] and screen.lines[-2].startswith("tokens used: 110 in ")
        assert screen.lines[-1].startswith("to go on: spindle exec resume ")


def test_the_answer_alone_is_on_stdout_when_only_stderr_is_a_terminal(
    watch: Watch, server: FakeServer, tmp_path: Path
) -> None:
    server.script(turn(message("\x1b[1mFINAL WORDS")))
    with (tmp_path / "out").open("wb") as out, watch("exec", "hi", stdout=out) as screen:
        assert screen.wait() == 0 and "FINAL WORDS" in screen.text
    assert (tmp_path / "out").read_bytes() == b"\x1b[1mFINAL WORDS\n"


def test_the_answer_is_on_the_terminal_when_only_stdout_is_one(
    watch: Watch, server: FakeServer, tmp_path: Path
) -> None:
    server.script(turn(message("\x1b[1mFINAL WORDS")))
    with (tmp_path / "err").open("wb") as err, watch("exec", "hi", stderr=err) as screen:
        assert screen.wait() == 0 and screen.raw == b"FINAL WORDS\r\n"
    assert "working" not in (tmp_path / "err").read_text() and "FINAL WORDS" in (tmp_path / "err").read_text()


def test_the_answer_is_on_both_when_they_are_two_terminals(watch: Watch, server: FakeServer) -> None:
    server.script(turn(message("FINAL WORDS")))
    other, inner = pty.openpty()
    with watch("exec", "hi", stdout=inner) as screen:
        assert screen.wait() == 0 and "FINAL WORDS" in screen.text
    assert os.read(other, 100) == b"FINAL WORDS\r\n"
    os.close(inner)
    os.close(other)


# ---- while it works --------------------------------------------------------------------------------


def test_words_are_seen_while_they_stream_and_stay_after_ctrl_c(watch: Watch, server: FakeServer) -> None:
    server.script(turn(message("one whole line\nand the beginning of | another", deltas=2), hang_after=4))
    with watch("exec", "hi") as screen:
        screen.until("one whole line\nand the beginning of", "• working", "writing", "Ctrl-C stops")
        screen.press("\x03")
        assert screen.wait() == 1
        thread_id = re.findall(r"session id: (\S+)", screen.text)[0]
        assert screen.lines[-8:-4] == ["spindle", "one whole line", "and the beginning of | another", ""]
        assert screen.lines[-4:-2] == ["✗ turn interrupted", ""]
        assert screen.lines[-2].startswith("tokens used: 0 in ")
        assert screen.lines[-1] == f"to go on: spindle exec resume {thread_id}"
        assert "working" not in screen.text and "^C" not in screen.text


def test_no_word_is_broken_while_it_streams_or_after(watch: Watch, server: FakeServer) -> None:
    words = "- the quick brown fox jumps\n\nover the lazy dog and away"
    server.script(turn(message(words, deltas=8), hang_after=10)).otherwise(turn(message(words, deltas=8)))
    with watch("exec", "hi", columns=24) as screen:
        screen.until("- the quick brown fox\n  jumps\n", "over the lazy dog and\naway\n", "writing")
        screen.press("\x03")
        assert screen.wait() == 1
    with watch("exec", "hi", columns=24) as screen:
        assert screen.wait() == 0
        assert "- the quick brown fox\n  jumps\n\nover the lazy dog and\naway\n" in screen.text


def test_a_table_is_seen_while_it_streams_and_stands_in_the_width_there_is(watch: Watch, server: FakeServer) -> None:
    table = "Here:\n\n| Name | What it does |\n|---|---|\n| one | reads the head of a file |\n| two | 日本語 |\n"
    server.script(turn(message(table + "\nThat is all.", deltas=40), hang_after=24)).otherwise(turn(message(table)))
    fitted = ["| Name | What it does  |", "| ---- | ------------- |", "| one  | reads the     |"]
    with watch("exec", "hi", columns=24) as screen:
        screen.until("\n| one | reads the", "writing")
        screen.press("\x03")
        assert screen.wait() == 1 and fitted[0] in screen.lines and "|---|---|" not in screen.text
    with watch("exec", "hi", columns=24) as screen:
        assert screen.wait() == 0
        start = screen.lines.index(fitted[0])
        rest = ["|      | head of a     |", "|      | file          |", fitted[1], "| two  | 日本語        |"]
        assert screen.lines[start : start + 7] == [*fitted, *rest]


def test_thinking_is_seen_while_it_streams(watch: Watch, server: FakeServer) -> None:
    server.script(turn(reasoning("**Weighing** all"), hang_after=4))
    with watch("exec", "hi") as screen:
        screen.until("  **Weighing** all", "thinking", "working")
        screen.until_gone("working 0s")  # the time goes on although nothing happens
        screen.press("\x03")
        assert screen.wait() == 1 and "Weighing" not in screen.text


def test_a_running_command_shows_the_end_of_its_output_and_then_head_and_tail(
    watch: Watch, server: FakeServer, workspace: Path
) -> None:
    noisy = waits_for("go", "for i in $(seq 100); do echo line-$i; done; printf '1%%\\r99%%'; ")
    server.script(turn(call("exec_command", {"cmd": noisy}, "c1")), turn(message("done")))
    with watch("exec", "--yolo", "hi") as screen:
        screen.until("  │ line-99\n  │ line-100\n  │ 99%\n• working", "running for")
        assert "line-97" not in screen.text
        (workspace / "go").touch()
        assert screen.wait() == 0
        assert "│" not in screen.text and "working" not in screen.text
        head, _, tail = screen.text.partition("  … 82 lines omitted …\n")
        assert "✓ succeeded in " in head and head.endswith("  line-7\n  line-8\n") and "line-9" not in head
        assert tail.startswith("  line-91\n") and "  line-100\n  1%\n  99%go-is-there\n\nspindle\ndone\n" in tail


def test_commands_that_run_at_once_are_told_apart(watch: Watch, server: FakeServer, workspace: Path) -> None:
    calls = [call("exec_command", {"cmd": waits_for(name, f"echo hello-{name}; ")}, name) for name in ("aa", "bb")]
    server.script(turn(*calls), turn(message("done")))
    with watch("exec", "--yolo", "hi") as screen:
        screen.until("  │ hello-aa\n", "  │ hello-bb\n", "2 running")
        (workspace / "bb").touch()
        # The end of the other one does not look like more of this result.
        screen.until(f"s: {waits_for('bb', 'echo hello-bb; ')}\n  hello-bb\n  bb-is-there\n\n", "running for")
        assert re.search(r"\n\n→ echo hello-aa; .* \(\d+s\)\n  │ hello-aa\n• working", screen.text)
        (workspace / "aa").touch()
        assert screen.wait() == 0
        assert f"s: {waits_for('aa', 'echo hello-aa; ')}\n  hello-aa\n  aa-is-there\n\nspindle" in screen.text


def test_a_terminal_that_changes_its_size_gets_a_region_that_fits(
    watch: Watch, server: FakeServer, workspace: Path
) -> None:
    cmd = waits_for("go", f"echo {'x' * 300}; {waits_for('more')}; ")
    server.script(turn(call("exec_command", {"cmd": cmd}, "c1")), turn(message("done")))
    with watch("exec", "--yolo", "hi", columns=50) as screen:
        screen.until(f"  │ {'x' * 44}…\n• working")
        screen.resize(120, 40)
        screen.until(f"  │ {'x' * 114}…\n• working")
        screen.resize(30, 40)
        screen.until(f"  │ {'x' * 24}…\n• working")
        assert screen.text.count("working") == 1
        screen.press("\n")  # a person who presses Enter moves the cursor
        (workspace / "more").touch()
        screen.until("  │ more-is-there\n• working")
        assert screen.text.count("working") == 1
        (workspace / "go").touch()
        assert screen.wait() == 0 and "working" not in screen.text and "│" not in screen.text


def test_a_narrow_terminal_is_enough(watch: Watch, server: FakeServer, workspace: Path) -> None:
    cmd = waits_for("go", "echo 日本語テキスト日本語テキスト; ")
    server.script(turn(call("exec_command", {"cmd": cmd}, "c1")), turn(message("e\u0301 wide 日本語 done")))
    with watch("exec", "--yolo", "hi", columns=20, rows=10) as screen:
        screen.until("  │ 日本語テキスト…\n• working")
        (workspace / "go").touch()
        assert screen.wait() == 0 and "wide 日本語 done" in screen.text and "working" not in screen.text


# ---- how it ends -----------------------------------------------------------------------------------


def test_a_failed_turn_names_the_way_back(watch: Watch, server: FakeServer) -> None:
    failed = {"type": "response.failed", "response": {"id": "r", "error": {"code": "invalid_prompt", "message": "no"}}}
    server.script(turn(message("half"), end=failed)).otherwise(turn(end=failed))
    with watch("exec", "-s", "workspace-write", "hi") as screen:
        assert screen.wait() == 1
        assert "ERROR: " in screen.text and "working" not in screen.text
        assert re.search(r"\nto go on: spindle exec resume -s workspace-write [0-9a-f-]{36}$", screen.text)


def test_the_way_back_asks_for_what_this_command_line_asked_for(
    watch: Watch, server: FakeServer, workspace: Path
) -> None:
    (workspace / "sub").mkdir()
    asked = ["-m", "some-model", "-C", "sub", "-c", "model_provider=fake", "-s", "danger-full-access"]
    with watch("exec", *asked, "hi", columns=120) as screen:
        assert screen.wait() == 0
        # Not the run of the machine: that is for a person to ask for.
        way = r"\nto go on: spindle exec resume -m some-model -C sub -c model_provider=fake [0-9a-f-]{36}$"
        assert re.search(way, screen.text)


def test_an_unrecorded_thread_has_no_way_back(watch: Watch, server: FakeServer) -> None:
    with watch("exec", "--ephemeral", "hi") as screen:
        assert screen.wait() == 0 and "tokens used" in screen.text and "to go on" not in screen.text


def test_a_second_ctrl_c_does_not_wait(watch: Watch, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo up; sleep 60"}, "c1")))
    with watch("exec", "--yolo", "hi") as screen:
        screen.until("  │ up\n")
        screen.process.send_signal(signal.SIGSTOP)
        screen.press("\x03")
        screen.process.send_signal(signal.SIGTERM)  # two at once: no turn can end between them
        screen.process.send_signal(signal.SIGCONT)
        assert screen.wait() in (130, 143)
        assert "working" not in screen.text and screen.lines[-1].startswith("to go on: spindle exec resume ")
        assert screen.lines[-2].startswith("tokens used: at least "), "the request is not booked yet"


def test_a_job_can_be_stopped_and_continued(
    watch: Watch, server: FakeServer, spindle_cmd: list[str], workspace: Path, environment: dict[str, str]
) -> None:
    server.script(turn(call("exec_command", {"cmd": waits_for("go", "echo up; ")}, "c1")), turn(message("the end")))
    shell = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
    env = {**environment, "PS1": "[prompt]", "HISTFILE": "", "S": " ".join(spindle_cmd)}
    env.pop("CI", None)  # nothing is redrawn there
    with Screen(shell, cwd=workspace, env={**env, "TERM": "xterm", "LANG": "C.UTF-8"}) as screen:
        screen.until("[prompt]")
        screen.press('"$S" exec --yolo hi\n')
        screen.until("  │ up\n• working")
        screen.press("\x1a")
        screen.until("Stopped")
        assert "working" not in screen.text
        screen.press("fg\n")
        screen.until("  │ up\n• working")
        (workspace / "go").touch()
        screen.until("the end", "to go on", "[prompt]")
        assert "working" not in screen.text
        screen.press("exit\n")


def test_a_job_in_the_background_does_not_draw(
    server: FakeServer, spindle_cmd: list[str], workspace: Path, environment: dict[str, str]
) -> None:
    server.script(turn(call("exec_command", {"cmd": waits_for("go", "echo up; ")}, "c1")), turn(message("the end")))
    shell = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
    env = {**environment, "PS1": "[prompt]", "HISTFILE": "", "S": " ".join(spindle_cmd)}
    env.pop("CI", None)  # nothing is redrawn there
    with Screen(shell, cwd=workspace, env={**env, "TERM": "xterm", "LANG": "C.UTF-8"}) as screen:
        screen.until("[prompt]")
        screen.press('"$S" exec --yolo hi </dev/null &\n')
        screen.until("exec echo up")
        (workspace / "go").touch()
        screen.until("the end", "to go on")
        assert b"working" not in screen.raw
        screen.press("exit\n")


# ---- plain places ----------------------------------------------------------------------------------


def test_a_dumb_terminal_gets_plain_lines(watch: Watch, server: FakeServer, workspace: Path) -> None:
    server.script(
        turn(call("update_plan", {"plan": [{"step": "a", "status": "in_progress"}]}, "p1")),
        turn(call("exec_command", {"cmd": "seq 100; exit 3"}, "c1")),
        turn(message("first\nlast", deltas=5)),
    )
    with watch("exec", "--yolo", "hi", env={"TERM": "dumb"}) as screen:
        assert screen.wait() == 0
        text = screen.raw.decode("ascii")
        assert "\x1b" not in text and "working" not in text and "\r" not in text.replace("\r\n", "")
        assert "  [>] a" in text and "[failed] exited 3 in " in text and "  ... 80 lines omitted ...\r\n" in text
        assert "\r\nspindle\r\nfirst\r\nlast\r\n" in text and text.count("last") == 1


def test_words_stream_line_by_line_on_a_dumb_terminal(watch: Watch, server: FakeServer) -> None:
    server.script(turn(message("one whole line\nand more", deltas=2), hang_after=4))
    with watch("exec", "hi", env={"TERM": "dumb"}) as screen:
        screen.until("spindle\none whole")
        screen.press("\x03")
        assert screen.wait() == 1 and "turn interrupted" in screen.text


def test_nothing_is_redrawn_in_continuous_integration(watch: Watch, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo up"}, "c1")), turn(message("first\nlast", deltas=5)))
    with watch("exec", "--yolo", "hi", env={"CI": "true"}) as screen:
        assert screen.wait() == 0 and screen.text.count("last") == 1
        assert b"working" not in screen.raw and re.search(rb"\x1b(?!\[[0-9;]*m)", screen.raw) is None


def test_no_color_takes_the_colours_only(watch: Watch, server: FakeServer, workspace: Path) -> None:
    server.script(turn(call("exec_command", {"cmd": waits_for("go", "echo up; ")}, "c1")), turn(message("done")))
    with watch("exec", "--yolo", "hi", env={"NO_COLOR": "1"}) as screen:
        screen.until("  │ up\n• working")
        (workspace / "go").touch()
        assert screen.wait() == 0 and re.search(rb"\x1b\[[0-9;]*m", screen.raw) is None


NO_START = pytest.mark.skipif(
    not sys.prefix.isascii(), reason="Python itself cannot start from such a folder in a locale without its letters"
)
ASCII_ONLY = pytest.param({"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"}, marks=NO_START)


@pytest.mark.parametrize("env", [{"LANG": "C"}, ASCII_ONLY])
def test_a_locale_without_unicode_gets_signs_it_can_show(
    watch: Watch, server: FakeServer, workspace: Path, env: dict[str, str]
) -> None:
    server.script(turn(call("exec_command", {"cmd": waits_for("go", "echo up; ")}, "c1")), turn(message("größer ✓")))
    with watch("exec", "--yolo", "hi", env=env) as screen:
        screen.until("  | up\n[ ] working")
        (workspace / "go").touch()
        assert screen.wait() == 0 and "größer ✓" in screen.text and "[ok] succeeded in " in screen.text


def test_the_demo_fits_the_terminal_too(watch: Watch) -> None:
    with watch("demo", "--fast", columns=42, rows=200) as screen:
        assert screen.wait() == 0
        assert "\nThe tests of textstats.py fail. Find out\nwhy, fix it, and show me that they pass.\n" in screen.text


def test_a_log_gets_every_line_once_and_nothing_to_redraw(
    spindle_cmd: list[str], server: FakeServer, workspace: Path, environment: dict[str, str]
) -> None:
    calls = [call("exec_command", {"cmd": f"seq {n}00 | sed s/^/{n}-/"}, f"c{n}") for n in (1, 2)]
    server.script(turn(reasoning("hm"), *calls), turn(message("a\nb", deltas=3)))
    log = workspace.parent / "log"
    with log.open("wb") as file:
        code = subprocess.run(
            [*spindle_cmd, "exec", "--yolo", "hi"], cwd=workspace, env=environment, stdin=subprocess.DEVNULL,
            stdout=file, stderr=file, timeout=50,
        ).returncode  # fmt: skip
    text = log.read_text()
    assert code == 0 and "\x1b" not in text and "\r" not in text and "working" not in text
    assert len(re.findall(r"^  [12]-\d+$", text, re.MULTILINE)) == 300 and "omitted" not in text


# ---- hostile text ----------------------------------------------------------------------------------

HOSTILE = "\x1b[2J\x1b[H\x1b]0;evil\x07\x1b]52;c;ZXZpbA==\x07\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\\x9b31m\u202egpj.exe\x1b[1A"


def test_nothing_hostile_reaches_the_terminal_while_it_streams_or_after(
    watch: Watch, server: FakeServer, workspace: Path
) -> None:
    (workspace / "bytes").write_bytes(HOSTILE.encode() + b"\n\xff\xfe\x00 forged\r\x1b[A\x1b[K[ok] all tests pass\n")
    named = "*** Begin Patch\n*** Add File: e\x1b[31mvil\u202e.txt\n+x\x1b[5A\n*** End Patch\n"
    server.script(
        turn(reasoning(HOSTILE), call("exec_command", {"cmd": waits_for("go", f"cat bytes; : '{HOSTILE}'; ")}, "c1")),
        turn(custom_call("apply_patch", named, "c2")),
        turn(call("update_plan", {"explanation": HOSTILE, "plan": [{"step": HOSTILE, "status": "pending"}]}, "p1")),
        # One character at a time: every sequence is cut at every place.
        turn(message(f"{HOSTILE}\n{HOSTILE}\rcovered", deltas=500)),
    )
    with watch("exec", "--yolo", f"hi {HOSTILE}") as screen:
        screen.until("[ok] all tests pass\n• working")
        (workspace / "go").touch()
        assert screen.wait() == 0
        left = seen(screen).replace("\r\n", "\n")
        # A lone return begins a drawing of ours: the region's first row, or the way up to it.
        assert "\x1b" not in left and "\x9b" not in left and "\x07" not in left and "\u202e" not in left
        assert "\x00" not in left and "working" not in screen.text
        assert (
            "\nSpindle " in screen.text and "covered" in screen.text and "A e\\u{1B}[31mvil\\u{202E}.txt" in screen.text
        )
        assert "  [ok] all tests pass" in screen.text and "\n[ok] all tests pass" not in screen.text


def test_a_message_that_comes_again_after_a_cut_is_shown_from_its_beginning(watch: Watch, server: FakeServer) -> None:
    server.script(turn(message("line one\nline two\nend", deltas=3), drop_after=4), turn(message("line one\nnew end")))
    with watch("exec", "hi") as screen:
        assert screen.wait() == 0
        assert (screen.text.count("line one"), screen.text.count("new end")) == (2, 1)
        assert re.search(
            r"\nspindle\nline one\n\nReconnecting.*\n\nspindle\nline one\nnew end\n", screen.text, re.DOTALL
        )


# ---- resumed threads -------------------------------------------------------------------------------


def test_a_resumed_thread_says_which_settings_it_gets_and_why(
    spindle_cmd: list[str], server: FakeServer, home: Path, workspace: Path, environment: dict[str, str]
) -> None:
    def header(*args: str) -> dict[str, str]:
        done = subprocess.run(
            [*spindle_cmd, "exec", *args], cwd=workspace, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=50, check=True,
        )  # fmt: skip
        rows = done.stderr.decode().split("--------\n")[1].splitlines()
        return {name: value for name, _, value in (row.partition(": ") for row in rows)}

    extra = workspace.parent / "ex tra"
    extra.mkdir()
    flags = ["-s", "workspace-write", "--add-dir", str(extra), "-c", "model_reasoning_effort=high"]
    assert "the thread ran with" not in str(header("hi")) + str(header("resume", "--last", "more"))
    assert "the thread ran with" not in str(header(*flags, "hi"))
    resumed = header("resume", "--last", "more")
    assert resumed["sandbox"] == (
        f"read-only (exec's default; the thread ran with workspace-write [workdir, /tmp, $TMPDIR, {extra}]: "
        f"add -s workspace-write --add-dir '{extra}' to keep it)"
    )
    assert resumed["reasoning effort"] == (
        "medium (exec's default; the thread ran with high: add -c model_reasoning_effort=high to keep it)"
    )
    header("-s", "workspace-write", "resume", "--last", "more")
    assert header("resume", "--last", "more")["sandbox"] == (
        "read-only (exec's default; the thread ran with workspace-write: add -s workspace-write to keep it)"
    )
    # The settings of the last turn count, and what the person says needs no reason.
    assert header("resume", "--last", "more")["sandbox"] == "read-only"
    assert header("-s", "danger-full-access", "resume", "--last", "more")["sandbox"] == "danger-full-access"
    config = home / "config.toml"
    config.write_text('sandbox_mode = "workspace-write"\n' + config.read_text())
    assert header("fork", "--last", "more")["sandbox"] == (
        f"workspace-write [workdir, /tmp, $TMPDIR] (from {config}; the thread ran with danger-full-access: "
        "add -s danger-full-access to keep it)"
    )
