"""Sign-ins to MCP servers that clients have begun: one for each server; the client hears when it is over."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from spindle.errors import SpindleError
from spindle.frontends.app_server.notifications import ServerLoginCompleted
from spindle.mcp.spec import McpServer

if TYPE_CHECKING:
    from spindle.frontends.app_server.server import Server
    from spindle.frontends.server_sign_in import ServerSignIn


class ServerLogins:
    """Those that are under way."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(
        self, described: McpServer, scopes: tuple[str, ...], patience_s: float | None, thread_id: str | None
    ) -> tuple[str, str]:
        """The address for a browser, and the id of the attempt. An earlier one for the same server is given up."""
        from spindle.frontends.server_sign_in import SIGN_IN_S, ServerSignIn  # only to sign in

        await self._give_up(self._tasks.get(described.name))
        server = self._server
        login_id = server.clock.uuid7()
        async with AsyncExitStack() as stack:
            attempt = ServerSignIn(described, scopes, server.home, server.clock)
            await stack.enter_async_context(attempt)
            note = ServerLoginCompleted(name=described.name, login_id=login_id, thread_id=thread_id, success=True)
            work = self._follow(attempt, SIGN_IN_S if patience_s is None else patience_s, note, stack.pop_all())
            self._tasks[described.name] = asyncio.get_running_loop().create_task(work)
        return attempt.address, login_id

    async def _follow(
        self, attempt: ServerSignIn, patience_s: float, note: ServerLoginCompleted, stack: AsyncExitStack
    ) -> None:
        error: str | None = None
        try:
            async with stack:
                await attempt.finish(patience_s)
        except asyncio.CancelledError:
            error = "the sign-in was given up"
        except SpindleError as failure:
            error = str(failure)
        if self._tasks.get(note.name) is asyncio.current_task():
            del self._tasks[note.name]
        self._server.tell_all(
            ServerLoginCompleted(
                name=note.name, login_id=note.login_id, thread_id=note.thread_id, success=error is None, error=error
            )
        )

    async def give_up(self) -> None:
        """End all of them; whoever began one is told."""
        for task in [*self._tasks.values()]:
            await self._give_up(task)

    async def _give_up(self, task: asyncio.Task[None] | None) -> None:
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
