"""Signing in with ChatGPT from the interface: in a browser, or with a code; Esc gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Literal

from spindle.auth.browser_login import BrowserLogin
from spindle.auth.device_login import WARNING, DeviceLogin
from spindle.auth.store import StoredLogin
from spindle.frontends.browser import open_in_browser
from spindle.frontends.tui.desk import Desk
from spindle.frontends.tui.views.list import ListView, Row
from spindle.model.provider import LoginSettings

_TITLE = "Sign in with ChatGPT"
Way = Literal["browser", "device"]


async def sign_in_with_chatgpt(desk: Desk, settings: LoginSettings, environ: Mapping[str, str]) -> StoredLogin | None:
    """Raises SpindleError; None when the person gives up."""
    rows: list[Row[Way]] = [
        Row(value="browser", name="In a browser on this computer"),
        Row(value="device", name="With a code", about="typed into a page on any device"),
    ]
    way = await desk.ask(ListView(_TITLE, rows))
    if way is None:
        return None
    if way == "device":
        device = DeviceLogin(settings, environ)
        code = await device.start()
        desk.say(f"Open {code.address} and type in the code {code.user_code}", WARNING)
        return await _wait(desk, device.finish(), f"Type the code {code.user_code} into {code.address}")
    async with BrowserLogin(settings, environ) as attempt:
        desk.say("To sign in with ChatGPT, open this address in a browser on this computer:", attempt.address)
        open_in_browser(attempt.address)
        return await _wait(desk, attempt.finish(), "Waiting for the browser; the address is above")


async def _wait(desk: Desk, finish: Awaitable[StoredLogin], note: str) -> StoredLogin | None:
    """Until the person has signed in, or gives up."""
    view: ListView[str] = ListView(_TITLE, [Row(value="", name="Give up")], note=note)
    task = asyncio.ensure_future(finish)
    task.add_done_callback(lambda _: view.settle("over"))
    try:
        if await desk.ask(view) != "over" and not task.done():
            return None
        return await task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()


def as_whom(login: StoredLogin) -> str:
    return f"Signed in with ChatGPT as {login.email}." if login.email else "Signed in with ChatGPT."
