"""A command that the person runs themselves."""

from __future__ import annotations

from pathlib import Path

from sessions import Start
from spindle.model.scripted import calls, says
from spindle.protocol.events import Error, ExecCommandBegin, ExecCommandEnd
from spindle.protocol.ops import Interrupt, RunUserShellCommand

FENCED = {"sandbox": "read-only", "approval": "untrusted"}


async def test_it_runs_with_the_persons_rights_and_the_model_hears_of_it(start: Start, workspace: Path) -> None:
    driver = await start(says("ok"), **FENCED)
    msgs = await driver.end_of(driver.submit(RunUserShellCommand(command="echo out; touch made; exit 3")))
    (end,) = [msg for msg in msgs if isinstance(msg, ExecCommandEnd)]
    assert (end.source, end.exit_code, end.aggregated_output) == ("user_shell", 3, "out\n")
    assert (workspace / "made").exists()
    await driver.turn("and now?")
    said = [str(item) for item in driver.inputs[0] if "<user_shell_command>" in str(item)]
    assert len(said) == 1 and "Exit code: 3" in said[0] and "out" in said[0]


async def test_it_does_not_run_while_a_turn_does(start: Start, workspace: Path) -> None:
    driver = await start(calls("exec_command", {"cmd": "sleep 600", "yield_time_ms": 30000}, "c1"))
    sub_id = driver.begin("go")
    await driver.until(ExecCommandBegin)
    refused = driver.submit(RunUserShellCommand(command="touch made"))
    assert "when the turn has ended" in (await driver.until(Error, sub_id=refused)).message
    driver.submit(Interrupt())
    await driver.end_of(sub_id)
    assert not (workspace / "made").exists()
