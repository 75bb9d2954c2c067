"""`./run` without its set-up: when it starts the installed command at once, and when it prepares .venv first."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parent.parent.parent
SCRIPTS = ["run", "test", ".ci/run", "scripts/prepare-venv"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose installed command and set-up only say that they ran."""
    root = tmp_path / "checkout"
    for folder in ("scripts", ".venv/bin"):
        (root / folder).mkdir(parents=True)
    shutil.copy(REPOSITORY / "run", root)
    for name in ("pyproject.toml", "scripts/spindle", ".venv/bin/python"):
        (root / name).write_text("")
    (root / ".venv/bin/spindle").write_text('#!/bin/sh\nprintf "spindle %s\\n" "$*"\n')
    (root / "scripts/prepare-venv").write_text("#!/bin/sh\necho prepared\n")
    for name in (".venv/bin/python", ".venv/bin/spindle", "scripts/prepare-venv"):
        (root / name).chmod(0o755)
    (root / ".venv/.ready").write_text(f"{root}/.venv\n")
    for name in ("pyproject.toml", "scripts/spindle"):
        os.utime(root / name, (1_000_000_000, 1_000_000_000))
    return root


def output_of(*command: str | Path, cwd: Path) -> list[str]:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_scripts_can_be_run_and_are_valid_shell(script: str) -> None:
    path = REPOSITORY / script
    assert os.access(path, os.X_OK)
    subprocess.run(["sh", "-n", str(path)], check=True)


def test_a_prepared_checkout_starts_the_command_from_any_folder(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(checkout / "run")
    expected = ["spindle exec two words"]
    assert output_of("./run", "exec", "two words", cwd=checkout) == expected
    assert output_of(checkout / "run", "exec", "two words", cwd=tmp_path) == expected
    assert output_of("./link", "exec", "two words", cwd=tmp_path) == expected


@pytest.mark.parametrize("changed", ["pyproject.toml", "scripts/spindle"])
def test_a_changed_project_is_installed_again_first(checkout: Path, changed: str) -> None:
    os.utime(checkout / changed, (4_000_000_000, 4_000_000_000))
    assert output_of("./run", "-V", cwd=checkout) == ["prepared", "spindle -V"]


def test_a_new_or_moved_checkout_is_prepared_first(checkout: Path, tmp_path: Path) -> None:
    moved = checkout.rename(tmp_path / "moved")
    assert output_of("./run", "-V", cwd=moved) == ["prepared", "spindle -V"]
    (moved / ".venv/.ready").unlink()
    assert output_of("./run", "-V", cwd=moved) == ["prepared", "spindle -V"]


UNREACHABLE = """
WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError(\'<Connection object
 at 0x7f>: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution\')': /simple/hatchling/
ERROR: Could not find a version that satisfies the requirement hatchling>=1.27 (from versions: none)
ERROR: No matching distribution found for hatchling>=1.27
"""
NO_ROOM = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n"
GOOD = """
WARNING: Location 'file:///srv/wheels/msgspec/' is ignored: it is neither a file nor a directory.
Collecting msgspec<1,>=0.22
  Downloading msgspec-0.22.0.whl (210 kB)
Collecting httptools<1,>=0.7
Installing collected packages: msgspec, httptools, spindle-agent
"""


@pytest.fixture
def set_up(tmp_path: Path) -> Path:
    """A folder with an awkward name whose set-up is the real one; `python` in it installs nothing."""
    root = tmp_path / "my $checkout's “ö”"
    for folder in ("scripts", "src/spindle"):
        (root / folder).mkdir(parents=True)
    for name in ("run", "scripts/prepare-venv", "scripts/set-up-step"):
        shutil.copy(REPOSITORY / name, root / name)
    (root / "pyproject.toml").write_text("")
    (root / "scripts/spindle").write_text("#!python\nimport sys\nprint('spindle', *sys.argv[1:])\n")
    # Stands for the interpreter: makes an environment of itself, and answers for pip what the file `pip` says.
    (root / "python").write_text(
        "#!/bin/sh\n"
        'case "$1 $2 $3" in\n'
        '"-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp scripts/spindle "$3/bin" &&\n'
        'printf "#!%s/bin/python\\n" "$3" >"$3/bin/spindle" && sed 1d scripts/spindle >>"$3/bin/spindle" ;;\n'
        '"-I -m pip") case $4 in install) . ./pip ;; esac ;;\n'
        '"-m pip "*) echo "pip without -I would see the packages of others" >&2; exit 1 ;;\n'
        f'*) exec "{sys.executable}" "$@" ;;\n'
        "esac\n"
    )
    pip_does(root, GOOD)
    for name in ("scripts/spindle", "python"):
        (root / name).chmod(0o755)
    return root


def pip_does(root: Path, says: str, then: str = "") -> None:
    """What pip prints from now on, and what it does after that."""
    (root / "said").write_text(says)
    (root / "pip").write_text(f"echo pip ran >>runs\ncat said\n{then}\n")


def environment(root: Path, python: str | None = None) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": str(root), "PYTHON": python or str(root / "python"), "TERM": "xterm"}


def start(root: Path, *arguments: str, python: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(root / "run"), *arguments],
        cwd=root,
        env={**environment(root, python), **more},
        capture_output=True,
        text=True,
        timeout=60,
    )


