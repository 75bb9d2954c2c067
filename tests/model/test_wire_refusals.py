"""The refusals of Chat Completions and Messages servers, in their own words: what kind of error each of them is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spindle.errors import ImageRejected, ModelError, StreamDropped, WindowFull
from spindle.model.advice import Asked
from spindle.model.refusals import from_failed_response, from_status
from spindle.model.server_words import json_words, read_words
from spindle.model.window_words import is_overflow, named_window

ASKED = Asked(url="http://s/v1/messages", model="m")


def refused(status: int, body: Any, headers: dict[str, str] | None = None) -> ModelError | StreamDropped:
    given = headers or {}
    return from_status(status, given, read_words(json.dumps(body).encode(), given), ASKED, 0.0)


def messages_error(kind: str, text: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}


OVERFLOWS = [
    (
        {
            "error": {
                "message": "This model's maximum context length is 8192 tokens. Your messages resulted in 9001.",
                "code": "context_length_exceeded",
            }
        },
        8192,
    ),
    (messages_error("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"), 200_000),
    (
        messages_error(
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, reduce",
        ),
        200_000,
    ),
    (
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9001,
                "n_ctx": 4096,
            }
        },
        4096,
    ),
    ({"message": "Input is too long for requested model."}, None),
    (
        {"error": {"message": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}},
        131_072,
    ),
    (
        {
            "error": {
                "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
            }
        },
        1_048_576,
    ),
    ({"message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"}, 32_768),
    ({"error": "the request exceeds the context window of 32,768 tokens"}, 32_768),
    ({"error": {"code": "context_window_exceeded", "message": "too much"}}, None),
    ({"message": "The prompt (total length 9000) is too long to fit into the model (context length 8192)."}, 8192),
    ({"error": {"message": "litellm.ContextWindowExceededError: no more"}}, None),
    ({"message": "too many tokens: the total number of tokens in the prompt cannot exceed 4081 - got 5000"}, 4081),
]


@pytest.mark.parametrize(("body", "window"), OVERFLOWS, ids=lambda value: str(value)[:50])
def test_a_conversation_that_is_too_long_is_known_in_every_servers_words(body: Any, window: int | None) -> None:
    error = refused(400, body)
    assert isinstance(error, WindowFull) and (error.info, error.window) == ("context_window_exceeded", window)
    assert "context window" in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for m",
        "Unrecognized request argument supplied: stream_options",
        "messages.3: `tool_use` ids were found without `tool_result` blocks",
        "context_management: Extra inputs are not permitted",
        "too many tokens per minute",
    ],
)
def test_other_refusals_are_not_taken_for_it(text: str) -> None:
    assert not isinstance(refused(400, messages_error("invalid_request_error", text)), WindowFull)


def test_a_body_that_is_too_large_may_fit_when_it_is_shorter() -> None:
    error = refused(413, messages_error("request_too_large", "Request exceeds the maximum size"))
    assert isinstance(error, WindowFull) and "too large for the server" in str(error)


def test_a_window_that_makes_no_sense_is_none() -> None:
    for text in ("maximum context length is 7 tokens", "1 > 999999999999", "maximum context length"):
        assert named_window(json_words({"message": text})) is None
    assert not is_overflow(500, json_words({"message": "maximum context length is 8192"}))


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_asked_again_when_the_server_says(status: int) -> None:
    error = refused(status, messages_error("overloaded_error", "Overloaded"), {"retry-after": "7"})
    assert isinstance(error, StreamDropped) and error.delay_s == 7.0 and "Overloaded" in str(error)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_would_not_help_is_not_asked_again(status: int) -> None:
    error = refused(status, messages_error("some_error", "The server's words"))
    assert isinstance(error, ModelError) and "The server's words" in str(error) and str(status) in str(error)


@pytest.mark.parametrize(
    ("kind", "error_type", "info"),
    [
        ("overloaded_error", StreamDropped, None),
        ("api_error", StreamDropped, None),
        ("rate_limit_error", StreamDropped, None),
        ("authentication_error", ModelError, "unauthorized"),
        ("billing_error", ModelError, "usage_limit_exceeded"),
        ("request_too_large", WindowFull, "context_window_exceeded"),
        ("model_context_window_exceeded", WindowFull, "context_window_exceeded"),
    ],
)
def test_what_an_error_inside_a_stream_means(kind: str, error_type: type, info: str | None) -> None:
    error = from_failed_response(json_words({"type": kind, "message": "The reason"}), ASKED, 0.0)
    assert isinstance(error, error_type) and (info is None or error.info == info)


def test_a_credit_that_is_used_up_is_no_matter_of_waiting() -> None:
    error = refused(400, messages_error("invalid_request_error", "Your credit balance is too low to access the API"))
    assert isinstance(error, ModelError) and error.info == "usage_limit_exceeded"


@pytest.mark.parametrize(
    "text",
    [
        "messages.0.content.1.image.source.base64: Could not process image",
        "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum: 6 bytes > 5 bytes",
        "At least one of the image dimensions exceed max allowed size: 8000 pixels",
        "Image does not match the provided media type image/png",
    ],
)
def test_a_picture_that_cannot_be_read_is_no_fault_of_the_rest(text: str) -> None:
    assert isinstance(refused(400, messages_error("invalid_request_error", text)), ImageRejected)
