"""Signing in with ChatGPT through the app-server: in a browser, with a code, and with tokens of the client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app_server.client import Client
from app_server.conftest import Start
from browser import visit
from fake_server import message, turn
from login_service import LoginService, login_port, token


@pytest.fixture
def service(home: Path) -> Iterator[LoginService]:
    with LoginService() as running:
        (home / "config.toml").write_text(running.settings())
        yield running
    assert running.problems == []


@pytest.fixture
def client(service: LoginService, start: Start) -> Client:
    running = start()
    running.initialize(experimentalApi=True)
    return running


def begin(client: Client, kind: str, **params: Any) -> Any:
    return client.result("account/login/start", {"type": kind, **params})


def failed(login_id: str, why: str) -> dict[str, Any]:
    return {"loginId": login_id, "success": False, "error": f"Login was not completed: {why}"}


def test_a_client_signs_the_person_in_with_the_browser(client: Client, service: LoginService, home: Path) -> None:
    with login_port():
        first = begin(client, "chatgpt")
        assert first["type"] == "chatgpt" and first["authUrl"].startswith(f"{service.issuer}/oauth/authorize?")
        assert first["authUrl"].endswith("&originator=tester")
        begun = begin(client, "chatgpt")
        cancelled = failed(first["loginId"], "the sign-in was cancelled")
        assert client.note("account/login/completed") == cancelled, "there is one sign-in at a time"
        since = len(client.seen)
        assert visit(visit(begun["authUrl"]).location).status == 200
        assert client.note("account/login/completed", since=since) == {
            "loginId": begun["loginId"],
            "success": True,
            "error": None,
        }
    assert client.note("account/updated") == {"authMode": "chatgpt", "planType": "pro"}
    account = client.result("account/read", {"refreshToken": True})["account"]
    assert account == {"type": "chatgpt", "email": "ann@example.com", "planType": "pro", "workspaceName": None}
    assert len(service.refreshes) == 1
    service.script(turn(message("hello")))
    done, _ = client.turn(client.start_thread(), "hi")
    assert done["status"] == "completed"
    (asked,) = service.turns_asked
    tokens = json.loads((home / "auth.json").read_text())["tokens"]
    assert asked.headers["authorization"] == f"Bearer {tokens['access_token']}"
    assert asked.headers["chatgpt-account-id"] == "acc-1" and asked.path == "/backend-api/codex/responses"
    assert client.result("account/logout") == {} and len(service.posts("/oauth/revoke")) == 1
    assert client.result("account/read", {})["account"] is None


def test_a_sign_in_can_be_cancelled(client: Client, service: LoginService, home: Path) -> None:
    with login_port():
        begun = begin(client, "chatgpt")
        nobody = {"loginId": "00000000-0000-4000-8000-000000000000"}
        assert client.result("account/login/cancel", nobody) == {"status": "notFound"}
        assert "invalid login id: nonsense" in client.error("account/login/cancel", {"loginId": "nonsense"})["message"]
        assert client.result("account/login/cancel", {"loginId": begun["loginId"]}) == {"status": "canceled"}
        assert client.note("account/login/completed") == failed(begun["loginId"], "the sign-in was cancelled")
        assert client.result("account/login/cancel", {"loginId": begun["loginId"]}) == {"status": "notFound"}
    several = [client.send("account/login/start", {"type": "chatgptDeviceCode"}) for _ in range(3)]
    *given_up, kept = (client.answer_to(number)["result"]["loginId"] for number in several)
    told = [client.note("account/login/completed", lambda params, id=id: params["loginId"] == id) for id in given_up]
    assert [each["success"] for each in told] == [False, False], "there is one at a time"
    assert client.result("account/login/cancel", {"loginId": kept}) == {"status": "canceled"}
    client.note("account/login/completed", lambda params: params["loginId"] == kept)
    since = len(client.seen)
    device = begin(client, "chatgptDeviceCode")
    assert client.result("account/login/cancel", {"loginId": device["loginId"]}) == {"status": "canceled"}
    assert client.note("account/login/completed", since=since) == failed(device["loginId"], "the sign-in was cancelled")
    assert not (home / "auth.json").exists()


def test_a_client_signs_the_person_in_with_a_code(client: Client, service: LoginService, home: Path) -> None:
    thread_id = client.start_thread()
    done, _ = client.turn(thread_id, "too early")
    assert done["status"] == "failed" and "Not signed in" in done["error"]["message"]
    begun = begin(client, "chatgptDeviceCode")
    assert begun.pop("loginId") and begun == {
        "type": "chatgptDeviceCode",
        "verificationUrl": f"{service.issuer}/codex/device",
        "userCode": "ABCD-12345",
    }
    assert client.note("account/login/completed")["success"] is True
    assert client.note("account/updated")["authMode"] == "chatgpt" and (home / "auth.json").exists()
    done, _ = client.turn(thread_id, "now")
    assert done["status"] == "completed", "a thread that was open already has the login too"


def test_a_client_can_bring_its_own_tokens_and_is_asked_to_renew_them(
    client: Client, service: LoginService, home: Path
) -> None:
    (home / "auth.json").write_text('{"auth_mode":"apikey","OPENAI_API_KEY":"sk-stored"}')
    tokens = service.mint()
    given = {"accessToken": tokens["access_token"], "chatgptAccountId": "acc-1"}
    assert begin(client, "chatgptAuthTokens", **given) == {"type": "chatgptAuthTokens"}
    assert client.note("account/login/completed") == {"loginId": None, "success": True, "error": None}
    assert client.note("account/updated") == {"authMode": "chatgptAuthTokens", "planType": "pro"}
    assert client.result("account/read", {})["account"]["email"] == "ann@example.com"
    assert "its own tokens" in client.error("account/login/start", {"type": "chatgpt"})["message"]
    newer = service.mint()["access_token"]
    service.good.discard(tokens["access_token"])
    asked: list[Any] = []

    def renew(params: Any) -> Any:
        asked.append(params)
        return {"accessToken": newer, "chatgptAccountId": "acc-1", "chatgptPlanType": None}

    client.answers["account/chatgptAuthTokens/refresh"] = renew
    service.script(turn(message("hello")), turn(message("again")))
    done, seen = client.turn(client.start_thread(), "hi")
    assert done["status"] == "completed" and asked == [{"reason": "unauthorized", "previousAccountId": "acc-1"}]
    assert [each.headers["authorization"][7:] for each in service.turns_asked] == [tokens["access_token"], newer]
    assert not [each for each in seen if each.get("method") == "serverRequest/resolved"]
    assert service.refreshes == [] and "sk-stored" in (home / "auth.json").read_text()
    assert newer not in "".join(path.read_text() for path in home.rglob("rollout-*.jsonl"))
    client.result("account/logout")
    assert client.result("account/read", {})["account"] is None and not (home / "auth.json").exists()


def test_a_client_that_does_not_renew_its_tokens_is_told_what_is_wrong(client: Client, service: LoginService) -> None:
    given = {"accessToken": token(email="x"), "chatgptAccountId": "acc-1"}
    begin(client, "chatgptAuthTokens", **given)
    client.answers["account/chatgptAuthTokens/refresh"] = lambda params: {"accessToken": "a b"}
    done, _ = client.turn(client.start_thread(), "hi")
    assert done["status"] == "failed" and "did not renew them" in done["error"]["message"]


def test_a_way_that_is_not_allowed_is_refused(service: LoginService, start: Start, home: Path) -> None:
    given = {"apiKey": "sk-x", "accessToken": "t", "chatgptAccountId": "a"}

    def refusals(setting: str, *kinds: str) -> list[str]:
        (home / "config.toml").write_text(f"{setting}\n{service.settings()}")
        client = start()
        client.initialize()
        return [client.error("account/login/start", {"type": kind, **given})["message"] for kind in kinds]

    chatgpt, code, tokens, other = refusals(
        'forced_login_method = "api"', "chatgpt", "chatgptDeviceCode", "chatgptAuthTokens", "smoke"
    )
    assert chatgpt == code == tokens == "forced_login_method is api: signing in with ChatGPT is not allowed"
    assert "no sign-in by 'smoke'" in other
    (key,) = refusals('forced_login_method = "chatgpt"', "apiKey")
    assert key == "forced_login_method is chatgpt: signing in with an API key is not allowed"
    assert not (home / "auth.json").exists()
