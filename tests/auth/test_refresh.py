"""Renewing a ChatGPT sign-in: once, whoever needs it; never losing what is stored; and a sentence when it is over."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, Turn
from installed import wait_for
from login_service import CLIENT_ID, LoginService, token
from spindle.auth.credentials import ChatGptCredential, sign_in
from spindle.auth.refresh import NotStored
from spindle.auth.store import read_login
from spindle.errors import StreamDropped
from spindle.model.credential import Credential
from spindle.model.provider import LoginSettings, Provider
from spindle.protocol.clock import FixedClock, SystemClock

OPENAI = Provider(id="openai", name="OpenAI", requires_openai_auth=True)


@pytest.fixture
def service() -> Iterator[LoginService]:
    with LoginService() as running:
        yield running
    assert running.problems == []


def credential(service: LoginService, home: Path, clock: Any = None, **env: str) -> ChatGptCredential:
    settings = LoginSettings(home=str(home), issuer=service.issuer)
    made = sign_in(OPENAI, settings, environ=env, clock=clock or SystemClock()).credential
    assert isinstance(made, ChatGptCredential)
    return made


def bearer(made: ChatGptCredential) -> str:
    return made.authorization()["authorization"].removeprefix("Bearer ")


async def why_not(made: Credential) -> str:
    """It cannot be renewed: why."""
    assert not await made.refresh()
    return made.origin().refusal


def stored(home: Path) -> dict[str, Any]:
    path = home / "auth.json"
    assert path.stat().st_mode & 0o777 == 0o600
    return json.loads(path.read_text())


# ---- renewing ------------------------------------------------------------------------------------


async def test_tokens_are_renewed_and_stored_with_everything_else_kept(service: LoginService, tmp_path: Path) -> None:
    before = service.store(tmp_path, custom="kept")
    made = credential(service, tmp_path)
    assert await made.refresh()
    assert service.refreshes == [{"client_id": CLIENT_ID, "grant_type": "refresh_token", "refresh_token": "rt-1"}]
    kept = stored(tmp_path)
    assert kept["custom"] == "kept" and kept["last_refresh"] > before["last_refresh"]
    assert kept["tokens"]["refresh_token"] == "rt-2" and kept["tokens"]["account_id"] == "acc-1"
    assert bearer(made) == kept["tokens"]["access_token"] in service.good
    assert {bearer(made), "rt-2"} <= set(made.secrets())


async def test_each_field_of_the_answer_is_optional_and_replaces_the_stored_one(
    service: LoginService, tmp_path: Path
) -> None:
    before = service.store(tmp_path)["tokens"]
    service.answers["/oauth/token"] = Turn(body=b'{"access_token":"new-access","refresh_token":7,"id_token":"a b"}')
    assert await credential(service, tmp_path).refresh()
    assert stored(tmp_path)["tokens"] == {**before, "access_token": "new-access"}
    service.answers["/oauth/token"] = Turn(body=b'{"refresh_token":"rt-new"}')
    assert "gave no new token" in await why_not(credential(service, tmp_path))
    assert stored(tmp_path)["tokens"]["refresh_token"] == "rt-new", "the old one is used up"


async def test_where_the_tokens_come_from_is_where_they_are_renewed(service: LoginService, tmp_path: Path) -> None:
    service.store(tmp_path)
    raw = stored(tmp_path)
    raw["tokens"]["oauth_provenance"] = {"issuer": service.issuer, "client_id": CLIENT_ID}
    (tmp_path / "auth.json").write_text(json.dumps(raw))
    settings = LoginSettings(home=str(tmp_path), issuer="https://127.0.0.1:9")
    assert await sign_in(OPENAI, settings, environ={"CODEX_APP_SERVER_LOGIN_CLIENT_ID": "other"}).credential.refresh()
    assert stored(tmp_path)["tokens"]["oauth_provenance"] == raw["tokens"]["oauth_provenance"]


async def test_the_address_can_be_overridden_but_not_by_one_without_encryption(
    service: LoginService, tmp_path: Path
) -> None:
    service.store(tmp_path)
    settings = LoginSettings(home=str(tmp_path), issuer="https://127.0.0.1:9")
    environ = {"CODEX_REFRESH_TOKEN_URL_OVERRIDE": f"{service.issuer}/oauth/token"}
    assert await sign_in(OPENAI, settings, environ=environ).credential.refresh()
    open_address = {"CODEX_REFRESH_TOKEN_URL_OVERRIDE": "http://login.example/token"}
    said = await why_not(sign_in(OPENAI, settings, environ=open_address).credential)
    assert "CODEX_REFRESH_TOKEN_URL_OVERRIDE must be an https address" in said


# ---- ahead of time -------------------------------------------------------------------------------


@pytest.mark.parametrize(("left_s", "renews"), [(299, True), (-5, True), (302, False)])
async def test_tokens_with_less_than_five_minutes_left_are_renewed_before_a_request(
    service: LoginService, tmp_path: Path, left_s: float, renews: bool
) -> None:
    service.store(tmp_path, left_s)
    made = credential(service, tmp_path)
    await made.prepare()
    await made.prepare()
    assert len(service.refreshes) == int(renews)


async def test_renewing_ahead_of_time_may_fail_and_is_not_tried_with_every_request(
    service: LoginService, tmp_path: Path
) -> None:
    clock = FixedClock(SystemClock().now())
    service.store(tmp_path, 120)
    service.answers["/oauth/token"] = Turn(status=503)
    made = credential(service, tmp_path, clock)
    before = bearer(made)
    await made.prepare()
    await made.prepare()
    assert (len(service.refreshes), bearer(made)) == (1, before)
    clock.advance(61)
    del service.answers["/oauth/token"]
    await made.prepare()
    assert bearer(made) != before


# ---- when it does not work -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, {"error": {"code": "refresh_token_expired"}}, "has expired"),
        (400, {"error": {"code": "refresh_token_reused"}}, "Another program has renewed"),
        (401, {"error": {"code": "refresh_token_invalidated"}}, "was revoked"),
        (400, {"error": "invalid_grant", "error_description": "rt-1 is bad"}, "is no longer accepted"),
        (401, {}, "is no longer accepted"),
    ],
)
async def test_a_login_that_is_over_is_a_sentence_that_says_to_sign_in_again(
    service: LoginService, tmp_path: Path, status: int, body: Any, said: str
) -> None:
    service.store(tmp_path)
    before = (tmp_path / "auth.json").read_bytes()
    service.answers["/oauth/token"] = Turn(status=status, body=json.dumps(body).encode())
    sentence = await why_not(credential(service, tmp_path))
    assert said in sentence and sentence.endswith(": sign in again with `spindle login`.") and "rt-1" not in sentence
    assert (tmp_path / "auth.json").read_bytes() == before


@pytest.mark.parametrize("answer", [Turn(status=500), Turn(status=429), Turn(status=403, body=b"<html>Wait</html>")])
async def test_trouble_at_the_login_service_may_pass_and_the_login_is_kept(
    service: LoginService, tmp_path: Path, answer: Turn
) -> None:
    service.store(tmp_path)
    before = (tmp_path / "auth.json").read_bytes()
    service.answers["/oauth/token"] = answer
    with pytest.raises(StreamDropped, match=r"could not be renewed: 127\.0\.0\.1") as raised:
        await credential(service, tmp_path).refresh()
    assert "The stored login is kept" in str(raised.value.given_up(3))
    assert (tmp_path / "auth.json").read_bytes() == before


async def test_a_login_service_that_cannot_be_reached_may_come_back(service: LoginService, tmp_path: Path) -> None:
    service.store(tmp_path)
    settings = LoginSettings(home=str(tmp_path), issuer="http://127.0.0.1:9")
    with pytest.raises(StreamDropped, match=r"127\.0\.0\.1:9 cannot be reached"):
        await sign_in(OPENAI, settings, environ={}).credential.refresh()


async def test_the_refresh_token_never_follows_a_redirect(service: LoginService, tmp_path: Path) -> None:
    service.store(tmp_path)
    with FakeServer() as elsewhere:
        place = {"location": f"http://127.0.0.1:{elsewhere.port}/oauth/token"}
        service.answers["/oauth/token"] = Turn(status=307, headers=place)
        assert "answered 307" in await why_not(credential(service, tmp_path))
        assert elsewhere.connections == 0


async def test_a_refusal_that_quotes_the_token_is_cleaned(service: LoginService, tmp_path: Path) -> None:
    service.store(tmp_path)
    service.answers["/oauth/token"] = Turn(status=422, body=b'{"error":{"message":"rt-1 is odd"}}')
    assert "*** is odd" in await why_not(credential(service, tmp_path))


async def test_without_a_refresh_token_one_must_sign_in_again(service: LoginService, tmp_path: Path) -> None:
    service.store(tmp_path, tokens={"access_token": token(exp=1), "account_id": "acc-1"})
    assert "nothing is stored to renew it with" in await why_not(credential(service, tmp_path))


async def test_a_home_that_cannot_be_written_uses_up_no_token(service: LoginService, tmp_path: Path) -> None:
    service.store(tmp_path)
    (tmp_path / "auth.json.lock").mkdir()
    said = await why_not(credential(service, tmp_path))
    assert "auth.json.lock cannot be written" in said and "left as it is" in said
    assert service.refreshes == []


async def test_tokens_that_cannot_be_stored_are_said_and_good_for_this_process(
    service: LoginService, tmp_path: Path
) -> None:
    service.store(tmp_path)
    made = credential(service, tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # a disk that is full
    try:
        with pytest.raises(NotStored, match="could not be stored"):
            await made.refresh()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert bearer(made) in service.good and stored(tmp_path)["tokens"]["refresh_token"] == "rt-1"
    assert await made.refresh()
    assert stored(tmp_path)["tokens"]["refresh_token"] == "rt-3", "from the token in memory, not from the used one"


# ---- several at once -----------------------------------------------------------------------------


async def test_who_needs_it_at_the_same_time_renews_once(service: LoginService, tmp_path: Path) -> None:
    service.store(tmp_path)
    all_of_them = [credential(service, tmp_path) for _ in range(5)]
    assert await asyncio.gather(*(each.refresh() for each in all_of_them)) == [True] * 5
    assert len(service.refreshes) == 1 and {bearer(each) for each in all_of_them} == {
        stored(tmp_path)["tokens"]["access_token"]
    }


async def test_what_another_process_has_renewed_is_taken_over_without_asking(
    service: LoginService, tmp_path: Path
) -> None:
    service.store(tmp_path)
    made = credential(service, tmp_path)
    newer = service.store(tmp_path)
    assert await made.refresh()
    assert (bearer(made), service.refreshes) == (newer["tokens"]["access_token"], [])


async def test_the_refresh_token_that_is_stored_counts_not_the_one_that_was_read_before(
    service: LoginService, tmp_path: Path
) -> None:
    service.store(tmp_path)
    made = credential(service, tmp_path)
    raw = stored(tmp_path)
    raw["tokens"]["refresh_token"] = service.mint()["refresh_token"]
    service.fresh.discard("rt-1")
    (tmp_path / "auth.json").write_text(json.dumps(raw))
    assert await made.refresh()
    assert [form["refresh_token"] for form in service.refreshes] == ["rt-2"]


async def test_a_program_that_does_not_know_the_lock_may_store_its_result_a_moment_later(
    service: LoginService, tmp_path: Path
) -> None:
    service.store(tmp_path)
    made = credential(service, tmp_path)
    service.fresh.clear()  # it was first
    waiting = asyncio.create_task(made.refresh())
    await asyncio.to_thread(wait_for, lambda: service.refreshes, "the refresh")
    newer = service.store(tmp_path)
    assert await waiting
    assert bearer(made) == newer["tokens"]["access_token"]


def _another_account(service: LoginService, home: Path) -> None:
    service.account = "acc-2"
    service.store(home)


def _a_key(service: LoginService, home: Path) -> None:
    (home / "auth.json").write_text('{"auth_mode":"apikey","OPENAI_API_KEY":"sk-x"}')


def _nobody(service: LoginService, home: Path) -> None:
    (home / "auth.json").unlink()


@pytest.mark.parametrize(
    ("happens", "said"),
    [(_another_account, "another account"), (_a_key, "replaced by an API key"), (_nobody, "has signed out")],
)
@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_a_login_that_was_replaced_or_ended_is_neither_used_nor_brought_back(
    service: LoginService,
    tmp_path: Path,
    happens: Callable[[LoginService, Path], None],
    said: str,
    when: str,
) -> None:
    service.store(tmp_path)
    made = credential(service, tmp_path)
    if when == "before":
        happens(service, tmp_path)
        assert said in await why_not(made)
        assert service.refreshes == []
    else:
        service.before_refresh = lambda: happens(service, tmp_path)
        assert await made.refresh()  # this session goes on as who it was
        assert made.authorization()["ChatGPT-Account-ID"] == "acc-1"
    now = read_login(LoginSettings(home=str(tmp_path)))
    assert now is None or now.account_id != "acc-1"


async def test_an_interrupt_does_not_lose_the_tokens_that_are_on_their_way(
    service: LoginService, tmp_path: Path
) -> None:
    service.store(tmp_path)
    made = credential(service, tmp_path)
    waiting = asyncio.create_task(made.refresh())
    service.before_refresh = lambda: loop.call_soon_threadsafe(waiting.cancel) and None
    loop = asyncio.get_running_loop()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert stored(tmp_path)["tokens"]["refresh_token"] == "rt-2"
