"""The model asks to reach more than its sandbox allows: what a person says holds for the turn, or for the session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessions import Driver, Start, of, outputs, run
from spindle.model.scripted import calls, says
from spindle.protocol.events import GrantAdded, TaskComplete
from spindle.protocol.ops import ResolveElicitation, RevokeGrant
from spindle.protocol.tool_servers import ElicitationRequest

ON = {"features": {"request_permissions_tool": True}}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


def wants(folder: Path, call_id: str = "p1") -> Any:
    asked = {"permissions": {"file_system": {"write": [str(folder)]}}, "reason": "to build"}
    return calls("request_permissions", asked, call_id)


def answers(driver: Driver) -> dict[str, Any]:
    return outputs(driver.inputs[-1])


async def go(driver: Driver, *answers: ResolveElicitation) -> list[ElicitationRequest]:
    """Run a turn and give each question the next answer; gives the questions."""
    driver.begin("go")
    asked: list[ElicitationRequest] = []
    while isinstance(msg := await driver.until(ElicitationRequest, TaskComplete), ElicitationRequest):
        driver.submit(answers[len(asked)])
        asked.append(msg)
    return asked


def say(decision: Any, **content: Any) -> ResolveElicitation:
    return ResolveElicitation(server_name="", request_id="p1", decision=decision, content=content or None)


@pytest.mark.parametrize(("decision", "later"), [("approved", False), ("approved_for_session", True)])
async def test_what_is_given_holds_for_the_turn_or_for_the_session(
    start: Start, outside: Path, decision: str, later: bool
) -> None:
    driver = await start(
        wants(outside), run(f"touch {outside}/now", "c1"), says("ok"), run(f"touch {outside}/later", "c2"), says("ok"),
        sandbox="read-only", approval="on-request", config=ON,
    )  # fmt: skip
    (asked,) = await go(driver, say(decision))
    assert str(outside) in asked.message and "to build" in asked.message
    assert json.loads(answers(driver)["p1"]) == {
        "permissions": {"network": None, "file_system": {"write": [str(outside)]}},
        "scope": "session" if later else "turn",
    }
    await go(driver)
    assert [(outside / name).exists() for name in ("now", "later")] == [True, later]


async def test_what_was_given_for_the_session_is_not_asked_about_again_and_can_be_taken_back(
    start: Start, outside: Path
) -> None:
    driver = await start(
        wants(outside), wants(outside, "p2"), says("ok"), run(f"touch {outside}/x", "c1"), says("ok"),
        sandbox="read-only", approval="on-request", config=ON,
    )  # fmt: skip
    assert len(await go(driver, say("approved_for_session"))) == 1
    (grant,) = of([event.msg for event in driver.events], GrantAdded)
    driver.submit(RevokeGrant(id=grant.grant["id"]))
    await go(driver)
    assert not (outside / "x").exists()


@pytest.mark.parametrize(
    ("approval", "answer", "reason"),
    [
        ("on-request", say({"denied": {"reason": "not there"}}), "not there"),
        ("on-request", say("approved", permissions={"network": {"enabled": True}}), "less"),
        ("never", None, "never"),
    ],
)
async def test_a_no_is_an_answer_that_says_why(
    start: Start, outside: Path, approval: str, answer: ResolveElicitation | None, reason: str
) -> None:
    driver = await start(
        wants(outside), run(f"touch {outside}/x"), says("ok"), sandbox="read-only", approval=approval, config=ON
    )
    await go(driver, *([answer] if answer is not None else []))
    said = json.loads(answers(driver)["p1"])
    assert said["permissions"] == {"network": None, "file_system": None}
    assert reason in said["not_granted"][0]
    assert not (outside / "x").exists()


async def test_an_answer_cannot_name_a_part_that_nobody_can_give(start: Start, outside: Path) -> None:
    (outside / ".git").mkdir()
    driver = await start(
        wants(outside), run(f"touch {outside}/.git/x {outside}/x"), says("ok"),
        sandbox="read-only", approval="on-request", config=ON,
    )  # fmt: skip
    await go(driver, say("approved", permissions={"fileSystem": {"write": [f"{outside}/.git"]}}))
    assert json.loads(answers(driver)["p1"])["permissions"]["file_system"] is None
    assert list(outside.rglob("x")) == []


async def test_the_tool_is_there_only_when_it_is_switched_on(start: Start, outside: Path) -> None:
    driver = await start(wants(outside), says("ok"), sandbox="read-only", approval="on-request")
    await go(driver)
    assert answers(driver)["p1"] == "unsupported call: request_permissions"


async def test_what_a_command_writes_where_it_was_let_can_be_undone(start: Start, outside: Path) -> None:
    from spindle.protocol.ops import Undo
    from spindle.protocol.undo import UndoCompleted

    (outside / "x").write_text("before\n")
    driver = await start(
        wants(outside), run(f"echo after > {outside}/x"), says("ok"),
        sandbox="read-only", approval="on-request", config=ON,
    )  # fmt: skip
    await go(driver, say("approved"))
    assert (outside / "x").read_text() == "after\n"
    driver.submit(Undo())
    done = await driver.until(UndoCompleted)
    assert (done.success, (outside / "x").read_text()) == (True, "before\n")
