"""What small models get, and what keeps them from going round in circles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessions import Driver, Start, only, outputs, run, tags
from spindle.model.scripted import calls, says
from spindle.protocol.events import Error

UNKNOWN, KNOWN = "house-model-9", "gpt-5.2-codex"
WARNING = "You have made this very call"


def recorded(driver: Driver) -> dict[str, Any]:
    return outputs([entry.item for entry in driver.session.thread.history.entries])


async def test_the_third_equal_call_gets_a_warning_and_the_sixth_ends_the_turn(start: Start) -> None:
    driver = await start(model=UNKNOWN)
    msgs = await driver.turn("go", *(run("echo same", f"c{number}") for number in range(6)))
    given = recorded(driver)
    assert [WARNING in given[f"c{number}"] for number in range(6)] == [False, False, True, True, True, True]
    assert "3 times" in given["c2"] and "same" in given["c2"]
    assert len(driver.model.requests) == 6
    assert "exec_command 6 times" in only(msgs, Error).message
    again = await driver.turn("go on", run("echo same", "d"), says("done"))
    assert WARNING not in recorded(driver)["d"] and "error" not in tags(again)


async def test_other_results_other_calls_and_known_models_are_no_circle(start: Start) -> None:
    driver = await start(model=UNKNOWN)
    changing = [run("echo x >> f; wc -c < f", f"b{number}") for number in range(6)]
    await driver.turn("go", *changing, says("done"))
    assert WARNING not in str(driver.inputs)
    await driver.turn("go", *(run(f"true {number % 3}", f"c{number}") for number in range(6)), says("done"))
    assert WARNING not in str(driver.inputs)
    await driver.turn("go", *(run("echo same", f"d{number}") for number in range(6)), says("done"), model=KNOWN)
    assert WARNING not in str(driver.inputs) and len(driver.model.requests) == 21


async def test_a_call_that_fails_in_the_same_way_is_a_circle_too(start: Start) -> None:
    driver = await start(model=UNKNOWN)
    steps = [calls("apply_patch", {"input": "nonsense"}, f"c{number}") for number in range(6)]
    msgs = await driver.turn("go", *steps)
    given = recorded(driver)
    assert WARNING not in given["c1"] and WARNING in given["c2"]
    assert "apply_patch 6 times" in only(msgs, Error).message


@pytest.fixture
def small(tmp_path: Path) -> dict[str, Any]:
    """A catalogue with a small model in it, as configuration."""
    path = tmp_path / "catalog.json"
    row = {
        "slug": "pocket",
        "profile": "small",
        "visibility": "list",
        "truncation_policy": {"mode": "bytes", "limit": 9000},
    }
    path.write_text(json.dumps({"models": [row]}))
    return {"model_catalog_json": str(path)}


async def test_a_small_model_gets_short_instructions_few_tools_and_little_output(
    start: Start, small: dict[str, Any]
) -> None:
    driver = await start(model="pocket", config=small)
    await driver.turn("go", run("seq 1 9999"), says("done"))
    request = driver.model.requests[-1]
    assert [tool["name"] for tool in request.tools] == [
        "exec_command",
        "write_stdin",
        "apply_patch",
        "grep_files",
        "read_file",
    ]
    assert {tool["type"] for tool in request.tools} == {"function"}
    assert len(request.instructions) / 4 < 700
    assert len(outputs(driver.inputs[-1])["c1"]) < 7_000
