"""Twenty turns and more in a real terminal (tmux): what was said stands in the scrollback afterwards, each word once.

Streaming, commands, patches, approvals, questions, plan mode, steering, queueing, an interrupt, an error, a compaction,
storms of sizes, leaving and coming back.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, Turn, call, custom_call, message, refuses, turn
from installed import wait_for, whole_lines
from tui.terminals import NOT_INHERITED, flat, trust

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
SIZE = (100, 30)
STORM = ((60, 20), (140, 40), (45, 12), (20, 5), (80, 30), (36, 9), SIZE)


class Window:
    """The installed command in a window of a tmux server of its own, with a shell below it."""

    def __init__(self, folder: Path, workspace: Path, env: dict[str, str]) -> None:
        self._socket = str(folder / "tmux")
        self._env = {**env, "LANG": "C.UTF-8", "TERM": "xterm-256color", "PS1": "$ "}
        self("-f", "/dev/null", "new-session", "-d", "-x", str(SIZE[0]), "-y", str(SIZE[1]), "sh")
        self("set", "-g", "status", "off")
        self("set", "-g", "history-limit", "20000")
        self("respawn-window", "-k", "-c", str(workspace), "sh")
        self.resize(*SIZE)

    def __call__(self, *args: str) -> str:
        done = subprocess.run(["tmux", "-S", self._socket, *args], env=self._env, capture_output=True, timeout=20)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def resize(self, columns: int, rows: int) -> None:
        self("resize-window", "-x", str(columns), "-y", str(rows))

    def key(self, *names: str) -> None:
        self("send-keys", *names)

    def enter(self, text: str) -> None:
        """Write, see it, press Enter."""
        self("send-keys", "-l", text)
        self.see(lambda: flat(text) in flat(self.screen), text)
        time.sleep(0.1)  # a burst that goes on is a paste
        self.key("Enter")

    def see(self, look: Callable[[], Any], what: str) -> None:
        wait_for(look, f"{what}\n{self.screen}")

    def wait(self, words: str) -> None:
        self.see(lambda: flat(words) in flat(self.scrollback), words)

    def wait_screen(self, words: str) -> None:
        self.see(lambda: flat(words) in flat(self.screen), words)

    @property
    def screen(self) -> str:
        return self("capture-pane", "-p").rstrip("\n")

    @property
    def scrollback(self) -> str:
        return self("capture-pane", "-p", "-S", "-", "-J").rstrip("\n")


@pytest.fixture
def window(tmp_path: Path, workspace: Path, home: Path, environment: dict[str, str]) -> Iterator[Window]:
    trust(home, workspace)
    env = {name: value for name, value in {**os.environ, **environment}.items() if name not in NOT_INHERITED}
    made = Window(tmp_path, workspace, {**env, "HOME": environment.get("HOME", str(home))})
    yield made
    made("kill-server")


def runs(command: str, call_id: str, **more: Any) -> dict[str, Any]:
    return call("exec_command", {"cmd": command, **more}, call_id)


def leaves_the_fence(command: str, call_id: str) -> dict[str, Any]:
    return runs(command, call_id, sandbox_permissions="require_escalated", justification="the test wants it")


def says(name: str, **how: Any) -> Turn:
    return turn(message(f"{name} is what I say."), **how)


LONG = "\n\n".join(f"Paragraph {number} of the long answer has these words." for number in range(60))
QUESTION = {
    "questions": [
        {
            "id": "q1",
            "header": "Colour",
            "question": "Which colour then?",
            "options": [{"label": "Red-one", "description": "warm"}, {"label": "Blue-two", "description": "cold"}],
        }
    ]
}
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+a line that was added\n*** End Patch\n"


def first_half(server: FakeServer) -> None:
    server.script(
        says("answer-01"),
        turn(message(LONG, deltas=60), event_delay_s=0.004),
        turn(runs("echo tool-output-03", "c3")),
        says("answer-03"),
        turn(runs("sleep 0.3; echo slow-04", "c4a"), runs("echo quick-04", "c4b")),
        says("answer-04"),
        turn(custom_call("apply_patch", PATCH, "c5")),
        says("answer-05"),
        turn(leaves_the_fence("touch allowed-06", "c6")),
        says("answer-06"),
        turn(leaves_the_fence("touch refused-07", "c7")),
        says("answer-07"),
        turn(call("update_plan", {"plan": [{"step": "Step-of-08", "status": "in_progress"}]}, "c8")),
        says("answer-08"),
        turn(call("request_user_input", QUESTION, "c9")),
        says("answer-09"),
        turn(message("The plan is there.\n<proposed_plan>\n- do part-10\n</proposed_plan>")),
        says("answer-11"),
        turn(message("never finished 12 " * 3, deltas=3), hang_after=4),
        says("answer-13"),
    )


def test_a_long_session(
    window: Window, spindle_cmd: list[str], server: FakeServer, workspace: Path, home: Path
) -> None:
    first_half(server)
    window.enter(shlex.join(spindle_cmd) + " -a on-request -s workspace-write")
    window.wait_screen("Ask for anything")
    play_first_half(window, workspace)
    more_turns(window, server)
    window.enter("/quit")
    window.wait("spindle resume")
    first, _, _ = window.scrollback.partition("To continue this session")
    said = messages_of(home)
    assert len(said) >= 40
    check_once_and_in_order(first, said)

    server.script(says("answer-24"), says("answer-25"))
    window.enter(shlex.join(spindle_cmd) + " resume --last")
    window.see(lambda: window.scrollback.count("answer-23 is what I say.") == 2, "what was said before")
    window.wait_screen("Ask for anything")
    for number in (24, 25):
        window.enter(f"question-{number}")
        window.wait(f"answer-{number} is what I say.")
        window.wait_screen("Ask for anything")
    window.enter("/quit")
    window.see(lambda: window.scrollback.count("To continue this session") == 2, "the end")
    _, _, second = window.scrollback.rpartition("resume --last")
    check_once_and_in_order(second.partition("To continue this session")[0], messages_of(home))


def play_first_half(window: Window, workspace: Path) -> None:
    window.enter("question-01")
    window.wait("answer-01 is what I say.")
    window.enter("question-02")
    window.wait("Paragraph 20 of")
    for size in STORM:
        window.resize(*size)
        time.sleep(0.05)
    window.wait("Paragraph 59 of the long answer has these words.")
    for number in (3, 4, 5):
        window.enter(f"question-{number:02}")
        window.wait(f"answer-{number:02} is what I say.")
    assert (workspace / "made.txt").read_text() == "a line that was added\n"
    window.enter("question-06")
    window.wait_screen("Yes, once (y)")
    time.sleep(0.6)  # keys count only some time after a question has appeared by itself
    window.key("y")
    window.wait("answer-06 is what I say.")
    assert (workspace / "allowed-06").exists()
    window.enter("question-07")
    window.wait_screen("Yes, once (y)")
    time.sleep(0.6)
    window.key("d")
    window.wait("answer-07 is what I say.")
    assert not (workspace / "refused-07").exists()
    window.enter("question-08")
    window.wait("answer-08 is what I say.")
    window.key("BTab")
    window.wait_screen("Plan mode")
    window.enter("question-09")
    window.wait_screen("Which colour then?")
    time.sleep(0.6)
    window.key("Down")
    window.key("Enter")
    window.wait("answer-09 is what I say.")
    window.enter("question-10")
    window.wait("do part-10")
    window.see(lambda: re.search("implement", window.screen, re.IGNORECASE), "the question about the plan")
    time.sleep(0.6)
    window.key("Enter")
    window.wait("answer-11 is what I say.")
    window.enter("question-12")
    window.wait_screen("never finished 12")
    window.key("Escape")
    window.see(lambda: re.search("interrupted", window.screen, re.IGNORECASE), "the interruption")
    window.enter("question-13")
    window.wait("answer-13 is what I say.")


def more_turns(window: Window, server: FakeServer) -> None:
    """Steering, queueing, an error, a command of the person's own, a compaction, and plain talk."""
    server.script(turn(runs("sleep 1.2", "c14", yield_time_ms=9000)), says("answer-14"), says("answer-15"))
    window.enter("question-14")
    window.wait_screen("Running sleep 1.2")
    window.enter("steering-14")
    window("send-keys", "-l", "question-15")
    window.wait_screen("question-15")
    time.sleep(0.1)
    window.key("Tab")
    window.wait("answer-15 is what I say.")
    server.script(refuses(400, {"error": {"message": "the-bad-thing of 16"}}), says("answer-17"))
    window.enter("question-16")
    window.wait("the-bad-thing of 16")
    window.enter("question-17")
    window.wait("answer-17 is what I say.")
    window.enter("!echo by-hand-$((40+2))")
    window.wait("by-hand-42")
    server.script(says("summary-of-18"))
    window.enter("/compact")
    window.see(lambda: re.search("compacted", window.scrollback, re.IGNORECASE), "the compaction")
    for number in range(18, 24):
        server.script(turn(message(f"answer-{number} is what I say.", deltas=4), event_delay_s=0.01))
        window.enter(f"question-{number}")
        if number % 2:
            window.resize(*STORM[number % len(STORM)])
        window.wait(f"answer-{number} is what I say.")
        window.resize(*SIZE)
        window.wait_screen("Ask for anything")


