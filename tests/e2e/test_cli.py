"""The command line as a person meets it: pages, slips, sentences, threads by a few characters, questions."""

from __future__ import annotations

import base64
import json
import os
import pty
import select
import termios
from pathlib import Path

import pytest

from fake_server import FakeServer
from installed import Spindle
from spindle import __version__

PATIENCE_S = 30.0
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class OnTerminal(Spindle):
    """The installed command, also on a terminal."""

    def thread(self, prompt: str) -> str:
        done = self("exec", "--json", prompt)
        assert done.code == 0, done.err
        return done.thread_id

    def on_terminal(self, *words: str, answers: str = "", columns: int = 80) -> tuple[int, str]:
        """Exit code and screen; `answers` is typed when a question ends in `] `."""
        pid, terminal = pty.fork()
        if pid == 0:
            termios.tcsetwinsize(0, (24, columns))
            os.chdir(self.workspace)
            os.execve(self.command[0], [*self.command, *words], self.environment)
        screen = b""
        try:
            while select.select([terminal], [], [], PATIENCE_S)[0]:
                try:
                    data = os.read(terminal, 4096)
                except OSError:  # the end, on Linux
                    break
                if not data:
                    break
                screen += data
                if answers and screen.endswith(b"] "):
                    os.write(terminal, answers.encode())
                    answers = ""
        finally:
            os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), screen.decode().replace("\r\n", "\n")


@pytest.fixture
def spindle(spindle_cmd: list[str], workspace: Path, home: Path, environment: dict[str, str]) -> OnTerminal:
    return OnTerminal(spindle_cmd, workspace, home, environment)


def prompts(server: FakeServer) -> list[str]:
    """What a person said last, per request."""
    return [request.json["input"][-1]["content"][-1]["text"] for request in server.turns_asked]


# ---- pages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [[], ["exec"], ["exec", "fork"], ["mcp", "add"], ["threads", "list"], ["apply-patch"]]
)
def test_a_page_is_shown_whatever_the_configuration_is(spindle: OnTerminal, home: Path, words: list[str]) -> None:
    (home / "config.toml").write_text("this is not toml =\n")
    asked = spindle(*words, "--help")
    assert (asked.code, asked.err) == (0, "") and f"Usage: spindle {' '.join(words)}".rstrip() in asked.out
    spindle.environment["CODEX_HOME"] = str(home / "absent")
    assert spindle("help", *words).out == asked.out
    assert spindle(*words, "-h").out == asked.out


def test_a_command_with_subcommands_has_help_among_them(spindle: OnTerminal) -> None:
    assert spindle("exec", "help", "resume").out == spindle("exec", "resume", "--help").out
    assert spindle("mcp", "help").out == spindle("mcp", "--help").out
    done = spindle("mcp")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: `spindle mcp` needs a subcommand\n\n" + spindle("mcp", "--help").out


def test_a_page_is_as_wide_as_the_terminal_and_never_wider_than_100(spindle: OnTerminal) -> None:
    for columns, widest in ((60, 60), (80, 80), (200, 100)):
        code, screen = spindle.on_terminal("app-server", "--help", columns=columns)
        assert code == 0 and widest - 10 < max(map(len, screen.splitlines())) <= widest


@pytest.mark.parametrize("words", [["-V"], ["-c", "a=1", "--version"], ["exec", "-V"]])
def test_the_version_is_the_same_everywhere(spindle: OnTerminal, words: list[str]) -> None:
    assert spindle(*words).out == f"spindle {__version__}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["exce", "x"], "did you mean `spindle exec`?"),
        (["exec", "--jsn", "x"], "did you mean `--json`?"),
        (["mcp", "lst"], "did you mean `spindle mcp list`?"),
        (["exec", "-s", "reed-only", "x"], "did you mean `read-only`?"),
        (["exec", "--enable", "shel_tool", "x"], "did you mean `shell_tool`?"),
        (["demo", "bogus"], "unexpected argument 'bogus'"),
    ],
)
def test_a_slip_is_exit_code_two_and_names_what_was_meant(
    spindle: OnTerminal, server: FakeServer, words: list[str], said: str
) -> None:
    done = spindle(*words)
    assert (done.code, done.out, server.requests) == (2, "", [])
    assert said in done.err and done.err.startswith("error: ") and done.err.count("\n") == 1


# ---- prompts without a command ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ([], "`spindle exec`"),
        (["fix the bug"], "`spindle exec`"),
        (["fix", "the", "bug"], "`spindle exec`"),
        (["-s", "read-only", "fix the bug"], "`spindle exec`"),
        (["resume"], "`spindle exec resume`"),
        (["resume", "--last", "go on"], "`spindle exec resume`"),
        (["fork", "019a8c2e"], "`spindle exec fork`"),
    ],
)
def test_without_a_terminal_the_interface_names_exec_and_does_nothing(
    spindle: OnTerminal, server: FakeServer, words: list[str], instead: str
) -> None:
    done = spindle(*words)
    assert (done.code, done.out, server.requests) == (1, "", [])
    assert done.err.startswith("error: the interface needs a terminal") and done.err.count("\n") == 1
    assert instead in done.err


@pytest.mark.parametrize(
    "words", [["frobnicate"], ["exce", "the", "bug"], ["review", "my", "--change"], ["fix", "--nope"]]
)
def test_what_may_be_meant_as_a_command_asks_no_model(
    spindle: OnTerminal, server: FakeServer, words: list[str]
) -> None:
    done = spindle(*words)
    assert (done.code, done.out, server.requests) == (2, "", [])


