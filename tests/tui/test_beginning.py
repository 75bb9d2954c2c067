"""The way in: keys before the composer is there, what is asked first, and lines that cannot be used."""

from __future__ import annotations

import base64
import signal
import tomllib
from pathlib import Path
from typing import Any

from fake_server import FakeServer, message, turn
from tui.terminals import OpenTui, Tui

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def said(server: FakeServer) -> list[str]:
    """What the person said last, per request."""
    return [request.json["input"][-1]["content"][-1]["text"] for request in server.turns_asked]


def told(server: FakeServer) -> str:
    """Everything the model was told with the last request, beside the person's words."""
    return "\n".join(
        part.get("text", "") for item in server.turns_asked[-1].json["input"] for part in item.get("content", [])
    )


def asked(t: Tui, server: FakeServer, count: int) -> None:
    t.until(lambda: len(server.turns_asked) >= count, f"request {count}")


def test_keys_typed_before_the_first_paint_are_not_lost_enter_and_shift_tab_included(
    tui: OpenTui, server: FakeServer
) -> None:
    server.script(turn(message("planned")), turn(message("second answer")))
    t = tui()
    t.send("\x1b[Z" + "early words\n" + "a draft")  # the terminal is in its own mode still: Enter is a line feed
    asked(t, server, 1)
    t.wait_for("planned").wait_for("Plan mode", where="screen").wait_for("a draft", where="screen")
    assert said(server) == ["early words"] and "lan mode" in told(server)
    t.key("enter")
    asked(t, server, 2)
    assert said(server)[1] == "a draft"


def test_a_command_entered_before_the_session_is_open_waits_for_it(tui: OpenTui, server: FakeServer) -> None:
    t = tui()
    t.send("/status\n" + "!echo by-hand\n").wait_for("sandbox in force:").wait_for("You ran echo by-hand")
    assert "still being opened" not in t.flat and not server.turns_asked


def test_a_prompt_is_sent_exactly_as_given_even_one_that_looks_like_a_command(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(message("fine")))
    t = tui("  /status  of 'this'  ")
    asked(t, server, 1)
    assert said(server) == ["  /status  of 'this'  "]


def test_an_image_alone_is_a_message(tui: OpenTui, server: FakeServer, workspace: Path) -> None:
    (workspace / "pic.png").write_bytes(PICTURE)
    asked(tui("-i", "pic.png"), server, 1)
    parts = server.turns_asked[0].json["input"][-1]["content"]
    assert [part["type"] for part in parts].count("input_image") == 1
    assert all(part["text"] for part in parts if part["type"] == "input_text")


def test_a_single_word_is_a_prompt_for_a_person(tui: OpenTui, server: FakeServer) -> None:
    server.script(turn(message("fine")))
    asked(tui("hello"), server, 1)
    assert said(server) == ["hello"]


def test_what_cannot_begin_is_one_sentence_and_leaves_the_terminal_as_it_was(tui: OpenTui, home: Path) -> None:
    unknown = "019a8c2e-0000-7000-8000-000000000000"
    t = tui("resume", unknown)
    assert t.wait_exit() == 1 and unknown in t.flat and "Traceback" not in t.flat
    t.assert_sane()
    (home / "config.toml").write_text("model = [")
    t = tui()
    # A long path is broken at the edge of the window.
    assert t.wait_exit() == 1 and "config.toml" in t.flat.replace(" ", "") and "Traceback" not in t.flat
    t.assert_sane()


def trust_of(home: Path, folder: Path) -> Any:
    config = tomllib.loads((home / "config.toml").read_text())
    return config["projects"].get(str(folder), {}).get("trust_level")


def test_an_unknown_folder_is_asked_about_before_there_is_a_composer(tui: OpenTui, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "unknown folder"
    folder.mkdir()
    t = tui(cwd=folder)
    t.wait_for(str(folder), where="screen").wait_for("trust", where="screen")
    assert b"Ask for anything" not in t.raw
    t.key("esc")
    assert t.wait_exit() == 0 and trust_of(home, folder) is None
    t.assert_sane()
    t = tui(cwd=folder)
    t.wait_for(str(folder), where="screen").idle(0.5).key("enter").ready()
    assert trust_of(home, folder) == "untrusted"
    t.key("ctrl-d")
    assert t.wait_exit() == 0
    tui(cwd=folder).ready()  # and now nothing is asked


def stopped_while_it_loads(tui: OpenTui, cwd: Path) -> Tui:
    """A program that stands still between its first paint and its first question."""
    for _ in range(20):
        t = tui(cwd=cwd)
        t.until(lambda t=t: t.raw, "the first paint")
        t.process.send_signal(signal.SIGSTOP)
        if "Do you trust" not in t.screen:
            return t
        t.process.kill()
    raise AssertionError("this machine is too slow to stop a program while it loads")


def test_what_is_typed_while_the_program_loads_answers_no_question_and_is_sent_later(
    tui: OpenTui, server: FakeServer, home: Path, tmp_path: Path
) -> None:
    config = home / "config.toml"
    config.write_text("disable_paste_burst = true\n" + config.read_text())  # we type faster than a person
    folder = tmp_path / "unknown folder"
    folder.mkdir()
    server.script(turn(message("fine answer")))
    t = stopped_while_it_loads(tui, folder)
    t.type("1 of 3 things").key("enter")
    t.process.send_signal(signal.SIGCONT)
    t.wait_for("Do you trust", where="screen").wait_for("› 1 of 3 things", where="screen").idle(0.5)
    assert t.process.poll() is None and trust_of(home, folder) is None and not server.turns_asked
    t.key("2").wait_for("fine answer")
    assert said(server) == ["1 of 3 things"] and trust_of(home, folder) == "untrusted"


def test_what_is_typed_before_the_list_of_threads_is_there_searches_in_it(tui: OpenTui, server: FakeServer) -> None:
    for words in ("apple question", "berry question"):
        t = tui(words).wait_for("done").idle()
        t.key("ctrl-d")
        assert t.wait_exit() == 0
    t = tui("resume")
    t.until(lambda: t.raw, "the first paint")
    t.type("apple").key("enter").wait_for("› apple question").wait_for("Ask for anything", where="screen").idle()
    assert "berry question" not in t.screen and len(server.turns_asked) == 2


def test_without_credentials_there_is_a_choice_and_nothing_is_sent(
    tui: OpenTui, home: Path, server: FakeServer
) -> None:
    config = (home / "config.toml").read_text()
    lines = [line for line in config.splitlines() if not line.startswith("model_provider =")]
    (home / "config.toml").write_text("\n".join(['model_provider = "openai"', *lines]))
    t = tui(env={"OPENAI_API_KEY": ""})
    t.wait_for("API key", where="screen")
    assert b"Ask for anything" not in t.raw and server.requests == []
    t.key("ctrl-c")
    assert t.wait_exit() == 0
    t.assert_sane()
