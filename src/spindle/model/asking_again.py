"""A question that was asked in vain: whether it is asked once more, and when.

Loaded only then. It is silent: a long wait is not for here, where nobody is told of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from spindle.errors import ModelError, StreamDropped
from spindle.model import unanswered
from spindle.model.connection import TransportError
from spindle.model.failures import no_connection
from spindle.model.question import Question
from spindle.model.retry import backoff_s, parse_retry_after
from spindle.model.sending import SendGate
from spindle.protocol.clock import Clock

if TYPE_CHECKING:
    from spindle.model.remote import Answer

SILENT_WAIT_S = 5.0
"""The longest pause between two tries of one request; a server that asks for more has it announced."""


class AskingAgain:
    """The tries of one question, within the budget for one request (`request_max_retries`)."""

    def __init__(
        self, question: Question, clock: Clock, gate: SendGate | None, before_retry: Callable[[], None]
    ) -> None:
        self._question = question
        self._clock = clock
        self._gate = gate
        self._before_retry = before_retry
        self._may_refresh = True
        self._retries = 0

    async def after(self, in_vain: Answer | TransportError) -> None:
        """Wait until the question may be put once more. Raises what went wrong if it may not."""
        if isinstance(in_vain, TransportError):
            await self._pause(self._unreached(in_vain))
            return
        failure = await self._refused(in_vain)
        if failure is not None:
            await self._pause(failure)
        self._before_retry()

    def _unreached(self, error: TransportError) -> ModelError | StreamDropped:
        if self._gate is not None:
            self._gate.in_vain(None, None)
        failure = no_connection(error, self._question.endpoint.provider)
        if error.is_final:
            raise failure from error
        return failure

    async def _refused(self, response: Answer) -> ModelError | StreamDropped | None:
        """Why the server refused; None when it can be asked in another way at once."""
        question, endpoint = self._question, self._question.endpoint
        if self._gate is not None:
            # How long it wants to be left alone, as far as its headers tell.
            given = response.headers
            pause_s = parse_retry_after(given.get("retry-after"), self._clock.now(), given.get("date"))
            self._gate.in_vain(response.status, pause_s)
        words = await unanswered.read_answer(response)
        if response.starts_over:
            return None
        if self._may_refresh and question.has_stale_key(response.status, words):
            self._may_refresh = False
            if await endpoint.credential.refresh():
                return None
        failure = await unanswered.refusal(response, words, endpoint.url(endpoint.wire.path), question)
        if question.learns(response.status, words, failure):
            return None
        if response.status < 500 or isinstance(failure, ModelError):
            raise failure
        return failure

    async def _pause(self, failure: ModelError | StreamDropped) -> None:
        self._retries += 1
        asked_s = failure.delay_s if isinstance(failure, StreamDropped) else None
        if self._retries > self._question.endpoint.provider.request_retries or (asked_s or 0) > SILENT_WAIT_S:
            raise failure
        await asyncio.sleep(backoff_s(self._retries, self._clock) if asked_s is None else asked_s)
