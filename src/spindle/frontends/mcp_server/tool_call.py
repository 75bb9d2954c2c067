"""One call of a tool: a turn from its request to its result, with everything the client is told meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from spindle.frontends.driven_thread import DrivenThread, TurnEnd
from spindle.frontends.event_lines import twin_of
from spindle.frontends.json_rpc import RequestId, RpcError
from spindle.frontends.mcp_server.asking import Elicitation, answer, elicitation
from spindle.frontends.mcp_server.progress import describe
from spindle.frontends.mcp_server.revision import Caller
from spindle.frontends.mcp_server.tools import result
from spindle.frontends.question_forms import QUESTIONS, no_answer
from spindle.frontends.rpc_peer import PeerGone, RpcPeer
from spindle.protocol.events import Event, SessionConfigured, Warning


class Client(msgspec.Struct, kw_only=True):
    """What is known of the program at the other end."""

    peer: RpcPeer
    with_events: bool = True
    can_be_asked: bool = False
    """As the handshake said; a request without one says it itself."""
    log_level: str | None = None
    """Warnings are sent from this level on; None = not at all."""


class ToolCall:
    """A request `tools/call`, and the turn it is about.

    A caller of the stateless revision is not asked anything: its questions wait here until the call is made again.
    """

    def __init__(
        self,
        client: Client,
        request_id: RequestId,
        progress_token: RequestId | None = None,
        caller: Caller | None = None,
    ) -> None:
        self.id = request_id
        """Of the request that waits for the result; a call that is made again has another."""
        self.is_cancelled = False
        self.can_be_asked = client.can_be_asked if caller is None else caller.can_be_asked
        self.has_questions = asyncio.Event()
        self._is_stateless = caller is not None
        self._waiting: dict[str, tuple[Elicitation, asyncio.Future[Any]]] = {}
        """Questions for the caller to take along, by key."""
        self._asked = 0
        self._client = client
        self._progress_token = progress_token
        self._progress = 0
        self._thread: DrivenThread | None = None
        self._has_greeted = False

    def cancel(self) -> None:
        """The client wants no answer any more: the turn is interrupted."""
        self.is_cancelled = True
        if self._thread is not None:
            self._thread.interrupt()

    def attach(self, thread: DrivenThread) -> None:
        """From now on this call is what the thread works for."""
        self._thread = thread

    async def greet(self, configured: SessionConfigured) -> None:
        """The first event of a call says which thread it is, also when that was open before."""
        if not self._has_greeted:
            await self.told(Event("", configured))

    async def told(self, event: Event) -> None:
        """Pass an event of the thread on to the client."""
        client, thread, msg = self._client, self._thread, event.msg
        if thread is None:
            return
        self._has_greeted = self._has_greeted or isinstance(msg, SessionConfigured)
        if client.with_events:
            await self._send_event(thread.id, event.id, msg)
            if (twin := twin_of(event)) is not None:
                await self._send_event(thread.id, event.id, twin)
        if self._progress_token is not None and (text := describe(msg)) is not None:
            self._progress += 1
            params = {"progressToken": self._progress_token, "progress": self._progress, "message": text}
            await client.peer.tell("notifications/progress", params)
        if isinstance(msg, Warning) and client.log_level is not None:
            params = {"level": "warning", "logger": "spindle", "data": msg.message}
            await client.peer.tell("notifications/message", params)
        if isinstance(msg, QUESTIONS):
            self._put(thread, event)

    def complain(self, text: str) -> None:
        self._client.peer.complain(text)

    async def _send_event(self, thread_id: str, event_id: str, msg: Any) -> None:
        meta = {"requestId": self.id, "threadId": thread_id}
        await self._client.peer.tell("codex/event", {"_meta": meta, "id": event_id, "msg": msg})

    # ---- questions -----------------------------------------------------------------------------

    def _put(self, thread: DrivenThread, event: Event) -> None:
        asked = elicitation(event, thread.id, str(self.id)) if self.can_be_asked else None
        if asked is None:
            thread.live.submit(no_answer(event.msg))
        elif self._is_stateless:
            thread.put(event.msg, self._wait_for_answer(thread, asked))
        else:
            thread.put(event.msg, self._ask(thread, asked))

    async def _wait_for_answer(self, thread: DrivenThread, asked: Elicitation) -> None:
        self._asked += 1
        key = f"question-{self._asked}"
        said: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[key] = asked, said
        self.has_questions.set()
        try:
            thread.live.submit(answer(asked, await said))
        finally:
            del self._waiting[key]

    def questions(self) -> dict[str, dict[str, Any]]:
        """What the caller has to answer before the call goes on: the params of elicitations, by key."""
        self.has_questions.clear()
        return {key: asked.params for key, (asked, _) in self._waiting.items()}

    def go_on(self, request_id: RequestId, responses: Any) -> None:
        """The call was made again, with answers; a question without one is answered with no."""
        self.id = request_id
        given = responses if isinstance(responses, dict) else {}
        for key, (_, said) in self._waiting.items():
            if not said.done():
                said.set_result(given.get(key))

    async def _ask(self, thread: DrivenThread, asked: Elicitation) -> None:
        peer = self._client.peer
        numbers: list[int] = []
        try:
            said = await peer.request("elicitation/create", asked.params, numbers.append)
        except (RpcError, PeerGone):
            thread.live.submit(no_answer(asked.question))
        except asyncio.CancelledError:
            for number in numbers:
                peer.say("notifications/cancelled", {"requestId": number, "reason": "the turn has ended"})
            raise
        else:
            thread.live.submit(answer(asked, said))


def result_of(thread_id: str, end: TurnEnd) -> dict[str, Any]:
    """The result of a call whose turn has ended."""
    match end.status:
        case "completed":
            return result(thread_id, end.message)
        case "failed":
            return result(thread_id, end.error.message if end.error is not None else "the turn failed", is_error=True)
        case "interrupted":
            return result(thread_id, "the turn was interrupted before it was done", is_error=True)
