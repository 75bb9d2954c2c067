"""Signing in with ChatGPT against a login service: in a browser, and with a device code."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from browser import Seen, visit
from fake_server import Turn
from login_service import CLIENT_ID, LoginService, form_of
from spindle.auth import browser_login, device_login, issuer, loopback
from spindle.auth.browser_login import BrowserLogin
from spindle.auth.device_login import DeviceLogin
from spindle.auth.issuer import Issuer
from spindle.auth.loopback import PortsTaken
from spindle.auth.new_login import LoginCancelled, LoginFailed, check_allowed
from spindle.errors import ConfigError, SpindleError
from spindle.model.provider import LoginSettings


@pytest.fixture
def service() -> Iterator[LoginService]:
    with LoginService() as running:
        yield running
    assert running.problems == []


def settings(service: LoginService, home: Path, **more: Any) -> LoginSettings:
    return LoginSettings(home=str(home), issuer=service.issuer, **more)


def stored(home: Path) -> dict[str, Any]:
    path = home / "auth.json"
    assert path.stat().st_mode & 0o777 == 0o600
    return json.loads(path.read_text())


async def step(url: str, **headers: str) -> Seen:
    return await asyncio.to_thread(visit, url, **headers)


def browser(service: LoginService, home: Path, **more: Any) -> BrowserLogin:
    return BrowserLogin(settings(service, home, **more), {}, ports=(0,))


# ---- in a browser --------------------------------------------------------------------------------


async def test_a_sign_in_in_the_browser_is_stored_as_codex_stores_it(service: LoginService, tmp_path: Path) -> None:
    async with browser(service, tmp_path) as attempt:
        query = {name: values[0] for name, values in parse_qs(urlsplit(attempt.address).query).items()}
        assert query["redirect_uri"] == f"http://127.0.0.1:{urlsplit(query['redirect_uri']).port}/auth/callback"
        assert query["scope"] == "openid profile email offline_access" and query["originator"] == "codex_cli_rs"
        assert query["id_token_add_organizations"] == query["codex_cli_simplified_flow"] == "true"
        assert (len(query["state"]), len(query["code_challenge"])) == (43, 43)
        back = (await step(attempt.address)).location
        page = await step(back)
        login = await attempt.finish()
    assert page.status == 200 and "Signed in to Spindle" in page.text
    (asked,) = map(form_of, service.posts("/oauth/token"))
    assert len(asked.pop("code_verifier")) == 86
    assert asked == {
        "grant_type": "authorization_code",
        "code": "code-0",
        "redirect_uri": query["redirect_uri"],
        "client_id": CLIENT_ID,
    }
    kept = stored(tmp_path)
    assert (login.email, login.plan, login.account_id) == ("ann@example.com", "pro", "acc-1")
    assert kept["auth_mode"] == "chatgpt" and kept["OPENAI_API_KEY"] is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", kept["last_refresh"])
    tokens = kept["tokens"]
    assert tokens["access_token"] in service.good and tokens["refresh_token"] in service.fresh
    assert (tokens["account_id"], tokens["id_token"].count(".")) == ("acc-1", 2)


async def test_only_the_answer_to_this_sign_in_counts_and_only_once(service: LoginService, tmp_path: Path) -> None:
    async with browser(service, tmp_path) as attempt:
        back = (await step(attempt.address)).location
        port = urlsplit(back).port
        assert (await step(re.sub("state=[^&]*", "state=forged", back))).status == 400
        assert (await step(back.replace("code=", "other="))).status == 400
        assert (await step(back, host=f"evil.example:{port}")).status == 403
        assert (await step(f"http://127.0.0.1:{port}/elsewhere")).status == 404
        assert (await step(back, method="POST")).status == 404
        assert not (tmp_path / "auth.json").exists() and service.posts("/oauth/token") == []
        first, second = await asyncio.gather(step(back), step(back))
        assert sorted((first.status, second.status)) == [200, 400]
        await attempt.finish()
    assert len(service.posts("/oauth/token")) == 1


async def test_another_user_of_the_computer_cannot_finish_a_sign_in(
    service: LoginService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loopback, "owner_of_peer", lambda peer, own: os.getuid() + 1)
    async with browser(service, tmp_path) as attempt:
        back = (await step(attempt.address)).location
        assert (await step(back)).status == 403
    assert service.posts("/oauth/token") == [] and os.listdir(tmp_path) == []


async def test_the_account_is_told_by_the_id_token(service: LoginService, tmp_path: Path) -> None:
    tokens = {**service.mint(), "access_token": "opaque"}
    service.answers["/oauth/token"] = Turn(body=json.dumps(tokens).encode())
    async with browser(service, tmp_path) as attempt:
        await step((await step(attempt.address)).location)
        await attempt.finish()
    assert stored(tmp_path)["tokens"]["account_id"] == "acc-1"


async def test_a_service_that_answers_without_tokens_signs_nobody_in(service: LoginService, tmp_path: Path) -> None:
    tokens = {**service.mint(), "refresh_token": None}
    service.answers["/oauth/token"] = Turn(body=json.dumps(tokens).encode())
    async with browser(service, tmp_path) as attempt:
        await step((await step(attempt.address)).location)
        with pytest.raises(LoginFailed, match="without tokens"):
            await attempt.finish()
    assert os.listdir(tmp_path) == []


async def test_a_person_who_says_no_leaves_everything_as_it_was(service: LoginService, tmp_path: Path) -> None:
    service.store(tmp_path)
    before = (tmp_path / "auth.json").read_bytes()
    service.denies = "access_denied"
    async with browser(service, tmp_path) as attempt:
        page = await step((await step(attempt.address)).location)
        with pytest.raises(LoginFailed, match=r"the sign-in was refused: the person said no \(access_denied\)$"):
            await attempt.finish()
    assert page.status == 400 and "The sign-in was refused" in page.text and "\x1b" not in page.text
    assert (tmp_path / "auth.json").read_bytes() == before


async def test_a_code_that_cannot_be_exchanged_stores_nothing(service: LoginService, tmp_path: Path) -> None:
    service.answers["/oauth/token"] = Turn(status=403, body=b'{"error":{"message":"<b>blocked</b>"}}')
    async with browser(service, tmp_path) as attempt:
        page = await step((await step(attempt.address)).location)
        with pytest.raises(LoginFailed, match=r"answered 403: <b>blocked</b>$"):
            await attempt.finish()
    assert page.status == 400 and "&lt;b&gt;blocked" in page.text
    assert not (tmp_path / "auth.json").exists()


async def test_visiting_cancel_ends_the_sign_in(service: LoginService, tmp_path: Path) -> None:
    async with browser(service, tmp_path) as attempt:
        port = urlsplit(parse_qs(urlsplit(attempt.address).query)["redirect_uri"][0]).port
        assert (await step(f"http://localhost:{port}/cancel")).status == 200
        with pytest.raises(LoginCancelled):
            await attempt.finish()
    assert not (tmp_path / "auth.json").exists()


async def test_a_sign_in_that_is_cancelled_while_its_code_is_exchanged_stores_nothing(
    service: LoginService, tmp_path: Path
) -> None:
    loop = asyncio.get_running_loop()
    async with browser(service, tmp_path) as attempt:
        service.before_exchange = lambda: void(loop.call_soon_threadsafe(attempt.cancel))
        page = await step((await step(attempt.address)).location)
        with pytest.raises(LoginCancelled):
            await attempt.finish()
    assert (page.status, os.listdir(tmp_path)) == (400, [])


def void(anything: object) -> None:
    """Nobody needs it."""


async def test_who_never_comes_back_is_not_waited_for_for_ever(
    service: LoginService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_login, "WAIT_S", 0.0)
    async with browser(service, tmp_path) as attempt:
        with pytest.raises(LoginFailed, match="nobody signed in within"):
            await attempt.finish()


async def test_the_program_around_us_may_sign_in_under_its_own_name(service: LoginService, tmp_path: Path) -> None:
    environ = {"CODEX_INTERNAL_ORIGINATOR_OVERRIDE": "my_editor"}
    async with BrowserLogin(settings(service, tmp_path), environ, ports=(0,)) as attempt:
        assert "&originator=my_editor" in attempt.address


def test_the_ports_are_those_that_the_login_service_sends_browsers_back_to() -> None:
    assert browser_login.PORTS == (1455, 1457)


async def test_a_taken_port_is_passed_over_and_two_of_them_are_said(service: LoginService, tmp_path: Path) -> None:
    anywhere = ("127.0.0.1", 0)
    with socket.create_server(anywhere) as first, socket.create_server(anywhere) as second:
        ports = (first.getsockname()[1], second.getsockname()[1])
        async with BrowserLogin(settings(service, tmp_path), {}, ports=(ports[0], 0)) as attempt:
            assert f"%3A{ports[0]}%2F" not in attempt.address
        with pytest.raises(PortsTaken, match=rf"port {ports[0]} and {ports[1]} cannot be used"):
            await BrowserLogin(settings(service, tmp_path), {}, ports=ports).__aenter__()


async def test_a_connection_that_a_browser_never_uses_does_not_hold_up_the_end(
    service: LoginService, tmp_path: Path
) -> None:
    async with browser(service, tmp_path) as attempt:
        port = urlsplit(parse_qs(urlsplit(attempt.address).query)["redirect_uri"][0]).port
        assert port is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        back = (await step(attempt.address)).location
        assert (await step(back)).status == 200
        await attempt.finish()
    with suppress(ConnectionResetError):
        async with asyncio.timeout(5):  # by itself it would be closed later
            assert await reader.read() == b""
    writer.close()


# ---- what is stored ------------------------------------------------------------------------------


async def sign_in(service: LoginService, home: Path, **more: Any) -> None:
    async with browser(service, home, **more) as attempt:
        await step((await step(attempt.address)).location)
        await attempt.finish()


async def test_what_others_keep_in_the_file_survives_a_sign_in_but_not_the_old_tokens(
    service: LoginService, tmp_path: Path
) -> None:
    service.store(tmp_path, OPENAI_API_KEY="sk-old", custom={"kept": 1})
    raw = json.loads((tmp_path / "auth.json").read_text())
    raw["tokens"]["login_owner_id"] = "of the old login"
    (tmp_path / "auth.json").write_text(json.dumps(raw))
    await sign_in(service, tmp_path)
    kept = stored(tmp_path)
    assert kept["custom"] == {"kept": 1} and kept["OPENAI_API_KEY"] is None
    assert "login_owner_id" not in kept["tokens"] and kept["tokens"]["refresh_token"] == "rt-2"


async def test_a_damaged_file_is_replaced_by_a_sign_in(service: LoginService, tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text("{")
    await sign_in(service, tmp_path)
    assert stored(tmp_path)["auth_mode"] == "chatgpt"


async def test_tokens_of_another_login_service_say_where_they_are_renewed(
    service: LoginService, tmp_path: Path
) -> None:
    await sign_in(service, tmp_path)
    assert stored(tmp_path)["tokens"]["oauth_provenance"] == {"issuer": service.issuer, "client_id": CLIENT_ID}


async def test_another_workspace_than_the_allowed_one_is_refused(service: LoginService, tmp_path: Path) -> None:
    async with browser(service, tmp_path, workspaces=("acc-9",)) as attempt:
        assert parse_qs(urlsplit(attempt.address).query)["allowed_workspace_id"] == ["acc-9"]
        await step((await step(attempt.address)).location)
        with pytest.raises(LoginFailed, match="forced_chatgpt_workspace_id"):
            await attempt.finish()
    assert not (tmp_path / "auth.json").exists()


def test_signing_in_with_chatgpt_can_be_forbidden(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="forced_login_method is api"):
        check_allowed(LoginSettings(home=str(tmp_path), forced_method="api"))


@pytest.mark.parametrize("issuer", ["http://login.example", "ftp://x", "https://login.example/?a=b", "nonsense", ""])
def test_a_login_service_without_encryption_is_not_used(issuer: str) -> None:
    with pytest.raises(ConfigError, match="the address of the login service"):
        Issuer(issuer, environ={})


def test_the_client_id_can_be_replaced() -> None:
    assert Issuer("https://login.example/", environ={}).client_id == CLIENT_ID
    assert Issuer("https://x", environ={"CODEX_APP_SERVER_LOGIN_CLIENT_ID": " mine "}).client_id == "mine"


# ---- with a device code --------------------------------------------------------------------------


async def test_a_device_code_is_shown_and_asked_about_until_the_person_has_agreed(
    service: LoginService, tmp_path: Path
) -> None:
    attempt = DeviceLogin(settings(service, tmp_path), {})
    device = await attempt.start()
    assert (device.address, device.user_code) == (f"{service.issuer}/codex/device", "ABCD-12345")
    login = await attempt.finish()
    assert len(service.posts("/deviceauth/token")) == 2
    first, second = (request.arrived_s for request in service.posts("/deviceauth/token"))
    assert second - first > 0.9
    assert form_of(service.posts("/usercode")[0]) == {"client_id": CLIENT_ID}
    (asked,) = map(form_of, service.posts("/oauth/token"))
    assert asked["redirect_uri"] == f"{service.issuer}/deviceauth/callback" and asked["code"] == "device-code"
    assert stored(tmp_path)["tokens"]["access_token"] == login.access_token


@pytest.mark.parametrize(
    ("path", "answer", "said"),
    [
        ("usercode", Turn(status=404, body=b"{}"), "does not offer sign-in by a device code"),
        ("usercode", Turn(status=200, body=b'{"user_code":"A B","device_auth_id":"x"}'), "without a code to type in"),
        ("usercode", Turn(status=200, body=b"<html>"), "answered 200: a web page"),
        ("token", Turn(status=400, body=b'{"error":{"message":"expired"}}'), "answered 400: expired"),
        ("token", Turn(status=200, body=b"{}"), "without a code to exchange"),
    ],
)
async def test_a_device_code_that_leads_nowhere_is_one_sentence(
    service: LoginService, tmp_path: Path, path: str, answer: Turn, said: str
) -> None:
    service.answers[f"/api/accounts/deviceauth/{path}"] = answer
    attempt = DeviceLogin(settings(service, tmp_path), {})
    with pytest.raises(SpindleError, match=said):
        await attempt.start()
        await attempt.finish()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("given", "seconds"), [("7", 7.0), (3, 3.0), ("0", 1.0), ("1e9", 60.0), (None, 5.0), ("x", 5.0)]
)
async def test_the_service_says_how_often_it_may_be_asked(
    service: LoginService, tmp_path: Path, given: Any, seconds: float
) -> None:
    code = {"device_auth_id": "d", "user_code": "C", "interval": given}
    service.answers["/api/accounts/deviceauth/usercode"] = Turn(body=json.dumps(code).encode())
    assert (await DeviceLogin(settings(service, tmp_path), {}).start()).interval_s == seconds


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits between two questions about a device code."""
    monkeypatch.setattr(issuer, "_interval", lambda given: 0.0)


