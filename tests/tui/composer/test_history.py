"""The history: its file, Up and Down, Ctrl-R and Ctrl-S."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import NamedTuple

import pytest

from spindle.frontends.tui.composer import past_messages
from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.composer.past_messages import PastMessages
from spindle.protocol.clock import FixedClock
from spindle.thread.private_files import wait_for_lock
from tui.composer.hosts import Host
from tui.composer.writing import marked, press, rows, write


def entry(text: str, session: str = "other") -> str:
    return json.dumps({"session_id": session, "ts": 1, "text": text}) + "\n"


def composer_in(home: Path, host: Host | None = None, **options: object) -> Composer:
    composer = Composer()
    composer.furnish(host, past=PastMessages(str(home), FixedClock(), **options))  # type: ignore[arg-type]
    return composer


# ---- the file ---------------------------------------------------------------------------------


def test_a_message_is_a_line_in_codex_format_that_only_its_owner_reads(tmp_path: Path):
    (tmp_path / "history.jsonl").write_text(entry("old"))
    (tmp_path / "history.jsonl").chmod(0o644)
    PastMessages(str(tmp_path), FixedClock(100.5)).add("new\nmessage", "the-session")
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert json.loads(lines[1]) == {"session_id": "the-session", "ts": 100, "text": "new\nmessage"}
    assert (tmp_path / "history.jsonl").stat().st_mode & 0o777 == 0o600


async def test_a_message_that_is_taken_is_written_and_a_command_is_not(tmp_path: Path):
    host = Host()
    composer = composer_in(tmp_path, host)
    composer.session_id = "abc"
    write(composer, "hello")
    composer.take()
    write(composer, "/model")
    composer.take(is_message=False)
    await host.done()
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert [(line["session_id"], line["text"]) for line in lines] == [("abc", "hello")]
    press(composer, "up")
    assert composer.text == "/model"


async def test_nothing_is_written_or_read_when_history_is_off(tmp_path: Path):
    (tmp_path / "history.jsonl").write_text(entry("old"))
    host = Host()
    composer = composer_in(tmp_path, host, is_kept=False)
    write(composer, "hello")
    composer.take()
    await host.done()
    assert (tmp_path / "history.jsonl").read_text() == entry("old")
    press(composer, "up")
    assert composer.text == "hello"
    press(composer, "up")
    assert composer.text == "hello"


async def test_a_history_that_cannot_be_written_is_told_once_and_loses_nothing(tmp_path: Path):
    (tmp_path / "history.jsonl").mkdir()
    host = Host()
    composer = composer_in(tmp_path, host)
    write(composer, "hello")
    assert composer.take().text == "hello"
    await host.done()
    assert len(host.warnings) == 1 and "history.jsonl" in host.warnings[0]


def test_the_oldest_lines_go_when_the_file_is_too_large(tmp_path: Path):
    history = PastMessages(str(tmp_path), FixedClock(), max_bytes=400)
    for number in range(20):
        history.add(f"message {number}", "s")
    path = tmp_path / "history.jsonl"
    texts = [json.loads(line)["text"] for line in path.read_text().splitlines()]
    assert path.stat().st_size <= 400 and texts[-1] == "message 19" and len(texts) >= 3
    assert texts == [f"message {number}" for number in range(20 - len(texts), 20)]
    history.add("x" * 1000, "s")
    assert [json.loads(line)["text"] for line in path.read_text().splitlines()] == ["x" * 1000]


def test_a_torn_last_line_swallows_nothing(tmp_path: Path):
    (tmp_path / "history.jsonl").write_text(entry("one") + '{"text": "cut o')
    PastMessages(str(tmp_path), FixedClock()).add("two", "s")
    history = PastMessages(str(tmp_path), FixedClock())
    assert [history.entry(0), history.entry(1), history.entry(2)] == ["two", "one", None]


def test_the_file_is_written_under_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "history.jsonl"

    def other_writer_is_done(fd: int) -> None:
        wait_for_lock(fd)
        with pytest.raises(BlockingIOError), path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.write_text(entry("first"))

    monkeypatch.setattr(past_messages, "wait_for_lock", other_writer_is_done)
    PastMessages(str(tmp_path), FixedClock()).add("late", "s")
    assert [json.loads(line)["text"] for line in path.read_text().splitlines()] == ["first", "late"]


def test_lines_that_cannot_be_read_are_skipped(tmp_path: Path):
    bad = ["not json", "[]", '{"text": 5}', '{"session_id": "x"}', '{"text": ""}', "[" * 5000, "\x00"]
    text = (
        entry("first") + "\n".join(bad) + "\n" + entry("日本 " + "x" * 100_000) + '{"text": "\xff"}\n' + entry("last")
    )
    (tmp_path / "history.jsonl").write_bytes(text.encode("utf-8", "surrogateescape").replace("ÿ".encode(), b"\xff"))
    history = PastMessages(str(tmp_path), FixedClock())
    assert history.entry(0) == "last"
    assert history.entry(1) == "日本 " + "x" * 100_000
    assert (history.entry(2), history.entry(3)) == ("first", None)


def test_a_line_without_end_is_passed_over(tmp_path: Path):
    (tmp_path / "history.jsonl").write_bytes(
        entry("first").encode() + b'{"text": "' + b"x" * (5 << 20) + b'"}\n' + entry("last").encode()
    )
    history = PastMessages(str(tmp_path), FixedClock())
    assert [history.entry(0), history.entry(1), history.entry(2)] == ["last", "first", None]


def test_of_a_large_file_only_the_end_is_read(tmp_path: Path):
    path = tmp_path / "history.jsonl"
    with path.open("wb") as file:
        file.write(entry("far away").encode())
        file.truncate(100 << 20)
        file.seek(0, 2)
        file.write(("\n" + entry("near") + entry("last")).encode())
    history = PastMessages(str(tmp_path), FixedClock())
    assert history._source is None
    assert (history.entry(0), history.entry(1), history.entry(2)) == ("last", "near", None)


def test_what_others_add_later_does_not_move_the_way_back(tmp_path: Path):
    path = tmp_path / "history.jsonl"
    path.write_text(entry("one") + entry("two"))
    composer = composer_in(tmp_path)
    with path.open("a") as file:
        file.write(entry("three"))
    press(composer, "up", "up")
    assert composer.text == "one"


# ---- up and down ------------------------------------------------------------------------------


def test_up_brings_earlier_messages_and_down_the_draft_again(tmp_path: Path):
    (tmp_path / "history.jsonl").write_text(entry("one") + entry("two") + entry("two"))
    composer = composer_in(tmp_path)
    write(composer, "draft")
    seen: list[str] = []
    for key in ("up", "up", "up", "down", "down", "down"):
        press(composer, key)
        seen.append(composer.text)
    assert seen == ["two", "one", "one", "two", "draft", "draft"]


def test_ctrl_p_and_ctrl_n_do_the_same(tmp_path: Path):
    (tmp_path / "history.jsonl").write_text(entry("one"))
    composer = composer_in(tmp_path)
    press(composer, "ctrl-p")
    assert composer.text == "one"
    press(composer, "ctrl-n")
    assert composer.text == ""


def test_a_message_of_several_lines_comes_whole_and_the_way_goes_on_behind_it(tmp_path: Path):
    (tmp_path / "history.jsonl").write_text(entry("older") + entry("a\nb\nc"))
    composer = composer_in(tmp_path)
    press(composer, "up")
    assert marked(composer) == "a\nb\nc|"
    press(composer, "up")
    assert composer.text == "older"
    press(composer, "down", "left", "up")
    assert marked(composer) == "a\n|b\nc"


def test_an_entry_that_was_changed_is_the_draft(tmp_path: Path):
    (tmp_path / "history.jsonl").write_text(entry("one") + entry("two"))
    composer = composer_in(tmp_path)
    press(composer, "up")
    write(composer, "!")
    press(composer, "up")
    assert composer.text == "two"
    press(composer, "down")
    assert composer.text == "two!"


def test_up_within_a_draft_moves_first():
    composer = Composer()
    write(composer, "old")
    composer.take()
    composer.set_text("a\nb")
    press(composer, "up")
    assert marked(composer) == "a|\nb"
    press(composer, "up")
    assert composer.text == "old"


def test_a_message_that_is_too_long_to_edit_comes_folded(tmp_path: Path):
    text = "x" * 300_000
    (tmp_path / "history.jsonl").write_text(entry(text))
    composer = composer_in(tmp_path)
    press(composer, "up")
    assert rows(composer) == ["› [Pasted #1: 300,000 characters]"]
    assert composer.take().text == text


def test_ctrl_c_puts_the_draft_into_the_history():
    composer = Composer()
    write(composer, "half a thought ")
    composer.paste("p\n" * 30)
    assert press(composer, "ctrl-c") and composer.is_empty
    assert not press(composer, "ctrl-c") and composer.wanted == "cancel"
    press(composer, "up")
    assert rows(composer) == ["› half a thought [Pasted #1: 30 lines]"]
    assert composer.take().text == "half a thought " + "p\n" * 30


def test_a_recalled_command_opens_no_list(tmp_path: Path):
    (tmp_path / "history.jsonl").write_text(entry("one") + entry("/model") + entry("@file"))
    composer = Composer()
    composer.furnish(past=PastMessages(str(tmp_path), FixedClock()), commands=lambda: [Listed()])
    press(composer, "up", "up", "up")
    assert composer.text == "one"


class Listed(NamedTuple):
    name: str = "model"
    aliases: tuple[str, ...] = ()
    summary: str = "choose"


# ---- searching --------------------------------------------------------------------------------


@pytest.fixture
def searched(tmp_path: Path) -> Composer:
    texts = ["fix the parser", "run tests", "fix the Lexer", "explain this"]
    (tmp_path / "history.jsonl").write_text("".join(map(entry, texts)))
    composer = composer_in(tmp_path)
    write(composer, "draft")
    return composer


def test_ctrl_r_shows_what_fits_while_typing(searched: Composer):
    press(searched, "ctrl-r")
    assert rows(searched) == ["› draft", "  search: "] and searched.is_busy
    write(searched, "fix")
    assert rows(searched) == ["› fix the Lexer", "  search: fix"]
    assert searched.cursor() == (1, 13)
    press(searched, "ctrl-r")
    assert rows(searched)[0] == "› fix the parser"
    press(searched, "ctrl-r")
    assert rows(searched)[0] == "› fix the parser"
    press(searched, "ctrl-s")
    assert rows(searched)[0] == "› fix the Lexer"
    assert press(searched, "enter")
    assert searched.text == "fix the Lexer" and not searched.is_busy
    assert not press(searched, "enter") and searched.wanted == "submit"


@pytest.mark.parametrize("key", ["esc", "ctrl-c", "ctrl-g"])
def test_giving_up_a_search_brings_the_draft_back(searched: Composer, key: str):
    press(searched, "ctrl-r")
    write(searched, "lexer")
    assert rows(searched)[0] == "› fix the Lexer"
    assert press(searched, key)
    assert rows(searched) == ["› draft"] and searched.text == "draft"


def test_what_is_not_there_is_said(searched: Composer):
    press(searched, "ctrl-r")
    write(searched, "zzz")
    assert rows(searched) == ["› draft", "  search: zzz (nothing found)"]
    press(searched, "backspace", "backspace", "backspace")
    write(searched, "run")
    assert rows(searched) == ["› run tests", "  search: run"]


def test_a_key_that_edits_takes_what_was_found(searched: Composer):
    press(searched, "ctrl-r")
    write(searched, "run")
    press(searched, "ctrl-a")
    write(searched, "x")
    assert searched.text == "xrun tests"


async def test_a_long_history_is_searched_in_slices(tmp_path: Path):
    lines = [entry("needle")] + [entry(f"message {number}") for number in range(3000)]
    (tmp_path / "history.jsonl").write_text("".join(lines))
    host = Host()
    composer = composer_in(tmp_path, host)
    press(composer, "ctrl-r")
    composer.paste("needle")
    assert rows(composer) == ["› Ask for anything, / for commands, @ for files", "  search: needle (looking …)"]
    await host.done()
    assert rows(composer) == ["› needle", "  search: needle"]
