"""The practice model's part: a small bug, and what a good agent does about it. The answers it gets are real."""

from __future__ import annotations

from spindle.frontends.practice_scene import PATCH, output_of
from spindle.model.scripted import Asked, ScriptedModel, calls, patches, says, thinks
from spindle.protocol.quote import shell_quote

STEPS = ("Run the failing tests", "Fix the cause in textstats.py", "Run the tests again")


def practice_model(python: str, pace_s: float) -> ScriptedModel:
    """The script. `python` runs the tests; `pace_s` is how long the model seems to think."""
    test = f"{shell_quote(python)} -B -m unittest -q 2>&1"

    def plan(done: int, call_id: str):
        states = ["completed"] * done + ["in_progress"] * (done < len(STEPS)) + ["pending"] * len(STEPS)
        steps = [{"step": step, "status": state} for step, state in zip(STEPS, states, strict=False)]
        return calls("update_plan", {"plan": steps}, call_id)

    return ScriptedModel(
        thinks("**Looking around**", delay_s=pace_s),
        [calls("exec_command", {"cmd": "ls"}, "look"), calls("exec_command", {"cmd": "cat textstats.py"}, "read")],
        [thinks("**Reproducing the failure first**", delay_s=pace_s), plan(0, "plan-1")],
        calls("exec_command", {"cmd": test}, "test-1", delay_s=pace_s),
        [
            thinks("**split(' ') keeps line ends inside words; split() separates at any white space**", delay_s=pace_s),
            plan(1, "plan-2"),
        ],
        patches(PATCH, "fix", delay_s=pace_s),
        calls("exec_command", {"cmd": test}, "test-2", delay_s=pace_s),
        plan(3, "plan-3"),
        _report,
    )


def _report(request: Asked):
    """What the model says at the end depends on what the tests really printed."""
    output = output_of(request, "test-2")
    if "Process exited with code 0" not in output:
        return says("The tests still fail after my change. This is what they print:\n\n" + output)
    return says(
        "The tests pass now.\n\n"
        '`words()` split only at blanks, so "two\\nthree" stayed one word. It now splits at any white space '
        "(textstats.py:6). I ran the whole test file before and after the change."
    )
