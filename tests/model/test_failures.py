"""The whole table of what a server may answer instead of an answer. Each row through the client, over a real socket."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from spindle.errors import ImageRejected, ModelError, StreamDropped, WindowFull
from spindle.model.client import Completed, Created, ItemDone
from spindle.model.credential import EnvCredential, KeyOrigin, StaticCredential
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
    # status, body, kind, message ({url} is put in), info
    (
        400,
        {"error": {"message": "no"}},
        ModelError,
        "The server refused the request (400 Bad Request): no",
        "bad_request",
    ),
    (400, b"plain words", ModelError, "The server refused the request (400 Bad Request): plain words", "bad_request"),
    (
        400,
        b"",
        ModelError,
        "The server refused the request (400 Bad Request): no reason given, url: {url}",
        "bad_request",
    ),
    (
        401,
        {"error": {"message": "bad key"}},
        ModelError,
        "unexpected status 401 Unauthorized: bad key, url: {url}. The key (***) was not accepted: use another one.",
        "unauthorized",
    ),
    (
        403,
        b"go away",
        ModelError,
        "unexpected status 403 Forbidden: go away, url: {url}. The key may not do this: check the rights, the project "
        "and the region of the account, and whether it may use gpt-5.2-codex, or use another key.",
        status_info("http_connection_failed", 403),
    ),
    (
        404,
        b"nothing here",
        ModelError,
        "unexpected status 404 Not Found: nothing here, url: {url}. There is no such path on the server: check "
        "base_url in [model_providers.lab] (now {base}). The server must offer the Responses API, POST /responses, "
        "or wire_api must name the one it offers: responses, chat or messages.",
        status_info("http_connection_failed", 404),
    ),
    (
        422,
        {"detail": [{"loc": ["body", "tools", 0], "msg": "bad tool"}]},
        ModelError,
        "unexpected status 422 Unprocessable Entity: tools.0: bad tool, url: {url}",
        "bad_request",
    ),
]


@pytest.mark.parametrize("row", STATUSES, ids=lambda row: str(row[0]))
async def test_a_final_status_is_told_in_full(serve, client_for, ask, row: tuple) -> None:
    status, body, kind, message, info = row
    error, server = await failure(serve, client_for, ask, refuse(status, body), request_max_retries=3)
    text = message.format(url=f"{server.base_url}/responses", base=server.base_url)
    assert (type(error), str(error), error.info, len(server.requests)) == (kind, text, info, 1)


PASSING = [
    # status, body, message ({url} is put in), final or None when it is the message, info
    (
        429,
        {"error": {"message": "slow"}},
        "429 Too Many Requests: slow",
        "exceeded retry limit, last status: 429 Too Many Requests: slow",
        status_info("response_too_many_failed_attempts", 429),
    ),
    (
        503,
        {"error": {"message": "busy"}},
        "unexpected status 503 Service Unavailable: busy, url: {url}",
        "The model service is under high demand; try again later (last status: 503 Service Unavailable: busy, "
        "url: {url})",
        "internal_server_error",
    ),
    (
        418,
        b"",
        "unexpected status 418 I'm a Teapot: no reason given, url: {url}",
        None,
        status_info("http_connection_failed", 418),
    ),
]


@pytest.mark.parametrize("row", PASSING, ids=lambda row: str(row[0]))
async def test_a_status_that_may_pass_is_told_in_full(serve, client_for, ask, row: tuple) -> None:
    status, body, message, final, info = row
    error, server = await failure(serve, client_for, ask, refuse(status, body))
    url = f"{server.base_url}/responses"
    text, last = message.format(url=url), (final or message).format(url=url)
    assert (type(error), str(error), error.final, error.delay_s, error.info) == (StreamDropped, text, last, None, info)


async def test_the_request_id_is_appended(serve, client_for, ask) -> None:
    headers = {"x-request-id": "req_7"}
    for status, body, text in [
        (404, b"gone", "unexpected status 404 Not Found: gone, url: {url}, request id: req_7. "),
        (400, b"bad", "The server refused the request (400 Bad Request, request id: req_7): bad"),
        (429, b"", "exceeded retry limit, last status: 429 Too Many Requests, request id: req_7"),
    ]:
        error, server = await failure(serve, client_for, ask, refuse(status, body, headers))
        shown = error.final if isinstance(error, StreamDropped) else str(error)
        assert shown.startswith(text.format(url=f"{server.base_url}/responses"))


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


async def test_a_long_wait_is_left_to_the_turn_which_tells_of_it(serve, client_for, ask) -> None:
    busy = refuse(503, b"", {"retry-after": "7"})
    async with asyncio.timeout(4):
        error, server = await failure(serve, client_for, ask, busy, request_max_retries=3)
    assert (error.delay_s, len(server.requests)) == (7.0, 1)


async def test_a_wait_in_milliseconds_is_kept_to(serve, client_for, ask) -> None:
    error, _ = await failure(serve, client_for, ask, refuse(429, b"", {"retry-after-ms": "700", "retry-after": "1"}))
    assert error.delay_s == 0.7


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Winter time there is an hour ahead of UTC; no zone files are needed for this spelling."""
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            {"type": "usage_limit_reached", "message": "m", "resets_at": 1_800_003_600, "plan_type": "plus"},
            "The usage limit of this account is reached (plan: plus); it resets at 2027-01-15 10:00 CET, in 1 h. ",
        ),
        (
            {"type": "usage_limit_reached", "resets_in_seconds": 60 * 61, "plan_type": "\u001b[2J"},
            "The usage limit of this account is reached; it resets at 2027-01-15 10:01 CET, in 1 h 1 min. ",
        ),
        (
            {"code": "usage_limit_reached", "resets_in_seconds": 86400 * 3 + 7230},
            "The usage limit of this account is reached; it resets at 2027-01-18 11:00 CET, in 3 d 2 h. ",
        ),
        (
            {"type": "usage_limit_reached", "resets_at": 1e300},
            "The usage limit of this account is reached. Wait until it resets, ",
        ),
        ({"type": "usage_not_included"}, "This account's plan does not include the use of this model. Check the plan"),
        ({"type": "usage_not_included", "message": "Upgrade."}, "Upgrade. Check the plan"),
    ],
)
async def test_a_spent_allowance_is_fatal_and_names_the_reset(serve, client_for, ask, error: dict, text: str) -> None:
    raised, _ = await failure(serve, client_for, ask, refuse(429, {"error": error}))
    assert (type(raised), raised.info) == (ModelError, "usage_limit_exceeded")
    assert str(raised).startswith(text)


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
    assert (type(error), error.info) == (WindowFull, "context_window_exceeded")