def runs_of_pip(root: Path) -> int:
    return (root / "runs").read_text().count("pip ran")


def test_the_set_up_works_in_a_folder_with_an_awkward_name_and_runs_once(set_up: Path) -> None:
    first, second = start(set_up, "a b", "c"), start(set_up, "again")
    assert (first.stdout, second.stdout, second.stderr) == ("spindle a b c\n", "spindle again\n", "")


def test_a_good_set_up_says_how_far_it_is_and_nothing_of_what_the_installer_says(set_up: Path) -> None:
    lines = start(set_up, "x").stderr.splitlines()
    assert lines[0].startswith("Setting up .venv with ") and lines[-1].startswith("Ready after ")
    stages = ["making the environment", "looking for what is needed", "fetching packages", "installing"]
    assert [line.split(" s  ")[1] for line in lines[1:-1]] == stages
    assert "is ignored" in (set_up / ".cache/set-up.log").read_text()


def test_on_a_terminal_one_line_moves_and_is_gone_in_the_end(set_up: Path) -> None:
    ours, theirs = os.openpty()
    with subprocess.Popen([set_up / "run"], env=environment(set_up), stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            shown += data
        os.close(ours)
    assert process.returncode == 0
    text = shown.decode()
    assert " s  fetching httptools\033[K" in text and "is ignored" not in text
    first, moving, said = text.replace("\r\n", "\n").strip().split("\n")
    assert first.startswith("Setting up") and said == "spindle"
    assert moving.rpartition("\r\033[K")[2].startswith("Ready after")


def test_a_package_index_out_of_reach_is_named_in_a_sentence_and_nothing_is_left(set_up: Path) -> None:
    pip_does(set_up, UNREACHABLE, "exit 1")
    failed = start(set_up, "x", PIP_INDEX_URL="https://me:secret@index.example/simple")
    assert (failed.returncode, failed.stdout) == (1, "")
    last = failed.stderr.splitlines()[-1]
    assert last.startswith(
        "Spindle's dependencies could not be fetched: https://index.example/simple could not be reached (Temporary "
        "failure in name resolution). "
    )
    assert "PIP_INDEX_URL" in last and "PIP_FIND_LINKS" in last and ".cache/set-up.log" in last
    assert "WARNING" not in failed.stderr and "ERROR" not in failed.stderr
    assert "No matching distribution" in (set_up / ".cache/set-up.log").read_text()
    assert not (set_up / ".venv").exists()
    pip_does(set_up, GOOD)
    assert start(set_up, "x").stdout == "spindle x\n"


def test_with_uv_the_words_are_those_that_uv_understands(set_up: Path) -> None:
    (set_up / "uv").write_text(
        '#!/bin/sh\n[ "$1" = venv ] && exec "$PYTHON" -m venv "$5"\n'
        'printf "  cause: Failed to fetch: http://index.example/simple/x/\\n'
        '  cause: Connection refused (os error 111)\\n"\nexit 2\n'
    )
    (set_up / "uv").chmod(0o755)
    failed = start(set_up, "x", PATH=f"{set_up}:/usr/bin:/bin")
    last = failed.stderr.splitlines()[-1]
    assert "http://index.example/simple/x/ could not be reached (Connection refused). " in last
    assert "UV_DEFAULT_INDEX" in last and "PIP_" not in last
    assert failed.returncode == 1 and not (set_up / ".venv").exists()


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        (NO_ROOM, "There is no room left for .venv"),
        ("ERROR: No matching distribution found for msgspec\n", "No matching distribution found for msgspec"),
        ("", "it said nothing"),
    ],
)
def test_other_failures_are_told_in_one_sentence_too(set_up: Path, says: str, sentence: str) -> None:
    pip_does(set_up, says, "exit 1")
    failed = start(set_up, "x")
    assert failed.returncode == 1 and sentence in failed.stderr.splitlines()[-1]
    assert not (set_up / ".venv").exists()


def test_a_refresh_that_fails_leaves_the_old_environment_as_it_was(set_up: Path) -> None:
    start(set_up, "x")
    (set_up / "pyproject.toml").write_text("# changed\n")
    pip_does(set_up, UNREACHABLE, "exit 1")
    failed = start(set_up, "x")
    assert failed.returncode == 1 and "could not be reached" in failed.stderr
    assert ".venv is as it was" in failed.stderr
    assert subprocess.run([set_up / ".venv/bin/spindle", "y"], capture_output=True, check=True).stdout == b"spindle y\n"
    pip_does(set_up, GOOD)
    assert start(set_up, "x").stdout == "spindle x\n"


