"""The whole table of what a server may answer instead of an answer. Each row through the client, over a real socket."""

from __future__ import annotations

from typing import Any

import pytest

from spindle.errors import ImageRejected, ModelError, StreamDropped
from spindle.model.client import Completed, Created, ItemDone
from spindle.model.credential import EnvCredential, StaticCredential
from spindle.model.provider import Provider

DISCONNECTED = {"response_stream_disconnected": {"http_status_code": None}}
DONE = {"type": "response.completed", "response": {"id": "r"}}
KEY = "sk-live-0123456789"


def refuse(status: int, body: Any = b"", headers: dict[str, str] | None = None):
    async def handler(peer) -> None:
        await peer.reply(status, body, headers)

    return handler


def fail_with(**error: Any):
    async def handler(peer) -> None:
        await peer.stream({"type": "response.failed", "response": {"id": "r", "error": error}})

    return handler


async def failure(serve, client_for, ask, handler, **settings: Any):
    server = await serve(handler)
    with pytest.raises((ModelError, StreamDropped)) as caught:
        await ask(client_for(server, **settings))
    return caught.value, server


def status_info(kind: str, status: int) -> dict[str, dict[str, int]]:
    return {kind: {"http_status_code": status}}


STATUSES = [
    # status, body, kind, message ({url} is put in), info, final or None when it is the message
    (400, {"error": {"message": "no"}}, ModelError, '{{"error": {{"message": "no"}}}}', "bad_request", None),
    (400, b"plain words", ModelError, "plain words", "bad_request", None),
    (400, b"", ModelError, "unexpected status 400 Bad Request: , url: {url}", "bad_request", None),
    (
        401,
        {"error": {"message": "bad key"}},
        StreamDropped,
        "unexpected status 401 Unauthorized: bad key, url: {url}",
        "unauthorized",
        None,
    ),
    (
        403,
        b"go away",
        StreamDropped,
        "unexpected status 403 Forbidden: go away, url: {url}",
        status_info("response_stream_connection_failed", 403),
        None,
    ),
    (
        404,
        {"error": "no such model"},
        StreamDropped,
        "unexpected status 404 Not Found: no such model, url: {url}",
        status_info("response_stream_connection_failed", 404),
        None,
    ),
    (
        429,
        {"error": {"message": "slow"}},
        StreamDropped,
        "429 Too Many Requests: slow",
        status_info("response_too_many_failed_attempts", 429),
        "exceeded retry limit, last status: 429 Too Many Requests",
    ),
    (
        503,
        {"error": {"message": "busy"}},
        StreamDropped,
        "unexpected status 503 Service Unavailable: busy, url: {url}",
        "internal_server_error",
        "The model service is under high demand; try again later (last status: 503 Service Unavailable).",
    ),
    (
        599,
        b"",
        StreamDropped,
        "unexpected status 599 Unknown: , url: {url}",
        status_info("response_stream_connection_failed", 599),
        None,
    ),
]


@pytest.mark.parametrize("row", STATUSES, ids=lambda row: str(row[0]))
async def test_a_status_means_what_the_table_says(serve, client_for, ask, row: tuple) -> None:
    status, body, kind, message, info, final = row
    error, server = await failure(serve, client_for, ask, refuse(status, body))
    text = message.format(url=f"{server.base_url}/responses")
    assert (type(error), str(error), error.info) == (kind, text, info)
    if kind is StreamDropped:
        assert (error.final, error.delay_s) == (final or text, None)


async def test_the_request_id_is_appended(serve, client_for, ask) -> None:
    headers = {"x-request-id": "req_7"}
    for status, body, text in [
        (404, b"gone", "unexpected status 404 Not Found: gone, url: {url}, request id: req_7"),
        (400, b"bad", "bad, request id: req_7"),
        (429, b"", "exceeded retry limit, last status: 429 Too Many Requests, request id: req_7"),
    ]:
        error, server = await failure(serve, client_for, ask, refuse(status, body, headers))
        shown = error.final if isinstance(error, StreamDropped) else str(error)
        assert shown == text.format(url=f"{server.base_url}/responses")


