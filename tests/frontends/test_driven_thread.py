"""A thread that is driven turn by turn, whatever becomes of those who are told of it."""

from __future__ import annotations

import asyncio

from api.test_door import Opener, opened, turn  # noqa: F401  one of them is a fixture
from spindle.frontends.driven_thread import DrivenThread
from spindle.frontends.question_forms import QUESTIONS
from spindle.model.scripted import calls, says
from spindle.protocol.events import AgentMessage, Event
from spindle.protocol.ops import OverrideTurnContext


class Listener:
    """Fails at every message of the model, and at every question."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.complaints: list[str] = []

    async def told(self, event: Event) -> None:
        if isinstance(event.msg, (AgentMessage, *QUESTIONS)):
            raise ValueError("cannot be shown")
        self.kinds.append(str(event.msg.__struct_config__.tag))

    def complain(self, text: str) -> None:
        self.complaints.append(text)


async def test_an_event_that_cannot_be_told_is_complained_about_and_turns_go_on(opened: Opener) -> None:  # noqa: F811
    listener = Listener()
    driven = DrivenThread(await opened(says("one"), says("two")), listener)
    driven.begin()
    async with asyncio.timeout(10):
        ends = [await driven.run(turn()) for _ in range(2)]
        await driven.close()
    assert [(end.status, end.message) for end in ends] == [("completed", "one"), ("completed", "two")]
    reason = "a agent_message event: internal error: ValueError: cannot be shown"
    assert listener.complaints == [f"thread {driven.id}: {reason}"] * 2
    assert listener.kinds.count("task_complete") == 2 and listener.kinds[-1] == "shutdown_complete"


async def test_a_question_that_cannot_be_told_is_answered_with_no(opened: Opener) -> None:  # noqa: F811
    listener = Listener()
    asks = calls("exec_command", {"cmd": "touch made"}, "c1")
    driven = DrivenThread(await opened(asks, says("done"), is_attended=True), listener)
    driven.begin()
    driven.live.submit(OverrideTurnContext(approval_policy="untrusted"))
    async with asyncio.timeout(10):
        end = await driven.run(turn())
        await driven.close()
    assert (end.status, end.message) == ("completed", "done")
    assert listener.complaints[0].startswith(f"thread {driven.id}: a exec_approval_request event: internal error")
