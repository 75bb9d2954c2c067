"""`/side` and `/btw`: ask something beside. The thread is read, never written: the answer leaves no trace in it."""

from __future__ import annotations

import asyncio

import msgspec

from spindle.api.door import open_thread
from spindle.api.hearing import Hearing
from spindle.errors import SpindleError
from spindle.frontends.tui.commands.lines import INDENT, block, clean
from spindle.frontends.tui.commands.threads import going_on, is_recorded
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.shown import Span, prefixed
from spindle.protocol.events import TERMINAL, AgentMessage, Error
from spindle.protocol.ops import UserTurn
from spindle.protocol.settings import SandboxPolicy

_PATIENCE_S = 600.0


async def ask(desk: Desk, argument: str) -> None:
    """Answered beside the running turn, by a copy of the thread that may look and change nothing."""
    if not argument:
        desk.set_draft("/btw ")
        desk.say("Say what you want to know: /btw QUESTION. The thread does not hear of it.")
        return
    from spindle.frontends.tui.text.markdown import render  # with the first answer

    desk.say(f"Asked beside: {clean(argument)}")
    answer = await _answer(desk, argument)
    lines = prefixed(Span(INDENT), Span(INDENT), render(answer, max(8, desk.size[0] - len(INDENT))))
    desk.say(*block(f"Beside: {clean(argument)[:80]}", lines))


async def _answer(desk: Desk, question: str) -> str:
    thread = desk.thread
    if thread is None:
        raise SpindleError("the session is still being opened; try again in a moment")
    config = msgspec.structs.replace(
        going_on(desk.config, thread.settings),
        approval_policy="never",
        sandbox=SandboxPolicy(mode="read-only"),
        mcp_servers={},
        hooks=(),
        notify=(),
    )
    request = msgspec.structs.replace(
        desk.request,
        config=config,
        thread=thread.id if is_recorded(desk) else None,
        rollout_path=None,
        newest=False,
        fork=False,
        fork_at=None,
        ephemeral=True,
        replay=False,
        stream=None,
        reload=None,
    )
    beside = await open_thread(request)
    hearing = Hearing(beside)
    beside.begin()
    try:
        beside.submit(UserTurn(items=[{"type": "text", "text": question}]))
        return await asyncio.wait_for(_last_words(hearing), _PATIENCE_S)
    except TimeoutError:
        raise SpindleError(f"the side question was not answered within {_PATIENCE_S / 60:.0f} minutes") from None
    finally:
        await beside.close()


async def _last_words(hearing: Hearing) -> str:
    said = ""
    async for event in hearing:
        match event.msg:
            case AgentMessage(message=message):
                said = message
            case Error(message=message):
                raise SpindleError(f"the side question failed: {message}")
            case msg if isinstance(msg, TERMINAL):
                break
            case _:
                pass
    if not said:
        raise SpindleError("the side question got no answer")
    return said