async def test_server_errors_are_retried_silently_within_the_budget(serve, client_for, ask) -> None:
    error, server = await failure(serve, client_for, ask, refuse(500), request_max_retries=2)
    assert isinstance(error, StreamDropped) and len(server.requests) == 3
    assert len({request.body for request in server.requests}) == 1
    assert server.connections == 1


async def test_a_retried_request_that_succeeds_shows_nothing_of_the_failure(serve, client_for, ask) -> None:
    async def answer(peer) -> None:
        await peer.stream(DONE)

    server = await serve(refuse(502), answer)
    assert await ask(client_for(server, request_max_retries=1)) == [Completed("r")]


@pytest.mark.parametrize("status", [400, 401, 403, 429])
async def test_other_statuses_are_not_retried_here(serve, client_for, ask, status: int) -> None:
    _, server = await failure(serve, client_for, ask, refuse(status), request_max_retries=3)
    assert len(server.requests) == 1


async def test_a_refused_connection_is_retried_and_then_told(client_for, ask) -> None:
    client = client_for("http://127.0.0.1:1/v1", request_max_retries=1)
    with pytest.raises(StreamDropped, match=r"^Connection failed: cannot connect to 127.0.0.1:1: ") as caught:
        await ask(client)
    assert caught.value.info == {"http_connection_failed": {"http_status_code": None}}


async def test_too_many_requests_waits_as_the_server_says(serve, client_for, ask) -> None:
    error, _ = await failure(serve, client_for, ask, refuse(429, b"", {"retry-after": "7"}))
    assert error.delay_s == 7.0


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            {"type": "usage_limit_reached", "message": "m", "resets_at": 1_800_003_600},
            "The usage limit of this account is reached. Try again after 2027-01-15 09:00 UTC.",
        ),
        (
            {"type": "usage_limit_reached", "resets_in_seconds": 60},
            "The usage limit of this account is reached. Try again after 2027-01-15 08:01 UTC.",
        ),
        ({"type": "usage_limit_reached", "resets_at": 1e300}, "The usage limit of this account is reached."),
        ({"type": "usage_not_included"}, "This account's plan does not include the use of this model."),
        ({"type": "usage_not_included", "message": "Upgrade."}, "Upgrade."),
    ],
)
async def test_a_spent_allowance_is_fatal_and_names_the_reset(serve, client_for, ask, error: dict, text: str) -> None:
    raised, _ = await failure(serve, client_for, ask, refuse(429, {"error": error}))
    assert (type(raised), str(raised), raised.info) == (ModelError, text, "usage_limit_exceeded")


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "The image data you provided does not represent a valid image."}},
        {"error": {"message": "nope", "code": "invalid_image_format"}},
    ],
)
async def test_a_refused_image_can_be_told_from_other_bad_requests(serve, client_for, ask, body: dict) -> None:
    error, _ = await failure(serve, client_for, ask, refuse(400, body))
    assert (type(error), error.info) == (ImageRejected, "bad_request")


async def test_a_bad_request_about_the_window_is_told_as_such(serve, client_for, ask) -> None:
    error, _ = await failure(serve, client_for, ask, refuse(400, {"error": {"code": "context_length_exceeded"}}))
    assert (type(error), error.info) == (ModelError, "context_window_exceeded")


async def test_redirects_are_not_followed(serve, client_for, ask) -> None:
    error, server = await failure(serve, client_for, ask, refuse(307, b"", {"location": "http://b.test/v2"}))
    assert isinstance(error, ModelError) and len(server.requests) == 1
    assert "307 Temporary Redirect and points to http://b.test/v2; redirects are not followed" in str(error)