def test_a_picture_and_a_prompt_behind_it_are_told_apart(
    spindle: OnTerminal, server: FakeServer, workspace: Path
) -> None:
    (workspace / "a.png").write_bytes(PICTURE)
    (workspace / "b.png").write_bytes(PICTURE)
    assert spindle("exec", "-i", "a.png", "b.png", "what is this?").code == 0
    content = server.turns_asked[0].json["input"][-1]["content"]
    assert [part["type"] for part in content if part["type"] == "input_image"] == ["input_image"] * 2
    assert content[-1]["text"] == "what is this?"


# ---- threads ---------------------------------------------------------------------------------------


def test_a_thread_is_found_by_the_beginning_of_its_id(spindle: OnTerminal, server: FakeServer, home: Path) -> None:
    thread_id = spindle.thread("one")
    start = thread_id[:13]
    assert thread_id in spindle("context", start).out
    assert spindle("exec", "resume", start.upper(), "two").code == 0
    assert f"archived {thread_id}" in spindle("archive", start).out
    assert f"restored {thread_id}" in spindle("unarchive", start).out
    assert "`spindle threads --all --archived` lists" in spindle("unarchive", "no-such-thread").err
    (file,) = home.rglob(f"rollout-*{thread_id}.jsonl")
    other = thread_id[:-1] + ("0" if thread_id[-1] != "0" else "1")
    file.with_name(file.name.replace(thread_id, other)).write_bytes(file.read_bytes())
    for words in (["archive", start], ["delete", start], ["context", start], ["exec", "resume", start, "x"]):
        done = spindle(*words)
        assert done.code == 1 and "begins the ids of 2 threads" in done.err
    done = spindle("archive", thread_id[:3])  # too little to be meant
    assert done.code == 1 and f"no rollout found for thread id {thread_id[:3]}" in done.err


def test_delete_wants_a_terminal_or_force(spindle: OnTerminal, server: FakeServer, home: Path) -> None:
    thread_id = spindle.thread("keep me")
    done = spindle("delete", thread_id)
    assert (done.code, done.out) == (1, "")
    assert f"spindle delete --force {thread_id}" in done.err and [*home.rglob("rollout-*")]
    assert spindle("delete", "--force", thread_id).out == f"deleted {thread_id}\n"
    assert [*home.rglob("rollout-*")] == []


@pytest.mark.parametrize(("answer", "is_gone"), [("\n", False), ("n\n", False), ("\x04", False), ("y\n", True)])
def test_on_a_terminal_delete_shows_what_goes_and_asks(
    spindle: OnTerminal, server: FakeServer, home: Path, answer: str, is_gone: bool
) -> None:
    thread_id = spindle.thread("some \x1b[31mtitle")
    code, screen = spindle.on_terminal("delete", thread_id[:20], answers=answer)
    assert f"{thread_id}  some" in screen and "title" in screen and "\x1b[31m" not in screen
    assert "Delete this thread for good? [y/N] " in screen
    assert (code, [*home.rglob("rollout-*")] == []) == (0 if is_gone else 1, is_gone)


def test_a_thread_that_cannot_be_read_can_be_deleted(spindle: OnTerminal, server: FakeServer, home: Path) -> None:
    thread_id = spindle.thread("broken")
    (file,) = home.rglob("rollout-*")
    file.write_bytes(b"\0" * 100)
    code, screen = spindle.on_terminal("delete", thread_id, answers="y\n")
    assert (code, [*home.rglob("rollout-*")]) == (0, []), screen


def test_threads_list_is_threads(spindle: OnTerminal, server: FakeServer) -> None:
    thread_id = spindle.thread("listed")
    assert spindle("threads", "list").out == spindle("threads").out
    assert json.loads(spindle("threads", "list", "--json", "--all", "--limit", "3").out)["id"] == thread_id


# ---- features --------------------------------------------------------------------------------------


def states(spindle: OnTerminal, *words: str) -> dict[str, tuple[str, str]]:
    rows = [line.split() for line in spindle(*words, "features", "list").out.splitlines()]
    return {name: (" ".join(stage), state) for name, *stage, state in rows}


def test_features_are_listed_and_switched_with_comments_kept(spindle: OnTerminal, home: Path) -> None:
    file = home / "config.toml"
    file.write_text("# mine\n" + file.read_text())
    assert states(spindle)["shell_tool"] == ("stable", "true")
    assert states(spindle, "--disable", "shell_tool")["shell_tool"] == ("stable", "false")
    done = spindle("features", "enable", "shell_snapshot")
    assert (done.code, done.out) == (0, "Enabled feature `shell_snapshot` in config.toml.\n")
    assert file.read_text().startswith("# mine\n") and "[features]\nshell_snapshot = true\n" in file.read_text()
    assert states(spindle)["shell_snapshot"] == ("experimental", "true")
    assert spindle("features", "disable", "shell_snapshot").code == 0
    assert "shell_snapshot = false" in file.read_text() and states(spindle)["shell_snapshot"][1] == "false"


def test_a_feature_of_codex_is_kept_for_codex_and_said_to_be_unused(spindle: OnTerminal, home: Path) -> None:
    assert "memories" not in states(spindle)
    assert "in Spindle it has no effect" in spindle("features", "enable", "memories").out
    assert states(spindle)["memories"] == ("unused", "true")


def test_an_unknown_feature_changes_nothing(spindle: OnTerminal, home: Path) -> None:
    before = (home / "config.toml").read_bytes()
    done = spindle("features", "enable", "shel_snapshot")
    assert (done.code, done.out) == (1, "") and "did you mean `shell_snapshot`?" in done.err
    assert (home / "config.toml").read_bytes() == before


def test_features_works_without_a_file(spindle: OnTerminal, home: Path) -> None:
    (home / "config.toml").unlink()
    assert spindle("features", "enable", "hooks").code == 0
    assert (home / "config.toml").read_text() == "[features]\nhooks = true\n"