def test_new_time_stamps_alone_install_nothing(set_up: Path) -> None:
    start(set_up, "x")
    os.utime(set_up / "pyproject.toml", (4_000_000_000, 4_000_000_000))
    again = start(set_up, "x")
    assert (again.stdout, again.stderr, runs_of_pip(set_up)) == ("spindle x\n", "", 1)
    (set_up / "pyproject.toml").write_text("# changed\n")
    os.utime(set_up / "pyproject.toml", (4_000_000_000, 4_000_000_000))
    assert "Refreshing .venv" in start(set_up, "x").stderr and runs_of_pip(set_up) == 2


def begin_and_wait_for_pip(root: Path) -> subprocess.Popen[str]:
    """A set-up that stands still where packages are installed."""
    os.mkfifo(root / "pipe")
    pip_does(root, GOOD, "echo installing >pipe; exec sleep 100")
    process = subprocess.Popen(
        [str(root / "run"), "x"],
        cwd=root,
        env=environment(root),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert (root / "pipe").read_text() == "installing\n"
    return process


@pytest.mark.parametrize("is_refresh", [False, True], ids=["first", "refresh"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_set_up_that_is_interrupted_is_begun_again_by_the_next_start(
    set_up: Path, number: signal.Signals, is_refresh: bool
) -> None:
    if is_refresh:
        start(set_up, "x")
        (set_up / "pyproject.toml").write_text("# changed\n")
    process = begin_and_wait_for_pip(set_up)
    os.killpg(process.pid, number)
    said = process.communicate(timeout=30)[1]
    if number == signal.SIGKILL:
        assert (set_up / ".venv").exists()
    else:
        assert process.returncode in (130, -number) and "interrupted" in said.splitlines()[-1]
        assert (set_up / ".venv/bin/spindle").exists() == is_refresh
    pip_does(set_up, GOOD)
    again = start(set_up, "x")
    assert again.stdout == "spindle x\n"
    assert ("did not come to its end" in again.stderr) == (number == signal.SIGKILL)


def test_a_second_start_waits_for_the_first(set_up: Path) -> None:
    os.mkfifo(set_up / "pipe")
    pip_does(set_up, GOOD, "echo installing >pipe; cat pipe >/dev/null")
    words: dict[str, Any] = {"cwd": set_up, "env": environment(set_up), "stderr": subprocess.PIPE, "text": True}
    words["stdout"] = subprocess.PIPE
    with subprocess.Popen([str(set_up / "run"), "1"], **words) as first:
        (set_up / "pipe").read_text()
        with subprocess.Popen([str(set_up / "run"), "2"], **words) as second:
            assert second.stderr is not None
            assert second.stderr.readline() == "Another start is setting up .venv; waiting for it ...\n"
            (set_up / "pipe").write_text("go on\n")
            assert second.communicate(timeout=30) == ("spindle 2\n", "")
        assert first.communicate(timeout=30)[0] == "spindle 1\n"
    assert runs_of_pip(set_up) == 1


def test_an_interpreter_that_cannot_be_used_is_named(set_up: Path) -> None:
    refused = start(set_up, "x", python="/no/such/python")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "PYTHON=/no/such/python is not a Python 3.11 or newer.\n"


def test_a_checkout_that_cannot_be_written_says_so(set_up: Path) -> None:
    (set_up / ".cache").write_text("in the way, for root too\n")
    refused = start(set_up, "x")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "cannot be written" in refused.stderr and refused.stderr.count("\n") == 1


def test_the_words_before_the_checks_tell_how_to_call_them() -> None:
    told = output_of("./test", "--help", cwd=REPOSITORY)
    assert any(line.startswith("  ./test quick ") for line in told) and not any(line.startswith("#") for line in told)


def test_the_quick_selection_names_folders_and_files_that_exist(request: pytest.FixtureRequest) -> None:
    tests = REPOSITORY / "tests"
    conftest: Any = next(
        plugin
        for plugin in request.config.pluginmanager.get_plugins()
        if getattr(plugin, "__file__", None) == str(tests / "conftest.py")
    )
    assert all((tests / name).is_dir() for name in conftest.MANY_PROGRAMS)
    assert all((tests / name).is_file() for name in conftest.KEPT)


def test_the_conformance_list_of_continuous_integration_is_well_formed() -> None:
    lines = (REPOSITORY / ".ci/conformance.txt").read_text().splitlines()
    files = [line.split() for line in lines if line and not line.startswith("#")]
    assert all(len(words) == 1 or words[1:] == ["alone"] for words in files)
    assert len({words[0] for words in files}) == len(files) >= 9