FAILED = [
    (
        {"code": "context_length_exceeded"},
        ModelError,
        "ran out of room in the model's context window",
        "context_window_exceeded",
    ),
    ({"code": "insufficient_quota", "message": "q"}, ModelError, "quota", "usage_limit_exceeded"),
    ({"code": "usage_not_included", "message": "Not in plan."}, ModelError, "^Not in plan.$", "usage_limit_exceeded"),
    ({"code": "invalid_prompt", "message": "Flagged."}, ModelError, "^Flagged.$", "bad_request"),
    (
        {"code": "rate_limit_exceeded", "message": "try again in 1.5s"},
        StreamDropped,
        "^rate limit exceeded: try",
        DISCONNECTED,
    ),
    (
        {"code": "server_error", "message": "hiccup"},
        StreamDropped,
        "^stream disconnected before completion: hiccup$",
        DISCONNECTED,
    ),
    ({}, StreamDropped, "^stream disconnected before completion: the server gave no reason$", DISCONNECTED),
]


@pytest.mark.parametrize(("error", "kind", "text", "info"), FAILED, ids=lambda value: str(value)[:40])
async def test_a_failed_response_means_what_the_table_says(
    serve, client_for, ask, error: dict, kind: type, text: str, info: Any
) -> None:
    server = await serve(fail_with(**error))
    client = client_for(server)
    for _ in range(2):
        with pytest.raises(kind, match=text) as caught:
            await ask(client)
        assert (type(caught.value), caught.value.info) == (kind, info)
    assert server.connections == 1


async def test_a_rate_limited_response_waits_as_its_message_says(serve, client_for, ask) -> None:
    error, _ = await failure(
        serve, client_for, ask, fail_with(code="rate_limit_exceeded", message="Please try again in 1.5s.")
    )
    assert error.delay_s == 1.5


async def test_an_incomplete_response_is_fatal(serve, client_for, ask) -> None:
    async def handler(peer) -> None:
        await peer.stream(
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}}
        )

    error, _ = await failure(serve, client_for, ask, handler)
    assert (type(error), str(error)) == (ModelError, "Incomplete response returned, reason: max_output_tokens")


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([{"type": "response.created"}], "stream closed before response.completed"),
        ([{"type": "error", "code": "x", "message": "backend fell over"}], "backend fell over"),
        ([{"type": "error", "error": {"message": "nested words"}}], "nested words"),
    ],
)
async def test_a_stream_that_ends_early_says_why(serve, client_for, ask, events: list, reason: str) -> None:
    async def handler(peer) -> None:
        await peer.stream(*events)

    error, _ = await failure(serve, client_for, ask, handler)
    text = f"stream disconnected before completion: {reason}"
    assert (type(error), str(error), error.final, error.info) == (StreamDropped, text, text, DISCONNECTED)


async def test_a_page_instead_of_a_stream_is_named(serve, client_for, ask) -> None:
    handler = refuse(200, b"<html>", {"content-type": "text/html; charset=utf-8"})
    error, _ = await failure(serve, client_for, ask, handler)
    assert str(error).endswith("(the server answered with text/html)")


async def test_a_connection_cut_in_mid_stream_is_a_dropped_stream(serve, client_for, ask) -> None:
    async def handler(peer) -> None:
        await peer.begin_sse()
        await peer.event({"type": "response.created"})
        peer.cut()

    error, _ = await failure(serve, client_for, ask, handler)
    assert isinstance(error, StreamDropped) and error.info == DISCONNECTED
    assert str(error).startswith("stream disconnected before completion: ")


async def test_invalid_utf8_is_a_dropped_stream(serve, client_for, ask) -> None:
    async def handler(peer) -> None:
        await peer.begin_sse()
        await peer.chunk(b'data: {"type":"response.in_progress","x":"\xff\xfe"}\n\n')
        await peer.event(DONE)
        await peer.end()

    error, _ = await failure(serve, client_for, ask, handler)
    assert isinstance(error, StreamDropped) and "not valid UTF-8" in str(error)


async def test_items_that_came_before_a_failure_in_the_same_packet_are_not_lost(serve, client_for, question) -> None:
    item = {"type": "message", "id": "msg_1"}

    async def handler(peer) -> None:
        await peer.begin_sse()
        done = b'data: {"type":"response.output_item.done","item":{"type":"message","id":"msg_1"}}\n\n'
        await peer.chunk(done + b'data: {"type":"response.failed","response":{}}\n\n')
        await peer.end()

    seen = []
    with pytest.raises(StreamDropped):
        async for event in client_for(await serve(handler)).stream(question):
            seen.append(event)
    assert seen == [ItemDone(item, "msg_1")]


