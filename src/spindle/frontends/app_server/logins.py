"""Sign-ins with ChatGPT that a client has begun: one at a time, each with an id; the client hears when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.auth.store import StoredLogin
from spindle.errors import ModelError, SpindleError
from spindle.frontends.app_server.notifications import AccountLoginCompleted, AccountUpdated
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.server_requests import TokensRefresh, TokensRefreshReply
from spindle.model.provider import LoginSettings

if TYPE_CHECKING:
    from spindle.frontends.app_server.server import Server

_ANSWER_S = 10.0
"""How long a client may take to renew the tokens that it brought."""
_NOT_COMPLETED = "Login was not completed: {reason}"


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """What the person is shown: an address, and for a device the code to type in there."""

    id: str
    address: str
    user_code: str = ""


class Logins:
    """The one sign-in that may be under way."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._pending: str | None = None
        self._cancel: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None
        self._beginning = asyncio.Lock()
        """Two clients may begin one at the same time."""

    async def in_browser(self, settings: LoginSettings, originator: str) -> Begun:
        from spindle.auth.browser_login import BrowserLogin  # only to sign in

        async with self._beginning, AsyncExitStack() as stack:
            await self.give_up()
            attempt = await stack.enter_async_context(BrowserLogin(settings, originator=originator))
            login_id = self._follow(attempt.finish, attempt.cancel, stack.pop_all())
        return Begun(id=login_id, address=attempt.address)

    async def on_device(self, settings: LoginSettings, originator: str) -> Begun:
        from spindle.auth.device_login import DeviceLogin  # only to sign in

        async with self._beginning:
            await self.give_up()
            attempt = DeviceLogin(settings, originator=originator)
            device = await attempt.start()
            login_id = self._follow(attempt.finish, None, AsyncExitStack())
        return Begun(id=login_id, address=device.address, user_code=device.user_code)

    def _follow(
        self, finish: Callable[[], Awaitable[StoredLogin]], cancel: Callable[[], None] | None, stack: AsyncExitStack
    ) -> str:
        login_id = self._server.clock.uuid7()

        async def follow() -> None:
            error: str | None = None
            login: StoredLogin | None = None
            try:
                async with stack:
                    login = await finish()
            except asyncio.CancelledError:
                error = "the sign-in was cancelled"
            except SpindleError as failure:
                error = str(failure)
            if self._pending == login_id:
                self._pending = None
            self._tell(login_id, login, error)

        task = asyncio.get_running_loop().create_task(follow())
        self._pending, self._task = login_id, task
        self._cancel = cancel or (lambda: _cancel_task(task))
        return login_id

    def _tell(self, login_id: str, login: StoredLogin | None, error: str | None) -> None:
        shown = None if error is None else _NOT_COMPLETED.format(reason=error)
        self._server.tell_all(AccountLoginCompleted(login_id=login_id, success=login is not None, error=shown))
        if login is not None:
            self._server.tell_all(AccountUpdated(auth_mode="chatgpt", plan_type=login.plan))

    def cancel(self, login_id: str) -> bool:
        """False if no such sign-in is under way."""
        if self._pending != login_id:
            return False
        self._pending = None
        self._cancel()
        return True

    async def give_up(self) -> None:
        """End the sign-in that is under way, if there is one; whoever began it is told."""
        if self._pending is not None:
            self.cancel(self._pending)
        if self._task is not None:
            await asyncio.wait([self._task])

    # ---- tokens that the client brings -----------------------------------------------------------------

    async def ask_client(self, account_id: str | None) -> Mapping[str, Any]:
        """Newer tokens from whichever client answers first. Raises ModelError when none does."""
        reply: asyncio.Future[Wire | None] = asyncio.get_running_loop().create_future()

        def hear(answer: Wire | None) -> None:
            if not reply.done():
                reply.set_result(answer)

        ask = TokensRefresh(reason="unauthorized", previous_account_id=account_id)
        self._server.questions.put("", ask, {each for each in self._server.connections if each.client}, hear)
        try:
            async with asyncio.timeout(_ANSWER_S):
                answer = await reply
        except TimeoutError:
            answer = None
        if not isinstance(answer, TokensRefreshReply):
            raise ModelError("The client that signed in with its own tokens did not renew them.", "unauthorized")
        return {"accessToken": answer.access_token, "chatgptAccountId": answer.chatgpt_account_id}


def _cancel_task(task: asyncio.Task[None]) -> None:
    task.cancel()
