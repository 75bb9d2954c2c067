"""How long to wait before asking again."""

from __future__ import annotations

import pytest

from spindle.errors import ModelError, StreamDropped
from spindle.model.client import Completed
from spindle.model.retry import asked_wait, backoff_s, parse_retry_after, parse_try_again
from spindle.model.sending import Sending
from spindle.protocol.clock import FixedClock

NOW = 1_800_000_000.0  # 2027-01-15 08:00:00 UTC


@pytest.mark.parametrize(("attempt", "middle"), [(1, 0.2), (2, 0.4), (3, 0.8), (5, 3.2), (30, 60.0), (100, 60.0)])
def test_the_wait_doubles_with_a_tenth_of_jitter_and_a_ceiling(attempt: int, middle: float) -> None:
    clock = FixedClock()
    waits = [backoff_s(attempt, clock) for _ in range(200)]
    assert middle * 0.9 <= min(waits) < middle * 0.93
    assert middle * 1.07 < max(waits) <= middle * 1.1


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("3", 3.0),
        (" 0.5 ", 0.5),
        ("-4", 0.0),
        ("99999", 60.0),
        ("Fri, 15 Jan 2027 08:00:30 GMT", 30.0),
        ("Friday, 15-Jan-27 08:00:30 GMT", 30.0),
        ("Fri Jan 15 08:00:30 2027", 30.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", 60.0),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_holds_seconds_or_a_date(header: str | None, wait: float | None) -> None:
    assert parse_retry_after(header, NOW) == wait


@pytest.mark.parametrize(
    ("date", "wait"),
    [("Fri, 15 Jan 2027 09:59:50 GMT", 15.0), ("Fri, 15 Jan 2027 11:00:00 GMT", 0.0), ("some day", 60.0), (None, 60.0)],
)
def test_a_date_is_judged_by_the_clock_of_the_server(date: str | None, wait: float) -> None:
    assert parse_retry_after("Fri, 15 Jan 2027 10:00:05 GMT", NOW, date) == wait


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after-ms": "nan"}, None),
        ({}, None),
    ],
)
def test_milliseconds_count_more_than_seconds(headers: dict[str, str], wait: float | None) -> None:
    assert asked_wait(headers, NOW) == wait


@pytest.mark.parametrize(
    ("message", "wait"),
    [
        ("Rate limit. Please try again in 1.5s.", 1.5),
        ("Try again in 250ms", 0.25),
        ("please try again in 20 seconds", 20.0),
        ("try again in 1 second", 1.0),
        ("try again in 1e9s", None),
        ("try again later", None),
        ("try again in 5 minutes", 60.0),
        ("Please try again in 1m2.5s. Visit", 60.0),
        ("Please try again in 0m12.5s.", 12.5),
        ("Please try again in 7m", 60.0),
        ("try again in 2h", 60.0),
        ("Please retry after 26 seconds.", 26.0),
        ("try again in 5 moons", None),
    ],
)
def test_a_wait_is_read_from_the_servers_sentence(message: str, wait: float | None) -> None:
    assert parse_try_again(message) == wait


# ---- who is told of it ------------------------------------------------------------------------------


class Watch:
    """A `RequestWatch` that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def before_body(self) -> None:
        self.told.append("before")

    def sent(self, sending: Sending) -> None:
        self.told.append("sent")

    def look(self) -> None:
        self.told.append("look")

    def unsent(self) -> None:
        self.told.append("unsent")

    def answered(self, response_id: str | None = None) -> None:
        self.told.append(f"answered {response_id}")


async def busy(peer) -> None:
    await peer.reply(503)


async def test_only_a_request_that_was_answered_in_vain_needs_leave_to_be_repeated(
    serve, client_for, ask, answer
) -> None:
    client = client_for(await serve(busy, answer), request_max_retries=1)
    leave: list[str] = []
    client.before_retry = lambda: leave.append("asked")
    assert Completed("r") in await ask(client)
    assert leave == ["asked"]

    nowhere = client_for("http://127.0.0.1:1/v1", request_max_retries=1)
    nowhere.before_retry = client.before_retry
    with pytest.raises(StreamDropped):
        await ask(nowhere)
    assert leave == ["asked"]


async def test_who_objects_to_a_repetition_is_heard(serve, client_for, ask, answer) -> None:
    def objects() -> None:
        raise ModelError("enough")

    server = await serve(busy, answer)
    client = client_for(server, request_max_retries=1)
    client.before_retry = objects
    with pytest.raises(ModelError, match=r"^enough$"):
        await ask(client)
    assert len(server.requests) == 1


async def test_a_body_that_reached_no_server_is_reported_as_unsent(serve, client_for, ask, answer) -> None:
    nowhere, client = client_for("http://127.0.0.1:1/v1"), client_for(await serve(answer))
    for of_client in (nowhere, client):
        of_client.watch = Watch()
    with pytest.raises(StreamDropped):
        await ask(nowhere)
    assert nowhere.watch.told[-2:] == ["unsent", "answered None"]
    await ask(client)
    assert client.watch.told == ["before", "sent", "look", "answered r", "answered None"]
