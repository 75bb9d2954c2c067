"""The installed command as a program among others: its version, its path, its pipes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import spindle
from fake_server import FakeServer, call, message, turn
from spindle import __version__


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_one_line(spindle_cmd: list[str], environment: dict[str, str], flag: str) -> None:
    by_module = [sys.executable, "-m", "spindle"]
    for command in (spindle_cmd, by_module):
        done = subprocess.run([*command, flag], env=environment, capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == (f"spindle {__version__}\n", "")


def test_a_reader_that_goes_away_is_not_an_accident(spindle_cmd: list[str], environment: dict[str, str]) -> None:
    with subprocess.Popen(
        [*spindle_cmd, "--version"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        assert (child.stderr.read(), child.wait(10)) == (b"", 1)


@pytest.mark.parametrize("by_module", [False, True], ids=["the command", "python -m"])
def test_a_repository_cannot_replace_our_modules(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path, by_module: bool
) -> None:
    for name in ("asyncio", "msgspec", "tomllib", "ssl", "signal", "gc", "sitecustomize"):
        (workspace / f"{name}.py").write_text("raise SystemExit('the repository was imported')\n")
    command = [sys.executable, "-m", "spindle"] if by_module else spindle_cmd
    done = subprocess.run(
        [*command, "exec", "hello"],
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert len(server.turns_asked) == 1


def shell(spindle_cmd: list[str], line: str, cwd: Path, environment: dict[str, str]) -> tuple[int, bytes, bytes]:
    """Run `line`, in which "$@" is the command, by a shell."""
    done = subprocess.run(
        ["sh", "-c", line, "sh", *spindle_cmd],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=40,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("arguments", ["exec hello", "exec --json hello", "--version", "proto", "threads"])
def test_a_closed_stream_is_like_the_null_device(
    spindle_cmd: list[str], environment: dict[str, str], workspace: Path, home: Path, arguments: str, closed: str
) -> None:
    code, out, err = shell(spindle_cmd, f'"$@" {arguments} {closed}', workspace, environment)
    assert code == 0, err
    assert b"Traceback" not in err
    assert bool(out) == (">&-" not in closed.replace("2>&-", ""))
    # Nothing that was meant for a stream may land in a file that got its number.
    for file in home.rglob("*.jsonl"):
        assert all(line.startswith(b'{"timestamp"') for line in file.read_bytes().splitlines())


@pytest.mark.parametrize("arguments", ["login --with-api-key", "exec", "apply-patch"])
def test_a_command_that_needs_input_says_so_when_stdin_is_closed(
    spindle_cmd: list[str], environment: dict[str, str], workspace: Path, arguments: str
) -> None:
    code, out, err = shell(spindle_cmd, f'"$@" {arguments} <&-', workspace, environment)
    assert (code in (1, 2), out) == (True, b"")
    assert err and b"Traceback" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", ["exec hello", "exec --json hello", "--version", "exec --help", "proto"])
def test_output_that_cannot_be_written_is_an_error_in_one_sentence(
    spindle_cmd: list[str], environment: dict[str, str], workspace: Path, arguments: str
) -> None:
    code, _, err = shell(spindle_cmd, f'"$@" {arguments} >/dev/full', workspace, environment)
    assert code == 1
    assert err.endswith(b"error: stdout cannot be written: No space left on device\n") and b"Traceback" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_progress_that_cannot_be_written_does_not_stop_the_work(
    spindle_cmd: list[str], environment: dict[str, str], workspace: Path, server: FakeServer
) -> None:
    assert shell(spindle_cmd, '"$@" exec hello 2>/dev/full', workspace, environment) == (0, b"done\n", b"")


@pytest.mark.skipif(
    not sys.prefix.isascii(), reason="Python itself cannot start from such a folder in a locale without its letters"
)
def test_text_is_utf_8_whatever_the_locale_says(
    spindle_cmd: list[str], environment: dict[str, str], workspace: Path, server: FakeServer
) -> None:
    server.script(turn(call("exec_command", {"cmd": "printf '%s' '€ ä'"}, "c1")), turn(message("fertig: ä €")))
    other = {"LC_ALL": "de_DE.ISO-8859-1", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code, out, err = shell(spindle_cmd, '"$@" exec "Grüße €"', workspace, {**environment, **other})
    assert (code, out.decode()) == (0, "fertig: ä €\n"), err
    first, second = server.turns_asked
    assert first.json["input"][-1]["content"][0]["text"] == "Grüße €"
    assert "€ ä" in second.json["input"][-1]["output"]
    assert "fertig: ä €" in err.decode()


@pytest.mark.parametrize("arguments", ["exec hello", "proto", "threads", "debug prompt-input", "apply-patch x"])
def test_a_folder_that_is_gone_is_named(
    spindle_cmd: list[str], environment: dict[str, str], tmp_path: Path, arguments: str
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code, out, err = shell(spindle_cmd, f'rmdir {gone}; "$@" {arguments}', gone, environment)
    assert (code in (1, 2), out) == (True, b"")
    # Below a path with blanks the command begins as a shell script, and then the shell has a word to say too.
    assert b"current folder no longer exists" in err.splitlines()[-1] and b"Traceback" not in err


def test_the_demo_works_with_an_interpreter_below_a_folder_with_a_blank(
    environment: dict[str, str], tmp_path: Path
) -> None:
    odd = tmp_path / "my tools" / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", str(odd)], check=True)
    packages = next((odd / "lib").glob("python*/site-packages"))
    (packages / "outer.pth").write_text("\n".join(entry for entry in sys.path if entry.endswith("site-packages")))
    (packages / "source.pth").write_text(str(Path(spindle.__file__).parent.parent))
    done = subprocess.run(
        [str(odd / "bin" / "python"), "-m", "spindle", "demo", "--fast"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert done.returncode == 0 and "The tests pass now." in done.stdout, done.stdout + done.stderr


def test_a_folder_whose_path_is_too_long_is_not_said_to_be_none(
    spindle_cmd: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    deeper = "i=0; while [ $i -lt 18 ]; do mkdir $1 && cd -P $1 || exit; i=$((i+1)); done; shift"
    command = ["sh", "-c", f'{deeper}; exec "$@"', "sh", "d" * 250, *spindle_cmd, "threads"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: the current folder cannot be reached by its path; use -C DIR" in done.stderr
