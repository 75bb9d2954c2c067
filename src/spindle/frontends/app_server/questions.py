"""Requests of the server to its clients: sent to every client that follows the thread; the first answer counts.

A question that nobody can answer, or whose answer makes no sense, is declined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from spindle.frontends.app_server.connection import Connection
from spindle.frontends.app_server.notifications import ServerRequestResolved
from spindle.frontends.app_server.objects import Wire
from spindle.frontends.app_server.rpc import RequestId
from spindle.frontends.app_server.server_requests import Ask
from spindle.protocol.clock import Clock

OnReply = Callable[[Wire | None], None]


class Question:
    """One open request."""

    __slots__ = ("ask", "asked", "on_reply", "thread_id")

    def __init__(self, thread_id: str, ask: Ask, asked: set[Connection], on_reply: OnReply) -> None:
        self.thread_id = thread_id
        self.ask = ask
        self.asked = asked
        self.on_reply = on_reply


class Questions:
    """All open requests of one server; ids count from 0."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = 0
        self._open: dict[int, Question] = {}

    def put(self, thread_id: str, ask: Ask, connections: set[Connection], on_reply: OnReply) -> None:
        """Ask; `on_reply` gets the answer, or None for none. It is called at once when there is nobody to ask."""
        number, self._count = self._count, self._count + 1
        if not connections:
            on_reply(None)
            return
        self._open[number] = Question(thread_id, ask, set(connections), on_reply)
        for connection in connections:
            connection.ask(number, ask.method, ask)

    def answer(self, request_id: RequestId, result: Any) -> None:
        """A client's word. A second one, or one about nothing, has no effect."""
        if not isinstance(request_id, int) or request_id not in self._open:
            return
        question = self._close(request_id)
        try:
            question.on_reply(msgspec.convert(result, question.ask.reply))
        except msgspec.ValidationError:
            question.on_reply(None)

    def withdraw(self, thread_id: str) -> None:
        """The turn ended first: the questions of this thread need no answer any more."""
        for number, question in list(self._open.items()):
            if question.thread_id == thread_id:
                self._close(number)

    def forget(self, connection: Connection, thread_id: str | None = None) -> None:
        """A client went away, or follows the thread no more; what nobody else was asked is declined."""
        for number, question in list(self._open.items()):
            if connection in question.asked and thread_id in (None, question.thread_id):
                question.asked.discard(connection)
                if not question.asked:
                    self._close(number).on_reply(None)

    def _close(self, number: int) -> Question:
        question = self._open.pop(number)
        if not question.thread_id:
            return question  # about no thread, so there is nothing to say to those who follow one
        note = ServerRequestResolved(thread_id=question.thread_id, request_id=number)
        for connection in question.asked:
            connection.notify(note, int(self._clock.now() * 1000))
        return question
