"""The way out: keys, signals, the shell's job control, and what is left behind."""

from __future__ import annotations

import os
import re
import shlex
import signal
from pathlib import Path

import pytest

from fake_server import FakeServer, call, message, turn
from tui.terminals import NOT_INHERITED, OpenTui, Tui

FREE = ("-s", "danger-full-access", "-a", "never")


def test_ctrl_c_quits_when_it_is_pressed_twice_and_says_so(tui: OpenTui) -> None:
    t = tui().ready()
    t.key("ctrl-c").wait_for("press ctrl-c again to quit", where="screen")
    assert t.process.poll() is None
    t.type("x").wait_gone("again to quit").key("ctrl-c").wait_gone(re.compile(r"^› x", re.MULTILINE))
    assert t.process.poll() is None  # that one cleared the draft
    t.key("ctrl-c").wait_for("press ctrl-c again to quit", where="screen").key("ctrl-c")
    assert t.wait_exit() == 0
    t.assert_sane()
    assert "spindle resume" not in t.scrollback  # nothing was said: there is nothing to come back to


def test_the_way_back_is_told_with_what_it_cost_and_leads_back(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(message("first answer"), usage={"input": 4321, "output": 7}))
    t = tui().ready().submit("first question").wait_for("Worked for")
    t.key("ctrl-d")
    assert t.wait_exit() == 0
    found = re.search(r"To continue this session, run: spindle resume (\S+)", t.scrollback)
    assert found and "4,321" in t.scrollback and "error" not in t.scrollback
    again = tui("resume", found[1][:13]).wait_for("first answer").ready()
    assert again.flat.count("first question") == 1 == again.flat.count("first answer")


def test_the_way_back_asks_for_what_this_command_line_asked_for(tui: OpenTui, server: FakeServer) -> None:
    """What was said to a model on this computer must not go to another one unasked."""
    t = tui("-m", "some-model", "-c", "model_provider=fake").ready().submit("first question").wait_for("Worked for")
    t.key("ctrl-d")
    assert t.wait_exit() == 0
    flat = " ".join(t.scrollback.split())
    assert "run: spindle resume -m some-model -c model_provider=fake " in flat


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["INT", "TERM", "HUP"]
)
def test_a_signal_ends_it_and_what_it_runs(
    tui: OpenTui, server: FakeServer, workspace: Path, number: signal.Signals, code: int
) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo $$ > pid; sleep 1000"}, "c1")))
    t = tui(*FREE).ready().submit("go")
    pid = t.until(lambda: (workspace / "pid").exists() and (workspace / "pid").read_text().strip(), "the command")
    t.process.send_signal(number)
    assert t.wait_exit() == code
    t.assert_sane()
    t.until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the command")
    assert "spindle resume" in t.scrollback


def test_a_terminal_that_is_gone_ends_it_with_its_commands(tui: OpenTui, server: FakeServer, workspace: Path) -> None:
    server.script(turn(call("exec_command", {"cmd": "echo $$ > pid; sleep 1000"}, "c1")))
    t = tui(*FREE).ready().submit("go")
    pid = t.until(lambda: (workspace / "pid").exists() and (workspace / "pid").read_text().strip(), "the command")
    t.close_terminal()
    assert t.process.wait(20) == 129
    assert not Path(f"/proc/{pid}").exists()


@pytest.fixture
def shell(spindle_cmd: list[str], workspace: Path, tui: OpenTui, environment: dict[str, str]) -> Tui:
    """A shell with job control in a terminal; `spindle` is the command."""
    given = {name: value for name, value in environment.items() if name not in NOT_INHERITED}
    env = {**given, "PS1": "shell$ ", "SPINDLE": shlex.join(spindle_cmd)}
    return Tui(["bash", "--norc", "--noprofile", "-i"], cwd=workspace, env=env)


def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_brings_everything_back(shell: Tui, server: FakeServer) -> None:
    server.script(turn(message("after the pause")))
    with shell as t:
        t.wait_for("shell$").send("eval $SPINDLE\n").wait_for("Ask for anything")
        t.ready().type("my draft")
        t.wait_for("my draft", where="screen").key("ctrl-z").wait_for("Stopped")
        with t.still():
            assert not [
                number for number, is_on in t.modes.items() if is_on and number not in (7, 25, 2004)
            ]  # the shell pastes in brackets, too
        t.send("echo in-the-$((40 + 2))-shell\n").wait_for("in-the-42-shell")
        t.send("fg\n").wait_for(re.compile(r"^› my draft", re.MULTILINE), where="screen")
        t.key("enter").wait_for("after the pause")
        t.key("ctrl-t").wait_for("Transcript", where="screen")
        assert t.emulator.is_alternate
        t.key("ctrl-z").until(lambda: not t.emulator.is_alternate and t.screen.rstrip().endswith("shell$"), "the shell")
        t.send("fg\n").wait_for("Transcript", where="screen").key("q").wait_for("Ask for anything", where="screen")
        t.key("ctrl-d").wait_for("spindle resume")
        t.send("exit\n")
        t.wait_exit()


