"""A real authorisation server in a thread of the tests: it registers programs, lets everybody in, and gives tokens."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit


class AuthStub:
    """`with AuthStub() as server:`; it checks all that a careful authorisation server checks."""

    def __init__(self) -> None:
        self.clients: dict[str, list[str]] = {}
        """The addresses to come back to, by the id of the program."""
        self.asked: dict[str, dict[str, str]] = {}
        """What the browser brought, by the code that was given for it."""
        self.tokens = 0
        self.refresh_token = ""
        self.forms: list[dict[str, str]] = []
        self.refuses_renewal = False
        self.more: dict[str, Any] = {}
        """What the description of the server says otherwise; None takes a member out."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def access_token(self) -> str:
        """The one that counts now."""
        return f"access-token-number-{self.tokens}"

    def __enter__(self) -> AuthStub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def described(self) -> dict[str, Any]:
        found = {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "code_challenge_methods_supported": ["S256"],
            **self.more,
        }
        return {key: value for key, value in found.items() if value is not None}

    def give(self) -> dict[str, Any]:
        self.tokens += 1
        self.refresh_token = f"refresh-token-number-{self.tokens}"
        given = {"access_token": self.access_token, "refresh_token": self.refresh_token}
        return {**given, "token_type": "Bearer", "expires_in": 3600}

    def token(self, form: dict[str, str]) -> dict[str, Any] | None:
        self.forms.append(form)
        if form["grant_type"] == "refresh_token":
            is_good = form["refresh_token"] == self.refresh_token and not self.refuses_renewal
            return self.give() if is_good else None
        asked = self.asked.pop(form["code"], {})
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        is_good = (
            asked.get("code_challenge") == base64.urlsafe_b64encode(digest).decode().rstrip("=")
            and asked["code_challenge_method"] == "S256"
            and all(asked[key] == form[key] for key in ("client_id", "redirect_uri", "resource"))
        )
        return self.give() if is_good else None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def reply(self, status: int, value: Any, **headers: str) -> None:
                body = json.dumps(value).encode()
                self.send_response(status)
                for name, text in {**headers, "content-length": str(len(body))}.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/.well-known/oauth-authorization-server":
                    self.reply(200, stub.described())
                elif parts.path == "/authorize":
                    asked = dict(parse_qsl(parts.query))
                    assert asked["redirect_uri"] in stub.clients[asked["client_id"]]
                    code = f"code-{len(stub.asked)}"
                    stub.asked[code] = asked
                    answer = urlencode({"code": code, "state": asked["state"], "iss": stub.origin})
                    self.reply(302, None, location=f"{asked['redirect_uri']}?{answer}")
                else:
                    self.reply(404, None)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                if self.path == "/register":
                    client = f"client-{len(stub.clients)}"
                    stub.clients[client] = json.loads(body)["redirect_uris"]
                    self.reply(201, {"client_id": client})
                elif (given := stub.token(dict(parse_qsl(body)))) is not None:
                    self.reply(200, given)
                else:
                    self.reply(400, {"error": "invalid_grant", "error_description": "no"})

        return Handler
