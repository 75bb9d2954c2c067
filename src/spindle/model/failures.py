"""Failures below the level of answers: no connection, a stream that broke off. See `refusals` for what servers say."""

from __future__ import annotations

from typing import Any

from spindle.errors import ErrorInfo, ModelError, SpindleError, StreamDropped
from spindle.model.connection import TransportError
from spindle.model.provider import Provider

DISCONNECTED: ErrorInfo = {"response_stream_disconnected": {"http_status_code": None}}
NO_CONNECTION: ErrorInfo = {"http_connection_failed": {"http_status_code": None}}
ANSWER_MAX_BYTES = 64 * 1024 * 1024
"""How long an answer may be on the wires that keep it until its end, with everything that is around it."""

_START = {
    "ollama": "Start Ollama with `ollama serve`.",
    "lmstudio": "Start the server of LM Studio with `lms server start`.",
}


class ResponseFailed(SpindleError):
    """The server says that the response failed. What `error` means is decided by the client, which knows what was
    asked."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__("the response failed")
        self.error = error


def disconnected(reason: str, *, advice: str = "") -> StreamDropped:
    """The answer began and broke off."""
    return StreamDropped(f"stream disconnected before completion: {reason}", info=DISCONNECTED, advice=advice)


def closed_early() -> StreamDropped:
    advice = "The server, or a proxy before it, ends the answer too soon: look into its log."
    return disconnected("stream closed before response.completed", advice=advice)


def too_long() -> ModelError:
    """An answer that does not end: what is kept of it until its end must not fill the memory."""
    return ModelError(f"the server sent an answer larger than {ANSWER_MAX_BYTES} bytes")


def timed_out(reason: str, idle_s: float) -> StreamDropped:
    """Nothing came for `idle_s` seconds."""
    advice = (
        f"Nothing came for {idle_s:g} s: check that the server is not stuck, or give a slow one more time with "
        f"stream_idle_timeout_ms (now {idle_s * 1000:.0f})."
    )
    return disconnected(reason, advice=advice)


def no_connection(error: TransportError, provider: Provider | None = None) -> ModelError | StreamDropped:
    """No answer could begin. Asking again may help, unless it is a proxy that says no."""
    advice = (_START.get(provider.id) if provider is not None else None) or error.advice
    text = f"Connection failed: {error}"
    if error.is_final:
        return ModelError(text, NO_CONNECTION, advice=advice)
    return StreamDropped(text, info=NO_CONNECTION, advice=advice)


def incomplete(reason: str) -> ModelError:
    from spindle.model.server_words import one_line  # only when something failed

    return ModelError(f"Incomplete response returned, reason: {one_line(reason)}")
