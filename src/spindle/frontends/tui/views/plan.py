"""What to do with a plan that a turn ended with."""

from __future__ import annotations

from typing import Literal

from spindle.frontends.tui.views.list import ListView, Row

PlanChoice = Literal["implement", "fresh", "stay"]
"""`implement`: here, in default mode. `fresh`: in a new thread that is given the plan alone. `stay`: in plan mode."""

IMPLEMENT = "Please implement the plan."
"""The message that is sent for `implement`."""


class PlanView(ListView[PlanChoice]):
    """Asked after a turn that proposed a plan. It is always answered; Esc means `stay`."""

    guards_typing = True

    def __init__(self) -> None:
        super().__init__(
            "Implement this plan?",
            [
                Row(value="implement", name="Yes, implement it", about="leaves plan mode and starts"),
                Row(value="fresh", name="Yes, in a fresh thread", about="a new thread that is given the plan alone"),
                Row(value="stay", name="No, stay in plan mode", about="say what to change"),
            ],
            hint="Enter or a number · Esc stays in plan mode",
        )

    def leave(self) -> None:
        self.settle("stay")


def fresh_message(plan: str) -> str:
    """The first message of a fresh thread that implements a plan."""
    return f"Please implement this plan:\n\n{plan.strip()}"
