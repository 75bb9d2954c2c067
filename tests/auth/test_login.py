"""The commands that write, show and remove the stored login."""

from __future__ import annotations

import asyncio
import io
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from login_service import LoginService, form_of
from spindle.auth import issuer
from spindle.auth.lock import LoginLock
from spindle.auth.login import login_status, login_with_api_key, logout
from spindle.auth.login import sign_out as sign_out_quietly
from spindle.auth.store import read_login
from spindle.model.provider import LoginSettings

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz"
NO_KEY = "What was given on stdin: this is not an API key"


@pytest.fixture
def open_umask() -> Iterator[None]:
    """The loosest umask there is."""
    old = os.umask(0)
    yield
    os.umask(old)


def login(home: Path, key: str) -> tuple[int, str]:
    err = io.StringIO()
    return login_with_api_key(LoginSettings(home=str(home)), io.StringIO(key), err), err.getvalue()


def status(home: Path) -> tuple[int, str]:
    err = io.StringIO()
    return login_status(LoginSettings(home=str(home)), err), err.getvalue()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_key_is_stored_for_its_owner_only_and_can_be_removed(tmp_path: Path, open_umask: None):
    home = tmp_path / "new/home"
    assert login(home, f"  {KEY}\n") == (0, "Successfully logged in\n")
    assert (mode(home), mode(home / "auth.json")) == (0o700, 0o600)
    assert json.loads((home / "auth.json").read_text()) == {
        "auth_mode": "apikey",
        "OPENAI_API_KEY": KEY,
        "tokens": None,
        "last_refresh": None,
    }
    assert status(home) == (0, "Logged in using an API key - sk-proj-***vwxyz\n")
    err = io.StringIO()
    assert logout(LoginSettings(home=str(home)), err) == 0 and os.listdir(home) == ["auth.json.lock"]
    assert logout(LoginSettings(home=str(home)), err) == 0 and err.getvalue().endswith("Not logged in\n")
    assert status(home) == (1, "Not logged in\n")


def test_a_second_login_replaces_the_first_and_repairs_modes(tmp_path: Path):
    (tmp_path / "auth.json").write_text("damaged")
    tmp_path.chmod(0o755)
    assert login(tmp_path, KEY)[0] == 0
    assert (mode(tmp_path), mode(tmp_path / "auth.json")) == (0o700, 0o600)
    assert sorted(os.listdir(tmp_path)) == ["auth.json", "auth.json.lock"]


def test_a_planted_link_is_replaced_not_followed(tmp_path: Path):
    (tmp_path / "home").mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "home/auth.json").symlink_to(victim)
    assert login(tmp_path / "home", KEY)[0] == 0
    assert victim.read_text() == "precious" and not (tmp_path / "home/auth.json").is_symlink()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "No API key provided via stdin.\n"),
        (" \n", "No API key provided via stdin.\n"),
        ("two words", f"{NO_KEY}: it is empty or too long, or holds blanks or characters that no key has.\n"),
        ("a\nb", f"{NO_KEY}: it has more than one line.\n"),
        ("kéy", f"{NO_KEY}: it is empty or too long, or holds blanks or characters that no key has.\n"),
        (f'"{KEY}"', f"{NO_KEY}: it begins with a quotation mark; give the key alone.\n"),
        (f"Bearer {KEY}", f"{NO_KEY}: it begins with the word Bearer; give the key alone.\n"),
        (f"OPENAI_API_KEY={KEY}", f"{NO_KEY}: it begins with OPENAI_API_KEY=; give the key alone.\n"),
        ("x" * 20000, f"{NO_KEY}: it is empty or too long, or holds blanks or characters that no key has.\n"),
    ],
)
def test_what_is_not_a_key_is_not_stored(tmp_path: Path, given: str, said: str):
    assert login(tmp_path, given) == (1, said)
    assert os.listdir(tmp_path) == []


def test_bytes_that_are_not_text_are_not_a_key(tmp_path: Path):
    err = io.StringIO()
    stdin = io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), encoding="utf-8")
    assert login_with_api_key(LoginSettings(home=str(tmp_path)), stdin, err) == 1


def test_a_terminal_is_asked_to_pipe_the_key(tmp_path: Path):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    err = io.StringIO()
    assert login_with_api_key(LoginSettings(home=str(tmp_path)), Terminal(), err) == 1
    assert "| spindle login --with-api-key" in err.getvalue()


def test_status_shows_little_of_a_short_key_and_nothing_of_tokens(tmp_path: Path):
    login(tmp_path, "short-key")
    assert status(tmp_path) == (0, "Logged in using an API key - ***\n")
    (tmp_path / "auth.json").write_text(json.dumps({"tokens": {"access_token": "secret"}}))
    (tmp_path / "auth.json").chmod(0o640)
    code, said = status(tmp_path)
    assert code == 0 and said.endswith("Logged in using ChatGPT\n") and "secret" not in said
    assert said.startswith("warning: ") and "mode 0640" in said


