"""Keys, drafts and questions at the worst moment: nothing typed is lost, nothing unseen is approved."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

from fake_server import FakeServer, call, message, turn
from tui.terminals import NOT_INHERITED, OpenTui, Tui, trust

FREE = ("-s", "danger-full-access", "-a", "never")
ASK = ("-s", "read-only", "-a", "on-request")


def escalated(command: str, call_id: str = "c1") -> Any:
    wanted = {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "because"}
    return call("exec_command", wanted, call_id)


def line_of_composer(text: str) -> re.Pattern[str]:
    return re.compile(rf"^[›!] !?{re.escape(text)}$", re.MULTILINE)


def test_keys_behind_the_one_that_closes_a_pager_or_a_list_are_for_the_composer(tui: OpenTui) -> None:
    t = tui().ready().key("ctrl-t").wait_for("Transcript", where="screen")
    t.send("qq").wait_for(line_of_composer("q"), where="screen")
    t.key("ctrl-u").submit("/theme").wait_for("Esc", where="screen").idle()
    t.send("\x1b[27;5;99~")  # nothing that a list knows
    t.send("\x1b[27uhello").wait_for(line_of_composer("hello"), where="screen")
    assert "internal error" not in t.scrollback


def test_a_question_that_came_up_behind_a_pager_is_not_answered_by_what_was_typed_for_something_else(
    tui: OpenTui, server: FakeServer, workspace: Path
) -> None:
    server.script(turn(escalated(f"touch {workspace}/made"), delay_s=0.5), turn(message("it is done")))
    t = tui(*ASK).ready().submit("go").key("ctrl-t").wait_for("Transcript", where="screen")
    t.until(lambda: t.title.startswith("?") or len(server.turns_asked) == 1, "the request")
    time.sleep(1.5)  # the question is there, and is not seen
    t.key("q").type("yes please", gap_s=0.05)
    t.wait_for("Run this command?", where="screen").idle(0.6)
    assert not (workspace / "made").exists()
    t.key("y").wait_for("it is done")
    assert (workspace / "made").exists()
    t.wait_for(line_of_composer("yes please"), where="screen")


def test_a_question_that_the_terminal_has_not_taken_yet_is_not_answered(
    tui: OpenTui, server: FakeServer, workspace: Path
) -> None:
    server.script(
        turn(message("word " * 60_000), escalated(f"touch {workspace}/made")),
        turn(message("it is done")),
    )
    t = tui(*ASK).ready().type("go").wait_for("go", where="screen")
    with t.still():  # the terminal stops
        t.send("\r")
        time.sleep(3)
        t.send("y")
        time.sleep(0.6)
    t.wait_for("Run this command?", where="screen").idle(0.6)
    assert not (workspace / "made").exists()
    t.key("y").wait_for("it is done")


def test_a_command_put_into_the_composer_to_be_edited_leaves_the_draft_in_the_history(
    tui: OpenTui, server: FakeServer, workspace: Path
) -> None:
    server.script(turn(escalated("touch made"), delay_s=1))
    t = tui(*ASK).ready().submit("go").type("my half thought").wait_for("Run this command?", where="screen")
    t.idle(0.6).key("e").wait_for(line_of_composer("touch made"), where="screen")
    assert not (workspace / "made").exists()
    t.key("ctrl-c").wait_gone(line_of_composer("touch made"))
    t.key("up", "up").wait_for(line_of_composer("my half thought"), where="screen")


def test_sigquit_is_a_way_out_like_the_others(tui: OpenTui) -> None:
    t = tui().ready()
    t.process.send_signal(signal.SIGQUIT)
    assert t.wait_exit() == 131
    t.assert_sane()


def editor(folder: Path, text: str) -> str:
    made = folder / "editor"
    made.write_text(f"#!{os.path.realpath(sys.executable)}\n{text}")
    made.chmod(0o700)
    return str(made)


WAITS = r"""
import os, time
open("editor-pid", "w").write(str(os.getpid()))
os.write(1, b"EDITOR UP\n")
time.sleep(1000)
"""


def test_ctrl_c_in_an_editor_is_the_editors(tui: OpenTui, workspace: Path, tmp_path: Path) -> None:
    t = tui(env={"EDITOR": editor(tmp_path, WAITS)}).ready().type("kept").key("ctrl-g").wait_for("EDITOR UP")
    t.send("\x03").wait_for(line_of_composer("kept"), where="screen").idle()
    assert t.process.poll() is None


def test_a_signal_while_an_editor_is_open_ends_the_editor_too(tui: OpenTui, workspace: Path, tmp_path: Path) -> None:
    t = tui(env={"EDITOR": editor(tmp_path, WAITS)}).ready().type("kept").key("ctrl-g").wait_for("EDITOR UP")
    pid = t.until(lambda: (workspace / "editor-pid").exists() and (workspace / "editor-pid").read_text(), "the editor")
    t.process.send_signal(signal.SIGTERM)
    assert t.wait_exit() == 143
    t.assert_sane()
    t.until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the editor")


def test_a_stop_in_the_pager_leaves_the_main_screen_alone(
    spindle_cmd: list[str], workspace: Path, home: Path, environment: dict[str, str], server: FakeServer
) -> None:
    trust(home, workspace)
    server.script(turn(message("stays on the screen")))
    env = {**{name: value for name, value in environment.items() if name not in NOT_INHERITED}, "PS1": "shell$ "}
    with Tui(["bash", "--norc", "--noprofile", "-i"], cwd=workspace, env=env) as t:
        t.wait_for("shell$").send(f"{shlex.join(spindle_cmd)}\n").wait_for("Ask for anything")
        pid = int(Path(f"/proc/{t.process.pid}/task/{t.process.pid}/children").read_text().split()[0])
        t.ready().submit("go").wait_for("Worked for").key("ctrl-t").wait_for("Transcript", where="screen")
        assert t.modes[1049]
        os.kill(pid, signal.SIGTSTP)
        t.wait_for("Stopped")
        assert not t.modes[1049]
        t.send("fg\n").wait_for("Transcript", where="screen")
        assert t.modes[1049]
        t.key("q").wait_gone("Transcript")
        assert "stays on the screen" in t.scrollback and "Stopped" in t.scrollback
        t.key("ctrl-d").wait_for("spindle resume").send("exit\n")
        t.wait_exit()


def test_a_terminal_that_takes_nothing_does_not_keep_it_and_is_sane_when_it_goes_on(
    tui: OpenTui, server: FakeServer
) -> None:
    server.script(turn(message("word " * 60_000)))
    t = tui().ready().type("go").wait_for("go", where="screen")
    with t.still():  # the terminal stops
        t.send("\r")
        time.sleep(2)
        t.process.send_signal(signal.SIGTERM)
        assert t.process.wait(20) == 143
    assert t.wait_exit() == 143
    t.assert_sane()
    assert "spindle resume" in t.scrollback


def test_an_endless_line_leaves_room_for_keys_and_in_the_scrollback(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(message("x" * 2_000_000 + " THE-END", deltas=200)))
    t = tui().ready()
    before = len(t.raw)
    t.submit("go").wait_for("Worked for").wait_for("THE-END")
    assert len(t.raw) - before < 200_000
    assert "characters are left out here; Ctrl-T shows all" in t.flat


def test_a_home_that_cannot_be_written_is_told_and_no_way_back_is_promised(
    tui: OpenTui, server: FakeServer, home: Path
) -> None:
    (home / "sessions").write_text("no folder")  # not even root can make one here
    (home / "history.jsonl").mkdir()
    (home / "spindle").write_text("no folder")
    server.script(turn(message("an answer all the same")))
    t = tui().ready().submit("go").wait_for("an answer all the same").wait_for("not being recorded")
    t.type("typing goes on").wait_for("typing goes on", where="screen").key("ctrl-c", "ctrl-d")
    assert t.wait_exit() == 0
    assert "spindle resume" not in t.scrollback and "Traceback" not in t.scrollback
