"""Signing in to a server: the installed command, a browser played by the test, and what sessions make of the tokens."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from installed import wait_for
from mcp_servers.auth_stub import AuthStub
from mcp_servers.http_stub import HttpStub
from mcp_servers.kit import servers
from mcp_servers.test_servers import warnings
from sessions import Driver, Start, outputs
from spindle.auth.loopback import owner_of_peer
from spindle.auth.mcp_http import SignIn, Web
from spindle.auth.mcp_tokens import all_tokens, forget_tokens, store_tokens
from spindle.errors import McpError
from spindle.mcp.spec import McpServer
from spindle.mcp.tokens import Tokens
from spindle.model.scripted import calls, says
from spindle.protocol.clock import SystemClock
from spindle.thread.private_files import try_lock

Run = Callable[..., subprocess.Popen[str]]
TOKENS = "mcp-tokens.json"


@pytest.fixture
def auth() -> Iterator[AuthStub]:
    with AuthStub() as running:
        yield running


@pytest.fixture
def remote(auth: AuthStub) -> Iterator[HttpStub]:
    """A server that lets in who shows what `auth` gives, and says so."""
    with HttpStub() as running:
        running.token = auth.access_token
        described = {"resource": running.url, "authorization_servers": [auth.origin], "scopes_supported": ["read"]}
        running.documents["/.well-known/oauth-protected-resource"] = described
        yield running


@pytest.fixture
def codex_home(tmp_path: Path, remote: HttpStub) -> Path:
    folder = tmp_path / "codex-home"
    folder.mkdir(exist_ok=True)
    tables = f'[mcp_servers.web]\nurl = "{remote.url}"\n[mcp_servers.tool]\ncommand = "x"\nenabled = false\n'
    (folder / "config.toml").write_text(tables)
    return folder


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    """What a desktop was asked to open, one word of the command a line."""
    return tmp_path / "opened"


@pytest.fixture
def mcp(spindle_cmd: list[str], codex_home: Path, tmp_path: Path, opened: Path) -> Iterator[Run]:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "xdg-open").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {opened}.part\nmv {opened}.part {opened}\n')
    (programs / "xdg-open").chmod(0o755)
    started: list[subprocess.Popen[str]] = []

    def run(*words: str, display: str = "") -> subprocess.Popen[str]:
        env = {"CODEX_HOME": str(codex_home), "HOME": str(tmp_path), "PATH": f"{programs}:/usr/bin:/bin"}
        process = subprocess.Popen(
            [*spindle_cmd, "mcp", *words],
            cwd=codex_home,
            env={**env, "DISPLAY": display},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def shown_address(process: subprocess.Popen[str]) -> str:
    """What the command says must be opened."""
    assert process.stdout is not None and process.stderr is not None
    for line in process.stdout:
        if line.startswith("http"):
            return line.strip()
    raise AssertionError(process.stderr.read())


def get(address: str, host: str | None = None) -> tuple[int, str]:
    """Status, and where the browser is sent."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    connection.request("GET", f"{parts.path}?{parts.query}", headers={"Host": host or parts.netloc})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, answer.headers.get("location", "")


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=30)
    assert "Traceback" not in err
    return process.returncode, out, err


def sign_in(mcp: Run, remote: HttpStub, auth: AuthStub) -> None:
    process = mcp("login", "web")
    assert get(get(shown_address(process))[1])[0] == 200
    code, out, err = end(process)
    assert (code, out.strip(), err) == (0, "Signed in to MCP server 'web'.", "")
    remote.token = auth.access_token


async def used(start: Start, remote: HttpStub, *, text: str = "hello") -> Driver:
    step = calls("mcp__web__a", {"text": text}, "c1")
    driver = await start(step, says("done"), config=servers(web={"url": remote.url}))
    await driver.turn("hi")
    return driver


# ---- signing in ------------------------------------------------------------------------------------


