"""A real MCP server behind an address, in a thread of the tests. What it does is set by its attributes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOOL = {"name": "a", "description": "does a", "inputSchema": {}, "annotations": {"readOnlyHint": True}}


class HttpStub:
    """`with HttpStub() as server:`; `server.url` is its address."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        """Method, headers and message of everything that came."""
        self.answers_by_events = False
        self.has_stream = False
        self.said: list[Any] = []
        """What the stream for the server's own messages says."""
        self.token: str | None = None
        """Who does not send it is refused."""
        self.documents: dict[str, Any] = {}
        """What lies at other paths than that of the server, for whoever looks."""
        self.expired: set[str] = set()
        self.sessions = 0
        self.override: Callable[[Any], tuple[int, dict[str, str], bytes] | None] = lambda message: None
        self.tools: list[Any] = [TOOL]
        self.stop = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def __enter__(self) -> HttpStub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def methods(self) -> list[str]:
        return [message.get("method", "answer") for method, _, message in self.requests if method == "POST"]

    def result(self, message: dict[str, Any]) -> dict[str, Any]:
        match message["method"]:
            case "initialize":
                version = message["params"]["protocolVersion"]
                return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "stub"}}
            case "tools/list":
                return {"tools": self.tools}
            case _:
                return {"content": [{"type": "text", "text": f"said {message['params']['arguments'].get('text')}"}]}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in {**headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                with suppress(BrokenPipeError):  # nobody waits for it any more
                    self.wfile.write(body)

            def is_known(self) -> bool:
                if stub.token is not None and self.headers.get("authorization") != f"Bearer {stub.token}":
                    place = f'Bearer resource_metadata="{stub.origin}/.well-known/oauth-protected-resource"'
                    self.reply(401, {"www-authenticate": place}, b"")
                    return False
                return True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                message = json.loads(body)
                stub.requests.append(("POST", {k.lower(): v for k, v in self.headers.items()}, message))
                if not self.is_known():
                    return
                if (given := stub.override(message)) is not None:
                    self.reply(*given)
                    return
                if self.headers.get("mcp-session-id") in stub.expired:
                    self.reply(404, {}, b"")
                    return
                if "id" not in message or "method" not in message:
                    self.reply(202, {}, b"")
                    return
                answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": stub.result(message)})
                headers = {"content-type": "application/json"}
                if message["method"] == "initialize":
                    stub.sessions += 1
                    headers["mcp-session-id"] = f"session-{stub.sessions}"
                if stub.answers_by_events:
                    headers["content-type"] = "text/event-stream"
                    progress = json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
                    answer = f": hello\n\ndata: {progress}\n\nevent: message\nid: 7\ndata: {answer}\n\n"
                self.reply(200, headers, answer.encode())

            def do_GET(self) -> None:
                if self.path != "/mcp":
                    found = stub.documents.get(self.path)
                    self.reply(404 if found is None else 200, {}, json.dumps(found).encode())
                    return
                stub.requests.append(("GET", {k.lower(): v for k, v in self.headers.items()}, {}))
                if not self.is_known():
                    return
                if not stub.has_stream:
                    self.reply(405, {}, b"")
                    return
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                for message in stub.said:
                    self.wfile.write(f"data: {json.dumps(message)}\n\n".encode())
                self.wfile.flush()
                stub.stop.wait(30)
                self.close_connection = True

            def do_DELETE(self) -> None:
                stub.requests.append(("DELETE", {k.lower(): v for k, v in self.headers.items()}, {}))
                self.reply(200, {}, b"")

        return Handler