async def test_redirects_are_not_followed(serve, client_for, ask) -> None:
    error, server = await failure(serve, client_for, ask, refuse(307, b"", {"location": "http://b.test/v2"}))
    assert isinstance(error, ModelError) and len(server.requests) == 1
    assert "307 Temporary Redirect and points to http://b.test/v2. Redirects are not followed" in str(error)


FAILED = [
    (
        {"code": "context_length_exceeded"},
        WindowFull,
        "ran out of room in the model's context window",
        "context_window_exceeded",
    ),
    ({"code": "insufficient_quota", "message": "q"}, ModelError, "quota", "usage_limit_exceeded"),
    (
        {"code": "usage_not_included", "message": "Not in plan."},
        ModelError,
        "^Not in plan. Check",
        "usage_limit_exceeded",
    ),
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


async def test_a_page_instead_of_a_stream_is_final_and_named(serve, client_for, ask) -> None:
    page = b"<html><title>Hotel &amp; Wi-Fi: sign in</title>" + b"x" * 200_000
    handler = refuse(200, page, {"content-type": "text/html; charset=utf-8"})
    error, server = await failure(serve, client_for, ask, handler, request_max_retries=3)
    start = f"{server.base_url}/responses answered with a web page instead of an event stream: Hotel & Wi-Fi: sign in. "
    assert type(error) is ModelError and str(error).startswith(start) and "HTTPS_PROXY" in str(error)
    assert len(server.requests) == 1


async def test_a_stream_with_the_wrong_name_is_read_all_the_same(serve, client_for, ask) -> None:
    async def handler(peer) -> None:
        await peer.stream(DONE, headers={"content-type": "text/html"})

    assert await ask(client_for(await serve(handler))) == [Completed("r")]


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
    assert [event.item for event in seen if isinstance(event, ItemDone)] == [item] and len(seen) == 1


# ---- keys ------------------------------------------------------------------------------------------


async def test_a_missing_key_variable_is_fatal_and_shows_the_providers_hint(serve, client_for, ask) -> None:
    for environ in ({}, {"LAB_KEY": "  "}):
        credential = EnvCredential("LAB_KEY", "Ask the lab for one.", environ)
        with pytest.raises(ModelError, match=r"^Missing environment variable: `LAB_KEY`. Ask the lab for one.$"):
            await ask(client_for("http://127.0.0.1:9/v1", credential=credential))


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({}, "Missing environment variable: `LAB_KEY`. Give it the key, for example with `export LAB_KEY=KEY`."),
        (
            {"LAB_KEY": " "},
            "Missing environment variable: `LAB_KEY`. It is set, but empty: give it the key, for example with "
            "`export LAB_KEY=KEY`.",
        ),
        ({"LAB_KEY": '"sk-1234"'}, "The key in LAB_KEY is in quotation marks: remove them."),
        (
            {"LAB_KEY": "sk-12\n34"},
            "The key in LAB_KEY contains a line break or another control character: set it again.",
        ),
    ],
)
async def test_a_variable_that_holds_no_key_is_told_before_any_request(
    client_for, ask, environ: dict[str, str], text: str
) -> None:
    client = client_for("http://127.0.0.1:9/v1", credential=EnvCredential("LAB_KEY", None, environ))
    with pytest.raises(ModelError) as caught:
        await ask(client)
    assert str(caught.value) == text