async def test_who_has_signed_in_is_let_in(
    mcp: Run, remote: HttpStub, auth: AuthStub, start: Start, codex_home: Path, opened: Path
) -> None:
    process = mcp("login", "web", "--scopes", "read,write")
    address = shown_address(process)
    query = parse_qs(urlsplit(address).query)
    found = (query["resource"], query["scope"], query["code_challenge_method"])
    assert found == ([remote.url], ["read write"], ["S256"])
    status, back = get(address)
    assert status == 302 and get(back)[0] == 200
    assert end(process)[0] == 0 and not opened.exists(), "there is no desktop"
    assert (codex_home / TOKENS).stat().st_mode & 0o777 == 0o600
    remote.token = auth.access_token
    driver = await used(start, remote)
    assert outputs(driver.inputs[-1])["c1"].endswith("said hello") and warnings(driver) == []
    assert json.loads(end(mcp("list", "--json"))[1])[1]["auth_status"] == "o_auth"


def test_a_desktop_is_asked_to_open_the_address_as_one_word_after_its_host_was_shown(mcp: Run, opened: Path) -> None:
    process = mcp("login", "web", display=":7")
    assert process.stdout is not None
    first = process.stdout.readline()
    address = shown_address(process)
    assert f"at {urlsplit(address).netloc}," in first
    assert get(get(address)[1])[0] == 200 and end(process)[0] == 0
    wait_for(opened.exists, "nothing was opened")
    assert opened.read_text().splitlines() == [address]


@pytest.mark.parametrize(
    "described",
    [
        {"authorization_endpoint": "file:///etc/passwd"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "-a Calculator"},
        {"authorization_endpoint": "http://evil.example/authorize"},
        {"authorization_endpoint": "https://user@evil.example/authorize"},
        {"authorization_endpoint": ["https://evil.example"]},
        {"token_endpoint": "http://evil.example/token"},
        {"token_endpoint": None},
        {"registration_endpoint": "ftp://evil.example/"},
        {"registration_endpoint": None},
        {"issuer": "https://somebody-else.example"},
        {"code_challenge_methods_supported": ["plain"]},
    ],
    ids=str,
)
def test_nothing_is_opened_or_sent_to_an_address_that_is_no_web_address(
    mcp: Run, auth: AuthStub, codex_home: Path, opened: Path, described: dict[str, Any]
) -> None:
    auth.more = described
    code, out, err = end(mcp("login", "web", display=":7"))
    assert (code, out) == (1, "") and err.startswith("error: ") and len(err.splitlines()) == 1
    assert not opened.exists() and not (codex_home / TOKENS).exists()


def test_a_server_that_speaks_for_another_is_refused(mcp: Run, remote: HttpStub) -> None:
    remote.documents["/.well-known/oauth-protected-resource"]["resource"] = "https://bank.example/mcp"
    code, _, err = end(mcp("login", "web"))
    assert code == 1 and "https://bank.example/mcp" in err


def test_only_the_browser_with_our_own_state_is_heard_and_only_under_our_own_name(mcp: Run, auth: AuthStub) -> None:
    process = mcp("login", "web")
    _, back = get(shown_address(process))
    assert get(back.partition("?")[0] + "?code=evil&state=guessed")[0] == 400
    assert get(back, host="evil.example")[0] == 403
    assert get(back.replace("/callback", "/other"))[0] == 404
    assert get(back)[0] == 200 and end(process)[0] == 0
    assert [form["code"] for form in auth.forms] == ["code-0"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("error=access_denied", "the sign-in was refused: access_denied"),
        ("code=evil&iss=https://other.example", "the answer of the browser comes from another authorisation server"),
        ("code=evil", "the request for a token was refused with status 400 (invalid_grant)"),
        ("", "the answer of the browser holds no code"),
    ],
)
def test_what_goes_wrong_in_the_browser_is_told(mcp: Run, codex_home: Path, answer: str, said: str) -> None:
    process = mcp("login", "web")
    _, back = get(shown_address(process))
    state = parse_qs(urlsplit(back).query)["state"][0]
    assert get(f"{back.partition('?')[0]}?{answer}&state={state}")[0] == 200
    code, _, err = end(process)
    assert (code, err) == (1, f"error: {said}\n") and not (codex_home / TOKENS).exists()