def test_a_draft_survives_signals_kill_9_too(tui: OpenTui, home: Path) -> None:
    t = tui().ready().type("half a thought").wait_for("half a thought", where="screen")
    drafts = home / "spindle" / "drafts"
    file = t.until(lambda: next(iter(drafts.glob("*.json")), None) if drafts.exists() else None, "the file")
    assert file and file.stat().st_mode & 0o777 == 0o600
    t.until(lambda: "half a thought" in file.read_text(), "the draft in the file")
    t.process.kill()
    t.process.wait()
    again = tui()
    again.wait_for(re.compile(r"^› half a thought", re.MULTILINE), where="screen")
    again.process.terminate()
    assert again.wait_exit() == 143 and list(drafts.glob("*.json"))
    again = tui()
    again.wait_for(re.compile(r"^› half a thought", re.MULTILINE), where="screen")
    again.key("ctrl-c").wait_gone(re.compile(r"^› half a thought", re.MULTILINE)).key("ctrl-d")
    assert again.wait_exit() == 0 and not list(drafts.glob("*.json"))


def test_the_title_is_the_folder_and_is_put_back(tui: OpenTui, workspace: Path, server: FakeServer) -> None:
    server.script(turn(message("fine"), delay_s=1))
    t = tui().ready()
    t.until(lambda: workspace.name in t.title, "the title")
    t.submit("go")
    t.until(lambda: t.title.startswith("●"), "the mark of work")
    t.wait_for("fine")
    t.until(lambda: not t.title.startswith("●"), "the end of work")
    t.key("ctrl-d")
    assert t.wait_exit() == 0 and os.path.basename(t.title) != workspace.name
    t.assert_sane()


def test_messages_that_were_queued_when_a_signal_came_are_in_the_composer_again(
    tui: OpenTui, server: FakeServer
) -> None:
    server.script(turn(message("never"), delay_s=60))
    t = tui().ready().submit("go").type("for later").key("tab").wait_for("↳ for later", where="screen")
    t.type("half a thought").wait_for("half a thought", where="screen").process.terminate()
    assert t.wait_exit() == 143
    tui().wait_for("› for later half a thought", where="screen")


def test_messages_that_were_under_way_survive_kill_9(tui: OpenTui, server: FakeServer, home: Path) -> None:
    server.script(turn(message("never"), delay_s=60))
    t = tui().ready().submit("go").wait_for("esc to interrupt", where="screen")
    t.type("steered").wait_for("steered", where="screen").key("enter").wait_for("› steered", where="screen")
    paste = "".join(f"pasted row {n}\n" for n in range(30))
    t.paste(paste).wait_for("[Pasted #1: 30 lines]", where="screen").type(" first").key("tab")
    t.wait_for("↳ [Pasted #1: 30 lines] first", where="screen")
    t.type("second").key("tab").wait_for("↳ second", where="screen").type("half a thought")
    drafts = home / "spindle" / "drafts"
    t.until(lambda: any("half a thought" in file.read_text() for file in drafts.glob("*.json")), "the draft in a file")
    t.process.kill()
    t.process.wait()
    server.script(turn(message("all of it came")))
    again = tui().wait_for("› steered [Pasted #1: 30 lines] first second half a thought", where="screen")
    again.key("enter").wait_for("all of it came")
    sent = server.requests[-1].json["input"][-1]["content"][0]["text"]
    assert sent == f"steered\n{paste} first\nsecond\nhalf a thought"
    again.key("ctrl-d")
    assert again.wait_exit() == 0 and not list(drafts.glob("*.json"))


def test_what_the_thread_has_recorded_is_not_offered_again_after_a_kill(
    tui: OpenTui, server: FakeServer, home: Path
) -> None:
    server.script(turn(message("the first answer"), delay_s=2), turn(message("the second answer")))
    drafts = home / "spindle" / "drafts"
    t = tui().ready().submit("go").type("for later").key("tab").wait_for("↳ for later", where="screen")
    t.until(lambda: any("for later" in file.read_text() for file in drafts.glob("*.json")), "the message in a file")
    t.wait_for("the second answer")
    t.until(lambda: not list(drafts.glob("*.json")), "the end of the file")
