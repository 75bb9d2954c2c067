"""Which command a line means, and what is said when it means none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spindle.errors import UsageError
from spindle.frontends.cli import load
from spindle.frontends.command_line import check_words, read
from spindle.frontends.command_table import SPINDLE
from spindle.frontends.commands import COMMON, HELP, VERSION, Command, common_of, options_of, shown_options, walk
from spindle.frontends.help_pages import page, sentence

PATHS = [*walk(SPINDLE)]


def name_of(path: tuple[Command, ...]) -> str:
    return " ".join(step.name for step in path)


def understood(*arguments: str) -> tuple[tuple[str, ...], dict[str, Any], list[str]]:
    line = read(arguments)
    check_words(line)
    return line.parsed.command, line.parsed.values, line.parsed.words


@pytest.mark.parametrize(
    ("line", "command", "values", "words"),
    [
        (["exec", "hi"], ("exec",), {}, ["hi"]),
        (["e", "hi"], ("exec",), {}, ["hi"]),
        (["exec", "resume", "ID", "hi"], ("exec", "resume"), {}, ["ID", "hi"]),
        (
            ["-m", "x", "exec", "--json", "resume", "--last", "hi"],
            ("exec", "resume"),
            {"model", "json", "last"},
            ["hi"],
        ),
        (["exec", "--last", "resume", "hi"], ("exec", "resume"), {"last"}, ["hi"]),
        (["--json", "exec", "hi"], ("exec",), {"json"}, ["hi"]),
        (["-o", "out", "exec", "hi"], ("exec",), {"output_last_message"}, ["hi"]),
        (["exec", "--", "resume"], ("exec",), {}, ["resume"]),
        (["exec", "--", "--json"], ("exec",), {}, ["--json"]),
        (["threads"], ("threads", "list"), {}, []),
        (["-o", "x", "threads", "export", "ID"], ("threads", "export"), {"output"}, ["ID"]),
        (["threads", "--all"], ("threads", "list"), {"all"}, []),
        (["sandbox", "ls", "-C", "/", "--", "x"], ("sandbox",), {}, ["ls", "-C", "/", "--", "x"]),
        (["sandbox", "--full-auto", "--", "ls", "-l"], ("sandbox",), {"full_auto"}, ["ls", "-l"]),
        (["sandbox", "landlock", "-s", "read-only", "ls"], ("sandbox", "linux"), {"sandbox"}, ["ls"]),
        (["sandbox", "--", "linux"], ("sandbox",), {}, ["linux"]),
        (["mcp", "add", "x", "npx", "-y", "y"], ("mcp", "add"), {}, ["x", "npx", "-y", "y"]),
        (["mcp", "add", "x", "--env", "A=1", "--", "y", "--url"], ("mcp", "add"), {"env"}, ["x", "y", "--url"]),
        (["execpolicy", "check", "git", "--pretty"], ("execpolicy", "check"), {}, ["git", "--pretty"]),
        (["archive", "-m", "x", "ID"], ("archive",), {"model"}, ["ID"]),
        (["fix the bug"], (), {}, ["fix the bug"]),
        (["fix", "the", "bug"], (), {}, ["fix the bug"]),
        (["-s", "read-only", "fix it", "--plain"], (), {"sandbox", "plain"}, ["fix it"]),
        (["--", "exec"], (), {}, ["exec"]),
    ],
)
def test_a_line_is_understood(line: list[str], command: tuple[str, ...], values: set[str], words: list[str]) -> None:
    found = understood(*line)
    assert (found[0], set(found[1]), found[2]) == (command, set(values), words)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("exce x", "unknown command 'exce'; did you mean `spindle exec`?"),
        ("mpc list", "unknown command 'mpc'; did you mean `spindle mcp`?"),
        ("thread", "unknown command 'thread'; did you mean `spindle threads`?"),
        ("apply the patch", "Codex has a command 'apply', Spindle does not"),
        ("fix it --json", "--json is not an option of `spindle`"),
        ("frobnicate --hard", "unknown command 'frobnicate'"),
        ("exec --jsn x", "unexpected argument '--jsn'; did you mean `--json`?"),
        ("--modle x exec", "unexpected argument '--modle'; did you mean `--model`?"),
        ("threads --archive", "unexpected argument '--archive'; did you mean `--archived`?"),
        ("mcp lst", "`spindle mcp` has no subcommand 'lst'; did you mean `spindle mcp list`?"),
        ("help exec resum", "`spindle exec` has no subcommand 'resum'; did you mean `spindle exec resume`?"),
        ("exec help forc", "`spindle exec` has no subcommand 'forc'; did you mean `spindle exec fork`?"),
        ("exec -s reed-only x", "invalid value 'reed-only' for -s; did you mean `read-only`? One of read-only, "),
        ("exec --last x", "--last is not an option of `spindle exec`; it is an option of `spindle exec resume` and "),
        ("app-server generate-ts --listen x", "--listen is not an option of `spindle app-server generate-ts`"),
        ("archive", "`spindle archive` needs THREAD; usage: spindle archive THREAD"),
        ("archive a b", "unexpected argument 'b'; usage: spindle archive THREAD"),
        ("exec a b", "unexpected argument 'b'; put the prompt into quotes"),
        ("demo bogus", "unexpected argument 'bogus'; usage: spindle demo [OPTIONS]"),
        ("sandbox -m x ls", "unexpected argument '-m'; see `spindle sandbox --help`"),
        ("--json", "--json is not an option of `spindle`; it is an option of `spindle exec` and others"),
        ("--resume", "--resume is not an option of `spindle`; did you mean the command `spindle resume`?"),
        ("exec --fork x", "unexpected argument '--fork'; did you mean `spindle exec fork`?"),
    ],
)
def test_a_slip_is_named_with_what_was_probably_meant(line: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        words = line.split()
        if words[0] == "help":
            load("help_pages:run")(read(words).parsed, words[1:])
        understood(*words)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("line", "doubtful"),
    [(["frobnicate"], "frobnicate"), (["--", "frobnicate"], ""), (["a b"], ""), (["cap", "all", "retries"], "")],
)
def test_a_single_word_that_is_no_command_may_be_a_prompt_or_a_slip(line: list[str], doubtful: str) -> None:
    """In a terminal it is sent; elsewhere it is refused (tests/e2e/test_cli.py)."""
    assert read(line).doubtful == doubtful


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "my shot.JPG").write_bytes(b"\xff\xd8\xff\xe0")
    (tmp_path / "no-ending").write_bytes(b"GIF89a")
    (tmp_path / "notes").write_text("a text")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "images", "words"),
    [
        (["-i", "a.png", "prompt"], ["a.png"], ["prompt"]),
        (["-i", "a.png", "explain a.png"], ["a.png"], ["explain a.png"]),
        (["-i", "a.png", "my shot.JPG", "no-ending", "prompt"], ["a.png", "my shot.JPG", "no-ending"], ["prompt"]),
        (["-i", "a.png,no-ending", "b.png", "prompt"], ["a.png", "no-ending", "b.png"], ["prompt"]),
        (["-i", "a.png", "notes"], ["a.png"], ["notes"]),
        (["-i", "notes", "prompt"], ["notes"], ["prompt"]),
        (["-i", "a.png", "--", "a.png"], ["a.png"], ["a.png"]),
        (["-i", "a.png", "-"], ["a.png"], ["-"]),
        (["--image=a.png", "-i", "no-ending", "prompt"], ["a.png", "no-ending"], ["prompt"]),
    ],
)
@pytest.mark.parametrize("before", [True, False], ids=["before exec", "after exec"])
def test_a_list_of_pictures_ends_where_the_prompt_begins(
    pictures: Path, line: list[str], images: list[str], words: list[str], before: bool
) -> None:
    if before:
        cut = line.index(words[-1], 2) if "--" not in line else line.index("--")
        line = [*line[:cut], "exec", *line[cut:]]
    else:
        line = ["exec", *line]
    assert understood(*line) == (("exec",), {"image": images}, words)


def test_a_pipe_with_the_name_of_a_picture_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    assert understood("exec", "-i", "x.png", "pipe")[2] == ["pipe"]


@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_what_the_table_names_exists(path: tuple[Command, ...]) -> None:
    command = path[-1]
    assert command.run == "" or callable(load(command.run))
    assert command.run or command.commands
    assert command.default == "" or command.find(command.default) is not None
    assert {*command.common} <= {option.key for option in COMMON}
    names = [name for option in (*options_of(path), *COMMON, HELP, VERSION) for name in option.names]
    doubled = {name for name in names if names.count(name) > 1}
    assert doubled <= ({*HELP.names, *VERSION.names} if len(path) == 1 else set())


@pytest.mark.parametrize("width", [50, 80, 100])
@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_every_page_has_usage_and_options_and_fits(path: tuple[Command, ...], width: int) -> None:
    text = page(path, width)
    command = path[-1]
    assert f"Usage: {name_of(path)}" in text
    shown = [*shown_options(path), *common_of(path)]
    assert not any(name in text for option in options_of(path) if option.is_hidden for name in option.names)
    assert all(name in text for option in shown for name in option.names)
    assert all(word.strip("[].") in text for word, _ in command.words)
    assert all(below.name in text for below in command.shown)
    unbreakable = {line for line, _ in command.examples}
    wide = [line for line in text.splitlines() if len(line) > width and line.strip() not in unbreakable]
    assert wide == []
    assert width < 100 or all(len(line) <= 100 for line in text.splitlines())


def test_a_page_lists_its_own_options_first_and_no_common_one_without_effect() -> None:
    text = page(read(["exec", "resume"]).path)
    assert text.index("--last") < text.index("--json") < text.index("Common options:") < text.index("--model")
    assert "--no-alt-screen" not in text and "--ask-for-approval" not in text
    assert "--model" not in page(read(["archive"]).path)


def test_every_page_begins_with_a_sentence_that_ends_once() -> None:
    ends = [sentence(path[-1].summary)[-2:] for path in walk(SPINDLE)]
    assert [end for end in ends if (end[0] in ".?…") == (end[1] in ".?…")] == []