@pytest.mark.parametrize(("name", "said"), [("tool", "is a program"), ("nope", "there is no MCP server 'nope'")])
def test_what_cannot_be_signed_in_to_is_said(mcp: Run, name: str, said: str) -> None:
    code, out, err = end(mcp("login", name))
    assert (code, out) == (1, "") and said in err


def test_a_plain_http_server_elsewhere_is_not_signed_in_to(mcp: Run, codex_home: Path) -> None:
    (codex_home / "config.toml").write_text('[mcp_servers.web]\nurl = "http://192.0.2.1/mcp"\n')
    code, _, err = end(mcp("login", "web"))
    assert code == 1 and "is not an https address" in err


def test_a_sign_in_can_be_forgotten(mcp: Run, remote: HttpStub, auth: AuthStub, codex_home: Path) -> None:
    sign_in(mcp, remote, auth)
    assert end(mcp("logout", "web"))[1] == "Signed out of MCP server 'web'.\n"
    assert "access-token" not in (codex_home / TOKENS).read_text()
    assert end(mcp("logout", "web"))[1] == "Nobody was signed in to an MCP server named 'web'.\n"
    sign_in(mcp, remote, auth)
    assert end(mcp("remove", "web"))[0] == 0
    assert "access-token" not in (codex_home / TOKENS).read_text()


# ---- being signed in -------------------------------------------------------------------------------


async def test_a_token_that_is_refused_is_renewed_and_kept_and_every_one_stays_secret(
    mcp: Run, remote: HttpStub, auth: AuthStub, start: Start, codex_home: Path
) -> None:
    sign_in(mcp, remote, auth)

    def until(number: int) -> Any:
        """The server wants another token; the model asks it to repeat what nobody but us should know."""

        def step(_: Any) -> Any:
            auth.tokens, remote.token = number - 1, f"access-token-number-{number}"
            texts = f"access-token-number-{number} refresh-token-number-{number}"
            return calls("mcp__web__a", {"text": texts}, f"c{number}")

        return step

    driver = await start(until(7), until(8), says("done"), config=servers(web={"url": remote.url}))
    await driver.turn("hi")
    assert [form["grant_type"] for form in auth.forms] == ["authorization_code", "refresh_token", "refresh_token"]
    for told in outputs(driver.inputs[-1]).values():
        assert "said" in told and "access-token-number" not in told and "refresh-token-number" not in told
    [kept] = json.loads((codex_home / TOKENS).read_text())
    assert (kept["access_token"], kept["refresh_token"]) == ("access-token-number-8", "refresh-token-number-8")


async def test_a_token_that_has_run_out_is_renewed_before_it_is_used(
    mcp: Run, remote: HttpStub, auth: AuthStub, start: Start, codex_home: Path
) -> None:
    sign_in(mcp, remote, auth)
    [kept] = json.loads((codex_home / TOKENS).read_text())
    (codex_home / TOKENS).write_text(json.dumps([{**kept, "expires_at": 1.0}]))
    remote.token = "access-token-number-2"
    remote.requests.clear()
    driver = await used(start, remote)
    assert outputs(driver.inputs[-1])["c1"].endswith("said hello")
    assert {headers.get("authorization") for _, headers, _ in remote.requests} == {"Bearer access-token-number-2"}


