"""Files that a person names for something of ours, where the agent can put links (row 12 of the security findings)."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_server import FakeServer, call, message, turn
from fleet_made_up import make_run, usual_records
from installed import Spindle
from spindle.fleet.folder import FACTS, TASKS
from spindle.frontends.app_server.schema_files import BUNDLE
from spindle.policy.reach import Reach
from spindle.policy.sandbox import boundary_of
from spindle.protocol.settings import SandboxPolicy
from spindle.workspace.output_file import OutputFile

WRITE = ("-s", "workspace-write", "-c", "sandbox_workspace_write.exclude_slash_tmp=true")


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    """A folder of the person's with a file in it; nothing in there may have changed in the end."""
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "file").write_text("mine")
    yield folder
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"file": "mine"}


ATTACKS = {
    "link in place of the file": "unlink out/last.txt; ln -s {precious}/file out/last.txt",
    "link to a new file": "ln -sf {precious}/new out/last.txt",
    "link in place of the folder": "unlink out/last.txt; rmdir out; ln -s {precious} out",
    "folder moved away": "mv out other; ln -s {precious} out",
    "chain of links": "ln -s {precious} step; ln -sfn step out2; mv out gone; ln -s out2 out",
    "folder in place of the file": "unlink out/last.txt; mkdir out/last.txt; ln -s {precious}/file out/last.txt/x",
    "pipe in place of the file": "unlink out/last.txt; mkfifo out/last.txt",
}


@pytest.mark.parametrize("existed", [False, True])
@pytest.mark.parametrize("attack", sorted(ATTACKS))
def test_row_12_the_last_message_goes_where_the_person_said_whatever_the_model_puts_in_its_way(
    spindle: Spindle, server: FakeServer, precious: Path, attack: str, existed: bool
) -> None:
    out = spindle.workspace / "out"
    out.mkdir()
    if existed:
        (out / "last.txt").write_text("old")
    command = ATTACKS[attack].format(precious=shlex.quote(str(precious)))
    server.script(turn(call("exec_command", {"cmd": command}, "c1")), turn(message("EVIL WORDS")))
    done = spindle("exec", *WRITE, "-o", "out/last.txt", "hi")
    assert "Traceback" not in done.err and done.code in (0, 1)
    if done.code:
        assert "the last message cannot be written to out/last.txt (-o)" in done.err


@pytest.mark.parametrize("name", ["last.txt", "sub/last.txt"])
def test_row_12_a_link_that_an_earlier_run_left_is_not_followed_either(
    spindle: Spindle, server: FakeServer, precious: Path, name: str
) -> None:
    link = spindle.workspace / name.split("/")[0]
    link.symlink_to(precious if "/" in name else precious / "file")
    server.script(turn(message("EVIL WORDS")))
    done = spindle("exec", "-o", name, "hi")
    if "/" in name:
        assert done.code == 1 and f"{link} is a link, which the agent could have made" in done.err
        assert server.requests == []
    else:
        assert done.code == 0 and link.read_text() == "EVIL WORDS" and not link.is_symlink()


def test_row_12_links_of_the_person_devices_and_descriptors_work_as_ever(
    spindle: Spindle, server: FakeServer, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "file").write_text("old")
    (own / "link").symlink_to("file")
    (own / "folder").symlink_to(own)
    for path in (own / "link", own / "folder/folder/link"):
        server.script(turn(message(f"to {path.parent.name}")))
        assert spindle("exec", *WRITE, "-o", str(path), "hi").code == 0
        assert (own / "file").read_text() == f"to {path.parent.name}" and (own / "link").is_symlink()
    for path in ("/dev/null", "/dev/stderr"):
        server.script(turn(message("words")))
        assert spindle("exec", "-o", path, "hi").code == 0
    server.script(turn(message("through a descriptor")))
    reading, writing = os.pipe()
    done = subprocess.run(
        [*spindle.command, "exec", "-o", f"/dev/fd/{writing}", "hi"],
        cwd=spindle.workspace,
        env=spindle.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        pass_fds=(writing,),
        timeout=50,
    )
    os.close(writing)
    assert (done.returncode, os.read(reading, 100)) == (0, b"through a descriptor"), done.stderr
    os.close(reading)


def test_row_12_a_page_about_a_thread_goes_through_no_link_of_the_agents(
    spindle: Spindle, server: FakeServer, precious: Path
) -> None:
    server.script(turn(message("EVIL <b>WORDS</b>")))
    assert spindle("exec", "hi").code == 0
    (spindle.workspace / "page.html").symlink_to(precious / "file")
    (spindle.workspace / "new.html").symlink_to(precious / "new")
    (spindle.workspace / "folder").symlink_to(precious)
    (spindle.workspace / "device.html").symlink_to("/dev/null")
    for name in ("page.html", "new.html", "device.html"):
        done = spindle("context", "--last", "--html", name)
        assert done.code == 0, done.err
        made = spindle.workspace / name
        assert "EVIL" in made.read_text() and not made.is_symlink() and made.stat().st_mode & 0o777 == 0o600
    done = spindle("context", "--last", "--html", "folder/page.html")
    assert done.code == 1 and "is a link, which the agent could have made" in done.err
    server.script(turn(message("fine")))


