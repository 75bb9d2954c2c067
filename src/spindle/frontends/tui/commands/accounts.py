"""`/login` and `/logout`: how a model is reached, and whose key is stored."""

from __future__ import annotations

import asyncio
import io
import os

import msgspec

from spindle.auth.login import logout as forget_login
from spindle.errors import SpindleError, reason_of
from spindle.frontends.tui.commands.lines import clean
from spindle.frontends.tui.commands.threads import is_recorded
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.views.list import ListView, Row


async def login(desk: Desk, argument: str) -> None:
    """The same choice as at the first start; the thread goes on with what was chosen."""
    from spindle.frontends.tui.start import is_practice, sign_in_again  # only to sign in

    was_practice = is_practice(desk.config)
    cwd = os.getcwd() if was_practice else desk.config.cwd
    ready = await sign_in_again(desk, lambda: desk.config_for(cwd))
    if ready is None:
        return
    if ready.request is not None:
        request = ready.request
        await desk.switch(lambda _: request)
        return
    thread = desk.thread
    is_kept = thread is not None and is_recorded(desk) and not was_practice
    thread_id = thread.id if thread is not None and is_kept else None
    await desk.switch(
        lambda request: msgspec.structs.replace(
            request,
            config=ready.config,
            client=None,
            thread=thread_id,
            rollout_path=None,
            newest=False,
            fork=False,
            fork_at=None,
        )
    )
    desk.say(f"Talking to {clean(ready.config.provider.name or ready.config.provider.id)} from now on.")


async def logout(desk: Desk, argument: str) -> None:
    rows = [Row(value=False, name="No"), Row(value=True, name="Yes, forget it", about="auth.json is removed")]
    if not await desk.ask(ListView("Forget the stored credentials?", rows)):
        return
    told = io.StringIO()
    code = await asyncio.to_thread(forget_login, desk.config.login, told)
    sentence = clean(told.getvalue())
    if code:
        raise SpindleError(sentence)
    desk.say(f"{sentence}.", "What is open goes on with the key it has; /quit ends that.")


async def demo(desk: Desk, argument: str) -> None:
    """The practice model in a thread of its own; nothing of yours is touched."""
    from spindle.frontends.tui.practice import PRACTICE_NOTES, PROMPT, practice_request  # only for those who try it

    try:
        request = practice_request(os.environ)
    except OSError as error:
        raise SpindleError(f"the demo cannot start: {reason_of(error)}") from error
    before = desk.thread.id if desk.thread is not None and is_recorded(desk) else ""
    await desk.switch(lambda _: request)
    desk.say(*PRACTICE_NOTES)
    if before:
        desk.say(f"Your own thread is kept: `spindle resume {before}` goes on with it.")
    desk.set_draft(PROMPT)
