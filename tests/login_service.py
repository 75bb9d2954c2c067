"""A login service and the model server behind it, for tests: authorisation codes with PKCE, device codes, tokens.

    with LoginService() as service:
        service.store(home)                      # somebody is signed in already
        service.expire()                         # the model server no longer takes the token
        service.refreshes                        # what was asked of /oauth/token to renew it

Refresh tokens work once. What is wrong in a request is answered with 400, and noted in `problems`.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from fake_server import FakeServer, Received, Turn

CLIENT_ID = "app_EMoamEEZ73f0CkXaXp7hrann"


def token(**claims: Any) -> str:
    """A token as login services make them: three parts, the middle one JSON."""
    return f"head.{base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b'=').decode()}.sig"


@contextmanager
def login_port() -> Iterator[None]:
    """The port that the browser comes back to is a fixed one, so one test at a time uses it, whoever runs it."""
    path = f"{tempfile.gettempdir()}/agent-conformance-login.lock"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # it may belong to another user
    except FileNotFoundError:
        fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        os.fchmod(fd, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def form_of(received: Received) -> dict[str, str]:
    if received.headers.get("content-type", "").startswith("application/json"):
        return json.loads(received.body)
    return {name: values[0] for name, values in parse_qs(received.body.decode()).items()}


class LoginService(FakeServer):
    def __init__(self, account: str = "acc-1", plan: str = "pro") -> None:
        super().__init__()
        self.account, self.plan = account, plan
        self.denies: str | None = None
        """The person says no, in this word."""
        self.device_waits = 1
        """So many questions about a device code are answered with 403."""
        self.device_troubles: list[int] = []
        """With which statuses the first questions about a device code are answered."""
        self.answers: dict[str, Turn] = {}
        """By path: what is answered instead."""
        self.before_refresh: Callable[[], None] = lambda: None
        self.before_exchange: Callable[[], None] = lambda: None
        self._refused = 0
        self._most_refused = 0
        self._all_refused = asyncio.Event()
        self.problems: list[str] = []
        self.codes: dict[str, tuple[str, str]] = {}
        self.good: set[str] = set()
        """Access tokens that the model server takes."""
        self.fresh: set[str] = set()
        """Refresh tokens that were not used yet."""
        self._made = 0

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def posts(self, end: str) -> list[Received]:
        return [each for each in self.requests if each.method == "POST" and each.path.endswith(end)]

    @property
    def refreshes(self) -> list[dict[str, str]]:
        return [form for form in map(form_of, self.posts("/oauth/token")) if form.get("grant_type") == "refresh_token"]

    def mint(self, life_s: float = 3600) -> dict[str, str]:
        self._made += 1
        about = {"chatgpt_plan_type": self.plan, "chatgpt_account_id": self.account}
        claims = {"email": "ann@example.com", "exp": int(time.time() + life_s), "https://api.openai.com/auth": about}
        access, refresh = token(**claims, jti=f"at-{self._made}"), f"rt-{self._made}"
        self.good.add(access)
        self.fresh.add(refresh)
        return {"id_token": token(**claims), "access_token": access, "refresh_token": refresh}

    def expire(self) -> None:
        self.good.clear()

    def store(self, home: Path, life_s: float = 3600, **extra: Any) -> dict[str, Any]:
        tokens = {**self.mint(life_s), "account_id": self.account}
        made = {
            "auth_mode": "chatgpt",
            "OPENAI_API_KEY": None,
            "tokens": tokens,
            "last_refresh": "2026-01-01T00:00:00Z",
        }
        made |= extra
        path = home / "auth.json"
        path.write_text(json.dumps(made))
        path.chmod(0o600)
        return made

    def settings(self) -> str:
        """The lines of config.toml with which everything goes to this service."""
        base = f"{self.issuer}/backend-api"
        return (
            f'model_provider = "openai"\nopenai_base_url = "{base}/codex"\n[spindle.login]\nissuer = "{self.issuer}"\n'
        )

    def holds_refusals(self, number: int) -> None:
        """Requests with a stale token are answered when so many have come."""
        self._most_refused = number

    # ---- answering -------------------------------------------------------------------------------------

    async def _answer(self, received: Received, writer: asyncio.StreamWriter) -> bool:
        path = received.path.split("?")[0]
        if path.endswith("/responses") and path not in self.answers:
            if received.headers.get("authorization", "").removeprefix("Bearer ") in self.good:
                return await super()._answer(received, writer)
            self._refused += 1
            if self._refused >= self._most_refused:
                self._all_refused.set()
            await self._all_refused.wait()
            await self._send_whole(writer, _json({"error": {"message": "expired", "code": "token_expired"}}, 401))
            return True
        if path.endswith("/oauth/token") and form_of(received).get("grant_type") == "refresh_token":
            self.before_refresh()
        elif path.endswith("/oauth/token"):
            self.before_exchange()
        await self._send_whole(writer, self.answers.get(path) or self._reply(path, received))
        return True

    def _reply(self, path: str, received: Received) -> Turn:
        match path:
            case "/oauth/authorize":
                return self._authorize(received)
            case "/oauth/token":
                return self._tokens(form_of(received))
            case "/oauth/revoke":
                return _json({})
            case "/api/accounts/deviceauth/usercode":
                return _json({"device_auth_id": "device-1", "user_code": "ABCD-12345", "interval": "1"})
            case "/api/accounts/deviceauth/token":
                return self._device(form_of(received))
            case _:
                return self.pages.get(path, _json({}, 404))

    def _authorize(self, received: Received) -> Turn:
        query = {name: values[0] for name, values in parse_qs(urlsplit(received.path).query).items()}
        wanted = {"response_type": "code", "client_id": CLIENT_ID, "code_challenge_method": "S256"}
        if any(query.get(name) != value for name, value in wanted.items()):
            return self._bad(f"authorize: {query}")
        code = f"code-{len(self.codes)}"
        self.codes[code] = (query["code_challenge"], query["redirect_uri"])
        no = {"error": self.denies or "", "error_description": "the person said \x1b[31mno"}
        back = {**(no if self.denies else {"code": code}), "state": query["state"]}
        return Turn(status=302, headers={"location": f"{query['redirect_uri']}?{urlencode(back)}"})

    def _tokens(self, form: dict[str, str]) -> Turn:
        if form.get("client_id") != CLIENT_ID:
            return self._bad(f"token: client {form.get('client_id')}")
        if form.get("grant_type") == "refresh_token":
            if form.get("refresh_token") not in self.fresh:
                return _json({"error": {"message": "used before", "code": "refresh_token_reused"}}, 401)
            self.fresh.discard(form["refresh_token"])
            return _json(self.mint())
        made = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if self.codes.pop(form.get("code", ""), None) != (made.decode().rstrip("="), form.get("redirect_uri")):
            return self._bad("token: code, verifier and redirect_uri do not belong together")
        return _json(self.mint())

    def _device(self, form: dict[str, str]) -> Turn:
        if form != {"device_auth_id": "device-1", "user_code": "ABCD-12345"}:
            return self._bad(f"device: {form}")
        if self.device_troubles:
            return _json({}, self.device_troubles.pop(0))
        if len(self.posts("/deviceauth/token")) <= self.device_waits:
            return _json({"error": {"code": "deviceauth_authorization_pending"}}, 403)
        verifier = "v" * 64
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        self.codes["device-code"] = (challenge, f"{self.issuer}/deviceauth/callback")
        return _json({"authorization_code": "device-code", "code_challenge": challenge, "code_verifier": verifier})

    def _bad(self, problem: str) -> Turn:
        self.problems.append(problem)
        return _json({"error": {"message": problem, "code": "invalid_request"}}, 400)


def _json(value: Any, status: int = 200) -> Turn:
    return Turn(status=status, body=json.dumps(value).encode())
