"""Which credential goes to which server, and what is said when there is none."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from spindle.auth.credentials import SIGN_IN_HELP, Secured, SignedIn, session_secrets, sign_in
from spindle.errors import ConfigError, ModelError
from spindle.model.credential import EnvCredential
from spindle.model.provider import LoginSettings, Provider

OPENAI = Provider(id="openai", name="OpenAI", requires_openai_auth=True)
OTHER = Provider(id="lab", name="Lab", base_url="http://lab/v1")


def token(account: str | None, marker: str = "x") -> str:
    """A token as the login service makes them: three parts, the middle one JSON."""
    claims = {"https://api.openai.com/auth": {"chatgpt_account_id": account}} if account else {"m": marker}
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"head.{payload}.{marker}"


def store(home: Path, **data: Any) -> Path:
    path = home / "auth.json"
    path.write_text(json.dumps(data))
    path.chmod(0o600)
    return path


def chatgpt(account: str = "acc-1", access: str = "access-1", **extra: Any) -> dict[str, Any]:
    tokens = {"id_token": token(account), "access_token": access, "refresh_token": "refresh-1", **extra}
    return {"auth_mode": "chatgpt", "OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": "2026-01-01T00:00:00Z"}


def sign(home: Path, provider: Provider = OPENAI, env: dict[str, str] | None = None, **options: Any) -> SignedIn:
    is_exec = options.pop("is_exec", False)
    return sign_in(provider, LoginSettings(home=str(home), **options), environ=env or {}, is_exec=is_exec)


def bearer(signed_in: SignedIn) -> str | None:
    return signed_in.credential.authorization().get("authorization")


@pytest.mark.parametrize(
    ("stored", "env", "is_exec", "expected"),
    [
        ({"auth_mode": "apikey", "OPENAI_API_KEY": "stored"}, {}, False, "Bearer stored"),
        ({"OPENAI_API_KEY": "stored"}, {"OPENAI_API_KEY": "variable"}, False, "Bearer stored"),
        (None, {"OPENAI_API_KEY": " variable\n"}, False, "Bearer variable"),
        ({"OPENAI_API_KEY": "stored"}, {"CODEX_API_KEY": "exec"}, True, "Bearer exec"),
        ({"OPENAI_API_KEY": "stored"}, {"CODEX_API_KEY": "exec"}, False, "Bearer stored"),
        ({"OPENAI_API_KEY": "stored"}, {"CODEX_API_KEY": " "}, True, "Bearer stored"),
        ({"auth_mode": "apikey", **chatgpt(), "OPENAI_API_KEY": "k"} | {"auth_mode": "apikey"}, {}, False, "Bearer k"),
        (chatgpt() | {"OPENAI_API_KEY": "k"}, {}, False, "Bearer access-1"),
        (chatgpt() | {"OPENAI_API_KEY": "k", "auth_mode": None}, {}, False, "Bearer k"),
        ({"OPENAI_API_KEY": None, "tokens": None}, {"OPENAI_API_KEY": "variable"}, False, "Bearer variable"),
    ],
)
def test_the_built_in_provider_gets_the_first_key_there_is(
    tmp_path: Path, stored: dict[str, Any] | None, env: dict[str, str], is_exec: bool, expected: str
):
    if stored is not None:
        store(tmp_path, **stored)
    signed_in = sign(tmp_path, env=env, is_exec=is_exec)
    assert (bearer(signed_in), signed_in.warnings) == (expected, [])
    assert expected.removeprefix("Bearer ") in signed_in.credential.secrets()


@pytest.mark.parametrize(
    ("provider", "env", "expected"),
    [
        (OTHER, {"OPENAI_API_KEY": "variable", "CODEX_API_KEY": "exec"}, None),
        (Provider(id="lab", name="OpenAI", base_url="http://lab/v1"), {}, None),
        (Provider(id="lab", name="Lab", base_url="http://lab/v1", bearer_token="literal"), {}, "Bearer literal"),
        (Provider(id="lab", name="Lab", bearer_token="literal", env_key="K"), {"K": "named"}, "Bearer named"),
        (Provider(id="lab", name="Lab", env_key="K", requires_openai_auth=True), {"K": "named"}, "Bearer named"),
        (Provider(id="lab", name="Lab", requires_openai_auth=True), {"CODEX_API_KEY": "exec"}, "Bearer stored"),
    ],
)
def test_other_providers_never_get_the_stored_login_unless_they_ask_for_it(
    tmp_path: Path, provider: Provider, env: dict[str, str], expected: str | None
):
    store(tmp_path, auth_mode="apikey", OPENAI_API_KEY="stored")
    assert bearer(sign(tmp_path, provider, env, is_exec=True)) == expected


def test_a_provider_that_needs_no_login_does_not_even_read_the_file(tmp_path: Path):
    (tmp_path / "auth.json").write_text("broken")
    assert bearer(sign(tmp_path, OTHER)) is None


LAB = Provider(id="lab", name="Lab", requires_openai_auth=True)


@pytest.mark.parametrize(
    ("provider", "env", "text"),
    [
        (OPENAI, {}, SIGN_IN_HELP),
        (OPENAI, {"OPENAI_API_KEY": " "}, f"OPENAI_API_KEY is set, but empty. {SIGN_IN_HELP}"),
        (
            LAB,
            {"OPENAI_API_KEY": "not for this one"},
            "Not signed in: Lab takes the stored login, so run `spindle login` or `spindle login --with-api-key`.",
        ),
    ],
)
def test_without_any_key_the_first_request_says_how_to_sign_in(
    tmp_path: Path, provider: Provider, env: dict[str, str], text: str
):
    for way in ("`spindle login` to sign in", "spindle login --with-api-key", "OPENAI_API_KEY", "--oss"):
        assert way in SIGN_IN_HELP
    with pytest.raises(ModelError) as raised:
        sign(tmp_path, provider, env).credential.authorization()
    assert (str(raised.value), raised.value.info) == (text, "unauthorized")


async def test_who_signs_in_later_need_not_open_the_thread_again(tmp_path: Path):
    signed_in = sign(tmp_path)
    credential = signed_in.credential
    assert await credential.prepare() is None and not await credential.refresh()
    (tmp_path / "auth.json").write_text("damaged")
    assert await credential.prepare() is None
    with pytest.raises(ModelError, match="Not signed in"):
        credential.authorization()
    store(tmp_path, **chatgpt())
    reached = await credential.prepare()
    assert reached is not None and reached.base_url == "https://chatgpt.com/backend-api/codex"
    assert credential.authorization()["authorization"] == "Bearer access-1" and "access-1" in credential.secrets()
    assert credential.origin().is_login and await credential.prepare() is None


def test_every_key_knows_where_it_came_from_and_what_to_do_when_it_is_refused(tmp_path: Path):
    key = "sk-proj-0123456789abcdefghij"
    login = "`spindle login --with-api-key`"

    def told(provider: Provider, env: dict[str, str] | None = None) -> tuple[str, str, str]:
        origin = sign(tmp_path, provider, env or {}, is_exec=True).credential.origin()
        return origin.place, origin.shown, origin.remedy

    for name in ("CODEX_API_KEY", "OPENAI_API_KEY"):
        remedy = f"set {name} to a valid key, or unset it and run {login}"
        assert told(OPENAI, {name: key}) == (f"the key in {name}", "sk-proj-***fghij", remedy)
    lab = Provider(id="lab", name="Lab", env_key="LAB_KEY", env_key_instructions="Ask Ann.")
    assert told(lab, {"LAB_KEY": key})[2] == "set LAB_KEY to a valid key (Ask Ann)"
    place = "experimental_bearer_token of [model_providers.lab]"
    assert told(Provider(id="lab", name="Lab", bearer_token="short")) == (place, "***", "set it to a valid key")
    store(tmp_path, auth_mode="apikey", OPENAI_API_KEY=key)
    stored = (f"the key in {tmp_path}/auth.json", "sk-proj-***fghij", f"store a valid one with {login}")
    assert told(OPENAI) == stored
    also = "; OPENAI_API_KEY is set too, and counts after `spindle logout`"
    assert told(OPENAI, {"OPENAI_API_KEY": "other"}) == (*stored[:2], stored[2] + also)
    assert told(OTHER) == ("", "", "")


def test_the_key_in_the_environment_goes_to_the_built_in_provider_only(tmp_path: Path):
    provider = Provider(id="lab", name="Lab", requires_openai_auth=True)
    with pytest.raises(ModelError, match="Not signed in"):
        sign(tmp_path, provider, {"OPENAI_API_KEY": "variable"}).credential.authorization()


def test_a_missing_variable_is_named_when_a_request_is_made(tmp_path: Path):
    provider = Provider(id="lab", name="Lab", env_key="LAB_KEY", env_key_instructions="Ask the lab.")
    signed_in = sign(tmp_path, provider, {"LAB_KEY": " "})
    with pytest.raises(ModelError, match=r"LAB_KEY.*Ask the lab\."):
        signed_in.credential.authorization()


@pytest.mark.parametrize(
    ("base_url", "chatgpt_base_url", "expected"),
    [
        ("https://api.openai.com/v1", None, "https://chatgpt.com/backend-api/codex"),
        ("https://api.openai.com/v1", "http://127.0.0.1:2/backend-api", "http://127.0.0.1:2/backend-api/codex"),
        ("http://127.0.0.1:1/v1", "http://127.0.0.1:2/backend-api", "http://127.0.0.1:1/v1"),
    ],
)
def test_a_chatgpt_sign_in_has_its_own_address_and_names_the_account(
    tmp_path: Path, base_url: str, chatgpt_base_url: str | None, expected: str
):
    store(tmp_path, **chatgpt())
    provider = Provider(id="openai", name="OpenAI", base_url=base_url)
    signed_in = sign(tmp_path, provider, chatgpt_base_url=chatgpt_base_url)
    assert signed_in.provider.base_url == expected
    assert signed_in.credential.authorization() == {"authorization": "Bearer access-1", "ChatGPT-Account-ID": "acc-1"}


@pytest.mark.parametrize(
    ("tokens", "account"),
    [
        ({"account_id": "given"}, "given"),
        ({"id_token": "x", "access_token": token("from-access")}, "from-access"),
        ({"id_token": "a.!!!.b"}, None),
        ({"id_token": f"a.{base64.urlsafe_b64encode(b'[1]').decode()}.b"}, None),
        ({"id_token": token("a\r\nX-Evil: 1")}, None),
    ],
)
def test_the_account_is_read_from_the_file_or_the_token(tmp_path: Path, tokens: dict[str, str], account: str | None):
    store(tmp_path, **chatgpt(**tokens))
    assert sign(tmp_path).credential.authorization().get("ChatGPT-Account-ID") == account


@pytest.mark.parametrize(
    ("forced", "stored", "message"),
    [
        ("api", chatgpt(), "forced_login_method is api"),
        ("chatgpt", {"OPENAI_API_KEY": "k"}, "forced_login_method is chatgpt"),
    ],
)
def test_a_way_to_sign_in_that_is_not_allowed_is_not_used(
    tmp_path: Path, forced: str, stored: dict[str, Any], message: str
):
    store(tmp_path, **stored)
    signed_in = sign(tmp_path, forced_method=forced)
    assert signed_in.provider == OPENAI
    with pytest.raises(ModelError, match=message):
        signed_in.credential.authorization()


def test_a_sign_in_to_another_workspace_than_the_allowed_one_is_not_used(tmp_path: Path):
    store(tmp_path, **chatgpt())
    assert bearer(sign(tmp_path, workspaces=("other", "acc-1"))) == "Bearer access-1"
    with pytest.raises(ModelError, match="forced_chatgpt_workspace_id"):
        sign(tmp_path, workspaces=("other",)).credential.authorization()


def test_a_file_that_others_can_read_is_closed_to_them_with_a_warning(tmp_path: Path):
    path = store(tmp_path, OPENAI_API_KEY="k")
    path.chmod(0o644)
    assert sign(tmp_path).warnings == [f"{path} could be read by others (mode 0644); it is now private (0600)"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert sign(tmp_path).warnings == []


@pytest.mark.parametrize("content", [b"", b'{"OPENAI_API_KEY": "sk-secret', b"[]", b"\xff", b'"sk-secret"'])
def test_a_damaged_file_is_an_error_that_does_not_quote_it(tmp_path: Path, content: bytes):
    (tmp_path / "auth.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"auth\.json is damaged") as raised:
        sign(tmp_path)
    assert "sk-secret" not in str(raised.value) and raised.value.__cause__ is None


async def test_keys_are_not_renewed(tmp_path: Path):
    store(tmp_path, OPENAI_API_KEY="k")
    assert not await sign(tmp_path).credential.refresh()
    os.unlink(tmp_path / "auth.json")
    assert not await sign(tmp_path).credential.refresh()


def test_a_key_that_is_changed_while_the_session_runs_is_masked_from_then_on(tmp_path: Path) -> None:
    environ = {"LAB_KEY": "the-first-key-0123"}
    secrets = session_secrets(
        {},
        Secured(OTHER, EnvCredential("LAB_KEY", environ=environ)),
        home=str(tmp_path),
        variables=(),
        given={},
        mask="known",
        unmasked=(),
    )
    assert secrets.mask_known("the-first-key-0123") == "[secret: API key]"
    environ["LAB_KEY"] = "the-second-key-4567"
    assert secrets.mask_known("the-first-key-0123 the-second-key-4567") == "[secret: API key] [secret: API key]"
    assert secrets.mask_json(b'"the-second-key-4567"') == b'"[secret: API key]"'
    del environ["LAB_KEY"]
    assert secrets.mask_known("the-second-key-4567") == "[secret: API key]"


@pytest.mark.parametrize(
    ("address", "env", "is_said"),
    [
        ("http://lab.example/v1", {"LAB_KEY": "k"}, True),
        ("HTTP://192.168.1.7:8000/v1", {"LAB_KEY": "k"}, True),
        ("https://lab.example/v1", {"LAB_KEY": "k"}, False),
        ("http://127.0.0.1:8000/v1", {"LAB_KEY": "k"}, False),
        ("http://localhost:8000/v1", {"LAB_KEY": "k"}, False),
        ("http://lab.example/v1", {}, False),
    ],
)
def test_a_key_that_is_sent_without_encryption_is_said(
    address: str, env: dict[str, str], is_said: bool, tmp_path: Path
) -> None:
    provider = Provider(id="lab", name="Lab", base_url=address, env_key="LAB_KEY")
    warnings = sign(tmp_path, provider, env).warnings
    assert len(warnings) == int(is_said) and all("Lab is sent without encryption" in text for text in warnings)