def test_a_home_that_cannot_be_written_is_one_sentence(tmp_path: Path):
    (tmp_path / "file").touch()
    code, said = login(tmp_path / "file/home", KEY)
    assert code == 1 and said.count("\n") == 1 and KEY not in said
    assert status(tmp_path / "file/home") == (1, "Not logged in\n")


# ---- signing out of ChatGPT ----------------------------------------------------------------------


def sign_out(home: Path, service: LoginService, **env: str) -> tuple[int, str]:
    err = io.StringIO()
    return logout(LoginSettings(home=str(home), issuer=service.issuer), err, env), err.getvalue()


def test_signing_out_of_chatgpt_revokes_the_refresh_token(tmp_path: Path):
    with LoginService() as service:
        service.store(tmp_path)
        assert sign_out(tmp_path, service) == (0, f"Successfully logged out: {tmp_path}/auth.json is removed\n")
        (asked,) = map(form_of, service.posts("/oauth/revoke"))
        assert sign_out(tmp_path, service) == (0, "Not logged in\n")
    assert asked == {
        "token": "rt-1",
        "token_type_hint": "refresh_token",
        "client_id": "app_EMoamEEZ73f0CkXaXp7hrann",
    }
    assert not (tmp_path / "auth.json").exists()


async def test_signing_out_waits_for_who_renews_the_login_and_revokes_what_is_stored_then(tmp_path: Path):
    with LoginService() as service:
        service.store(tmp_path)
        async with LoginLock(str(tmp_path)):
            leaving = asyncio.ensure_future(
                sign_out_quietly(LoginSettings(home=str(tmp_path), issuer=service.issuer), {})
            )
            await asyncio.sleep(0)
            assert (tmp_path / "auth.json").exists()
            service.store(tmp_path)
        assert await leaving == ["file"]
        assert [form_of(request)["token"] for request in service.posts("/oauth/revoke")] == ["rt-2"]
    assert not (tmp_path / "auth.json").exists()


def test_the_address_to_revoke_at_can_be_overridden(tmp_path: Path):
    with LoginService() as service:
        service.store(tmp_path)
        elsewhere = {"CODEX_REVOKE_TOKEN_URL_OVERRIDE": f"{service.issuer}/elsewhere/revoke"}
        assert sign_out(tmp_path, service, **elsewhere)[0] == 0
        assert [request.path for request in service.requests] == ["/elsewhere/revoke"]


def test_signing_out_waits_ten_seconds_for_the_login_service_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert issuer.REVOKE_S == 10.0
    monkeypatch.setattr(issuer, "REVOKE_S", 0.0)
    with LoginService() as service:
        service.store(tmp_path)
        assert sign_out(tmp_path, service)[0] == 0
        assert service.posts("/oauth/revoke") == []


def test_signing_out_works_without_the_login_service_and_with_a_damaged_file(tmp_path: Path):
    with LoginService() as service:
        service.store(tmp_path)
    nowhere = {"CODEX_REVOKE_TOKEN_URL_OVERRIDE": "http://127.0.0.1:9/revoke"}
    assert sign_out(tmp_path, service, **nowhere)[0] == 0 and not (tmp_path / "auth.json").exists()
    (tmp_path / "auth.json").write_text("{")
    assert sign_out(tmp_path, service)[0] == 0 and not (tmp_path / "auth.json").exists()


def test_a_key_is_not_stored_where_only_chatgpt_is_allowed(tmp_path: Path):
    err = io.StringIO()
    settings = LoginSettings(home=str(tmp_path), forced_method="chatgpt")
    assert login_with_api_key(settings, io.StringIO(KEY), err) == 1
    assert "forced_login_method is chatgpt" in err.getvalue() and os.listdir(tmp_path) == []


def test_a_key_takes_the_place_of_a_sign_in_and_leaves_the_rest_of_the_file(tmp_path: Path):
    with LoginService() as service:
        service.store(tmp_path, custom=1)
    assert login(tmp_path, KEY)[0] == 0
    kept = json.loads((tmp_path / "auth.json").read_text())
    assert (kept["custom"], kept["tokens"], kept["auth_mode"]) == (1, None, "apikey")


def test_an_ephemeral_login_is_never_written(tmp_path: Path):
    settings = LoginSettings(home=str(tmp_path / "home"), store="ephemeral")
    err = io.StringIO()
    assert login_with_api_key(settings, io.StringIO(KEY), err) == 0
    found = read_login(settings)
    assert found is not None and (found.api_key, found.place) == (KEY, "memory")
    assert os.listdir(tmp_path / "home") == ["auth.json.lock"]
    assert logout(settings, err) == 0 and read_login(settings) is None
