"""`/goal`: what the thread works towards by itself, turn after turn. The cell that tells of it comes with the event."""

from __future__ import annotations

from spindle.errors import SpindleError
from spindle.frontends.goal_words import goal_text
from spindle.frontends.tui.commands.lines import clean
from spindle.frontends.tui.desk import Desk
from spindle.protocol.goal import Goal, ThreadGoalUpdated
from spindle.protocol.ops import GoalClear, GoalSet
from spindle.thread.goals import recorded_goal

HOW = "/goal TEXT sets one, and Spindle works on it until it is reached; /goal pause, resume and clear steer that."


async def goal(desk: Desk, argument: str) -> None:
    present = present_goal(desk)
    match argument.lower():
        case "":
            desk.say(f"Goal: {clean(goal_text(present))}" if present is not None else f"No goal is set. {HOW}")
        case "pause":
            await desk.call(GoalSet(status="paused"))
            if desk.is_working:
                desk.say("The turn goes on to its end; Esc stops it now.")
        case "resume":
            await _resume(desk)
        case "clear":
            if present is None:
                raise SpindleError("there is no goal to clear")
            await desk.call(GoalClear())
        case _:
            if present is not None and present.status != "complete":
                await desk.call(GoalClear())  # the new one begins to count anew
            await desk.call(GoalSet(objective=argument))


async def _resume(desk: Desk) -> None:
    answer = await desk.call(GoalSet(status="active"))
    if isinstance(answer, ThreadGoalUpdated) and answer.goal is not None and answer.goal["status"] != "active":
        raise SpindleError("the goal has used up its tokens; /goal TEXT sets a new one")
    if desk.facts.mode == "plan":
        desk.say("Nothing is done for it in plan mode.")


def present_goal(desk: Desk) -> Goal | None:
    return None if desk.thread is None else recorded_goal(desk.thread.records, desk.thread.id)
