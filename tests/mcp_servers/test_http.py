"""Servers behind an address, over real HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from installed import wait_for
from mcp_servers.http_stub import HttpStub
from mcp_servers.kit import of_servers, servers
from mcp_servers.test_servers import warnings
from sessions import Driver, Start, outputs
from spindle.model.scripted import calls, says
from spindle.protocol.events import Warning
from spindle.protocol.ops import Interrupt


@pytest.fixture
def remote() -> Iterator[HttpStub]:
    with HttpStub() as running:
        yield running


async def opened(start: Start, remote: HttpStub, *steps: Any, **entry: Any) -> Driver:
    return await start(*steps, config=servers(web={"url": remote.url, **entry}))


CALL = calls("mcp__web__a", {"text": "hello"}, "c1")


@pytest.mark.parametrize("by_events", [False, True])
async def test_a_call_goes_there_and_back(start: Start, remote: HttpStub, by_events: bool) -> None:
    remote.answers_by_events = by_events
    driver = await opened(start, remote, CALL, says("done"))
    await driver.turn("hi")
    assert of_servers(driver.model.requests[0]) == ["mcp__web__a"]
    assert outputs(driver.inputs[-1])["c1"].endswith("said hello")
    assert remote.methods() == ["initialize", "notifications/initialized", "tools/list", "tools/call"]
    _, first, _ = remote.requests[0]
    assert first["accept"] == "application/json, text/event-stream"
    assert "mcp-session-id" not in first and "mcp-protocol-version" not in first
    last = next(headers for method, headers, message in remote.requests if message.get("method") == "tools/call")
    assert (last["mcp-session-id"], last["mcp-protocol-version"]) == ("session-1", "2025-06-18")


async def test_the_session_is_given_back_at_the_end(start: Start, remote: HttpStub) -> None:
    driver = await opened(start, remote, says("done"))
    await driver.turn("hi")
    await driver.close()
    method, headers, _ = remote.requests[-1]
    assert (method, headers["mcp-session-id"]) == ("DELETE", "session-1")


async def test_headers_and_token_come_from_the_entry_and_the_environment(
    start: Start, remote: HttpStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEB_TOKEN", "t0ken-of-the-server")
    monkeypatch.setenv("TRACE", "abc")
    remote.token = "t0ken-of-the-server"
    driver = await opened(
        start,
        remote,
        CALL,
        says("done"),
        bearer_token_env_var="WEB_TOKEN",
        http_headers={"X-Team": "blue"},
        env_http_headers={"X-Trace": "TRACE", "X-Unset": "NOT_SET_ANYWHERE"},
    )
    await driver.turn("hi")
    assert outputs(driver.inputs[-1])["c1"].endswith("said hello")
    _, headers, _ = remote.requests[0]
    assert (headers["x-team"], headers["x-trace"], "x-unset" in headers) == ("blue", "abc", False)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        (None, "", "it wants to know who you are; sign in with `spindle mcp login web`"),
        ("WEB_TOKEN", "", "the variable WEB_TOKEN with its token is not set"),
        ("WEB_TOKEN", "wrong", "it refuses the token of the variable WEB_TOKEN (status 401)"),
    ],
)
async def test_who_is_not_let_in_is_told_what_to_do(
    start: Start, remote: HttpStub, monkeypatch: pytest.MonkeyPatch, variable: str | None, value: str, said: str
) -> None:
    monkeypatch.setenv("WEB_TOKEN", value)
    remote.token = "right"
    driver = await opened(start, remote, says("done"), **({"bearer_token_env_var": variable} if variable else {}))
    await driver.turn("hi")
    assert warnings(driver) == [f"MCP server web is missing: {said}"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((500, {}, b"out of order"), "it answers with status 500: out of order"),
        ((403, {}, b'{"error": {"message": "go\\u202e away"}}'), "it answers with status 403: go\\u{202E} away"),
        ((404, {}, b"<html>nothing here</html>"), "it answers with status 404"),
        (
            (307, {"location": "https://elsewhere.example/mcp"}, b""),
            "it answers with status 307: the server is at https://elsewhere.example/mcp now; put that into its `url`",
        ),
        ((200, {"content-type": "application/json"}, b"{not json"), "the server's answer is not JSON"),
        ((200, {"content-type": "text/html"}, b""), "the server closed its answer before it had said anything"),
        (
            (200, {"content-type": "text/event-stream"}, b": nothing\n\n"),
            "the server closed its answer before it had said anything",
        ),
        (
            (200, {"content-type": "application/json"}, b'{"jsonrpc": "2.0", "id": 99, "result": {}}'),
            "the server closed its answer before it had said anything",
        ),
    ],
)
async def test_whatever_a_broken_server_answers_becomes_a_sentence(
    start: Start, remote: HttpStub, answer: tuple[int, dict[str, str], bytes], said: str
) -> None:
    remote.override = lambda message: answer
    driver = await opened(start, remote, says("done"))
    await driver.turn("hi")
    assert warnings(driver) == [f"MCP server web is missing: {said}"]


async def test_nobody_at_the_address_is_a_sentence_too(start: Start) -> None:
    driver = await start(says("done"), config=servers(web={"url": "http://127.0.0.1:9/mcp"}))
    await driver.turn("hi")
    [said] = warnings(driver)
    assert said.startswith("MCP server web is missing: cannot connect to 127.0.0.1:9")


async def test_an_ended_session_is_begun_anew_with_the_next_call(start: Start, remote: HttpStub) -> None:
    driver = await opened(start, remote, says("one"))
    await driver.turn("hi")
    remote.expired.add("session-1")
    await driver.turn("again", CALL, calls("mcp__web__a", {"text": "again"}, "c2"), says("two"))
    assert outputs(driver.inputs[-1])["c1"] == 'err: "the server has ended the session"'
    assert outputs(driver.inputs[-1])["c2"].endswith("said again")
    assert len({request.raw.tools for request in driver.model.requests}) == 1


async def test_what_the_server_says_by_itself_is_heard(start: Start, remote: HttpStub) -> None:
    remote.has_stream = True
    remote.said = [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]
    driver = await opened(start, remote)
    told = await driver.until(Warning)
    assert isinstance(told, Warning) and told.message.startswith("MCP server web has other tools by now")


async def test_a_stream_that_ends_is_opened_again(start: Start, remote: HttpStub) -> None:
    remote.has_stream = True
    remote.stop.set()  # so it ends at once
    driver = await opened(start, remote, says("done"))
    await driver.turn("hi")
    async with asyncio.timeout(20):
        while len([method for method, _, _ in remote.requests if method == "GET"]) < 2:
            await asyncio.sleep(0.02)


async def test_an_interrupted_call_is_told_to_the_server(start: Start, remote: HttpStub) -> None:
    has_come = threading.Event()

    def hold(message: Any) -> None:
        if message.get("method") == "tools/call":
            has_come.set()
            remote.stop.wait(20)

    remote.override = hold
    driver = await opened(start, remote, CALL)
    sub_id = driver.begin("hi")
    assert await asyncio.to_thread(has_come.wait, 20)
    driver.submit(Interrupt())
    await driver.end_of(sub_id)
    remote.stop.set()
    told = "notifications/cancelled"
    await asyncio.to_thread(wait_for, lambda: told in remote.methods(), "the server was not told")


@pytest.mark.parametrize(("address", "is_said"), [("http://mcp.invalid/mcp", True), ("https://mcp.invalid/mcp", False)])
async def test_a_token_that_is_sent_without_encryption_is_said(
    start: Start, monkeypatch: pytest.MonkeyPatch, address: str, is_said: bool
) -> None:
    monkeypatch.setenv("WEB_TOKEN", "a-token-for-the-web")
    entry = {"url": address, "bearer_token_env_var": "WEB_TOKEN", "startup_timeout_sec": 5}
    driver = await start(says("done"), config=servers(web=entry))
    await driver.turn("hi")
    said = [text for text in warnings(driver) if "without encryption" in text]
    assert len(said) == int(is_said) and all("MCP server web" in text for text in said)
