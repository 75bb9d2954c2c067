"""What a server may answer instead of an answer: how often it is asked, what people read, what machines read.

Every row goes through the app-server and a real HTTP server. The settings allow one retry of a request and one of a
stream, so a failure that may pass is asked for twice, one of the service itself four times, a final one once.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from app_server.client import Client
from fake_server import FakeServer, Turn, fails, refuses, sends_raw

ONCE, TWICE, FOUR_TIMES = 1, 2, 4
PAGE = {"content-type": "text/html; charset=utf-8"}
JSON = {"content-type": "application/json"}


class Row(NamedTuple):
    name: str
    answer: Turn
    asked: int
    info: Any
    says: tuple[str, ...]


def status(kind: str, code: int | None) -> dict[str, Any]:
    return {kind: {"httpStatusCode": code}}


def refused(code: int) -> dict[str, Any]:
    return status("httpConnectionFailed", code)


DISCONNECTED = status("responseStreamDisconnected", None)
TOO_MANY = status("responseTooManyFailedAttempts", 429)
KEY = "The key in FAKE_API_KEY (***) was not accepted: set FAKE_API_KEY to a valid key."
PATH = "check base_url in [model_providers.fake] (now http"
MODEL = "Did you mean gpt-5.2-codex"
QUOTA = ("The quota of this account is used up", "Check the plan and the billing", "the key in FAKE_API_KEY")


def error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


ROWS = [
    # ---- keys and rights
    Row(
        "401", refuses(401, error("Incorrect API key")), ONCE, "unauthorized", ("401 Unauthorized: Incorrect API", KEY)
    ),
    Row("401 empty", refuses(401), ONCE, "unauthorized", ("401 Unauthorized: no reason given, url: http", KEY)),
    Row("401 detail", refuses(401, {"detail": "Not authenticated"}), ONCE, "unauthorized", ("Not authenticated, url",)),
    Row(
        "404 said twice",
        refuses(404, {"detail": "Not Found"}),
        ONCE,
        refused(404),
        ("404 Not Found: Not Found, url: http", PATH),
    ),
    Row(
        "401 full stop",
        refuses(401, error("Bad key.")),
        ONCE,
        "unauthorized",
        ("401 Unauthorized: Bad key., url: http", KEY),
    ),
    Row(
        "403",
        refuses(403, error("no access"), headers={"x-request-id": "req_9"}),
        ONCE,
        refused(403),
        ("403 Forbidden: no access, url:", "request id: req_9", "The key in FAKE_API_KEY may not do this: check"),
    ),
    Row(
        "403 region",
        refuses(403, error("Country not supported", code="unsupported_country_region_territory")),
        ONCE,
        refused(403),
        ("Country not supported", "not offered where this computer seems to be"),
    ),
    Row(
        "403 Cloudflare",
        refuses(403, "<!DOCTYPE html><title>Just a moment...</title>", headers={**PAGE, "server": "cloudflare"}),
        ONCE,
        refused(403),
        ("a page of Cloudflare, “Just a moment...”", "Try without VPN or proxy"),
    ),
    Row(
        "407", refuses(407, "<html><h1>Proxy</h1>"), ONCE, refused(407), ("407 Proxy", "http://USER:PASSWORD@HOST:PORT")
    ),
    # ---- paths and models
    Row("404 path", refuses(404, "404 page not found"), ONCE, refused(404), ("404 page not found, url: http", PATH)),
    Row(
        "404 page", refuses(404, "<html><title>404 Not Found</title>"), ONCE, refused(404), (": a web page, url", PATH)
    ),
    Row("405", refuses(405, {"detail": "Method Not Allowed"}), ONCE, refused(405), ("Method Not Allowed", PATH)),
    Row(
        "404 model",
        refuses(404, error("The model `gpt-5.2-codx` does not exist", code="model_not_found")),
        ONCE,
        refused(404),
        ("does not exist, url", MODEL, "Choose a model with -m", "(there is: llama-9)"),
    ),
    Row("400 model", refuses(400, error("gpt-5.2-codx is not a valid model ID")), ONCE, "badRequest", (MODEL,)),
    Row(
        "404 Ollama's words",
        refuses(404, {"error": 'model "x" not found, try pulling it'}),
        ONCE,
        refused(404),
        (MODEL,),
    ),
    Row("failed model", fails("model_not_found", "no such model"), ONCE, "badRequest", ("no such model", MODEL)),
    # ---- money
    Row("402", refuses(402, error("Insufficient credits", code=402)), ONCE, "usageLimitExceeded", QUOTA),
    Row(
        "429 quota",
        refuses(429, error("You exceeded your current quota.", type="insufficient_quota", code="insufficient_quota")),
        ONCE,
        "usageLimitExceeded",
        (*QUOTA, "(429 Too Many Requests: You exceeded your current quota)"),
    ),
    Row("429 balance", refuses(429, error("Insufficient Balance")), ONCE, "usageLimitExceeded", QUOTA),
    Row("400 balance", refuses(400, error("Your credit balance is too low")), ONCE, "usageLimitExceeded", QUOTA),
    Row("failed quota", fails("insufficient_quota", "q"), ONCE, "usageLimitExceeded", QUOTA),
    Row(
        "429 usage limit",
        refuses(429, error("m", type="usage_limit_reached", plan_type="plus", resets_in_seconds=7190)),
        ONCE,
        "usageLimitExceeded",
        ("The usage limit of this account is reached (plan: plus); it resets at 20", "in 2 h", "Wait until then"),
    ),
    Row(
        "429 plan",
        refuses(429, error("Upgrade", type="usage_not_included")),
        ONCE,
        "usageLimitExceeded",
        ("Upgrade. C",),
    ),
    # ---- the request
    Row(
        "400", refuses(400, error("field-xyz is wrong")), ONCE, "badRequest", ("(400 Bad Request): field-xyz is wrong",)
    ),
    Row(
        "422 FastAPI",
        refuses(422, {"detail": [{"loc": ["body", "input", 0, "type"], "msg": "bad", "type": "enum"}]}),
        ONCE,
        "badRequest",
        ("422 Unprocessable Entity: input.0.type: bad, url",),
    ),
    Row("400 list", refuses(400, "[" + json.dumps(error("in a list")) + "]"), ONCE, "badRequest", ("): in a list",)),
    Row(
        "400 wrapped",
        refuses(400, error("Provider returned error", metadata={"raw": json.dumps(error("too hot"))})),
        ONCE,
        "badRequest",
        ("Provider returned error (too hot)",),
    ),
    Row("400 in text", refuses(400, error(json.dumps(error("innermost")))), ONCE, "badRequest", ("): innermost",)),
    Row(
        "400 message", refuses(400, {"error": "Bad", "message": "the sentence"}), ONCE, "badRequest", ("the sentence",)
    ),
    Row(
        "400 hostile",
        refuses(400, error("\x1b]0;own\x07\x1b[2Jred\x00\u202e" + "y" * 50_000)),
        ONCE,
        "badRequest",
        ("red\\u{0}\\u{202E}yyy", "yyy…"),
    ),
    Row("400 nested", refuses(400, "[" * 20_000), ONCE, "badRequest", ("): [[[[",)),
    Row(
        "context",
        refuses(400, error("x", code="context_length_exceeded")),
        ONCE,
        "contextWindowExceeded",
        ("context w",),
    ),
    Row(
        "context in words",
        refuses(400, error("This model's maximum context length is 8192 tokens")),
        ONCE,
        "contextWindowExceeded",
        ("ran out of room in the model's context window",),
    ),
    Row(
        "413", refuses(413, "<h1>413</h1>"), ONCE, "contextWindowExceeded", ("too large for the server", "413 Payload")
    ),
    # ---- what may pass
    Row(
        "408", refuses(408, error("slow")), TWICE, refused(408), ("408 Request Timeout: slow", "gave up after 1 retry")
    ),
    Row("409", refuses(409, error("again")), TWICE, refused(409), ("409 Conflict: again",)),
    Row(
        "429",
        refuses(429, error("slow down"), headers={"retry-after": "0"}),
        TWICE,
        TOO_MANY,
        ("exceeded retry limit, last status: 429 Too Many Requests: slow down", "wait a while"),
    ),
    Row(
        "429 quota a minute",
        refuses(429, error("exceeded your current quota; retry in 0.1s")),
        TWICE,
        TOO_MANY,
        ("429",),
    ),
    Row(
        "500",
        refuses(500, error("oops")),
        FOUR_TIMES,
        "internalServerError",
        ("under high demand", "500 Internal", "oops"),
    ),
    Row(
        "502 page",
        refuses(502, "<html><head><title>502 Bad Gateway</title></head></html>", headers=PAGE),
        FOUR_TIMES,
        "internalServerError",
        ("under high demand; try again later (last status: 502 Bad Gateway: a web page, url: http",),
    ),
    Row("529", refuses(529, error("Overloaded")), FOUR_TIMES, "internalServerError", ("529 Overloaded",)),
    Row("failed other", fails("server_error", "hiccup"), TWICE, DISCONNECTED, ("before completion: hiccup (gave up",)),
    Row(
        "error event",
        sends_raw(b'data: {"type":"error","code":"insufficient_quota","message":"spent"}\n\n'),
        ONCE,
        "usageLimitExceeded",
        QUOTA,
    ),
    # ---- no stream at all
    Row(
        "a captive portal",
        sends_raw(b"<html><title>Welcome to Hotel Wi-Fi</title>", headers=PAGE),
        ONCE,
        refused(200),
        ("answered with a web page instead of an event stream: Welcome to Hotel Wi-Fi", "sign in to the network"),
    ),
    Row(
        "JSON with an error",
        sends_raw(json.dumps(error("spent", code="insufficient_quota")).encode(), headers=JSON),
        ONCE,
        "usageLimitExceeded",
        QUOTA,
    ),
    Row(
        "JSON without one",
        sends_raw(b'{"object":"response"}', headers=JSON),
        TWICE,
        DISCONNECTED,
        ("the server answered with application/json instead of an event stream",),
    ),
    Row(
        "a redirect",
        refuses(307, headers={"location": "/v2"}),
        ONCE,
        refused(307),
        ("points to /v2. Redirects are not",),
    ),
]


def test_every_refusal_is_asked_for_so_often_and_says_this(client: Client, server: FakeServer) -> None:
    names = ["gpt-5.2-codex", "llama-9"]
    server.pages["/v1/models"] = Turn(status=200, body=json.dumps({"data": [{"id": name} for name in names]}).encode())
    wrong: list[str] = []
    for row in ROWS:
        server.otherwise(row.answer)
        before = len(server.turns_asked)
        done, seen = client.turn(client.start_thread(model="gpt-5.2-codx"), "hi")
        last = [message["params"] for message in seen if message.get("method") == "error"][-1]
        text, asked = done["error"]["message"], len(server.turns_asked) - before
        is_quota = row.says[0] == QUOTA[0]
        said = done["error"]["additionalDetails"] if is_quota else text
        missing = [part for part in row.says if part not in said]
        if is_quota and text != "Quota exceeded. Check your plan and billing details.":
            missing.append("the sentence by which clients know it")
        told = (done["status"], last["willRetry"], last["error"]["message"])
        if missing or (asked, done["error"]["codexErrorInfo"], *told) != (row.asked, row.info, "failed", False, text):
            wrong.append(f"{row.name}: asked {asked}, {done['error']['codexErrorInfo']}, lacks {missing}: {text}")
        # Harmless wherever it is shown, and never long.
        assert text.isprintable() and len(text) < 2000, row.name
    assert wrong == []
