"""Queued input: each entry becomes a separate turn when the turn before it is complete.

After a turn that failed or was stopped, nothing goes on by itself, because the user wants to look first. A queue is
kept as long as the server runs, even while its thread is not loaded.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from spindle.errors import SpindleError, reason_of
from spindle.frontends.app_server.items import input_to_items
from spindle.frontends.app_server.notifications import QueueChanged, WarningNote
from spindle.frontends.app_server.objects import Turn, UserInput, Wire
from spindle.frontends.app_server.rpc import RpcError
from spindle.protocol.ops import UserInput as SteerInput
from spindle.protocol.ops import UserTurn

if TYPE_CHECKING:
    from spindle.frontends.app_server.loaded import LoadedThread
    from spindle.frontends.app_server.server import Server

MAX_QUEUED = 100
"""Of one thread."""


class QueuedSubmission(Wire, frozen=True, kw_only=True):
    id: str
    input: list[UserInput]
    client_user_message_id: str


class Queues:
    """The queues of all threads of a server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._queues: dict[str, list[QueuedSubmission]] = {}
        self._starting: set[asyncio.Task[None]] = set()

    def of(self, thread_id: str) -> list[QueuedSubmission]:
        return list(self._queues.get(thread_id, ()))

    def add(self, thread: LoadedThread, entry: QueuedSubmission) -> None:
        queue = self._queues.setdefault(thread.id, [])
        if len(queue) >= MAX_QUEUED:
            raise RpcError(f"{MAX_QUEUED} inputs wait already in this thread")
        queue.append(entry)
        if len(queue) == 1 and thread.hearing.active_turn is None:
            self._go_on(thread)

    def put(self, thread_id: str, entries: list[QueuedSubmission]) -> None:
        """The queue as it is to be from now on."""
        if entries:
            self._queues[thread_id] = entries
        else:
            self._queues.pop(thread_id, None)
        self.tell(thread_id)

    def tell(self, thread_id: str) -> None:
        thread = self._server.threads.get(thread_id)
        for connection in thread.followers if thread is not None else ():
            connection.notify(QueueChanged(thread_id=thread_id), self._server.now_ms)

    # ---- going on ------------------------------------------------------------------------------

    def turn_ended(self, thread: LoadedThread, turn: Turn) -> None:
        if turn.status == "completed" and self._queues.get(thread.id):
            self._go_on(thread)

    def _go_on(self, thread: LoadedThread) -> None:
        task = asyncio.ensure_future(self._start_next(thread))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _start_next(self, thread: LoadedThread) -> None:
        async with self._server.lock(thread.id):
            if thread.is_closing or thread.hearing.active_turn is not None or not (queue := self.of(thread.id)):
                return
            try:
                await self.start(thread.id, queue[0])
            except (SpindleError, RpcError, OSError) as error:
                text = f"what waits in the queue cannot be started: {reason_of(error)}"
                for connection in thread.followers:
                    connection.notify(WarningNote(thread_id=thread.id, message=text), self._server.now_ms)

    async def start(self, thread_id: str, entry: QueuedSubmission) -> Turn:
        """Start a turn with it, or add it to the one that runs; it waits no longer."""
        thread = await self._server.ready(thread_id)
        items = input_to_items(entry.input, entry.client_user_message_id)
        turn = thread.running_turn
        if turn is None:
            op = UserTurn(items=items)
            thread.live.check(op)
            turn_id = thread.start_turn(op)
            turn = Turn(id=turn_id, root_turn_id=turn_id)
        else:
            sub_id = thread.submit(SteerInput(items=items, mode="steer"))
            turn = Turn(id=sub_id, root_turn_id=sub_id) if thread.hearing.takes_no_input else turn
        self.put(thread_id, [other for other in self.of(thread_id) if other.id != entry.id])
        return turn

    async def close(self) -> None:
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)


def changed(entry: QueuedSubmission, parts: list[UserInput]) -> QueuedSubmission:
    return msgspec.structs.replace(entry, input=parts)