def test_row_12_a_page_about_a_run_and_its_predictions_go_through_no_link_of_the_agents(
    spindle: Spindle, precious: Path, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", usual_records(2))
    (spindle.workspace / "folder").symlink_to(precious)
    (spindle.workspace / "made").symlink_to(precious / "file")
    for words in (("report", str(run)), ("export", str(run), "--format", "swebench")):
        done = spindle("fleet", *words, "-o", "folder/new")
        assert (
            done.code != 0 and "is a link, which the agent could have made" in done.err and "Traceback" not in done.err
        )
        done = spindle("fleet", *words, "-o", "made")
        assert done.code == 0 and not (spindle.workspace / "made").is_symlink(), done.err
        (spindle.workspace / "made").unlink()
        (spindle.workspace / "made").symlink_to(precious / "file")


FOLDERS = {
    "the folder": ("ln -s {precious} out", "out"),
    "a folder on the way": ("ln -s {precious} way", "way/out"),
    "back and forth": ("mkdir real; ln -s {precious} real/way", "real/way/../precious/out"),
    "a chain": ("ln -s {precious} one; ln -s one two", "two"),
    "nothing yet": ("ln -s {precious}/new out", "out"),
}
COMMANDS = {
    "schemas": ("app-server", "generate-json-schema", "--out", "{out}"),
    "types": ("app-server", "generate-ts", "-o", "{out}"),
    "fleet": ("fleet", "run", "tasks.jsonl", "--out", "{out}"),
    "token of the app server": ("app-server", "--listen", "ws://127.0.0.1:0", "--token-file", "{out}/token"),
    "token of proto": ("proto", "--listen", "tcp://127.0.0.1:0", "--token-file", "{out}/token"),
}


@pytest.mark.parametrize("way", sorted(FOLDERS))
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_row_12_no_command_writes_into_a_folder_by_a_link_of_the_agents(
    spindle: Spindle, precious: Path, command: str, way: str
) -> None:
    (spindle.workspace / "tasks.jsonl").write_text('{"id": "a", "prompt": "hi"}\n')
    script, out = FOLDERS[way]
    subprocess.run(["sh", "-c", script.format(precious=precious)], cwd=spindle.workspace, check=True)
    done = spindle(*(word.format(out=out) for word in COMMANDS[command]), timeout=20)
    assert done.code not in (0, None) and "is a link, which the agent could have made" in done.err, done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("kind", ["links", "other names"])
@pytest.mark.parametrize("command", ["schemas", "types", "fleet"])
def test_row_12_what_lies_in_such_a_folder_is_not_written_through(
    spindle: Spindle, server: FakeServer, precious: Path, command: str, kind: str
) -> None:
    (spindle.workspace / "tasks.jsonl").write_text('{"id": "a", "prompt": "hi"}\n')
    server.script(turn(message("fine")))
    out = spindle.workspace / "out"
    out.mkdir()
    for name in ("index.ts", f"{FACTS}.new", f"{TASKS}.new", "InitializeParams.json", BUNDLE):
        if kind == "links":
            (out / name).symlink_to(precious / "file")
        else:
            os.link(precious / "file", out / name)
    done = spindle(*(word.format(out="out") for word in COMMANDS[command]), timeout=50)
    is_refused = kind == "links" and command != "fleet"
    assert done.code == int(is_refused) and ("is a link" in done.err) is is_refused, done.err


def test_row_12_a_pipe_among_the_schemas_is_not_waited_for(spindle: Spindle) -> None:
    (spindle.workspace / "out").mkdir()
    os.mkfifo(spindle.workspace / "out/index.ts")
    done = spindle("app-server", "generate-ts", "-o", "out", timeout=20)
    assert done.code == 1 and "it is not an ordinary file, and the agent could have made it" in done.err


def test_row_12_links_of_the_person_lead_such_commands_as_ever(spindle: Spindle, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for words in (("generate-ts", "-o", f"{tmp_path}/link/new"), ("generate-json-schema", "--out", "inside/deep")):
        done = spindle("app-server", *words)
        assert done.code == 0, done.err
    assert (tmp_path / "real/new/index.ts").exists() and list((spindle.workspace / "inside/deep").iterdir())


# ---- the file itself ---------------------------------------------------------------------------------


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def reach(work: Path) -> Reach:
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
    return Reach(boundary_of(policy, cwd=str(work), env={}, home=""), env={})


def test_row_12_what_is_put_there_after_the_naming_is_replaced_or_refused(
    work: Path, precious: Path, reach: Reach
) -> None:
    folder = work / "out"
    folder.mkdir()
    output = OutputFile(f"{folder}/file", reach=reach)
    folder.rename(work / "moved")
    folder.symlink_to(precious)
    (work / "moved/file").symlink_to(precious / "file")
    output.write(b"words")
    output.close()
    assert (work / "moved/file").read_bytes() == b"words" and not (work / "moved/file").is_symlink()
    assert sorted(os.listdir(work / "moved")) == ["file"]


def test_row_12_a_hard_link_to_a_file_outside_is_broken_and_not_written_through(
    work: Path, precious: Path, reach: Reach
) -> None:
    os.link(precious / "file", work / "twin")
    output = OutputFile(f"{work}/twin", reach=reach)
    output.write(b"words")
    output.close()
    assert (work / "twin").read_bytes() == b"words"


def test_row_12_a_pipe_of_the_agents_is_refused_and_not_waited_for(work: Path, reach: Reach) -> None:
    os.mkfifo(work / "pipe")
    with pytest.raises(OSError, match="not an ordinary file, and the agent could have made it"):
        OutputFile(f"{work}/pipe", reach=reach)
    output = OutputFile(f"{work}/file", reach=reach)
    os.mkfifo(work / "file")
    with pytest.raises(OSError):
        output.write(b"words")
    output.close()