@pytest.mark.usefixtures("at_once")
async def test_trouble_that_passes_does_not_end_a_sign_in_with_a_code(service: LoginService, tmp_path: Path) -> None:
    service.device_troubles = [404, *[500] * 4, 403, *[500] * 4]
    attempt = DeviceLogin(settings(service, tmp_path), {})
    await attempt.start()
    await attempt.finish()
    assert len(service.posts("/deviceauth/token")) == 11 and stored(tmp_path)["auth_mode"] == "chatgpt"


@pytest.mark.usefixtures("at_once")
async def test_trouble_that_does_not_pass_ends_a_sign_in_with_a_code(service: LoginService, tmp_path: Path) -> None:
    service.device_troubles = [500] * 9
    attempt = DeviceLogin(settings(service, tmp_path), {})
    await attempt.start()
    with pytest.raises(SpindleError, match="answered 500"):
        await attempt.finish()
    assert len(service.posts("/deviceauth/token")) == 5 and os.listdir(tmp_path) == []


async def test_a_code_that_nobody_types_in_is_not_asked_about_for_ever(
    service: LoginService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_login, "WAIT_S", 0.0)
    attempt = DeviceLogin(settings(service, tmp_path), {})
    await attempt.start()
    with pytest.raises(LoginFailed, match="nobody typed in the code within"):
        await attempt.finish()
