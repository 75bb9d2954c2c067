"""Which text is a command, whether it may run now, and what becomes of one that is not known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spindle.frontends.tui.commands import running, table
from spindle.frontends.tui.status_line import ITEM_WORDS
from tui.fake_desk import FakeDesk

PAGE = {
    "must": """model permissions approvals status diff new clear resume fork compact plan review init mention mcp skills
        copy rename ps stop quit exit help login logout context undo rewind agents subagents memories memory hooks
        personality theme keymap keys export pin demo""",
    "should": """goal config statusline title vim side btw raw cd pwd warnings recap archive delete cost usage
        doctor""",
}
IN_TURN = """model permissions approvals status diff resume mention mcp skills copy rename ps stop quit exit help
    context agents hooks pin goal statusline title side btw raw pwd warnings recap cost"""
IDLE_ONLY = "new clear fork compact plan review init login logout undo rewind personality theme keymap export demo"


@pytest.mark.parametrize("name", [name for names in PAGE.values() for name in names.split()])
def test_every_command_people_know_is_there_and_can_be_loaded(name: str) -> None:
    command = table.find(name)
    assert command is not None and command.summary
    assert callable(running.handler_of(command))


def test_the_list_begins_with_model_and_has_each_name_once() -> None:
    names = [name for command in table.COMMANDS for name in (command.name, *command.aliases)]
    assert names[0] == "model" and len(names) == len(set(names))
    assert all(running.handler_of(command) for command in table.COMMANDS)


def test_what_may_be_used_while_a_turn_runs() -> None:
    said = {name: running.problem_with(f"/{name}", is_working=True) for name in (IN_TURN + " " + IDLE_ONLY).split()}
    assert {name for name, problem in said.items() if problem is None} == set(IN_TURN.split())
    assert said["new"] == "/new cannot be used while a turn runs; Esc interrupts it"


@pytest.mark.parametrize(
    ("text", "entered"),
    [
        ("/compact keep the API", ("compact", "keep the API")),
        ("/plan  two\nlines ", ("plan", "two\nlines")),
        ("/Status", ("Status", "")),
        ("/status ", ("status", "")),
        ("/status is broken", None),
        ("/status\nand a second line", None),
        ("/nosuch thing", ("nosuch", "thing")),
        ("/usr/bin/env what is it?", None),
        ("/ blank", None),
        (" /status", None),
        ("say /status", None),
        ("//comment", None),
        ("/x\x1b[31m", None),
    ],
)
def test_which_texts_are_commands(text: str, entered: tuple[str, str] | None) -> None:
    assert running.read(text) == entered


async def test_an_unknown_command_is_named_and_nothing_is_sent(desk: FakeDesk) -> None:
    assert running.problem_with("/nosuchcommand", is_working=False) == (
        "unknown command /nosuchcommand; /help lists those there are"
    )
    await running.run(desk, "/modle")
    assert desk.failed == ["unknown command /modle; did you mean /model?"]
    assert desk.sent == [] and desk.submitted == []


async def test_an_error_of_a_command_is_told_and_the_session_lives(desk: FakeDesk) -> None:
    await running.run(desk, "/personality rude")
    assert desk.failed == ["unknown personality 'rude'; use one of friendly, pragmatic, none"]


def test_the_table_is_light() -> None:
    source = (Path(table.__file__)).read_text()
    assert re.findall(r"^from (\S+) import", source, re.M) == ["__future__", "typing"]


def test_the_page_has_every_command_and_every_item_of_the_status_line() -> None:
    page = (Path(__file__).parents[3] / "docs" / "tui.md").read_text()
    cells = "\n".join(row.split(" | ")[0] for row in page.splitlines() if row.startswith("| `"))
    assert set(re.findall(r"`/(\w+)", cells)) == set(table.names())
    assert set(re.findall(r"^\| `([a-z-]+)`", page, re.M)) == set(ITEM_WORDS)
    allowed = {
        row.split("`")[1].split()[0][1:] for row in page.splitlines() if row.startswith("| `/") and " | yes | " in row
    }
    assert allowed == {command.name for command in table.COMMANDS if command.is_allowed_in_turn}
