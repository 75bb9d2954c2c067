"""The login in the keyring of the system: `cli_auth_credentials_store = "keyring"` or `"auto"`."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest

from auth.memory_keyring import MemoryKeyring
from login_service import LoginService
from spindle.auth.credentials import sign_in
from spindle.auth.login import login_status, login_with_api_key, logout
from spindle.auth.store import read_login
from spindle.errors import ConfigError, ModelError
from spindle.model.provider import LoginSettings, Provider

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz"
OPENAI = Provider(id="openai", name="OpenAI", requires_openai_auth=True)


@pytest.fixture
def ring() -> Iterator[MemoryKeyring]:
    before, made = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


@pytest.fixture
def without_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the extra is not installed."""
    monkeypatch.setitem(sys.modules, "keyring", None)


def in_keyring(home: Path, store: str = "keyring", **more: str) -> LoginSettings:
    return LoginSettings(home=str(home), store=store, **more)


def login(settings: LoginSettings) -> tuple[int, str]:
    err = io.StringIO()
    return login_with_api_key(settings, io.StringIO(KEY), err), err.getvalue()


def test_a_login_goes_to_the_entry_that_codex_uses_and_leaves_no_file(ring: MemoryKeyring, tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text('{"OPENAI_API_KEY":"sk-before"}')
    settings = in_keyring(tmp_path)
    found = read_login(settings)
    assert found is not None and found.api_key == "sk-before", "a file from before still counts"
    assert login(settings)[0] == 0
    entry = "cli|" + hashlib.sha256(os.path.realpath(tmp_path).encode()).hexdigest()[:16]
    assert json.loads(ring.entries["Codex Auth", entry])["OPENAI_API_KEY"] == KEY
    assert os.listdir(tmp_path) == ["auth.json.lock"]
    err = io.StringIO()
    assert login_status(settings, err) == 0 and "an API key" in err.getvalue()
    assert sign_in(OPENAI, settings, environ={}).credential.authorization() == {"authorization": f"Bearer {KEY}"}
    assert logout(settings, err) == 0 and ring.entries == {}
    assert "removed from the keyring" in err.getvalue() and login_status(settings, err) == 1


async def test_tokens_in_the_keyring_are_renewed_there(ring: MemoryKeyring, tmp_path: Path) -> None:
    with LoginService() as service:
        service.store(tmp_path)
        settings = in_keyring(tmp_path, issuer=service.issuer)
        entry = "cli|" + hashlib.sha256(os.path.realpath(tmp_path).encode()).hexdigest()[:16]
        ring.entries["Codex Auth", entry] = (tmp_path / "auth.json").read_text()
        (tmp_path / "auth.json").unlink()
        assert await sign_in(OPENAI, settings, environ={}).credential.refresh()
    assert json.loads(ring.entries["Codex Auth", entry])["tokens"]["refresh_token"] == "rt-2"
    assert not (tmp_path / "auth.json").exists()


def test_a_locked_keyring_is_a_sentence_and_the_file_where_it_may_be_used(ring: MemoryKeyring, tmp_path: Path) -> None:
    ring.is_locked = True
    code, said = login(in_keyring(tmp_path))
    assert code == 1 and "the keyring cannot be written: Failed to unlock the collection!; unlock it" in said
    assert not (tmp_path / "auth.json").exists()
    assert login(in_keyring(tmp_path, "auto"))[0] == 0 and (tmp_path / "auth.json").exists()
    assert read_login(in_keyring(tmp_path, "auto")) is not None


def test_without_the_package_a_key_in_the_environment_still_counts(without_package: None, tmp_path: Path) -> None:
    settings = in_keyring(tmp_path)
    with_key = sign_in(OPENAI, settings, environ={"OPENAI_API_KEY": "sk-x"})
    assert with_key.credential.authorization() == {"authorization": "Bearer sk-x"}
    assert len(with_key.warnings) == 1 and "spindle-agent[keyring]" in with_key.warnings[0]
    with pytest.raises(ModelError, match="Not signed in"):
        sign_in(OPENAI, settings, environ={}).credential.authorization()
    code, said = login(settings)
    assert code == 1 and "spindle-agent[keyring]" in said and not (tmp_path / "auth.json").exists()
    assert login(in_keyring(tmp_path, "auto"))[0] == 0 and (tmp_path / "auth.json").exists()


def test_a_damaged_entry_is_said_without_being_quoted(ring: MemoryKeyring, tmp_path: Path) -> None:
    login(in_keyring(tmp_path))
    ring.entries = dict.fromkeys(ring.entries, '{"OPENAI_API_KEY": "sk-secret')
    warnings: list[str] = []
    assert read_login(in_keyring(tmp_path), warnings) is None
    assert len(warnings) == 1 and "damaged" in warnings[0] and "sk-secret" not in warnings[0]


def test_tokens_from_the_keyring_are_never_put_into_a_file_instead(ring: MemoryKeyring, tmp_path: Path) -> None:
    from spindle.auth.store import write_kept

    ring.is_locked = True
    with pytest.raises(ConfigError, match="keyring cannot be written"):
        write_kept(in_keyring(tmp_path, "auto"), {"OPENAI_API_KEY": KEY}, "keyring")
    assert os.listdir(tmp_path) == []
