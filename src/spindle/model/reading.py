"""An answer as it arrives: bytes to frames, frames to events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from spindle.errors import ModelError, SpindleError, StreamDropped
from spindle.model import failures, sse
from spindle.model.client import Completed, Created, ItemDone, ModelEvent
from spindle.model.connection import TimedOut, TransportError
from spindle.model.http import Response
from spindle.model.question import Question
from spindle.model.wires.wire import Decoder

_TO_COMPLETE = (ItemDone, Created, Completed)


class Reading:
    """An answer as it arrives."""

    def __init__(self, response: Response, question: Question, event_max_bytes: int) -> None:
        self._response = response
        self._question = question
        self._idle_s = question.endpoint.provider.idle_timeout_s
        self._frames = sse.SseDecoder(event_max_bytes)
        self._decoder = question.decoder(response.headers)
        self._time = asyncio.get_running_loop().time
        self.deadline = self._time() + self._idle_s
        self.begun = b""
        """What was already read of it."""
        self.is_over = False

    async def more(self) -> Iterator[ModelEvent]:
        """What the next piece of the body means."""
        if self._frames.made_progress:
            # Counted from here: the time a reader spends on an event is not the server's silence.
            self.deadline = self._time() + self._idle_s
        try:
            data = self.begun or await next_chunk(self._response, self.deadline, self._idle_s)
        except StreamDropped:
            # Some servers never say that they have ended; what they said may be whole all the same.
            if not (rest := _rest_of_whole(self._decoder)):
                raise
            self.is_over = True
            return map(self._question.completed, rest)
        self.begun = b""
        return self._events(data)

    def _events(self, data: bytes) -> Iterator[ModelEvent]:
        complete = self._question.completed
        for event in _read_events(data, self._frames, self._decoder, self._response):
            yield complete(event) if isinstance(event, _TO_COMPLETE) else event
        self.is_over = self._decoder.is_over or not data


def is_event_stream(response: Response) -> bool:
    return response.headers.get("content-type", "").lstrip().lower().startswith("text/event-stream")


async def next_chunk(response: Response, deadline: float, idle_s: float) -> bytes:
    try:
        return await response.chunk(deadline)
    except TimedOut as error:
        raise failures.timed_out("idle timeout waiting for SSE", idle_s) from error
    except TransportError as error:
        raise failures.disconnected(str(error)) from error


def _rest_of_whole(decoder: Decoder) -> list[ModelEvent]:
    """What is left to tell of an answer that broke off after its end; nothing if it broke off before."""
    try:
        events = decoder.finish()
    except SpindleError:
        return []
    return [] if decoder.failure is not None else events


def _read_events(data: bytes, frames: sse.SseDecoder, decoder: Decoder, response: Response) -> Iterator[ModelEvent]:
    """What one piece of the body (b"" is its end) means. Events that came before an error are not lost to it."""
    try:
        for frame in frames.feed(data) if data else frames.finish():
            events = decoder.feed(frame)
            if decoder.is_over:
                # Now, because nobody may ask for more after the last event.
                response.release()
            yield from events
            if decoder.is_over:
                break
        if not data and not decoder.is_over:
            yield from decoder.finish()
        if decoder.failure is not None:
            raise decoder.failure
    except (ModelError, StreamDropped, failures.ResponseFailed):
        # The server ended the response in order; only its content is bad news.
        response.release()
        raise
    except sse.BadUtf8 as error:
        raise failures.disconnected(str(error)) from error
    except sse.EventTooLarge as error:
        raise ModelError(str(error)) from error