async def test_blanks_and_line_ends_around_a_key_are_not_sent(serve, client_for, ask, answer) -> None:
    server = await serve(answer)
    await ask(client_for(server, credential=EnvCredential("LAB_KEY", None, {"LAB_KEY": " sk-1234\r\n"})))
    assert server.requests[0].headers["authorization"] == "Bearer sk-1234"


class Renewable:
    """A login that can be renewed."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)

    def authorization(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.tokens[0]}"}

    async def prepare(self) -> None:
        """It is as good as it was."""

    async def refresh(self) -> bool:
        if len(self.tokens) == 1:
            return False
        self.tokens.pop(0)
        return True

    def secrets(self) -> list[str]:
        return self.tokens

    def origin(self) -> KeyOrigin:
        return KeyOrigin(place="the sign-in", remedy="sign in again", is_login=True)


async def test_a_login_is_renewed_once_after_401(serve, client_for, ask) -> None:
    async def answer(peer) -> None:
        await peer.stream({"type": "response.created"}, DONE)

    server = await serve(refuse(401), answer)
    assert await ask(client_for(server, credential=Renewable("old", "new"))) == [Created(None), Completed("r")]
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer old", "Bearer new"]


async def test_a_second_401_is_told(serve, client_for, ask) -> None:
    server = await serve(refuse(401, b"expired"))
    with pytest.raises(ModelError, match=r"401 Unauthorized: expired.* The sign-in was not accepted: sign in again\.$"):
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


@pytest.mark.parametrize(
    ("status", "words"), [(403, "403 Forbidden"), (404, "404 Not Found"), (400, "400 Bad Request")]
)
async def test_a_password_in_the_address_is_used_and_never_shown(serve, client_for, ask, status, words) -> None:
    server = await serve(refuse(status, b"who is ann:hunter2?"))
    with pytest.raises(ModelError) as caught:
        base_url = server.base_url.replace("http://", "http://ann:hunter2@")
        await ask(client_for(base_url, credential=StaticCredential()))
    assert server.requests[0].headers["authorization"] == "Basic YW5uOmh1bnRlcjI="
    assert words in str(caught.value) and "hunter2" not in str(caught.value)


@pytest.mark.parametrize("base_url", ["not a url", "http://" + "x" * 70 + ".test/v1"])
async def test_an_impossible_address_is_told_by_the_two_errors_of_the_contract(client_for, ask, base_url: str) -> None:
    client = client_for(base_url)
    await client.warm()
    with pytest.raises((ModelError, StreamDropped)):
        await ask(client)


async def test_an_echoed_page_is_cut(serve, client_for, ask) -> None:
    error, _ = await failure(serve, client_for, ask, refuse(400, b"x" * 100_000))
    assert len(str(error)) < 1100 and str(error).endswith("x…")


def test_retry_settings_are_capped() -> None:
    provider = Provider(id="x", name="x", request_max_retries=1000, stream_max_retries=-1)
    assert (provider.request_retries, provider.stream_retries) == (100, 0)


# ---- advice ----------------------------------------------------------------------------------------


async def test_a_server_without_a_list_of_models_is_advised_from_the_catalogue(serve, client_for, ask) -> None:
    error = {"error": {"message": "The model `gpt-5.2-codx` does not exist", "code": "model_not_found"}}
    failed, server = await failure(serve, client_for, ask, refuse(404, error), id="openai", request_max_retries=3)
    assert [request.target for request in server.requests] == ["/v1/responses", "/v1/models"]
    assert "Did you mean gpt-5.2-codex" in str(failed)
    failed, _ = await failure(serve, client_for, ask, refuse(404, error))
    assert str(failed).endswith(". Choose a model with -m MODEL or `model` in config.toml.")


NO_SUCH_MODEL = [
    (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: gpt-5.2-codex"}}),  # Anthropic
    (404, {"error": {"message": "No endpoints found for gpt-5.2-codex.", "code": 404}}),  # OpenRouter
    (404, {"error": {"message": "Unable to access model gpt-5.2-codex.", "code": "model_not_available"}}),  # Together
    (400, {"error": {"message": "Model Not Exist", "code": "invalid_request_error"}}),  # DeepSeek
    (400, {"message": "The provided model identifier is invalid."}),  # Bedrock
    (400, {"error": {"message": "BadRequestError: LLM Provider NOT provided. You passed model=gpt-5.2-codex"}}),
    (400, {"detail": "Unsupported model"}),
]
"""How servers say that they do not have a model."""


@pytest.mark.parametrize(("status", "body"), NO_SUCH_MODEL)
async def test_however_a_server_says_that_it_lacks_the_model_the_advice_is_to_choose_one(
    serve, client_for, ask, status: int, body: dict
) -> None:
    error, _ = await failure(serve, client_for, ask, refuse(status, body), request_max_retries=3)
    assert str(error).endswith(". Choose a model with -m MODEL or `model` in config.toml."), str(error)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (404, "Cannot POST /deployments/gpt-5.2-codex/responses"),
        (400, "tools: gpt-5.2-codex takes at most 128"),
        (400, "This model does not support images; the setting is not valid"),
    ],
)
async def test_a_sentence_that_only_names_the_model_is_not_about_a_missing_one(
    serve, client_for, ask, status: int, said: str
) -> None:
    error, _ = await failure(serve, client_for, ask, refuse(status, {"error": {"message": said}}))
    assert "Choose a model" not in str(error)


async def test_a_key_that_is_refused_by_another_status_than_401_is_told_like_one(serve, client_for, ask) -> None:
    said = "API key not valid. Please pass a valid API key."
    for status in (400, 403):
        error, _ = await failure(serve, client_for, ask, refuse(status, {"error": {"message": said}}))
        assert (error.info, str(error).endswith("The key (***) was not accepted: use another one.")) == (
            "unauthorized",
            True,
        )


async def test_money_that_is_spent_is_told_as_such_with_any_status(serve, client_for, ask) -> None:
    for status, said in ((403, "Your newly created team doesn't have any credits yet."), (429, "余额不足，请充值。")):
        error, server = await failure(serve, client_for, ask, refuse(status, {"error": {"message": said}}))
        assert str(error).startswith("The quota of this account is used up (") and len(server.requests) == 1


async def test_a_key_in_the_query_of_an_address_never_stands_in_an_error(serve, client_for, ask) -> None:
    params = {"api-version": "2024-06-01", "api_key": "hunter2hunter2"}
    failed, _ = await failure(serve, client_for, ask, refuse(404, b"?"), query_params=params)
    assert "hunter2" not in str(failed) and "api-version=2024-06-01" in str(failed)


async def test_silence_and_an_early_end_say_what_to_look_at_when_given_up(serve, client_for, ask) -> None:
    async def silent(peer) -> None:
        await peer.begin_sse()
        await asyncio.sleep(60)

    async def ends(peer) -> None:
        await peer.stream({"type": "response.created"})

    for handler, advice in (
        (silent, "Nothing came for 0.2 s: .* stream_idle_timeout_ms .now 200.\\.$"),
        (ends, "The server, or a proxy before it, ends the answer too soon: look into its log\\.$"),
    ):
        failed, _ = await failure(serve, client_for, ask, handler, stream_idle_timeout_ms=200)
        assert re.search(rf"\(gave up after 2 retries\)\. {advice}", str(failed.given_up(2)))