async def test_who_cannot_renew_is_asked_to_sign_in_again(
    mcp: Run, remote: HttpStub, auth: AuthStub, start: Start
) -> None:
    sign_in(mcp, remote, auth)
    auth.refuses_renewal = True
    remote.token = "another"
    driver = await used(start, remote)
    assert warnings(driver) == [
        "MCP server web is missing: the request for a token was refused with status 400 (invalid_grant); "
        "sign in again with `spindle mcp login web`"
    ]


async def test_a_token_is_for_the_address_it_was_given_for(
    mcp: Run, remote: HttpStub, auth: AuthStub, start: Start
) -> None:
    sign_in(mcp, remote, auth)
    with HttpStub() as other:
        driver = await start(says("done"), config=servers(web={"url": other.url}))
        await driver.turn("hi")
        assert other.requests and not any("authorization" in headers for _, headers, _ in other.requests)
        await driver.close()


# ---- other sessions, other users -------------------------------------------------------------------


def tokens_of(server: str, access: str = "access") -> Tokens:
    url = "https://mcp.example/"
    return Tokens(server=server, url=url, token_endpoint=url, client_id="c", access_token=access, refresh_token="r")


def test_what_another_session_stores_at_the_same_time_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one stores tokens while ours waits for the lock; ours are added to those."""
    store_tokens(str(tmp_path), tokens_of("first"))
    stored = (tmp_path / TOKENS).read_text().replace("first", "third")

    def meanwhile(fd: int) -> None:
        (tmp_path / TOKENS).write_text(stored)
        assert try_lock(fd)
        with open(f"{tmp_path}/{TOKENS}.lock", "rb") as other:
            assert not try_lock(other.fileno()), "nobody else can write now"

    monkeypatch.setattr("spindle.auth.mcp_tokens.wait_for_lock", meanwhile)
    store_tokens(str(tmp_path), tokens_of("second"))
    assert [tokens.server for tokens in all_tokens(str(tmp_path))] == ["third", "second"]
    assert forget_tokens(str(tmp_path), "third") and not forget_tokens(str(tmp_path), "absent")


def test_sessions_that_store_tokens_at_once_lose_none(tmp_path: Path) -> None:
    names = [f"server-{number}" for number in range(12)]
    threads = [threading.Thread(target=store_tokens, args=(str(tmp_path), tokens_of(name))) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(tokens.server for tokens in all_tokens(str(tmp_path))) == sorted(names)


async def test_tokens_that_another_session_renewed_first_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = str(tmp_path)
    store_tokens(home, tokens_of("web"))

    async def too_late(*_: Any) -> Tokens:
        store_tokens(home, tokens_of("web", "renewed"))
        raise McpError("the refresh token was used already")

    monkeypatch.setattr("spindle.mcp.oauth.renew", too_late)
    spec = McpServer(name="web", url="https://mcp.example/")
    web = Web()
    signed = SignIn(spec, home, web, SystemClock(), lambda value, name: None)
    assert await signed.headers(False) == {"authorization": "Bearer access"}
    assert await signed.headers(True) == {"authorization": "Bearer renewed"}
    await web.aclose()


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="takes another user's rights")
def test_another_user_who_saw_the_address_cannot_answer_for_the_person(
    mcp: Run, remote: HttpStub, auth: AuthStub
) -> None:
    process = mcp("login", "web")
    back = get(shown_address(process))[1]
    script = f"import urllib.request as u; u.urlopen({back!r})"
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", script], user=54321, group=54321, capture_output=True, text=True
    )
    assert "HTTP Error 403" in done.stderr and process.poll() is None
    assert get(back)[0] == 200 and end(process)[0] == 0


def test_whose_a_connection_is_is_read_from_the_kernel(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, peer = server.accept()
        with accepted:
            uid = owner_of_peer(peer, accepted.getsockname())
            assert uid == (os.geteuid() if sys.platform == "linux" else None)
            assert owner_of_peer(peer, accepted.getsockname(), str(tmp_path / "none")) is None
            assert owner_of_peer(("127.0.0.2", 1), client.getsockname()) is None