# ---- keys ------------------------------------------------------------------------------------------


async def test_a_missing_key_variable_is_fatal_and_shows_the_providers_hint(serve, client_for, ask) -> None:
    for environ in ({}, {"LAB_KEY": "  "}):
        credential = EnvCredential("LAB_KEY", "Ask the lab for one.", environ)
        with pytest.raises(ModelError, match=r"^Missing environment variable: `LAB_KEY`. Ask the lab for one.$"):
            await ask(client_for("http://127.0.0.1:9/v1", credential=credential))


class Renewable:
    """A login that can be renewed."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)

    def authorization(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.tokens[0]}"}

    async def refresh(self) -> bool:
        if len(self.tokens) == 1:
            return False
        self.tokens.pop(0)
        return True

    def secrets(self) -> list[str]:
        return self.tokens


async def test_a_login_is_renewed_once_after_401(serve, client_for, ask) -> None:
    async def answer(peer) -> None:
        await peer.stream({"type": "response.created"}, DONE)

    server = await serve(refuse(401), answer)
    assert await ask(client_for(server, credential=Renewable("old", "new"))) == [Created(None), Completed("r")]
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer old", "Bearer new"]


async def test_a_second_401_is_told(serve, client_for, ask) -> None:
    server = await serve(refuse(401, b"expired"))
    with pytest.raises(StreamDropped, match=r"unexpected status 401 Unauthorized: expired"):
        await ask(client_for(server, credential=Renewable("old", "new", "newer")))
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "handler",
    [
        refuse(400, f"key {KEY} is bad".encode()),
        refuse(403, f"key {KEY} is bad".encode()),
        refuse(503, {"error": {"message": f"key {KEY}"}}, {"x-request-id": KEY}),
        fail_with(code="server_error", message=f"key {KEY}"),
        fail_with(code="invalid_prompt", message=f"key {KEY}"),
    ],
)
async def test_the_key_never_stands_in_an_error(serve, client_for, ask, handler) -> None:
    error, _ = await failure(serve, client_for, ask, handler, credential=StaticCredential(KEY))
    shown = f"{error!r} {error} {getattr(error, 'final', '')}"
    assert KEY not in shown and "[redacted]" in shown


async def test_values_of_headers_from_the_environment_never_stand_in_an_error(serve, client_for, ask) -> None:
    settings = {"env_http_headers": {"api-key": "AZ"}, "environ": {"AZ": "azure-secret-1"}}
    error, server = await failure(serve, client_for, ask, refuse(403, b"azure-secret-1?"), **settings)
    assert server.requests[0].headers["api-key"] == "azure-secret-1"
    assert "azure-secret-1" not in str(error)


async def test_a_password_in_the_address_is_used_and_never_shown(serve, client_for, ask) -> None:
    server = await serve(refuse(403, b"no"))
    with pytest.raises(StreamDropped) as caught:
        base_url = server.base_url.replace("http://", "http://ann:hunter2@")
        await ask(client_for(base_url, credential=StaticCredential()))
    assert server.requests[0].headers["authorization"] == "Basic YW5uOmh1bnRlcjI="
    assert str(caught.value) == f"unexpected status 403 Forbidden: no, url: {server.base_url}/responses"


@pytest.mark.parametrize("base_url", ["not a url", "http://" + "x" * 70 + ".test/v1"])
async def test_an_impossible_address_is_told_by_the_two_errors_of_the_contract(client_for, ask, base_url: str) -> None:
    client = client_for(base_url)
    await client.warm()
    with pytest.raises((ModelError, StreamDropped)):
        await ask(client)


async def test_an_echoed_page_is_cut(serve, client_for, ask) -> None:
    error, _ = await failure(serve, client_for, ask, refuse(400, b"x" * 100_000))
    assert len(str(error)) == 2001 and str(error).endswith("x…")


def test_retry_settings_are_capped() -> None:
    provider = Provider(id="x", name="x", request_max_retries=1000, stream_max_retries=-1)
    assert (provider.request_retries, provider.stream_retries) == (100, 0)
