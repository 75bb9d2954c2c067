"""An answer as it arrives: bytes to frames, frames to events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Protocol

from spindle.errors import ModelError, SpindleError, StreamDropped
from spindle.model import failures, sse
from spindle.model.client import Completed, Created, ItemDone, ModelEvent
from spindle.model.connection import TimedOut, TransportError
from spindle.model.question import Question
from spindle.model.wires.wire import Decoder

_TO_COMPLETE = (ItemDone, Created, Completed)
_NO_EVENT = (b"{", b"<", b"[")
"""How a body begins that is JSON or a page, whatever it is said to be."""


class Answer(Protocol):
    """An answer, by whatever way it comes: `Response` of `model/http.py` says what each of these is."""

    status: int

    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def is_framed(self) -> bool: ...
    @property
    def starts_over(self) -> bool: ...
    async def chunk(self, deadline: float) -> bytes: ...
    async def read(self, max_bytes: int, timeout_s: float) -> bytes: ...
    def waiting(self) -> Iterator[bytes]: ...
    def release(self) -> None: ...
    def close(self) -> None: ...


class _WholeFrames:
    """Takes chunks that are events already."""

    made_progress = True

    def __init__(self, response: Answer) -> None:
        self._response = response

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        yield chunk
        yield from self._response.waiting()

    def finish(self) -> list[bytes]:
        return []


Frames = sse.SseDecoder | _WholeFrames


class Reading:
    """An answer as it arrives."""

    def __init__(self, response: Answer, question: Question, event_max_bytes: int, end_patience_s: float) -> None:
        self._end_patience_s = end_patience_s
        self._end_by: float | None = None
        """When to hang up, since the model has stopped."""
        self._response = response
        self._question = question
        self._idle_s = question.endpoint.provider.idle_timeout_s
        self._frames: Frames = _WholeFrames(response) if response.is_framed else sse.SseDecoder(event_max_bytes)
        self._decoder = question.decoder(response.headers)
        self._time = asyncio.get_running_loop().time
        self._event_max_bytes = event_max_bytes
        self._has_begun = response.is_framed
        self.deadline = self._time() + self._idle_s
        self.is_over = False

    async def more(self) -> Iterator[ModelEvent]:
        """What the next piece of the body means."""
        if self._frames.made_progress:
            # Counted from here: the time a reader spends on an event is not the server's silence.
            self.deadline = self._time() + self._idle_s
        if self._decoder.has_stopped:
            self._end_by = self._end_by or self._time() + self._end_patience_s
            self.deadline = min(self.deadline, self._end_by)
        try:
            data = await next_chunk(self._response, self.deadline, self._idle_s)
        except StreamDropped:
            # Some servers never say that they have ended; what they said may be whole all the same.
            if not (rest := _rest_of_whole(self._decoder)):
                raise
            self.is_over = True
            return map(self._question.completed, rest)
        if not self._has_begun:
            self._has_begun = True
            if data[:1] in _NO_EVENT or not is_event_stream(self._response):
                from spindle.model import unanswered  # most servers stream

                data = await unanswered.beginning(self._response, data, self._question, self._event_max_bytes)
        return self._events(data)

    def _events(self, data: bytes) -> Iterator[ModelEvent]:
        complete = self._question.completed
        for event in _read_events(data, self._frames, self._decoder, self._response):
            yield complete(event) if isinstance(event, _TO_COMPLETE) else event
        self.is_over = self._decoder.is_over or not data


def is_event_stream(response: Answer) -> bool:
    return response.headers.get("content-type", "").lstrip().lower().startswith("text/event-stream")


async def next_chunk(response: Answer, deadline: float, idle_s: float) -> bytes:
    try:
        return await response.chunk(deadline)
    except TimedOut as error:
        raise failures.timed_out(
            f"idle timeout waiting for {'websocket' if response.is_framed else 'SSE'}", idle_s
        ) from error
    except TransportError as error:
        raise failures.disconnected(str(error)) from error
    except sse.EventTooLarge as error:
        raise ModelError(str(error)) from error


def _rest_of_whole(decoder: Decoder) -> list[ModelEvent]:
    """What is left to tell of an answer that broke off after its end; nothing if it broke off before."""
    try:
        events = decoder.finish()
    except SpindleError:
        return []
    return [] if decoder.failure is not None else events


def _read_events(data: bytes, frames: Frames, decoder: Decoder, response: Answer) -> Iterator[ModelEvent]:
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
