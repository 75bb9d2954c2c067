"""AGENTS.md of a sub folder is told when work first goes there, once, at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessions import Driver, Start
from spindle.model.scripted import calls, patches, says
from spindle.protocol.events import Warning
from spindle.protocol.ops import Compact


@pytest.fixture
def project(workspace: Path) -> Path:
    (workspace / ".git").mkdir(exist_ok=True)
    (workspace / "AGENTS.md").write_text("ROOT-RULES\n")
    for name in ("sub", "sub/deep", "other"):
        (workspace / name).mkdir()
    (workspace / "sub" / "AGENTS.md").write_text("SUB-RULES\n")
    (workspace / "sub" / "deep" / "AGENTS.override.md").write_text("DEEP-RULES\n")
    return workspace


def said(driver: Driver, request: int = -1) -> list[str]:
    return [
        "".join(part.get("text", "") for part in item["content"])
        for item in driver.inputs[request]
        if item["type"] == "message"
    ]


def told(driver: Driver, request: int = -1) -> list[str]:
    return [word for text in said(driver, request) for word in ("ROOT", "SUB", "DEEP") if f"{word}-RULES" in text]


def runs(folder: str, call_id: str) -> Any:
    return calls("exec_command", {"cmd": "true", "workdir": folder}, call_id)


async def test_a_command_in_a_sub_folder_brings_its_documents(start: Start, project: Path) -> None:
    driver = await start()
    await driver.turn("P", runs("sub/deep", "c1"), runs("sub/deep", "c2"), runs("other", "c3"), says("done"))
    assert [told(driver, request) for request in range(4)] == [["ROOT"], *[["ROOT", "SUB", "DEEP"]] * 3]
    for before, after in zip(driver.inputs, driver.inputs[1:], strict=False):
        assert after[: len(before)] == before
    assert said(driver)[-1].startswith(f"# AGENTS.md instructions for {project}/sub/deep\n")


async def test_so_does_a_patch(start: Start, project: Path) -> None:
    driver = await start()
    patch = "*** Begin Patch\n*** Add File: sub/new.txt\n+x\n*** End Patch\n"
    await driver.turn("P", patches(patch, "c1"), says("done"))
    assert told(driver) == ["ROOT", "SUB"]


async def test_outside_of_the_project_nothing_is_picked_up(start: Start, project: Path, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("EVIL: SUB-RULES\n")
    driver = await start()
    await driver.turn("P", runs(str(tmp_path), "c1"), says("done"))
    assert told(driver) == ["ROOT"]


async def test_a_resumed_thread_is_not_told_twice_and_a_compacted_one_is_told_again(
    start: Start, project: Path
) -> None:
    local = {"features": {"remote_compaction": False}}
    first = await start(config=local)
    await first.turn("P", runs("sub", "c1"), says("done"))
    thread_id = first.session.thread_id
    await first.close()
    second = await start(config=local, thread=thread_id)
    await second.turn("P2", runs("sub", "c2"), says("done"))
    assert told(second) == ["ROOT", "SUB"]
    second.model.script(says("summary"))
    await second.end_of(second.submit(Compact()))
    await second.turn("P3", runs("sub", "c3"), says("done"))
    assert told(second, -2) == ["ROOT"] and told(second) == ["ROOT", "SUB"]


@pytest.mark.parametrize("switch", [{"spindle": {"nested_agents_md": False}}, {"project_doc_max_bytes": 0}])
async def test_it_can_be_switched_off(switch: dict[str, Any], start: Start, project: Path) -> None:
    driver = await start(config=switch)
    await driver.turn("P", runs("sub", "c1"), says("done"))
    assert "SUB" not in told(driver)


async def test_no_document_brings_in_what_may_not_be_read(start: Start, project: Path, tmp_path: Path) -> None:
    """We read documents ourselves, outside of the sandbox in which a command has just made a link."""
    (tmp_path / "key").write_text("SECRET OUTSIDE")
    (project / "denied").write_text("SECRET INSIDE")
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to("denied")
    driver = await start(
        sandbox="workspace-write", config={"spindle": {"sandbox": {"deny_read": [str(project / "denied")]}}}
    )
    plant = f"ln -s {tmp_path}/key other/AGENTS.md; rm sub/AGENTS.md; ln -s ../denied sub/AGENTS.md"
    await driver.turn(
        "P", calls("exec_command", {"cmd": plant}, "c1"), runs("other", "c2"), runs("sub/deep", "c3"), says("done")
    )
    assert (project / "other/AGENTS.md").is_symlink() and (project / "sub/AGENTS.md").is_symlink()
    assert told(driver) == ["DEEP"] and "SECRET" not in str(driver.inputs)
    warned = [event.msg.message for event in driver.events if isinstance(event.msg, Warning)]
    assert [text.split(": it is a ")[0].split(": what")[0] for text in warned] == [
        f"{project}/{name} is left out" for name in ("AGENTS.md", "other/AGENTS.md", "sub/AGENTS.md")
    ]
