"""The lists that open while typing: commands, files, skills."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.composer.files import FileSearch, Lister
from spindle.frontends.tui.composer.fuzzy import rank_path
from spindle.protocol.clock import FixedClock
from tui.composer.hosts import Host
from tui.composer.writing import press, rows, write


class Listed(NamedTuple):
    name: str
    summary: str = ""
    aliases: Sequence[str] = ()
    description: str = ""


COMMANDS = (
    Listed("model", "choose the model"),
    Listed("permissions", "what may be done", ("approvals",)),
    Listed("status", "how things stand"),
    *(Listed(f"more{number}", "one of many") for number in range(20)),
    Listed("compact", "make it shorter"),
)
SKILLS = (Listed("review-code", description="Look at\nit \x1b[31m closely"), Listed("write-tests"))


def composer_with_lists() -> Composer:
    composer = Composer()
    composer.furnish(commands=lambda: COMMANDS, skills=lambda: SKILLS)
    return composer


# ---- commands ---------------------------------------------------------------------------------


def test_a_slash_opens_the_list_of_commands_in_the_order_of_the_table():
    composer = composer_with_lists()
    write(composer, "/")
    shown = rows(composer)
    assert shown[:4] == [
        "› /",
        "› /model        choose the model",
        "  /permissions  what may be done (also /approvals)",
        "  /status       how things stand",
    ]
    assert len(shown) == 9 and composer.is_busy


def test_typing_narrows_the_list_and_names_come_before_what_merely_contains_the_letters():
    composer = composer_with_lists()
    write(composer, "/mo")
    assert rows(composer)[1:4] == ["› /model  choose the model", "  /more0  one of many", "  /more1  one of many"]
    press(composer, "backspace", "backspace")
    write(composer, "cpt")
    assert rows(composer)[1:] == ["› /compact  make it shorter"]
    press(composer, *["backspace"] * 3)
    write(composer, "appro")
    assert rows(composer)[1:] == ["› /permissions  what may be done (also /approvals)"]


def test_enter_runs_the_chosen_command_and_tab_completes_it():
    composer = composer_with_lists()
    write(composer, "/sta")
    assert not press(composer, "enter") and composer.wanted == "submit"
    assert composer.take().text == "/status"
    write(composer, "/comp")
    assert press(composer, "tab")
    assert composer.text == "/compact " and not composer.is_busy
    write(composer, "keep the API")
    assert not press(composer, "enter") and composer.text == "/compact keep the API"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [(["down"], "/permissions"), (["ctrl-n", "down", "ctrl-p"], "/permissions"), (["up"], "/compact")],
)
def test_the_list_is_walked_with_arrows_and_letters(keys: list[str], expected: str):
    composer = composer_with_lists()
    write(composer, "/")
    assert press(composer, *keys)
    press(composer, "tab")
    assert composer.text == f"{expected} "


def test_the_list_scrolls_with_the_choice():
    composer = composer_with_lists()
    write(composer, "/")
    press(composer, *["down"] * 10)
    shown = rows(composer)
    assert len(shown) == 9 and shown[8].startswith("› /more7")


def test_esc_closes_the_list_until_the_word_is_another():
    composer = composer_with_lists()
    write(composer, "/mo")
    assert press(composer, "esc") and rows(composer) == ["› /mo"]
    assert not press(composer, "esc") and composer.wanted == "interrupt_turn"
    press(composer, "left", "right")
    assert rows(composer) == ["› /mo"]
    write(composer, "d")
    assert rows(composer)[1:] == ["› /model  choose the model"]


@pytest.mark.parametrize("text", ["/usr/bin/env what is it?", "no /command", "a\n/model", "/zzz"])
def test_what_is_no_command_opens_no_list(text: str):
    composer = composer_with_lists()
    for char in text:
        if char == "\n":
            press(composer, "ctrl-j")
        else:
            write(composer, char)
    assert not composer.is_busy
    assert not press(composer, "enter") and composer.wanted == "submit" and composer.text == text


def test_a_cursor_in_a_path_opens_no_list():
    composer = composer_with_lists()
    composer.set_text("/mo/de")
    press(composer, "home", "right", "right", "right")
    assert not composer.is_busy


def test_in_a_low_window_the_list_is_shorter():
    composer = composer_with_lists()
    write(composer, "/")
    assert len(rows(composer, height=6)) == 4
    assert len(rows(composer, height=3)) == 1


# ---- skills -----------------------------------------------------------------------------------


def test_a_dollar_opens_the_list_of_skills():
    composer = composer_with_lists()
    write(composer, "use $")
    assert rows(composer)[1:] == ["› $review-code  Look at it ⟨U+001B⟩[31m closely", "  $write-tests"]
    write(composer, "wt")
    press(composer, "tab")
    assert composer.text == "use $write-tests "


@pytest.mark.parametrize("text", ["costs 5$", "$(ls", "a$b"])
def test_a_dollar_elsewhere_is_a_dollar(text: str):
    composer = composer_with_lists()
    write(composer, text)
    assert not composer.is_busy


# ---- files ------------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q")
    (root / ".gitignore").write_text("*.log\nbuild/\n")
    for name in ("src/main.py", "src/mainframe/x.py", "docs/two words.md", "README.md", "noise.log", "build/main.o"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    git(root, "add", "README.md")
    return root


async def find(composer: Composer, host: Host) -> list[str]:
    """The list of files once the search is through."""
    while True:
        await host.redrawn.wait()
        host.redrawn.clear()
        shown = rows(composer)[1:]
        if shown != ["  looking for files …"]:
            return shown


def composer_in(folder: Path, host: Host) -> Composer:
    composer = Composer()
    composer.furnish(host, files=lambda found: FileSearch(str(folder), FixedClock(), found))
    return composer


async def test_an_at_lists_the_files_that_are_not_ignored(folder: Path):
    host = Host()
    composer = composer_in(folder, host)
    write(composer, "see @")
    assert rows(composer)[1:] == ["  looking for files …"]
    assert sorted(line[2:] for line in await find(composer, host)) == [
        ".gitignore",
        "README.md",
        "docs/two words.md",
        "src/main.py",
        "src/mainframe/x.py",
    ]


async def test_names_of_files_count_more_than_those_of_folders(folder: Path):
    host = Host()
    composer = composer_in(folder, host)
    write(composer, "@main")
    assert await find(composer, host) == ["› src/main.py", "  src/mainframe/x.py"]
    press(composer, "down")
    assert press(composer, "enter")
    assert composer.text == "src/mainframe/x.py " and not composer.is_busy


def test_the_order_of_files():
    names = [
        "x/a_util.py",
        "util/deep/x.py",
        "utilities.py",
        "util.py",
        "src/util.py",
        "u/t/i/l.py",
        "n/u_t_i_l.py",
        "other.py",
    ]
    ranks = [rank for name in names if (rank := rank_path(name, "util"))]
    assert [rank.name for rank in sorted(ranks)] == [
        "util.py",
        "src/util.py",
        "utilities.py",
        "x/a_util.py",
        "util/deep/x.py",
        "n/u_t_i_l.py",
        "u/t/i/l.py",
    ]
    exact = [rank_path(name, "util.py") for name in ("utilpy/util.py", "util.pyi", "a/b/c/d/util.py")]
    assert [rank.name for rank in sorted(rank for rank in exact if rank)] == [
        "utilpy/util.py",
        "a/b/c/d/util.py",
        "util.pyi",
    ]


async def test_letters_may_be_left_out(folder: Path):
    host = Host()
    composer = composer_in(folder, host)
    write(composer, "@srcmpy")
    assert (await find(composer, host))[0] == "› src/main.py"


async def test_a_path_with_blanks_is_put_in_quotes_and_the_rest_of_the_draft_stays(folder: Path):
    host = Host()
    composer = composer_in(folder, host)
    write(composer, "a  b")
    press(composer, "left", "left")
    write(composer, "@two")
    await find(composer, host)
    assert press(composer, "tab")
    assert composer.text == 'a "docs/two words.md" b'
    write(composer, "x")
    assert composer.text == 'a "docs/two words.md" xb'


async def test_what_no_longer_fits_cannot_be_chosen_while_the_search_goes_on(folder: Path):
    host = Host()
    composer = composer_in(folder, host)
    write(composer, "@main")
    await find(composer, host)
    write(composer, "f")
    assert rows(composer)[1:] == ["› src/mainframe/x.py"]
    write(composer, "zz")
    assert rows(composer)[1:] == ["  looking for files …"]
    assert press(composer, "tab") and composer.text == "@mainfzz"


async def test_an_address_is_no_file(folder: Path):
    composer = composer_in(folder, Host())
    write(composer, "me@example.org")
    assert not composer.is_busy


async def test_hostile_names_are_shown_escaped_and_hostile_settings_run_nothing(folder: Path, tmp_path: Path):
    marker = tmp_path / "was-run"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    for setting in ("core.fsmonitor", "core.pager", "core.sshCommand"):
        git(folder, "config", setting, str(program))
    git(folder, "config", "core.worktree", "/etc")
    (folder / "evil\x1b[2J\nname\u202e.txt").write_text("")
    (folder / os.fsdecode(b"not-text-\xff")).write_text("")
    host = Host()
    composer = composer_in(folder, host)
    write(composer, "@evil")
    assert await find(composer, host) == ["› evil⟨U+001B⟩[2J⟨U+000A⟩name⟨U+202E⟩.txt"]
    assert not marker.exists()
    names = Lister(str(folder)).names()
    assert "README.md" in names and not any("\udcff" in name or name.startswith("passwd") for name in names)


async def test_leaving_does_not_wait_for_a_listing_that_takes_long(folder: Path, monkeypatch: pytest.MonkeyPatch):
    tools = folder.parent / "tools"
    tools.mkdir()
    started = tools / "started"
    os.mkfifo(started)
    (tools / "git").write_text(f"#!/bin/sh\necho > {started}\nexec sleep 1000\n")
    (tools / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f".:{tools}:/usr/bin:/bin")
    host = Host()
    composer = composer_in(folder, host)
    write(composer, "@x")
    assert await asyncio.to_thread(started.read_text) == "\n"
    composer.close()
    await asyncio.get_running_loop().shutdown_default_executor()


async def test_outside_a_repository_ignore_files_count_too(tmp_path: Path):
    (tmp_path / ".ignore").write_text("secret\n")
    (tmp_path / "secret").write_text("")
    (tmp_path / "open.txt").write_text("")
    assert sorted(Lister(str(tmp_path)).names()) == [".ignore", "open.txt"]


async def test_a_search_among_many_files_lets_other_work_in_between(tmp_path: Path):
    found = asyncio.Event()
    search = FileSearch(str(tmp_path), FixedClock(), found.set)
    names = [f"folder{number % 100}/file{number}.py" for number in range(100_000)]
    search._files = (names, names)
    search._listed_at = FixedClock().monotonic()
    search.look("fl99999")
    turns = 0
    while not found.is_set():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 100
    search.look("fl9")
    search.look("file99999.py")
    found.clear()
    await found.wait()
    assert search._query == "file99999.py"


def test_the_other_lists_work_without_files():
    composer = composer_with_lists()
    write(composer, "@x")
    assert not composer.is_busy and composer.text == "@x"
