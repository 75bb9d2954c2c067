"""`spindle sandbox` as people and scripts use it: exit codes, streams, signals, terminals, and what it refuses."""

from __future__ import annotations

import fcntl
import os
import pty
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

import pytest

from spindle.process.sandbox import landlock

PATIENCE_S = 20.0
NO_COMMAND = "error: `spindle sandbox` needs COMMAND; usage: spindle sandbox [linux|macos] [OPTIONS] [--] COMMAND...\n"
LANDLOCK = ["-c", "spindle.sandbox.backend=landlock"]
needs_landlock = pytest.mark.skipif(
    landlock.unusable(landlock.abi()) is not None, reason="this kernel has no Landlock of use"
)


class Run:
    """Starts `spindle sandbox` in the workspace."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        self.command = [*command, "sandbox"]
        self.cwd = cwd
        self.env = env

    def __call__(self, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
        settings: dict = {"cwd": self.cwd, "env": self.env, "stdin": subprocess.DEVNULL, **more}
        return subprocess.run(
            [*self.command, *words], capture_output=True, text=True, errors="replace", timeout=PATIENCE_S, **settings
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.command, *words],
            cwd=self.cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture
def sandbox(spindle_cmd: list[str], environment: dict[str, str], workspace: Path) -> Run:
    return Run(spindle_cmd, workspace, environment)


# ---- what comes out --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 1", 1), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("exit 255", 255)],
)
@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
def test_the_exit_code_is_the_commands(sandbox: Run, mode: str, script: str, code: int) -> None:
    done = sandbox("--mode", mode, "--", "sh", "-c", script)
    assert (done.returncode, done.stderr) == (code, "")


def test_streams_are_the_callers_own(sandbox: Run) -> None:
    done = sandbox("sh", "-c", "cat; echo to-err >&2", stdin=None, input="through\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "through\n", "to-err\n")


def test_large_output_passes_through_a_pipe(sandbox: Run) -> None:
    done = sandbox("sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x")
    assert (done.returncode, len(done.stdout)) == (0, 5_000_000)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_the_null_device_for_the_command_too(sandbox: Run, closed: str) -> None:
    line = f'"$@" sh -c "cat && echo said && exit 5" {closed}'
    done = subprocess.run(
        ["sh", "-c", line, "sh", *sandbox.command],
        cwd=sandbox.cwd,
        env=sandbox.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (5, "" if ">&-" in closed else "said\n")


def test_a_reader_that_goes_away_ends_the_command(sandbox: Run) -> None:
    with sandbox.start("yes") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "y\n"
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 128 + signal.SIGPIPE


def test_words_and_variables_need_not_be_text(sandbox: Run) -> None:
    sandbox.env["ODD"] = "\udcff"
    done = subprocess.run(
        [*sandbox.command, "sh", "-c", 'printf "%s-%s" "$1" "$ODD"', "sh", b"\xfe"],
        cwd=sandbox.cwd,
        env=sandbox.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    assert done.stdout == b"\xfe-\xff"


def test_options_of_the_command_are_its_own(sandbox: Run) -> None:
    for words in (["echo", "-C", "/", "--help", "--", "-a"], ["--", "echo", "-C", "/", "--help", "--", "-a"]):
        assert sandbox(*words).stdout == "-C / --help -- -a\n"


def test_the_forms_of_codex_are_understood(sandbox: Run) -> None:
    try_to_write = "touch new && echo written"
    assert sandbox("linux", "sh", "-c", try_to_write).stdout == ""
    for words in (
        ["linux", "--full-auto"],
        ["landlock", "--full-auto", "--"],
        ["--full-auto"],
        ["-s", "workspace-write"],
        ["-P", ":workspace"],
        ["-c", "sandbox_mode=workspace-write"],
        ["-c", 'sandbox_mode="workspace-write"', "--"],
    ):
        assert sandbox(*words, "sh", "-c", try_to_write).stdout == "written\n", words


# ---- what it may reach -----------------------------------------------------------------------------


def test_without_a_setting_nothing_can_be_written_even_where_the_folder_is_trusted(
    sandbox: Run, home: Path, workspace: Path
) -> None:
    config = home / "config.toml"
    config.write_text(config.read_text() + f'\n[projects."{workspace}"]\ntrust_level = "trusted"\n')
    assert sandbox("touch", "new").returncode != 0
    assert not (workspace / "new").exists()


def test_the_configured_mode_is_the_default(sandbox: Run, home: Path, workspace: Path) -> None:
    config = home / "config.toml"
    config.write_text('sandbox_mode = "workspace-write"\n' + config.read_text())
    assert sandbox("touch", "new").returncode == 0
    assert (workspace / "new").exists()


def test_a_folder_can_be_named_and_another_added(sandbox: Run, workspace: Path, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    script = "pwd; touch here; touch ../two/there; touch ../three/elsewhere"
    done = sandbox("--mode", "workspace-write", "-C", "../one", "--add-dir", "../two", "sh", "-c", script)
    assert done.stdout == f"{tmp_path}/one\n"
    assert [(tmp_path / path).exists() for path in ("one/here", "two/there", "three/elsewhere")] == [True, True, False]


def test_full_access_is_no_fence(sandbox: Run, tmp_path: Path) -> None:
    done = sandbox("--mode", "danger-full-access", "sh", "-c", f"touch {tmp_path}/outside && exit 4")
    assert (done.returncode, (tmp_path / "outside").exists()) == (4, True)


def test_the_network_is_off_unless_asked_for(sandbox: Run) -> None:
    script = "cat /proc/net/dev | wc -l; echo ${CODEX_SANDBOX_NETWORK_DISABLED:-reachable}"
    own = len(Path("/proc/net/dev").read_text().splitlines())
    assert sandbox("sh", "-c", script).stdout == "3\n1\n"
    assert sandbox("--network", "sh", "-c", script).stdout == f"{own}\nreachable\n"


def test_keys_are_not_handed_on_and_the_terminals_settings_are(sandbox: Run) -> None:
    sandbox.env |= {"OPENAI_API_KEY": "sk-canary", "FAKE_API_KEY": "canary", "TERM": "xterm-256color", "LANG": "de_DE"}
    sandbox.env["LD_PRELOAD"] = "/nonexistent-canary.so"
    out = sandbox("env").stdout
    assert "canary" not in out
    assert {"TERM=xterm-256color", "LANG=de_DE"} <= set(out.splitlines())
    assert "NO_COLOR=1" not in out


def test_no_descriptor_but_the_streams_is_handed_on(sandbox: Run) -> None:
    with open("/etc/passwd") as file:
        os.set_inheritable(file.fileno(), True)
        done = sandbox("sh", "-c", "echo /proc/self/fd/*", pass_fds=(file.fileno(),))
    numbers = [int(path.rpartition("/")[2]) for path in done.stdout.split()]
    assert [number for number in numbers if number > 3] == []


# ---- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, NO_COMMAND),
        (["--"], 2, NO_COMMAND),
        (["no-such-program"], 127, "error: no-such-program: no such program\n"),
        (["./no-such-program"], 127, "error: ./no-such-program: no such program\n"),
        (["/etc/passwd"], 126, "error: /etc/passwd cannot be started: Permission denied\n"),
        (["-C", "/no/such", "ls"], 2, "error: '/no/such': no such folder (-C)\n"),
        (["-P", "mine", "ls"], 1, None),
        (["--mode", "open", "ls"], 2, None),
        (["--mode", "read-only", "--full-auto", "ls"], 2, "error: two modes at once: read-only and workspace-write\n"),
        (["--yolo", "ls"], 2, None),
        (["macos" if sys.platform == "linux" else "linux", "ls"], 2, None),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_sentence(
    sandbox: Run, words: list[str], code: int, message: str | None
) -> None:
    done = sandbox(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert message in (None, done.stderr)


@pytest.mark.skipif(os.getuid() != 0, reason="needs a folder that root without its powers cannot enter")
def test_a_launcher_that_fails_is_no_exit_code_of_the_command(sandbox: Run, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    os.chown(tmp_path / "closed", 65534, 65534)
    done = sandbox("-C", str(tmp_path / "closed"), "true")
    assert done.returncode == 1
    assert done.stderr.endswith("error: the sandbox could not be set up, so nothing was run; its launcher said why\n")


def test_nothing_is_run_in_a_broken_configuration(sandbox: Run, home: Path) -> None:
    (home / "config.toml").write_text("sandbox_mode = [\n")
    done = sandbox("echo", "ran")
    assert (done.returncode, done.stdout) == (1, "")
    assert "config.toml" in done.stderr


def test_where_no_sandbox_can_be_made_nothing_is_run(sandbox: Run, spindle_cmd: list[str]) -> None:
    # Inside of a sandbox no other can be made: that is a system without user namespaces.
    inner = sandbox("--mode", "workspace-write", *spindle_cmd, "sandbox", "echo", "ran")
    assert (inner.returncode, inner.stdout) == (1, "")
    assert inner.stderr.startswith("error: bubblewrap cannot start a sandbox here (") and inner.stderr.count("\n") == 1
    switched_off = sandbox("-c", "spindle.sandbox.backend=none", "echo", "ran")
    assert (switched_off.returncode, switched_off.stdout) == (1, "")


@needs_landlock
def test_landlock_is_a_fence_where_bubblewrap_cannot_be_one(
    sandbox: Run, spindle_cmd: list[str], workspace: Path
) -> None:
    script = "touch inside; touch ../outside; exit 4"
    done = sandbox("--mode", "workspace-write", *spindle_cmd, "sandbox", *LANDLOCK, "--full-auto", "sh", "-c", script)
    assert (done.returncode, (workspace / "inside").exists()) == (4, True)
    assert "outside" in done.stderr and not (workspace.parent / "outside").exists()


def test_the_demo_runs_nothing_bare_and_says_so(sandbox: Run, spindle_cmd: list[str]) -> None:
    done = sandbox("--mode", "workspace-write", *spindle_cmd, "demo", "--fast")
    assert done.returncode == 1
    assert "sandbox: none. Bubblewrap cannot start a sandbox here (" in done.stdout
    assert done.stdout.count("did not run:") >= 2
    assert "exited 1 in " not in done.stdout and "succeeded in " not in done.stdout


# ---- signals and lifetime --------------------------------------------------------------------------


def wait_until_caught(pid: int, number: signal.Signals) -> None:
    """On a busy machine the command may be heard before the process that started it is ready to pass signals on."""
    deadline = time.monotonic() + PATIENCE_S
    while sys.platform == "linux" and time.monotonic() < deadline:
        caught = re.search(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        if caught is None or int(caught[1], 16) >> (number - 1) & 1:
            return
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_for_us_is_for_the_command(sandbox: Run, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo farewell; exit 9' {name}; echo ready; while :; do sleep 0.05; done"
    with sandbox.start("bash", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait_until_caught(process.pid, number)
        process.send_signal(number)
        # Its children get the signal too, as on a terminal, and the shell may say so.
        assert process.stdout.read().splitlines()[-1] == "farewell"
        assert process.wait(PATIENCE_S) == 9


def test_a_signal_that_the_caller_ignores_is_ignored(sandbox: Run) -> None:
    script = "echo ready; sleep 1; echo over"
    with subprocess.Popen(
        ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *sandbox.command, "sh", "-c", script],
        cwd=sandbox.cwd,
        env=sandbox.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGHUP)
        assert (process.stdout.read(), process.wait(PATIENCE_S)) == ("over\n", 0)


def test_a_command_that_does_not_mind_the_signal_dies_of_it(sandbox: Run) -> None:
    with sandbox.start("sh", "-c", "echo ready; exec sleep 60") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    "options",
    [
        ["--mode", "read-only"],
        ["--mode", "workspace-write"],
        ["--mode", "danger-full-access"],
        pytest.param(LANDLOCK, marks=needs_landlock),
    ],
)
def test_whoever_kills_us_kills_the_command(sandbox: Run, options: list[str], tmp_path: Path) -> None:
    mark = f"sleep-{tmp_path.name}"
    script = f"echo ready; exec -a {mark} sleep 60"
    with sandbox.start(*options, "bash", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
        process.wait(PATIENCE_S)
        wait_until_gone(mark)


@pytest.mark.parametrize("options", [[], pytest.param(LANDLOCK, marks=needs_landlock)])
def test_what_stays_in_the_background_ends_with_the_command(sandbox: Run, options: list[str], tmp_path: Path) -> None:
    mark = f"daemon-{tmp_path.name}"
    done = sandbox(*options, "bash", "-c", f"(exec -a {mark} setsid sleep 60 >/dev/null 2>&1 &) ; echo over")
    assert (done.returncode, done.stdout) == (0, "over\n")
    wait_until_gone(mark)


def test_a_signal_to_its_own_group_does_not_reach_the_caller(sandbox: Run) -> None:
    line = '"$@" sh -c "kill -9 0; sleep 60"; echo "still here: $?"'
    done = subprocess.run(
        ["sh", "-c", line, "sh", *sandbox.command],
        cwd=sandbox.cwd,
        env=sandbox.env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        start_new_session=True,
    )
    assert (done.returncode, done.stdout) == (0, "still here: 137\n")


def test_nothing_is_left_in_the_folder(sandbox: Run, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    sandbox("--mode", "workspace-write", "-C", str(folder), "mkdir", ".git", ".codex")
    assert list(folder.iterdir()) == []


def wait_until_gone(mark: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while any(mark.encode() in command_line(pid) for pid in os.listdir("/proc") if pid.isdigit()):
        assert time.monotonic() < deadline, f"{mark} is still running"
        time.sleep(0.02)


def command_line(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


# ---- on a terminal ---------------------------------------------------------------------------------


class Terminal:
    """An interactive shell on a terminal of its own, in which "$S" is `spindle sandbox`."""

    def __init__(self, run: Run) -> None:
        short = Path(run.cwd).parent / "S"
        short.write_text(f'#!/bin/sh\nexec {shlex.join(run.command)} "$@"\n')
        short.chmod(0o755)
        env = {**run.env, "PS1": "[prompt]", "TERM": "dumb", "S": str(short), "HISTFILE": ""}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(run.cwd)
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 97, 0, 0))
        self._read = b""

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def until(self, words: str) -> str:
        """What was printed up to and including `words`."""
        deadline = time.monotonic() + PATIENCE_S
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        while (place := self._read.find(words.encode())) < 0:
            ready = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
            assert ready, f"{words!r} did not come: {self._read!r}"
            self._read += os.read(self.fd, 65536)
        end = place + len(words.encode())
        printed, self._read = self._read[:end], self._read[end:]
        return printed.decode()

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.fixture
def terminal(sandbox: Run) -> Iterator[Terminal]:
    made = Terminal(sandbox)
    made.until("[prompt]")
    yield made
    made.close()


def test_an_interactive_program_has_the_terminal(terminal: Terminal) -> None:
    terminal.type("\"$S\" sh -c 'stty size; read answer; echo got=$answer; exit 3'\n")
    terminal.until("31 97\r\n")
    terminal.type("hello\n")
    terminal.until("got=hello")
    terminal.until("[prompt]")
    terminal.type("echo code=$?\n")
    terminal.until("code=3")


def test_ctrl_c_is_for_the_program_which_may_go_on(terminal: Terminal) -> None:
    script = 'trap "echo caught; exit 5" INT; echo rea""dy; while :; do sleep 0.05; done'
    terminal.type(f"\"$S\" sh -c '{script}'\n")
    terminal.until("ready\r\n")
    terminal.type("\x03")
    terminal.until("caught")
    terminal.until("[prompt]")
    terminal.type("echo code=$?\n")
    terminal.until("code=5")


def test_ctrl_c_ends_a_program_that_does_not_care(terminal: Terminal) -> None:
    terminal.type('"$S" sh -c \'echo rea""dy; exec sleep 60\'\n')
    terminal.until("ready\r\n")
    terminal.type("\x03")
    terminal.until("[prompt]")
    terminal.type("echo code=$?\n")
    terminal.until("code=130")


def test_a_job_can_be_stopped_and_continued(terminal: Terminal) -> None:
    terminal.type('"$S" sh -c \'echo rea""dy; sleep 1; read answer; echo got=$answer\'\n')
    terminal.until("ready\r\n")
    terminal.type("\x1a")
    terminal.until("Stopped")
    terminal.until("[prompt]")
    terminal.type("fg\n")
    terminal.until("read answer")
    terminal.type("again\n")
    terminal.until("got=again")
    terminal.until("[prompt]")


def test_a_job_in_the_background_waits_for_the_terminal(terminal: Terminal) -> None:
    terminal.type("set -b\n\"$S\" sh -c 'read answer; echo got=$answer' &\n")
    terminal.until("Stopped")
    terminal.type("fg\n")
    terminal.until("read answer")
    terminal.type("now\n")
    terminal.until("got=now")
    terminal.until("[prompt]")


def test_a_program_behind_a_pipe_can_still_ask_the_person(terminal: Terminal) -> None:
    terminal.type('echo piped | "$S" sh -c \'cat; echo as""k; read answer </dev/tty; echo got=$answer\' | cat\n')
    terminal.until("piped\r\nask\r\n")
    terminal.type("yes\n")
    terminal.until("got=yes")
    terminal.until("[prompt]")


def test_a_shell_inside_has_jobs_of_its_own(terminal: Terminal) -> None:
    terminal.type('PS1=[inner] "$S" bash --norc --noprofile --noediting -i\n')
    start = terminal.until("\n[inner]")
    assert "no job control" not in start
    terminal.type("sleep 60\n")
    terminal.until("sleep 60\r\n")
    time.sleep(0.3)
    terminal.type("\x1a")
    terminal.until("Stopped")
    terminal.type("exit 6\n")
    terminal.until("stopped jobs")
    terminal.type("exit 6\n")
    terminal.until("[prompt]")
    terminal.type("echo code=$?\n")
    terminal.until("code=6")