def messages_of(home: Path) -> list[str]:
    """What was said, by the record: messages of the person and of the model, in order."""
    (rollout,) = home.glob("sessions/**/rollout-*.jsonl")
    said: list[str] = []
    for record in whole_lines(rollout):
        payload = record.get("payload") or {}
        if record.get("type") == "event_msg" and payload.get("type") in ("user_message", "agent_message"):
            said.append(payload["message"])
    return said


def check_once_and_in_order(shown: str, said: list[str]) -> None:
    """Every message stands there word for word, once, in the order of the record."""
    everything, place = flat(shown), 0
    for text in said:
        for paragraph in re.sub(r"</?proposed_plan>", "", text).replace("- do", "do").split("\n"):
            if not paragraph.strip():
                continue
            words = flat(paragraph)
            found = everything.find(words, place)
            assert found >= 0, f"{words!r} is missing after {everything[max(0, place - 200) : place]!r}"
            assert everything.count(words) == 1, f"{words!r} stands there {everything.count(words)} times"
            place = found + len(words)


def test_the_check_itself_sees_what_is_missing_doubled_or_out_of_order() -> None:
    check_once_and_in_order("one two\nthree", ["one two", "three"])
    for wrong in ("one two", "one two\none two\nthree", "three\none two"):
        with pytest.raises(AssertionError):
            check_once_and_in_order(wrong, ["one two", "three"])
